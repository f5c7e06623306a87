/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "front/grpc/call.h"
#include "front/h2/conn.h"

#define ONE_MESSAGE                                                                                \
	"more than one message: the route needs stream = yes for calls of clients that stream"

enum {
	NARROW_WINDOW = 32 << 10,
	WIDE_FROM = 16 << 10,
	DRAIN_GRACE_S = 5, /* time to answer the first GOAWAY */
};

static struct h2_stream *stream_of(struct h2_conn *c, int32_t id)
{
	return nghttp2_session_get_stream_user_data(c->session, id);
}

static bool is_request(const nghttp2_frame *frame)
{
	return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static bool is_unwanted(const struct h2_stream *s)
{
	return (s->flags & (ST_DROP | ST_END_SENT)) || !s->st || s->st->refused;
}

static bool wants_trailers(const struct h2_stream *s)
{
	return s && !(s->flags & ST_GRPC) && !is_unwanted(s) && s->st->open_ended;
}

static void last_goaway(struct h2_conn *c)
{
	if (!(c->flags & H2_DRAIN) || (c->flags & H2_LAST))
		return;
	c->flags |= H2_LAST;
	nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR,
			      NULL, 0);
}

/* Then requests after GOAWAY are no race. */
static bool is_late(const struct h2_conn *c)
{
	return c->flags & H2_DRAIN &&
	       *c->front->now_ns - c->drain_ns > DRAIN_GRACE_S * SL_NS_PER_SEC;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_conn *c = arg;

	(void)session;
	c->told = 0;
	if (c->flags & H2_FAILED)
		return 0;
	if (is_request(frame) && is_late(c))
		last_goaway(c);
	if (is_request(frame))
		sl_h2_stream_new(
			/* on failure sl_h2_head_end() refuses the request */
			c, frame->hd.stream_id);
	else if (!wants_trailers(stream_of(c, frame->hd.stream_id)))
		return 0;
	sl_h2_head_begin(c, frame->hd.stream_id);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *arg)
{
	struct h2_conn *c = arg;
	struct sl_span n = sl_span_of(name, name_len), v = sl_span_of(value, value_len);
	int rc = 0;
	enum h2_verdict verdict;
	struct h2_stream *s;

	(void)session;
	(void)flags;
	verdict = sl_h2_flood_field(c, name_len + value_len);
	if (verdict == H2_END)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (verdict == H2_PAUSE)
		rc = NGHTTP2_ERR_PAUSE;
	if (is_request(frame)) {
		if (frame->hd.stream_id == c->head.id &&
		    sl_h2_message_field(&c->head, n, v, c->env->limits->upgrades))
			sl_h2_head_field(c, n, v);
		return rc;
	}
	s = stream_of(c, frame->hd.stream_id);
	if (!s)
		return rc;
	if (!sl_h2_message_trailer(n, v) || (!(s->flags & ST_GRPC) && sl_h2_trim(v).len < v.len))
		sl_h2_malformed(s);
	else if (frame->hd.stream_id == c->head.id)
		sl_h2_head_field(c, n, v);
	return rc;
}

static void refuse_stream(struct h2_stream *s, enum sl_grpc_status grpc, const char *text)
{
	struct h2_conn *c = s->conn;
	struct sl_stream *st = s->st;

	s->flags |= ST_DROP;
	sl_h2_count(c, SL_FRONT_ERR_GRPC_MESSAGE);
	if (st && st->open_ended) /* a backend has started: charge as a reset */
		sl_h2_flood_reset(c, NGHTTP2_PROTOCOL_ERROR);
	s->st = NULL;
	if (st)
		c->front->cb->cancel(c->conn, st);
	if (s->flags & ST_HEAD_SENT)
		sl_h2_cut_off(s, grpc, text);
	else
		sl_h2_answer(s, 0, grpc, text, (struct sl_span){0});
}

/* The input's last bytes may be taken with their frame. */
static size_t give_body(struct h2_stream *s, struct sl_span bytes)
{
	struct h2_conn *c = s->conn;
	struct sl_chunk *in = c->chunk;
	bool rest = in && bytes.ptr + bytes.len == in->ptr + in->len;

	/* The core may free the frame: check it before. */
	if (rest && in->frame && !sl_h2_flood_until(c, in->ptr + in->len))
		return bytes.len;

	struct sl_chunk part = {
		.ptr = bytes.ptr,
		.len = bytes.len,
		.frame = rest ? in->frame : NULL,
		.rx_ns = in ? in->rx_ns : 0,
		.take_ns = in ? in->take_ns : 0,
	};
	size_t n;

	n = c->front->cb->body(c->conn, s->st, &part);
	if (rest && n == bytes.len && !part.frame)
		in->frame = NULL;
	if (s->st->windowed)
		s->given += (uint32_t)n;
	return n;
}

