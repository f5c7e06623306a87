/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 9113 8. message.c checks fields and trailers; a complete head passes HTTP/1's checks, too. */
#include "base/poison.h"
#include "front/grpc/call.h"
#include "front/h2/conn.h"
#include "front/http1/http1.h"
#include "http/scan.h"

enum { FIELD_HEAD = 4, COOKIE_JOIN = 2 };

void sl_h2_head_begin(struct h2_conn *c, int32_t id)
{
	sl_h2_head_drop(c);
	c->head = (struct h2_head){
		.buf = c->env->head,
		.id = id,
		.rx_ns = c->chunk ? c->chunk->rx_ns : 0,
		.take_ns = c->chunk ? c->chunk->take_ns : 0,
		.since_ns = *c->front->now_ns,
	};
}

void sl_h2_head_drop(struct h2_conn *c)
{
	if (c->head.buf && c->head.pooled)
		sl_front_head_put(c->front, c->head.buf);
	c->head.buf = NULL;
	c->head.since_ns = 0;
	c->head.pooled = false;
}

void sl_h2_head_keep(struct h2_conn *c)
{
	struct h2_head *h = &c->head;
	uint8_t *buf;

	if (!h->buf || h->pooled)
		return;
	buf = sl_front_head_get(c->front, c->conn);
	if (!buf) {
		h->buf = NULL; /* sl_h2_head_end() refuses the request */
		sl_h2_count(c, SL_FRONT_ERR_NO_FRAME);
		return;
	}
	memcpy(buf, h->buf, h->len);
	h->buf = buf;
	h->pooled = true;
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t';
}

struct sl_span sl_h2_trim(struct sl_span value)
{
	while (value.len && is_blank(value.ptr[0]))
		value = sl_span_skip(value, 1);
	while (value.len && is_blank(value.ptr[value.len - 1]))
		value.len--;
	return value;
}

void sl_h2_head_field(struct h2_conn *c, struct sl_span name, struct sl_span text)
{
	struct h2_head *h = &c->head;
	bool cookie = SL_NAME_IS(name, "cookie");
	uint32_t fields = (uint32_t)h->fields + (!cookie || !h->cookie);
	struct sl_span value;
	size_t need;
	uint8_t *p;

	if (!h->buf || h->too_large)
		return;
	value = sl_h2_trim(text);
	need = FIELD_HEAD + name.len + value.len;
	h->blanks |= value.len < text.len;
	if (name.len > UINT16_MAX || value.len > UINT16_MAX ||
	    need > c->env->limits->max_head - h->len || fields > c->env->limits->max_headers + 4 ||
	    fields > SL_HTTP1_HEADERS_MAX) {
		h->too_large = true;
		return;
	}
	p = h->buf + h->len;
	sl_put_le16(p, (uint16_t)name.len);
	sl_put_le16(p + 2, (uint16_t)value.len);
	memcpy(p + FIELD_HEAD, name.ptr, name.len);
	if (value.len)
		memcpy(p + FIELD_HEAD + name.len, value.ptr, value.len);
	h->len += (uint32_t)need;
	h->fields = (uint16_t)fields;
	h->cookie |= cookie;
}

struct parse {
	struct h2_conn *c;
	struct sl_http1_head head;
	struct sl_span path, grpc_timeout, host, protocol;
	uint64_t announced;
	const char *why;
	bool malformed;
	uint8_t *cookie;
	size_t cookie_len;
	struct sl_header *cookie_at;
	struct sl_header metadata[SL_HTTP1_HEADERS_MAX];
};

/* RFC 9113 8.2.3. The buffer fits a whole head. */
static void add_cookie(struct parse *p, struct sl_header *at, struct sl_span value, uint32_t *cnt)
{
	if (!p->cookie_at) {
		p->cookie_at = at;
		*at = (struct sl_header){.name = sl_span_str("cookie"), .value = value};
		(*cnt)++;
		memcpy(p->cookie, value.ptr, value.len);
		p->cookie_len = value.len;
		return;
	}
	memcpy(p->cookie + p->cookie_len, "; ", COOKIE_JOIN);
	memcpy(p->cookie + p->cookie_len + COOKIE_JOIN, value.ptr, value.len);
	p->cookie_len += COOKIE_JOIN + value.len;
	p->cookie_at->value = sl_span_of(p->cookie, p->cookie_len);
}

