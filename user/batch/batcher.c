/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/batcher.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/check.h"
#include "batch/internal.h"

struct sl_batcher *sl_batcher_create(const struct sl_cfg_pool *pool, const struct sl_batch_ops *ops,
				     void *app, struct sl_svc_live *live,
				     const struct sl_svc_ctl *ctl)
{
	return sl_batcher_create_next(pool, pool->backend_cnt, 0, ops, app, live, ctl);
}

struct sl_batcher *sl_batcher_create_next(const struct sl_cfg_pool *pool, uint32_t room,
					  uint32_t max_queue, const struct sl_batch_ops *ops,
					  void *app, struct sl_svc_live *live,
					  const struct sl_svc_ctl *ctl)
{
	struct sl_batcher *b = calloc(1, sizeof(*b));
	uint64_t seed;
	int rc;

	if (!b)
		return NULL;
	*b = (struct sl_batcher){
		.pool = pool, .ops = ops, .app = app, .live = live, .wake_ns = UINT64_MAX};
	if (sl_rand_bytes(&seed, sizeof(seed)))
		seed = (uintptr_t)b;
	sl_prng_seed(&b->prng, seed);
	if (max_queue < pool->max_queue)
		max_queue = pool->max_queue;
	b->backends = calloc(room + 1, sizeof(*b->backends));
	rc = b->backends ? sl_queue_init(&b->queue, max_queue, (uint32_t)(seed >> 32)) : -ENOMEM;
	if (!rc)
		rc = sl_roster_init(&b->roster, room);
	if (!rc)
		rc = sl_controller_init(&b->controller, pool, room, live, ctl);
	if (!rc)
		return b;
	sl_batcher_destroy(b);
	return NULL;
}

void sl_batcher_destroy(struct sl_batcher *b)
{
	sl_controller_fini(&b->controller);
	sl_roster_fini(&b->roster);
	sl_queue_fini(&b->queue);
	sl_affinity_destroy(b->affinity);
	free(b->backends);
	free(b);
}

void sl_batcher_unpublish(struct sl_batcher *b, struct sl_svc_live *own)
{
	*own = *b->live;
	b->live = b->controller.live = own;
	b->controller.ctl = NULL;
	b->controller.forced = (struct sl_svc_ctl){0};
}

void sl_batcher_seed(struct sl_batcher *b, uint64_t seed)
{
	sl_prng_seed(&b->prng, seed);
}

static void set_due(const struct sl_batcher *b, struct sl_batch_item *item)
{
	const struct sl_svc_ctl *forced = &b->controller.forced;
	uint64_t allowed = UINT64_MAX;

	if (forced->deadline_ns && forced->deadline_ns < item->deadline_ns - item->arrived_ns)
		item->deadline_ns = item->arrived_ns + forced->deadline_ns;
	item->due_ns = item->deadline_ns;
	if (sl_policies[item->lane]->bounded)
		allowed = (uint64_t)b->controller.bound_ns;
	if (allowed < item->due_ns - item->arrived_ns)
		item->due_ns = item->arrived_ns + allowed;
}

