/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/request.h"

#include <string.h>

#include "origin/hop_by_hop.h"
#include "base/check.h"
#include "base/tlv.h"
#include "front/grpc/grpc.h"
#include "front/http1/http1.h"
#include "http/scan.h"
#include "front/trusted_headers.h"
#include "sluice/backend.h"
#include "wire/rpc_wire.h"

enum { TRACE_LEN = 55 };

struct request_builder {
	struct origin_request *out;
	const struct sl_request_view *rq;
	struct origin_options options;
	struct sl_span via;
	struct sl_span trace;
	bool wrong;
};

static void add_field(struct request_builder *m, struct sl_span name, struct sl_span value)
{
	struct origin_request *o = m->out;

	if (o->cnt == ORIGIN_REQUEST_FIELDS) {
		m->wrong = true;
		return;
	}
	o->fields[o->cnt++] = (struct sl_header){name, value};
}

static char *alloc_scratch(struct request_builder *m, size_t len)
{
	struct origin_request *o = m->out;
	char *at = o->scratch + o->used;

	if (len > sizeof(o->scratch) - o->used) {
		m->wrong = true;
		return NULL;
	}
	o->used += len;
	return at;
}

static struct sl_span join_spans(struct request_builder *m, struct sl_span a, struct sl_span b)
{
	char *at = alloc_scratch(m, a.len + b.len);

	if (!at)
		return sl_span_of(NULL, 0);
	if (a.len)
		memcpy(at, a.ptr, a.len);
	if (b.len)
		memcpy(at + a.len, b.ptr, b.len);
	return sl_span_of(at, a.len + b.len);
}

static struct sl_span join_values(struct request_builder *m, struct sl_span list,
				  struct sl_span more)
{
	return list.len ? join_spans(m, join_spans(m, list, sl_span_str(", ")), more) : more;
}

static bool is_clean(const struct sl_header *h)
{
	const uint8_t *n = h->name.ptr, *v = h->value.ptr;

	return h->name.len && sl_scan_token(n, n, n + h->name.len) == n + h->name.len &&
	       (!h->value.len || sl_scan_value(v, v, v + h->value.len) == v + h->value.len);
}

