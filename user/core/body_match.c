/* SPDX-License-Identifier: Apache-2.0 */
#include "core/body_match.h"

#include "core/client.h"
#include "core/event.h"
#include "core/pool.h"

static struct sl_pool *pool_at(const struct sl_exchange *x, int32_t index)
{
	return x->wcfg->pools[index].pool;
}

void sl_exchange_use_pool(struct sl_exchange *x, int32_t index)
{
	struct sl_pool *g = pool_at(x, index);

	if (g == x->pool)
		return;
	sl_pool_get(g);
	sl_pool_put(x->pool);
	x->pool = g;
	x->hist = &g->hist;
	if (x->note)
		sl_event_pool(x->note, x->wcfg->cfg->pools[index].name);
}

static enum sl_outcome refusal_without(const struct sl_exchange *x)
{
	return x->route->pools->no_default ? SL_OUTCOME_NO_MATCH : SL_OUTCOME_OK;
}

static void hold_candidates(struct sl_exchange *x)
{
	const struct sl_cfg_route_pools *p = x->route->pools;

	for (uint32_t i = 0; i < p->match_cnt; i++)
		sl_pool_get(pool_at(x, p->matches[i].pool));
}

enum sl_outcome sl_body_match_begin(struct sl_exchange *x, const struct sl_request *rq)
{
	struct sl_core *c = x->core;

	if (!x->open || x->stream.upgrade || rq->call.len) { /* no JSON to come */
		c->stats.bodies_unmatched++;
		return refusal_without(x);
	}
	x->match = sl_mempool_get(&c->body_matches);
	if (!x->match)
		return SL_OUTCOME_NO_MEMORY;
	sl_json_member_begin(&x->match->member, sl_span_cstr(x->route->pools->member));
	x->match->looked = 0;
	x->match->over = false;
	hold_candidates(x);
	return SL_OUTCOME_OK;
}

void sl_body_match_read(struct sl_exchange *x, struct sl_span bytes)
{
	uint64_t left = x->route->pools->member_limit - x->match->looked;

	x->match->looked += sl_json_member_read(&x->match->member, sl_span_first(bytes, left));
}

bool sl_body_match_over(struct sl_exchange *x, bool end)
{
	x->match->over |= end;
	return x->match->over || x->match->looked == x->route->pools->member_limit ||
	       sl_json_member_verdict(&x->match->member) != SL_JSON_MORE;
}

static const struct sl_cfg_match *find_match(const struct sl_cfg_route_pools *p,
					     struct sl_span value)
{
	for (uint32_t i = 0; value.ptr && i < p->match_cnt; i++) {
		const struct sl_cfg_match *m = &p->matches[i];

		if ((m->prefix ? value.len >= m->len : value.len == m->len) &&
		    memcmp(value.ptr, m->text, m->len) == 0)
			return m;
	}
	return NULL;
}

static bool is_beyond(const struct sl_body_match *m)
{
	enum sl_json_verdict v = sl_json_member_verdict(&m->member);

	return v == SL_JSON_DEEP || (v == SL_JSON_MORE && !m->over);
}

enum sl_outcome sl_body_match_apply(struct sl_exchange *x)
{
	const struct sl_cfg_route_pools *p = x->route->pools;
	const struct sl_cfg_match *found = NULL;
	struct sl_core *c = x->core;
	bool beyond = is_beyond(x->match);

	if (sl_json_member_verdict(&x->match->member) == SL_JSON_FOUND)
		found = find_match(p, sl_json_member_value(&x->match->member));
	if (found)
		sl_exchange_use_pool(x, found->pool);
	sl_body_match_drop(x);
	c->stats.bodies_matched += found != NULL;
	c->stats.bodies_unmatched += !found && !beyond;
	c->stats.bodies_beyond += beyond;
	if (found)
		return SL_OUTCOME_OK;
	return beyond && !p->beyond_default ? SL_OUTCOME_MATCH_LIMIT : refusal_without(x);
}

void sl_body_match_drop(struct sl_exchange *x)
{
	const struct sl_cfg_route_pools *p = x->route->pools;

	for (uint32_t i = 0; i < p->match_cnt; i++)
		sl_pool_put(pool_at(x, p->matches[i].pool));
	sl_mempool_put(&x->core->body_matches, x->match);
	x->match = NULL;
}
