/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/clock.h"
#include "core/affinity.h"
#include "core/event.h"
#include "core/hedge.h"
#include "core/sent_batch.h"
#include "core/pool.h"

enum { SHED_REPLY_NS = 1000000 }; /* a reply's time to its client */

static struct sl_exchange *exchange_of(struct sl_batch_item *item)
{
	return sl_container_of(item, struct sl_exchange, item);
}

static uint64_t budget_us(const struct sl_exchange *x, uint64_t now_ns)
{
	uint64_t left;

	if (x->deadline_ns == UINT64_MAX)
		return 0;
	left = x->deadline_ns > now_ns ? (x->deadline_ns - now_ns) / SL_NS_PER_US : 0;
	return left ? left : 1; /* 0: no deadline */
}

static uint32_t fill_item(struct sl_core *c, struct sl_exchange *x, struct sl_rpc_item *it,
			  uint32_t used)
{
	uint32_t n = sl_store_spans(&x->request, c->spans + used, c->span_cap - used);

	*it = (struct sl_rpc_item){
		.cookie = x,
		.spans = c->spans + used,
		.span_cnt = n,
		.len = (uint32_t)(x->request.len - x->request_meta_len),
		.meta_len = x->request_meta_len,
		.idempotent = x->idempotent,
		.compressed = x->stream.compressed,
		.stream = x->stream.open_ended,
		.open = x->open,
		.expects = x->stream.awaits,
		.class = x->rpc_class,
		.budget_us = budget_us(x, c->now_ns),
	};
	return n;
}

static void mark_sent(struct sl_core *c, struct sl_exchange *x, struct sl_backend_ref *m,
		      uint64_t batch, uint64_t id)
{
	x->state = SL_EX_IN_FLIGHT;
	sl_exchange_set_backend(x, m);
	x->rpc_id = id;
	x->batch = batch;
	x->send_ns = c->now_ns;
	if (!x->retries)
		sl_retry_earn(&x->pool->budget, c->now_ns);
	if (sl_unlikely(x->item.key))
		sl_affinity_count(x, m);
	sl_stage_add(x, SL_STAGE_QUEUE, c->now_ns - x->item.queued_ns);
	if (x->stream.open_ended) { /* the body is kept separately */
		x->head = x->request;
		x->request = (struct sl_store){0};
	}
}

int sl_dispatch_send(void *pool, unsigned backend, struct sl_batch_item **items, unsigned cnt)
{
	struct sl_pool *g = pool;
	struct sl_core *c = g->core;
	struct sl_rpc_item *rpc = c->rpc_items;
	struct sl_backend_ref *m = g->by_number[backend];
	struct sl_sent_batch *sent = sl_mempool_get(&c->sent_batches);
	uint32_t used = 0;
	int rc = sent ? 0 : -EAGAIN;

	for (unsigned i = 0; i < cnt && !rc; i++) {
		struct sl_exchange *x = exchange_of(items[i]);
		uint32_t n = fill_item(c, x, &rpc[i], used);

		rc = n ? 0 : -EMSGSIZE;
		used += n;
	}
	if (!rc)
		rc = sl_rpc_send(m->channel, rpc, cnt, c->now_ns, &sent->batch);
	if (rc) {
		if (sent)
			sl_mempool_put(&c->sent_batches, sent);
		return rc;
	}
	sl_sent_batch_begin(c, m, sent);
	for (unsigned i = 0; i < cnt; i++) {
		struct sl_exchange *x = exchange_of(items[i]);

		mark_sent(c, x, m, sent->batch, rpc[i].id);
		if (x->note)
			sl_event_sent(x, cnt);
	}
	c->stats.batches++;
	c->stats.batched += cnt;
	return 0;
}

static enum sl_outcome refusal_of(const struct sl_exchange *x, enum sl_outcome why)
{
	uint64_t by_ns = x->core->now_ns + (why == SL_OUTCOME_SHED ? SHED_REPLY_NS : 0);

	return why != SL_OUTCOME_OK && by_ns >= x->deadline_ns ? SL_OUTCOME_EXPIRED : why;
}

static void drop_item(void *app, struct sl_batch_item *item, enum sl_outcome why)
{
	struct sl_exchange *x = exchange_of(item);

	(void)app;
	if (sl_unlikely(x->is_hedge))
		sl_hedge_drop(x->twin);
	else
		sl_exchange_fail(x, refusal_of(x, why));
}

const struct sl_batch_ops sl_dispatch_batch_ops = {
	.send = sl_dispatch_send,
	.drop = drop_item,
	.silent = sl_pool_backend_silent,
};

enum sl_outcome sl_dispatch_submit(struct sl_exchange *x)
{
	enum sl_outcome o;

	if (x->request.frames > x->core->span_cap ||
	    x->request.len - x->request_meta_len > SL_RPC_MAX_MESSAGE)
		return SL_OUTCOME_TOO_LARGE;
	x->item.deadline_ns = x->deadline_ns;
	x->item.arrived_ns = x->parse_ns;
	x->item.policy = x->route->policy;
	x->item.bytes = (uint32_t)x->request.len;
	o = sl_batcher_submit(x->pool->batcher, &x->item, x->core->now_ns);
	if (o == SL_OUTCOME_OK)
		x->state = SL_EX_QUEUED;
	return refusal_of(x, o);
}
