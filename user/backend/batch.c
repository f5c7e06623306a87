/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/internal.h"
#include "base/clock.h"

/* Moves what is worth computing from the queue into the batch. */
static void fill(struct sl_backend *b)
{
	struct sl_batch *batch = &b->batch;

	batch->count = 0;
	while (batch->count < b->opt.max_batch && b->queue_cnt) {
		struct request *rq = sl_list_first(&b->queue, struct request, queue);

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
}

unsigned sl_be_batch_run(struct sl_backend *b)
{
	unsigned count;

	if (!b->queue_cnt)
		return 0;
	fill(b);
	count = b->batch.count;
	if (!count)
		return 0;
	b->stats.batches++;
	if (count > b->stats.largest_batch)
		b->stats.largest_batch = count;
	b->flushed_ns = b->now_ns;
	b->opt.handle(b->opt.arg, &b->batch);
	b->now_ns = sl_now_ns();
	return count;
}

void sl_be_flush(struct sl_backend *b)
{
	struct sl_list *at;

	b->flushed_ns = b->now_ns;
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (!ch->up)
			continue;
		if (ch->replies)
			sl_be_replies_pack(ch);
		sl_link_flush(&ch->link, b->now_ns);
	}
}
