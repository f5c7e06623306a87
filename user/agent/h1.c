/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 towards a server: one call at a time on a connection. Replies are read into rx:
 *
 *       | head | body so far, in one piece | not parsed yet | free |
 *       0      body_at                     raw              end
 *
 * A reply that fits into AGENT_H1_RX_MAX goes on whole. Other replies go in parts, one when the
 * server pauses or rx is full. Without room at the gateway nothing is read, so TCP stops the
 * server.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "agent/h1.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/grpc/grpc.h"
#include "http/status.h"

enum {
	RX_LOW = 4 << 10,
	READS_MAX = 16,
};
#define IDLE_NS (50 * SL_NS_PER_SEC)

static const struct sl_front_limits no_limits = {.max_body = UINT64_MAX / 2,
						 .max_head = AGENT_HEAD_MAX};

static struct agent_h1_conn *h1_of(struct agent_conn *c)
{
	return (struct agent_h1_conn *)c;
}

static void refuse_call(struct agent_call *call, enum sl_rpc_status status)
{
	call->over = true;
	agent_call_fail(call, status);
}

static const struct sl_reply_args no_grpc = {
	.status = 200,
	.grpc_status = SL_GRPC_UNIMPLEMENTED,
	.grpc_message = "the server behind this route speaks HTTP/1.1",
	.no_message = true,
};

/*
 * Returns true if an idle connection has bytes or was closed. Such bytes are no reply to the next
 * request.
 */
static bool is_stale(const struct agent_h1_conn *h)
{
	char byte;

	return h->used &&
	       (recv(h->c.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN);
}

static void h1_start(struct agent_conn *c, struct agent_call *call)
{
	static struct agent_request made; /* the agent has one thread */
	struct agent_h1_conn *h = h1_of(c);
	uint64_t trace[3];

	if (call->grpc) {
		call->over = true;
		(void)agent_call_reply(call, &no_grpc);
		return;
	}
	if (is_stale(h)) {
		call->tries--;
		agent_conn_close(c, "not as it was left");
		agent_call_lost(call, NULL);
		return;
	}
	for (unsigned i = 0; i < 3; i++)
		trace[i] = sl_prng_u64(&c->server->a->prng);
	h->call = call;
	if (!agent_request_make(&made, call->rq, c->server->authority, (uint8_t *)trace) ||
	    !agent_h1_format(h, &made)) {
		h->call = NULL;
		refuse_call(call, SL_RPC_BAD_REQUEST);
		return;
	}
	agent_timer_cancel(c->server->a, &c->timer);
	h->used = true;
	h->to_head = sl_span_eq(made.method, sl_span_str("HEAD"));
	h->state = H1_HEAD;
	h->interim = 0;
	h->closing = false;
	h->head_sent = 0;
	h->body_sent = 0;
	h->body_at = h->body_len = h->raw = h->end = 0;
	agent_h1_send(h);
}

/* Nothing may point into rx. Returns false, unchanged, without memory. */
static bool resize_rx(struct agent_h1_conn *h, uint32_t size)
{
	uint8_t *rx = h->rx_size == size ? h->rx : realloc(h->rx, size);

	if (!rx)
		return false;
	h->rx = rx;
	h->rx_size = size;
	return true;
}

static void go_idle(struct agent_h1_conn *h)
{
	h->body_at = h->body_len = h->raw = h->end = 0;
	(void)resize_rx(h, AGENT_H1_RX); /* shrinking cannot fail */
	h->state = H1_IDLE;
	agent_timer_set(h->c.server->a, &h->c.timer, h->c.server->a->now_ns + IDLE_NS);
	agent_conn_wait_for(&h->c, EPOLLIN);
	agent_conn_room(&h->c);
}

static void fail_malformed(struct agent_h1_conn *h, const char *why)
{
	struct agent_call *call = h->call;

	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "agent: %s: a reply was refused: %s",
		     h->c.server->name, why);
	h->call = NULL;
	refuse_call(call, SL_RPC_INTERNAL);
	agent_conn_close(&h->c, why);
}

static struct sl_reply_args current_part(const struct agent_h1_conn *h, bool more)
{
	const struct agent_h1_reply *r = &h->reply;
	struct sl_reply_args a = {
		.body = h->rx + h->body_at,
		.body_len = h->body_len,
		.headers = h->fields.at,
		.header_cnt = h->fields.cnt,
		.more = more,
	};

