/* SPDX-License-Identifier: Apache-2.0 */
#include "front/path.h"

#include <string.h>

static int hex(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One character from p, decoded; how many bytes it took, or 0: it is none that may stand here. */
static size_t take_char(const uint8_t *p, const uint8_t *end, uint8_t *c)
{
	int high, low;

	*c = *p;
	if (*p == '\\')
		return 0;
	if (*p != '%')
		return 1;
	high = end - p > 2 ? hex(p[1]) : -1;
	low = end - p > 2 ? hex(p[2]) : -1;
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
 * ENCODED is a name with characters that need not be. "." or "..", decoded, is a way and no name;
 * so it is with parameters (";x") behind it.
 */
enum segment { NAME, ENCODED, EMPTY, HERE, UP, WITH_PARAMETERS, BROKEN };

/* Looks at the segment from p to the next slash, and leaves *end there. */
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

/* Copies a name; what has to stay encoded does, in capitals (RFC 3986 6.2.2.1). */
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
	uint8_t *at = buf;  /* behind the last name: no slash yet */
	bool slash = false; /* the path ends with one */

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
