/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/num.h"
#include "front/h2_conn.h"

enum {
	FIELDS_MAX = 112,   /* of a head: the host's 64 and 32, and ours */
	SCRATCH = 16 << 10, /* encoded -bin values and messages of one reply */
	TEXT_MAX = 2048,    /* of grpc-message, encoded */
};

/* Header fields on their way to nghttp2, which copies them. */
struct fields {
	nghttp2_nv nv[FIELDS_MAX];
	size_t cnt;
	char scratch[SCRATCH];
	size_t used;
	bool full;
};

static void add(struct fields *f, struct sl_span name, struct sl_span value)
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
#define ADD(f, lit, value) add((f), sl_span_str(lit), (value))

static void add_u64(struct fields *f, struct sl_span name, uint64_t v)
{
	char *p = f->scratch + f->used;

	if (f->used + SL_U64_DIGITS > SCRATCH) {
		f->full = true;
		return;
	}
	f->used += sl_format_u64(p, v);
	add(f, name, sl_span_of(p, (size_t)(f->scratch + f->used - p)));
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
	add(f, h->name, sl_span_of(p, n));
}

static void add_message(struct fields *f, struct sl_span text)
{
	char *p = f->scratch + f->used;
	size_t room = SCRATCH - f->used, n;

	if (!text.len)
		return;
	n = sl_grpc_percent_encode(p, room < TEXT_MAX ? room : TEXT_MAX, text);
	f->used += n;
	ADD(f, "grpc-message", sl_span_of(p, n));
}

static void add_headers(struct fields *f, const struct sl_reply *r, bool grpc,
			const struct sl_header *h, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		if (sl_reply_is_ours(r, h[i].name) || (grpc && sl_grpc_is_reserved(h[i].name)))
			continue;
		if (grpc && sl_grpc_is_binary(h[i].name))
			add_binary(f, &h[i]);
		else
			add(f, h[i].name, h[i].value);
	}
}

static void add_start(struct fields *f, const struct h2_conn *c, unsigned status)
{
	f->cnt = f->used = 0;
	f->full = false;
	add_u64(f, sl_span_str(":status"), status);
	ADD(f, "server", sl_span_str("sluice"));
	ADD(f, "date", sl_span_of(c->front->date, 29));
}

/* --- bytes of a reply, when nghttp2 asks for them --- */

static void want(struct h2_stream *s)
{
	if (s->st && (s->flags & ST_SHORT) && sl_list_empty(&s->turn))
		sl_list_add_tail(&s->conn->wanting, &s->turn);
}

static size_t take_prefix(struct h2_stream *s, uint8_t *buf, size_t cap)
{
	size_t n = s->prefix_left < cap ? s->prefix_left : cap;

	memcpy(buf, s->prefix + SL_GRPC_PREFIX - s->prefix_left, n);
	s->prefix_left = (uint8_t)(s->prefix_left - n);
	return n;
}

static int end_body(struct h2_stream *s, uint32_t *flags)
{
	struct h2_trailers *t = s->trailers;

	if (s->flags & ST_LENGTH && s->reply_left) /* short of what was promised */
		return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (!t)
		return 0;
	*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
	return nghttp2_submit_trailer(s->conn->session, s->id, t->nv, t->cnt) ? NGHTTP2_ERR_NOMEM
									      : 0;
}

static ssize_t read_body(nghttp2_session *session, int32_t id, uint8_t *buf, size_t cap,
			 uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct h2_stream *s = source->ptr;
	size_t n = 0, part;
	int rc;

	(void)session;
	(void)id;
	(void)arg;
	if (!s->cur.len && !(s->flags & ST_END)) { /* a message's prefix leaves with its bytes */
		want(s);
		return NGHTTP2_ERR_DEFERRED;
	}
	if (s->prefix_left)
		n = take_prefix(s, buf, cap);
	part = cap - n < s->cur.len ? cap - n : s->cur.len;
	if (part) {
		memcpy(buf + n, s->cur.ptr, part);
		s->cur = sl_span_skip(s->cur, part);
		n += part;
		if (s->flags & ST_LENGTH)
			s->reply_left -= part;
	}
	if (!s->prefix_left && !s->cur.len && (s->flags & ST_END)) {
		rc = end_body(s, flags);
		if (rc)
			return rc;
	}
	return (ssize_t)n;
}

