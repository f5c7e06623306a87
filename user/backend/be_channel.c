/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include "backend/internal.h"
#include "base/clock.h"

enum { PINGS_MISSED = 3 };
#define SILENCE_NS (UINT64_C(5) * SL_NS_PER_SEC)
#define PING_NS    SL_NS_PER_SEC

static void fail(struct channel *ch, int error)
{
	if (!ch->link.error)
		ch->link.error = error;
}

static void queue(struct request *rq)
{
	struct sl_backend *b = rq->channel->b;

	rq->state = REQUEST_QUEUED;
	b->stats.requests++;
	sl_list_add_tail(&b->queue, &rq->queue);
	b->queue_cnt++;
}

/* The first part: room for the whole request, or a refusal. */
static struct request *begin(struct channel *ch, const struct sl_part *part)
{
	struct request *rq;

	if (sl_be_find(ch, part->entry->id)) {
		fail(ch, -EPROTO); /* not unique */
		return NULL;
	}
	rq = sl_be_request_new(ch, part);
	if (!rq) {
		if (sl_be_refuse(ch, part, SL_RPC_REFUSED))
			fail(ch, -ENOBUFS);
		return NULL;
	}
	if (sl_be_request_parse(rq, part))
		return rq;
	ch->b->stats.bad_messages++;
	sl_be_request_close(rq, SL_RPC_BAD_REQUEST);
	return NULL;
}

static void on_part(void *ctx, const struct sl_part *part)
{
	struct channel *ch = ctx;
	struct request *rq;

	if (part->header->priority >= SL_CLASS_CNT) {
		fail(ch, -EPROTO);
		return;
	}
	rq = part->first ? begin(ch, part) : sl_be_find(ch, part->entry->id);
	if (!rq)
		return; /* refused, or cancelled on its way */
	/* Two messages under way with the same id: only a liar sends them. */
	if (rq->state != REQUEST_ARRIVING || part->body.len > rq->view.body_len - rq->filled) {
		fail(ch, -EPROTO);
		return;
	}
	if (part->body.len)
		memcpy((uint8_t *)(uintptr_t)rq->view.body + rq->filled, part->body.ptr,
		       part->body.len);
	rq->filled += part->body.len;
	if (rq->filled == rq->view.body_len)
		queue(rq);
}

static void on_message(void *ctx, const struct sl_rpc_header *h)
{
	(void)ctx, (void)h;
}

static void on_sent(void *ctx, struct sl_send *s)
{
	struct channel *ch = ctx;

	sl_be_replies_sent(ch->b, s);
}

static void on_cancel(void *ctx, uint64_t id)
{
	struct channel *ch = ctx;
	struct request *rq = sl_be_find(ch, id);

	if (!rq)
		return;
	if (rq->state == REQUEST_HANDLED) {
		atomic_store_explicit(&rq->gone, true, memory_order_relaxed);
		return;
	}
	ch->b->stats.cancelled++;
	sl_be_request_free(rq);
}

static void on_goaway(void *ctx)
{
	struct channel *ch = ctx;

	ch->peer_goaway = true;
}

static const struct sl_link_ops link_ops = {
	.part = on_part,
	.message = on_message,
	.sent = on_sent,
	.cancel = on_cancel,
	.goaway = on_goaway,
};

bool sl_be_channel_add(struct sl_backend *b, struct sl_transport *t)
{
	struct channel *ch = NULL;
	struct epoll_event ev = {.events = EPOLLIN};

	if (b->channel_cnt < SL_BE_CHANNELS_MAX)
		ch = calloc(1, sizeof(*ch));
	ev.data.ptr = ch;
	if (!ch || epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, t->fd, &ev) < 0) {
		free(ch);
		t->ops->close(t);
		return false;
	}
	ch->b = b;
	ch->up = true;
	sl_list_init(&ch->open);
	ch->replies_end = &ch->replies;
	ch->link.ops = &link_ops;
	ch->link.ctx = ch;
	ch->link.mem = &b->request_mem;
	ch->link.scratch = &b->scratch;
	ch->link.takes = SL_RPC_REQUEST;
	sl_link_init(&ch->link, t, b->now_ns, false);
	sl_list_add_tail(&b->channels, &ch->node);
	b->channel_cnt++;
	return true;
}

void sl_be_channel_close(struct channel *ch)
{
	struct sl_backend *b = ch->b;
	struct sl_list *at, *next;
	struct sl_send *s;

	if (!ch->up)
		return;
	b->stats.bad_messages += ch->link.error == -EPROTO;
	(void)epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, ch->link.t->fd, NULL);
	while ((s = sl_link_unsent(&ch->link)))
		sl_be_replies_sent(b, s);
	while (ch->replies) {
		struct reply *rp = ch->replies;

		ch->replies = rp->next;
		sl_be_reply_free(b, rp);
	}
	ch->replies_end = &ch->replies;
	sl_link_fini(&ch->link);
	ch->up = false;
	sl_list_for_each_safe (at, next, &ch->open) {
		struct request *rq = sl_container_of(at, struct request, node);

		if (rq->state == REQUEST_HANDLED)
			atomic_store_explicit(&rq->gone, true, memory_order_relaxed);
		else
			sl_be_request_free(rq);
	}
}

/*
 * A gateway asks when it hears nothing, so it is never silent for long. One whose host is gone
 * never says so: it is asked in turn, and three times unheard is gone. Pings are counted, not time:
 * a handler that took long has not asked meanwhile.
 */
void sl_be_channel_tick(struct channel *ch, uint64_t now_ns)
{
	struct sl_link *l = &ch->link;

	(void)l->t->ops->check(l->t);
	if (l->last_rx_ns > ch->pinged_ns)
		ch->pings = 0;
	if (now_ns < l->last_rx_ns + SILENCE_NS || now_ns < ch->pinged_ns + PING_NS)
		return;
	if (ch->pings >= PINGS_MISSED)
		fail(ch, -ETIMEDOUT);
	ch->pings++;
	ch->pinged_ns = now_ns;
	l->ping_due = true;
}

bool sl_be_channel_reap(struct channel *ch)
{
	if (ch->up || ch->open_cnt)
		return false;
	sl_list_del(&ch->node);
	ch->b->channel_cnt--;
	free(ch);
	return true;
}
