/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/xdp/offender_map.h"

#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>

#include "xio/xdp/acl_map.h"

struct sl_offender_key sl_offender_key_of(const struct sl_addr *a)
{
	struct sl_offender_key key = {.family = a->family};

	memcpy(key.addr, a->addr, a->family == 4 ? 4 : 8);
	return key;
}

struct sl_addr sl_offender_addr(const struct sl_offender_key *key)
{
	struct sl_addr a = {.family = (uint8_t)key->family};

	memcpy(a.addr, key->addr, sizeof(key->addr));
	return a;
}

int sl_xdp_offender_add(const struct sl_xdp *x, const struct sl_xdp_offender *o)
{
	const struct sl_offender value = {.until_ns = o->until_ns};

	if (bpf_map_update_elem(x->map_fd[SL_MAP_OFFENDERS], &o->key, &value, BPF_ANY) < 0)
		return -errno;
	return sl_xdp_edge_offenders(x, true);
}

int sl_xdp_offender_remove(const struct sl_xdp *x, const struct sl_offender_key *key)
{
	return bpf_map_delete_elem(x->map_fd[SL_MAP_OFFENDERS], key) < 0 ? -errno : 0;
}

/* Begins with `first` set. Returns false at the end. */
static bool next_entry(const struct sl_xdp *x, struct sl_xdp_offender *o, bool *first)
{
	const int fd = x->map_fd[SL_MAP_OFFENDERS];
	const struct sl_offender_key last = o->key;
	struct sl_offender value;

	if (bpf_map_get_next_key(fd, *first ? NULL : &last, &o->key) < 0)
		return false;
	*first = false;
	o->until_ns = bpf_map_lookup_elem(fd, &o->key, &value) < 0 ? 0 : value.until_ns;
	return true;
}

uint32_t sl_xdp_offenders_tidy(const struct sl_xdp *x,
			       bool (*keep)(const void *arg, const struct sl_xdp_offender *o),
			       const void *arg)
{
	struct sl_xdp_offender o, next;
	bool first = true, more;
	uint32_t kept = 0;

	memset(&next, 0, sizeof(next));
	more = next_entry(x, &next, &first);
	/* Bounded: without its key an iteration begins again. */
	for (uint32_t i = 0; more && i < 2 * SL_MAX_OFFENDERS; i++) {
		o = next;
		more = next_entry(x, &next, &first);
		if (keep && keep(arg, &o))
			kept++;
		else
			(void)sl_xdp_offender_remove(x, &o.key);
	}
	if (!kept)
		(void)sl_xdp_edge_offenders(x, false);
	return kept;
}

uint32_t sl_xdp_offenders_list(const struct sl_xdp *x, struct sl_xdp_offender *list, uint32_t max)
{
	struct sl_xdp_offender o;
	bool first = true;
	uint32_t cnt = 0;

	memset(&o, 0, sizeof(o));
	while (cnt < max && next_entry(x, &o, &first))
		list[cnt++] = o;
	return cnt;
}
