/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/h2.h"
#include "origin/scratch.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "sluice/types.h"

/* RESERVE: 1/16 of the budget is for clients that read. */
enum { RESERVE = 16, RX_LEAST = 1024 - sizeof(struct sl_capped_block) };
enum { TEXT_PIECE = 2048 - 48 };

static void mark_touched(struct origin_h2_stream *s)
{
	sl_list_del(&s->touched);
	sl_list_add_tail(&s->h->touched, &s->touched);
}

static struct origin_h2_stream *stream_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

/*
 * nghttp2 does not report a refused frame; it resets the stream later. Frames that follow must not
 * make the reply valid. Promises are answered until ENABLE_PUSH 0 is acknowledged.
 */
static int on_begin_frame(nghttp2_session *session, const nghttp2_frame_hd *hd, void *arg)
{
	struct origin_h2_stream *s = stream_of(session, hd->stream_id);

	(void)arg;
	if (hd->type == NGHTTP2_PUSH_PROMISE)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (!s || s->whole || hd->type == NGHTTP2_CONTINUATION)
		return 0;
	if (s->in_frame && !s->wrong) {
		s->wrong = "it is malformed";
		mark_touched(s);
	}
	s->in_frame = hd->type == NGHTTP2_HEADERS || hd->type == NGHTTP2_DATA;
	return 0;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct origin_h2_stream *s = stream_of(session, frame->hd.stream_id);

	(void)arg;
	if (s && s->status < 200) {
		s->status = 0;
		s->headers.cnt = 0;
		origin_h2_text_free(s);
		s->type[0] = s->why[0] = 0;
		s->foreign_type = false;
		s->grpc_status = -1;
	}
	return 0;
}

static void decode_why(struct origin_h2_stream *s, struct sl_span v)
{
	size_t n = 0;

	for (size_t i = 0; i < v.len && n + 1 < sizeof(s->why); i++) {
		int high = i + 2 < v.len ? sl_hex_digit(v.ptr[i + 1]) : -1;
		int low = i + 2 < v.len ? sl_hex_digit(v.ptr[i + 2]) : -1;

		if (v.ptr[i] == '%' && high >= 0 && low >= 0) {
			s->why[n++] = (char)(high << 4 | low);
			i += 2;
		} else {
			s->why[n++] = (char)v.ptr[i];
		}
	}
	s->why[n] = 0;
}

static struct sl_capped_alloc *memory_of(const struct origin_h2_stream *s)
{
	return &origin_h2_origin(s)->bodies;
}

struct origin_h2_text {
	struct origin_h2_text *next;
	uint32_t len, size;
	char bytes[];
};

void origin_h2_text_free(struct origin_h2_stream *s)
{
	struct origin_h2_text *t;

	while ((t = s->text)) {
		s->text = t->next;
		sl_capped_free(memory_of(s), t);
	}
	s->text_len = 0;
}

static bool *find_fault(struct origin_h2_stream *s)
{
	return s->call->answered ? &s->bad_trailers : &s->bad_head;
}

static char *text_room(struct origin_h2_stream *s, size_t need)
{
	size_t size = need > TEXT_PIECE ? need : TEXT_PIECE;
	struct origin_h2_text *t = s->text;

	if (need > ORIGIN_HEAD_MAX - s->text_len) {
		*find_fault(s) = s->over = true;
		return NULL;
	}
	if (!t || need > t->size - t->len) {
		t = sl_capped_malloc(memory_of(s), sizeof(*t) + size);
		if (!t) {
			s->starved = true;
			return NULL;
		}
		*t = (struct origin_h2_text){.next = s->text, .size = (uint32_t)size};
		s->text = t;
	}
	s->text_len += (uint32_t)need;
	t->len += (uint32_t)need;
	return t->bytes + t->len - need;
}

static void keep_field(struct origin_h2_stream *s, struct origin_fields *f, struct sl_span name,
		       struct sl_span value)
{
	char *at = NULL;

	if (f->cnt == ORIGIN_FIELDS_MAX)
		*find_fault(s) = s->over = true;
	else
		at = text_room(s, name.len + 1 + value.len);
	if (!at)
		return;
	memcpy(at, name.ptr, name.len);
	at[name.len] = 0;
	if (value.len)
		memcpy(at + name.len + 1, value.ptr, value.len);
	f->at[f->cnt++] = (struct sl_header){sl_span_of(at, name.len),
					     sl_span_of(at + name.len + 1, value.len)};
}

