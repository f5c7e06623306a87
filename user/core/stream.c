/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are forwarded while they are received, without the batcher.
 *
 * Without a backend, the head waits in x->head. Messages in x->request: [len] bytes [len] bytes.
 *
 * Bytes wait here for the backend's credit. With a window per stream (HTTP/2), the front opens it
 * by `passed`. Otherwise WAITING_MAX is the limit, and the connection's window closes.
 *
 * All but a few streams (`trusted`) have a small window: an advertised window cannot be withdrawn.
 */
#include <errno.h>

#include "batch/pick.h"
#include "core/client.h"
#include "core/sent_batch.h"
#include "core/pool.h"

enum {
	WAITING_MAX = 64 << 10,
	UNANSWERED_MAX = 8 << 10,
	ANSWERED_MIN = 4 * SL_RPC_INITIAL_WINDOW, /* more than backends buffer without reading */
	TRUSTED_MAX = 32,
	MOVING_MAX = 2 << 10, /* a newer chunk is still copied above this */
	PART_SPANS = 16,
	KEEPING_MAX = 64,
	KEPT_MAX = SL_RPC_PART_WINDOW + (1 << 10), /* parts and lengths */
	RETRIES_PER_RUN = 64,
};
#define COMPRESSED (UINT32_C(1) << 31)
_Static_assert(SL_RPC_MAX_MESSAGE < COMPRESSED, "a length does not have that bit");

static struct sl_backend_ref *choose_backend(const struct sl_exchange *x)
{
	struct sl_pool *g = x->pool;
	unsigned i = sl_pick_for_stream(g->batcher, &x->item, x->stream.upgrade, x->core->now_ns);

	return i == SL_PICK_NONE ? NULL : g->by_number[i];
}

static void await_reply(struct sl_exchange *x)
{
	x->end_sent = x->awaits_reply = true;
	x->whole_ns = x->core->now_ns;
	sl_pick_stream_waits(x->pool->batcher, x->backend->number, x->whole_ns);
}

void sl_stream_on_reply(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	struct sl_core *c = x->core;

	x->active_ns = c->now_ns;
	c->stats.stream_bytes_out += r->body.len;
	if (!r->first)
		return;
	c->stats.stream_parts_out++;
	sl_stage_add(x, x->reply_part_ns ? SL_STAGE_GAP : SL_STAGE_FIRST,
		     c->now_ns - (x->reply_part_ns ? x->reply_part_ns : x->send_ns));
	x->reply_part_ns = c->now_ns;
}

static int send_head(struct sl_exchange *x, struct sl_backend_ref *m)
{
	struct sl_batch_item *item = &x->item;
	int rc = sl_dispatch_send(x->pool, m->number, &item, 1);

	if (rc)
		return rc;
	sl_pick_stream_sent(x->pool->batcher, m->number);
	if (!x->open)
		await_reply(x);
	x->active_ns = x->core->now_ns;
	sl_stream_limits_arm(x);
	return 0;
}

static void start_wait(struct sl_exchange *x)
{
	uint64_t until_ns = x->item.queued_ns + SL_BATCH_PATIENCE_NS;

	x->state = SL_EX_QUEUED;
	x->active_ns = x->item.queued_ns;
	x->pool->stream_cnt++;
	sl_timer_set(&x->core->late, &x->late,
		     x->deadline_ns < until_ns ? x->deadline_ns : until_ns);
}

/*
 * Queues a stream until a backend serves. Datagrams do not wait: unproven addresses could fill the
 * queue.
 */
static enum sl_outcome wait_for_backend(struct sl_exchange *x)
{
	struct sl_pool *g = x->pool;

	if (x->client->proto == SL_CLIENT_DATAGRAM ||
	    sl_batcher_is_out(g->batcher, x->core->now_ns))
		return SL_OUTCOME_NO_BACKEND;
	if (g->stream_cnt + sl_batcher_queue_len(g->batcher) >= g->cfg->max_queue)
		return SL_OUTCOME_QUEUE_FULL;
	if (!x->head.head) { /* else held back since the begin */
		x->head = x->request;
		x->request = (struct sl_store){0};
	}
	sl_list_add_tail(&g->streams, &x->item.link);
	start_wait(x);
	return SL_OUTCOME_OK;
}

bool sl_stream_can_retry(struct sl_exchange *x)
{
	return x->head.head && sl_sent_batch_copy_head(x);
}