/* Offers bytes to nghttp2 and the host; returns how many went. `s` is there until it settles. */
static size_t offer(struct h2_stream *s, struct sl_span body, bool end)
{
	struct h2_conn *c = s->conn;
	size_t taken;

	s->flags &= (uint16_t)~ST_SHORT;
	if (c->flags & H2_BUSY) {
		/* nghttp2 is on the stack: it asks when its turn comes. */
		if (body.len)
			s->flags |= ST_SHORT;
		else if (end)
			s->flags |= ST_END;
		return 0;
	}
	s->cur = body;
	if (end)
		s->flags |= ST_END;
	nghttp2_session_resume_data(c->session, s->id);
	sl_h2_flush(c);
	taken = body.len - s->cur.len;
	if (s->flags & ST_ENDED)
		taken = body.len;
	if (taken < body.len) {
		s->flags &= (uint16_t)~ST_END;
		s->flags |= ST_SHORT;
	}
	s->cur = (struct sl_span){0};
	return taken;
}

/* Bytes of a started reply, cut at the promised length. */
static size_t write_body(struct h2_stream *s, struct sl_span body, bool end)
{
	struct sl_span cut = body;
	size_t taken;

	if (s->flags & (ST_NO_BODY | ST_ENDED)) {
		if (end)
			s->flags |= ST_END;
		return body.len;
	}
	if ((s->flags & ST_LENGTH) && cut.len > s->reply_left)
		cut.len = (size_t)s->reply_left;
	taken = offer(s, cut, end);
	return taken == cut.len ? body.len : taken;
}

/* --- heads and trailers --- */

/* The trailers move to memory of their own: the body may take its time. */
static bool keep_trailers(struct h2_stream *s, const struct fields *f)
{
	struct h2_trailers *t;
	size_t len = sizeof(*t) + f->cnt * sizeof(f->nv[0]);
	uint8_t *p;

	for (size_t i = 0; i < f->cnt; i++)
		len += f->nv[i].namelen + f->nv[i].valuelen;
	t = sl_h2_alloc(&s->conn->budget, len);
	if (!t)
		return false;
	p = (uint8_t *)&t->nv[f->cnt];
	t->cnt = f->cnt;
	for (size_t i = 0; i < f->cnt; i++) {
		t->nv[i] = f->nv[i];
		t->nv[i].name = memcpy(p, f->nv[i].name, f->nv[i].namelen);
		p += f->nv[i].namelen;
		t->nv[i].value = p;
		if (f->nv[i].valuelen)
			memcpy(p, f->nv[i].value, f->nv[i].valuelen);
		p += f->nv[i].valuelen;
	}
	sl_h2_free(&s->conn->budget, s->trailers);
	s->trailers = t;
	return true;
}

static bool submit(struct h2_stream *s, struct fields *f, const nghttp2_data_provider *body)
{
	if (f->full || nghttp2_submit_response(s->conn->session, s->id, f->nv, f->cnt, body) != 0)
		return false;
	s->flags |= ST_HEAD_SENT;
	return true;
}

static bool submit_body(struct h2_stream *s, struct fields *f)
{
	nghttp2_data_provider provider = {.source = {.ptr = s}, .read_callback = read_body};

	return submit(s, f, &provider);
}

static void start_trailers(struct fields *f)
{
	f->cnt = f->used = 0;
	f->full = false;
}

static void add_status(struct fields *f, enum sl_grpc_status status, struct sl_span message)
{
	add_u64(f, sl_span_str("grpc-status"), status);
	add_message(f, message);
}

/* A reply that is a status and nothing else: one HEADERS frame. */
static bool trailers_only(struct h2_stream *s, const struct sl_reply *r, enum sl_grpc_status status,
			  struct sl_span message)
{
	struct fields f;

	add_start(&f, s->conn, 200);
	ADD(&f, "content-type", sl_span_str("application/grpc"));
	if (status == SL_GRPC_UNIMPLEMENTED)
		ADD(&f, "grpc-accept-encoding", sl_span_str("identity"));
	add_status(&f, status, message);
	if (r) {
		add_headers(&f, r, true, r->headers, r->header_cnt);
		add_headers(&f, r, true, r->trailers, r->trailer_cnt);
	}
	s->flags |= ST_NO_BODY;
	return submit(s, &f, NULL);
}