static void keep_binary(struct origin_h2_stream *s, struct origin_fields *f, struct sl_span name,
			struct sl_span list)
{
	do {
		const uint8_t *comma = list.len ? memchr(list.ptr, ',', list.len) : NULL;
		struct sl_span v =
			sl_span_first(list, comma ? (size_t)(comma - list.ptr) : list.len);
		uint32_t before = f->cnt;
		size_t n;

		list = sl_span_skip(list, v.len + 1);
		keep_field(s, f, name, v);
		if (f->cnt == before)
			return;
		v = f->at[before].value;
		n = sl_base64_decode((uint8_t *)(uintptr_t)v.ptr, v);
		*find_fault(s) |= n == SIZE_MAX;
		f->at[before].value.len = n == SIZE_MAX ? 0 : n;
	} while (list.len);
}

static void keep_type(struct origin_h2_stream *s, struct sl_span v)
{
	s->foreign_type = !sl_grpc_content_type(v);
	if (s->foreign_type || v.len >= sizeof(s->type))
		return;
	memcpy(s->type, v.ptr, v.len);
	s->type[v.len] = 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
		     void *arg)
{
	struct origin_h2_stream *s = stream_of(session, frame->hd.stream_id);
	struct sl_span n = sl_span_of(name, name_len), v = sl_span_of(value, value_len);
	struct origin_fields *f;
	uint64_t number;

	(void)flags, (void)arg;
	if (!s || s->wrong || s->foreign >= 0)
		return 0;
	f = s->call->answered ? &s->trailers : &s->headers;
	if (sl_span_eq(n, sl_span_str(":status"))) {
		s->status = sl_parse_u64_max(v, 599, &number) ? 0 : (uint16_t)number;
		return 0;
	}
	if (sl_span_eq(n, sl_span_str("content-length")) && !sl_parse_u64(v, &number))
		s->length = number;
	if (!s->call->grpc)
		keep_field(s, f, n, v);
	else if (sl_span_eq(n, sl_span_str("grpc-status")))
		s->grpc_status =
			sl_parse_u64_max(v, UINT16_MAX, &number) ? SL_GRPC_UNKNOWN : (int)number;
	else if (sl_span_eq(n, sl_span_str("grpc-message")))
		decode_why(s, v);
	else if (sl_span_eq(n, sl_span_str("content-type")) && !s->call->answered)
		keep_type(s, v);
	else if (sl_grpc_is_binary(n))
		keep_binary(s, f, n, v);
	else if (!sl_grpc_is_reserved(n))
		keep_field(s, f, n, v);
	return 0;
}

