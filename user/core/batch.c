/* SPDX-License-Identifier: Apache-2.0 */
#include "core/batch.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "core/batch_inner.h"
#include "rpc/rpc.h"

enum {
	PASSED_OVER_MAX = 64, /* requests that may not go to a backend, set aside for one batch */
	STALL_NS = 200000,    /* how long a backend without credit is left alone at the most */
};

struct sl_batcher *sl_batcher_create(const struct sl_cfg_pool *pool, const struct sl_batch_ops *ops,
				     void *app, const struct sl_svc_hist *hist,
				     struct sl_svc_live *live, const struct sl_svc_ctl *ctl)
{
	struct sl_batcher *b = calloc(1, sizeof(*b));
	uint64_t seed;

	if (!b)
		return NULL;
	*b = (struct sl_batcher){
		.pool = pool, .ops = ops, .app = app, .live = live, .wake_ns = UINT64_MAX};
	if (sl_rand_bytes(&seed, sizeof(seed)))
		seed = (uintptr_t)b;
	sl_prng_seed(&b->prng, seed);
	if (sl_queue_init(&b->queue, pool->max_queue, (uint32_t)(seed >> 32)))
		goto free_b;
	if (sl_control_init(&b->control, pool, hist, live, ctl))
		goto fini_queue;
	return b;
fini_queue:
	sl_queue_fini(&b->queue);
free_b:
	free(b);
	return NULL;
}

void sl_batcher_destroy(struct sl_batcher *b)
{
	sl_control_fini(&b->control);
	sl_queue_fini(&b->queue);
	free(b);
}

void sl_batcher_seed(struct sl_batcher *b, uint64_t seed)
{
	sl_prng_seed(&b->prng, seed);
}

/* --- submit --- */

static void set_due(const struct sl_batcher *b, struct sl_batch_item *item)
{
	const struct sl_svc_ctl *forced = &b->control.forced;
	uint64_t allowed = UINT64_MAX;

	if (forced->deadline_ns && forced->deadline_ns < item->deadline_ns - item->arrived_ns)
		item->deadline_ns = item->arrived_ns + forced->deadline_ns;
	item->due_ns = item->deadline_ns;
	if (sl_policies[item->lane]->bounded)
		allowed = (uint64_t)b->control.bound_ns;
	if (allowed < item->due_ns - item->arrived_ns)
		item->due_ns = item->arrived_ns + allowed;
}

/* A wider bound, found to be needed or set by the operator, holds for those that wait as well. */
static void follow_bound(struct sl_batcher *b)
{
	bool wider = b->control.bound_ns > b->due_bound_ns;

	b->due_bound_ns = b->control.bound_ns;
	if (!wider)
		return;
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		struct sl_list *at;

		if (!sl_policies[lane]->bounded)
			continue;
		sl_list_for_each (at, &b->queue.lanes[lane].ages) {
			struct sl_batch_item *item = sl_container_of(at, struct sl_batch_item, age);

			set_due(b, item);
			if (item->due_ns != UINT64_MAX && item->due_ns > b->due_max)
				b->due_max = item->due_ns;
		}
		sl_queue_reorder(&b->queue, lane);
	}
}

/* Whether one of its backends would begin with it at once. */
static bool finds_idle(const struct sl_batcher *b, const struct sl_batch_item *item)
{
	uint32_t left = b->queue.len ? 0 : b->up_mask & ~item->excluded;

	for (; left; left &= left - 1) {
		if (!b->backends[__builtin_ctz(left)].batches)
			return true;
	}
	return false;
}

/*
 * When it is no use any more. The bound is no reason to refuse what nothing is in the way of, nor
 * anything before it is known whether the backends can keep it.
 */
static uint64_t limit_of(const struct sl_batcher *b, const struct sl_batch_item *item)
{
	return item->found_idle || !b->control.judged ? item->deadline_ns : item->due_ns;
}

/*
 * Whether all that waits, and one more, can be ready when that one is due. Only for one that is due
 * last; one that overtakes may push others out, which pump finds out.
 */
