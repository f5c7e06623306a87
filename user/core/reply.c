/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "front/grpc.h"

/* What the gateway says itself, per outcome: HTTP (RFC 9110) and gRPC status, and a text. */
static const struct {
	uint16_t http, grpc;
	uint8_t retry_after_s;
	const char *text;
} own_replies[SL_OUTCOME_CNT] = {
	[SL_OUTCOME_OK] = {500, 13, 0, "internal error"},
	[SL_OUTCOME_NO_ROUTE] = {404, 12, 0, "no route matches this path"},
	[SL_OUTCOME_METHOD] = {405, 12, 0, "method not allowed on this path"},
	[SL_OUTCOME_TOO_LARGE] = {413, 8, 0, "request body too large"},
	[SL_OUTCOME_SHED] = {503, 8, 1, "overloaded: the deadline cannot be met"},
	[SL_OUTCOME_QUEUE_FULL] = {503, 8, 1, "overloaded: queue full"},
	[SL_OUTCOME_FAIR_SHARE] = {429, 8, 1, "too many requests from this client"},
	[SL_OUTCOME_NO_BACKEND] = {503, 14, 1, "no backend available"},
	[SL_OUTCOME_NO_MEMORY] = {503, 8, 1, "out of buffers"},
	[SL_OUTCOME_EXPIRED] = {504, 4, 0, "deadline exceeded"},
	[SL_OUTCOME_BACKEND_LOST] = {502, 14, 0, "backend went away"},
	[SL_OUTCOME_BACKEND_ERROR] = {502, 13, 0, "backend error"},
	[SL_OUTCOME_REQUEST_TIMEOUT] = {408, 4, 0, "request body did not arrive in time"},
};

static bool clean_name(struct sl_span s)
{
	if (!s.len)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		uint8_t c = s.ptr[i];

		if (c <= ' ' || c >= 0x7f || c == ':' || (c >= 'A' && c <= 'Z'))
			return false;
	}
	return true;
}

/* Neither may end a header line, nor smuggle one in. */
static bool clean_value(struct sl_span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (s.ptr[i] == '\r' || s.ptr[i] == '\n' || s.ptr[i] == 0)
			return false;
	}
	return true;
}

static bool decode_header(struct sl_span v, struct sl_header *h, bool check_value)
{
	if (v.len < 1 || v.len < 1u + v.ptr[0])
		return false;
	h->name = sl_span_of(v.ptr + 1, v.ptr[0]);
	h->value = sl_span_skip(v, 1u + v.ptr[0]);
	return clean_name(h->name) && (!check_value || clean_value(h->value));
}

/* gRPC's -bin values are raw bytes: the front encodes them, so they need no check. */
static bool is_binary(struct sl_span v)
{
	size_t len = v.len ? v.ptr[0] : 0;

	return len >= 4 && v.len > len && memcmp(v.ptr + 1 + len - 4, "-bin", 4) == 0;
}

static bool decode_field(uint16_t tag, struct sl_span v, struct sl_reply_parts *out)
{
	struct sl_reply *r = &out->reply;

	switch (tag) {
	case SL_META_STATUS:
		r->status = v.len == 2 ? sl_get_le16(v.ptr) : 0;
		return r->status >= 200 && r->status <= 599;
	case SL_META_GRPC_STATUS:
		if (v.len != 2)
			return false;
		r->grpc_status = sl_get_le16(v.ptr);
		return true;
	case SL_META_GRPC_MESSAGE: r->grpc_message = v; return true;
	case SL_META_CONTENT_TYPE: r->content_type = v; return clean_value(v);
	case SL_META_HEADER:
		return r->header_cnt < SL_ARRAY_LEN(out->headers) &&
		       decode_header(v, &out->headers[r->header_cnt++], !is_binary(v));
	case SL_META_TRAILER:
		return r->trailer_cnt < SL_ARRAY_LEN(out->trailers) &&
		       decode_header(v, &out->trailers[r->trailer_cnt++], !is_binary(v));
	default: return true;
	}
}

