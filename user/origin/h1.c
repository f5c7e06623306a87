/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replies are read into rx:
 *
 *       | head | body so far, in one piece | not parsed yet | free |
 *       0      body_at                     raw              end
 *
 * A reply up to ORIGIN_H1_RX_MAX is passed on whole; others in parts, when the server pauses or rx
 * is full. Without room at the owner no input is taken.
 */
#include <stdlib.h>
#include <string.h>

#include "origin/h1.h"
#include "origin/scratch.h"
#include "origin/server.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/grpc/grpc.h"
#include "http/status.h"

enum { RX_LOW = 4 << 10, EAGER_PARSES = 8 };

static const struct sl_front_limits no_limits = {.max_body = UINT64_MAX / 2,
						 .max_head = ORIGIN_HEAD_MAX};

static struct origin_h1_conn *h1_of(struct origin_conn *c)
{
	return (struct origin_h1_conn *)c;
}

static void refuse_call(struct origin_call *call, enum sl_rpc_status status)
{
	call->over = true;
	origin_ops_of(call)->fail(call, status);
}

static const struct sl_reply_args no_grpc = {
	.status = 200,
	.grpc_status = SL_GRPC_UNIMPLEMENTED,
	.grpc_message = "the server behind this route speaks HTTP/1.1",
	.no_message = true,
};

static void close_conn(struct origin_h1_conn *h, const char *why)
{
	origin_io_of(&h->c)->close(&h->c, why);
}

/* True: an idle connection was closed or has bytes, which must not become the next reply. */
static bool is_stale(struct origin_h1_conn *h)
{
	origin_io_of(&h->c)->read(&h->c);
	return h->c.state != ORIGIN_UP;
}

static void begin_section(struct origin_h1_conn *h)
{
	h->searched = h->parsed = h->parses = 0;
}

static void h1_start(struct origin_conn *c, struct origin_call *call)
{
	struct origin_request *made = &c->server->origin->scratch->request;
	struct origin_h1_conn *h = h1_of(c);
	uint64_t trace[3];

	if (call->grpc) {
		call->over = true;
		(void)origin_ops_of(call)->reply(call, &no_grpc);
		return;
	}
	if (is_stale(h)) {
		call->tries -= h->used; /* a server may end all connections at once */
		origin_ops_of(call)->lost(call, "the server closed an idle connection");
		return;
	}
	for (unsigned i = 0; i < 3; i++)
		trace[i] = sl_prng_u64(c->server->origin->prng);
	h->call = call;
	if (!origin_request_make(made, call->rq, &c->server->authority, (uint8_t *)trace) ||
	    !origin_h1_format(h, made)) {
		h->call = NULL;
		refuse_call(call, SL_RPC_BAD_REQUEST);
		return;
	}
	origin_io_of(c)->busy(c);
	h->used = true;
	h->to_head = sl_span_eq(made->method, sl_span_str("HEAD"));
	h->state = H1_HEAD;
	h->interim = 0;
	h->closing = false;
	h->head_sent = 0;
	h->passed = 0;
	h->body_sent = 0;
	h->body_at = h->body_len = h->raw = h->end = 0;
	begin_section(h);
	origin_h1_send(h);
}

static bool resize_rx(struct origin_h1_conn *h, uint32_t size)
{
	uint8_t *rx = h->rx_size == size ? h->rx : realloc(h->rx, size);

	if (!rx)
		return false;
	h->rx = rx;
	h->rx_size = size;
	return true;
}

static void widen_rx(struct origin_h1_conn *h)
{
	struct origin *o = h->c.server->origin;

	if (h->wide || h->passed < ORIGIN_WIDE_AFTER || h->rx_size >= ORIGIN_PART_WIDE ||
	    o->wide_cnt == ORIGIN_WIDE_MAX || !resize_rx(h, ORIGIN_PART_WIDE))
		return;
	h->wide = true;
	o->wide_cnt++;
}

static void end_wide(struct origin_h1_conn *h)
{
	h->c.server->origin->wide_cnt -= h->wide;
	h->wide = false;
}