void sl_stream_requeue(struct sl_exchange *x)
{
	struct sl_store rest = x->request;

	if (x->awaits_reply)
		sl_stream_unanswered(x);
	sl_list_del(&x->item.link);
	sl_list_add_head(&x->pool->streams, &x->item.link);
	x->end_sent = x->part_compressed = false;
	x->part_left = 0;
	x->again += (uint32_t)x->kept.len;
	x->core->keeping -= x->kept.len != 0;
	x->request = x->kept;
	x->kept = (struct sl_store){0};
	sl_store_splice(&x->request, &rest);
	x->item.queued_ns = x->core->now_ns;
	x->pool->may_begin = true;
	start_wait(x);
}

static int start_stream(struct sl_exchange *x, struct sl_backend_ref *m)
{
	struct sl_store behind = x->request;
	bool open = x->open;
	int rc;

	x->open |= behind.len || x->stream.upgrade;
	x->stream.awaits &= !behind.len;
	x->request = x->head;
	x->head = (struct sl_store){0};
	rc = send_head(x, m);
	if (rc)
		x->head = x->request;
	x->request = behind;
	x->open = open;
	return rc;
}

enum sl_outcome sl_stream_open(struct sl_exchange *x)
{
	struct sl_pool *g = x->pool;
	struct sl_backend_ref *m = choose_backend(x);
	int rc = -ENOTCONN;

	x->item.queued_ns = x->core->now_ns;
	if (m && sl_list_empty(&g->streams))
		rc = x->head.head ? start_stream(x, m) : send_head(x, m);
	if (!rc)
		return SL_OUTCOME_OK;
	return rc == -ENOTCONN ? wait_for_backend(x) : SL_OUTCOME_QUEUE_FULL;
}

static void stall_stream(struct sl_exchange *x)
{
	struct sl_backend_ref *m = x->backend;

	sl_list_del(&x->item.link);
	sl_list_add_tail(&m->stalled, &x->item.link);
	if (sl_list_empty(&m->stalled_node))
		sl_list_add_tail(&x->core->stalled, &m->stalled_node);
}

static bool put_length(struct sl_exchange *x, uint32_t len)
{
	return sl_store_copy(&x->request, x->core->net->umem, &len, sizeof(len)) == sizeof(len);
}

static uint32_t gather_spans(const struct sl_store *s, uint32_t off, uint32_t len,
			     struct sl_span *spans, uint32_t *cnt)
{
	uint32_t n = 0;

	for (*cnt = 0; n < len && *cnt < PART_SPANS; (*cnt)++) {
		spans[*cnt] = sl_span_first(sl_store_at(s, off + n), len - n);
		n += (uint32_t)spans[*cnt].len;
	}
	return n;
}

/*
 * Copies a sent part for a retry until the backend gives credit, up to a limit. off: length of the
 * part's header.
 */
static void keep_sent(struct sl_exchange *x, uint32_t off, const struct sl_rpc_part *part)
{
	struct sl_umem *u = x->core->net->umem;
	uint32_t left = (part->len + part->rest) | (part->compressed ? COMPRESSED : 0);
	struct sl_core *c = x->core;
	bool first = !x->kept.len;
	bool kept =
		x->kept.len + off + part->len <= KEPT_MAX && (!first || c->keeping < KEEPING_MAX);

	if (!x->head.head)
		return;
	if (kept && off)
		kept = sl_store_copy(&x->kept, u, &left, off) == off;
	for (uint32_t i = 0; kept && i < part->span_cnt; i++)
		kept = sl_store_copy(&x->kept, u, part->spans[i].ptr, part->spans[i].len) ==
		       part->spans[i].len;
	c->keeping += first && x->kept.len; /* also a part of a copy, which is released now */
	if (!kept)
		sl_sent_batch_release_head(x);
}

static void count_sent(struct sl_exchange *x, uint32_t off, uint32_t len)
{
	uint32_t old = x->again < off + len ? x->again : off + len;
	uint32_t fresh = old > off ? off + len - old : len;

	uint32_t ahead = x->ahead < fresh ? x->ahead : fresh;

	x->again -= old;
	x->ahead -= ahead;
	x->stream.passed += fresh - ahead + (off && !old ? x->stream.prefix_len : 0);
	x->given += fresh;
	sl_stream_rate_take(x, SL_RATE_IN, fresh);
	x->core->stats.stream_parts_in += fresh || !old;
	x->core->stats.stream_bytes_in += fresh;
}

