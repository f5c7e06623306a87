/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strict numbers: digits only, without sign, blanks or prefix. Leading zeros are allowed. Returns
 * 0, -EINVAL (empty, or another character) or -ERANGE; writes the result only with 0.
 */
#ifndef SL_BASE_NUM_H
#define SL_BASE_NUM_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/* Parse decimal or hexadecimal digits; _max: decimal, at most `max`. */
int sl_parse_u64(struct sl_span s, uint64_t *v);
int sl_parse_hex_u64(struct sl_span s, uint64_t *v);
int sl_parse_u64_max(struct sl_span s, uint64_t max, uint64_t *v);

/* Returns a digit's value, or -1. */
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

/* Same, hexadecimal, without leading zeros. */
size_t sl_format_hex_u64(char buf[SL_HEX_DIGITS], uint64_t v);

#endif
