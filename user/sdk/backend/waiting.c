/* SPDX-License-Identifier: Apache-2.0 */
/* `room` limits what programs may queue (EAGAIN), `credit` what is sent. */
#include <errno.h>
#include <stdlib.h>
#include "sdk/backend/internal.h"
#include "base/clock.h"

enum { PIECE_MIN = 4096, CREDIT_MAX = 1 << 30 };
#define STALLED_NS SL_NS_PER_SEC

static struct reply *pop_waiting(struct request *rq)
{
	struct reply *rp = rq->waiting;

	rq->waiting = rp->next;
	if (!rq->waiting)
		rq->waiting_end = &rq->waiting;
	return rp;
}

static bool cut_piece(struct request *rq, struct reply *rp)
{
	uint32_t left = rp->entry.len - rp->cut, len = left;
	struct reply *piece;

	if (len > rq->credit) {
		len = rq->credit & ~(uint32_t)7;
		if (len < PIECE_MIN)
			return false;
	}
	piece = sl_be_reply_mem_take(rp->share, sizeof(*piece));
	if (!piece) {
		rq->channel->link.error = -ENOBUFS;
		return false;
	}
	*piece = *rp;
	piece->whole = rp;
	piece->entry.len = len;
	piece->entry.rest += left - len;
	if (rp->cut) {
		piece->entry.meta_len = 0;
		piece->body += rp->cut;
	}
	rp->pieces++;
	rp->cut += len;
	rq->credit -= sl_rpc_cost(&piece->entry);
	if (len == left)
		sl_be_reply_free(pop_waiting(rq));
	sl_be_reply_append(rq->channel, piece);
	return true;
}

static void stall_request(struct request *rq)
{
	const struct sl_backend *b = rq->channel->b;

	if (rq->state != REQUEST_REPLIED)
		return;
	rq->credit_ns = b->now_ns - b->away_ns;
	sl_be_share_stall(rq);
}

static void send_waiting(struct request *rq)
{
	struct channel *ch = rq->channel;
	struct reply *rp;

	while ((rp = rq->waiting)) {
		uint32_t cost = sl_rpc_cost(&rp->entry);

		if (!rp->cut && cost <= rq->credit) {
			rq->credit -= cost;
			sl_be_reply_append(ch, pop_waiting(rq));
		} else if (cost > rp->entry.len || !cut_piece(rq, rp)) {
			for (; rp; rp = rp->next)
				sl_be_reply_uncount(rp);
			stall_request(rq);
			return;
		}
	}
	if (rq->state == REQUEST_REPLIED) {
		ch->b->stats.replies++;
		sl_be_request_free(rq);
	}
}

bool sl_be_reply_credit(struct request *rq, uint32_t bytes)
{
	struct sl_backend *b = rq->channel->b;

	if (bytes > CREDIT_MAX - rq->credit)
		return false;
	rq->credit += bytes;
	if (rq->state == REQUEST_HANDLED && atomic_fetch_add(&rq->room, bytes) + bytes > 0 &&
	    !atomic_load(&rq->over) && atomic_exchange(&rq->blocked, false))
		sl_be_upcall(rq, b->opt.on_writable);
	send_waiting(rq);
	return true;
}

/* Drops an interim reply that lost a race against the reply; gateways reject it. */
static void drop_late(struct request *rq, struct reply *rp)
{
	struct channel *ch = rq->channel;

	atomic_fetch_add(&rq->room, sl_rpc_cost(&rp->entry));
	sl_be_reply_free(rp);
	if (!atomic_load(&rq->blocked))
		return;
	atomic_store(&ch->blocked, true);
	atomic_store(&ch->b->full, true);
}

static void take_reply(struct sl_backend *b, struct reply *rp)
{
	struct request *rq = rp->rq;
	struct channel *ch = rq->channel;
	bool ends = !(rp->entry.flags & SL_ENTRY_MORE);

	if (rp->discard || !ch->up || atomic_load_explicit(&rq->gone, memory_order_relaxed)) {
		sl_be_reply_free(rp);
		b->stats.cancelled += ends;
		if (ends)
			sl_be_request_free(rq); /* NOLINT(clang-analyzer-unix.Malloc) */
		return;
	}
	if (rp->entry.flags & SL_ENTRY_GO_ON && rq->taken) {
		drop_late(rq, rp);
		return;
	}
	rq->taken |= !(rp->entry.flags & SL_ENTRY_GO_ON);
	/* freed with the request, before the reply is sent */
	if (rp->where == REPLY_EMBEDDED) {
		struct reply *copy = sl_be_end_alloc(ch);

		if (copy) {
			memcpy(copy, rp, sizeof(*copy));
			copy->where = REPLY_POOLED;
			copy->share = &ch->unknown;
		}
		rp = copy;
	}
	if (!rp) {
		ch->link.error = -ENOBUFS; /* a gateway that does not read its replies */
		sl_be_channel_wake(ch);
	} else {
		if (rp->entry.status != SL_RPC_OK)
			sl_be_replies_drop(rq);
		rp->next = NULL;
		*rq->waiting_end = rp;
		rq->waiting_end = &rp->next;
	}
	if (ends) {
		rq->state = REQUEST_REPLIED;
		sl_be_stream_over(rq);
	}
	send_waiting(rq);
}

void sl_be_reply_hand_over(struct sl_backend *b, struct reply *rp)
{
	if (sl_be_polling == b) {
		sl_be_replies_take(b); /* earlier parts of another thread */
		take_reply(b, rp);
		return;
	}
	rp->next = atomic_load_explicit(&b->handed, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&b->handed, &rp->next, rp,
						      memory_order_release, memory_order_relaxed))
		;
	sl_be_wake(b);
}

bool sl_be_replies_take(struct sl_backend *b)
{
	struct reply *rp, *next, *in_order = NULL;

	if (!atomic_load_explicit(&b->handed, memory_order_relaxed))
		return false;
	rp = atomic_exchange_explicit(&b->handed, NULL, memory_order_acquire);
	for (; rp; rp = next) {
		next = rp->next;
		rp->next = in_order;
		in_order = rp;
	}
	for (; in_order; in_order = next) {
		next = in_order->next;
		take_reply(b, in_order);
	}
	return true;
}

void sl_be_replies_relieve(struct channel *ch)
{
	struct sl_backend *b = ch->b;
	struct request *rq;

	while ((rq = sl_be_share_longest_stalled(ch))) {
		int64_t age_ns = (int64_t)(b->now_ns - b->away_ns - rq->credit_ns);

		if (age_ns < (int64_t)STALLED_NS)
			return;
		if (sl_be_answer(ch, rq->id, rq->class, SL_RPC_LOST))
			ch->link.error = -ENOBUFS;
		b->stats.cancelled++;
		sl_be_request_free(rq);
	}
}
