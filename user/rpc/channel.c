/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sys/epoll.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "rpc/session.h"

enum { CREDIT_MAX = 1 << 30 };
#define PARTING_NS (UINT64_C(5) * SL_NS_PER_SEC)
enum { HEARD = 4 * SL_RPC_STREAM_WINDOW };

static void leave_batch(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	struct sl_pending_batch *b = p->batch;

	p->batch = NULL;
	if (b && --b->left == 0) {
		sl_list_del(&b->node);
		sl_list_add_tail(&ch->ended, &b->node);
	}
}

static void drop_parts(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	struct sl_list *at;

	while ((at = sl_list_pop_head(&p->parts))) {
		struct sl_stream_part *part =
			sl_container_of(at, struct sl_stream_part, of_request);

		if (!part->send.offset)
			sl_link_withdraw(&ch->link, &part->send);
	}
}

void sl_channel_forget(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	leave_batch(ch, p);
	drop_parts(ch, p);
	sl_timer_cancel(&ch->rpc->wheel, &p->timer);
	sl_outstanding_put(&ch->rpc->out, p);
	ch->outstanding--;
}

void sl_channel_cancel(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	struct sl_send *s = p->batch ? p->batch->sends[p->class] : NULL;

	sl_link_cancel(&ch->link, sl_outstanding_id(&ch->rpc->out, p), s);
	sl_channel_wake(ch);
	sl_channel_forget(ch, p);
}

void sl_channel_report_sent(struct sl_rpc_channel *ch)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &ch->ended) {
		struct sl_pending_batch *b = sl_container_of(at, struct sl_pending_batch, node);
		struct sl_rpc_batch_end end;

		if (b->unsent)
			continue;
		if (!b->told_sent) {
			b->told_sent = true;
			r->ops->sent(r->app, ch->app_data, b->number);
		}
		sl_list_del(&b->node);
		if (b->left) {
			sl_list_add_tail(&ch->batches, &b->node);
			continue;
		}
		end = (struct sl_rpc_batch_end){.batch = b->number,
						.sent_ns = b->sent_ns,
						.stream = b->stream,
						.count = b->cnt,
						.answered = b->answered,
						.together = b->together,
						.service_us = b->service_us};
		r->ops->batch_done(r->app, ch->app_data, &end);
		sl_outstanding_batch_put(&r->out, b);
	}
}

static void on_reads(void *ctx, const struct sl_span *spans, unsigned cnt)
{
	sl_channel_watch(ctx, SL_RPC_READ, spans, cnt);
}

static void on_sent(void *ctx, struct sl_send *s)
{
	struct sl_rpc_channel *ch = ctx;
	struct sl_pending_batch *b;

	if (s->owner == SL_SEND_PART) {
		struct sl_stream_part *part = sl_container_of(s, struct sl_stream_part, send);

		sl_list_del(&part->of_request);
		ch->part_bytes[s->header.priority] -= s->total;
		ch->rpc->part_bytes -= s->total;
		sl_capped_free(&ch->rpc->mem, part);
		return;
	}
	b = &ch->rpc->out.batches[s->owner];
	sl_channel_watch(ch, SL_RPC_RETURNED, s->spans, s->span_cnt);
	b->sends[s->header.priority] = NULL;
	if (--b->unsent == 0) {
		/* Reported later: this may be inside sl_rpc_send(). */
		sl_list_del(&b->node);
		sl_list_add_tail(&ch->ended, &b->node);
	}
	sl_capped_free(&ch->rpc->mem, s);
}

static void allow_grace(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	struct sl_rpc *r = ch->rpc;
	uint64_t until_ns = r->now_ns + r->cfg.grace_ns;

	if (sl_timer_pending(&p->timer) && sl_timer_expires_ns(&r->wheel, &p->timer) < until_ns)
		sl_timer_set(&r->wheel, &p->timer, until_ns);
}

static void answered(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	if (p->batch)
		p->batch->answered++;
	leave_batch(ch, p);
}

static uint8_t kind_of(const struct sl_rpc_entry *e)
{
	return e->flags & (SL_ENTRY_MORE | SL_ENTRY_NO_MESSAGE | SL_ENTRY_COMPRESSED);
}

/* Takes GO_ON: 100 (Continue) without metadata, else an interim reply. False: unexpected. */
static bool take_go_on(struct sl_pending *p, const struct sl_rpc_entry *e)
{
	bool expected = p->expects;

	if (kind_of(e) != SL_ENTRY_MORE || e->len || p->begun)
		return false;
	if (e->meta_len)
		return p->interims++ < SL_RPC_MAX_INTERIM;
	p->expects = false;
	return expected;
}

