/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict numbers from spans, as peers send them (Content-Length, chunk sizes): digits and nothing
 * else, no sign, no blanks, no prefix. 0, -EINVAL (empty or another character) or -ERANGE; the
 * result is written only on 0. Leading zeros are allowed, however many.
 */
#ifndef SL_BASE_NUM_H
#define SL_BASE_NUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

int sl_parse_u64(struct sl_span s, uint64_t *v);
int sl_parse_hex_u64(struct sl_span s, uint64_t *v);

/* -ERANGE also when above max. */
int sl_parse_u64_max(struct sl_span s, uint64_t max, uint64_t *v);

/* Value of a hexadecimal digit of either case, -1 if it is none. */
static inline int sl_hex_digit(uint8_t c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#define SL_U64_DIGITS 20
#define SL_HEX_DIGITS 16

/* Decimal digits without NUL; returns how many. */
size_t sl_format_u64(char buf[SL_U64_DIGITS], uint64_t v);

/* Lower-case hexadecimal without leading zeros and NUL; returns how many. */
size_t sl_format_hex_u64(char buf[SL_HEX_DIGITS], uint64_t v);

#endif
