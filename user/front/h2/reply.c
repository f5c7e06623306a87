/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/num.h"
#include "front/h2/conn.h"
#include "http/scan.h"
#include "http/status.h"

enum {
	FIELDS_MAX = SL_RPC_MAX_FIELDS + SL_RPC_MAX_TRAILERS + 16,
	/* -bin values and grpc-message; base64 uses 4 bytes for 3. */
	SCRATCH = SL_RPC_MAX_META / 3 * 4 + 4096,
	TEXT_MAX = 2048,
};

struct fields {
	nghttp2_nv nv[FIELDS_MAX];
	size_t cnt;
	char scratch[SCRATCH];
	size_t used;
	bool full;
};

size_t sl_h2_reply_scratch(void)
{
	return sizeof(struct fields);
}

static void add_field(struct fields *f, struct sl_span name, struct sl_span value)
{
	if (f->cnt == FIELDS_MAX) {
		f->full = true;
		return;
	}
	f->nv[f->cnt++] = (nghttp2_nv){
		.name = (uint8_t *)name.ptr,
		.value = (uint8_t *)value.ptr,
		.namelen = name.len,
		.valuelen = value.len,
	};
}
#define ADD(f, lit, value) add_field((f), sl_span_str(lit), (value))

static void add_u64(struct fields *f, struct sl_span name, uint64_t v)
{
	char *p = f->scratch + f->used;

	if (f->used + SL_U64_DIGITS > SCRATCH) {
		f->full = true;
		return;
	}
	f->used += sl_format_u64(p, v);
	add_field(f, name, sl_span_of(p, (size_t)(f->scratch + f->used - p)));
}

static void add_binary(struct fields *f, const struct sl_header *h)
{
	char *p = f->scratch + f->used;
	size_t n;

	if ((h->value.len * 4 + 2) / 3 > SCRATCH - f->used) {
		f->full = true;
		return;
	}
	n = sl_base64_encode(p, h->value);
	f->used += n;
	add_field(f, h->name, sl_span_of(p, n));
}

static void add_allow(struct fields *f, uint32_t methods)
{
	char *p = f->scratch + f->used;
	size_t n;

	if (SCRATCH - f->used < SL_METHODS_TEXT) {
		f->full = true;
		return;
	}
	n = sl_methods_text(p, methods);
	f->used += n;
	ADD(f, "allow", sl_span_of(p, n));
}

static void add_headers(struct fields *f, const struct sl_reply *r, bool grpc,
			const struct sl_header *h, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (sl_reply_is_ours(r, h[i].name) || (grpc && sl_grpc_is_reserved(h[i].name)))
			continue;
		if (grpc && sl_grpc_is_binary(h[i].name)) {
			add_binary(f, &h[i]);
		} else {
			const uint8_t *p = h[i].value.ptr, *end = p + h[i].value.len;

			/* raw values: only bytes that HTTP/1 allows */
			if (h[i].value.len && sl_scan_value(p, p, end) != end)
				f->full = true;
			else
				add_field(f, h[i].name, h[i].value);
		}
	}
}

/* Server and Date of `r` (may be NULL) replace ours. */
static void add_start(struct fields *f, const struct h2_conn *c, unsigned status,
		      const struct sl_reply *r)
{
	f->cnt = f->used = 0;
	f->full = false;
	add_u64(f, sl_span_str(":status"), status);
	if (!r || !r->has_server)
		ADD(f, "server", sl_span_str("sluice"));
	if (!r || !r->has_date)
		ADD(f, "date", sl_span_of(c->front->date, 29));
}

static void start_trailers(struct fields *f)
{
	f->cnt = f->used = 0;
	f->full = false;
}

static void add_status(struct fields *f, enum sl_grpc_status status, struct sl_span message)
{
	size_t room, n;
	char *p;

	add_u64(f, sl_span_str("grpc-status"), status);
	if (!message.len)
		return;
	p = f->scratch + f->used;
	room = SCRATCH - f->used;
	n = sl_grpc_percent_encode(p, room < TEXT_MAX ? room : TEXT_MAX, message);
	f->used += n;
	ADD(f, "grpc-message", sl_span_of(p, n));
}

