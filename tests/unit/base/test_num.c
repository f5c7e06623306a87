/* SPDX-License-Identifier: Apache-2.0 */
#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/rand.h"
#include "unit.h"
#include "suite.h"

static int parse(int (*fn)(struct sl_span, uint64_t *), const char *text, uint64_t *v)
{
	size_t len = strlen(text);

	*v = 77;
	return fn(sl_span_of(flush_copy(text, len), len), v);
}

TEST(decimal_is_strict)
{
	static const char *const bad[] = {"",    "-1", "+1", " 1", "1 ",
					  "0x1", "1a", "/",  ":",  "99999999999999999999a"};
	uint64_t v;

	ck_assert_int_eq(parse(sl_parse_u64, "0", &v), 0);
	ck_assert_uint_eq(v, 0);
	ck_assert_int_eq(parse(sl_parse_u64, "18446744073709551615", &v), 0);
	ck_assert_uint_eq(v, UINT64_MAX);
	ck_assert_int_eq(parse(sl_parse_u64, "000000000000000000000000007", &v), 0);
	ck_assert_uint_eq(v, 7);
	ck_assert_int_eq(parse(sl_parse_u64, "18446744073709551616", &v), -ERANGE);
	ck_assert_int_eq(parse(sl_parse_u64, "20000000000000000000", &v), -ERANGE);
	ck_assert_int_eq(parse(sl_parse_u64, "184467440737095516150", &v), -ERANGE);
	ck_assert_uint_eq(v, 77);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(parse(sl_parse_u64, bad[i], &v), -EINVAL);
	ck_assert_int_eq(sl_parse_u64_max(sl_span_str("100"), 100, &v), 0);
	ck_assert_int_eq(sl_parse_u64_max(sl_span_str("101"), 100, &v), -ERANGE);
	ck_assert_uint_eq(v, 100);
}

TEST(hexadecimal_is_strict)
{
	static const char *const bad[] = {"", "0x1", "g", "G", "@", "`", "/", ":", "-1", "1;"};
	uint64_t v;

	ck_assert_int_eq(parse(sl_parse_hex_u64, "aBcDeF09", &v), 0);
	ck_assert_uint_eq(v, 0xabcdef09);
	ck_assert_int_eq(parse(sl_parse_hex_u64, "0ffffffffffffffff", &v), 0);
	ck_assert_uint_eq(v, UINT64_MAX);
	ck_assert_int_eq(parse(sl_parse_hex_u64, "10000000000000000", &v), -ERANGE);
	ck_assert_uint_eq(v, 77);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(parse(sl_parse_hex_u64, bad[i], &v), -EINVAL);
}

TEST(formats_like_printf)
{
	char want[32];
	char *dec = (char *)flush_with_guard(SL_U64_DIGITS);
	char *hex = (char *)flush_with_guard(SL_HEX_DIGITS);
	struct sl_prng r;

	sl_prng_seed(&r, 7);
	for (int i = 0; i < 20000; i++) {
		uint64_t v = sl_prng_u64(&r) >> (i % 64);
		int n;

		if (i < 3)
			v = (uint64_t[]){0, UINT64_MAX, 10}[i];
		n = snprintf(want, sizeof(want), "%" PRIu64, v);
		ck_assert_uint_eq(sl_format_u64(dec, v), (size_t)n);
		ck_assert_mem_eq(dec, want, (size_t)n);
		n = snprintf(want, sizeof(want), "%" PRIx64, v);
		ck_assert_uint_eq(sl_format_hex_u64(hex, v), (size_t)n);
		ck_assert_mem_eq(hex, want, (size_t)n);
	}
}
