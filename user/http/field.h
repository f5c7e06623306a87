/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_HTTP_FIELD_H
#define SL_HTTP_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"

struct sl_header {
	struct sl_span name; /* requests: as received; compare without case */
	struct sl_span value;
};

/*
 * Compares without case with a lower-case literal of n >= 4 letters, '-' and ':'. Returns true if
 * equal. The name must be a token, perhaps behind a ':'. No other byte of a token equals a letter
 * or '-' after | 0x20.
 */
static inline bool sl_name_is(struct sl_span name, const char *lit, size_t n)
{
	const uint8_t *p = name.ptr;
	uint64_t a, b, diff = 0;
	uint32_t c, d;
	size_t i;

	if (name.len != n)
		return false;
	if (n < 8) { /* two overlapping words */
		memcpy(&c, p, 4);
		memcpy(&d, lit, 4);
		diff = (c | 0x20202020u) ^ d;
		memcpy(&c, &p[n - 4], 4);
		memcpy(&d, &lit[n - 4], 4);
		return !(diff | ((c | 0x20202020u) ^ d));
	}
	for (i = 0; i + 8 <= n; i += 8) {
		memcpy(&a, p + i, 8);
		memcpy(&b, lit + i, 8);
		diff |= (a | 0x2020202020202020u) ^ b;
	}
	memcpy(&a, &p[n - 8], 8);
	memcpy(&b, &lit[n - 8], 8);
	return !(diff | ((a | 0x2020202020202020u) ^ b));
}
/* Fewer than 4 bytes do not compile. */
#define SL_NAME_IS(name, lit)                                                                      \
	sl_name_is((name), (lit), sizeof(lit) - sizeof(char[sizeof(lit) > 4 ? 1 : -1]))

#endif