static void add_identity(struct fields *f)
{
	ADD(f, "grpc-accept-encoding", sl_span_str("identity"));
}

static enum sl_grpc_status status_of(const struct sl_reply *r)
{
	if (r->grpc_status || r->status == 200)
		return r->grpc_status;
	return sl_grpc_from_http(r->status);
}

static bool submit_trailers(struct h2_stream *s, const struct fields *f)
{
	return !f->full && nghttp2_submit_trailer(s->conn->session, s->id, f->nv, f->cnt) == 0;
}

enum { RESET_STREAM = NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE };

static int end_broken(struct h2_stream *s, uint32_t *flags)
{
	SL_UNINIT struct sl_reply_parts why;
	struct fields *f = s->conn->env->fields;

	if (!(s->flags & ST_GRPC))
		return RESET_STREAM;
	(void)s->conn->front->cb->trailers(s->conn->conn, s->st, &why);
	start_trailers(f);
	add_status(f, status_of(&why.reply), why.reply.grpc_message);
	if (why.reply.outcome == SL_OUTCOME_COMPRESSED)
		add_identity(f);
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	return submit_trailers(s, f) ? 0 : RESET_STREAM;
}

static int end_cut_off(struct h2_stream *s, uint32_t *flags)
{
	struct fields *f = s->conn->env->fields;

	start_trailers(f);
	add_status(f, s->cut_off, s->text_left);
	*flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
	return submit_trailers(s, f) ? 0 : RESET_STREAM;
}

static int end_body(struct h2_stream *s, uint32_t *flags)
{
	bool grpc = s->flags & ST_GRPC;
	SL_UNINIT struct sl_reply_parts parts;
	const struct sl_reply *r = &parts.reply;
	struct fields *f = s->conn->env->fields;

	if (s->flags & ST_LENGTH && s->st->reply_left)
		return RESET_STREAM;
	if (!s->conn->front->cb->trailers(s->conn->conn, s->st, &parts))
		return end_broken(s, flags);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	start_trailers(f);
	if (grpc)
		add_status(f, status_of(r), r->grpc_message);
	add_headers(f, r, grpc, r->trailers, r->trailer_cnt);
	if (!f->cnt && !f->full)
		return 0;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	if (submit_trailers(s, f))
		return 0;
	sl_h2_count(s->conn, SL_FRONT_ERR_BAD_REPLY);
	return RESET_STREAM;
}

static size_t take_bytes(struct h2_stream *s, struct sl_span bytes, uint8_t *to, size_t cap)
{
	size_t len = bytes.len < cap ? bytes.len : cap, n = len;

	if (!len)
		return 0;
	if (s->flags & ST_LENGTH) {
		n = len < s->st->reply_left ? len : (size_t)s->st->reply_left;
		s->st->reply_left -= n;
	}
	memcpy(to, bytes.ptr, n);
	s->conn->taken += (uint32_t)len;
	s->conn->front->cb->take(s->conn->conn, s->st, len);
	return n;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct h2_stream *s = source->ptr;
	struct h2_conn *c = s->conn;
	size_t n = 0;

	(void)session;
	(void)id;
	(void)arg;
	if (!s->st)
		return end_cut_off(s, flags);
	for (;;) {
		struct sl_piece piece = c->front->cb->peek(c->conn, s->st);
		bool all = piece.bytes.len <= cap - n;
		int rc;

		if (piece.behind == SL_BROKEN)
			return n ? (ssize_t)n : end_broken(s, flags);
		n += take_bytes(s, piece.bytes, buf + n, cap - n);
		if (all && piece.behind == SL_END) {
			rc = end_body(s, flags);
			return rc ? rc : (ssize_t)n;
		}
		if (!all || !piece.bytes.len)
			return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	}
}

