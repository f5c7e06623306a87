/* SPDX-License-Identifier: Apache-2.0 */
/* No batching: each request goes at once to pick.c's backend. */
#include "batch/internal.h"

static struct sl_plan plan(const struct sl_controller *c, const struct sl_controller_backend *be)
{
	uint32_t most = c->pool->batch.max_size;

	(void)be;
	return (struct sl_plan){.cap = most, .most = most, .catch_up = most, .low = 1};
}

const struct sl_policy_ops sl_policy_direct = {.plan = plan};

int sl_direct_send(struct sl_batcher *b, unsigned backend, struct sl_batch_item **items, uint32_t n,
		   uint64_t now_ns)
{
	struct sl_batch_backend *be = &b->backends[backend];
	int rc = b->ops->send(b->app, backend, items, n);

	if (rc)
		return rc;
	sl_pick_begin_wait(b, backend, now_ns);
	be->direct_batches++;
	be->direct_requests += n;
	b->counts.in_flight += n;
	b->counts.last = n;
	b->counts.batches++;
	b->counts.requests += n;
	return 0;
}

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
	sl_pick_end_wait(b, backend);
	be->stalled_ns = 0;
	b->counts.in_flight -= cnt;
	b->counts.served += cnt;
	return true;
}
