/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/epoll.h>
#include "base/cpu.h"
#include "rpc/session.h"

enum { PINGS_MISSED = 3 };

void sl_channel_forget(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	struct sl_pending_batch *b = p->batch;

	sl_timer_cancel(&ch->rpc->wheel, &p->timer);
	sl_outstanding_put(&ch->rpc->out, p);
	ch->outstanding--;
	if (--b->left == 0) {
		sl_list_del(&b->node);
		sl_list_add_tail(&ch->ended, &b->node);
	}
}

/* `sent` comes before batch_done, so a batch that is still being sent waits for that. */
void sl_channel_tell(struct sl_rpc_channel *ch)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &ch->ended) {
		struct sl_pending_batch *b = sl_container_of(at, struct sl_pending_batch, node);

		if (b->send)
			continue;
		if (!b->told_sent) {
			b->told_sent = true;
			r->ops->sent(r->app, ch, b->number);
		}
		sl_list_del(&b->node);
		if (b->left) {
			sl_list_add_tail(&ch->batches, &b->node);
			continue;
		}
		r->ops->batch_done(r->app, ch, b->number, b->cnt, b->service_us, b->sent_ns);
		sl_outstanding_batch_put(&r->out, b);
	}
}

static void on_sent(void *ctx, struct sl_send *s)
{
	struct sl_rpc_channel *ch = ctx;
	struct sl_pending_batch *b = &ch->rpc->out.batches[s->owner];

	/* Told later: this may be inside of sl_rpc_send(). */
	b->send = NULL;
	sl_list_del(&b->node);
	sl_list_add_tail(&ch->ended, &b->node);
	sl_mem_free(&ch->rpc->mem, s);
}

static void on_part(void *ctx, const struct sl_part *part)
{
	struct sl_rpc_channel *ch = ctx;
	struct sl_rpc *r = ch->rpc;
	const struct sl_rpc_entry *e = part->entry;
	struct sl_pending *p = sl_outstanding_find(&r->out, ch, e->id);
	struct sl_rpc_reply reply = {
		.status = e->status,
		.first = part->first,
		.last = part->last,
		.more = e->flags & SL_ENTRY_MORE,
		.no_message = e->flags & SL_ENTRY_NO_MESSAGE,
		.total_len = e->len,
		.meta = part->meta,
		.body = part->body,
		.service_us = e->time_us,
		.together = e->together,
	};
	void *cookie;

	/* Cancelled, timed out, or made up. A reply that began before must go on. */
	if (!p || (!part->first && !p->replying)) {
		ch->stats.late_replies += part->last;
		return;
	}
	cookie = p->cookie;
	p->replying = !part->last;
	if (part->header->time_us > p->batch->service_us)
		p->batch->service_us = part->header->time_us;
	if (part->last && !reply.more) {
		ch->stats.replies++;
		sl_channel_forget(ch, p);
	} else if (sl_timer_pending(&p->timer) &&
		   sl_timer_expires_ns(&r->wheel, &p->timer) < r->now_ns + r->cfg.grace_ns) {
		/* What is arriving is not given up. */
		sl_timer_set(&r->wheel, &p->timer, r->now_ns + r->cfg.grace_ns);
	}
	r->ops->reply(r->app, cookie, &reply);
}

static void on_message(void *ctx, const struct sl_rpc_header *h)
{
	(void)ctx, (void)h; /* parts have said it all */
}

static void on_cancel(void *ctx, uint64_t id)
{
	(void)ctx, (void)id; /* link.c takes CANCEL at backends only */
}

static void on_goaway(void *ctx)
{
	struct sl_rpc_channel *ch = ctx;

	if (ch->state != SL_RPC_UP)
		return;
	ch->state = SL_RPC_DRAINING;
	ch->link.goaway_due = true; /* behind our last request */
	ch->rpc->ops->state(ch->rpc->app, ch, ch->state);
}

const struct sl_link_ops sl_channel_link_ops = {
	.part = on_part,
	.message = on_message,
	.sent = on_sent,
	.cancel = on_cancel,
	.goaway = on_goaway,
};