static bool in_time(const struct sl_batcher *b, const struct sl_batch_item *item, uint64_t now_ns)
{
	double sum = 0;

	if (limit_of(b, item) == UINT64_MAX || (b->queue.len && item->due_ns < b->due_max))
		return true;
	for (uint32_t left = b->up_mask & ~item->excluded; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);

		if (sl_expect_untested(b, i, now_ns))
			return true;
		sum += sl_expect_served(b, i, item->lane, (double)limit_of(b, item), now_ns);
		if (sum > b->queue.len)
			return true;
	}
	return false;
}

/*
 * Whether the first of a lane will have to go for a batch that is worth its time: then it goes for
 * a newer one now, which can be in that batch.
 */
static bool in_the_way(const struct sl_batcher *b, unsigned lane, uint64_t now_ns)
{
	const struct sl_batch_item *first = sl_lane_first(&b->queue.lanes[lane]);
	uint64_t limit = first ? limit_of(b, first) : UINT64_MAX;

	if (limit == UINT64_MAX || first->found_idle)
		return false;
	for (uint32_t left = b->up_mask & ~first->excluded; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		double budget = (double)limit - sl_half_rtt(b) - sl_expect_free(b, i, now_ns) -
				sl_late_margin(b, i, lane);
		uint32_t low = b->control.backends[i].plans[lane].low;

		if (sl_control_within(&b->control.backends[i], budget, low) == low)
			return false;
	}
	return true;
}

static void drop(struct sl_batcher *b, struct sl_batch_item *item, enum sl_outcome why)
{
	sl_queue_remove(&b->queue, item);
	b->counts.shed += why == SL_OUTCOME_SHED || why == SL_OUTCOME_FAIR_SHARE;
	b->counts.overload += why == SL_OUTCOME_SHED || why == SL_OUTCOME_EXPIRED;
	b->ops->drop(b->app, item, why);
}

/*
 * There is no room for all. The client that has most waiting gives way with its newest request; its
 * share is to blame only if it has twice what each would have.
 */
static enum sl_outcome make_room(struct sl_batcher *b, const struct sl_batch_item *item,
				 enum sl_outcome why)
{
	struct sl_batch_queue *q = &b->queue;
	uint32_t own = sl_queue_client_cnt(q, item->client);
	uint32_t active = q->active + (own == 0);
	enum sl_outcome blame = why;

	if (active > 1 && (uint64_t)q->heaviest * active >= 2 * (uint64_t)q->len)
		blame = SL_OUTCOME_FAIR_SHARE;
	if (own + 1 < q->heaviest) {
		drop(b, sl_queue_heaviest(q), blame);
		return SL_OUTCOME_OK;
	}
	if (own < q->heaviest)
		blame = why;
	b->counts.shed++;
	b->counts.overload += blame != SL_OUTCOME_FAIR_SHARE;
	return blame;
}

enum sl_outcome sl_batcher_submit(struct sl_batcher *b, struct sl_batch_item *item, uint64_t now_ns)
{
	enum sl_outcome o = SL_OUTCOME_OK;

	if (!(b->up_mask & ~item->excluded))
		return SL_OUTCOME_NO_BACKEND;
	if (now_ns >= item->deadline_ns)
		return SL_OUTCOME_EXPIRED;
	item->lane = item->policy < 0 ? b->pool->batch.policy : (uint8_t)item->policy;
	item->queued_ns = now_ns;
	if (!item->arrived_ns)
		item->arrived_ns = now_ns;
	set_due(b, item);
	item->found_idle = finds_idle(b, item);
	if (b->queue.len >= b->pool->max_queue)
		o = make_room(b, item, SL_OUTCOME_QUEUE_FULL);
	else if (in_time(b, item, now_ns))
		o = SL_OUTCOME_OK;
	else if (in_the_way(b, item->lane, now_ns))
		drop(b, sl_lane_first(&b->queue.lanes[item->lane]), SL_OUTCOME_SHED);
	else
		o = make_room(b, item, SL_OUTCOME_SHED);
	if (o != SL_OUTCOME_OK)
		return o;
	if (!b->queue.len || (item->due_ns != UINT64_MAX && item->due_ns > b->due_max))
		b->due_max = item->due_ns;
	sl_queue_push(&b->queue, item);
	return SL_OUTCOME_OK;
}