static ssize_t read_text(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct h2_stream *s = source->ptr;
	size_t n = s->text_left.len < cap ? s->text_left.len : cap;

	(void)session;
	(void)id;
	(void)arg;
	memcpy(buf, s->text_left.ptr, n);
	s->text_left = sl_span_skip(s->text_left, n);
	if (!s->text_left.len)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)n;
}

static bool submit_head(struct h2_stream *s, const struct fields *f,
			nghttp2_data_source_read_callback read)
{
	nghttp2_data_provider body = {.source = {.ptr = s}, .read_callback = read};

	if (f->full || nghttp2_submit_response(s->conn->session, s->id, f->nv, f->cnt,
					       read ? &body : NULL) != 0)
		return false;
	s->flags |= ST_HEAD_SENT;
	return true;
}

/* `r`: backend's reply, or NULL. Its content type is kept if gRPC. */
static void add_grpc_start(struct fields *f, const struct h2_stream *s, bool encodings,
			   const struct sl_reply *r)
{
	struct sl_span type = r ? r->content_type : sl_span_of(NULL, 0);
	bool kept = sl_grpc_content_type(type);

	if (kept)
		kept = sl_scan_value(type.ptr, type.ptr, type.ptr + type.len) ==
		       type.ptr + type.len;
	add_start(f, s->conn, 200, r);
	if (kept)
		ADD(f, "content-type", type);
	else
		ADD(f, "content-type", sl_span_str("application/grpc"));
	if (encodings)
		add_identity(f);
}

static bool trailers_only(struct h2_stream *s, const struct sl_reply *r, enum sl_grpc_status status,
			  struct sl_span message)
{
	struct fields *f = s->conn->env->fields;

	/* May concern compression; a backend lists its own encodings. */
	add_grpc_start(f, s, status == SL_GRPC_UNIMPLEMENTED && (!r || r->gateway), r);
	add_status(f, status, message);
	if (r) {
		add_headers(f, r, true, r->headers, r->header_cnt);
		add_headers(f, r, true, r->trailers, r->trailer_cnt);
	}
	return submit_head(s, f, NULL);
}

/* gRPC PROTOCOL-HTTP2.md, Trailers-Only, and HTTP error pages. */
static bool is_trailers_only(const struct sl_reply *r, uint64_t len)
{
	if (r->gateway || (!r->grpc_status && r->status != 200))
		return true;
	return r->grpc_status && !r->header_cnt && len == 0;
}

static bool start_grpc(struct h2_stream *s, const struct sl_reply *r, uint64_t len)
{
	struct fields *f = s->conn->env->fields;

	if (is_trailers_only(r, len))
		return trailers_only(s, r, status_of(r), r->grpc_message);
	add_grpc_start(f, s, false, r);
	add_headers(f, r, true, r->headers, r->header_cnt);
	return submit_head(s, f, read_body);
}

/* RFC 8441 5: a 2xx status switches protocols, so no other reply may use one. */
static bool start_upgraded(struct h2_stream *s, const struct sl_reply *r)
{
	struct fields *f = s->conn->env->fields;

	add_start(f, s->conn, 200, r);
	for (uint32_t i = 0; i < r->header_cnt; i++) {
		if (!sl_span_eq(r->headers[i].name, sl_span_str("sec-websocket-accept")))
			add_headers(f, r, false, &r->headers[i], 1);
	}
	return submit_head(s, f, read_body);
}

static bool start_http(struct h2_stream *s, const struct sl_reply *r, uint64_t len,
		       nghttp2_data_source_read_callback read)
{
	bool bare = r->status == 204 || r->status == 304;
	bool none = bare || s->method == SL_METHOD_HEAD || len == 0;
	struct fields *f = s->conn->env->fields;

	if (r->upgrade.len)
		return start_upgraded(s, r);
	if (r->status < 200 || r->status > 599 || (r->status < 300 && s->flags & ST_CONNECT))
		return false;
	add_start(f, s->conn, r->status, r);
	if (r->content_type.len)
		ADD(f, "content-type", r->content_type);
	if (!bare && len != SL_LEN_UNKNOWN)
		add_u64(f, sl_span_str("content-length"), len);
	if (r->retry_after_s)
		add_u64(f, sl_span_str("retry-after"), r->retry_after_s);
	if (r->allow)
		add_allow(f, r->allow);
	add_headers(f, r, false, r->headers, r->header_cnt);
	return submit_head(s, f, none ? NULL : read);
}

