/* SPDX-License-Identifier: Apache-2.0 */
#include "core/trace.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/rand.h"
#include "base/tlv.h"
#include "core/rules.h"
#include "front/codes.h"
#include "front/trusted_headers.h"

static const struct sl_span parent_field = SL_SPAN_LIT("traceparent");
static const struct sl_span state_field = SL_SPAN_LIT("tracestate");
static const struct sl_span id_field = SL_SPAN_LIT("x-request-id");

/* traceparent: VERSION-TRACE-SPAN-FLAGS, in lower-case hexadecimal digits. */
enum { PARENT_LEN = 55, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53 };

static bool read_hex(const uint8_t *text, uint8_t *to, size_t len)
{
	for (size_t i = 0; i < 2 * len; i++) {
		int digit = text[i] >= 'A' && text[i] <= 'F' ? -1 : sl_hex_digit(text[i]);

		if (digit < 0)
			return false;
		to[i / 2] = (uint8_t)(i & 1 ? to[i / 2] << 4 | digit : digit);
	}
	return true;
}

static bool is_zero(const uint8_t *id, size_t len)
{
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= id[i];
	return !any;
}

static bool read_parent(struct sl_event *e, struct sl_span v)
{
	uint8_t version, flags, trace[16], span[8];

	if (v.len < PARENT_LEN || v.ptr[TRACE_AT - 1] != '-' || v.ptr[SPAN_AT - 1] != '-' ||
	    v.ptr[FLAGS_AT - 1] != '-' || !read_hex(v.ptr, &version, 1) ||
	    !read_hex(v.ptr + TRACE_AT, trace, sizeof(trace)) ||
	    !read_hex(v.ptr + SPAN_AT, span, sizeof(span)) ||
	    !read_hex(v.ptr + FLAGS_AT, &flags, 1))
		return false;
	if (version == 0xff || is_zero(trace, sizeof(trace)) || is_zero(span, sizeof(span)) ||
	    (v.len > PARENT_LEN && (!version || v.ptr[PARENT_LEN] != '-')))
		return false;
	memcpy(e->trace_id, trace, sizeof(trace));
	memcpy(e->parent_id, span, sizeof(span));
	e->trace_flags |= (uint8_t)(SL_TRACE_PARENT | (flags & SL_TRACE_SAMPLED));
	return true;
}

static struct sl_span find_parent(const struct sl_request *rq)
{
	struct sl_span found = {0};

	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (!sl_span_eq_nocase(rq->headers[i].name, parent_field))
			continue;
		if (found.ptr)
			return sl_span_of(NULL, 0);
		found = rq->headers[i].value;
	}
	return found;
}

static void put_random(struct sl_core *c, uint8_t *to, size_t len)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t r = sl_prng_u64(&c->prng) | 1;

		memcpy(to + i, &r, 8);
	}
}

void sl_trace_begin(struct sl_core *c, struct sl_event *e, const struct sl_request *rq)
{
	const struct sl_cfg_trace *cfg = &c->cfg->trace;

	if (!sl_cfg_traces(cfg))
		return;
	e->trace_flags =
		(uint8_t)((cfg->otlp ? SL_TRACE_SPAN : 0) | (cfg->request_id ? SL_TRACE_ID : 0));
	put_random(c, e->span_id, sizeof(e->span_id));
	if (read_parent(e, find_parent(rq)))
		return;
	put_random(c, e->trace_id, sizeof(e->trace_id));
	if (cfg->otlp && sl_prng_unit(&c->prng) < cfg->sample)
		e->trace_flags |= SL_TRACE_SAMPLED;
}

void sl_trace_hex(char *to, const uint8_t *id, size_t len)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < len; i++) {
		to[2 * i] = digits[id[i] >> 4];
		to[2 * i + 1] = digits[id[i] & 15];
	}
}

static bool is_kept(struct sl_span id)
{
	static const char others[] = "._:+/=-";

	for (size_t i = 0; i < id.len; i++) {
		uint8_t c = id.ptr[i], lower = c | 0x20;

		if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') &&
		    !memchr(others, c, sizeof(others) - 1))
			return false;
	}
	return id.len > 0 && id.len <= 64;
}

