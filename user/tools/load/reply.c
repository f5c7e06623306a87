/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load/reply.h"

#include <stdlib.h>

#include "base/num.h"

enum { IN_HEAD, IN_BODY, IN_CHUNK_LINE, IN_CHUNK, IN_CHUNK_END, IN_TRAILER };

static struct sl_span parse_header(struct sl_span head, struct sl_span name)
{
	const uint8_t *p = head.ptr, *end = head.ptr + head.len;

	while (p < end) {
		const uint8_t *eol = memchr(p, '\n', (size_t)(end - p));
		size_t len = eol ? (size_t)(eol - p) : 0;

		if (!eol)
			break;
		if (len > name.len && p[name.len] == ':' &&
		    sl_span_eq_nocase(sl_span_of(p, name.len), name)) {
			const uint8_t *v = p + name.len + 1;
			const uint8_t *v_end = eol;

			while (v < v_end && (*v == ' ' || *v == '\t'))
				v++;
			while (v_end > v && (v_end[-1] == '\r' || v_end[-1] == ' '))
				v_end--;
			return sl_span_of(v, (size_t)(v_end - v));
		}
		p = eol + 1;
	}
	return sl_span_of(NULL, 0);
}

static bool parse_head(struct sl_load_reply *r, struct sl_span head, bool no_body)
{
	struct sl_span length = parse_header(head, sl_span_str("Content-Length"));
	struct sl_span coding = parse_header(head, sl_span_str("Transfer-Encoding"));
	struct sl_span connection = parse_header(head, sl_span_str("Connection"));
	uint64_t status;

	if (head.len < 12 || memcmp(head.ptr, "HTTP/1.", 7) != 0 ||
	    sl_parse_u64(sl_span_of(head.ptr + 9, 3), &status))
		return false;
	r->status = (uint16_t)status;
	r->close = connection.ptr && sl_span_eq_nocase(connection, sl_span_str("close"));
	r->body_at = 0;
	r->left = 0;
	r->state = IN_BODY;
	if (no_body || status == 204 || status == 304)
		return true;
	if (coding.ptr) {
		r->state = IN_CHUNK_LINE;
		r->head_len = 0;
		return sl_span_eq_nocase(coding, sl_span_str("chunked"));
	}
	return length.ptr && sl_parse_u64(length, &r->left) == 0;
}

static bool collect_head(struct sl_load_reply *r, struct sl_span *in, struct sl_span end)
{
	while (in->len && r->head_len < SL_REPLY_HEAD_MAX) {
		r->head[r->head_len++] = in->ptr[0];
		*in = sl_span_skip(*in, 1);
		if (r->head_len >= end.len &&
		    memcmp(r->head + r->head_len - end.len, end.ptr, end.len) == 0)
			return true;
	}
	return false;
}

static enum sl_reply_verdict feed_head(struct sl_load_reply *r, struct sl_span *in, bool no_body)
{
	const uint8_t *p = in->len && !r->head_len ? memmem(in->ptr, in->len, "\r\n\r\n", 4) : NULL;
	struct sl_span head;

	if (p) {
		head = sl_span_of(in->ptr, (size_t)(p + 4 - in->ptr));
		*in = sl_span_skip(*in, head.len);
	} else {
		if (!collect_head(r, in, sl_span_str("\r\n\r\n")))
			return r->head_len == SL_REPLY_HEAD_MAX ? SL_REPLY_MALFORMED
								: SL_REPLY_MORE;
		head = sl_span_of(r->head, r->head_len);
	}
	r->head_len = 0;
	if (!parse_head(r, head, no_body))
		return SL_REPLY_MALFORMED;
	if (r->status == 100)
		r->state = IN_HEAD;
	return SL_REPLY_MORE;
}

static void feed_body(struct sl_load_reply *r, struct sl_span *in, struct sl_span expect)
{
	struct sl_span part = sl_span_first(*in, r->left < in->len ? (size_t)r->left : in->len);

	if (expect.ptr && (r->body_at + part.len > expect.len ||
			   memcmp(expect.ptr + r->body_at, part.ptr, part.len) != 0))
		r->differs = true;
	r->body_at += part.len;
	r->left -= part.len;
	*in = sl_span_skip(*in, part.len);
}

static bool feed_chunk_line(struct sl_load_reply *r, struct sl_span *in)
{
	struct sl_span line;

	if (!collect_head(r, in, sl_span_str("\r\n")))
		return r->head_len < 32;
	line = sl_span_of(r->head, r->head_len - 2);
	r->head_len = 0;
	if (r->state == IN_CHUNK_END) {
		r->state = IN_CHUNK_LINE;
		return line.len == 0;
	}
	if (sl_parse_hex_u64(line, &r->left))
		return false;
	r->state = r->left ? IN_CHUNK : IN_TRAILER;
	return true;
}

static enum sl_reply_verdict complete_reply(struct sl_load_reply *r, struct sl_span expect)
{
	if (expect.ptr && r->body_at != expect.len)
		r->differs = true;
	r->state = IN_HEAD;
	r->head_len = 0;
	return SL_REPLY_COMPLETE;
}

enum sl_reply_verdict sl_load_reply_feed(struct sl_load_reply *r, struct sl_span *in,
					 struct sl_span expect, bool head_request)
{
	if (r->state == IN_HEAD && !r->head_len)
		r->differs = false;
	for (;;) {
		switch (r->state) {
		case IN_HEAD:
			if (!in->len)
				return SL_REPLY_MORE;
			if (feed_head(r, in, head_request) == SL_REPLY_MALFORMED)
				return SL_REPLY_MALFORMED;
			break;
		case IN_BODY:
		case IN_CHUNK:
			feed_body(r, in, expect);
			if (r->left)
				return SL_REPLY_MORE;
			if (r->state == IN_BODY)
				return complete_reply(r, expect);
			r->state = IN_CHUNK_END;
			break;
		case IN_TRAILER:
			if (!collect_head(r, in, sl_span_str("\r\n")))
				return SL_REPLY_MORE;
			return complete_reply(r, expect);
		default:
			if (!in->len)
				return SL_REPLY_MORE;
			if (!feed_chunk_line(r, in))
				return SL_REPLY_MALFORMED;
		}
	}
}
