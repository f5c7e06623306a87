/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 9112 4 to 6. Backend fields with control characters fail the head. */
#include "base/cpu.h"
#include "base/num.h"
#include "front/http1/http1.h"
#include "http/scan.h"
#include "http/status.h"

struct http1_out {
	uint8_t *p, *end;
	bool full;
};

static inline void put_bytes(struct http1_out *o, const void *bytes, size_t len)
{
	if (sl_unlikely((size_t)(o->end - o->p) < len)) {
		o->full = true;
		return;
	}
	memcpy(o->p, bytes, len);
	o->p += len;
}
#define PUT_LIT(o, lit) put_bytes((o), (lit), sizeof(lit) - 1)

static void put_u64(struct http1_out *o, uint64_t v)
{
	SL_UNINIT char digits[SL_U64_DIGITS];

	if (sl_likely((size_t)(o->end - o->p) >= sizeof(digits)))
		o->p += sl_format_u64((char *)o->p, v);
	else
		put_bytes(o, digits, sl_format_u64(digits, v));
}

static void put_start(struct http1_out *o, const struct sl_reply *r, const char *date)
{
	const char *text = sl_status_text(r->status);

	if (sl_likely(r->status == 200 && !r->reason.len && !r->has_server && !r->has_date)) {
		PUT_LIT(o, "HTTP/1.1 200 OK\r\nServer: sluice\r\nDate: ");
		put_bytes(o, date, 29);
		return;
	}
	PUT_LIT(o, "HTTP/1.1 ");
	put_u64(o, r->status);
	PUT_LIT(o, " ");
	if (r->reason.len)
		put_bytes(o, r->reason.ptr, r->reason.len);
	else
		put_bytes(o, text, strlen(text));
	if (!r->has_server)
		PUT_LIT(o, "\r\nServer: sluice");
	if (!r->has_date) {
		PUT_LIT(o, "\r\nDate: ");
		put_bytes(o, date, 29);
	}
}

static bool value_ok(struct sl_span v)
{
	return !v.len || sl_scan_value(v.ptr, v.ptr, v.ptr + v.len) == v.ptr + v.len;
}

static bool put_fields(struct http1_out *o, const struct sl_reply *r,
		       const struct sl_header *fields, uint32_t cnt)
{
	for (uint32_t i = 0; i < cnt; i++) {
		const struct sl_header *h = &fields[i];
		const uint8_t *name = h->name.ptr, *end = name + h->name.len;

		if (name == end || sl_scan_token(name, name, end) != end || !value_ok(h->value))
			return false;
		if (sl_reply_is_ours(r, h->name))
			continue;
		put_bytes(o, h->name.ptr, h->name.len);
		PUT_LIT(o, ": ");
		put_bytes(o, h->value.ptr, h->value.len);
		PUT_LIT(o, "\r\n");
	}
	return true;
}

size_t sl_http1_format(uint8_t *buf, size_t cap, const struct sl_reply *r, uint64_t len,
		       const char *date, enum sl_http1_framing framing,
		       enum sl_http1_connection connection)
{
	struct http1_out o = {.p = buf, .end = buf + cap};
	bool bare = r->status == 204 || r->status == 304; /* RFC 9110 8.6 */
	bool upgrade = connection == SL_HTTP1_UPGRADE && r->upgrade.len;

	if (upgrade ? r->status != 101 : r->status < 200 || r->status > 599)
		return 0;
	if (!value_ok(r->content_type) || !value_ok(r->reason))
		return 0;
	put_start(&o, r, date);
	if (r->content_type.len) {
		PUT_LIT(&o, "\r\nContent-Type: ");
		put_bytes(&o, r->content_type.ptr, r->content_type.len);
	}
	if (framing == SL_HTTP1_CHUNKS) {
		PUT_LIT(&o, "\r\nTransfer-Encoding: chunked");
	} else if (!bare && len != SL_LEN_UNKNOWN) {
		PUT_LIT(&o, "\r\nContent-Length: ");
		put_u64(&o, len);
	}
	if (upgrade) {
		PUT_LIT(&o, "\r\nConnection: upgrade\r\nUpgrade: ");
		put_bytes(&o, r->upgrade.ptr, r->upgrade.len);
	} else if (connection == SL_HTTP1_CLOSE) {
		PUT_LIT(&o, "\r\nConnection: close");
	} else if (connection == SL_HTTP1_KEEP_ALIVE) {
		PUT_LIT(&o, "\r\nConnection: keep-alive");
	}
	if (r->retry_after_s) {
		PUT_LIT(&o, "\r\nRetry-After: ");
		put_u64(&o, r->retry_after_s);
	}
	if (r->allow) {
		char text[SL_METHODS_TEXT];

		/* RFC 9110 15.5.6 */
		PUT_LIT(&o, "\r\nallow: ");
		put_bytes(&o, text, sl_methods_text(text, r->allow));
	}
	PUT_LIT(&o, "\r\n");
	if (!put_fields(&o, r, r->headers, r->header_cnt))
		return 0;
	PUT_LIT(&o, "\r\n");
	return o.full ? 0 : (size_t)(o.p - buf);
}

size_t sl_http1_format_interim(uint8_t *buf, size_t cap, const struct sl_reply *r)
{
	struct http1_out o = {.p = buf, .end = buf + cap};
	const char *text = sl_status_text(r->status);

	PUT_LIT(&o, "HTTP/1.1 ");
	put_u64(&o, r->status);
	PUT_LIT(&o, " ");
	put_bytes(&o, text, strlen(text));
	PUT_LIT(&o, "\r\n");
	if (!put_fields(&o, r, r->headers, r->header_cnt))
		return 0;
	PUT_LIT(&o, "\r\n");
	return o.full ? 0 : (size_t)(o.p - buf);
}

size_t sl_http1_format_end(uint8_t *buf, size_t cap, const struct sl_reply *r)
{
	struct http1_out o = {.p = buf, .end = buf + cap};

	PUT_LIT(&o, "0\r\n");
	if (!put_fields(&o, r, r->trailers, r->trailer_cnt))
		return 0;
	PUT_LIT(&o, "\r\n");
	return o.full ? 0 : (size_t)(o.p - buf);
}
