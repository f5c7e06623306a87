/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "base/bytes.h"
#include "batch/internal.h"
#include "sluice/types.h"

enum {
	PASSED_OVER_MAX = 64,
	STALL_NS = 200000, /* pause without credit */
};

struct backend_choice {
	unsigned backend;
	uint64_t ready_ns;
	double start_ns, finish_ns;
};

struct candidates {
	const struct sl_batch_item *item;
	unsigned lane;
	unsigned list[SL_BATCH_FEW], cnt;
	bool drawn; /* by weight, in the order of the list */
	uint64_t ready_ns;
};

static bool may_have(const struct sl_batcher *b, const struct candidates *c, unsigned backend)
{
	return !sl_batch_excludes(c->item, backend) && !sl_batch_on_trial(b, backend);
}

static void consider_backend(const struct sl_batcher *b, struct candidates *c, unsigned backend,
			     uint64_t now_ns)
{
	uint64_t at = may_have(b, c, backend) ? sl_expect_ready(b, backend, c->lane) : UINT64_MAX;

	if (at <= now_ns)
		c->list[c->cnt++] = backend;
	else if (at < c->ready_ns)
		c->ready_ns = at;
}

static void consider_busy(const struct sl_batcher *b, struct candidates *c, unsigned backend,
			  uint64_t now_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];

	if (may_have(b, c, backend) && be->batches < SL_OUTSTANDING_MAX &&
	    be->stalled_ns <= now_ns && sl_expect_ready(b, backend, c->lane) > now_ns)
		c->list[c->cnt++] = backend;
}

static void consider_all(const struct sl_batcher *b, struct candidates *c, uint32_t from,
			 uint32_t to, uint64_t now_ns)
{
	for (uint32_t at = from; at < to; at++)
		consider_backend(b, c, b->roster.order[at], now_ns);
	if (!b->weight_max || !c->cnt)
		return;
	for (uint32_t at = from; at < to; at++)
		consider_busy(b, c, b->roster.order[at], now_ns);
}

static void consider_some(struct sl_batcher *b, struct candidates *c, uint32_t from, uint32_t to,
			  uint64_t now_ns)
{
	unsigned light = UINT32_MAX;

	c->drawn = true;
	for (uint32_t tries = 0; tries < SL_BATCH_FEW && c->cnt < 2; tries++) {
		uint32_t at = from + (uint32_t)sl_prng_below(&b->prng, to - from);
		unsigned backend = b->roster.order[at];

		if (b->weight_max && !sl_weight_admits(b, backend)) {
			light = backend;
			continue;
		}
		consider_backend(b, c, backend, now_ns);
		if (b->weight_max)
			consider_busy(b, c, backend, now_ns);
		if (c->cnt == 2 && c->list[0] == c->list[1])
			c->cnt = 1;
	}
	if (!c->cnt && light != UINT32_MAX)
		consider_backend(b, c, light, now_ns);
	if (!c->cnt && now_ns + STALL_NS < c->ready_ns)
		c->ready_ns = now_ns + STALL_NS;
}

static void consider_range(struct sl_batcher *b, struct candidates *c, uint32_t from, uint32_t to,
			   uint64_t now_ns)
{
	if (to - from <= SL_BATCH_FEW)
		consider_all(b, c, from, to, now_ns);
	else
		consider_some(b, c, from, to, now_ns);
}

static unsigned draw_candidate(struct sl_batcher *b, const struct candidates *c, unsigned left)
{
	if (b->weight_max && !c->drawn)
		return sl_weight_draw(b, c->list, c->cnt);
	return c->cnt > left ? (unsigned)sl_prng_below(&b->prng, c->cnt) : 0;
}

static bool is_better(struct sl_batcher *b, const struct backend_choice *one,
		      const struct backend_choice *best, uint64_t now_ns)
{
	if (!b->weight_max || best->finish_ns == INFINITY)
		return one->finish_ns < best->finish_ns;
	return sl_weight_replaces(b, one->backend, one->finish_ns - (double)now_ns, best->backend,
				  best->finish_ns - (double)now_ns);
}

static void rate_backend(const struct sl_batcher *b, unsigned lane, unsigned backend,
			 uint64_t now_ns, struct backend_choice *c)
{
	uint32_t cap = sl_expect_cap(b, backend, lane), n = b->queue.lanes[lane].len;

	c->backend = backend;
	c->ready_ns = sl_expect_ready(b, backend, lane);
	c->start_ns = sl_expect_free(b, backend, now_ns);
	c->finish_ns = c->start_ns +
		       sl_controller_time(&b->controller.backends[backend], n < cap ? n : cap) +
		       sl_half_rtt(b);
}

