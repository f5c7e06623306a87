/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fnv.h"

#include "suite.h"

/* Vectors of the authors, http://www.isthe.com/chongo/src/fnv/test_fnv.c. */
TEST(the_reference_vectors_are_met)
{
	ck_assert_uint_eq(sl_fnv32(SL_FNV32, "", 0), UINT32_C(0x811c9dc5));
	ck_assert_uint_eq(sl_fnv32(SL_FNV32, "a", 1), UINT32_C(0xe40c292c));
	ck_assert_uint_eq(sl_fnv32(SL_FNV32, "foobar", 6), UINT32_C(0xbf9cf968));
	ck_assert_uint_eq(sl_fnv64(SL_FNV64, "", 0), UINT64_C(0xcbf29ce484222325));
	ck_assert_uint_eq(sl_fnv64(SL_FNV64, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
	ck_assert_uint_eq(sl_fnv64(SL_FNV64, "foobar", 6), UINT64_C(0x85944171f73967e8));
}

TEST(a_hash_goes_on)
{
	ck_assert_uint_eq(sl_fnv32(sl_fnv32(SL_FNV32, "foo", 3), "bar", 3),
			  sl_fnv32(SL_FNV32, "foobar", 6));
	ck_assert_uint_eq(sl_fnv64(sl_fnv64(SL_FNV64, "foo", 3), "bar", 3),
			  sl_fnv64(SL_FNV64, "foobar", 6));
}