static bool parse_field(struct parse *p, struct sl_span name, struct sl_span value)
{
	struct sl_request *rq = &p->head.rq;
	struct sl_header *at = &p->head.headers[rq->header_cnt];

	if (name.ptr[0] == ':') {
		if (SL_NAME_IS(name, ":method"))
			rq->method_name = value;
		else if (SL_NAME_IS(name, ":path"))
			p->path = value;
		else if (SL_NAME_IS(name, ":authority"))
			rq->authority = value;
		else if (SL_NAME_IS(name, ":protocol"))
			p->protocol = value;
		return true;
	}
	if (SL_NAME_IS(name, "cookie")) {
		add_cookie(p, at, value, &rq->header_cnt);
		return true;
	}
	if (SL_NAME_IS(name, "grpc-timeout"))
		p->grpc_timeout = value;
	else if (SL_NAME_IS(name, "expect"))
		rq->expect = true;
	else if (SL_NAME_IS(name, "host"))
		p->host = value;
	*at = (struct sl_header){.name = name, .value = value};
	rq->header_cnt++;
	return sl_http1_field(at, &p->head);
}

static struct sl_header read_field(const struct h2_head *h, uint32_t *off)
{
	const uint8_t *at = h->buf + *off;
	uint16_t name = sl_get_le16(at), value = sl_get_le16(at + 2);

	*off += FIELD_HEAD + (uint32_t)name + value;
	return (struct sl_header){.name = sl_span_of(at + FIELD_HEAD, name),
				  .value = sl_span_of(at + FIELD_HEAD + name, value)};
}

static bool read_fields(struct parse *p, const struct h2_head *h)
{
	uint32_t off = 0;

	while (off < h->len) {
		struct sl_header f = read_field(h, &off);

		if (!parse_field(p, f.name, f.value))
			return false;
	}
	return true;
}

static bool decode_binary(struct sl_header *h)
{
	size_t n = sl_base64_decode((uint8_t *)h->value.ptr, h->value);

	if (n == SIZE_MAX)
		return false;
	h->value.len = n;
	return true;
}

static bool grpc_metadata(struct sl_request *rq, struct sl_header *to)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		struct sl_header h = rq->headers[i];
		struct sl_span list = h.value;

		if (sl_grpc_is_reserved(h.name))
			continue;
		if (!sl_grpc_is_binary(h.name)) {
			if (n == SL_HTTP1_HEADERS_MAX)
				return false;
			to[n++] = h;
			continue;
		}
		for (bool more = true; more;) {
			const uint8_t *comma = list.len ? memchr(list.ptr, ',', list.len) : NULL;

			h.value = comma ? sl_span_of(list.ptr, (size_t)(comma - list.ptr)) : list;
			list = sl_span_skip(list, h.value.len + 1);
			more = comma;
			if (n == SL_HTTP1_HEADERS_MAX || !decode_binary(&h))
				return false;
			to[n++] = h;
		}
	}
	rq->headers = to;
	rq->header_cnt = n;
	return true;
}

/* RFC 8441: becomes a GET with Upgrade. */
static bool extended_connect(struct parse *p)
{
	struct sl_request *rq = &p->head.rq;

	if (!p->protocol.len || rq->end)
		return false;
	rq->method = SL_METHOD_GET;
	rq->method_name = sl_span_str("GET");
	rq->upgrade = p->protocol;
	rq->must_upgrade = rq->end = true;
	rq->content_length = SL_LEN_UNKNOWN;
	return true;
}

static bool target_ok(struct parse *p)
{
	const struct sl_front_limits *l = p->c->env->limits;
	struct sl_http1_head *head = &p->head;

	if (head->rq.method == SL_METHOD_CONNECT && !extended_connect(p))
		return sl_http1_refuse(head, 405, SL_FRONT_ERR_METHOD);
	if (p->path.len > l->max_target)
		return sl_http1_refuse(head, 414, SL_FRONT_ERR_TARGET_TOO_LONG);
	for (size_t i = 0; i < p->path.len; i++) {
		if (!sl_http_is(p->path.ptr[i], SL_CT_TARGET))
			return sl_http1_refuse(head, 400, SL_FRONT_ERR_BAD_REQUEST);
	}
	return sl_http1_target(p->path, head);
}

