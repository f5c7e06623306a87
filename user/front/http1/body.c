/* SPDX-License-Identifier: Apache-2.0 */
/* Chunked coding, RFC 9112 7.1. */
#include "base/num.h"
#include "front/http1/http1.h"
#include "http/chars.h"

static bool size_digit(struct sl_http1_chunked *c, int digit, const struct sl_front_limits *limits,
		       unsigned *status)
{
	/* Leading zeros count: a size can neither be endless nor overflow. */
	if (c->digits == 16) {
		*status = 400;
		return false;
	}
	c->digits++;
	c->left = c->left << 4 | (unsigned)digit;
	if (!c->unbounded &&
	    (c->left > limits->max_body || c->total > limits->max_body - c->left)) {
		*status = 413;
		return false;
	}
	return true;
}

/*
 * Next state, or -1. Extensions must match RFC 9112 7.1.1, with BWS (RFC 9110 5.6.3) around ";" and
 * "=", and before the line end.
 */
static int parse_extension(struct sl_http1_chunked *c, uint8_t b)
{
	bool token = sl_http_is(b, SL_CT_TOKEN), blank = b == ' ' || b == '\t';

	if (++c->extra > SL_HTTP1_CHUNK_EXT_MAX)
		return -1;
	switch (c->state) {
	case SL_CHUNKED_EXT:
		if (blank)
			return SL_CHUNKED_EXT;
		return token ? SL_CHUNKED_EXT_NAME : -1;
	case SL_CHUNKED_EXT_NAME:
		if (token)
			return SL_CHUNKED_EXT_NAME;
		if (blank)
			return SL_CHUNKED_EXT_NAME_OVER;
		if (b == '=')
			return SL_CHUNKED_EXT_VALUE;
		break;
	case SL_CHUNKED_EXT_NAME_OVER:
		if (blank)
			return SL_CHUNKED_EXT_NAME_OVER;
		if (b == '=')
			return SL_CHUNKED_EXT_VALUE;
		break;
	case SL_CHUNKED_EXT_VALUE:
		if (blank)
			return SL_CHUNKED_EXT_VALUE;
		if (b == '"')
			return SL_CHUNKED_EXT_QUOTED;
		return token ? SL_CHUNKED_EXT_TOKEN : -1;
	case SL_CHUNKED_EXT_TOKEN:
		if (token)
			return SL_CHUNKED_EXT_TOKEN;
		if (blank)
			return SL_CHUNKED_EXT_OVER;
		break;
	case SL_CHUNKED_EXT_QUOTED:
		if (b == '"')
			return SL_CHUNKED_EXT_OVER;
		if (b == '\\')
			return SL_CHUNKED_EXT_PAIR;
		return sl_http_is(b, SL_CT_VALUE) ? SL_CHUNKED_EXT_QUOTED : -1;
	case SL_CHUNKED_EXT_PAIR: return sl_http_is(b, SL_CT_VALUE) ? SL_CHUNKED_EXT_QUOTED : -1;
	default:
		if (blank)
			return SL_CHUNKED_EXT_OVER;
		break;
	}
	if (b == ';')
		return SL_CHUNKED_EXT;
	return b == '\r' ? SL_CHUNKED_SIZE_LF : -1;
}

static int size_line(struct sl_http1_chunked *c, uint8_t b, const struct sl_front_limits *limits,
		     unsigned *status)
{
	int digit = sl_hex_digit(b);

	if (c->state == SL_CHUNKED_SIZE) {
		if (digit >= 0)
			return size_digit(c, digit, limits, status) ? SL_CHUNKED_SIZE : -1;
		if (!c->digits)
			return -1;
		if (b == ' ' || b == '\t')
			return SL_CHUNKED_EXT_OVER;
		if (b == ';')
			return SL_CHUNKED_EXT;
		return b == '\r' ? SL_CHUNKED_SIZE_LF : -1;
	}
	if (b != '\n')
		return -1;
	c->digits = 0;
	c->total += c->left;
	if (c->left)
		return SL_CHUNKED_DATA;
	c->extra = 0;
	return SL_CHUNKED_TRAILER;
}

/* Checked like header fields, and ignored. */
static int parse_trailer(struct sl_http1_chunked *c, uint8_t b,
			 const struct sl_front_limits *limits, unsigned *status)
{
	if (++c->extra > limits->max_head) {
		*status = 431;
		return -1;
	}
	switch (c->state) {
	case SL_CHUNKED_TRAILER:
		if (b == '\r')
			return SL_CHUNKED_LAST_LF;
		return sl_http_is(b, SL_CT_TOKEN) ? SL_CHUNKED_TRAILER_NAME : -1;
	case SL_CHUNKED_TRAILER_NAME:
		if (b == ':')
			return SL_CHUNKED_TRAILER_VALUE;
		return sl_http_is(b, SL_CT_TOKEN) ? SL_CHUNKED_TRAILER_NAME : -1;
	case SL_CHUNKED_TRAILER_VALUE:
		if (b == '\r')
			return SL_CHUNKED_TRAILER_LF;
		return sl_http_is(b, SL_CT_VALUE) ? SL_CHUNKED_TRAILER_VALUE : -1;
	case SL_CHUNKED_TRAILER_LF: return b == '\n' ? SL_CHUNKED_TRAILER : -1;
	default: return b == '\n' ? SL_CHUNKED_DONE : -1;
	}
}

static int next_state(struct sl_http1_chunked *c, uint8_t b, const struct sl_front_limits *limits,
		      unsigned *status)
{
	switch (c->state) {
	case SL_CHUNKED_SIZE:
	case SL_CHUNKED_SIZE_LF: return size_line(c, b, limits, status);
	case SL_CHUNKED_DATA_CR: return b == '\r' ? SL_CHUNKED_DATA_LF : -1;
	case SL_CHUNKED_DATA_LF: return b == '\n' ? SL_CHUNKED_SIZE : -1;
	default: break;
	}
	return c->state < SL_CHUNKED_DATA ? parse_extension(c, b)
					  : parse_trailer(c, b, limits, status);
}

size_t sl_http1_chunked_next(struct sl_http1_chunked *c, struct sl_span in,
			     const struct sl_front_limits *limits, unsigned *status)
{
	size_t i = 0;
	int next;

	*status = 0;
	if (c->state == SL_CHUNKED_DATA && c->left == 0)
		c->state = SL_CHUNKED_DATA_CR;
	while (i < in.len && c->state != SL_CHUNKED_DATA && c->state != SL_CHUNKED_DONE &&
	       !(c->stops && c->state == SL_CHUNKED_TRAILER)) {
		next = next_state(c, in.ptr[i++], limits, status);
		if (next < 0) {
			if (!*status)
				*status = 400;
			break;
		}
		c->state = (uint8_t)next;
	}
	return i;
}