static struct backend_choice choose_backend(struct sl_batcher *b, unsigned lane,
					    const struct sl_batch_item *item, uint64_t now_ns)
{
	struct candidates c = {.item = item, .lane = lane, .ready_ns = UINT64_MAX};
	uint32_t idle = sl_roster_idle_cnt(&b->roster), open = sl_roster_open_cnt(&b->roster);
	SL_UNINIT struct backend_choice best, one;

	if (open <= SL_BATCH_FEW || b->weight_max)
		idle = open;
	consider_range(b, &c, 0, idle, now_ns);
	if (!c.cnt && idle < open)
		consider_range(b, &c, idle, open, now_ns);
	if (c.cnt == 1 && !b->weight_max) {
		rate_backend(b, lane, c.list[0], now_ns, &best);
		if (best.finish_ns < INFINITY)
			return best;
	}
	best = (struct backend_choice){.ready_ns = c.ready_ns, .finish_ns = INFINITY};
	for (unsigned k = 0; k < 2 && c.cnt; k++) {
		unsigned at = draw_candidate(b, &c, 2 - k);

		rate_backend(b, lane, c.list[at], now_ns, &one);
		c.list[at] = c.list[--c.cnt];
		if (is_better(b, &one, &best, now_ns))
			best = one;
	}
	return best;
}

static struct backend_choice prefer_backend(struct sl_batcher *b, unsigned lane,
					    const struct sl_batch_item *item, uint64_t now_ns)
{
	unsigned i = sl_prefer_backend(b, lane, item, now_ns);

	if (i == SL_AFFINITY_NONE)
		return choose_backend(b, lane, item, now_ns);
	return (struct backend_choice){.backend = i,
				       .ready_ns = sl_expect_ready(b, i, lane),
				       .start_ns = sl_expect_free(b, i, now_ns)};
}

static bool is_hopeless(const struct sl_batcher *b, const struct sl_batch_item *item,
			uint64_t limit_ns, uint64_t now_ns)
{
	for (uint32_t k = 0; k < sl_batch_asked(b); k++) {
		unsigned i = sl_batch_ask(b, k);
		double at = sl_expect_free(b, i, now_ns) +
			    sl_controller_time(&b->controller.backends[i], 1) + sl_half_rtt(b);

		if (sl_batch_excludes(item, i))
			continue;
		if (sl_expect_untested(b, i, now_ns) || at <= (double)limit_ns)
			return false;
	}
	return true;
}

static uint32_t efficient_size(const struct sl_batcher *b, unsigned lane, unsigned backend,
			       uint32_t n)
{
	uint32_t low = b->controller.backends[backend].plans[lane].low;

	if (n <= 1 || n < low || !sl_policies[lane]->just_in_time)
		return n;
	return sl_fit_size_efficient(sl_batch_fit(b, backend), n);
}

static uint32_t size_for_late(const struct sl_batcher *b, unsigned lane, unsigned backend,
			      double start_ns)
{
	const struct sl_lane *l = &b->queue.lanes[lane];
	const struct sl_batch_item *first = sl_lane_first(l);
	uint32_t most = sl_expect_catch_up(b, backend, lane);
	uint64_t limit = sl_batch_limit(b, first);

	if (limit == sl_batch_wanted_by(b, first))
		return first->found_idle;
	if (l->len < most)
		most = l->len;
	if (limit != UINT64_MAX)
		most = sl_controller_within(&b->controller.backends[backend],
					    (double)limit - start_ns, most);
	return efficient_size(b, lane, backend, most);
}

static uint32_t size_for_first(const struct sl_batcher *b, unsigned lane,
			       const struct backend_choice *c, uint32_t want, uint64_t now_ns)
{
	unsigned backend = c->backend;
	const struct sl_batch_item *first = sl_lane_first(&b->queue.lanes[lane]);
	uint32_t low = b->controller.backends[backend].plans[lane].low, n;
	uint64_t by = sl_batch_wanted_by(b, first);
	double start = sl_half_rtt(b) + c->start_ns + sl_late_margin(b, backend, lane);

	if (by == UINT64_MAX || sl_expect_untested(b, backend, now_ns))
		return want;
	n = sl_controller_within(&b->controller.backends[backend], (double)by - start, want);
	if (n < want && (n < low || want > sl_expect_cap(b, backend, lane)))
		return size_for_late(b, lane, backend, start);
	return efficient_size(b, lane, backend, n);
}