static void pass_interim(struct origin_h2_stream *s)
{
	struct origin_reply_fields *fields = &origin_h2_origin(s)->scratch->fields;

	fields->cnt = 0;
	if (!s->bad_head && origin_reply_take(fields, &s->headers, false))
		origin_h2_ops(s)->interim(s->call, s->status, fields);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct origin_h2_conn *h = arg;
	struct origin_h2_stream *s = stream_of(session, frame->hd.stream_id);

	if (frame->hd.type == NGHTTP2_GOAWAY)
		h->going = true;
	if (!s)
		return 0;
	s->in_frame = false;
	s->reset |= frame->hd.type == NGHTTP2_RST_STREAM;
	if (frame->hd.type == NGHTTP2_HEADERS && s->status < 100)
		s->wrong = "a status that is none";
	else if (frame->hd.type == NGHTTP2_HEADERS && s->status < 200 &&
		 ++s->interim > ORIGIN_INTERIM_MAX)
		s->wrong = "too many interim replies";
	if (s->wrong) {
		s->interim = ORIGIN_INTERIM_MAX;
		mark_touched(s);
		return 0;
	}
	if (frame->hd.type == NGHTTP2_HEADERS && s->status >= 200 && !s->call->answered) {
		if (s->call->grpc)
			origin_h2_judge_head(s, frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
		origin_h2_ops(s)->answered(s->call);
		s->call->answered = true;
		s->text_len = 0;
		mark_touched(s);
	}
	if (frame->hd.type == NGHTTP2_HEADERS && s->status == 100) {
		s->send_continue = true;
		mark_touched(s);
	} else if (frame->hd.type == NGHTTP2_HEADERS && s->status > 101 && s->status < 200) {
		pass_interim(s);
	}
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM &&
	    (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
		s->whole = true;
		mark_touched(s);
	}
	return 0;
}

void origin_h2_rx_free(struct origin_h2_stream *s)
{
	sl_capped_free(memory_of(s), s->rx);
	s->rx = NULL;
	s->rx_at = s->rx_len = s->rx_cap = 0;
}

static bool make_room(struct origin_h2_stream *s, size_t len)
{
	uint32_t have = s->rx_len - s->rx_at;
	size_t cap = s->rx_cap ? s->rx_cap : RX_LEAST;
	uint8_t *rx = s->rx;

	if (len <= s->rx_cap - s->rx_len)
		return true;
	while (cap < have + len)
		cap = 2 * cap + sizeof(struct sl_capped_block);
	if (cap > s->rx_cap) {
		rx = sl_capped_malloc(memory_of(s), cap);
		if (!rx)
			return false;
	}
	if (have)
		memmove(rx, s->rx + s->rx_at, have);
	if (rx != s->rx)
		origin_h2_rx_free(s);
	s->rx = rx;
	s->rx_cap = (uint32_t)cap;
	s->rx_len = have;
	s->rx_at = 0;
	return true;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
		   size_t len, void *arg)
{
	struct origin_h2_stream *s = stream_of(session, id);

	(void)flags, (void)arg;
	nghttp2_session_consume_connection(session, len);
	if (!s || s->starved || s->wrong || !len)
		return 0;
	if (len > ORIGIN_RX_LEN - (s->rx_len - s->rx_at))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	mark_touched(s);
	s->starved = !make_room(s, len);
	if (s->starved)
		return 0;
	memcpy(s->rx + s->rx_len, bytes, len);
	s->rx_len += (uint32_t)len;
	return 0;
}

static int on_frame_sent(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
	struct origin_h2_stream *s = stream_of(session, frame->hd.stream_id);

	(void)arg;
	if (!s)
		return 0;
	s->call->written = true;
	/* nghttp2 resets the stream for its content: streams that this side resets are freed. */
	if (frame->hd.type == NGHTTP2_RST_STREAM && !s->wrong)
		s->wrong = "it is malformed";
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
	struct origin_h2_stream *s = stream_of(session, id);

	(void)arg;
	if (!s)
		return 0;
	s->ended = true;
	s->error = error;
	mark_touched(s);
	return 0;
}

void origin_h2_callbacks(nghttp2_session_callbacks *cb)
{
	nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
	nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
	nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
}

struct sl_span origin_h2_rx(const struct origin_h2_stream *s)
{
	return sl_span_of(s->rx ? s->rx + s->rx_at : NULL, s->rx_len - s->rx_at);
}

void origin_h2_consume(struct origin_h2_stream *s, size_t n)
{
	s->rx_at += (uint32_t)n;
	if (s->rx_at == s->rx_len)
		origin_h2_rx_free(s);
	if (!s->ended && n) {
		nghttp2_session_consume_stream(s->h->session, s->id, n);
		origin_h2_write_soon(s->h);
	}
}

void origin_h2_end_with(struct origin_h2_stream *s, enum sl_rpc_status status, const char *why)
{
	struct origin_call *call = s->call;
	struct origin_h2_conn *h = s->h;

	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN, "%s: %s: a reply was refused: %s",
		     h->c.server->origin->area, h->c.server->name, why);
	if (!s->ended) {
		nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_CANCEL);
		origin_h2_write_soon(h);
	}
	origin_h2_stream_free(s);
	call->over = true;
	origin_ops_of(call)->fail(call, status);
}