static bool send_part(struct sl_exchange *x, struct sl_rpc_channel *ch)
{
	struct sl_store *s = &x->request;
	uint32_t credit = sl_rpc_part_credit(ch, x->rpc_id), left = x->part_left, off = 0, have, n;
	uint64_t there = s->len - x->trailers_len;
	struct sl_span spans[PART_SPANS];
	struct sl_rpc_part part = {.spans = spans, .compressed = x->part_compressed};

	if (!there || !credit)
		return false;
	if (!left) {
		off = sizeof(left);
		sl_store_read(s, &left, off);
		part.compressed = left & COMPRESSED;
		left &= ~COMPRESSED;
	}
	have = left < there - off ? left : (uint32_t)(there - off);
	if (left && !have)
		return false;
	have = have < credit ? have : credit;
	n = (uint32_t)sl_stream_rate_allowed(x, SL_RATE_IN, have);
	if (have && !n)
		return false;
	part.len = gather_spans(s, off, n, spans, &part.span_cnt);
	part.rest = left - part.len;
	if (sl_rpc_send_part(ch, x->rpc_id, &part, x->rpc_class, x->core->now_ns)) {
		stall_stream(x);
		return false;
	}
	keep_sent(x, off, &part);
	sl_store_skip(s, x->core->net->umem, off + part.len);
	x->part_left = part.rest;
	x->part_compressed = part.compressed;
	x->active_ns = x->core->now_ns;
	count_sent(x, off, part.len);
	return true;
}

static void send_end(struct sl_exchange *x, struct sl_rpc_channel *ch)
{
	struct sl_span spans[PART_SPANS];
	struct sl_rpc_part end = {.spans = spans, .end = true};

	end.len = gather_spans(&x->request, 0, x->trailers_len, spans, &end.span_cnt);
	if (sl_rpc_send_part(ch, x->rpc_id, &end, x->rpc_class, x->core->now_ns)) {
		stall_stream(x);
		return;
	}
	if (end.len)
		sl_sent_batch_release_head(x);
	sl_store_skip(&x->request, x->core->net->umem, end.len);
	x->trailers_len = 0;
	if (x->state == SL_EX_IN_FLIGHT)
		await_reply(x);
	x->end_sent = true;
}

void sl_stream_pump(struct sl_exchange *x)
{
	if (sl_exchange_in_flight(x) && !x->end_sent && (!x->stream.upgrade || x->decided)) {
		struct sl_rpc_channel *ch = x->backend->channel;

		while (send_part(x, ch))
			;
		if (!x->open && x->request.len == x->trailers_len)
			send_end(x, ch);
	}
	sl_exchange_charge(x);
}

/* Client bytes wait for status 101: they belong to the new protocol, or are dropped. */
void sl_stream_on_reply_head(struct sl_exchange *x, struct sl_reply *r)
{
	if (r->status == 101) {
		r->upgrade = sl_exchange_upgrade(x);
	} else {
		x->stream.refused |= x->open;
		x->open = false;
		sl_store_free(&x->request, x->core->net->umem);
		x->trailers_len = 0; /* dropped as well */
	}
	x->decided = true;
	sl_stream_pump(x);
}

static void pump_and_check(struct sl_exchange *x)
{
	sl_stream_pump(x);
	if (x->request.head)
		sl_min_rate_join(x);
}

bool sl_stream_message(struct sl_exchange *x, uint32_t len, bool compressed)
{
	if (!put_length(x, len | (compressed ? COMPRESSED : 0)))
		return false;
	x->message_left = len;
	pump_and_check(x);
	return true;
}

static bool needs_wide(const struct sl_exchange *x)
{
	uint64_t passed = x->body_len - x->request.len, us;
	struct sl_conn transport;

	if (x->body_len <= (uint64_t)x->request.len + ANSWERED_MIN || !x->client->conn)
		return false;
	us = (x->core->now_ns - x->first_ns) / 1000;
	transport = sl_client_transport(x->client);
	return (passed >> 10) * transport.ops->rtt_us(transport.self) > us * (SL_TCP_NARROW >> 11);
}

static bool is_narrow(const struct sl_exchange *x)
{
	return !x->trusted && !x->held && !needs_wide(x);
}

static void count_as_trusted(struct sl_exchange *x)
{
	if (x->trusted || x->core->trusted >= TRUSTED_MAX)
		return;
	x->trusted = true;
	x->core->trusted++;
}

bool sl_stream_is_full(const struct sl_exchange *x)
{
	return !x->stream.windowed && !x->held &&
	       x->request.len >= (is_narrow(x) ? UNANSWERED_MAX : WAITING_MAX);
}