void sl_batcher_remove(struct sl_batcher *b, struct sl_batch_item *item)
{
	if (sl_batcher_queued(item))
		sl_queue_remove(&b->queue, item);
}

/* --- backends --- */

/* Those that no backend which is up may have: nothing would ever send them. */
static void drop_orphans(struct sl_batcher *b)
{
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		struct sl_list *at, *next;

		sl_list_for_each_safe (at, next, &b->queue.lanes[lane].ages) {
			struct sl_batch_item *item = sl_container_of(at, struct sl_batch_item, age);

			if (!(b->up_mask & ~item->excluded))
				drop(b, item, SL_OUTCOME_NO_BACKEND);
		}
	}
}

static void tick(struct sl_batcher *b, uint64_t now_ns)
{
	b->counts.queued = b->queue.len;
	sl_control_tick(&b->control, &b->counts, now_ns);
	follow_bound(b);
}

/* What is outstanding stays so until it is reported as done, which the RPC does for each batch. */
void sl_batcher_backend(struct sl_batcher *b, unsigned backend, bool up, uint64_t now_ns)
{
	b->backends[backend].up = up;
	b->backends[backend].stalled_ns = 0;
	if (up)
		b->up_mask |= 1u << backend;
	else
		b->up_mask &= ~(1u << backend);
	b->control.backends[backend].up = up;
	tick(b, now_ns);
	if (!up)
		drop_orphans(b);
}

void sl_batcher_done(struct sl_batcher *b, unsigned backend, unsigned cnt, uint64_t sent_ns,
		     uint32_t together, uint64_t service_ns, uint64_t now_ns)
{
	struct sl_batch_backend *be = &b->backends[backend];
	unsigned which = 0;
	struct sl_sent s;

	SL_CHECK(be->batches && be->requests >= cnt);
	/* Batches of one time and size are alike but for their lane, so either will do. */
	while (which + 1 < be->batches &&
	       (be->sent[which].sent_ns != sent_ns || be->sent[which].cnt != cnt))
		which++;
	s = be->sent[which];
	be->done_ns = now_ns;
	if (!s.behind)
		be->alone_ns = now_ns;
	be->batches--;
	be->requests -= cnt;
	b->counts.in_flight -= cnt;
	be->stalled_ns = 0;
	for (unsigned i = which; i < be->batches; i++)
		be->sent[i] = be->sent[i + 1];
	if (be->batches && which == 0) {
		double since = (double)be->sent[0].sent_ns + sl_half_rtt(b);

		be->end_ns = fmax(since, (double)now_ns - sl_half_rtt(b)) + be->sent[0].time_ns;
	}
	if (service_ns) {
		be->took_ns = service_ns;
		sl_control_done(&b->control, backend, s.lane, cnt, together, service_ns, s.full);
		follow_bound(b);
	}
}

bool sl_batcher_waited(const struct sl_batcher *b, unsigned backend, uint64_t sent_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];

	return !be->batches || be->sent[0].sent_ns != sent_ns || be->sent[0].behind;
}

void sl_batcher_outstanding(const struct sl_batcher *b, unsigned backend, uint32_t *batches,
			    uint32_t *requests)
{
	*batches = b->backends[backend].batches;
	*requests = b->backends[backend].requests;
}

/* --- pump --- */

/* The backend for what is first in a lane, and when it may have it. */
struct choice {
	unsigned backend;
	uint64_t ready_ns;
	double finish_ns;
};

static struct choice consider(const struct sl_batcher *b, unsigned backend, unsigned lane,
			      uint64_t now_ns)
{
	struct choice c = {.backend = backend, .ready_ns = sl_expect_ready(b, backend, lane)};
	uint32_t n = b->queue.lanes[lane].len, cap = sl_expect_cap(b, backend, lane);

	c.finish_ns = sl_expect_free(b, backend, now_ns) +
		      sl_control_time(&b->control.backends[backend], n < cap ? n : cap) +
		      sl_half_rtt(b);
	return c;
}

/* Any two of them, or all. */
static uint32_t two_of(struct sl_batcher *b, uint32_t mask)
{
	uint32_t two = 0;

	if (__builtin_popcount(mask) <= 2)
		return mask;
	for (int k = 0; k < 2; k++) {
		uint32_t left = mask & ~two;
		uint64_t skip = sl_prng_below(&b->prng, (uint64_t)__builtin_popcount(left));

		while (skip--)
			left &= left - 1;
		two |= left & -left;
	}
	return two;
}