static void go_idle(struct origin_h1_conn *h)
{
	const struct origin_io *io = origin_io_of(&h->c);

	h->body_at = h->body_len = h->raw = h->end = 0;
	(void)resize_rx(h, ORIGIN_H1_RX);
	end_wide(h);
	h->state = H1_IDLE;
	io->idle(&h->c);
	io->wait(&h->c, true, false);
	io->room(&h->c);
}

static void fail_malformed(struct origin_h1_conn *h, const char *why)
{
	struct origin_call *call = h->call;

	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "%s: %s: a reply was refused: %s",
		     h->c.server->origin->area, h->c.server->name, why);
	h->call = NULL;
	refuse_call(call, SL_RPC_INTERNAL);
	close_conn(h, why);
}

static struct sl_reply_args current_part(const struct origin_h1_conn *h, bool more)
{
	const struct origin_h1_reply *r = &h->reply;
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
static void finish_reply(struct origin_h1_conn *h)
{
	struct sl_reply_args args = current_part(h, false);
	struct origin_call *call = h->call;
	bool again = h->reply.keep_alive && h->sent && !h->closing && h->raw == h->end &&
		     !h->c.server->leaving;

	h->call = NULL;
	call->over = true;
	(void)origin_ops_of(call)->reply(call, &args);
	if (again)
		go_idle(h);
	else
		close_conn(h, "not kept");
}

enum origin_h1_step { STEP_MORE, STEP_ON, STEP_OVER };

static void go_opaque(struct origin_h1_conn *h)
{
	struct origin_reply_fields *f = &h->fields;
	unsigned n = 0;

	/* Sec-WebSocket-Accept answers the key of this side. */
	for (unsigned i = 0; i < f->cnt; i++) {
		if (!h->accept[0] || strcmp(f->at[i].name, "sec-websocket-accept") != 0)
			f->at[n++] = f->at[i];
	}
	f->cnt = n;
	h->reply.body = ORIGIN_UNTIL_CLOSE;
	h->reply.length = SL_LEN_UNKNOWN;
	h->reply.keep_alive = false;
	origin_body_begin(h->call, ORIGIN_PLAIN, SL_LEN_UNKNOWN);
}

static void keep_reason(struct origin_h1_conn *h)
{
	struct sl_span reason = h->reply.reason;

	if (reason.len >= sizeof(h->reason) ||
	    sl_span_eq(reason, sl_span_cstr(sl_status_text(h->reply.status))))
		reason.len = 0;
	if (reason.len)
		memcpy(h->reason, reason.ptr, reason.len);
	h->reason[reason.len] = 0;
}

static bool has_empty_line(struct origin_h1_conn *h)
{
	const uint8_t *from = h->rx + h->raw, *end = h->rx + h->end;
	const uint8_t *at = from + h->searched, *next;

	while ((at = memchr(at, '\n', (size_t)(end - at)))) {
		next = at + 1;
		next += next < end && *next == '\r';
		if (next == end)
			break;
		if (*next == '\n')
			return true;
		at++;
	}
	h->searched = (uint32_t)((at ? at : end) - from);
	return false;
}

/*
 * Returns true if a head or trailers are worth parsing: complete, or twice as long as the last
 * time. So each byte is parsed few times.
 */
static bool is_due(struct origin_h1_conn *h)
{
	uint32_t len = h->end - h->raw;

	if (h->parses == EAGER_PARSES && len < 2 * h->parsed && len < ORIGIN_HEAD_MAX &&
	    !has_empty_line(h))
		return false;
	if (h->parses < EAGER_PARSES)
		h->parses++;
	h->parsed = len;
	return true;
}

static ssize_t parse_head(struct origin_h1_conn *h)
{
	return origin_h1_head(sl_span_of(h->rx + h->raw, h->end - h->raw), h->to_head, &h->reply);
}

static bool goes_whole(struct origin_h1_conn *h, ssize_t head_len)
{
	uint64_t end = h->raw + (uint64_t)head_len + h->reply.length;

	if (h->call->body.on || h->reply.body != ORIGIN_LENGTH || end > ORIGIN_H1_RX_MAX ||
	    h->reply.length > ORIGIN_H1_RX_MAX)
		return false;
	if (end <= h->rx_size)
		return true;
	if (!resize_rx(h, ORIGIN_H1_RX_MAX))
		return false;
	(void)parse_head(h);
	return true;
}

static enum origin_h1_step read_head(struct origin_h1_conn *h)
{
	ssize_t n = is_due(h) ? parse_head(h) : 0;
	static const uint8_t states[] = {[ORIGIN_LENGTH] = H1_BODY,
					 [ORIGIN_CHUNKS] = H1_CHUNKS,
					 [ORIGIN_UNTIL_CLOSE] = H1_UNTIL_CLOSE};
	bool upgraded;