static enum sl_grpc_status status_of(const struct sl_reply *r)
{
	if (r->grpc_status || r->status == 200)
		return r->grpc_status;
	return sl_grpc_from_http(r->status);
}

static bool start_grpc(struct h2_stream *s, const struct sl_reply *r)
{
	enum sl_grpc_status status = status_of(r);
	uint64_t len = r->body_len == SL_LEN_UNKNOWN && r->end ? r->body.len : r->body_len;
	struct fields f;

	if (r->gateway || status)
		return trailers_only(s, r, status, r->grpc_message);
	add_start(&f, s->conn, 200);
	ADD(&f, "content-type", sl_span_str("application/grpc"));
	ADD(&f, "grpc-accept-encoding", sl_span_str("identity"));
	add_headers(&f, r, true, r->headers, r->header_cnt);
	if (!submit_body(s, &f))
		return false;
	start_trailers(&f);
	add_status(&f, status, r->grpc_message);
	add_headers(&f, r, true, r->trailers, r->trailer_cnt);
	if (f.full || !keep_trailers(s, &f))
		return false;
	if (len != SL_LEN_UNKNOWN) {
		sl_grpc_put_prefix(s->prefix, (uint32_t)len);
		s->prefix_left = SL_GRPC_PREFIX;
		s->reply_left = len;
		s->flags |= ST_LENGTH;
	}
	return true;
}

static bool start_http(struct h2_stream *s, const struct sl_reply *r)
{
	uint64_t len = r->body_len == SL_LEN_UNKNOWN && r->end ? r->body.len : r->body_len;
	bool bare = r->status == 204 || r->status == 304;
	bool none = bare || s->method == SL_METHOD_HEAD || len == 0;
	struct fields f;

	if (r->status < 200 || r->status > 599)
		return false;
	add_start(&f, s->conn, r->status);
	if (r->content_type.len)
		ADD(&f, "content-type", r->content_type);
	if (!bare && len != SL_LEN_UNKNOWN)
		add_u64(&f, sl_span_str("content-length"), len);
	if (r->retry_after_s)
		add_u64(&f, sl_span_str("retry-after"), r->retry_after_s);
	add_headers(&f, r, false, r->headers, r->header_cnt);
	if (r->trailer_cnt && !none) {
		struct fields t;

		start_trailers(&t);
		add_headers(&t, r, false, r->trailers, r->trailer_cnt);
		if (t.cnt && !keep_trailers(s, &t))
			return false;
	}
	if (none)
		s->flags |= ST_NO_BODY;
	else if (len != SL_LEN_UNKNOWN)
		s->flags |= ST_LENGTH;
	s->reply_left = none || len == SL_LEN_UNKNOWN ? 0 : len;
	return none ? submit(s, &f, NULL) : submit_body(s, &f);
}

static void reset(struct h2_stream *s, uint32_t code)
{
	nghttp2_submit_rst_stream(s->conn->session, NGHTTP2_FLAG_NONE, s->id, code);
	s->flags |= ST_HEAD_SENT | ST_NO_BODY;
}

void sl_h2_answer(struct h2_stream *s, unsigned http, enum sl_grpc_status grpc, const char *text)
{
	struct sl_reply r = {.status = (uint16_t)http, .end = true, .gateway = true};
	bool ok;
	int n;

	s->flags |= ST_DROP | ST_LOCAL;
	if (s->flags & ST_GRPC) {
		ok = trailers_only(s, NULL, grpc, sl_span_cstr(text ? text : sl_status_text(http)));
	} else {
		n = snprintf(s->text, sizeof(s->text), "%u %s\n", http, sl_status_text(http));
		r.content_type = sl_span_str("text/plain");
		r.body_len = (uint64_t)n;
		r.retry_after_s = http == 503;
		s->cur = sl_span_of(s->text, (size_t)n);
		s->flags |= ST_END;
		ok = start_http(s, &r);
	}
	if (!ok)
		reset(s, NGHTTP2_INTERNAL_ERROR);
}

