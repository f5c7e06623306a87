/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include "sdk/backend/internal.h"
#include "base/check.h"
#include "base/clock.h"

#define SILENCE_NS (UINT64_C(5) * SL_NS_PER_SEC)
#define PING_NS    SL_NS_PER_SEC

/* Stands for an empty table, read-only. */
static struct request *no_requests[SL_BE_BUCKETS];

static bool borrow_table(struct channel *ch)
{
	struct sl_backend *b = ch->b;

	if (ch->bucket != no_requests)
		return true;
	if (!b->spare)
		b->spare = calloc(SL_BE_BUCKETS, sizeof(*b->spare));
	if (!b->spare)
		return false;
	ch->bucket = b->spare;
	b->spare = (struct request **)ch->bucket[0];
	ch->bucket[0] = NULL;
	return true;
}

static void return_table(struct channel *ch)
{
	if (ch->bucket == no_requests)
		return;
	ch->bucket[0] = (struct request *)ch->b->spare;
	ch->b->spare = ch->bucket;
	ch->bucket = no_requests;
}

static void free_tables(struct sl_backend *b)
{
	struct request **table;

	while ((table = b->spare)) {
		b->spare = (struct request **)table[0];
		free(table);
	}
}

static void fail_channel(struct channel *ch, int error)
{
	if (!ch->link.error)
		ch->link.error = error;
}

static enum sl_rpc_status is_beyond(const struct sl_backend_options *opt, uint8_t flags)
{
	if (flags & SL_ENTRY_STREAM)
		return opt->on_stream ? SL_RPC_OK : SL_RPC_NO_METHOD;
	return flags & SL_ENTRY_COMPRESSED && !opt->compressed ? SL_RPC_COMPRESSED : SL_RPC_OK;
}

static void refuse_request(struct channel *ch, const struct sl_part *part,
			   enum sl_rpc_status status)
{
	if (sl_be_answer(ch, part->entry->id, part->header->priority, status))
		fail_channel(ch, -ENOBUFS);
}

static struct request *begin_request(struct channel *ch, const struct sl_part *part)
{
	enum sl_rpc_status beyond = is_beyond(&ch->b->opt, part->entry->flags);
	struct request *rq;

	if (sl_be_find(ch, part->entry->id)) {
		fail_channel(ch, -EPROTO);
		return NULL;
	}
	if (beyond) {
		refuse_request(ch, part, beyond);
		return NULL;
	}
	rq = borrow_table(ch) ? sl_be_request_new(ch, part) : NULL;
	if (!rq) {
		refuse_request(ch, part, SL_RPC_REFUSED);
		return NULL;
	}
	if (!sl_be_request_parse(rq, part)) {
		ch->b->stats.bad_messages++;
		sl_be_request_close(rq, SL_RPC_BAD_REQUEST);
	} else if (!sl_be_request_place(rq)) {
		sl_be_request_close(rq, SL_RPC_REFUSED);
	} else {
		return rq;
	}
	return NULL;
}

static void on_part(void *ctx, const struct sl_part *part)
{
	struct channel *ch = ctx;
	struct sl_backend *b = ch->b;
	struct request *rq;
	uint8_t flags;

	if (part->header->priority >= SL_CLASS_CNT) {
		fail_channel(ch, -EPROTO);
		return;
	}
	flags = part->entry->flags;
	if (flags & SL_ENTRY_PART) {
		rq = sl_be_find(ch, part->entry->id);
		if (rq && !sl_be_stream_part(rq, part))
			fail_channel(ch, -EPROTO);
		return;
	}
	rq = part->first ? begin_request(ch, part) : sl_be_find(ch, part->entry->id);
	if (!rq)
		return;
	if (flags & SL_ENTRY_STREAM) {
		if (part->entry->len || part->entry->rest || !part->first)
			fail_channel(ch, -EPROTO);
		else
			sl_be_stream_open(rq, part);
		return;
	}
	if (rq->state != REQUEST_ARRIVING || part->body.len > rq->view.body_len - rq->filled) {
		fail_channel(ch, -EPROTO);
		return;
	}
	if (part->body.len)
		memcpy(rq->body + rq->filled, part->body.ptr, part->body.len);
	rq->filled += part->body.len;
	if (rq->filled < rq->view.body_len)
		return;
	rq->state = REQUEST_QUEUED;
	b->stats.requests++;
	sl_list_add_tail(&b->queue[rq->view.priority], &rq->queue);
	b->queue_cnt++;
}

