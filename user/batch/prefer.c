/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backends that keys of requests prefer. The time that a warm cache saves cannot be told from
 * service times, which are fitted for all requests of a backend. So open requests bound the
 * preference, not times.
 */
#include "batch/internal.h"

struct question {
	const struct sl_batcher *b;
	const struct sl_batch_item *item;
	unsigned lane;
	unsigned backend; /* has `taken` requests more */
	uint32_t taken;
	uint64_t now_ns;
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
	uint32_t more = backend == q->backend ? q->taken : 0;

	if (!sl_roster_up(&b->roster, backend) || sl_batch_excludes(q->item, backend) ||
	    sl_batch_on_trial(b, backend) ||
	    !sl_affinity_within(be->requests + be->direct_requests + more,
				b->counts.in_flight + q->taken, sl_roster_up_cnt(&b->roster)))
		return false;
	return q->lane == SL_POLICY_DIRECT ? be->stalled_ns <= q->now_ns
					   : sl_expect_ready(b, backend, q->lane) <= q->now_ns;
}

unsigned sl_prefer_backend(const struct sl_batcher *b, unsigned lane,
			   const struct sl_batch_item *item, uint64_t now_ns)
{
	struct question q = {b, item, lane, SL_AFFINITY_NONE, 0, now_ns};

	return sl_affinity_find(b->affinity, item->key, may_have, &q);
}

bool sl_prefer_joins(const struct sl_batcher *b, unsigned lane, const struct sl_batch_item *item,
		     unsigned backend, uint32_t taken, uint64_t now_ns)
{
	struct question q = {b, item, lane, backend, taken, now_ns};
	unsigned found = sl_affinity_find(b->affinity, item->key, may_have, &q);

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