static void reset_stream(struct h2_stream *s, uint32_t code)
{
	nghttp2_submit_rst_stream(s->conn->session, NGHTTP2_FLAG_NONE, s->id, code);
	s->flags |= ST_HEAD_SENT;
}

static bool trailers_ok(const struct h2_stream *s, const struct sl_reply *r, bool grpc)
{
	struct fields *f = s->conn->env->fields;

	start_trailers(f);
	add_headers(f, r, grpc, r->trailers, r->trailer_cnt);
	return !f->full;
}

static bool start_bad_gateway(struct h2_stream *s)
{
	SL_UNINIT struct sl_reply_parts own;

	sl_h2_count(s->conn, SL_FRONT_ERR_BAD_REPLY);
	sl_reply_own(SL_OUTCOME_BACKEND_ERROR, &own);
	return s->flags & ST_GRPC ? start_grpc(s, &own.reply, 0)
				  : start_http(s, &own.reply, 0, NULL);
}

static uint64_t length_of(const struct h2_stream *s, const struct sl_reply *r)
{
	struct sl_piece piece;

	if (r->body_len != SL_LEN_UNKNOWN || r->upgrade.len || s->method == SL_METHOD_HEAD)
		return r->body_len;
	piece = s->conn->front->cb->peek(s->conn->conn, s->st);
	return piece.behind == SL_END ? piece.bytes.len : SL_LEN_UNKNOWN;
}

void sl_h2_continue(struct h2_stream *s)
{
	static uint8_t name[] = ":status", value[] = "100";
	nghttp2_nv nv = {name, value, sizeof(name) - 1, sizeof(value) - 1, 0};

	if (!(s->flags & ST_EXPECT) || s->flags & ST_HEAD_SENT || s->st->refused || s->st->awaits)
		return;
	s->flags &= (uint16_t)~ST_EXPECT;
	nghttp2_submit_headers(s->conn->session, NGHTTP2_FLAG_NONE, s->id, NULL, &nv, 1, NULL);
}

void sl_h2_interim(struct h2_stream *s, const struct sl_reply *r)
{
	struct fields *f = s->conn->env->fields;

	/* gRPC clients ignore interim replies. */
	if (s->flags & (ST_GRPC | ST_HEAD_SENT) || s->conn->out_len)
		return;
	f->cnt = f->used = 0;
	f->full = false;
	add_u64(f, sl_span_str(":status"), r->status);
	add_headers(f, r, false, r->headers, r->header_cnt);
	if (f->full)
		sl_h2_count(s->conn, SL_FRONT_ERR_BAD_REPLY);
	else
		nghttp2_submit_headers(s->conn->session, NGHTTP2_FLAG_NONE, s->id, NULL, f->nv,
				       f->cnt, NULL);
}

static bool is_crowded(struct h2_stream *s)
{
	struct h2_conn *c = s->conn;

	if (!c->out_len || c->budget.used < c->budget.max / 4)
		return false;
	c->flags |= H2_WAITS;
	s->flags |= ST_WAITS;
	return true;
}