static uint64_t held_until(const struct sl_batcher *b, unsigned lane, unsigned backend)
{
	const struct sl_lane *l = &b->queue.lanes[lane];
	const struct sl_plan *p = &b->controller.backends[backend].plans[lane];
	double hold = p->hold_ns;

	if (l->len >= sl_expect_cap(b, backend, lane) || l->len >= p->hold_below)
		return 0;
	if (lane == b->pool->batch.policy && (double)b->live->hold_ns < hold)
		hold = (double)b->live->hold_ns;
	hold -= p->hold_each_ns * (l->len + 1);
	return hold > 0 ? sl_lane_oldest(l)->queued_ns + (uint64_t)hold : 0;
}

static int send_items(struct sl_batcher *b, const struct backend_choice *c, unsigned lane,
		      struct sl_batch_item **items, uint32_t n, uint64_t now_ns)
{
	unsigned backend = c->backend;
	struct sl_batch_backend *be = &b->backends[backend];
	double time = sl_controller_time(&b->controller.backends[backend], n);
	int rc = b->ops->send(b->app, backend, items, n);

	if (rc)
		return rc;
	if (!be->batches)
		be->end_ns = c->start_ns + time;
	be->sent[be->batches] = (struct sl_sent){.sent_ns = now_ns,
						 .time_ns = time,
						 .cnt = n,
						 .lane = (uint8_t)lane,
						 .full = n >= sl_expect_cap(b, backend, lane),
						 .behind = be->batches != 0};
	sl_roster_more(&b->roster, backend, be->batches);
	be->batches++;
	be->requests += n;
	b->counts.in_flight += n;
	b->counts.last = n;
	b->counts.batches++;
	b->counts.requests += n;
	return 0;
}

static bool is_passed_over(const struct sl_batcher *b, unsigned lane, unsigned backend,
			   const struct sl_batch_item *item, uint32_t taken, uint64_t now_ns)
{
	if (taken && sl_prefer_any(b, item) &&
	    !sl_prefer_joins(b, lane, item, backend, taken, now_ns))
		return true;
	return sl_batch_excludes(item, backend) && lane != SL_POLICY_DIRECT;
}

static uint32_t take_items(struct sl_batcher *b, unsigned lane, unsigned backend, uint32_t n,
			   struct sl_batch_item **items, uint64_t now_ns)
{
	SL_UNINIT struct sl_batch_item *passed[PASSED_OVER_MAX];
	struct sl_batch_item *item;
	uint32_t taken = 0, over = 0;
	uint64_t bytes = 0;

	while (taken < n && over < PASSED_OVER_MAX &&
	       (item = sl_lane_first(&b->queue.lanes[lane]))) {
		if (taken && bytes + item->bytes > SL_RPC_MAX_BODY / 2)
			break;
		sl_queue_remove(&b->queue, item);
		if (is_passed_over(b, lane, backend, item, taken, now_ns)) {
			passed[over++] = item;
			continue;
		}
		bytes += item->bytes;
		items[taken++] = item;
	}
	while (over)
		sl_queue_push_back(&b->queue, passed[--over]);
	return taken;
}

static bool send_first(struct sl_batcher *b, unsigned lane, const struct backend_choice *c,
		       uint32_t n, uint64_t now_ns)
{
	unsigned backend = c->backend;
	SL_UNINIT struct sl_batch_item *items[SL_RPC_MAX_BATCH];
	uint32_t taken = take_items(b, lane, backend, n, items, now_ns), try = taken;
	int rc = -EAGAIN;

	while (try && (rc = lane == SL_POLICY_DIRECT
				    ? sl_direct_send(b, backend, items, try, now_ns)
				    : send_items(b, c, lane, items, try, now_ns)) == -EMSGSIZE)
		try /= 2;
	if (rc)
		try = 0;
	while (taken > try)
		sl_queue_push_back(&b->queue, items[--taken]);
	if (rc == -EMSGSIZE) {
		sl_batch_drop(b, items[0], SL_OUTCOME_TOO_LARGE);
		return true;
	}
	if (rc)
		b->backends[backend].stalled_ns = now_ns + STALL_NS;
	return rc == 0;
}

static void wake_by(struct sl_batcher *b, uint64_t until_ns)
{
	if (until_ns < b->wake_ns)
		b->wake_ns = until_ns;
}