/* The better of two that could have it now; if none could, ready_ns says when to ask again. */
static struct choice choose(struct sl_batcher *b, unsigned lane, uint32_t mask, uint64_t now_ns)
{
	struct choice best = {.ready_ns = UINT64_MAX, .finish_ns = INFINITY};
	uint32_t ready = 0;

	for (uint32_t left = mask; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		uint64_t at = sl_expect_ready(b, i, lane);

		if (at <= now_ns)
			ready |= 1u << i;
		else if (at < best.ready_ns)
			best.ready_ns = at;
	}
	for (ready = two_of(b, ready); ready; ready &= ready - 1) {
		struct choice c = consider(b, (unsigned)__builtin_ctz(ready), lane, now_ns);

		if (c.finish_ns < best.finish_ns)
			best = c;
	}
	return best;
}

/* The latest that any backend can make: beyond it the request is hopeless. */
static bool hopeless(const struct sl_batcher *b, const struct sl_batch_item *item,
		     uint64_t limit_ns, uint64_t now_ns)
{
	for (uint32_t left = b->up_mask & ~item->excluded; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		double at = sl_expect_free(b, i, now_ns) +
			    sl_control_time(&b->control.backends[i], 1) + sl_half_rtt(b);

		if (sl_expect_untested(b, i, now_ns) || at <= (double)limit_ns)
			return false;
	}
	return true;
}

/*
 * How many go in the batch, so that the first of the lane is ready when it is due. 0: it stands in
 * the way of a batch that is large enough to keep up, so it has to go.
 */
static uint32_t size_for_first(const struct sl_batcher *b, unsigned lane, unsigned backend,
			       uint32_t want, uint64_t now_ns)
{
	const struct sl_batch_item *first = sl_lane_first(&b->queue.lanes[lane]);
	const struct sl_fit *f = sl_batch_fit(b, backend);
	uint32_t low = b->control.backends[backend].plans[lane].low, n;
	uint64_t limit = limit_of(b, first);
	double left = (double)limit - sl_half_rtt(b) - sl_expect_free(b, backend, now_ns) -
		      sl_late_margin(b, backend, lane);

	if (limit == UINT64_MAX || sl_expect_untested(b, backend, now_ns))
		return want;
	n = sl_control_within(&b->control.backends[backend], left, want);
	if (n < want && (n < low || want > sl_expect_cap(b, backend, lane)))
		return first->found_idle;
	/* Under load what is sent has to be worth its time. */
	return n > 1 && n >= low && sl_policies[lane]->just_in_time ? sl_fit_size_efficient(f, n)
								    : n;
}

/* Until when a batch of this lane may wait for more; 0: it is to go. */
static uint64_t held_until(const struct sl_batcher *b, unsigned lane, unsigned backend)
{
	const struct sl_lane *l = &b->queue.lanes[lane];
	const struct sl_plan *p = &b->control.backends[backend].plans[lane];
	double hold = p->hold_ns;

	if (l->len >= sl_expect_cap(b, backend, lane) || l->len >= p->hold_below)
		return 0;
	if (lane == b->pool->batch.policy && (double)b->live->hold_ns < hold)
		hold = (double)b->live->hold_ns;
	hold -= p->hold_each_ns * (l->len + 1);
	return hold > 0 ? sl_lane_oldest(l)->queued_ns + (uint64_t)hold : 0;
}

static int send_items(struct sl_batcher *b, unsigned backend, unsigned lane,
		      struct sl_batch_item **items, uint32_t n, uint64_t now_ns)
{
	struct sl_batch_backend *be = &b->backends[backend];
	double start = sl_expect_free(b, backend, now_ns),
	       time = sl_control_time(&b->control.backends[backend], n);
	int rc = b->ops->send(b->app, backend, items, n);