void sl_h2_pull(struct h2_stream *s)
{
	SL_UNINIT struct sl_reply_parts parts;
	struct h2_conn *c = s->conn;
	bool grpc = s->flags & ST_GRPC, ok;
	uint64_t len;

	if (s->flags & ST_HEAD_SENT) {
		nghttp2_session_resume_data(c->session, s->id);
		return;
	}
	if (is_crowded(s) || !c->front->cb->head(c->conn, s->st, &parts))
		return;
	len = length_of(s, &parts.reply);
	ok = !parts.reply.trailer_cnt || trailers_ok(s, &parts.reply, grpc);
	if (ok && grpc)
		ok = start_grpc(s, &parts.reply, len);
	else if (ok)
		ok = start_http(s, &parts.reply, len, read_body);
	s->st->started = true;
	s->st->reply_left = len;
	if (len != SL_LEN_UNKNOWN)
		s->flags |= ST_LENGTH;
	if (!ok && !start_bad_gateway(s))
		reset_stream(s, NGHTTP2_INTERNAL_ERROR);
}

bool sl_h2_pull_waiting(struct h2_conn *c)
{
	struct sl_list *l;

	if (c->out_len || !(c->flags & H2_WAITS))
		return false;
	sl_list_for_each (l, &c->streams) {
		struct h2_stream *s = sl_container_of(l, struct h2_stream, link);

		if (!(s->flags & ST_WAITS))
			continue;
		s->flags &= (uint16_t)~ST_WAITS;
		if (s->st)
			sl_h2_pull(s);
		return true;
	}
	c->flags &= (uint16_t)~H2_WAITS;
	return false;
}

void sl_h2_answer(struct h2_stream *s, unsigned http, enum sl_grpc_status grpc, const char *text,
		  struct sl_span request_id)
{
	struct sl_header id = {sl_span_str("x-request-id"), request_id};
	struct sl_reply r = {.status = (uint16_t)http,
			     .gateway = true,
			     .headers = &id,
			     .header_cnt = request_id.len != 0};
	bool ok;
	int n;

	s->flags |= ST_DROP | ST_LOCAL;
	if (s->flags & ST_GRPC) {
		ok = trailers_only(s, &r, grpc, sl_span_cstr(text ? text : sl_status_text(http)));
	} else {
		n = snprintf(s->text, sizeof(s->text), "%u %s%s%s\n", http, sl_status_text(http),
			     text ? ": " : "", text ? text : "");
		s->text_left = sl_span_of(s->text, (size_t)n);
		r.content_type = sl_span_str("text/plain");
		r.retry_after_s = http == 503;
		r.allow = http == 405 ? SL_METHODS_SERVED : 0; /* CONNECT and TRACE */
		ok = start_http(s, &r, s->text_left.len, read_text);
	}
	if (!ok)
		reset_stream(s, NGHTTP2_INTERNAL_ERROR);
}

void sl_h2_refuse(struct h2_stream *s, const struct sl_request *rq, enum sl_front_error error,
		  unsigned http, enum sl_grpc_status grpc, const char *text)
{
	const struct h2_conn *c = s->conn;
	struct sl_span id = {0};

	sl_h2_count(c, error);
	if (c->front->cb->refused)
		id = c->front->cb->refused(c->conn, rq, http, error);
	sl_h2_answer(s, http, grpc, text, id);
}

void sl_h2_cut_off(struct h2_stream *s, enum sl_grpc_status grpc, const char *text)
{
	s->flags |= ST_LOCAL;
	s->cut_off = (uint8_t)grpc;
	s->text_left = sl_span_cstr(text);
	/* A reply that ended but waits is not changed. */
	nghttp2_session_resume_data(s->conn->session, s->id);
}

void sl_h2_call_head(struct h2_stream *s, nghttp2_data_source_read_callback read)
{
	struct fields *f = s->conn->env->fields;

	add_grpc_start(f, s, true, NULL);
	if (!submit_head(s, f, read))
		reset_stream(s, NGHTTP2_INTERNAL_ERROR);
}

bool sl_h2_call_trailers(struct h2_stream *s, enum sl_grpc_status status, const char *text)
{
	struct fields *f = s->conn->env->fields;

	start_trailers(f);
	add_status(f, status, text ? sl_span_cstr(text) : sl_span_of(NULL, 0));
	return submit_trailers(s, f);
}
