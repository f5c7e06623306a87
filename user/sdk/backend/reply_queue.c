/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include "sdk/backend/internal.h"

enum { ENDS_SHARE = 4 };

static size_t size_of(const struct reply *rp)
{
	return sizeof(*rp) + sl_rpc_pad8(rp->entry.meta_len) +
	       (rp->lent ? 0 : sl_rpc_pad8(rp->entry.len));
}

void sl_be_reply_count(struct reply *rp)
{
	rp->counted = true;
	atomic_fetch_add_explicit(&rp->share->channel->unsent, size_of(rp), memory_order_relaxed);
}

void sl_be_reply_uncount(struct reply *rp)
{
	if (!rp->counted)
		return;
	rp->counted = false;
	atomic_fetch_sub_explicit(&rp->share->channel->unsent, size_of(rp), memory_order_relaxed);
}

static void give_foreign(struct reply *rp)
{
	size_t len = size_of(rp);
	struct client_share *share = rp->share;

	free(rp);
	sl_be_foreign_give(share, len);
}

void sl_be_reply_free(struct reply *rp)
{
	struct reply *piece = rp->whole ? rp : NULL;
	struct sl_backend *outer;
	sl_reply_done_fn *done;
	void *arg;

	if (piece) {
		rp = piece->whole;
		sl_be_reply_mem_give(rp->share, piece);
	}
	if (--rp->pieces)
		return;
	done = rp->lent ? rp->done : NULL;
	arg = rp->done_arg;
	sl_be_reply_uncount(rp);
	switch (rp->where) {
	case REPLY_POOLED: sl_be_reply_mem_give(rp->share, rp); break;
	case REPLY_MALLOC: give_foreign(rp); break;
	default: break;
	}
	if (done) {
		outer = sl_be_step_out();
		done(arg);
		sl_be_polling = outer;
	}
}

void sl_be_replies_drop(struct request *rq)
{
	struct reply *rp;

	while ((rp = rq->waiting)) {
		rq->waiting = rp->next;
		sl_be_reply_free(rp);
	}
	rq->waiting_end = &rq->waiting;
}

void sl_be_reply_append(struct channel *ch, struct reply *rp)
{
	rp->next = NULL;
	*ch->replies[rp->priority].end = rp;
	ch->replies[rp->priority].end = &rp->next;
	ch->classes |= UINT32_C(1) << rp->priority;
	sl_be_channel_wake(ch);
}

struct reply *sl_be_end_alloc(struct channel *ch)
{
	const struct sl_capped_alloc *m = &ch->b->reply_mem;
	size_t used = atomic_load_explicit(&ch->reply_used, memory_order_relaxed);

	if (used + sizeof(struct reply) > (m->limit - m->used) * ENDS_SHARE)
		return NULL;
	return sl_be_reply_mem_take(&ch->unknown, sizeof(struct reply));
}

int sl_be_answer(struct channel *ch, uint64_t id, uint8_t priority, enum sl_rpc_status status)
{
	struct reply *rp = sl_be_end_alloc(ch);

	if (!rp)
		return -ENOMEM;
	*rp = (struct reply){
		.share = &ch->unknown,
		.entry = {.id = id, .status = (uint8_t)status},
		.where = REPLY_POOLED,
		.pieces = 1,
		.priority = priority,
	};
	sl_be_reply_append(ch, rp);
	return 0;
}
