/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict numbers from spans, as in Content-Length and chunk sizes: digits only, without sign,
 * blanks or prefix. Leading zeros are allowed. Returns 0, -EINVAL (empty, or another character) or
 * -ERANGE; writes the result only with 0.
 */
#ifndef SL_BASE_NUM_H
#define SL_BASE_NUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

int sl_parse_u64(struct sl_span s, uint64_t *v);
int sl_parse_hex_u64(struct sl_span s, uint64_t *v);

/* Returns -ERANGE also above max. */
int sl_parse_u64_max(struct sl_span s, uint64_t max, uint64_t *v);

/* Returns the value of a hexadecimal digit of either case; -1 if it is none. */
static inline int sl_hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#define SL_U64_DIGITS 20
#define SL_HEX_DIGITS 16

/* Writes decimal digits without NUL; returns their number. */
size_t sl_format_u64(char buf[SL_U64_DIGITS], uint64_t v);

/* Writes lower-case hexadecimal digits without leading zeros and NUL; returns their number. */
size_t sl_format_hex_u64(char buf[SL_HEX_DIGITS], uint64_t v);

#endif