bool sl_stream_take(struct sl_exchange *x, struct sl_chunk *chunk)
{
	struct sl_umem *u = x->core->net->umem;
	uint32_t len = (uint32_t)chunk->len;
	size_t stored;

	count_as_trusted(x);
	x->stream.narrow = is_narrow(x);
	if (!x->stream.windowed && x->client->conn) /* not for datagrams */
		(void)sl_client_narrow(x->client, x->stream.narrow);
	if (x->message_left)
		x->message_left -= len;
	else if (!put_length(x, len))
		return false;
	if (x->stream.narrow && x->request.len > MOVING_MAX)
		stored = sl_store_copy(&x->request, u, chunk->ptr, len);
	else
		stored = sl_store_append(&x->request, u, chunk);
	if (stored < len)
		return false;
	if (sl_unlikely(x->held)) { /* the client must send on */
		x->stream.passed += len;
		x->ahead += len;
	}
	pump_and_check(x);
	return true;
}

static void resume_stream(struct sl_exchange *x)
{
	struct sl_client *cl = x->client;

	sl_stream_pump(x);
	if (x->stream.windowed && x->stream.passed)
		sl_client_ready(cl, &x->stream);
	else if (cl->paused && !sl_stream_is_full(x))
		sl_client_progress(cl);
}

unsigned sl_streams_start_waiting(struct sl_pool *g)
{
	unsigned n = 0;

	while (g->may_begin && n < RETRIES_PER_RUN && !sl_list_empty(&g->streams)) {
		struct sl_exchange *x = sl_list_first(&g->streams, struct sl_exchange, item.link);
		struct sl_backend_ref *m = choose_backend(x);
		int rc = m ? start_stream(x, m) : -ENOTCONN;

		g->may_begin = m != NULL;
		if (rc == -ENOTCONN || rc == -EAGAIN)
			break;
		n++;
		if (rc) { /* it cannot be sent later either */
			sl_exchange_fail(x, SL_OUTCOME_QUEUE_FULL);
			continue;
		}
		sl_list_del(&x->item.link);
		g->stream_cnt--;
		resume_stream(x);
	}
	return n;
}

static enum sl_outcome over_of(const struct sl_exchange *x)
{
	if (x->held)
		return x->core->now_ns < x->deadline_ns ? SL_OUTCOME_OK : SL_OUTCOME_EXPIRED;
	if (x->state != SL_EX_QUEUED)
		return sl_stream_limits_over(x);
	return x->core->now_ns < x->deadline_ns ? SL_OUTCOME_NO_BACKEND : SL_OUTCOME_EXPIRED;
}

void sl_stream_on_timer(struct sl_exchange *x)
{
	enum sl_outcome over = over_of(x);
	struct sl_client *cl = x->client;

	if (over != SL_OUTCOME_OK) {
		sl_exchange_fail(x, over);
		return;
	}
	if (sl_stream_rate_resumes(x, SL_RATE_OUT)) {
		sl_min_rate_join(x);
		sl_client_ready(cl, &x->stream);
		sl_client_progress(cl);
	} else if (sl_stream_rate_resumes(x, SL_RATE_IN)) {
		resume_stream(x);
	} else {
		sl_stream_limits_arm(x);
	}
}

void sl_stream_on_credit(void *app, void *cookie)
{
	(void)app;
	sl_sent_batch_release_head(cookie); /* the backend has taken some */
	resume_stream(cookie);
}

void sl_stream_on_continue(void *app, void *cookie)
{
	struct sl_exchange *x = cookie;

	(void)app;
	sl_sent_batch_release_head(x);
	x->stream.awaits = false;
	x->active_ns = x->core->now_ns;
	sl_client_ready(x->client, &x->stream);
}

static unsigned retry_stalled(struct sl_backend_ref *m)
{
	unsigned n = 0, refused = 0;
	struct sl_list *l;

	while (n < RETRIES_PER_RUN && refused < SL_CLASS_CNT &&
	       (l = sl_list_pop_head(&m->stalled))) {
		resume_stream(sl_container_of(l, struct sl_exchange, item.link));
		if (m->stalled.prev == l)
			refused++;
		else
			n++;
	}
	return n;
}

unsigned sl_streams_retry(struct sl_core *c)
{
	struct sl_list again = SL_LIST_INIT(again);
	struct sl_list *l;
	unsigned n = 0;

	sl_list_splice_tail(&again, &c->stalled);
	while ((l = sl_list_pop_head(&again))) {
		struct sl_backend_ref *m = sl_container_of(l, struct sl_backend_ref, stalled_node);

		n += retry_stalled(m);
		if (!sl_list_empty(&m->stalled) && sl_list_empty(&m->stalled_node))
			sl_list_add_tail(&c->stalled, &m->stalled_node);
	}
	return n;
}
