/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/tlv.h"
#include "front/front.h"
#include "front/grpc/grpc.h"
#include "wire/rpc_wire.h"

/* CR, LF or NUL could inject another field line. */
static bool clean_value(struct sl_span s)
{
	return !s.len || !(memchr(s.ptr, '\r', s.len) || memchr(s.ptr, '\n', s.len) ||
			   memchr(s.ptr, 0, s.len));
}

static bool decode_header(struct sl_span v, struct sl_header *h, bool check_value)
{
	if (v.len < 1 || v.len < 1u + v.ptr[0])
		return false;
	h->name = sl_span_of(v.ptr + 1, v.ptr[0]);
	h->value = sl_span_skip(v, 1u + v.ptr[0]);
	for (size_t i = 0; i < h->name.len; i++) {
		uint8_t c = h->name.ptr[i];

		if (c <= ' ' || c >= 0x7f || c == ':' || (c >= 'A' && c <= 'Z'))
			return false;
	}
	return h->name.len && (!check_value || clean_value(h->value));
}

static bool is_binary(struct sl_span v)
{
	size_t len = v.len ? v.ptr[0] : 0;

	return len >= 4 && v.len > len && memcmp(v.ptr + 1 + len - 4, "-bin", 4) == 0;
}

static bool head_header(struct sl_span v, struct sl_reply_parts *out)
{
	struct sl_reply *r = &out->reply;
	struct sl_header *h = &out->headers[r->header_cnt];

	if (r->header_cnt == SL_ARRAY_LEN(out->headers) || !decode_header(v, h, !is_binary(v)))
		return false;
	r->header_cnt++;
	r->has_date |= h->name.len == 4 && memcmp(h->name.ptr, "date", 4) == 0;
	r->has_server |= h->name.len == 6 && memcmp(h->name.ptr, "server", 6) == 0;
	return true;
}

static bool head_field(uint16_t tag, struct sl_span v, struct sl_reply_parts *out)
{
	struct sl_reply *r = &out->reply;

	switch (tag) {
	case SL_META_STATUS:
		r->status = v.len == 2 ? sl_get_le16(v.ptr) : 0;
		return (r->status >= 200 && r->status <= 599) || r->status == 101;
	case SL_META_CONTENT_TYPE: r->content_type = v; return clean_value(v);
	case SL_META_LENGTH:
		if (v.len != sizeof(uint64_t))
			return false;
		r->body_len = sl_get_le64(v.ptr);
		return true;
	case SL_META_REASON: r->reason = v; return clean_value(v);
	case SL_META_HEADER: return head_header(v, out);
	default: return true;
	}
}

static bool interim_field(uint16_t tag, struct sl_span v, struct sl_reply_parts *out)
{
	if (tag == SL_META_HEADER)
		return head_field(tag, v, out);
	if (tag == SL_META_STATUS)
		out->reply.status = v.len == 2 ? sl_get_le16(v.ptr) : 0;
	return true;
}

static bool tail_field(uint16_t tag, struct sl_span v, struct sl_reply_parts *out)
{
	struct sl_reply *r = &out->reply;

	switch (tag) {
	case SL_META_GRPC_STATUS:
		r->grpc_status = v.len == 2 ? sl_get_le16(v.ptr) : 0;
		return v.len == 2;
	case SL_META_GRPC_MESSAGE: r->grpc_message = v; return true;
	case SL_META_TRAILER:
		return r->trailer_cnt < SL_ARRAY_LEN(out->trailers) &&
		       decode_header(v, &out->trailers[r->trailer_cnt++], !is_binary(v));
	default: return true;
	}
}

bool sl_reply_decode(struct sl_span block, unsigned sides, struct sl_reply_parts *out)
{
	struct sl_span value;
	uint16_t tag;

	out->reply = (struct sl_reply){.status = 200, .body_len = SL_LEN_UNKNOWN};
	out->reply.headers = out->headers;
	out->reply.trailers = out->trailers;
	while (sl_tlv_next(&block, &tag, &value)) {
		if ((sides & SL_REPLY_HEAD) && !head_field(tag, value, out))
			return false;
		if ((sides & SL_REPLY_TAIL) && !tail_field(tag, value, out))
			return false;
		if ((sides & SL_REPLY_INTERIM) && !interim_field(tag, value, out))
			return false;
	}
	if ((sides & SL_REPLY_INTERIM) && (out->reply.status <= 101 || out->reply.status > 199))
		return false;
	return block.len == 0;
}

static const struct {
	uint16_t http;
	uint8_t grpc, retry_after_s;
	struct sl_span text;
} own[SL_OUTCOME_CNT] = {
#define X(name, metric, http, grpc, datagram, retry_after_s, text)                                 \
	[SL_OUTCOME_##name] = {http, SL_GRPC_##grpc, retry_after_s, SL_SPAN_LIT(text)},
	SL_OUTCOMES(X)
#undef X
};

void sl_reply_own(enum sl_outcome why, struct sl_reply_parts *out)
{
	out->reply = (struct sl_reply){
		.status = own[why].http,
		.grpc_status = own[why].grpc,
		.gateway = true,
		.outcome = (uint8_t)why,
		.retry_after_s = own[why].retry_after_s,
		.grpc_message = own[why].text,
		.content_type = sl_span_str("text/plain"),
		.headers = out->headers,
		.trailers = out->trailers,
		.body_len = own[why].text.len,
	};
}

struct sl_span sl_outcome_text(enum sl_outcome why)
{
	return own[why].text;
}

bool sl_reply_is_ours(const struct sl_reply *r, struct sl_span name)
{
	static const struct sl_span ours[] = {
		SL_SPAN_LIT("te"),
		SL_SPAN_LIT("trailer"),
		SL_SPAN_LIT("upgrade"),
		SL_SPAN_LIT("connection"),
		SL_SPAN_LIT("keep-alive"),
		SL_SPAN_LIT("content-length"),
		SL_SPAN_LIT("proxy-connection"),
		SL_SPAN_LIT("transfer-encoding"),
	};

	static const uint32_t lengths = 1u << 2 | 1u << 4 | 1u << 6 | 1u << 7 | 1u << 10 |
					1u << 11 | 1u << 12 | 1u << 14 | 1u << 16 | 1u << 17;

	if (!name.len || name.ptr[0] == ':')
		return true;
	if (name.len > 17 || !(lengths & 1u << name.len))
		return false;
	for (unsigned i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		if (ours[i].len == name.len && sl_span_eq_nocase(ours[i], name))
			return true;
	}
	if (sl_span_eq_nocase(name, sl_span_str("date")))
		return !r->has_date;
	if (sl_span_eq_nocase(name, sl_span_str("server")))
		return !r->has_server;
	if (r->content_type.len && sl_span_eq_nocase(name, sl_span_str("content-type")))
		return true;
	return r->retry_after_s && sl_span_eq_nocase(name, sl_span_str("retry-after"));
}
