/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "front/grpc_call.h"
#include "front/h2_conn.h"

enum {
	BURST_S = 10,          /* of the rates below may come at once */
	CONTROLS = 10,         /* PING, SETTINGS and the like: so many times the resets */
	MAX_CONTINUATIONS = 8, /* frames behind one HEADERS */
};

static bool take(struct h2_bucket *b, uint64_t now_ns, uint32_t per_s)
{
	uint64_t step = SL_NS_PER_SEC / (per_s ? per_s : 1);

	if (b->full_ns < now_ns)
		b->full_ns = now_ns;
	if (b->full_ns + step > now_ns + BURST_S * SL_NS_PER_SEC)
		return false;
	b->full_ns += step;
	return true;
}

/* Frames that cost us work and the peer nothing. */
static bool is_control(const nghttp2_frame_hd *hd)
{
	switch (hd->type) {
	case NGHTTP2_DATA: return !hd->length && !(hd->flags & NGHTTP2_FLAG_END_STREAM);
	case NGHTTP2_HEADERS:
	case NGHTTP2_CONTINUATION:
	case NGHTTP2_RST_STREAM:
	case NGHTTP2_WINDOW_UPDATE: return false;
	default: return true;
	}
}

static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct h2_conn *c = arg;
	uint32_t rate = c->env->limits->max_resets_per_s;
	uint64_t now = *c->front->now_ns;
	bool ok = true;

	(void)session;
	if (hd->type == NGHTTP2_CONTINUATION)
		ok = ++c->continuations <= MAX_CONTINUATIONS;
	else
		c->continuations = 0;
	if (hd->type == NGHTTP2_PRIORITY && !hd->stream_id) /* RFC 9113 6.3 */
		sl_h2_fail(c, NGHTTP2_PROTOCOL_ERROR, SL_FRONT_ERR_H2_PROTOCOL);
	else if (hd->type == NGHTTP2_RST_STREAM)
		ok = take(&c->resets, now, rate);
	else if (is_control(hd))
		ok = take(&c->controls, now, rate * CONTROLS);
	if (!ok)
		sl_h2_fail(c, NGHTTP2_ENHANCE_YOUR_CALM, SL_FRONT_ERR_H2_FLOOD);
	return 0;
}

static struct h2_stream *stream_of(struct h2_conn *c, int32_t id)
{
	return nghttp2_session_get_stream_user_data(c->session, id);
}

static bool is_request(const nghttp2_frame *frame)
{
	return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct h2_conn *c = arg;

	(void)session;
	if (!is_request(frame) || (c->flags & H2_FAILED))
		return 0;
	sl_h2_stream_new(c, frame->hd.stream_id); /* if there is none, the head's end refuses it */
	sl_h2_head_begin(c, frame->hd.stream_id);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *arg)
{
	struct h2_conn *c = arg;

	(void)session;
	(void)flags;
	if (is_request(frame) && frame->hd.stream_id == c->head.id)
		sl_h2_head_field(c, sl_span_of(name, name_len), sl_span_of(value, value_len));
	return 0;
}

static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
			     const uint8_t *name, size_t name_len, const uint8_t *value,
			     size_t value_len, uint8_t flags, void *arg)
{
	(void)session;
	(void)frame;
	(void)name;
	(void)name_len;
	(void)value;
	(void)value_len;
	(void)flags;
	sl_h2_count(arg, SL_FRONT_ERR_BAD_REQUEST);
	return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* PROTOCOL_ERROR: RFC 9113 8.2.1 */
}

/* What the gateway refuses itself: the host hears `cancel`, the client a status. */
static void refuse(struct h2_stream *s, unsigned http, enum sl_grpc_status grpc, const char *text)
{
	struct h2_conn *c = s->conn;
	struct sl_stream *st = s->st;

	s->flags |= ST_DROP;
	sl_h2_count(c, SL_FRONT_ERR_GRPC_MESSAGE);
	if (s->flags & ST_HEAD_SENT) {
		nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id,
					  NGHTTP2_PROTOCOL_ERROR);
		return;
	}
	s->st = NULL;
	sl_list_del(&s->turn);
	if (st)
		c->front->host->cancel(c->host, st);
	sl_h2_answer(s, http, grpc, text);
}

static bool unwanted(const struct h2_stream *s)
{
	return (s->flags & ST_DROP) || !s->st || s->st->refused;
}