	if (h->call->begun)
		return a;
	a.status = r->status;
	a.reason = h->reason[0] ? h->reason : NULL;
	a.has_total = r->length != SL_LEN_UNKNOWN && r->status != 204;
	a.total_len = r->length;
	return a;
}

/* Bytes behind the reply close the connection: they would look like the next reply. */
static void finish_reply(struct agent_h1_conn *h)
{
	struct sl_reply_args args = current_part(h, false);
	struct agent_call *call = h->call;
	bool again = h->reply.keep_alive && h->sent && h->raw == h->end && !h->c.server->leaving;

	h->call = NULL;
	call->over = true;
	(void)agent_call_reply(call, &args);
	if (again)
		go_idle(h);
	else
		agent_conn_close(&h->c, "not kept");
}

enum agent_h1_step {
	STEP_MORE,
	STEP_ON,
	STEP_OVER
}; /* more bytes are needed; continue; the call is over */

/* Returns NULL or the mistake of a 101 reply. */
static const char *check_upgrade(const struct agent_h1_conn *h)
{
	const struct agent_fields *f = &h->reply.fields;
	bool agreed = false, keyed = !h->accept[0];
	struct sl_span asked, e;

	for (uint32_t i = 0; i < f->cnt; i++) {
		struct sl_span name = f->at[i].name, value = f->at[i].value;

		if (sl_span_eq_nocase(name, sl_span_str("upgrade"))) {
			agreed = false;
			for (asked = h->upgrade; sl_span_next_element(&asked, &e);)
				agreed |= sl_span_eq_nocase(e, value);
		} else if (h->accept[0] &&
			   sl_span_eq_nocase(name, sl_span_str("sec-websocket-accept"))) {
			keyed = sl_span_eq(value, sl_span_cstr(h->accept));
		}
	}
	if (!agreed)
		return "an upgrade that nobody asked for";
	return keyed ? NULL : "a wrong Sec-WebSocket-Accept";
}

static void go_opaque(struct agent_h1_conn *h)
{
	struct agent_reply_fields *f = &h->fields;
	unsigned n = 0;

	/* Sec-WebSocket-Accept answers the agent's key. */
	for (unsigned i = 0; i < f->cnt; i++) {
		if (!h->accept[0] || strcmp(f->at[i].name, "sec-websocket-accept") != 0)
			f->at[n++] = f->at[i];
	}
	f->cnt = n;
	h->reply.body = AGENT_UNTIL_CLOSE;
	h->reply.keep_alive = false;
	agent_body_begin(h->call, AGENT_PLAIN, SL_LEN_UNKNOWN);
}

static void keep_reason(struct agent_h1_conn *h)
{
	struct sl_span reason = h->reply.reason;

	if (reason.len >= sizeof(h->reason) ||
	    sl_span_eq(reason, sl_span_cstr(sl_status_text(h->reply.status))))
		reason.len = 0;
	if (reason.len)
		memcpy(h->reason, reason.ptr, reason.len);
	h->reason[reason.len] = 0;
}

static ssize_t parse_head(struct agent_h1_conn *h)
{
	return agent_h1_head(sl_span_of(h->rx + h->raw, h->end - h->raw), h->to_head, &h->reply);
}

/* Returns true if the reply is collected first; reserves the room. */
static bool goes_whole(struct agent_h1_conn *h, ssize_t head_len)
{
	uint64_t end = h->raw + (uint64_t)head_len + h->reply.length;

	if (h->call->body.on || h->reply.body != AGENT_LENGTH || end > AGENT_H1_RX_MAX ||
	    h->reply.length > AGENT_H1_RX_MAX)
		return false;
	if (end <= h->rx_size)
		return true;
	if (!resize_rx(h, AGENT_H1_RX_MAX))
		return false;
	(void)parse_head(h); /* fields point into rx */
	return true;
}

static enum agent_h1_step read_head(struct agent_h1_conn *h)
{
	ssize_t n = parse_head(h);
	static const uint8_t states[] = {[AGENT_LENGTH] = H1_BODY,
					 [AGENT_CHUNKS] = H1_CHUNKS,
					 [AGENT_UNTIL_CLOSE] = H1_UNTIL_CLOSE};
	bool upgraded;