	if (rc)
		return rc;
	if (!be->batches)
		be->end_ns = start + time;
	be->sent[be->batches] = (struct sl_sent){.sent_ns = now_ns,
						 .time_ns = time,
						 .cnt = n,
						 .lane = (uint8_t)lane,
						 .full = n >= sl_expect_cap(b, backend, lane),
						 .behind = be->batches != 0};
	be->batches++;
	be->requests += n;
	b->counts.in_flight += n;
	b->counts.last = n;
	b->counts.batches++;
	b->counts.requests += n;
	return 0;
}

/* Takes up to n that may go to this backend out of the lane. */
static uint32_t take(struct sl_batcher *b, unsigned lane, unsigned backend, uint32_t n,
		     struct sl_batch_item **items)
{
	struct sl_batch_item *passed[PASSED_OVER_MAX], *item;
	uint32_t taken = 0, over = 0;
	uint64_t bytes = 0;

	while (taken < n && over < PASSED_OVER_MAX &&
	       (item = sl_lane_first(&b->queue.lanes[lane]))) {
		if (taken && bytes + item->bytes > SL_RPC_MAX_BODY / 2)
			break;
		sl_queue_remove(&b->queue, item);
		if (item->excluded & 1u << backend) {
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

/* Sends the first n of a lane, or fewer if a message cannot hold them. */
static bool send_first(struct sl_batcher *b, unsigned lane, unsigned backend, uint32_t n,
		       uint64_t now_ns)
{
	struct sl_batch_item *items[SL_RPC_MAX_BATCH];
	uint32_t taken = take(b, lane, backend, n, items), try = taken;
	int rc = -EAGAIN;

	while (try && (rc = send_items(b, backend, lane, items, try, now_ns)) == -EMSGSIZE)
		try /= 2;
	if (rc)
		try = 0;
	while (taken > try)
		sl_queue_push_back(&b->queue, items[--taken]);
	if (rc == -EMSGSIZE) {
		drop(b, items[0], SL_OUTCOME_TOO_LARGE);
		return true;
	}
	if (rc)
		b->backends[backend].stalled_ns = now_ns + STALL_NS;
	return rc == 0;
}

static void put_off(struct sl_batcher *b, uint64_t until_ns)
{
	if (until_ns < b->wake_ns)
		b->wake_ns = until_ns;
}

/* One step for one lane; false: nothing more to do for it now. */
static bool pump_lane(struct sl_batcher *b, unsigned lane, uint64_t now_ns)
{
	struct sl_lane *l = &b->queue.lanes[lane];
	struct sl_batch_item *first = sl_lane_first(l);
	uint32_t want, n, most;
	uint64_t until, limit;
	struct choice c;

	if (!first)
		return false;
	limit = limit_of(b, first);
	if (now_ns >= first->deadline_ns) {
		drop(b, first, SL_OUTCOME_EXPIRED);
		return true;
	}
	if (now_ns >= limit || (limit != UINT64_MAX && hopeless(b, first, limit, now_ns))) {
		drop(b, first, SL_OUTCOME_SHED);
		return true;
	}
	put_off(b, limit);
	c = choose(b, lane, b->up_mask & ~first->excluded, now_ns);
	if (c.ready_ns > now_ns) {
		put_off(b, c.ready_ns);
		return false;
	}
	until = held_until(b, lane, c.backend);
	if (until > now_ns) {
		put_off(b, until);
		return false;
	}
	most = sl_expect_most(b, c.backend, lane);
	want = l->len < most ? l->len : most;
	n = size_for_first(b, lane, c.backend, want, now_ns);
	if (!n) {
		drop(b, first, SL_OUTCOME_SHED);
		return true;
	}
	return send_first(b, lane, c.backend, n, now_ns);
}

void sl_batcher_pump(struct sl_batcher *b, uint64_t now_ns)
{
	if (now_ns >= sl_control_next_ns(&b->control, b->queue.len != 0))
		tick(b, now_ns);
	b->wake_ns = UINT64_MAX;
	if (!b->queue.len)
		return;
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		while (pump_lane(b, lane, now_ns))
			;
	}
}

uint64_t sl_batcher_next_ns(const struct sl_batcher *b)
{
	uint64_t next = sl_control_next_ns(&b->control, b->queue.len != 0);

	return b->queue.len && b->wake_ns < next ? b->wake_ns : next;
}

uint32_t sl_batcher_queue_len(const struct sl_batcher *b)
{
	return b->queue.len;
}
