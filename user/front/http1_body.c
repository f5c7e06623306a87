/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"
#include "front/http1.h"

/*
 * Chunked coding, RFC 9112 7.1. Framing is read byte by byte: there are few of them, and any byte
 * may be the last one of a segment.
 */

static bool size_digit(struct sl_http1_chunked *c, int digit, const struct sl_front_limits *limits,
		       unsigned *status)
{
	/* Leading zeros count as well, so that a size cannot go on for ever; nor can it overflow.
	 */
	if (c->digits == 16) {
		*status = 400;
		return false;
	}
	c->digits++;
	if (c->left >> 60) {
		*status = 413;
		return false;
	}
	c->left = c->left << 4 | (unsigned)digit;
	if (c->left > limits->max_body || c->total > limits->max_body - c->left) {
		*status = 413;
		return false;
	}
	return true;
}

/* The next state after byte b in a state of the chunk-size line; -1: refused. */
static int size_line(struct sl_http1_chunked *c, uint8_t b, const struct sl_front_limits *limits,
		     unsigned *status)
{
	int digit = sl_hex_digit(b);

	*status = 400;
	switch (c->state) {
	case SL_CHUNKED_SIZE:
		if (digit >= 0)
			return size_digit(c, digit, limits, status) ? SL_CHUNKED_SIZE : -1;
		if (!c->digits)
			return -1;
		if (b == ';')
			return SL_CHUNKED_EXT;
		return b == '\r' ? SL_CHUNKED_SIZE_LF : -1;
	case SL_CHUNKED_EXT:
		if (b == '\r')
			return SL_CHUNKED_SIZE_LF;
		c->extra++;
		return sl_http1_is(b, SL_CT_VALUE) && c->extra <= SL_HTTP1_CHUNK_EXT_MAX
			       ? SL_CHUNKED_EXT
			       : -1;
	default: /* SIZE_LF */
		if (b != '\n')
			return -1;
		c->digits = 0;
		c->total += c->left;
		if (c->left)
			return SL_CHUNKED_DATA;
		c->extra = 0; /* trailers have a limit of their own */
		return SL_CHUNKED_TRAILER;
	}
}

/* The same behind the last chunk: trailer fields are checked like header fields, and ignored. */
static int trailer(struct sl_http1_chunked *c, uint8_t b, const struct sl_front_limits *limits,
		   unsigned *status)
{
	*status = 400;
	if (++c->extra > limits->max_head) {
		*status = 431;
		return -1;
	}
	switch (c->state) {
	case SL_CHUNKED_TRAILER:
		if (b == '\r')
			return SL_CHUNKED_LAST_LF;
		return sl_http1_is(b, SL_CT_TOKEN) ? SL_CHUNKED_TRAILER_NAME : -1;
	case SL_CHUNKED_TRAILER_NAME:
		if (b == ':')
			return SL_CHUNKED_TRAILER_VALUE;
		return sl_http1_is(b, SL_CT_TOKEN) ? SL_CHUNKED_TRAILER_NAME : -1;
	case SL_CHUNKED_TRAILER_VALUE:
		if (b == '\r')
			return SL_CHUNKED_TRAILER_LF;
		return sl_http1_is(b, SL_CT_VALUE) ? SL_CHUNKED_TRAILER_VALUE : -1;
	case SL_CHUNKED_TRAILER_LF: return b == '\n' ? SL_CHUNKED_TRAILER : -1;
	default: return b == '\n' ? SL_CHUNKED_DONE : -1; /* LAST_LF */
	}
}

size_t sl_http1_chunked_next(struct sl_http1_chunked *c, struct sl_span in,
			     const struct sl_front_limits *limits, unsigned *status)
{
	size_t i = 0;

	*status = 0;
	if (c->state == SL_CHUNKED_DATA && c->left == 0)
		c->state = SL_CHUNKED_DATA_CR;
	while (i < in.len && c->state != SL_CHUNKED_DATA && c->state != SL_CHUNKED_DONE) {
		uint8_t b = in.ptr[i++];
		int next;

		if (c->state < SL_CHUNKED_DATA)
			next = size_line(c, b, limits, status);
		else if (c->state == SL_CHUNKED_DATA_CR)
			next = b == '\r' ? SL_CHUNKED_DATA_LF : -1;
		else if (c->state == SL_CHUNKED_DATA_LF)
			next = b == '\n' ? SL_CHUNKED_SIZE : -1;
		else
			next = trailer(c, b, limits, status);
		if (next < 0) {
			*status = *status ? *status : 400;
			return i;
		}
		*status = 0;
		c->state = (uint8_t)next;
	}
	return i;
}
