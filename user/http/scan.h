/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the end of a name, value or target: 16 bytes a step with SSE2, by table elsewhere. `lo` is
 * the start of the buffer. Reads only [lo, end).
 */
#ifndef SL_HTTP_SCAN_H
#define SL_HTTP_SCAN_H

#include "http/chars.h"

/* Returns the first byte that is not in the class, or `end`. */
static inline const uint8_t *sl_scan_table(const uint8_t *p, const uint8_t *end, uint8_t class)
{
	while (p < end && sl_http_is(*p, class))
		p++;
	return p;
}

#if defined(__SSE2__) && !defined(SL_SCAN_SCALAR)
#include <emmintrin.h>

#define SL_SCAN_INLINE static inline __attribute__((always_inline))

/* Compares each byte: 0xff where equal. */
SL_SCAN_INLINE __m128i sl_scan_eq(__m128i v, char c)
{
	return _mm_cmpeq_epi8(v, _mm_set1_epi8(c));
}

/* Control bytes except TAB, and DEL. */
SL_SCAN_INLINE unsigned sl_stop_value(__m128i v)
{
	__m128i ctl = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x1f)), v);
	__m128i stop =
		_mm_or_si128(_mm_andnot_si128(sl_scan_eq(v, '\t'), ctl), sl_scan_eq(v, 0x7f));

	return (unsigned)_mm_movemask_epi8(stop);
}

/* All but letters, digits and '-'. */
SL_SCAN_INLINE unsigned sl_stop_name(__m128i v)
{
	__m128i alpha = _mm_sub_epi8(_mm_or_si128(v, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
	__m128i digit = _mm_sub_epi8(v, _mm_set1_epi8('0'));
	__m128i is_alpha = _mm_cmpeq_epi8(_mm_min_epu8(alpha, _mm_set1_epi8(25)), alpha);
	__m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit);
	__m128i go = _mm_or_si128(_mm_or_si128(is_alpha, is_digit), sl_scan_eq(v, '-'));

	return (unsigned)_mm_movemask_epi8(go) ^ 0xffff;
}

/* Blanks, control bytes, and '#'. */
SL_SCAN_INLINE unsigned sl_stop_target(__m128i v)
{
	__m128i ctl = _mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(0x20)), v);
	__m128i stop = _mm_or_si128(sl_scan_eq(v, '#'), sl_scan_eq(v, 0x7f));

	return (unsigned)_mm_movemask_epi8(_mm_or_si128(stop, ctl));
}

/* Loads 16 bytes. */
SL_SCAN_INLINE __m128i sl_scan_load(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}
/* Like sl_scan_table(); stop() returns a bit for each byte that may end it. */
SL_SCAN_INLINE const uint8_t *sl_scan(const uint8_t *p, const uint8_t *lo, const uint8_t *end,
				      unsigned (*stop)(__m128i), uint8_t class)
{
	unsigned hit;

	for (; end - p >= 16; p += 16) {
		hit = stop(sl_scan_load(p));
		if (hit)
			return p + __builtin_ctz(hit);
	}
	if (end - lo < 16)
		return sl_scan_table(p, end, class);
	if (p == end)
		return end;
	hit = stop(sl_scan_load(end - 16)) >> (16 - (end - p));
	return hit ? p + __builtin_ctz(hit) : end;
}

/* Return the end of a field value, token or target. */
static inline const uint8_t *sl_scan_value(const uint8_t *p, const uint8_t *lo, const uint8_t *end)
{
	return sl_scan(p, lo, end, sl_stop_value, SL_CT_VALUE);
}
static inline const uint8_t *sl_scan_token(const uint8_t *p, const uint8_t *lo, const uint8_t *end)
{
	p = sl_scan(p, lo, end, sl_stop_name, SL_CT_TOKEN);
	return p < end && *p != ':' ? sl_scan_table(p, end, SL_CT_TOKEN) : p;
}
static inline const uint8_t *sl_scan_target(const uint8_t *p, const uint8_t *lo, const uint8_t *end)
{
	return sl_scan(p, lo, end, sl_stop_target, SL_CT_TARGET);
}

#else

static inline const uint8_t *sl_scan_value(const uint8_t *p, const uint8_t *lo, const uint8_t *end)
{
	(void)lo;
	return sl_scan_table(p, end, SL_CT_VALUE);
}

static inline const uint8_t *sl_scan_token(const uint8_t *p, const uint8_t *lo, const uint8_t *end)
{
	(void)lo;
	return sl_scan_table(p, end, SL_CT_TOKEN);
}

static inline const uint8_t *sl_scan_target(const uint8_t *p, const uint8_t *lo, const uint8_t *end)
{
	(void)lo;
	return sl_scan_table(p, end, SL_CT_TARGET);
}

#endif

#endif