static void follow_bound(struct sl_batcher *b)
{
	bool wider = b->controller.bound_ns > b->due_bound_ns;

	b->due_bound_ns = b->controller.bound_ns;
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

static bool in_time(const struct sl_batcher *b, const struct sl_batch_item *item, uint64_t now_ns)
{
	uint64_t limit = sl_batch_limit(b, item);

	if (limit == UINT64_MAX || (b->queue.len && item->due_ns < b->due_max))
		return true;
	return sl_expect_all_by(b, item, item->lane, (double)limit, now_ns);
}

static bool in_the_way(const struct sl_batcher *b, unsigned lane, uint64_t now_ns)
{
	const struct sl_batch_item *first = sl_lane_first(&b->queue.lanes[lane]);
	uint64_t limit = first ? sl_batch_limit(b, first) : UINT64_MAX;

	if (limit == UINT64_MAX || first->found_idle)
		return false;
	for (uint32_t k = 0; k < sl_batch_asked(b); k++) {
		unsigned i = sl_batch_ask(b, k);
		double budget = (double)limit - sl_half_rtt(b) - sl_expect_free(b, i, now_ns) -
				sl_late_margin(b, i, lane);
		uint32_t low = b->controller.backends[i].plans[lane].low;

		if (!sl_batch_excludes(first, i) &&
		    sl_controller_within(&b->controller.backends[i], budget, low) == low)
			return false;
	}
	return true;
}

void sl_batch_drop(struct sl_batcher *b, struct sl_batch_item *item, enum sl_outcome why)
{
	sl_queue_remove(&b->queue, item);
	b->counts.shed += why == SL_OUTCOME_SHED || why == SL_OUTCOME_FAIR_SHARE;
	b->counts.overload += why == SL_OUTCOME_SHED || why == SL_OUTCOME_EXPIRED;
	b->ops->drop(b->app, item, why);
}

static enum sl_outcome make_room(struct sl_batcher *b, const struct sl_batch_item *item,
				 enum sl_outcome why)
{
	struct sl_batch_queue *q = &b->queue;
	uint32_t own = sl_queue_share_cnt(q, item);
	uint32_t active = q->active + (own == 0);
	enum sl_outcome blame = why;

	if (active > 1 && (uint64_t)q->heaviest * active >= 2 * (uint64_t)q->len)
		blame = SL_OUTCOME_FAIR_SHARE;
	if (own + 1 < q->heaviest) {
		sl_batch_drop(b, sl_queue_heaviest(q), blame);
		return SL_OUTCOME_OK;
	}
	if (own < q->heaviest)
		blame = why;
	b->counts.shed++;
	b->counts.overload += blame != SL_OUTCOME_FAIR_SHARE;
	return blame;
}

static bool is_refused_by_all(const struct sl_batcher *b, const struct sl_batch_item *item)
{
	const struct sl_cfg_pool *p = b->pool;
	bool has_others = p->subset && p->subset < p->backend_cnt;

	return p->batch.policy != SL_POLICY_DIRECT && !has_others && sl_roster_up_cnt(&b->roster) &&
	       !sl_batch_has_backend(b, item);
}

bool sl_batcher_is_out(struct sl_batcher *b, uint64_t now_ns)
{
	if (sl_roster_up_cnt(&b->roster))
		return false;
	if (!b->lost_ns)
		b->lost_ns = now_ns;
	return now_ns - b->lost_ns >= SL_BATCH_OUTAGE_NS;
}

static inline enum sl_outcome prepare_item(struct sl_batcher *b, struct sl_batch_item *item,
					   uint64_t now_ns)
{
	uint32_t left;

	b->counts.arrivals++;
	if (sl_prefer_any(b, item))
		sl_prefer_note(b, item);
	if (is_refused_by_all(b, item) || sl_batcher_is_out(b, now_ns))
		return SL_OUTCOME_NO_BACKEND;
	if (now_ns >= item->deadline_ns)
		return SL_OUTCOME_EXPIRED;
	item->lane = item->policy < 0 ? b->pool->batch.policy : (uint8_t)item->policy;
	item->queued_ns = now_ns;
	if (!item->arrived_ns)
		item->arrived_ns = now_ns;
	set_due(b, item);
	left = sl_roster_idle_cnt(&b->roster);
	for (unsigned i = 0; i < item->excluded_cnt; i++)
		left -= sl_roster_idle(&b->roster, item->excluded[i]);
	item->found_idle = !b->queue.len && left;
	return SL_OUTCOME_OK;
}

static inline void push_item(struct sl_batcher *b, struct sl_batch_item *item)
{
	if (!b->queue.len || (item->due_ns != UINT64_MAX && item->due_ns > b->due_max))
		b->due_max = item->due_ns;
	sl_queue_push(&b->queue, item);
}

enum sl_outcome sl_batcher_submit(struct sl_batcher *b, struct sl_batch_item *item, uint64_t now_ns)
{
	enum sl_outcome o = prepare_item(b, item, now_ns);

	if (o != SL_OUTCOME_OK)
		return o;
	if (b->queue.len >= b->pool->max_queue)
		o = make_room(b, item, SL_OUTCOME_QUEUE_FULL);
	else if (!sl_batch_has_backend(b, item) || in_time(b, item, now_ns))
		o = SL_OUTCOME_OK;
	else if (in_the_way(b, item->lane, now_ns))
		sl_batch_drop(b, sl_lane_first(&b->queue.lanes[item->lane]), SL_OUTCOME_SHED);
	else
		o = make_room(b, item, SL_OUTCOME_SHED);
	if (o == SL_OUTCOME_OK)
		push_item(b, item);
	return o;
}

bool sl_batcher_has_other(const struct sl_batcher *b, const struct sl_batch_item *item,
			  unsigned than)
{
	uint32_t left = sl_roster_up_cnt(&b->roster) - sl_roster_up(&b->roster, than);

	for (unsigned i = 0; i < item->excluded_cnt; i++)
		left -= item->excluded[i] != than && sl_roster_up(&b->roster, item->excluded[i]);
	return left;
}

static enum sl_outcome send_copy(struct sl_batcher *b, struct sl_batch_item *item, uint64_t now_ns)
{
	unsigned backend = sl_pick_direct(b, item, now_ns);

	if (backend == SL_PICK_NONE || sl_batch_excludes(item, backend))
		return SL_OUTCOME_NO_BACKEND;
	return sl_direct_send(b, backend, &item, 1, now_ns) ? SL_OUTCOME_QUEUE_FULL : SL_OUTCOME_OK;
}

enum sl_outcome sl_batcher_submit_copy(struct sl_batcher *b, struct sl_batch_item *item,
				       uint64_t now_ns)
{
	enum sl_outcome o = prepare_item(b, item, now_ns);

	if (o != SL_OUTCOME_OK)
		return o;
	if (item->lane == SL_POLICY_DIRECT)
		return send_copy(b, item, now_ns);
	if (b->queue.len >= b->pool->max_queue || !in_time(b, item, now_ns))
		return SL_OUTCOME_SHED;
	push_item(b, item);
	return SL_OUTCOME_OK;
}

void sl_batcher_remove(struct sl_batcher *b, struct sl_batch_item *item)
{
	if (sl_batcher_queued(item))
		sl_queue_remove(&b->queue, item);
}

void sl_batch_tick(struct sl_batcher *b, uint64_t now_ns)
{
	b->counts.queued = b->queue.len;
	sl_controller_tick(&b->controller, &b->counts, now_ns);
	follow_bound(b);
	sl_overload_tick(&b->overload,
			 &(struct sl_overload_input){.bound_ns = b->controller.bound_ns,
						     .rate = sl_controller_rate(&b->controller),
						     .arrivals = b->counts.arrivals,
						     .served = b->counts.served,
						     .queued = b->queue.len,
						     .late = sl_expect_late(b, now_ns)},
			 now_ns);
}

void sl_batcher_begin(struct sl_batcher *b, unsigned backend)
{
	b->backends[backend] = (struct sl_batch_backend){0};
	sl_controller_begin(&b->controller, backend);
}

void sl_batcher_backend(struct sl_batcher *b, unsigned backend, bool up, uint64_t now_ns)
{
	bool had = sl_roster_up_cnt(&b->roster);

	b->backends[backend].stalled_ns = 0;
	if (up)
		sl_roster_add(&b->roster, backend, b->backends[backend].batches);
	else
		sl_roster_remove(&b->roster, backend);
	b->controller.backends[backend].up = up;
	b->controller.up_cnt = sl_roster_up_cnt(&b->roster);
	if (sl_roster_up_cnt(&b->roster))
		b->lost_ns = 0;
	else if (had)
		b->lost_ns = now_ns;
	sl_batch_tick(b, now_ns);
	if (up || !sl_roster_up_cnt(&b->roster))
		return;
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		struct sl_list *at, *next;

		if (lane == SL_POLICY_DIRECT)
			continue;
		sl_list_for_each_safe (at, next, &b->queue.lanes[lane].ages) {
			struct sl_batch_item *item = sl_container_of(at, struct sl_batch_item, age);

			if (!sl_batch_has_backend(b, item))
				sl_batch_drop(b, item, SL_OUTCOME_NO_BACKEND);
		}
	}
}