/* RFC 9113 8.3.1 */
static bool authority_ok(struct parse *p)
{
	struct sl_request *rq = &p->head.rq;

	p->why = "host is not :authority";
	if (p->host.len && rq->authority.len && !sl_span_eq_nocase(p->host, rq->authority))
		return sl_http1_refuse(&p->head, 400, SL_FRONT_ERR_BAD_REQUEST);
	if (!rq->authority.len)
		rq->authority = p->host;
	p->why = "malformed :authority";
	return sl_http1_authority_ok(rq->authority) ||
	       sl_http1_refuse(&p->head, 400, SL_FRONT_ERR_BAD_REQUEST);
}

static bool parse_head(struct parse *p, const struct h2_head *h)
{
	struct sl_request *rq = &p->head.rq;
	bool ok;

	if (!h->buf)
		return sl_http1_refuse(&p->head, 503, SL_FRONT_ERR_NO_FRAME);
	ok = read_fields(p, h);
	p->announced = rq->content_length;
	rq->method = (uint8_t)sl_method_parse(rq->method_name);
	p->why = sl_h2_message_fault(h);
	if (!p->why && h->blanks && !sl_grpc_content_type(rq->content_type)) /* RFC 9113 8.2.1 */
		p->why = "blanks around a value";
	if (p->why) {
		p->malformed = true;
		return sl_http1_refuse(&p->head, 400, SL_FRONT_ERR_BAD_REQUEST);
	}
	if (!ok)
		return false;
	if (h->too_large)
		return sl_http1_refuse(&p->head, 431, SL_FRONT_ERR_HEAD_TOO_LARGE);
	if (rq->method_name.len > SL_HTTP1_METHOD_MAX)
		return sl_http1_refuse(&p->head, 501, SL_FRONT_ERR_METHOD);
	return target_ok(p) && authority_ok(p);
}

static bool grpc_ok(struct parse *p, struct h2_stream *s)
{
	struct sl_request *rq = &p->head.rq;
	const char *why = NULL;

	rq->content_length = SL_LEN_UNKNOWN; /* of the frames, not the message */
	rq->body_max = p->c->env->limits->max_message;
	rq->call = sl_span_skip(rq->path, 1);
	rq->all_headers = true;
	if (rq->method != SL_METHOD_POST)
		why = "method is not POST";
	else if (p->grpc_timeout.len && !sl_grpc_timeout(p->grpc_timeout, &rq->timeout_ns))
		why = "malformed grpc-timeout";
	else if (!grpc_metadata(rq, p->metadata))
		why = "malformed or too many metadata";
	rq->end = false; /* a call may have no message */
	if (!why)
		return true;
	sl_h2_refuse(s, rq, SL_FRONT_ERR_GRPC_MESSAGE, 400, SL_GRPC_INTERNAL, why);
	return false;
}

static void begin_request(struct parse *p, struct h2_stream *s)
{
	struct h2_conn *c = p->c;
	struct sl_request *rq = &p->head.rq;
	struct sl_stream *st;

	rq->expect &= !rq->end && !(s->flags & ST_RX_OVER);
	st = c->front->cb->begin(c->conn, rq);

	if (!st) {
		sl_h2_refuse(s, NULL, SL_FRONT_ERR_NO_EXCHANGE, 503, SL_GRPC_RESOURCE_EXHAUSTED,
			     "too many requests under way");
		return;
	}
	st->own = s;
	st->trailers = true;
	st->prefix = s->flags & ST_GRPC ? sl_grpc_prefix : NULL;
	st->prefix_len = s->flags & ST_GRPC ? SL_GRPC_PREFIX : 0;
	st->windowed = !rq->end || st->upgrade;
	s->st = st;
	st->method = rq->method;
	s->deadline_ns = rq->timeout_ns ? *c->front->now_ns + rq->timeout_ns : 0;
	s->flags &= (uint16_t)~ST_LOCAL;
	if ((s->flags & (ST_GRPC | ST_RX_OVER)) == (ST_GRPC | ST_RX_OVER))
		sl_h2_request_over(s);
	s->flags |= rq->expect ? ST_EXPECT : 0;
	sl_h2_continue(s);
}

void sl_h2_trailers(struct h2_conn *c, struct h2_stream *s)
{
	SL_UNINIT struct sl_header fields[SL_HTTP1_HEADERS_MAX];
	const struct h2_head *h = &c->head;
	uint32_t cnt = 0, off = 0;

	if (!h->buf || h->too_large) {
		s->flags |= ST_DROP;
		sl_h2_count(c, h->buf ? SL_FRONT_ERR_HEAD_TOO_LARGE : SL_FRONT_ERR_NO_FRAME);
		nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, s->id,
					  NGHTTP2_ENHANCE_YOUR_CALM);
	} else {
		while (off < h->len) {
			fields[cnt] = read_field(h, &off);
			/* RFC 9110 6.5.1 */
			cnt += !SL_NAME_IS(fields[cnt].name, "cookie");
		}
		c->front->cb->request_trailers(c->conn, s->st, fields, cnt);
	}
	sl_h2_head_drop(c);
}