bool sl_reply_decode(struct sl_span meta, struct sl_reply_parts *out)
{
	out->reply = (struct sl_reply){.status = 200};
	out->reply.headers = out->headers;
	out->reply.trailers = out->trailers;
	while (meta.len) {
		uint16_t tag, len;

		if (meta.len < 4)
			return false;
		tag = sl_get_le16(meta.ptr);
		len = sl_get_le16(meta.ptr + 2);
		if (meta.len < 4u + len || !decode_field(tag, sl_span_of(meta.ptr + 4, len), out))
			return false;
		meta = sl_span_skip(meta, 4u + len);
	}
	return true;
}

/* RFC 9110 15.5.6: a 405 names what is allowed. The text lies in the core's scratch. */
static void add_allow(const struct sl_exchange *x, struct sl_reply_parts *p)
{
	char *text = (char *)x->core->meta_buf;
	size_t len = 0;

	for (unsigned m = SL_METHOD_GET; m < SL_METHOD_CNT; m++) {
		if (!(x->route->prefix_methods & 1u << m))
			continue;
		len += (size_t)snprintf(text + len, SL_RPC_MAX_META - len, "%s%s", len ? ", " : "",
					sl_method_name(m));
	}
	p->headers[0] = (struct sl_header){sl_span_str("allow"), sl_span_of(text, len)};
	p->reply.headers = p->headers;
	p->reply.header_cnt = 1;
}

static void own_reply(const struct sl_exchange *x, struct sl_reply_parts *p)
{
	const struct sl_cfg_route *route = x->route;
	struct sl_reply *r = &p->reply;

	*r = (struct sl_reply){.end = true, .gateway = true};
	if (x->outcome == SL_OUTCOME_FIXED) {
		r->status = route->reply_status;
		r->body = sl_span_of(route->reply_body, route->reply_body_len);
		r->content_type =
			sl_span_cstr(route->reply_type ? route->reply_type : "text/plain");
		r->grpc_status = 12; /* a fixed reply is no message */
	} else {
		r->status = own_replies[x->outcome].http;
		r->grpc_status = own_replies[x->outcome].grpc;
		r->retry_after_s = own_replies[x->outcome].retry_after_s;
		r->grpc_message = sl_span_cstr(own_replies[x->outcome].text);
		r->content_type = sl_span_str("text/plain");
		r->body = r->grpc_message;
	}
	r->body_len = r->body.len;
	if (x->outcome == SL_OUTCOME_METHOD)
		add_allow(x, p);
}

/* Gives a reply to whoever waits for it. As sl_front_ops.reply; `x` may be over afterwards. */
static int64_t give(struct sl_exchange *x, struct sl_reply *r)
{
	const struct sl_front_ops *front;
	void *state;
	int64_t n;

	if (x->dgram)
		return sl_dgram_reply(x, r) ? (int64_t)r->body.len : -EAGAIN;
	front = sl_client_front(x->client, &state);
	n = front->reply(state, &x->core->env, &x->stream, r);
	if (n < 0)
		return n;
	x->reply_started = true;
	x->end_sent = r->end && (size_t)n == r->body.len;
	return n;
}

/* The stored metadata block as contiguous bytes. */
static struct sl_span stored_meta(struct sl_exchange *x)
{
	struct sl_umem *u = x->core->net->umem;
	uint32_t got = 0;

	while (got < x->reply_meta_len) {
		struct sl_span s = sl_span_first(sl_store_peek(&x->reply), x->reply_meta_len - got);

		memcpy(x->core->meta_buf + got, s.ptr, s.len);
		got += (uint32_t)s.len;
		sl_store_skip(&x->reply, u, s.len);
	}
	return sl_span_of(x->core->meta_buf, got);
}

