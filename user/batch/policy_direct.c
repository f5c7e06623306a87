/* SPDX-License-Identifier: Apache-2.0 */
/* No batching: each request goes at once to the backend with the fewest. */
#include "base/bytes.h"
#include "batch/internal.h"
#include "sluice/types.h"

static struct sl_plan plan(const struct sl_controller *c, const struct sl_controller_backend *be)
{
	uint32_t most = c->pool->batch.max_size;

	(void)be;
	return (struct sl_plan){.cap = most, .most = most, .catch_up = most, .low = 1};
}

const struct sl_policy_ops sl_policy_direct = {.plan = plan};

/* Draws in proportion to weight / (requests + 1), as Envoy does. */
static bool wins_draw(struct sl_batcher *b, const struct sl_batch_backend *be, uint64_t *sum)
{
	uint64_t part = ((uint64_t)be->weight << 16) / (be->direct_requests + 1);

	*sum += part;
	return sl_prng_below(&b->prng, *sum) < part;
}

/*
 * Returns the backend with the fewest, at random among several; with weights, a random one.
 * UINT32_MAX: none now.
 */
unsigned sl_direct_choose(struct sl_batcher *b, const struct sl_batch_item *item, uint64_t now_ns)
{
	uint32_t least = UINT32_MAX, up = sl_roster_up_cnt(&b->roster);
	unsigned best = UINT32_MAX, second = UINT32_MAX, ties = 0;
	uint64_t sum = 0;

	if (sl_prefer_any(b, item)) {
		best = sl_prefer_backend(b, SL_POLICY_DIRECT, item, now_ns);
		if (best != SL_AFFINITY_NONE)
			return best;
		best = UINT32_MAX;
	}
	for (uint32_t k = 0; k < up && k < SL_BATCH_FEW; k++) {
		uint64_t at = up > SL_BATCH_FEW ? sl_prng_below(&b->prng, up) : k;
		unsigned i = b->roster.order[at];
		const struct sl_batch_backend *be = &b->backends[i];

		if (be->stalled_ns > now_ns || sl_batch_on_trial(b, i))
			continue;
		second = i;
		if (sl_batch_excludes(item, i))
			continue;
		if (b->weight_max) {
			best = wins_draw(b, be, &sum) ? i : best;
			continue;
		}
		if (be->direct_requests > least)
			continue;
		ties = be->direct_requests < least ? 1 : ties + 1;
		least = be->direct_requests;
		if (ties == 1 || !sl_prng_below(&b->prng, ties))
			best = i;
	}
	return best == UINT32_MAX ? second : best;
}

int sl_direct_send(struct sl_batcher *b, unsigned backend, struct sl_batch_item **items, uint32_t n)
{
	struct sl_batch_backend *be = &b->backends[backend];
	int rc = b->ops->send(b->app, backend, items, n);

	if (rc)
		return rc;
	be->direct_batches++;
	be->direct_requests += n;
	b->counts.in_flight += n;
	b->counts.last = n;
	b->counts.batches++;
	b->counts.requests += n;
	return 0;
}

/* Batches of the former policy may be outstanding after a reload. */
bool sl_direct_done(struct sl_batcher *b, unsigned backend, uint32_t cnt, uint64_t sent_ns)
{
	struct sl_batch_backend *be = &b->backends[backend];

	for (unsigned i = 0; i < be->batches; i++) {
		if (be->sent[i].sent_ns == sent_ns && be->sent[i].cnt == cnt)
			return false;
	}
	if (be->direct_requests < cnt)
		return false;
	be->direct_batches--;
	be->direct_requests -= cnt;
	be->stalled_ns = 0;
	b->counts.in_flight -= cnt;
	b->counts.served += cnt;
	return true;
}