void sl_h2_malformed(struct h2_stream *s)
{
	if (s->flags & ST_DROP)
		return;
	s->flags |= ST_DROP;
	sl_h2_count(s->conn, SL_FRONT_ERR_BAD_REQUEST);
	nghttp2_submit_rst_stream(s->conn->session, NGHTTP2_FLAG_NONE, s->id,
				  NGHTTP2_PROTOCOL_ERROR);
}

/* nghttp2 reads the priority field (RFC 9218 5) only if it checks heads. */
static void set_priority(const struct parse *p, const struct h2_stream *s)
{
	nghttp2_extpri pri = {.urgency = NGHTTP2_EXTPRI_DEFAULT_URGENCY,
			      .inc = p->head.incremental};

	if (p->head.rq.urgency < 0 && !pri.inc)
		return;
	if (p->head.rq.urgency >= 0)
		pri.urgency = (uint32_t)p->head.rq.urgency;
	nghttp2_session_change_extpri_stream_priority(s->conn->session, s->id, &pri, 0);
}

static void start_stream(struct parse *p, struct h2_stream *s)
{
	struct sl_request *rq = &p->head.rq;
	struct h2_conn *c = p->c;
	enum sl_call_kind kind;
	bool ok = parse_head(p, &c->head);

	s->method = rq->method;
	if (rq->must_upgrade)
		s->flags |= ST_CONNECT;
	if (sl_grpc_content_type(rq->content_type) && !rq->must_upgrade) {
		rq->proto = SL_PROTO_GRPC;
		s->flags |= ST_GRPC;
	}
	if (!ok) {
		s->flags |= p->malformed ? ST_MALFORMED : 0;
		sl_h2_refuse(s, rq, p->head.error, p->head.status,
			     sl_grpc_from_http(p->head.status), p->why);
		return;
	}
	s->body_left = p->announced;
	if ((s->flags & ST_RX_OVER) && s->body_left && s->body_left != SL_LEN_UNKNOWN) {
		s->flags |= ST_MALFORMED;
		sl_h2_refuse(s, rq, SL_FRONT_ERR_BAD_REQUEST, 400, SL_GRPC_INTERNAL,
			     "content-length without a body");
		return;
	}
	set_priority(p, s);
	if ((s->flags & ST_GRPC) && !grpc_ok(p, s))
		return;
	kind = s->flags & ST_GRPC ? sl_call_kind_of(c, rq) : SL_CALL_NONE;
	if (kind)
		sl_call_begin(s, kind);
	else
		begin_request(p, s);
}

void sl_h2_head_end(struct h2_conn *c, struct h2_stream *s, bool end)
{
	uint32_t len = c->head.len, max = c->env->limits->max_head;
	uint8_t *buf = c->head.buf;
	SL_UNINIT struct parse p;

	if (!s) {
		nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, c->head.id,
					  NGHTTP2_REFUSED_STREAM);
		sl_h2_head_drop(c);
		return;
	}
	p.c = c;
	p.path = p.grpc_timeout = p.host = p.protocol = (struct sl_span){0};
	p.cookie = c->env->cookie;
	p.cookie_at = NULL;
	p.why = NULL;
	p.malformed = false;
	p.head.incremental = false;
	p.head.seen = 0;
	p.head.trailers = false;
	p.head.minor = 1;
	p.head.rq = (struct sl_request){
		.proto = SL_PROTO_HTTP2,
		.urgency = -1,
		.end = end,
		.coalesces = true,
		.headers = p.head.headers,
		.content_length = SL_LEN_UNKNOWN,
		.body_max = c->env->limits->max_body,
		.rx_ns = c->head.rx_ns,
		.take_ns = c->head.take_ns,
	};
	if (end)
		s->flags |= ST_RX_OVER;
	if (buf) /* bytes behind must not be read */
		SL_POISON(buf + len, max - len);
	start_stream(&p, s);
	if (buf)
		SL_UNPOISON(buf + len, max - len);
	sl_h2_head_drop(c);
}
