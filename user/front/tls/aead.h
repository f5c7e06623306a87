/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ciphers of TLS 1.3 records (RFC 8446 5.2), in place.
 *
 * The Makefile variable AEAD selects aead_ipsec_mb.c (Intel's libipsec-mb, x86-64) or
 * aead_openssl.c (OpenSSL's EVP, several times slower for a small record). Tests:
 * tests/unit/front/test_tls_record.c, for both.
 */
#ifndef SL_FRONT_TLS_AEAD_H
#define SL_FRONT_TLS_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sl_tls_suite {
	SL_TLS_AES_128_GCM_SHA256,
	SL_TLS_AES_256_GCM_SHA384,
	SL_TLS_CHACHA20_POLY1305_SHA256,
	SL_TLS_SUITE_CNT
};

/*
 * SL_AEAD_KEY_BYTES holds the largest gcm_key_data (libipsec-mb 2.0). The owner that
 * record.c stores beside it fills the last cache line.
 */
enum { SL_AEAD_TAG = 16, SL_AEAD_NONCE = 12, SL_AEAD_AAD = 5, SL_AEAD_KEY_BYTES = 1264 };

/* Round keys and powers of the hash key. As secret as the key. */
struct sl_aead_key {
	_Alignas(16) uint8_t bytes[SL_AEAD_KEY_BYTES];
};

struct sl_tls_piece {
	uint8_t *ptr;
	size_t len;
};

struct sl_aead;

/* Returns true if the processor has the instructions that the library needs. */
bool sl_aead_supported(void);
const char *sl_aead_library(void);
/* Returns ciphers for one thread. NULL: no memory or processor support. */
struct sl_aead *sl_aead_new(void);
void sl_aead_free(struct sl_aead *a);

/* Expands a traffic key into `out`. */
void sl_aead_set_key(const struct sl_aead *a, enum sl_tls_suite suite, const uint8_t *key,
		     struct sl_aead_key *out);
void sl_aead_seal(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  uint8_t *bytes, size_t len, uint8_t tag[SL_AEAD_TAG]);
/*
 * Decrypts `len` bytes of the pieces. Returns true if the tag matches; otherwise the bytes must not
 * be used.
 */
bool sl_aead_open(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  const struct sl_tls_piece *pieces, size_t len, const uint8_t tag[SL_AEAD_TAG]);

#endif
