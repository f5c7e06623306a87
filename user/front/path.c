/* SPDX-License-Identifier: Apache-2.0 */
#include "front/path.h"

#include <string.h>

#include "base/num.h"

static size_t take_char(const uint8_t *p, const uint8_t *end, uint8_t *c)
{
	int high, low;

	*c = *p;
	if (*p == '\\')
		return 0;
	if (*p != '%')
		return 1;
	high = end - p > 2 ? sl_hex_digit(p[1]) : -1;
	low = end - p > 2 ? sl_hex_digit(p[2]) : -1;
	if (high < 0 || low < 0)
		return 0;
	*c = (uint8_t)(high << 4 | low);
	return *c == '/' || *c == '\\' || *c == 0 ? 0 : 3;
}

static bool is_unreserved(uint8_t c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

/*
 * ENCODED: needlessly encoded characters. HERE and UP: "." and "..", decoded. WITH_PARAMETERS:
 * these with ";x".
 */
enum segment { NAME, ENCODED, EMPTY, HERE, UP, WITH_PARAMETERS, BROKEN };

static enum segment segment_at(const uint8_t *p, const uint8_t *limit, const uint8_t **end)
{
	const uint8_t *at = p;
	unsigned dots = 0;
	bool only_dots = true, parameters = false, encoded = false;

	while (at < limit && *at != '/') {
		uint8_t c;
		size_t n = take_char(at, limit, &c);

		if (!n)
			return BROKEN;
		at += n;
		encoded = encoded || (n > 1 && is_unreserved(c));
		parameters = parameters || c == ';';
		if (parameters)
			continue;
		only_dots = only_dots && c == '.' && ++dots <= 2;
	}
	*end = at;
	if (at == p)
		return EMPTY;
	if (!only_dots || !dots)
		return encoded ? ENCODED : NAME;
	if (parameters)
		return WITH_PARAMETERS;
	return dots == 1 ? HERE : UP;
}

bool sl_path_is_plain(struct sl_span path)
{
	const uint8_t *p = path.ptr, *limit = path.ptr + path.len, *end;

	if (!path.len || *p != '/')
		return true;
	while (p < limit) {
		switch (segment_at(p + 1, limit, &end)) {
		case NAME: break;
		case EMPTY:
			if (end < limit)
				return false;
			break;
		default: return false;
		}
		p = end;
	}
	return true;
}

/* Encoded characters use capital digits (RFC 3986 6.2.2.1). */
static uint8_t *copy_name(uint8_t *out, const uint8_t *p, const uint8_t *end)
{
	static const char digits[] = "0123456789ABCDEF";

	while (p < end) {
		uint8_t c;
		size_t n = take_char(p, end, &c);

		if (n == 3 && !is_unreserved(c)) {
			*out++ = '%';
			*out++ = (uint8_t)digits[c >> 4];
			*out++ = (uint8_t)digits[c & 15];
		} else {
			*out++ = c;
		}
		p += n;
	}
	return out;
}

bool sl_path_normalise(struct sl_span path, uint8_t *buf, struct sl_span *out)
{
	const uint8_t *p = path.ptr, *limit = path.ptr + path.len, *end;
	uint8_t *at = buf;
	bool slash = false;

	*out = path;
	if (!path.len || *p != '/')
		return true;
	for (; p < limit; p = end) {
		enum segment s = segment_at(p + 1, limit, &end);

		if (s == BROKEN || s == WITH_PARAMETERS || (s == UP && at == buf))
			return false;
		slash = s != NAME && s != ENCODED;
		if (!slash) {
			*at++ = '/';
			at = copy_name(at, p + 1, end);
		}
		while (s == UP && *--at != '/')
			;
	}
	if (slash)
		*at++ = '/';
	*out = sl_span_of(buf, (size_t)(at - buf));
	return true;
}

bool sl_path_is_simple(struct sl_span path)
{
	const uint8_t *p = path.ptr, *end = path.ptr + path.len;

	if (!path.len || *p != '/')
		return true;
	for (; p < end; p++) {
		if (*p == '%' || *p == '\\' || *p >= 0x80)
			return false;
		if (*p == '/' && end - p > 1 && (p[1] == '/' || p[1] == '.'))
			return false;
	}
	return true;
}

static size_t utf8_len(const uint8_t *p, const uint8_t *end)
{
	size_t n = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : 2;

	if (*p < 0xc2 || *p > 0xf4 || (size_t)(end - p) < n)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	/* Overlong forms, surrogates, and values above U+10FFFF. */
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) ||
	    (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static size_t decode_byte(const uint8_t *p, const uint8_t *end, uint8_t *c)
{
	int high, low;

	*c = *p;
	if (*p != '%')
		return *p ? 1 : 0;
	high = end - p > 2 ? sl_hex_digit(p[1]) : -1;
	low = end - p > 2 ? sl_hex_digit(p[2]) : -1;
	if (high < 0 || low < 0)
		return 0;
	*c = (uint8_t)(high << 4 | low);
	return *c ? 3 : 0;
}

static bool stays_encoded(uint8_t c)
{
	return c == '/' || c == '\\' || c == '%';
}

static bool read_literal(struct sl_span path, uint8_t *to, struct sl_span *out, bool *odd_slash)
{
	const uint8_t *p = path.ptr, *end = path.ptr + path.len;
	uint8_t *at = to;
	uint8_t c;

	for (size_t n, whole; p < end; p += n) {
		n = decode_byte(p, end, &c);
		whole = *p >= 0x80 ? utf8_len(p, end) : 1;
		if (!n || !whole)
			return false;
		*odd_slash |= c == '\\' || (c == '/' && n == 3);
		if (n == 3 && stays_encoded(c)) {
			*at++ = '%';
			*at++ = (uint8_t)(c == '\\' ? '5' : '2');
			*at++ = (uint8_t)(c == '\\' ? 'C' : c == '/' ? 'F' : '5');
			continue;
		}
		*at++ = c;
		for (n = whole > 1 ? 1 : n; n < whole; n++)
			*at++ = p[n];
	}
	*out = sl_span_of(to, (size_t)(at - to));
	return true;
}

static const uint8_t *segment_end(const uint8_t *p, const uint8_t *end, size_t *slash)
{
	for (; p < end; p++) {
		*slash = 1;
		if (*p == '/' || *p == '\\')
			return p;
		*slash = 3;
		if (end - p > 2 && (memcmp(p, "%2F", 3) == 0 || memcmp(p, "%5C", 3) == 0))
			return p;
	}
	*slash = 0;
	return end;
}

static enum segment segment_kind(const uint8_t *p, const uint8_t *end)
{
	const uint8_t *name = memchr(p, ';', (size_t)(end - p));
	size_t len = (size_t)((name ? name : end) - p);

	if (p == end)
		return EMPTY;
	if (len != 1 && len != 2)
		return NAME;
	if (p[0] != '.' || p[len - 1] != '.')
		return NAME;
	if (name)
		return WITH_PARAMETERS;
	return len == 1 ? HERE : UP;
}

static bool resolve_path(struct sl_span literal, uint8_t *to, struct sl_path_readings *out,
			 bool *empty)
{
	const uint8_t *p = literal.ptr, *end = literal.ptr + literal.len, *next;
	bool slash = false;
	uint8_t *at = to;

	for (size_t n = 1; n; p = next) {
		enum segment s;

		p += n;
		next = segment_end(p, end, &n);
		s = segment_kind(p, next);
		if (s == WITH_PARAMETERS || (s == UP && at == to))
			return false;
		*empty |= s == EMPTY && n;
		out->climbs |= s == UP;
		slash = s != NAME;
		if (s == NAME) {
			*at++ = '/';
			memcpy(at, p, (size_t)(next - p));
			at += next - p;
		}
		while (s == UP && *--at != '/')
			;
	}
	if (slash)
		*at++ = '/';
	out->resolved = sl_span_of(to, (size_t)(at - to));
	return true;
}

bool sl_path_read(struct sl_span path, uint8_t *literal, uint8_t *resolved,
		  struct sl_path_readings *out)
{
	bool odd_slash = false, empty = false;

	out->climbs = false;
	return read_literal(path, literal, &out->literal, &odd_slash) &&
	       resolve_path(out->literal, resolved, out, &empty) &&
	       !(out->climbs && (odd_slash || empty));
}

struct sl_span sl_path_behind(struct sl_span path, size_t len)
{
	const uint8_t *p = path.ptr, *end = path.ptr + path.len;
	size_t plain = 0;
	uint8_t c;

	while (plain < len && plain < path.len && p[plain] != '%')
		plain++;
	if (plain == len)
		return sl_span_skip(path, len);
	while (len && p < end) {
		size_t n = decode_byte(p, end, &c), reads = n == 3 && stays_encoded(c) ? 3 : 1;

		p += n ? n : 1;
		len -= len < reads ? len : reads;
	}
	return sl_span_skip(path, (size_t)(p - path.ptr));
}
