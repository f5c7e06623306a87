/* SPDX-License-Identifier: Apache-2.0 */
#include "core/route_pools.h"

#include "core/affinity.h"
#include "core/body_match.h"
#include "core/client.h"
#include "core/prefix_hash.h"

static void hold_stream(struct sl_exchange *x)
{
	x->held = true;
	x->head = x->request;
	x->request = (struct sl_store){0};
	x->reading = true;
	x->quota->cnt[SL_QUOTA_READING]++;
	x->client->reading++;
}

static bool draw_share(struct sl_exchange *x, double share)
{
	return share > 0 && sl_prng_unit(&x->pool->prng) < share;
}

static bool is_split(struct sl_exchange *x, const struct sl_request *rq)
{
	const struct sl_cfg_split *s = &x->route->pools->split;

	for (uint32_t i = 0; s->header && i < rq->header_cnt; i++) {
		if (sl_span_eq_nocase(rq->headers[i].name, sl_span_cstr(s->header)))
			return sl_span_eq(rq->headers[i].value, sl_span_cstr(s->value));
	}
	return draw_share(x, s->share);
}

enum sl_outcome sl_route_pools_begin(struct sl_exchange *x, const struct sl_request *rq)
{
	const struct sl_cfg_route_pools *p = x->route->pools;
	enum sl_outcome o = SL_OUTCOME_OK;

	if (p->split.pool >= 0 && is_split(x, rq)) {
		sl_exchange_use_pool(x, p->split.pool);
		x->core->stats.split_requests++;
	}
	if (p->mirror.pool >= 0 && draw_share(x, p->mirror.share))
		x->extra |= SL_EXTRA_MIRROR;
	if (p->hedge_ns && x->idempotent && !x->stream.open_ended)
		x->extra |= SL_EXTRA_HEDGE;
	if (p->member)
		o = sl_body_match_begin(x, rq);
	if (o == SL_OUTCOME_OK && p->affinity.by && !sl_affinity_begin(x, rq))
		o = SL_OUTCOME_NO_MEMORY;
	x->looks = x->match || x->prefix;
	if (o == SL_OUTCOME_OK && x->looks && x->stream.open_ended)
		hold_stream(x);
	return o;
}

void sl_route_pools_read(struct sl_exchange *x, struct sl_span bytes)
{
	if (x->match)
		sl_body_match_read(x, bytes);
	if (x->prefix)
		sl_prefix_hash_read(x->prefix, x->core->prefixes, bytes);
}

static void end_prefix(struct sl_exchange *x)
{
	sl_mempool_put(&x->core->prefix_hashes, x->prefix);
	x->prefix = NULL;
}

static bool settle_prefix(struct sl_exchange *x, bool end)
{
	if (!x->prefix)
		return true;
	if (end)
		sl_prefix_hash_end(x->prefix);
	if (!x->item.key)
		x->item.key = x->prefix->key;
	if (x->prefix->over)
		end_prefix(x);
	return !x->prefix || x->item.key;
}

enum sl_outcome sl_route_pools_settle(struct sl_exchange *x, bool end, bool *release)
{
	enum sl_outcome o = SL_OUTCOME_OK;
	bool known = settle_prefix(x, end);

	if (x->match && sl_body_match_over(x, end))
		o = sl_body_match_apply(x);
	x->looks = x->match || x->prefix;
	*release = x->held && known && !x->match && o == SL_OUTCOME_OK;
	x->held &= !*release;
	return o;
}

void sl_route_pools_drop(struct sl_exchange *x)
{
	if (x->match)
		sl_body_match_drop(x);
	if (x->prefix)
		end_prefix(x);
	x->looks = x->held = false;
}