	if (n == 0)
		return STEP_MORE;
	h->whole = n > 0 && goes_whole(h, n);
	upgraded = n > 0 && h->reply.status == 101;
	if (upgraded)
		h->reply.wrong = origin_h1_upgrade(&h->reply.fields, h->upgrade, h->accept);
	else if (n > 0 && h->reply.status < 200 && ++h->interim > ORIGIN_INTERIM_MAX)
		h->reply.wrong = "too many interim replies";
	h->fields.cnt = 0;
	if (n > 0 && !origin_reply_take(&h->fields, &h->reply.fields, false))
		h->reply.wrong = "more fields than a reply may have";
	if (n < 0 || h->reply.wrong) {
		fail_malformed(h, h->reply.wrong);
		return STEP_OVER;
	}
	h->raw += (uint32_t)n;
	begin_section(h);
	if (h->reply.status == 100 && !origin_ops_of(h->call)->send_continue(h->call))
		return STEP_OVER;
	if (h->reply.status < 200 && !upgraded) {
		if (h->reply.status != 100)
			origin_ops_of(h->call)->interim(h->call, h->reply.status, &h->fields);
		return STEP_ON;
	}
	if (upgraded)
		go_opaque(h);
	keep_reason(h);
	origin_ops_of(h->call)->answered(h->call);
	h->body_at = h->raw;
	h->body_len = 0;
	h->left = h->reply.length;
	h->chunks = (struct sl_http1_chunked){.stops = true};
	if (h->reply.body == ORIGIN_NO_BODY || (h->reply.body == ORIGIN_LENGTH && !h->left)) {
		finish_reply(h);
		return STEP_OVER;
	}
	h->state = states[h->reply.body];
	return STEP_ON;
}

static void take_body(struct origin_h1_conn *h, uint32_t n)
{
	if (h->body_at + h->body_len != h->raw)
		memmove(h->rx + h->body_at + h->body_len, h->rx + h->raw, n);
	h->body_len += n;
	h->raw += n;
}

static enum origin_h1_step read_body(struct origin_h1_conn *h)
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

static enum origin_h1_step read_chunks(struct origin_h1_conn *h)
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
		begin_section(h);
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

static enum origin_h1_step read_trailers(struct origin_h1_conn *h)
{
	struct origin_fields trailers;
	const char *wrong;
	ssize_t n;

	if (!is_due(h))
		return STEP_MORE;
	n = origin_h1_fields(sl_span_of(h->rx + h->raw, h->end - h->raw), &trailers, &wrong);
	if (n == 0)
		return STEP_MORE;
	if (h->call->begun)
		h->fields.cnt = 0;
	if (n > 0 && !origin_reply_take(&h->fields, &trailers, true))
		wrong = "more trailers than a reply may have";
	if (n < 0 || wrong) {
		fail_malformed(h, wrong);
		return STEP_OVER;
	}
	h->raw += (uint32_t)n;
	finish_reply(h);
	return STEP_OVER;
}

static bool parse_input(struct origin_h1_conn *h)
{
	enum origin_h1_step step = STEP_ON;

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

static bool send_part(struct origin_h1_conn *h)
{
	struct sl_reply_args args;

	if (h->state <= H1_HEAD || (h->call->begun && !h->body_len))
		return true;
	args = current_part(h, true);
	if (!origin_ops_of(h->call)->reply(h->call, &args)) {
		h->blocked = true;
		origin_h1_wait(h);
		return false;
	}
	if (h->c.state == ORIGIN_DEAD)
		return false;
	h->passed += h->body_len;
	h->fields.cnt = 0;
	h->body_at = h->raw;
	h->body_len = 0;
	return true;
}

static bool make_room(struct origin_h1_conn *h)
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
	if (h->state > H1_HEAD)
		widen_rx(h);
	if (h->rx_size - h->end >= RX_LOW || resize_rx(h, ORIGIN_H1_RX_MAX))
		return true;
	fail_malformed(h, "no memory for it");
	return false;
}

static void h1_eof(struct origin_conn *c, const char *error)
{
	struct origin_h1_conn *h = h1_of(c);
	struct origin_call *call = h->call;

	if (!call || (h->state == H1_HEAD && !h->end && !h->interim)) {
		origin_conn_end_idle(c, error, !h->used);
		return;
	}
	if (h->state == H1_UNTIL_CLOSE && !error) {
		finish_reply(h);
		return;
	}
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "%s: %s: a reply broke off%s%s",
		     h->c.server->origin->area, h->c.server->name, error ? ": " : "",
		     error ? error : "");
	h->call = NULL;
	refuse_call(call, SL_RPC_LOST);
	close_conn(h, "broken off");
}