static void on_message(void *ctx, const struct sl_rpc_header *h)
{
	(void)ctx, (void)h;
}

static void on_sent(void *ctx, struct sl_send *s)
{
	sl_be_replies_sent(ctx, s);
}

static void tell_gone(struct request *rq)
{
	const struct sl_backend_options *opt = &rq->channel->b->opt;

	/* A reply ends it, possibly by another thread. */
	if (atomic_exchange(&rq->gone, true) || atomic_load(&rq->over))
		return;
	sl_be_upcall(rq, opt->on_cancel);
	if (!atomic_load(&rq->over) && atomic_exchange(&rq->blocked, false))
		sl_be_upcall(rq, opt->on_writable);
}

static void lose_request(struct request *rq)
{
	if (rq->stream)
		sl_be_stream_cancel(rq);
	else
		tell_gone(rq);
	sl_be_replies_drop(rq); /* may be lent */
}

static void on_cancel(void *ctx, uint64_t id)
{
	struct channel *ch = ctx;
	struct request *rq = sl_be_find(ch, id);

	if (!rq)
		return;
	if (rq->state == REQUEST_HANDLED) {
		lose_request(rq);
		return;
	}
	ch->b->stats.cancelled++;
	sl_be_request_free(rq);
}

static void on_window(void *ctx, uint64_t id, uint32_t bytes)
{
	struct channel *ch = ctx;
	struct request *rq = sl_be_find(ch, id);

	if (rq && !sl_be_reply_credit(rq, bytes))
		fail_channel(ch, -EPROTO);
}

static unsigned on_grants(void *ctx, struct sl_rpc_window *to, unsigned max)
{
	return sl_be_stream_grants(ctx, to, max);
}

static void on_goaway(void *ctx, bool stays)
{
	struct channel *ch = ctx;

	(void)stays;
	ch->peer_goaway = true;
}

static void on_ready(void *ctx)
{
	struct channel *ch = ctx;

	ch->peer_goaway = false;
}

static int watch_transport(struct sl_backend *b, struct sl_transport *t, struct channel *ch)
{
	return sl_poll_groups_watch(&b->poll_groups, b->epoll_fd, t, ch);
}

static void unwatch_transport(struct sl_backend *b, struct sl_transport *t)
{
	sl_poll_groups_unwatch(&b->poll_groups, b->epoll_fd, t);
}

static void on_retired(void *ctx, struct sl_transport *t, bool gone_on)
{
	struct channel *ch = ctx;

	(void)gone_on;
	unwatch_transport(ch->b, t);
	t->ops->close(t);
}

static const struct sl_link_ops link_ops = {
	.part = on_part,
	.message = on_message,
	.sent = on_sent,
	.cancel = on_cancel,
	.window = on_window,
	.grants = on_grants,
	.goaway = on_goaway,
	.ready = on_ready,
	.retired = on_retired,
};

static bool goes_on_by(const struct channel *ch, const struct sl_transport *t)
{
	return ch->up && t->link && ch->link.t->link == t->link &&
	       ch->link.t->peer_epoch == t->peer_epoch;
}

static struct channel *that_goes_on(struct sl_backend *b, const struct sl_transport *t)
{
	struct sl_list *at;

	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (goes_on_by(ch, t))
			return ch;
	}
	for (uint32_t i = 0; i < b->resting_cnt; i++) {
		if (goes_on_by(b->resting[i], t))
			return b->resting[i];
	}
	return NULL;
}

static bool go_on(struct sl_backend *b, struct sl_transport *t)
{
	struct channel *ch = that_goes_on(b, t);

	if (!ch || watch_transport(b, t, ch))
		return false;
	sl_be_channel_wake(ch);
	if (sl_link_migrate(&ch->link, t, b->now_ns) == 0)
		return true;
	unwatch_transport(b, t);
	return false;
}