	if (n == 0)
		return STEP_MORE;
	h->whole = n > 0 && goes_whole(h, n);
	upgraded = n > 0 && h->reply.status == 101;
	if (upgraded)
		h->reply.wrong = check_upgrade(h);
	else if (n > 0 && h->reply.status < 200 && ++h->interim > AGENT_INTERIM_MAX)
		h->reply.wrong = "too many interim replies";
	h->fields.cnt = 0;
	if (n > 0 && !agent_reply_take(&h->fields, &h->reply.fields, false))
		h->reply.wrong = "more fields than a reply may have";
	if (n < 0 || h->reply.wrong) {
		fail_malformed(h, h->reply.wrong);
		return STEP_OVER;
	}
	h->raw += (uint32_t)n;
	if (h->reply.status == 100 && !agent_call_send_continue(h->call))
		return STEP_OVER;
	if (h->reply.status < 200 && !upgraded) {
		if (h->reply.status != 100)
			agent_call_interim(h->call, h->reply.status, &h->fields);
		return STEP_ON;
	}
	if (upgraded)
		go_opaque(h);
	keep_reason(h);
	agent_call_answered(h->call);
	h->body_at = h->raw;
	h->body_len = 0;
	h->left = h->reply.length;
	h->chunks = (struct sl_http1_chunked){.stops = true};
	if (h->reply.body == AGENT_NO_BODY || (h->reply.body == AGENT_LENGTH && !h->left)) {
		finish_reply(h);
		return STEP_OVER;
	}
	h->state = states[h->reply.body];
	return STEP_ON;
}

static void take_body(struct agent_h1_conn *h, uint32_t n)
{
	if (h->body_at + h->body_len != h->raw)
		memmove(h->rx + h->body_at + h->body_len, h->rx + h->raw, n);
	h->body_len += n;
	h->raw += n;
}

static enum agent_h1_step read_body(struct agent_h1_conn *h)
{
	uint32_t n = h->end - h->raw;

	if (h->state == H1_BODY && n > h->left)
		n = (uint32_t)h->left;
	take_body(h, n);
	if (h->state == H1_UNTIL_CLOSE)
		return STEP_MORE;
	h->left -= n;
	if (h->left)
		return STEP_MORE;
	finish_reply(h);
	return STEP_OVER;
}

static enum agent_h1_step read_chunks(struct agent_h1_conn *h)
{
	struct sl_span in = sl_span_of(h->rx + h->raw, h->end - h->raw);
	unsigned status;

	h->raw += (uint32_t)sl_http1_chunked_next(&h->chunks, in, &no_limits, &status);
	if (status) {
		fail_malformed(h, "broken chunks");
		return STEP_OVER;
	}
	if (h->chunks.state == SL_CHUNKED_TRAILER) {
		h->state = H1_TRAILERS;
		return STEP_ON;
	}
	if (h->chunks.state == SL_CHUNKED_DATA && h->raw < h->end) {
		uint32_t n = h->end - h->raw;

		n = n < h->chunks.left ? n : (uint32_t)h->chunks.left;
		take_body(h, n);
		h->chunks.left -= n;
		return STEP_ON;
	}
	return STEP_MORE;
}

static enum agent_h1_step read_trailers(struct agent_h1_conn *h)
{
	struct agent_fields trailers;
	const char *wrong;
	ssize_t n = agent_h1_fields(sl_span_of(h->rx + h->raw, h->end - h->raw), &trailers, &wrong);

	if (n == 0)
		return STEP_MORE;
	if (h->call->begun)
		h->fields.cnt = 0; /* the fields of the head were sent */
	if (n > 0 && !agent_reply_take(&h->fields, &trailers, true))
		wrong = "more trailers than a reply may have";
	if (n < 0 || wrong) {
		fail_malformed(h, wrong);
		return STEP_OVER;
	}
	h->raw += (uint32_t)n;
	finish_reply(h);
	return STEP_OVER;
}

/* Returns false if the call is over. */
static bool parse_input(struct agent_h1_conn *h)
{
	enum agent_h1_step step = STEP_ON;

	while (step == STEP_ON) {
		switch (h->state) {
		case H1_HEAD: step = read_head(h); break;
		case H1_CHUNKS: step = read_chunks(h); break;
		case H1_TRAILERS: step = read_trailers(h); break;
		default: step = read_body(h); break;
		}
	}
	return step != STEP_OVER;
}

/* Returns false if the gateway has no room or the call is over. */
static bool send_part(struct agent_h1_conn *h)
{
	struct sl_reply_args args;

	if (h->state <= H1_HEAD || (h->call->begun && !h->body_len))
		return true;
	args = current_part(h, true);
	if (!agent_call_reply(h->call, &args)) {
		h->blocked = true;
		agent_h1_wait(h);
		return false;
	}
	if (h->c.state == AGENT_DEAD)
		return false;
	h->fields.cnt = 0;
	h->body_at = h->raw;
	h->body_len = 0;
	return true;
}

