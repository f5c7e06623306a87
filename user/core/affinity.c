/* SPDX-License-Identifier: Apache-2.0 */
#include "core/affinity.h"

#include <stdlib.h>

#include "base/fnv.h"
#include "batch/affinity.h"
#include "core/client.h"
#include "core/prefix_hash.h"

static uint64_t key_of(struct sl_span value)
{
	return sl_affinity_mix(sl_fnv64(SL_FNV64, value.ptr, value.len));
}

static uint64_t header_key(const struct sl_request *rq, const char *name)
{
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (sl_span_eq_nocase(rq->headers[i].name, sl_span_cstr(name)))
			return key_of(rq->headers[i].value);
	}
	return 0;
}

static struct sl_span next_pair(struct sl_span *rest)
{
	const uint8_t *semicolon = memchr(rest->ptr, ';', rest->len);
	size_t len = semicolon ? (size_t)(semicolon - rest->ptr) : rest->len;
	struct sl_span pair = sl_span_first(*rest, len);

	*rest = sl_span_skip(*rest, semicolon ? len + 1 : len);
	while (pair.len && (*pair.ptr == ' ' || *pair.ptr == '\t'))
		pair = sl_span_skip(pair, 1);
	return pair;
}

static uint64_t cookie_key(const struct sl_request *rq, struct sl_span name)
{
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		struct sl_span rest = rq->headers[i].value;

		if (!sl_span_eq_nocase(rq->headers[i].name, sl_span_str("cookie")))
			continue;
		while (rest.len) {
			struct sl_span pair = next_pair(&rest);

			if (pair.len > name.len && pair.ptr[name.len] == '=' &&
			    memcmp(pair.ptr, name.ptr, name.len) == 0)
				return key_of(sl_span_skip(pair, name.len + 1));
		}
	}
	return 0;
}

static uint64_t address_key(const struct sl_client *cl)
{
	SL_UNINIT struct sl_conn_info info;

	sl_client_addrs(cl, &info);
	return info.peer.family ? key_of(sl_span_of(info.peer.addr, info.peer.family == 4 ? 4 : 8))
				: 0;
}

static bool begin_prefix(struct sl_exchange *x)
{
	if (!x->open || x->stream.upgrade)
		return true;
	x->prefix = sl_mempool_get(&x->core->prefix_hashes);
	if (!x->prefix)
		return false;
	sl_prefix_hash_begin(x->prefix, &x->route->pools->affinity);
	return true;
}

bool sl_affinity_begin(struct sl_exchange *x, const struct sl_request *rq)
{
	const struct sl_cfg_affinity *a = &x->route->pools->affinity;

	switch (a->by) {
	case SL_AFFINITY_BY_HEADER: x->item.key = header_key(rq, a->name); break;
	case SL_AFFINITY_BY_COOKIE: x->item.key = cookie_key(rq, sl_span_cstr(a->name)); break;
	case SL_AFFINITY_BY_ADDRESS: x->item.key = address_key(x->client); break;
	case SL_AFFINITY_BY_PREFIX: return begin_prefix(x);
	default: break;
	}
	return true;
}

void sl_affinity_count(struct sl_exchange *x, const struct sl_backend_ref *m)
{
	unsigned home = sl_batcher_home(x->pool->batcher, x->item.key);
	struct sl_core_stats *s = &x->core->stats;

	if (home == m->number)
		s->affinity_hits++;
	else
		s->affinity_misses++;
}

struct sl_affinity *sl_affinity_of_backends(struct sl_backend_ref *const *backends, uint32_t cnt)
{
	struct sl_affinity_backend *list = calloc(cnt + 1, sizeof(*list));
	struct sl_affinity *a;

	if (!list)
		return NULL;
	for (uint32_t i = 0; i < cnt; i++)
		list[i] = (struct sl_affinity_backend){backends[i]->name, backends[i]->number};
	a = sl_affinity_create(list, cnt);
	free(list);
	return a;
}