/* The last bytes of the input may be taken with their frame. */
static size_t give(struct h2_stream *s, struct sl_span bytes)
{
	struct h2_conn *c = s->conn;
	struct sl_chunk *in = c->chunk;
	bool rest = in && bytes.ptr + bytes.len == in->ptr + in->len;
	struct sl_chunk part = {
		.ptr = bytes.ptr,
		.len = bytes.len,
		.frame = rest ? in->frame : NULL,
		.rx_ns = in ? in->rx_ns : 0,
		.take_ns = in ? in->take_ns : 0,
	};
	size_t n;

	n = c->front->host->body(c->host, s->st, &part);
	if (rest && n == bytes.len && !part.frame)
		in->frame = NULL;
	return n;
}

/* The prefix of a message is there. */
static bool message_begins(struct h2_stream *s)
{
	if (s->in.messages > 1)
		refuse(s, 0, SL_GRPC_UNIMPLEMENTED, "more than one message in a unary call");
	else if (s->in.prefix[0] == 1)
		refuse(s, 0, SL_GRPC_UNIMPLEMENTED, "compressed messages are not supported");
	else if (s->in.prefix[0])
		refuse(s, 0, SL_GRPC_INTERNAL, "reserved bits set in a message's prefix");
	else if (s->in.left > s->conn->env->limits->max_message)
		refuse(s, 0, SL_GRPC_RESOURCE_EXHAUSTED, "message larger than the limit");
	else
		return true;
	return false;
}

static size_t deliver_messages(struct h2_stream *s, struct sl_span in)
{
	size_t len = in.len, n;
	struct sl_span data;

	while (!unwanted(s)) {
		switch (sl_grpc_read(&s->in, &in, &data)) {
		case SL_GRPC_NEED: return len;
		case SL_GRPC_BEGIN:
			if (!message_begins(s))
				return len;
			break;
		case SL_GRPC_FINISH: break;
		case SL_GRPC_DATA:
			n = give(s, data);
			if (n < data.len) { /* the rest comes again */
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
	if (unwanted(s))
		return len;
	if (s->flags & ST_GRPC)
		return deliver_messages(s, sl_span_of(ptr, len));
	return give(s, sl_span_of(ptr, len));
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *ptr,
		   size_t len, void *arg)
{
	struct h2_conn *c = arg;
	struct h2_stream *s = stream_of(c, id);
	size_t n = s && !(c->flags & H2_FAILED) ? sl_h2_deliver(s, ptr, len) : len;

	(void)flags;
	/* The window opens as far as the bytes have found a place. */
	if (nghttp2_session_consume(session, id, n) != 0)
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
	if (unwanted(s))
		return;
	if (s->flags & ST_GRPC) {
		if (s->in.in_message || s->in.have) {
			refuse(s, 0, SL_GRPC_INTERNAL, "the stream ended inside a message");
			return;
		}
		if (!s->in.messages) {
			refuse(s, 0, SL_GRPC_UNIMPLEMENTED, "no message in a unary call");
			return;
		}
	}
	s->conn->front->host->end(s->conn->host, s->st);
}

/* The client has seen the first GOAWAY: now the one that counts. */
static void last_goaway(struct h2_conn *c)
{
	if (!(c->flags & H2_DRAIN) || (c->flags & H2_LAST))
		return;
	c->flags |= H2_LAST;
	nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(c->session), NGHTTP2_NO_ERROR,
			      NULL, 0);
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
		else if (s && end)
			sl_h2_request_over(s);
		break;
	case NGHTTP2_DATA:
		if (s && end)
			sl_h2_request_over(s);
		break;
	case NGHTTP2_SETTINGS: c->flags |= H2_READY; break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
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

	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	s = stream_of(c, frame->hd.stream_id);
	if (!s)
		return 0;
	s->flags |= ST_END_SENT;
	/* RFC 9113 8.1: whatever of the request is still to come is not needed. */
	if (!(s->flags & ST_RX_OVER))
		nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *arg)
{
	struct h2_conn *c = arg;
	struct h2_stream *s = stream_of(c, id);

	(void)session;
	(void)code;
	if (c->head.buf && c->head.id == id)
		sl_h2_head_drop(c);
	if (!s)
		return 0;
	s->flags |= ST_ENDED | ST_DROP;
	s->cur = (struct sl_span){0};
	sl_list_del(&s->turn);
	sl_list_del(&s->link);
	sl_list_add_tail(&c->ended, &s->link);
	return 0;
}

int sl_h2_callbacks(nghttp2_session_callbacks **out)
{
	nghttp2_session_callbacks *cb;

	if (nghttp2_session_callbacks_new(&cb) != 0)
		return -1;
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(cb, on_invalid_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
	*out = cb;
	return 0;
}
