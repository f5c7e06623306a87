/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RFC 9113 8.1 to 8.3. A malformed head gets 400, then a reset (8.1.1); nghttp2 would only reset.
 */
#include "front/h2/conn.h"
#include "http/scan.h"

enum {
	SEEN_METHOD = 1 << 0,
	SEEN_SCHEME = 1 << 1,
	SEEN_PATH = 1 << 2,
	SEEN_AUTHORITY = 1 << 3,
	SEEN_PROTOCOL = 1 << 4,
	SEEN_HOST = 1 << 5,
	SEEN_LENGTH = 1 << 6,
	SEEN_REGULAR = 1 << 7,
	IS_CONNECT = 1 << 8,
	IS_OPTIONS = 1 << 9,
	IS_STAR = 1 << 10, /* :path is "*" */
};

/* RFC 9113 8.2.1 */
static bool name_ok(struct sl_span name)
{
	const uint8_t *end = name.ptr + name.len;

	if (!name.len || sl_scan_token(name.ptr, name.ptr, end) != end)
		return false;
	for (const uint8_t *p = name.ptr; p < end; p++) {
		if (*p >= 'A' && *p <= 'Z')
			return false;
	}
	return true;
}

static bool value_ok(struct sl_span value)
{
	const uint8_t *end = value.ptr + value.len;

	return !value.len || sl_scan_value(value.ptr, value.ptr, end) == end;
}

static bool all_of(struct sl_span v, uint8_t class)
{
	return v.len && sl_scan_table(v.ptr, v.ptr + v.len, class) == v.ptr + v.len;
}

/* RFC 3986 3.1 */
static bool scheme_ok(struct sl_span v)
{
	for (size_t i = 0; i < v.len; i++) {
		uint8_t c = v.ptr[i], lower = c | 0x20;
		bool alpha = lower >= 'a' && lower <= 'z';

		if (!alpha &&
		    (i == 0 || !((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.')))
			return false;
	}
	return v.len;
}

static bool is_number(struct sl_span v)
{
	size_t i = 0;

	while (i < v.len && v.ptr[i] >= '0' && v.ptr[i] <= '9')
		i++;
	return v.len && i == v.len;
}

/* RFC 9113 8.2.2 */
static const char *regular_fault(struct sl_span name, struct sl_span value)
{
	if (SL_NAME_IS(name, "connection") || SL_NAME_IS(name, "keep-alive") ||
	    SL_NAME_IS(name, "proxy-connection") || SL_NAME_IS(name, "transfer-encoding") ||
	    SL_NAME_IS(name, "upgrade"))
		return "connection-specific field";
	if (sl_span_eq(name, sl_span_str("te")) &&
	    !sl_span_eq_nocase(value, sl_span_str("trailers")))
		return "te other than trailers";
	return NULL;
}

static bool is_first(struct h2_head *h, unsigned bit)
{
	bool first = !(h->seen & bit);

	h->seen |= (uint16_t)bit;
	return first;
}

static const char *method_fault(struct h2_head *h, struct sl_span value)
{
	if (!all_of(value, SL_CT_TOKEN))
		return "malformed :method";
	if (sl_span_eq(value, sl_span_str("CONNECT")))
		h->seen |= IS_CONNECT;
	if (sl_span_eq(value, sl_span_str("OPTIONS")))
		h->seen |= IS_OPTIONS;
	return is_first(h, SEEN_METHOD) ? NULL : "second :method";
}

/* RFC 9113 8.3.1. "*" is checked with the whole head. */
static const char *path_fault(struct h2_head *h, struct sl_span value)
{
	bool star = value.len == 1 && value.ptr[0] == '*';

	if (!value.len || (value.ptr[0] != '/' && !star))
		return "malformed :path";
	if (star)
		h->seen |= IS_STAR;
	return is_first(h, SEEN_PATH) ? NULL : "second :path";
}

static const char *pseudo_fault(struct h2_head *h, struct sl_span name, struct sl_span value,
				bool upgrades)
{
	if (h->seen & SEEN_REGULAR)
		return "pseudo-header field is late";
	if (!name_ok(sl_span_skip(name, 1)))
		return "unknown pseudo-header";
	if (sl_h2_trim(value).len < value.len || !value_ok(value))
		return "malformed pseudo-header";
	if (SL_NAME_IS(name, ":method"))
		return method_fault(h, value);
	if (SL_NAME_IS(name, ":path"))
		return path_fault(h, value);
	if (SL_NAME_IS(name, ":scheme")) {
		if (!scheme_ok(value))
			return "malformed :scheme";
		return is_first(h, SEEN_SCHEME) ? NULL : "second :scheme";
	}
	if (SL_NAME_IS(name, ":authority")) {
		if (!value.len)
			return "empty :authority";
		return is_first(h, SEEN_AUTHORITY) ? NULL : "second :authority";
	}
	if (!SL_NAME_IS(name, ":protocol") || !upgrades)
		return "unknown pseudo-header";
	if (!all_of(value, SL_CT_TOKEN))
		return "malformed :protocol";
	return is_first(h, SEEN_PROTOCOL) ? NULL : "second :protocol";
}

static const char *field_fault(struct h2_head *h, struct sl_span name, struct sl_span value,
			       bool upgrades)
{
	if (name.len && name.ptr[0] == ':')
		return pseudo_fault(h, name, value, upgrades);
	h->seen |= SEEN_REGULAR;
	if (!name_ok(name))
		return "malformed field name";
	if (!value_ok(value))
		return "malformed field value";
	if (SL_NAME_IS(name, "host")) {
		if (!value.len)
			return "empty host";
		return is_first(h, SEEN_HOST) ? NULL : "second host";
	}
	if (SL_NAME_IS(name, "content-length")) {
		if (!is_number(sl_h2_trim(value)))
			return "malformed content-length";
		return is_first(h, SEEN_LENGTH) ? NULL : "second content-length";
	}
	return regular_fault(name, sl_h2_trim(value));
}

bool sl_h2_message_field(struct h2_head *h, struct sl_span name, struct sl_span value,
			 bool upgrades)
{
	const char *fault = field_fault(h, name, value, upgrades);

	if (fault && !h->fault)
		h->fault = fault;
	return !fault;
}

static const char *whole_fault(unsigned seen)
{
	const unsigned usual = SEEN_METHOD | SEEN_SCHEME | SEEN_PATH;

	if ((seen & IS_CONNECT) && !(seen & SEEN_PROTOCOL)) { /* RFC 9113 8.5 */
		if (seen & (SEEN_SCHEME | SEEN_PATH))
			return "CONNECT with :path or :scheme";
		return seen & SEEN_AUTHORITY ? NULL : "CONNECT without :authority";
	}
	if ((seen & usual) != usual)
		return "pseudo-header is missing";
	if (!(seen & (SEEN_AUTHORITY | SEEN_HOST)))
		return "no :authority and no host";
	if ((seen & IS_STAR) && !(seen & IS_OPTIONS))
		return "malformed :path";
	if (!(seen & SEEN_PROTOCOL))
		return NULL;
	if (!(seen & IS_CONNECT)) /* RFC 8441 4 */
		return ":protocol without CONNECT";
	return seen & SEEN_AUTHORITY ? NULL : "CONNECT without :authority";
}

const char *sl_h2_message_fault(const struct h2_head *h)
{
	if (h->fault)
		return h->fault;
	return whole_fault(h->seen);
}

bool sl_h2_message_trailer(struct sl_span name, struct sl_span value)
{
	return name_ok(name) && value_ok(value) && !regular_fault(name, sl_h2_trim(value));
}
