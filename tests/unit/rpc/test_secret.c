/* SPDX-License-Identifier: Apache-2.0 */
/* The proof that two ends have the same key, held against RFC 4231 and against OpenSSL's HMAC. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include "base/check.h"
#include "rpc/secret.h"
#include "suite.h"

static struct sl_secret secret_of(uint8_t byte, size_t len)
{
	struct sl_secret s = {.len = len};

	memset(s.bytes, byte, len);
	return s;
}

/* RFC 4231, 4.2 and 4.7: a key shorter than a block, and one that is longer. */
TEST(the_vectors_of_the_rfc_hold)
{
	static const char long_text[] = "Test Using Larger Than Block-Size Key - Hash Key First";
	static const uint8_t of_short[] = {0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53,
					   0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
					   0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7,
					   0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7};
	static const uint8_t of_long[] = {0x60, 0xe4, 0x31, 0x59, 0x1e, 0xe0, 0xb6, 0x7f,
					  0x0d, 0x8a, 0x26, 0xaa, 0xcb, 0xf5, 0xb7, 0x7f,
					  0x8e, 0x0b, 0xc6, 0x21, 0x37, 0x28, 0xc5, 0x14,
					  0x05, 0x46, 0x04, 0x0f, 0x0e, 0xe3, 0x7f, 0x54};
	struct sl_secret s = secret_of(0x0b, 20);
	uint8_t mac[SL_SECRET_MAC_LEN];

	ck_assert_int_eq(sl_secret_mac(&s, "Hi There", 8, mac), 0);
	ck_assert_mem_eq(mac, of_short, sizeof(mac));
	s = secret_of(0xaa, 131);
	ck_assert_int_eq(sl_secret_mac(&s, long_text, strlen(long_text), mac), 0);
	ck_assert_mem_eq(mac, of_long, sizeof(mac));
}

TEST(every_length_of_key_is_what_the_library_makes_of_it)
{
	static const size_t lens[] = {SL_KEY_MIN, 63, 64, 65, SL_KEY_MAX};
	uint8_t text[200], mac[SL_SECRET_MAC_LEN], want[SL_SECRET_MAC_LEN];
	unsigned want_len;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)(i * 7);
	for (unsigned i = 0; i < SL_ARRAY_LEN(lens); i++) {
		struct sl_secret s = secret_of((uint8_t)(0x30 + i), lens[i]);

		for (size_t len = 0; len <= sizeof(text); len += 25) {
			ck_assert_ptr_nonnull(HMAC(EVP_sha256(), s.bytes, (int)s.len, text, len,
						   want, &want_len));
			ck_assert_int_eq(sl_secret_mac(&s, text, len, mac), 0);
			ck_assert_mem_eq(mac, want, sizeof(mac));
		}
	}
}