/* Returns false as send_part(). */
static bool make_room(struct agent_h1_conn *h)
{
	if (h->rx_size - h->end >= RX_LOW || (h->state > H1_HEAD && h->whole))
		return true;
	if (h->state > H1_HEAD && !send_part(h))
		return false;
	if (h->state > H1_HEAD || h->interim) {
		memmove(h->rx, h->rx + h->raw, h->end - h->raw);
		h->end -= h->raw;
		h->raw = h->body_at = h->body_len = 0;
	}
	/* The rest is an incomplete head or trailer section. */
	if (h->rx_size - h->end >= RX_LOW || resize_rx(h, AGENT_H1_RX_MAX))
		return true;
	fail_malformed(h, "no memory for it");
	return false;
}

static void on_eof(struct agent_h1_conn *h, const char *why)
{
	struct agent_call *call = h->call;

	if (!call || (h->state == H1_HEAD && !h->end && !h->interim)) {
		agent_conn_close(&h->c, why);
		return;
	}
	if (h->state == H1_UNTIL_CLOSE && !why) {
		finish_reply(h);
		return;
	}
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "agent: %s: a reply broke off", h->c.server->name);
	h->call = NULL;
	refuse_call(call, SL_RPC_LOST);
	agent_conn_close(&h->c, "broken off");
}

static void h1_readable(struct agent_conn *c)
{
	struct agent_h1_conn *h = h1_of(c);
	size_t room;
	ssize_t n;

	for (unsigned i = 0; i < READS_MAX && make_room(h); i++) {
		room = h->rx_size - h->end;
		n = recv(c->fd, h->rx + h->end, room, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) {
			on_eof(h, n ? "the server reset the connection" : NULL);
			break;
		}
		if (!h->call) {
			agent_conn_close(c, "bytes that nobody asked for");
			break;
		}
		h->call->answered = true;
		h->end += (uint32_t)n;
		if (!parse_input(h) || (size_t)n < room)
			break;
	}
	if (c->state == AGENT_UP && h->call && !h->blocked && !h->whole)
		(void)send_part(h);
}

static void h1_writable(struct agent_conn *c)
{
	sl_list_del(&c->dirty);
	if (h1_of(c)->call)
		agent_h1_send(h1_of(c));
}

static void h1_resume(struct agent_conn *c, struct agent_call *call)
{
	struct agent_h1_conn *h = h1_of(c);

	(void)call;
	h->blocked = false;
	if (!send_part(h))
		return;
	agent_h1_wait(h);
	h1_readable(c);
}

static bool h1_up(struct agent_conn *c)
{
	if (!resize_rx(h1_of(c), AGENT_H1_RX))
		return false;
	go_idle(h1_of(c));
	return true;
}

static unsigned h1_room(const struct agent_conn *c)
{
	return !((const struct agent_h1_conn *)c)->call;
}

static void h1_body(struct agent_conn *c, struct agent_call *call)
{
	struct agent_h1_conn *h = h1_of(c);

	if (h->tx_failed)
		agent_body_drop(call);
	else if (!h->full)
		agent_conn_write_soon(c);
}

static void h1_cancel(struct agent_conn *c, struct agent_call *call)
{
	(void)call;
	h1_of(c)->call = NULL;
	agent_conn_close(c, "cancelled");
}

static void h1_closing(struct agent_conn *c, const char *why)
{
	struct agent_call *call = h1_of(c)->call;

	h1_of(c)->call = NULL;
	free(h1_of(c)->rx);
	free(h1_of(c)->tx);
	h1_of(c)->rx = h1_of(c)->tx = NULL;
	h1_of(c)->rx_size = h1_of(c)->tx_size = 0;
	if (call)
		agent_call_lost(call, why ? why : "the server closed the connection");
}

const struct agent_proto agent_h1 = {
	.conn_size = sizeof(struct agent_h1_conn),
	.calls_per_conn = 1,
	.up = h1_up,
	.room = h1_room,
	.start = h1_start,
	.readable = h1_readable,
	.writable = h1_writable,
	.body = h1_body,
	.cancel = h1_cancel,
	.resume = h1_resume,
	.closing = h1_closing,
};
