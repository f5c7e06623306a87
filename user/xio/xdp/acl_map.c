/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/xdp/acl_map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/bpf.h>

union prefix_key {
	struct sl_prefix4 v4;
	struct sl_prefix6 v6;
};

static int map_of(const struct sl_xdp *x, uint8_t family)
{
	return x->map_fd[family == 4 ? SL_MAP_PREFIX4 : SL_MAP_PREFIX6];
}

static union prefix_key key_of(const struct sl_acl_rule *r)
{
	union prefix_key key;

	memset(&key, 0, sizeof(key));
	key.v4.len = r->prefix.len;
	if (r->prefix.family == 4)
		memcpy(key.v4.addr, r->prefix.addr, sizeof(key.v4.addr));
	else
		memcpy(key.v6.addr, r->prefix.addr, sizeof(key.v6.addr));
	return key;
}

static int read_edge(const struct sl_xdp *x, struct sl_edge *edge)
{
	const uint32_t zero = 0;

	return bpf_map_lookup_elem(x->map_fd[SL_MAP_EDGE], &zero, edge) < 0 ? -errno : 0;
}

static int write_edge(const struct sl_xdp *x, const struct sl_edge *edge)
{
	const uint32_t zero = 0;

	return bpf_map_update_elem(x->map_fd[SL_MAP_EDGE], &zero, edge, BPF_ANY) < 0 ? -errno : 0;
}

int sl_xdp_acl_vlan(const struct sl_xdp *x, uint32_t vlan)
{
	struct sl_edge edge;
	int rc = read_edge(x, &edge);

	if (rc)
		return rc;
	edge.vlan = vlan;
	return write_edge(x, &edge);
}

int sl_xdp_edge_mac(const struct sl_xdp *x, const uint8_t mac[6])
{
	struct sl_edge edge;
	int rc = read_edge(x, &edge);

	if (rc)
		return rc;
	memcpy(edge.mac, mac, sizeof(edge.mac));
	return write_edge(x, &edge);
}

int sl_xdp_edge_ports(const struct sl_xdp *x, uint16_t first, uint16_t last)
{
	struct sl_edge edge;
	int rc = read_edge(x, &edge);

	if (rc)
		return rc;
	edge.ports_first = first;
	edge.ports_last = last;
	return write_edge(x, &edge);
}

int sl_xdp_edge_offenders(const struct sl_xdp *x, bool some)
{
	struct sl_edge edge;
	int rc = read_edge(x, &edge);

	if (rc || edge.offenders == some)
		return rc;
	edge.offenders = some;
	return write_edge(x, &edge);
}

int sl_xdp_acl_set(const struct sl_xdp *x, const struct sl_acl_rule *r)
{
	const union prefix_key key = key_of(r);
	const struct sl_prefix value = {.action = r->action, .origin = r->origin};

	return bpf_map_update_elem(map_of(x, r->prefix.family), &key, &value, BPF_ANY) < 0 ? -errno
											   : 0;
}

int sl_xdp_acl_remove(const struct sl_xdp *x, const struct sl_acl_rule *r)
{
	const union prefix_key key = key_of(r);

	return bpf_map_delete_elem(map_of(x, r->prefix.family), &key) < 0 ? -errno : 0;
}

static void list_family(const struct sl_xdp *x, uint8_t family, struct sl_acl_rule *rules,
			uint32_t max, uint32_t *cnt)
{
	const int fd = map_of(x, family);
	union prefix_key key, next;
	struct sl_prefix value;
	bool first = true;

	/* Bounded, even if another process changes the map. */
	for (uint32_t i = 0; i < SL_MAX_PREFIXES; i++, first = false, key = next) {
		struct sl_acl_rule r = {.prefix.family = family};

		if (bpf_map_get_next_key(fd, first ? NULL : &key, &next) < 0)
			return;
		if (bpf_map_lookup_elem(fd, &next, &value) < 0)
			continue;
		r.prefix.len = (uint8_t)next.v4.len;
		r.action = (uint8_t)value.action;
		r.origin = (uint8_t)value.origin;
		memcpy(r.prefix.addr, family == 4 ? next.v4.addr : next.v6.addr,
		       family == 4 ? 4 : 16);
		if (*cnt < max)
			rules[*cnt] = r;
		(*cnt)++;
	}
}

int sl_xdp_acl_list(const struct sl_xdp *x, struct sl_acl_rule *rules, uint32_t max)
{
	uint32_t cnt = 0;

	list_family(x, 4, rules, max, &cnt);
	list_family(x, 6, rules, max, &cnt);
	return (int)cnt;
}

static int by_prefix(const void *a, const void *b)
{
	const struct sl_acl_rule *x = a, *y = b;

	if (x->prefix.family != y->prefix.family)
		return x->prefix.family - y->prefix.family;
	if (x->prefix.len != y->prefix.len)
		return x->prefix.len - y->prefix.len;
	return memcmp(x->prefix.addr, y->prefix.addr, sizeof(x->prefix.addr));
}

int sl_xdp_acl_apply(const struct sl_xdp *x, const struct sl_acl_rule *rules, uint32_t cnt)
{
	struct sl_acl_rule *there = calloc(2 * SL_MAX_PREFIXES, sizeof(*there)), *wanted;
	int there_cnt, rc = 0;

	wanted = calloc(cnt + 1, sizeof(*wanted));
	if (!there || !wanted) {
		free(there);
		free(wanted);
		return -ENOMEM;
	}
	if (cnt)
		memcpy(wanted, rules, cnt * sizeof(*wanted));
	qsort(wanted, cnt, sizeof(*wanted), by_prefix);
	there_cnt = sl_xdp_acl_list(x, there, 2 * SL_MAX_PREFIXES);
	qsort(there, (size_t)there_cnt, sizeof(*there), by_prefix);
	for (uint32_t i = cnt; i-- && !rc;) {
		const struct sl_acl_rule *is =
			bsearch(&wanted[i], there, (size_t)there_cnt, sizeof(*there), by_prefix);

		if (!is || is->origin != SL_PREFIX_OF_OPERATOR)
			rc = sl_xdp_acl_set(x, &wanted[i]);
	}
	for (int i = 0; i < there_cnt && !rc; i++) {
		if (there[i].origin == SL_PREFIX_OF_FILE &&
		    !bsearch(&there[i], wanted, cnt, sizeof(*wanted), by_prefix))
			rc = sl_xdp_acl_remove(x, &there[i]);
	}
	free(there);
	free(wanted);
	return rc;
}