static bool add_channel(struct sl_backend *b, struct sl_transport *t)
{
	struct channel *ch = NULL;

	if (b->channel_cnt < SL_BE_CHANNELS_MAX)
		ch = calloc(1, sizeof(*ch));
	if (!ch || watch_transport(b, t, ch)) {
		free(ch);
		return false;
	}
	ch->b = b;
	ch->up = ch->used = true;
	ch->bucket = no_requests;
	sl_list_init(&ch->open);
	sl_list_init(&ch->windows);
	sl_list_init(&ch->stalled);
	sl_be_share_init(&ch->unknown, ch, 0);
	for (unsigned c = 0; c < SL_CLASS_CNT; c++)
		ch->replies[c].end = &ch->replies[c].first;
	ch->link.ops = &link_ops;
	ch->link.ctx = ch;
	ch->link.mem = &b->request_mem;
	ch->link.scratch = &b->scratch;
	ch->link.tx_ports = &b->tx_ports;
	ch->link.takes = SL_RPC_REQUEST;
	ch->link.alive = (struct sl_keepalive){.silence_ns = SILENCE_NS, .interval_ns = PING_NS};
	sl_link_init(&ch->link, t, b->now_ns, false);
	ch->link.away = (uint8_t)sl_be_away(b);
	sl_list_add_tail(&b->channels, &ch->node);
	b->channel_cnt++;
	return true;
}

bool sl_be_channel_add(struct sl_backend *b, struct sl_transport *t)
{
	bool has_place = t->resumes ? go_on(b, t) : add_channel(b, t);

	if (!has_place) {
		b->stats.refused++;
		t->ops->close(t);
	}
	return has_place;
}

void sl_be_channel_close(struct channel *ch)
{
	struct sl_transport *const ways[] = {ch->link.t, ch->link.second};
	struct sl_backend *b = ch->b;
	struct sl_list *at, *next;
	struct sl_send *s;

	if (!ch->up)
		return;
	b->stats.bad_messages += ch->link.error == -EPROTO;
	/* The device stops first: the program may write to returned memory. */
	for (unsigned i = 0; i < SL_ARRAY_LEN(ways) && ways[i]; i++) {
		if (ways[i]->ops->halt)
			ways[i]->ops->halt(ways[i]);
		unwatch_transport(b, ways[i]);
	}
	while ((s = sl_link_unsent(&ch->link)))
		sl_be_replies_sent(ch, s);
	sl_be_replies_forget(ch);
	sl_link_fini(&ch->link);
	ch->up = false;
	sl_list_for_each_safe (at, next, &ch->open) {
		struct request *rq = sl_container_of(at, struct request, node);

		if (rq->state == REQUEST_HANDLED)
			lose_request(rq);
		else
			sl_be_request_free(rq);
	}
}

static bool is_blocked(const struct channel *ch)
{
	return atomic_load(&ch->blocked) || atomic_load(&ch->wanted);
}

/* A draining backend polls all channels. */
static bool may_rest(struct channel *ch)
{
	return ch->link.t->poll_group && ch->b->listener_cnt && !ch->classes && !is_blocked(ch) &&
	       !sl_link_has_work(&ch->link) && sl_link_arm(&ch->link);
}

static void arm_channel(struct channel *ch)
{
	struct sl_backend *b = ch->b;

	sl_list_del(&ch->node);
	ch->rest_at = b->resting_cnt;
	b->resting[b->resting_cnt++] = ch;
}

void sl_be_channels_wake(struct sl_backend *b)
{
	while (b->resting_cnt)
		sl_be_channel_wake(b->resting[0]);
}

void sl_be_channels_wake_blocked(struct sl_backend *b)
{
	for (uint32_t i = b->resting_cnt; i--;) {
		if (is_blocked(b->resting[i]))
			sl_be_channel_wake(b->resting[i]);
	}
}

void sl_be_channels_look(struct sl_backend *b)
{
	for (uint32_t i = b->resting_cnt; i--;) {
		struct sl_link *l = &b->resting[i]->link;

		if (l->t->ops->check(l->t) || b->now_ns >= l->alive.next_ns)
			sl_be_channel_wake(b->resting[i]);
	}
}

void sl_be_channel_tick(struct channel *ch, uint64_t now_ns)
{
	sl_link_keep_alive(&ch->link, 0, now_ns);
	if (!ch->used) {
		if (!ch->open_cnt)
			return_table(ch);
		if (may_rest(ch))
			arm_channel(ch);
	}
	ch->used = false;
}

bool sl_be_channel_reap(struct channel *ch)
{
	if (ch->up || ch->open_cnt)
		return false;
	SL_CHECK(atomic_load(&ch->reply_used) + atomic_load(&ch->foreign_used) == 0);
	sl_list_del(&ch->node);
	return_table(ch);
	if (!--ch->b->channel_cnt)
		free_tables(ch->b);
	free(ch);
	return true;
}