static bool pass_message(struct h2_stream *s)
{
	bool compressed = s->in.prefix[0];

	if (s->st->open_ended)
		return s->conn->front->cb->message(s->conn->conn, s->st, (uint32_t)s->in.left,
						   compressed);
	s->st->compressed = compressed;
	return true;
}

static bool message_begins(struct h2_stream *s)
{
	if (s->in.messages > 1 && !s->st->open_ended)
		refuse_stream(s, SL_GRPC_UNIMPLEMENTED, ONE_MESSAGE);
	else if (s->in.prefix[0] > SL_GRPC_COMPRESSED)
		refuse_stream(s, SL_GRPC_INTERNAL, "reserved bits set in a message's prefix");
	else if (s->in.left > s->conn->env->limits->max_message)
		refuse_stream(s, SL_GRPC_RESOURCE_EXHAUSTED, "message larger than the limit");
	else
		return pass_message(s);
	return false;
}

/* The core stores the message's length, so the prefix uses window too. */
static void give_prefix(struct h2_stream *s, size_t n)
{
	if (s->st->windowed && s->st->open_ended)
		s->given += (uint32_t)n;
}

static size_t deliver_messages(struct h2_stream *s, struct sl_span in)
{
	size_t len = in.len, n, left;
	struct sl_span data;

	while (!is_unwanted(s)) {
		left = in.len;
		switch (sl_grpc_read(&s->in, &in, &data)) {
		case SL_GRPC_NEED: give_prefix(s, left - in.len); return len;
		case SL_GRPC_BEGIN:
			give_prefix(s, left - in.len);
			if (!message_begins(s))
				return len;
			break;
		case SL_GRPC_FINISH: s->st->message_over = true; break;
		case SL_GRPC_DATA:
			n = give_body(s, data);
			if (n < data.len) {
				s->in.left += data.len - n;
				return len - in.len - (data.len - n);
			}
			break;
		}
	}
	return len;
}

size_t sl_h2_deliver(struct h2_stream *s, const uint8_t *ptr, size_t len)
{
	if (s->flags & ST_CALL) {
		sl_call_input(s, sl_span_of(ptr, len));
		return len;
	}
	if (is_unwanted(s))
		return len;
	if (s->flags & ST_GRPC)
		return deliver_messages(s, sl_span_of(ptr, len));
	return give_body(s, sl_span_of(ptr, len));
}

static bool may_have_credit(const struct h2_stream *s)
{
	return (s->conn->flags & H2_SETTLED) ||
	       nghttp2_session_get_stream_effective_recv_data_length(s->conn->session, s->id) >=
		       H2_FIRST_WINDOW ||
	       s->came >= H2_FIRST_WINDOW;
}

/*
 * curl 7.88 sends bytes twice if a send blocks while it has a frame of less than 1 KiB. So credit
 * comes in whole frames, after the client has acknowledged our SETTINGS or sent all it may without
 * credit.
 */
static void give_credit(struct h2_stream *s)
{
	uint32_t n = s->credit / H2_CREDIT_UNIT * H2_CREDIT_UNIT;

	if (!n || !may_have_credit(s))
		return;
	s->credit -= n;
	nghttp2_session_consume_stream(s->conn->session, s->id, n);
}

static void settle_session(struct h2_conn *c)
{
	struct sl_list *l;

	c->flags |= H2_SETTLED;
	sl_list_for_each (l, &c->streams)
		give_credit(sl_container_of(l, struct h2_stream, link));
}

void sl_h2_passed(struct h2_stream *s)
{
	uint32_t n = s->st ? s->st->passed : 0;

	if (!n)
		return;
	s->st->passed = 0;
	/* An unused stream's window need not open. */
	n = n < s->given ? n : s->given;
	s->given -= n;
	s->credit += n;
	give_credit(s);
}

static void fit_window(struct h2_conn *c, struct h2_stream *s)
{
	uint32_t window = s->window;

	if (s->st && s->st->narrow)
		window = NARROW_WINDOW;
	else if (s->came >= WIDE_FROM && may_have_credit(s))
		window = c->env->cfg.stream_window;
	if (window == s->window)
		return;
	s->window = window;
	nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, s->id,
					      (int32_t)window);
}

static int consume_bytes(struct h2_conn *c, int32_t id, struct h2_stream *s, size_t n,
			 uint32_t before)
{
	if (!s || s->given == before)
		return nghttp2_session_consume(c->session, id, n);
	if (nghttp2_session_consume_connection(c->session, n) != 0)
		return -1;
	if (s->came < H2_FIRST_WINDOW)
		s->came += (uint32_t)n;
	fit_window(c, s);
	s->credit += (uint32_t)(n - (s->given - before));
	give_credit(s);
	sl_h2_passed(s);
	return 0;
}

/* RFC 9113 8.1.1 */
static bool take_announced(struct h2_stream *s, size_t len)
{
	if (s->body_left == SL_LEN_UNKNOWN)
		return true;
	if (len > s->body_left)
		return false;
	s->body_left -= len;
	return true;
}