void sl_channel_timeout(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	struct sl_rpc *r = ch->rpc;
	void *cookie = p->cookie;

	ch->stats.timeouts++;
	ch->stats.failures++;
	sl_link_cancel(&ch->link, sl_outstanding_id(&r->out, p));
	sl_channel_forget(ch, p);
	r->ops->failed(r->app, cookie, SL_RPC_FAIL_TIMEOUT);
}

static void fail_requests(struct sl_rpc_channel *ch, enum sl_rpc_failure why_left)
{
	struct sl_rpc *r = ch->rpc;

	while (!sl_list_empty(&ch->requests)) {
		struct sl_pending *p = sl_list_first(&ch->requests, struct sl_pending, node);
		const struct sl_send *s = p->batch->send;
		void *cookie = p->cookie;
		bool left = !s || s->offset;

		ch->stats.failures++;
		sl_channel_forget(ch, p);
		r->ops->failed(r->app, cookie, left ? why_left : SL_RPC_FAIL_DOWN);
	}
}

void sl_channel_down(struct sl_rpc_channel *ch, enum sl_rpc_failure why_left)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_transport *t = ch->link.t;
	struct sl_send *s;

	/* First: no upcall may send here any more. */
	ch->state = SL_RPC_DOWN;
	(void)epoll_ctl(r->epoll_fd, EPOLL_CTL_DEL, t->fd, NULL);
	/* The upcalls give their bytes back to those who will write into them. */
	if (t->ops->halt)
		t->ops->halt(t);
	fail_requests(ch, why_left);
	while ((s = sl_link_unsent(&ch->link)))
		on_sent(ch, s);
	while (!sl_list_empty(&ch->ended))
		sl_channel_tell(ch);
	ch->past_doorbells += t->doorbells;
	ch->past.messages_sent += ch->link.stats.messages_sent;
	ch->past.messages_received += ch->link.stats.messages_received;
	ch->past.bytes_sent += ch->link.stats.bytes_sent;
	ch->past.bytes_received += ch->link.stats.bytes_received;
	ch->past.stalls += ch->link.stats.stalls;
	sl_link_fini(&ch->link);
	r->ops->state(r->app, ch, ch->state);
}

unsigned sl_channel_poll(struct sl_rpc_channel *ch, uint64_t now_ns)
{
	int n = sl_link_poll(&ch->link, now_ns);

	if (sl_unlikely(n < 0)) {
		ch->stats.bad_messages += n == -EPROTO;
		sl_channel_down(ch, n == -EPROTO ? SL_RPC_FAIL_PROTOCOL : SL_RPC_FAIL_LOST);
		return 0;
	}
	if (!sl_list_empty(&ch->ended))
		sl_channel_tell(ch);
	return (unsigned)n;
}

/*
 * A PING per interval of silence; three without an answer end the channel. Pings are counted, not
 * time: a worker that did not run has not asked.
 */
static void watch_silence(struct sl_rpc_channel *ch, uint64_t now_ns)
{
	const struct sl_rpc_config *cfg = &ch->rpc->cfg;
	struct sl_link *l = &ch->link;
	uint64_t silence = now_ns > l->last_rx_ns ? now_ns - l->last_rx_ns : 0;
	uint64_t patience = ch->outstanding ? cfg->patience_ns : 0;

	if (now_ns < ch->ping_ns)
		return;
	if (silence < cfg->ping_interval_ns) {
		ch->pings = 0;
		/* A time in the past would keep the worker awake. */
		ch->ping_ns = l->last_rx_ns + cfg->ping_interval_ns;
		return;
	}
	if (l->last_rx_ns > ch->pinged_ns)
		ch->pings = 0;
	if (ch->pings >= PINGS_MISSED && silence >= patience && !l->error)
		l->error = -ETIMEDOUT;
	l->ping_due = true;
	ch->pings++;
	ch->pinged_ns = now_ns;
	ch->ping_ns = now_ns + cfg->ping_interval_ns;
}

/* Every millisecond or so: does the peer answer, is a drained channel empty? */
void sl_channel_tick(struct sl_rpc_channel *ch, uint64_t now_ns)
{
	struct sl_link *l = &ch->link;

	watch_silence(ch, now_ns);
	if (ch->state == SL_RPC_DRAINING && !ch->outstanding && !l->goaway_due &&
	    sl_list_empty(&ch->ended) && !l->error)
		l->error = -ESHUTDOWN;
}