struct sl_span sl_trace_request_id(const struct sl_event *e, struct sl_span client, char hex[32])
{
	if (is_kept(client))
		return client;
	sl_trace_hex(hex, e->trace_id, sizeof(e->trace_id));
	return sl_span_of(hex, 32);
}

void sl_trace_end(const struct sl_cfg_trace *cfg, struct sl_event *e)
{
	struct sl_code_end end = sl_event_code(e);
	/* 501 and 505 of a refused head are the client's doing; 503 is not. */
	bool clients = e->front_error && e->status != 503;

	if (!(e->trace_flags & SL_TRACE_SPAN))
		return;
	if ((!clients && sl_code_failed(&end)) ||
	    (cfg->slow_ns && sl_event_total_ns(e) >= cfg->slow_ns))
		e->trace_flags |= SL_TRACE_KEEP;
	if (e->trace_flags & (SL_TRACE_SAMPLED | SL_TRACE_KEEP))
		e->trace_flags |= SL_TRACE_EXPORT;
}

static bool has_flag(const struct sl_exchange *x, unsigned flag)
{
	return x->note && x->note->trace_flags & flag;
}

bool sl_trace_hides(const struct sl_exchange *x, struct sl_span name)
{
	return (has_flag(x, SL_TRACE_SPAN) && (sl_trusted_header_folds_to(name, parent_field) ||
					       sl_trusted_header_folds_to(name, state_field))) ||
	       (has_flag(x, SL_TRACE_ID) && sl_trusted_header_folds_to(name, id_field));
}

static void put_field(struct sl_tlv_writer *w, const struct sl_exchange *x, struct sl_span name,
		      struct sl_span value)
{
	uint8_t *to;

	if (x->route->request_rules.cnt && sl_rules_hide(&x->route->request_rules, name))
		return;
	to = sl_tlv_room(w, SL_META_HEADER, 1 + name.len + value.len);
	if (!to)
		return;
	*to++ = (uint8_t)name.len;
	memcpy(to, name.ptr, name.len);
	if (value.len)
		memcpy(to + name.len, value.ptr, value.len);
}

static void put_span_fields(struct sl_tlv_writer *w, const struct sl_exchange *x,
			    const struct sl_request *rq)
{
	const struct sl_event *e = x->note;
	char text[PARENT_LEN + 1] = "00-";

	sl_trace_hex(text + TRACE_AT, e->trace_id, sizeof(e->trace_id));
	text[SPAN_AT - 1] = '-';
	sl_trace_hex(text + SPAN_AT, e->span_id, sizeof(e->span_id));
	memcpy(text + FLAGS_AT - 1, e->trace_flags & SL_TRACE_SAMPLED ? "-01" : "-00", 3);
	put_field(w, x, parent_field, sl_span_of(text, PARENT_LEN));
	for (uint32_t i = 0; e->trace_flags & SL_TRACE_PARENT && i < rq->header_cnt; i++) {
		if (sl_span_eq_nocase(rq->headers[i].name, state_field))
			put_field(w, x, state_field, rq->headers[i].value);
	}
}

void sl_trace_put(struct sl_tlv_writer *w, const struct sl_exchange *x, const struct sl_request *rq)
{
	if (has_flag(x, SL_TRACE_SPAN))
		put_span_fields(w, x, rq);
	if (has_flag(x, SL_TRACE_ID))
		put_field(w, x, id_field, sl_event_text(x->note, SL_EVENT_REQUEST_ID));
}

void sl_trace_reply(const struct sl_exchange *x, struct sl_reply_parts *out)
{
	struct sl_reply *r = &out->reply;

	if (!has_flag(x, SL_TRACE_ID) || r->header_cnt == SL_ARRAY_LEN(out->headers))
		return;
	for (uint32_t i = 0; i < r->header_cnt; i++) {
		if (sl_span_eq_nocase(out->headers[i].name, id_field))
			return;
	}
	out->headers[r->header_cnt++] =
		(struct sl_header){id_field, sl_event_text(x->note, SL_EVENT_REQUEST_ID)};
	r->headers = out->headers;
}