static bool entry_begins(struct sl_rpc_channel *ch, struct sl_pending *p,
			 const struct sl_rpc_entry *e)
{
	uint32_t cost = sl_rpc_cost(e);

	if (p->rest && e->status == SL_RPC_OK &&
	    (e->len + e->rest != p->rest || e->meta_len || kind_of(e) != p->flags))
		return false;
	if (e->flags & SL_ENTRY_GO_ON && !take_go_on(p, e))
		return false;
	if (cost > p->credit) {
		ch->stats.over_credit++;
		return false;
	}
	p->credit -= cost;
	p->flags = kind_of(e);
	p->begun |= !(e->flags & SL_ENTRY_GO_ON);
	return true;
}

static void note_times(struct sl_pending *p, const struct sl_rpc_entry *e)
{
	struct sl_pending_batch *b = p->batch;

	if (!b)
		return;
	if (e->time_us > b->service_us)
		b->service_us = e->time_us;
	if (e->together > b->together)
		b->together = e->together;
}

static void on_part(void *ctx, const struct sl_part *part)
{
	struct sl_rpc_channel *ch = ctx;
	struct sl_rpc *r = ch->rpc;
	const struct sl_rpc_entry *e = part->entry;
	struct sl_pending *p = sl_outstanding_find(&r->out, ch, e->id);
	struct sl_rpc_reply reply = {
		.status = e->status,
		.more = e->flags & SL_ENTRY_MORE,
		.no_message = e->flags & SL_ENTRY_NO_MESSAGE,
		.compressed = e->flags & SL_ENTRY_COMPRESSED,
		.meta = part->meta,
		.body = part->body,
		.service_us = e->time_us,
		.together = e->together,
	};
	void *cookie;

	if (sl_unlikely(ch->link.error))
		return;
	if (!p || (!part->first && !p->from)) {
		ch->stats.late_replies += part->last;
		return;
	}
	/* Two messages with one id would mix the bytes of two replies. */
	if (sl_unlikely(p->from != (part->first ? NULL : part->header))) {
		ch->link.error = -EPROTO;
		return;
	}
	reply.first = part->first && !p->rest;
	reply.last = part->last && !e->rest;
	if (part->first && sl_unlikely(!entry_begins(ch, p, e))) {
		ch->link.error = -EPROTO;
		return;
	}
	cookie = p->cookie;
	if (e->flags & SL_ENTRY_GO_ON) {
		if (e->meta_len)
			r->ops->interim(r->app, cookie, part->meta);
		else
			r->ops->go_on(r->app, cookie);
		return;
	}
	reply.total_len = e->len + e->rest;
	p->from = part->last ? NULL : part->header;
	p->rest = part->last ? e->rest : p->rest;
	note_times(p, e);
	if (reply.status == SL_RPC_OK && !reply.more)
		answered(ch, p);
	if (reply.last && !reply.more) {
		ch->stats.replies++;
		sl_channel_forget(ch, p);
	} else {
		allow_grace(ch, p);
	}
	r->ops->reply(r->app, cookie, &reply);
}

static void on_cancel(void *ctx, uint64_t id)
{
	(void)ctx, (void)id; /* backends only */
}

static void on_window(void *ctx, uint64_t id, uint32_t bytes)
{
	struct sl_rpc_channel *ch = ctx;
	struct sl_pending *p = sl_outstanding_find(&ch->rpc->out, ch, id);

	if (!p || !p->open)
		return;
	if (bytes > CREDIT_MAX - p->part_credit) {
		ch->link.error = -EPROTO;
		return;
	}
	p->part_credit += bytes;
	if (ch->rpc->ops->credit)
		ch->rpc->ops->credit(ch->rpc->app, p->cookie);
}

static unsigned on_grants(void *ctx, struct sl_rpc_window *to, unsigned max)
{
	struct sl_rpc_channel *ch = ctx;
	struct sl_list *node;
	unsigned n = 0;

	while (n < max && (node = sl_list_pop_head(&ch->windows))) {
		struct sl_pending *p = sl_container_of(node, struct sl_pending, window);

		to[n++] = (struct sl_rpc_window){.id = sl_outstanding_id(&ch->rpc->out, p),
						 .bytes = p->due};
		p->due = 0;
	}
	return n;
}

static bool has_all(const struct sl_pending *p)
{
	return !(p->flags & SL_ENTRY_MORE) && p->credit >= p->rest;
}

