/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include "unit.h"
#include "suite.h"

/*
 * Key 00..0f, input 00..len-1. 2-4: appendix A of the paper and its authors' table; 1-3: computed
 * with OpenSSL's implementation (`openssl mac -macopt c-rounds:1 -macopt d-rounds:3 SIPHASH`).
 */
static const struct {
	size_t len;
	uint64_t h24, h13;
} vectors[] = {
	{0, UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0xabac0158050fc4dc)},
	{1, UINT64_C(0x74f839c593dc67fd), UINT64_C(0xc9f49bf37d57ca93)},
	{7, UINT64_C(0xab0200f58b01d137), UINT64_C(0xd3927d989bb11140)},
	{8, UINT64_C(0x93f5f5799a932462), UINT64_C(0x369095118d299a8e)},
	{15, UINT64_C(0xa129ca6149be45e5), UINT64_C(0xd320d86d2a519956)},
	{16, UINT64_C(0x3f2acc7f57c29bdb), UINT64_C(0xcc4fdd1a7d908b66)},
	{63, UINT64_C(0x958a324ceb064572), UINT64_C(0x9d199062b7bbb3a8)},
};

TEST(the_reference_vectors_are_met)
{
	uint8_t bytes[64];
	struct sl_sipkey key;

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	key = sl_sipkey_from(bytes);
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const uint8_t *in = flush_copy(bytes, vectors[i].len);

		ck_assert_uint_eq(sl_siphash24(&key, in, vectors[i].len), vectors[i].h24);
		ck_assert_uint_eq(sl_siphash13(&key, in, vectors[i].len), vectors[i].h13);
	}
}

TEST(words_hash_like_their_bytes)
{
	uint64_t w[40];
	struct sl_sipkey key = {1, 2};

	for (unsigned i = 0; i < 40; i++)
		w[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	/* 32 words are 256 bytes, whose length byte wraps. */
	for (size_t n = 0; n <= 40; n++)
		ck_assert_uint_eq(sl_siphash13_words(&key, w, n), sl_siphash13(&key, w, n * 8));
}