bool origin_h2_reply(struct origin_h2_stream *s, struct sl_reply_args *a)
{
	struct origin_reply_fields *fields = &origin_h2_origin(s)->scratch->fields;
	struct origin_call *call = s->call;
	struct origin_h2_conn *h = s->h;
	unsigned before = h->freed;

	fields->cnt = 0;
	if ((!call->begun &&
	     (s->bad_head || !origin_reply_take(fields, &s->headers, s->trailers_only))) ||
	    (!a->more && (s->bad_trailers || !origin_reply_take(fields, &s->trailers, true)))) {
		origin_h2_end_with(
			s, SL_RPC_INTERNAL,
			s->over ? "more than max_reply_head or max_reply_fields can allow"
				: "fields that cannot go on");
		return false;
	}
	a->headers = fields->at;
	a->header_cnt = fields->cnt;
	a->status = call->begun || !call->answered ? 0 : s->status;
	if (call->grpc && !call->begun && strcmp(s->type, "application/grpc") != 0 && s->type[0])
		a->content_type = s->type;
	call->over = !a->more;
	if (!origin_ops_of(call)->reply(call, a)) {
		s->blocked = true;
		sl_list_add_tail(&h->c.server->origin->unread, &s->unread);
		return false;
	}
	if (h->freed != before)
		return false;
	if (a->more && !s->trailers.cnt) /* the head was copied */
		origin_h2_text_free(s);
	if (a->more)
		return true;
	if (!s->ended) { /* reply before the end of the request */
		nghttp2_submit_rst_stream(h->session, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
		origin_h2_write_soon(h);
	}
	s->call = NULL;
	origin_h2_stream_free(s);
	return false;
}

void origin_h2_lost(struct origin_h2_stream *s)
{
	struct origin_call *call = s->call;
	const char *why = nghttp2_http2_strerror(s->error);

	if (s->error == NGHTTP2_REFUSED_STREAM) /* RFC 9113 8.7: the request was not processed */
		call->written = false;
	origin_h2_stream_free(s);
	origin_ops_of(call)->lost(call, why);
}

static bool settle_parts(struct origin_h2_stream *s)
{
	struct sl_span in;

	while ((in = origin_h2_rx(s)).len > ORIGIN_PART_MAX && s->call->begun) {
		struct sl_reply_args a = {
			.body = in.ptr, .body_len = ORIGIN_PART_MAX, .more = true};

		if (!origin_h2_reply(s, &a))
			return false;
		origin_h2_consume(s, ORIGIN_PART_MAX);
	}
	return true;
}

static void settle_http(struct origin_h2_stream *s)
{
	struct sl_span in;
	struct sl_reply_args a;

	if (!settle_parts(s))
		return;
	in = origin_h2_rx(s);
	a = (struct sl_reply_args){.body = in.ptr, .body_len = in.len, .more = !s->whole};
	if (!s->call->begun) {
		a.has_total = s->length != SL_LEN_UNKNOWN && s->status != 204;
		a.total_len = s->length;
	}
	if (s->ended && !s->whole)
		origin_h2_lost(s);
	else if (s->whole)
		(void)origin_h2_reply(s, &a);
	else if ((s->call->begun ? in.len : s->call->body.on || s->length > ORIGIN_RX_LEN) &&
		 origin_h2_reply(s, &a))
		origin_h2_consume(s, a.body_len);
}

void origin_h2_relieve(struct origin *o)
{
	struct origin_h2_stream *s;

	while (o->bodies.used > o->bodies.limit - o->bodies.limit / RESERVE &&
	       (s = sl_list_first(&o->unread, struct origin_h2_stream, unread)))
		origin_h2_end_with(s, SL_RPC_LOST, "its client does not read, and memory is short");
}

void origin_h2_settle(struct origin_h2_stream *s)
{
	sl_list_del(&s->touched);
	if (s->starved) {
		origin_h2_end_with(s, SL_RPC_LOST, "no memory is left for it");
		return;
	}
	if (s->wrong && (s->blocked || !s->call->grpc || !s->call->answered)) {
		origin_h2_end_with(s, SL_RPC_INTERNAL, s->wrong);
		return;
	}
	if (s->blocked)
		return;
	if (s->send_continue && !origin_h2_ops(s)->send_continue(s->call))
		return;
	s->send_continue = false;
	if (!s->call->answered && !s->ended)
		return;
	if (s->call->grpc) {
		origin_h2_settle_grpc(s);
	} else if (!s->call->answered) {
		origin_h2_lost(s);
	} else {
		settle_http(s);
	}
}
