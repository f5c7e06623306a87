/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <unistd.h>
#include "sdk/backend/internal.h"

void sl_be_wake(struct sl_backend *b)
{
	static const uint64_t one = 1;

	/* Pairs with the fence of sl_be_arm(): one sees the other's store. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&b->sleeping, memory_order_relaxed) &&
	    atomic_exchange_explicit(&b->sleeping, false, memory_order_relaxed) &&
	    write(b->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void sl_be_wake_handler(struct sl_backend *b)
{
	static const uint64_t one = 1;

	/* Pairs with the fence of arm_io(). */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&b->waiting, memory_order_relaxed) &&
	    atomic_exchange_explicit(&b->waiting, false, memory_order_relaxed) &&
	    write(b->work_fd, &one, sizeof(one)) < 0)
		return;
}

void sl_backend_stop(struct sl_backend *b)
{
	static const uint64_t one = 1;
	int saved = errno;

	atomic_store(&b->stop, true);
	if (write(b->wake_fd, &one, sizeof(one)) < 0)
		errno = saved;
}

void sl_be_channel_wake(struct channel *ch)
{
	struct sl_backend *b = ch->b;
	struct channel *last;

	ch->used = true;
	if (!sl_list_empty(&ch->node))
		return;
	last = b->resting[--b->resting_cnt];
	b->resting[ch->rest_at] = last;
	last->rest_at = ch->rest_at;
	sl_list_add_tail(&b->channels, &ch->node);
}

void sl_be_upcall(struct request *rq, sl_request_fn *fn)
{
	struct sl_backend *outer;

	if (!fn)
		return;
	outer = sl_be_step_out();
	rq->channel->b->upcalls++;
	fn(rq->channel->b->opt.arg, &rq->view);
	sl_be_polling = outer;
}
