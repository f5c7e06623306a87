/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends that keys of requests prefer, bounded by open requests: service times do not tell what a
 * warm cache saves.
 */
#include "batch/internal.h"

struct question {
	const struct sl_batcher *b;
	const struct sl_batch_item *item;
	unsigned lane;
	unsigned backend; /* has `taken` requests more */
	uint32_t taken;
	uint64_t now_ns;
	bool hot; /* not beyond the average */
};

static bool is_up(const void *arg, unsigned backend)
{
	const struct sl_batcher *b = arg;

	return sl_roster_up(&b->roster, backend);
}

static bool may_have(const void *arg, unsigned backend)
{
	const struct question *q = arg;
	const struct sl_batcher *b = q->b;
	const struct sl_batch_backend *be = &b->backends[backend];
	uint32_t own = be->requests + be->direct_requests + be->pick.open +
		       (backend == q->backend ? q->taken : 0);
	uint32_t all = b->counts.in_flight + b->open_streams + q->taken;
	uint32_t up = sl_roster_up_cnt(&b->roster);

	if (!sl_roster_up(&b->roster, backend) || sl_batch_excludes(q->item, backend) ||
	    sl_batch_on_trial(b, backend) || sl_pick_is_silent(b, backend, q->now_ns) ||
	    !(q->hot ? sl_affinity_below_mean(own, all, up) : sl_affinity_within(own, all, up)))
		return false;
	return q->lane == SL_POLICY_DIRECT ? be->stalled_ns <= q->now_ns
					   : sl_expect_ready(b, backend, q->lane) <= q->now_ns;
}

static unsigned find_preferred(struct question *q)
{
	const struct sl_batcher *b = q->b;
	uint32_t homes = sl_affinity_homes(b->affinity, q->item->key, sl_roster_up_cnt(&b->roster));
	unsigned found = SL_AFFINITY_NONE;

	q->hot = homes > 1;
	if (q->hot)
		found = sl_affinity_find_among(b->affinity, q->item->key, homes, may_have, q);
	if (found != SL_AFFINITY_NONE)
		return found;
	q->hot = false;
	return sl_affinity_find(b->affinity, q->item->key, may_have, q);
}

unsigned sl_prefer_backend(const struct sl_batcher *b, unsigned lane,
			   const struct sl_batch_item *item, uint64_t now_ns)
{
	struct question q = {b, item, lane, SL_AFFINITY_NONE, 0, now_ns, false};

	return find_preferred(&q);
}

void sl_prefer_note(struct sl_batcher *b, const struct sl_batch_item *item)
{
	sl_affinity_note(b->affinity, item->key, sl_roster_up_cnt(&b->roster));
}

bool sl_prefer_joins(const struct sl_batcher *b, unsigned lane, const struct sl_batch_item *item,
		     unsigned backend, uint32_t taken, uint64_t now_ns)
{
	struct question q = {b, item, lane, backend, taken, now_ns, false};
	unsigned found = find_preferred(&q);

	return found == backend || found == SL_AFFINITY_NONE;
}

void sl_batcher_set_affinity(struct sl_batcher *b, struct sl_affinity *a)
{
	b->affinity = a;
}

const struct sl_affinity *sl_batcher_affinity(const struct sl_batcher *b)
{
	return b->affinity;
}

unsigned sl_batcher_home(const struct sl_batcher *b, uint64_t key)
{
	return b->affinity ? sl_affinity_find(b->affinity, key, is_up, b) : SL_AFFINITY_NONE;
}

uint32_t sl_batcher_up_cnt(const struct sl_batcher *b)
{
	return sl_roster_up_cnt(&b->roster);
}