void sl_batcher_done(struct sl_batcher *b, unsigned backend, unsigned cnt, uint64_t sent_ns,
		     uint32_t together, uint64_t service_ns, uint64_t now_ns)
{
	struct sl_batch_backend *be = &b->backends[backend];
	unsigned which = 0;
	struct sl_sent s;

	if (be->direct_batches && sl_direct_done(b, backend, cnt, sent_ns))
		return;
	if (!SL_ENSURE(be->batches && be->requests >= cnt))
		return;
	while (which + 1 < be->batches &&
	       (be->sent[which].sent_ns != sent_ns || be->sent[which].cnt != cnt))
		which++;
	s = be->sent[which];
	be->done_ns = now_ns;
	if (!s.behind)
		be->alone_ns = now_ns;
	sl_roster_less(&b->roster, backend, be->batches);
	be->batches--;
	be->requests -= cnt;
	b->counts.in_flight -= cnt;
	b->counts.served += cnt;
	be->stalled_ns = 0;
	for (unsigned i = which; i < be->batches; i++)
		be->sent[i] = be->sent[i + 1];
	if (be->batches && which == 0) {
		double since = (double)be->sent[0].sent_ns + sl_half_rtt(b);

		be->end_ns =
			sl_fit_max(since, (double)now_ns - sl_half_rtt(b)) + be->sent[0].time_ns;
	}
	if (service_ns) {
		be->took_ns = service_ns;
		sl_controller_done(&b->controller, backend, s.lane, cnt, together, service_ns,
				   s.full);
		follow_bound(b);
	}
}

bool sl_batcher_replied(struct sl_batcher *b, unsigned backend, uint64_t sent_ns, uint64_t trip_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];

	if (!be->batches || be->sent[0].sent_ns != sent_ns || be->sent[0].behind)
		return false;
	sl_controller_trip(&b->controller, trip_ns);
	return true;
}

void sl_batcher_outstanding(const struct sl_batcher *b, unsigned backend, uint32_t *batches,
			    uint32_t *requests)
{
	const struct sl_batch_backend *be = &b->backends[backend];

	*batches = be->batches + be->direct_batches;
	*requests = be->requests + be->direct_requests;
}

uint32_t sl_batcher_queue_len(const struct sl_batcher *b)
{
	return b->queue.len;
}