/* Puts a block back in front of what is stored: it was not this stream's turn after all. */
static void put_back_meta(struct sl_exchange *x, struct sl_span meta)
{
	struct sl_umem *u = x->core->net->umem;
	struct sl_store s = {0};

	if (sl_store_copy(&s, u, meta.ptr, meta.len) != meta.len) {
		sl_store_free(&s, u);
		sl_reply_broken(x, SL_OUTCOME_NO_MEMORY);
		return;
	}
	s.tail->next = x->reply.head;
	if (x->reply.off) { /* what was skipped of the old head must not come back */
		x->reply.head->data += x->reply.off;
		x->reply.head->len = (uint16_t)(x->reply.head->len - x->reply.off);
	}
	x->reply.head = s.head;
	if (!x->reply.tail)
		x->reply.tail = s.tail;
	x->reply.len += s.len;
	x->reply.frames += s.frames;
	x->reply.off = 0;
}

/* Starts a reply that was kept. False: not its turn, or over. */
static bool start_stored(struct sl_exchange *x)
{
	struct sl_reply_parts parts;
	struct sl_span meta = {0};
	int64_t n;

	if (x->outcome != SL_OUTCOME_OK) {
		own_reply(x, &parts);
		n = give(x, &parts.reply);
		/* The gateway's texts are kept by it: what was not taken is stored as bytes. */
		if (n >= 0 && (size_t)n < parts.reply.body.len)
			sl_store_copy(&x->reply, x->core->net->umem, parts.reply.body.ptr + n,
				      parts.reply.body.len - (size_t)n);
		return n >= 0;
	}
	meta = stored_meta(x);
	sl_reply_decode(meta, &parts); /* checked when it was stored */
	parts.reply.body = sl_store_peek(&x->reply);
	parts.reply.body_len = x->reply_total;
	parts.reply.end = x->reply_complete && parts.reply.body.len == x->reply.len;
	n = give(x, &parts.reply);
	if (n < 0) {
		put_back_meta(x, meta);
		return false;
	}
	x->reply_meta_len = 0;
	sl_store_skip(&x->reply, x->core->net->umem, (size_t)n);
	return true;
}

void sl_reply_push(struct sl_exchange *x)
{
	struct sl_client *cl = x->client;
	const struct sl_front_ops *front;
	void *state;

	if (x->state != SL_EX_REPLYING && !x->reply_pending)
		return;
	sl_exchange_enter(x);
	if (!x->reply_started && !start_stored(x)) {
		sl_exchange_leave(x);
		return;
	}
	front = cl ? sl_client_front(cl, &state) : NULL;
	while (front && !x->over && !x->end_sent) {
		struct sl_span s = sl_store_peek(&x->reply);
		bool end = x->reply_complete && s.len == x->reply.len;
		size_t n;

		if (!s.len && !end)
			break;
		n = front->more(state, &x->core->env, &x->stream, s, end);
		x->end_sent = end && n == s.len;
		sl_store_skip(&x->reply, x->core->net->umem, n);
		if (n < s.len)
			break;
	}
	x->reply_pending = x->reply.len > 0 || (x->reply_complete && !x->end_sent);
	sl_exchange_leave(x);
	if (cl)
		sl_client_progress(cl);
}

/* Keeps bytes that the front cannot take now. */
static void keep(struct sl_exchange *x, struct sl_span bytes)
{
	if (sl_store_copy(&x->reply, x->core->net->umem, bytes.ptr, bytes.len) != bytes.len)
		sl_reply_broken(x, SL_OUTCOME_NO_MEMORY);
	else
		x->reply_pending = true;
}

/* Bytes of a started reply: to the front, or kept behind what it has not taken. */
static void pass(struct sl_exchange *x, struct sl_span bytes, bool end)
{
	const struct sl_front_ops *front;
	void *state;
	size_t n = 0;

	if (x->over || (!bytes.len && !end))
		return;
	if (x->reply_started && !x->reply.len && x->client) {
		front = sl_client_front(x->client, &state);
		n = front->more(state, &x->core->env, &x->stream, bytes, end);
		if (x->over)
			return;
		x->end_sent = end && n == bytes.len;
	}
	if (n < bytes.len || (end && !x->end_sent)) {
		keep(x, sl_span_skip(bytes, n));
		x->reply_pending = true;
	}
}