static bool is_short(const struct h2_stream *s)
{
	return s->body_left && s->body_left != SL_LEN_UNKNOWN;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *ptr,
		   size_t len, void *arg)
{
	struct h2_conn *c = arg;
	struct h2_stream *s = stream_of(c, id);
	uint32_t before = s ? s->given : 0;
	size_t n = len;

	(void)flags;
	(void)session;
	if (s && !take_announced(s, len))
		sl_h2_malformed(s);
	else if (s && !(c->flags & H2_FAILED))
		n = sl_h2_deliver(s, ptr, len);
	if (consume_bytes(c, id, s, n, before) != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (n == len)
		return 0;
	c->stuck = s;
	c->stuck_len = len - n;
	return NGHTTP2_ERR_PAUSE;
}

void sl_h2_request_over(struct h2_stream *s)
{
	s->flags |= ST_RX_OVER;
	if (s->flags & ST_CALL) {
		sl_call_end(s);
		return;
	}
	if (is_unwanted(s))
		return;
	if (s->flags & ST_GRPC) {
		if (s->in.in_message || s->in.have) {
			refuse_stream(s, SL_GRPC_INTERNAL, "the stream ended inside a message");
			return;
		}
		if (!s->in.messages && !s->st->open_ended) {
			refuse_stream(s, SL_GRPC_UNIMPLEMENTED, "no message in a unary call");
			return;
		}
	}
	s->conn->front->cb->end(s->conn->conn, s->st);
}

static void body_over(struct h2_stream *s)
{
	if (is_short(s) && !(s->flags & ST_DROP))
		sl_h2_malformed(s);
	else
		sl_h2_request_over(s);
}

/* RFC 9113 8.1 */
static void trailers_over(struct h2_conn *c, struct h2_stream *s, bool end)
{
	if (!end || (is_short(s) && !(s->flags & ST_DROP))) {
		sl_h2_malformed(s);
		sl_h2_head_drop(c);
		return;
	}
	if (c->head.id == s->id) {
		if (wants_trailers(s))
			sl_h2_trailers(c, s);
		else
			sl_h2_head_drop(c);
	}
	sl_h2_request_over(s);
}

void sl_h2_upgrade_drain(struct h2_stream *s)
{
	if (!(s->flags & (ST_RX_OVER | ST_DROP)))
		sl_h2_request_over(s);
	s->flags |= ST_DROP;
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_conn *c = arg;
	struct h2_stream *s = stream_of(c, frame->hd.stream_id);
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	(void)session;
	if (c->flags & H2_FAILED)
		return 0;
	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		if (is_request(frame))
			sl_h2_head_end(c, s, end);
		else if (s)
			trailers_over(c, s, end);
		break;
	case NGHTTP2_DATA:
		if (s && end)
			body_over(s);
		else if (s)
			give_credit(s); /* padding and bytes not passed on count, too */
		break;
	case NGHTTP2_RST_STREAM: sl_h2_flood_abandoned(c, s); break;
	case NGHTTP2_SETTINGS:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK) {
			settle_session(c);
			break;
		}
		c->flags |= H2_READY;
		sl_h2_idle_settings(c, &frame->settings);
		break;
	case NGHTTP2_PING:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			break;
		if (sl_h2_early_reply_is_mark(frame->ping.opaque_data))
			sl_h2_early_reply_acked(c);
		else
			last_goaway(c);
		break;
	default: break;
	}
	return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
			    void *arg)
{
	(void)session;
	(void)frame;
	(void)error;
	sl_h2_count(arg, SL_FRONT_ERR_H2_PROTOCOL);
	return 0;
}

static int on_frame_send(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_conn *c = arg;
	struct h2_stream *s;

	if (frame->hd.type == NGHTTP2_RST_STREAM)
		sl_h2_flood_reset(c, frame->rst_stream.error_code);
	if (frame->hd.type == NGHTTP2_DATA)
		sl_h2_flood_credit(c);
	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	s = stream_of(c, frame->hd.stream_id);
	if (!s)
		return 0;
	s->flags |= ST_END_SENT;
	if ((s->flags & (ST_MALFORMED | ST_RX_OVER)) == (ST_MALFORMED | ST_RX_OVER))
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id,
					  NGHTTP2_PROTOCOL_ERROR);
	if (s->st)
		sl_h2_flood_served(c);
	if (sl_h2_early_reply_pending(s))
		sl_h2_early_reply_ping(c);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct h2_conn *c = arg;
	struct h2_stream *s = stream_of(c, id);

	(void)session;
	(void)code;
	if (c->head.since_ns && c->head.id == id)
		sl_h2_head_drop(c);
	if (!s)
		return 0;
	s->flags |= ST_DROP;
	sl_list_del(&s->link);
	sl_list_add_tail(&c->ended, &s->link);
	return 0;
}

int sl_h2_callbacks(nghttp2_session_callbacks **out)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&cb) != 0)
		return -1;
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	*out = cb;
	return 0;
}