static uint32_t window_of(const struct sl_pending *p)
{
	return p->stream && !p->wide ? SL_RPC_STREAM_WINDOW : SL_RPC_INITIAL_WINDOW;
}

static void widen(struct sl_outstanding *o, struct sl_pending *p, uint64_t kept)
{
	if (!p->stream || p->wide || kept || p->given < HEARD || o->wide_cnt == SL_RPC_WIDE_MAX)
		return;
	p->wide = true;
	o->wide_cnt++;
}

void sl_rpc_reply_kept(struct sl_rpc_channel *ch, uint64_t id, uint64_t kept)
{
	struct sl_pending *p = sl_outstanding_find(&ch->rpc->out, ch, id);
	uint32_t window, most, more;

	if (!p)
		return;
	widen(&ch->rpc->out, p, kept);
	window = window_of(p);
	if (kept > window / 2)
		answered(ch, p);
	most = kept < window ? window - (uint32_t)kept : 0;
	more = p->credit < most ? most - p->credit : 0;
	if (more < window / 2 || has_all(p))
		return;
	allow_grace(ch, p);
	p->credit += more;
	p->due += more;
	p->given += p->given < HEARD ? more : 0;
	sl_list_del(&p->window);
	sl_list_add_tail(&ch->windows, &p->window);
	ch->link.windows_due = true;
	sl_channel_wake(ch);
}

static void set_away(struct sl_rpc_channel *ch, bool away)
{
	ch->state = away ? SL_RPC_DRAINING : SL_RPC_UP;
	ch->link.away = away ? SL_AWAY_ENDS : SL_AWAY_NOT;
	sl_channel_wake(ch);
	ch->rpc->ops->state(ch->rpc->app, ch->app_data, ch->state);
}

static void on_goaway(void *ctx, bool stays)
{
	struct sl_rpc_channel *ch = ctx;

	ch->ends = !stays;
	if (ch->state == SL_RPC_UP)
		set_away(ch, true);
	else
		sl_channel_wake(ch);
}

/* Ends a drain at the peer's READY, which open streams would prolong. */
static void on_ready(void *ctx)
{
	struct sl_rpc_channel *ch = ctx;

	ch->ends = false;
	if (ch->state == SL_RPC_DRAINING && !ch->leaving)
		set_away(ch, false);
}

void sl_rpc_channel_drain(struct sl_rpc_channel *ch)
{
	ch->leaving = true;
	if (ch->state == SL_RPC_UP)
		set_away(ch, true);
	else if (ch->state == SL_RPC_DRAINING)
		sl_channel_wake(ch);
}

int sl_channel_watch_transport(struct sl_rpc_channel *ch, struct sl_transport *t)
{
	return sl_poll_groups_watch(&ch->rpc->poll_groups, ch->rpc->epoll_fd, t, ch);
}

static void leave_transport(struct sl_rpc_channel *ch, struct sl_transport *t)
{
	sl_poll_groups_unwatch(&ch->rpc->poll_groups, ch->rpc->epoll_fd, t);
	ch->past_doorbells += t->doorbells;
	ch->stats.datagrams_retransmitted += t->retransmitted;
	ch->stats.datagrams_duplicate += t->duplicates;
	ch->stats.datagrams_bad_mac += t->bad_mac;
}

void sl_channel_report_move(const struct sl_rpc_channel *ch, bool moved_on)
{
	if (ch->rpc->ops->moved)
		ch->rpc->ops->moved(ch->rpc->app, ch->app_data, moved_on);
}

static void on_retired(void *ctx, struct sl_transport *t, bool moved_on)
{
	struct sl_rpc_channel *ch = ctx;

	leave_transport(ch, t);
	t->ops->close(t);
	sl_channel_report_move(ch, moved_on);
}

const struct sl_link_ops sl_channel_link_ops = {
	.part = on_part,
	.sent = on_sent,
	.cancel = on_cancel,
	.window = on_window,
	.grants = on_grants,
	.goaway = on_goaway,
	.ready = on_ready,
	.retired = on_retired,
	.reads = on_reads,
};

void sl_channel_timeout(struct sl_rpc_channel *ch, struct sl_pending *p)
{
	struct sl_rpc *r = ch->rpc;
	void *cookie = p->cookie;

	if (p->credit < window_of(p) / 2 && !has_all(p)) {
		sl_timer_set(&r->wheel, &p->timer, r->now_ns + r->cfg.grace_ns);
		return;
	}
	ch->stats.timeouts++;
	ch->stats.failures++;
	sl_channel_cancel(ch, p);
	r->ops->failed(r->app, cookie, SL_RPC_FAIL_TIMEOUT);
}