static struct origin_space h1_space(struct origin_conn *c)
{
	struct origin_h1_conn *h = h1_of(c);

	if (h->blocked || !make_room(h))
		return (struct origin_space){NULL, 0};
	return (struct origin_space){h->rx + h->end, h->rx_size - h->end};
}

static bool h1_input(struct origin_conn *c, size_t len)
{
	struct origin_h1_conn *h = h1_of(c);

	if (!h->call) {
		origin_conn_end_idle(c, "bytes without a request", !h->used);
		return false;
	}
	origin_conn_spoke(c);
	h->call->answered = true;
	h->end += (uint32_t)len;
	return parse_input(h);
}

static void h1_pause(struct origin_conn *c)
{
	struct origin_h1_conn *h = h1_of(c);

	if (h->call && !h->blocked && !h->whole)
		(void)send_part(h);
}

static void h1_writable(struct origin_conn *c)
{
	if (h1_of(c)->call)
		origin_h1_send(h1_of(c));
}

static bool h1_resume(struct origin_conn *c, struct origin_call *call)
{
	struct origin_h1_conn *h = h1_of(c);

	(void)call;
	h->blocked = false;
	if (!send_part(h))
		return false;
	origin_h1_wait(h);
	return true;
}

static bool h1_up(struct origin_conn *c)
{
	if (!resize_rx(h1_of(c), ORIGIN_H1_RX))
		return false;
	go_idle(h1_of(c));
	return true;
}

static unsigned h1_room(const struct origin_conn *c)
{
	return !((const struct origin_h1_conn *)c)->call;
}

static void h1_body(struct origin_conn *c, struct origin_call *call)
{
	struct origin_h1_conn *h = h1_of(c);

	if (h->tx_failed)
		origin_body_drop(call);
	else if (!h->full)
		origin_io_of(c)->write_soon(c);
}

static void h1_cancel(struct origin_conn *c, struct origin_call *call)
{
	(void)call;
	h1_of(c)->call = NULL;
	close_conn(h1_of(c), "cancelled");
}

static void h1_closing(struct origin_conn *c, const char *why)
{
	struct origin_call *call = h1_of(c)->call;

	h1_of(c)->call = NULL;
	end_wide(h1_of(c));
	free(h1_of(c)->rx);
	free(h1_of(c)->tx);
	h1_of(c)->rx = h1_of(c)->tx = NULL;
	h1_of(c)->rx_size = h1_of(c)->tx_size = 0;
	if (call)
		origin_ops_of(call)->lost(call, why ? why : "the server closed the connection");
}

const struct origin_proto origin_h1 = {
	.conn_size = sizeof(struct origin_h1_conn),
	.calls_per_conn = 1,
	.up = h1_up,
	.room = h1_room,
	.start = h1_start,
	.space = h1_space,
	.input = h1_input,
	.pause = h1_pause,
	.eof = h1_eof,
	.writable = h1_writable,
	.body = h1_body,
	.cancel = h1_cancel,
	.resume = h1_resume,
	.closing = h1_closing,
};