/* gRPC: each message of a streamed reply has its prefix; that of a single one is the front's. */
static void pass_part(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	bool streamed = x->stream.proto == SL_PROTO_GRPC && x->reply_total == SL_LEN_UNKNOWN;
	uint8_t prefix[SL_GRPC_PREFIX];

	if (streamed && r->no_message) {
		pass(x, sl_span_of(NULL, 0), x->reply_complete);
		return;
	}
	if (streamed && r->first) {
		sl_grpc_put_prefix(prefix, (uint32_t)r->total_len);
		pass(x, sl_span_of(prefix, sizeof(prefix)), false);
	}
	pass(x, r->body, x->reply_complete);
}

static void first_part(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	struct sl_reply_parts parts;
	bool streamed = x->stream.proto == SL_PROTO_GRPC && (r->more || r->no_message);
	int64_t n;

	x->state = SL_EX_REPLYING;
	if (!sl_reply_decode(r->meta, &parts)) {
		sl_exchange_fail(x, SL_OUTCOME_BACKEND_ERROR);
		return;
	}
	x->reply_total = r->more || streamed ? SL_LEN_UNKNOWN : r->total_len;
	parts.reply.body = streamed ? sl_span_of(NULL, 0) : r->body;
	parts.reply.body_len = x->reply_total;
	parts.reply.end = x->reply_complete && !streamed;
	if (streamed && r->more) { /* how it ends is for the last part to say */
		parts.reply.grpc_status = 0;
		parts.reply.trailer_cnt = 0;
	}
	n = give(x, &parts.reply);
	if (x->over)
		return;
	if (streamed) {
		pass_part(x, r);
	} else if (n < 0) {
		x->reply_meta_len = (uint32_t)r->meta.len;
		keep(x, r->meta);
		keep(x, r->body);
		x->reply_pending = true;
	} else if ((size_t)n < r->body.len) {
		keep(x, sl_span_skip(r->body, (size_t)n));
	}
}

/* The last of several parts begins. False: the reply is over. */
static bool last_part(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	const struct sl_front_ops *front;
	struct sl_reply_parts parts;
	void *state;

	if (!x->client || !x->reply_started)
		return true;
	front = sl_client_front(x->client, &state);
	if (!front->trailers)
		return true;
	if (!sl_reply_decode(r->meta, &parts)) {
		sl_exchange_fail(x, SL_OUTCOME_BACKEND_ERROR);
		return false;
	}
	front->trailers(state, &x->core->env, &x->stream, &parts.reply);
	return !x->over;
}

void sl_reply_from_backend(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	struct sl_client *cl = x->client;

	sl_exchange_enter(x);
	/* Once the backend has answered there is nothing left to repeat. */
	if (x->request.len)
		sl_service_release(x);
	if (r->last && !r->more)
		x->reply_complete = true;
	if (!x->reply_started && !x->reply_pending)
		first_part(x, r);
	else if (!r->first || r->more || last_part(x, r))
		pass_part(x, r);
	if (x->dgram && x->reply_complete)
		sl_exchange_resume(x);
	sl_exchange_leave(x);
	if (cl)
		sl_client_progress(cl);
}

void sl_reply_broken(struct sl_exchange *x, enum sl_outcome why)
{
	struct sl_reply r = {
		.status = own_replies[why].http,
		.grpc_status = own_replies[why].grpc,
		.grpc_message = sl_span_cstr(own_replies[why].text),
		.gateway = true,
	};
	const struct sl_front_ops *front;
	bool inside = x->busy;
	void *state;

	if (x->dgram) { /* nothing of it has been told yet */
		sl_exchange_fail(x, why);
		return;
	}
	x->outcome = (uint8_t)why;
	sl_service_forget(x);
	x->state = SL_EX_REPLYING;
	if (!x->client)
		return;
	front = sl_client_front(x->client, &state);
	sl_exchange_enter(x);
	if (front->trailers && x->reply_started)
		front->trailers(state, &x->core->env, &x->stream, &r);
	if (!x->over)
		front->abort(state, &x->core->env, &x->stream);
	if (!inside)
		sl_exchange_leave(x);
}
