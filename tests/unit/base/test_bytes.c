/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include "unit.h"
#include "suite.h"

static const struct sl_span literal = SL_SPAN_LIT("abc");

TEST(two_spans_are_equal_when_their_bytes_are)
{
	ck_assert(sl_span_eq(literal, sl_span_cstr("abc")));
	ck_assert(!sl_span_eq(literal, sl_span_str("abd")));
	ck_assert(!sl_span_eq(literal, sl_span_str("ab")));
	ck_assert(sl_span_eq(sl_span_of(NULL, 0), sl_span_str("")));
	ck_assert(sl_span_eq_nocase(sl_span_str("Content-LENGTH"), sl_span_str("content-length")));
	/* '@' and '`', '[' and '{' differ by the case bit, but are no letters. */
	ck_assert(!sl_span_eq_nocase(sl_span_str("@["), sl_span_str("`{")));
	ck_assert(!sl_span_eq_nocase(sl_span_str("\xc4"), sl_span_str("\xe4")));
	ck_assert(!sl_span_eq_nocase(sl_span_str("ab"), sl_span_str("abc")));
	ck_assert(sl_span_starts(literal, sl_span_str("ab")));
	ck_assert(!sl_span_starts(sl_span_first(literal, 2), literal));
}

TEST(spans_skip_and_cut)
{
	ck_assert(sl_span_eq(sl_span_skip(literal, 1), sl_span_str("bc")));
	ck_assert_uint_eq(sl_span_skip(literal, 4).len, 0);
	ck_assert_ptr_eq(sl_span_skip(literal, 9).ptr, literal.ptr + 3);
	ck_assert_uint_eq(sl_span_skip(sl_span_of(NULL, 0), 5).len, 0);
	ck_assert_uint_eq(sl_span_first(literal, 2).len, 2);
	ck_assert_uint_eq(sl_span_first(literal, 9).len, 3);
}

TEST(integers_have_their_order_at_any_alignment)
{
	static const uint8_t b[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
	uint8_t out[9];

	ck_assert_uint_eq(sl_get_le16(b + 1), 0x0201);
	ck_assert_uint_eq(sl_get_be16(b + 1), 0x0102);
	ck_assert_uint_eq(sl_get_be24(b + 1), 0x010203);
	ck_assert_uint_eq(sl_get_le32(b + 1), 0x04030201);
	ck_assert_uint_eq(sl_get_be32(b + 1), 0x01020304);
	ck_assert_uint_eq(sl_get_le64(b + 1), UINT64_C(0x0807060504030201));
	ck_assert_uint_eq(sl_get_be64(b + 1), UINT64_C(0x0102030405060708));
	sl_put_be64(out + 1, UINT64_C(0x0102030405060708));
	ck_assert_mem_eq(out + 1, b + 1, 8);
	sl_put_le64(out + 1, UINT64_C(0x0807060504030201));
	ck_assert_mem_eq(out + 1, b + 1, 8);
	sl_put_be32(out + 1, 0x01020304);
	sl_put_le16(out + 5, 0x0605);
	ck_assert_mem_eq(out + 1, b + 1, 6);
	sl_put_be16(out + 4, 0x0405);
	ck_assert_mem_eq(out + 1, b + 1, 5);
}
