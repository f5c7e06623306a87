/* SPDX-License-Identifier: Apache-2.0 */
#include "sdk/backend/internal.h"
#include "base/clock.h"

/* One of so many is of the least urgent class, against starvation. */
enum { TURN_OF_LEAST = 16 };

static unsigned form_batch(struct sl_backend *b)
{
	struct sl_batch *batch = &b->batch;

	if (!b->queue_cnt)
		return 0;
	batch->count = 0;
	while (batch->count < b->opt.max_batch && b->queue_cnt) {
		bool least = ++b->taken % TURN_OF_LEAST == 0;
		struct sl_list *queue = NULL;
		struct request *rq;

		for (unsigned i = 0; i < SL_CLASS_CNT && (least || !queue); i++) {
			if (!sl_list_empty(&b->queue[i]))
				queue = &b->queue[i];
		}
		rq = sl_list_first(queue, struct request, queue);
		sl_list_del(&rq->queue);
		b->queue_cnt--;
		if (b->now_ns >= rq->deadline_ns) {
			b->stats.expired++;
			sl_be_request_close(rq, SL_RPC_EXPIRED);
			continue;
		}
		rq->state = REQUEST_HANDLED;
		rq->begun_ns = b->now_ns;
		batch->requests[batch->count++] = &rq->view;
	}
	if (!batch->count)
		return 0;
	for (unsigned i = 0; i < batch->count; i++)
		((struct request *)batch->requests[i])->together = batch->count;
	b->stats.batches++;
	if (batch->count > b->stats.largest_batch)
		b->stats.largest_batch = batch->count;
	return batch->count;
}

unsigned sl_be_batch_run(struct sl_backend *b)
{
	unsigned count = form_batch(b);

	if (!count)
		return 0;
	b->flushed_ns = b->now_ns;
	b->opt.on_batch(b->opt.arg, &b->batch);
	b->now_ns = sl_now_ns();
	return count;
}

unsigned sl_be_batch_offer(struct sl_backend *b)
{
	unsigned count;

	if (atomic_load_explicit(&b->turn, memory_order_acquire) != TURN_IO)
		return 0;
	count = form_batch(b);
	if (!count)
		return 0;
	atomic_store_explicit(&b->turn, TURN_HANDLER, memory_order_release);
	sl_be_wake_handler(b);
	return count;
}