static bool wait_for_any(struct sl_batcher *b, unsigned lane, uint64_t now_ns)
{
	struct sl_batch_item *oldest = sl_lane_oldest(&b->queue.lanes[lane]);
	uint64_t until_ns = oldest->queued_ns + SL_BATCH_PATIENCE_NS;

	if (now_ns >= until_ns) {
		sl_batch_drop(b, oldest, SL_OUTCOME_NO_BACKEND);
		return true;
	}
	wake_by(b, until_ns);
	return false;
}

static bool step_direct(struct sl_batcher *b, uint32_t most, uint64_t now_ns)
{
	struct sl_batch_item *first = sl_lane_first(&b->queue.lanes[SL_POLICY_DIRECT]);
	const struct sl_batch_backend *be;
	unsigned backend;

	if (!first)
		return false;
	if (now_ns >= first->deadline_ns) {
		sl_batch_drop(b, first, SL_OUTCOME_EXPIRED);
		return true;
	}
	if (!sl_roster_up_cnt(&b->roster))
		return wait_for_any(b, SL_POLICY_DIRECT, now_ns);
	backend = sl_pick_direct(b, first, now_ns);
	if (backend == SL_PICK_NONE) {
		wake_by(b, now_ns + STALL_NS);
		return false;
	}
	be = &b->backends[backend];
	if (be->pick.tried || (b->weight_max && be->trial))
		most = 1;
	(void)send_first(b, SL_POLICY_DIRECT, &(struct backend_choice){.backend = backend}, most,
			 now_ns);
	return true; /* ends: a backend without credit is stalled */
}

static void pump_direct(struct sl_batcher *b, uint64_t now_ns)
{
	uint32_t up = sl_roster_up_cnt(&b->roster), most = b->pool->batch.max_size;
	uint32_t share = up ? (b->queue.lanes[SL_POLICY_DIRECT].len + up - 1) / up : 0;

	while (step_direct(b, share < most ? share : most, now_ns))
		;
}

static bool pump_lane(struct sl_batcher *b, unsigned lane, uint64_t now_ns)
{
	struct sl_lane *l = &b->queue.lanes[lane];
	struct sl_batch_item *first = sl_lane_first(l);
	uint32_t want, n, most;
	uint64_t until, limit;
	struct backend_choice c;

	if (!first)
		return false;
	limit = sl_batch_limit(b, first);
	if (now_ns >= first->deadline_ns) {
		sl_batch_drop(b, first, SL_OUTCOME_EXPIRED);
		return true;
	}
	if (!sl_roster_up_cnt(&b->roster)) {
		wake_by(b, first->deadline_ns);
		return wait_for_any(b, lane, now_ns);
	}
	if (!sl_batch_has_backend(b, first)) {
		sl_batch_drop(b, first, SL_OUTCOME_NO_BACKEND);
		return true;
	}
	if (now_ns >= limit || (limit != UINT64_MAX && is_hopeless(b, first, limit, now_ns))) {
		sl_batch_drop(b, first, SL_OUTCOME_SHED);
		return true;
	}
	wake_by(b, limit);
	c = sl_prefer_any(b, first) ? prefer_backend(b, lane, first, now_ns)
				    : choose_backend(b, lane, first, now_ns);
	if (c.ready_ns > now_ns) {
		wake_by(b, c.ready_ns);
		return false;
	}
	until = held_until(b, lane, c.backend);
	if (until > now_ns) {
		wake_by(b, until);
		return false;
	}
	most = sl_expect_most(b, c.backend, lane);
	want = l->len < most ? l->len : most;
	if (b->weight_max && b->backends[c.backend].trial)
		want = 1;
	n = size_for_first(b, lane, &c, want, now_ns);
	if (!n) {
		sl_batch_drop(b, first, SL_OUTCOME_SHED);
		return true;
	}
	return send_first(b, lane, &c, n, now_ns);
}

unsigned sl_batcher_pump(struct sl_batcher *b, uint64_t now_ns)
{
	uint32_t waited = b->queue.len;

	if (now_ns >= sl_controller_next_ns(&b->controller, b->queue.len != 0))
		sl_batch_tick(b, now_ns);
	b->wake_ns = UINT64_MAX;
	if (!b->queue.len)
		return waited;
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		if (lane == SL_POLICY_DIRECT)
			pump_direct(b, now_ns);
		while (lane != SL_POLICY_DIRECT && pump_lane(b, lane, now_ns))
			;
	}
	return waited - b->queue.len;
}

uint64_t sl_batcher_next_ns(const struct sl_batcher *b)
{
	uint64_t next = sl_controller_next_ns(&b->controller, b->queue.len != 0);

	return b->queue.len && b->wake_ns < next ? b->wake_ns : next;
}
