/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"

#include <errno.h>

int sl_parse_u64(struct sl_span s, uint64_t *v)
{
	return sl_parse_u64_max(s, UINT64_MAX, v);
}

int sl_parse_u64_max(struct sl_span s, uint64_t max, uint64_t *v)
{
	uint64_t n = 0;
	bool over = false;

	if (s.len == 0)
		return -EINVAL;
	for (size_t i = 0; i < s.len; i++) {
		unsigned digit = s.ptr[i] - (unsigned)'0';

		if (digit > 9)
			return -EINVAL;
		over |= __builtin_mul_overflow(n, UINT64_C(10), &n);
		over |= __builtin_add_overflow(n, (uint64_t)digit, &n);
	}
	if (over || n > max)
		return -ERANGE;
	*v = n;
	return 0;
}

int sl_parse_hex_u64(struct sl_span s, uint64_t *v)
{
	uint64_t n = 0;
	bool over = false;

	if (s.len == 0)
		return -EINVAL;
	for (size_t i = 0; i < s.len; i++) {
		int digit = sl_hex_digit(s.ptr[i]);

		if (digit < 0)
			return -EINVAL;
		over |= n >> 60 != 0;
		n = n << 4 | (uint64_t)digit;
	}
	if (over)
		return -ERANGE;
	*v = n;
	return 0;
}

static const char digit_pairs[] = "00010203040506070809"
				  "10111213141516171819"
				  "20212223242526272829"
				  "30313233343536373839"
				  "40414243444546474849"
				  "50515253545556575859"
				  "60616263646566676869"
				  "70717273747576777879"
				  "80818283848586878889"
				  "90919293949596979899";

/* 1233 / 4096 is little more than log10(2). */
static size_t count_digits(uint64_t v)
{
	static const uint64_t powers[] = {
		1u,
		10u,
		100u,
		1000u,
		10000u,
		100000u,
		1000000u,
		10000000u,
		100000000u,
		1000000000u,
		10000000000u,
		100000000000u,
		1000000000000u,
		10000000000000u,
		100000000000000u,
		1000000000000000u,
		10000000000000000u,
		100000000000000000u,
		1000000000000000000u,
		10000000000000000000u,
	};
	size_t log = (64u - (unsigned)__builtin_clzll(v | 1)) * 1233 >> 12;

	return log + ((v | 1) >= powers[log]);
}

size_t sl_format_u64(char buf[SL_U64_DIGITS], uint64_t v)
{
	size_t cnt = count_digits(v), at = cnt;

	while (v >= 100) {
		at -= 2;
		memcpy(buf + at, &digit_pairs[v % 100 * 2], 2);
		v /= 100;
	}
	if (v >= 10)
		memcpy(buf, &digit_pairs[v * 2], 2);
	else
		buf[0] = (char)('0' + v);
	return cnt;
}

size_t sl_format_hex_u64(char buf[SL_HEX_DIGITS], uint64_t v)
{
	size_t n = (67 - (size_t)__builtin_clzll(v | 1)) / 4;

	for (size_t i = n; i-- > 0; v >>= 4)
		buf[i] = "0123456789abcdef"[v & 15];
	return n;
}