void sl_h2_call_head(struct h2_stream *s, nghttp2_data_source_read_callback read)
{
	nghttp2_data_provider provider = {.source = {.ptr = s}, .read_callback = read};
	struct fields f;

	add_start(&f, s->conn, 200);
	ADD(&f, "content-type", sl_span_str("application/grpc"));
	ADD(&f, "grpc-accept-encoding", sl_span_str("identity"));
	if (!submit(s, &f, &provider))
		reset(s, NGHTTP2_INTERNAL_ERROR);
}

bool sl_h2_call_trailers(struct h2_stream *s, enum sl_grpc_status status, const char *text)
{
	struct fields f;

	start_trailers(&f);
	add_status(&f, status, text ? sl_span_cstr(text) : sl_span_of(NULL, 0));
	return nghttp2_submit_trailer(s->conn->session, s->id, f.nv, f.cnt) == 0;
}

int64_t sl_h2_reply(void *state, const struct sl_front_env *env, struct sl_stream *st,
		    const struct sl_reply *r)
{
	struct h2_conn *c = sl_h2_conn(state);
	struct h2_stream *s;
	bool ok;
	size_t n;

	(void)env;
	sl_h2_adopt(c, st);
	s = sl_h2_of(st);
	ok = s->flags & ST_GRPC ? start_grpc(s, r) : start_http(s, r);
	if (!ok) {
		sl_h2_count(c, SL_FRONT_ERR_BAD_REPLY);
		reset(s, NGHTTP2_INTERNAL_ERROR);
	}
	n = write_body(s, r->body, r->end);
	sl_h2_flush(c);
	sl_h2_settle(c);
	return (int64_t)n;
}

size_t sl_h2_more(void *state, const struct sl_front_env *env, struct sl_stream *st,
		  struct sl_span body, bool end)
{
	struct h2_conn *c = sl_h2_conn(state);
	size_t n = write_body(sl_h2_of(st), body, end);

	(void)env;
	sl_h2_settle(c);
	return n;
}

void sl_h2_trailers(void *state, const struct sl_front_env *env, struct sl_stream *st,
		    const struct sl_reply *r)
{
	struct h2_conn *c = sl_h2_conn(state);
	struct h2_stream *s = sl_h2_of(st);
	struct fields f;

	(void)env;
	if (s->flags & (ST_ENDED | ST_NO_BODY))
		return;
	start_trailers(&f);
	if (s->flags & ST_GRPC)
		add_status(&f, status_of(r), r->grpc_message);
	if (r->gateway)
		s->flags |= ST_WHY;
	add_headers(&f, r, s->flags & ST_GRPC, r->trailers, r->trailer_cnt);
	if (!f.cnt || (!f.full && keep_trailers(s, &f)))
		return;
	sl_h2_count(c, SL_FRONT_ERR_BAD_REPLY);
	reset(s, NGHTTP2_INTERNAL_ERROR);
	sl_h2_flush(c);
	sl_h2_settle(c);
}

void sl_h2_abort(void *state, const struct sl_front_env *env, struct sl_stream *st)
{
	static const struct sl_span text = SL_SPAN_LIT("the backend went away");
	struct h2_conn *c = sl_h2_conn(state);
	struct h2_stream *s = sl_h2_of(st);
	struct sl_reply r = {.status = 502, .end = true, .gateway = true};
	struct fields f;
	bool ok = false;

	(void)env;
	if (!(s->flags & ST_HEAD_SENT)) {
		r.body_len = 0;
		ok = s->flags & ST_GRPC ? trailers_only(s, NULL, SL_GRPC_UNAVAILABLE, text)
					: start_http(s, &r);
	} else if ((s->flags & ST_GRPC) && s->trailers) {
		start_trailers(&f);
		add_status(&f, SL_GRPC_UNAVAILABLE, text);
		s->flags &= (uint16_t)~ST_LENGTH;
		s->flags |= ST_END;
		s->prefix_left = 0;
		ok = (s->flags & ST_WHY) || keep_trailers(s, &f);
		nghttp2_session_resume_data(c->session, s->id);
	}
	if (!ok)
		reset(s, NGHTTP2_INTERNAL_ERROR);
	sl_h2_flush(c);
	sl_h2_settle(c);
}