void sl_channel_down(struct sl_rpc_channel *ch, enum sl_rpc_failure why_left)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_transport *const ways[] = {ch->link.t, ch->link.second};
	struct sl_send *s;

	/* First: no upcall may send here any more. */
	ch->state = SL_RPC_DOWN;
	sl_list_del(&ch->awake);
	/* The upcalls return bytes to owners that overwrite them. */
	for (unsigned i = 0; i < SL_ARRAY_LEN(ways) && ways[i]; i++) {
		if (ways[i]->ops->halt)
			ways[i]->ops->halt(ways[i]);
		leave_transport(ch, ways[i]);
	}
	while (!sl_list_empty(&ch->requests)) {
		struct sl_pending *p = sl_list_first(&ch->requests, struct sl_pending, node);
		const struct sl_send *sent = p->batch ? p->batch->sends[p->class] : NULL;
		void *cookie = p->cookie;
		bool left = !sent || sent->offset;

		ch->stats.failures++;
		sl_channel_forget(ch, p);
		r->ops->failed(r->app, cookie, left ? why_left : SL_RPC_FAIL_DOWN);
	}
	while ((s = sl_link_unsent(&ch->link)))
		on_sent(ch, s);
	while (!sl_list_empty(&ch->ended))
		sl_channel_report_sent(ch);
	ch->past.messages_sent += ch->link.stats.messages_sent;
	ch->past.messages_received += ch->link.stats.messages_received;
	ch->past.bytes_sent += ch->link.stats.bytes_sent;
	ch->past.bytes_received += ch->link.stats.bytes_received;
	ch->past.stalls += ch->link.stats.stalls;
	sl_link_fini(&ch->link);
	r->ops->state(r->app, ch->app_data, ch->state);
}

unsigned sl_channel_poll(struct sl_rpc_channel *ch, uint64_t now_ns)
{
	int n = sl_link_poll(&ch->link, now_ns);

	if (sl_unlikely(n < 0)) {
		ch->stats.bad_messages += n == -EPROTO;
		ch->stats.no_slot += n == -ENOBUFS;
		sl_channel_down(ch, n == -EPROTO ? SL_RPC_FAIL_PROTOCOL : SL_RPC_FAIL_LOST);
		return 0;
	}
	if (!sl_list_empty(&ch->ended))
		sl_channel_report_sent(ch);
	ch->used |= n > 0;
	return (unsigned)n;
}

static uint64_t dead_after_ns(struct sl_rpc_channel *ch, uint64_t now_ns)
{
	struct sl_link *l = &ch->link;

	if (ch->outstanding)
		ch->asked_ns = now_ns;
	l->t->peer_busy = l->last_rx_ns <= ch->asked_ns;
	return l->t->peer_busy ? ch->rpc->cfg.dead_after_ns : 0;
}

void sl_channel_copy_stats(struct sl_rpc_channel *ch)
{
	const struct sl_transport *t = ch->link.t;

	ch->seen = (struct sl_channel_copy){
		.silent_ns = t->silent_ns,
		.doorbells = t->doorbells,
		.retransmitted = t->retransmitted,
		.duplicates = t->duplicates,
		.bad_mac = t->bad_mac,
		.slots = t->credits.window,
		.slots_free = sl_credits_room(&t->credits, SL_CREDIT_CREDIT),
	};
}

static void report_port_state(struct sl_rpc_channel *ch)
{
	bool port_down = ch->link.t->port_down;

	if (port_down == ch->port_down)
		return;
	ch->port_down = port_down;
	ch->rpc->ops->state(ch->rpc->app, ch->app_data, ch->state);
}

static bool is_drained(struct sl_rpc_channel *ch, uint64_t now_ns)
{
	if (!sl_channel_closes_when_idle(ch) || ch->outstanding) {
		ch->drained_ns = 0;
		return false;
	}
	if (!ch->drained_ns)
		ch->drained_ns = now_ns;
	return (ch->link.said_away && sl_list_empty(&ch->ended)) ||
	       now_ns - ch->drained_ns > PARTING_NS;
}

void sl_channel_tick(struct sl_rpc_channel *ch, uint64_t now_ns)
{
	struct sl_link *l = &ch->link;

	sl_link_keep_alive(l, dead_after_ns(ch, now_ns), now_ns);
	sl_channel_copy_stats(ch);
	report_port_state(ch);
	if (is_drained(ch, now_ns) && !l->error)
		l->error = -ESHUTDOWN;
}