static bool is_traceparent(struct sl_span v)
{
	bool trace = false, parent = false;

	if (v.len < TRACE_LEN || memcmp(v.ptr, "ff", 2) == 0 ||
	    (v.len > TRACE_LEN && (memcmp(v.ptr, "00", 2) == 0 || v.ptr[TRACE_LEN] != '-')))
		return false;
	for (size_t i = 0; i < TRACE_LEN; i++) {
		uint8_t c = v.ptr[i];
		bool dash = i == 2 || i == 35 || i == 52;

		if (dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
		trace |= i > 2 && i < 35 && c != '0';
		parent |= i > 35 && i < 52 && c != '0';
	}
	return trace && parent;
}

/*
 * Hop-by-hop, framing and rewritten fields. A client's Connection cannot remove fields that the
 * gateway adds.
 */
static bool is_of_this_hop(const struct request_builder *m, struct sl_span name)
{
	static const struct sl_span ours[] = {
		SL_SPAN_LIT("http2-settings"),
		SL_SPAN_LIT("expect"),
		SL_SPAN_LIT("host"),
		SL_SPAN_LIT("proxy-authorization"),
	};

	if (origin_is_hop_by_hop(name) || origin_is_one_of(name, ours, SL_ARRAY_LEN(ours)))
		return true;
	/* tracestate is valid only with a traceparent. */
	if (sl_span_eq(name, sl_span_str("traceparent")) ||
	    (!m->trace.len && sl_span_eq(name, sl_span_str("tracestate"))))
		return true;
	return origin_is_one_of(name, m->options.at, m->options.cnt);
}

static bool header_of(struct sl_span field, struct sl_header *h)
{
	if (!field.len || field.len < 1u + field.ptr[0])
		return false;
	h->name = sl_span_of(field.ptr + 1, field.ptr[0]);
	h->value = sl_span_skip(field, 1u + field.ptr[0]);
	return true;
}

static struct sl_span trim_span(struct sl_span s)
{
	while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
		s = sl_span_skip(s, 1);
	while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
		s.len--;
	return s;
}

static void look_ahead(struct request_builder *m)
{
	struct sl_span rest = sl_span_of(m->rq->meta, m->rq->meta_len), v;
	struct sl_header h;
	uint16_t tag;

	while (sl_tlv_next(&rest, &tag, &v)) {
		if (tag == SL_META_AUTHORITY)
			m->out->authority = v;
		if (tag != SL_META_HEADER || !header_of(v, &h))
			continue;
		if (sl_span_eq(h.name, sl_span_str("connection")))
			m->wrong |= !origin_options_note(&m->options, h.value);
		else if (sl_span_eq(h.name, sl_span_str("traceparent")) && is_traceparent(h.value))
			m->trace = h.value;
		else if (sl_span_eq(h.name, sl_span_str("upgrade")))
			m->out->upgrade = trim_span(h.value);
	}
}

static void take_fields(struct request_builder *m)
{
	struct origin_request *o = m->out;
	struct sl_span rest = sl_span_of(m->rq->meta, m->rq->meta_len), v;
	struct sl_header h;
	uint16_t tag;

	while (sl_tlv_next(&rest, &tag, &v) && !m->wrong) {
		char *at = o->scratch + o->used;

		if (tag != SL_META_HEADER)
			continue;
		if (!header_of(v, &h)) {
			m->wrong = true;
			return;
		}
		/* The gateway carries -bin values as raw bytes. */
		if (m->rq->protocol == SL_PROTO_GRPC && sl_grpc_is_binary(h.name)) {
			if ((h.value.len * 4 + 2) / 3 > sizeof(o->scratch) - o->used) {
				m->wrong = true;
				return;
			}
			h.value = sl_span_of(at, sl_base64_encode(at, h.value));
			o->used += h.value.len;
		}
		if (!is_clean(&h))
			m->wrong = true;
		else if (sl_span_eq(h.name, sl_span_str("via")))
			m->via = join_values(m, m->via, h.value);
		else if (sl_trusted_header_is(h.name) || !is_of_this_hop(m, h.name))
			add_field(m, h.name, h.value);
	}
}

static bool is_target(struct sl_span s)
{
	return !s.len || sl_scan_target(s.ptr, s.ptr, s.ptr + s.len) == s.ptr + s.len;
}

static bool take_line(struct request_builder *m)
{
	const struct sl_request_view *rq = m->rq;
	struct origin_request *o = m->out;

	o->method = rq->method_len ? sl_span_of(rq->method, rq->method_len) : sl_span_str("POST");
	o->path = sl_span_of(rq->path, rq->path_len);
	o->query = sl_span_of(rq->query, rq->query_len);
	if (!is_target(o->path) || !is_target(o->query) || o->method.len > SL_HTTP1_METHOD_MAX ||
	    sl_scan_table(o->method.ptr, o->method.ptr + o->method.len, SL_CT_TOKEN) !=
		    o->method.ptr + o->method.len)
		return false;
	if (sl_span_eq(o->path, sl_span_str("*")))
		return sl_span_eq(o->method, sl_span_str("OPTIONS"));
	/* A stripped prefix may leave no path. */
	if (!o->path.len || o->path.ptr[0] != '/')
		o->path = join_spans(m, sl_span_str("/"), o->path);
	return true;
}

static struct sl_span new_trace(struct request_builder *m, const uint8_t ids[24])
{
	static const char digits[] = "0123456789abcdef";
	char text[TRACE_LEN], *to = text + 3;

	memcpy(text, "00-", 3);
	for (unsigned i = 0; i < 24; i++) {
		if (i == 16)
			*to++ = '-';
		*to++ = digits[ids[i] >> 4];
		*to++ = digits[ids[i] & 15];
	}
	memcpy(to, "-00", 3);
	return join_spans(m, sl_span_of(text, sizeof(text)), sl_span_of(NULL, 0));
}

bool origin_request_make(struct origin_request *out, const struct sl_request_view *rq,
			 const struct origin_authority *own, const uint8_t trace[24])
{
	struct request_builder m = {.out = out, .rq = rq};
	struct sl_span via;

	out->cnt = 0;
	out->used = 0;
	out->authority = out->upgrade = sl_span_of(NULL, 0);
	look_ahead(&m);
	if (!take_line(&m))
		return false;
	if (own->always || !out->authority.len || !sl_http1_authority_ok(out->authority))
		out->authority = sl_span_cstr(own->text);
	take_fields(&m);
	via = rq->protocol == SL_PROTO_HTTP1 ? sl_span_str("1.1 sluice") : sl_span_str("2 sluice");
	add_field(&m, sl_span_str("via"), join_values(&m, m.via, via));
	add_field(&m, sl_span_str("traceparent"), m.trace.len ? m.trace : new_trace(&m, trace));
	return !m.wrong;
}

bool origin_trailer_next(struct sl_span *rest, struct sl_header *out)
{
	struct sl_span v;
	uint16_t tag;

	while (sl_tlv_next(rest, &tag, &v)) {
		if (tag == SL_META_TRAILER && header_of(v, out) && is_clean(out) &&
		    !origin_is_hop_by_hop(out->name))
			return true;
	}
	return false;
}
