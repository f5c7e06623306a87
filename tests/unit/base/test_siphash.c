/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include <string.h>

#include "unit.h"
#include "suite.h"

/*
 * Key 00..0f, input 00..len-1. 2-4: appendix A of the paper and its authors' table; 1-3: computed
 * with OpenSSL's implementation (`openssl mac -macopt c-rounds:1 -macopt d-rounds:3 SIPHASH`).
 */
static const struct {
	size_t len;
	uint64_t h24, h13; /* h13: of whole words */
} vectors[] = {
	{0, UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0xabac0158050fc4dc)},
	{1, UINT64_C(0x74f839c593dc67fd), 0},
	{7, UINT64_C(0xab0200f58b01d137), 0},
	{8, UINT64_C(0x93f5f5799a932462), UINT64_C(0x369095118d299a8e)},
	{15, UINT64_C(0xa129ca6149be45e5), 0},
	{16, UINT64_C(0x3f2acc7f57c29bdb), UINT64_C(0xcc4fdd1a7d908b66)},
	{63, UINT64_C(0x958a324ceb064572), 0},
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
	}
}

TEST(words_meet_them_too)
{
	uint8_t bytes[64];
	struct sl_sipkey key;
	uint64_t w[8];

	for (unsigned i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)i;
	key = sl_sipkey_from(bytes);
	memcpy(w, bytes, sizeof(w));
	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		if (vectors[i].h13)
			ck_assert_uint_eq(sl_siphash13_words(&key, w, vectors[i].len / 8),
					  vectors[i].h13);
	}
}

/* 32 words are 256 bytes, whose length byte wraps; values as of SipHash-1-3 over the bytes. */
TEST(the_length_of_many_words_wraps)
{
	uint64_t w[40];
	struct sl_sipkey key = {1, 2};

	for (unsigned i = 0; i < 40; i++)
		w[i] = i * UINT64_C(0x9e3779b97f4a7c15);
	ck_assert_uint_eq(sl_siphash13_words(&key, w, 32), UINT64_C(0xdb0630feeeaaf4e9));
	ck_assert_uint_eq(sl_siphash13_words(&key, w, 40), UINT64_C(0xe85b132821d06f52));
}
