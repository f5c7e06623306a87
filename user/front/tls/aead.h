/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ciphers of TLS 1.3 records (RFC 8446 5.2).
 *
 * The Makefile's AEAD selects aead_ipsec_mb.c (Intel's libipsec-mb, x86-64) or aead_openssl.c (EVP,
 * slower for small records). Tests: tests/unit/front/test_tls_record.c, for both.
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

/* Holds the largest gcm_key_data (libipsec-mb 2.0). */
enum { SL_AEAD_TAG = 16, SL_AEAD_NONCE = 12, SL_AEAD_AAD = 5, SL_AEAD_KEY_BYTES = 1264 };

/* As secret as the key. */
struct sl_aead_key {
	_Alignas(16) uint8_t bytes[SL_AEAD_KEY_BYTES];
};

struct sl_tls_piece {
	uint8_t *ptr;
	size_t len;
};

struct sl_aead;

/* Returns true if the processor has the instructions. */
bool sl_aead_supported(void);
/* Returns its static name. */
const char *sl_aead_library(void);
/* Returns a state for one thread. NULL: no memory or processor support. */
struct sl_aead *sl_aead_new(void);
/* Frees a, which may be NULL. */
void sl_aead_free(struct sl_aead *a);

/* Expand a key; encrypt `bytes` in place, and write the tag. */
void sl_aead_set_key(const struct sl_aead *a, enum sl_tls_suite suite, const uint8_t *key,
		     struct sl_aead_key *out);
void sl_aead_seal(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  uint8_t *bytes, size_t len, uint8_t tag[SL_AEAD_TAG]);
/* Decrypts `len` bytes in pieces. Returns false if the tag is wrong: they must not be used. */
bool sl_aead_open(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  const struct sl_tls_piece *pieces, size_t len, const uint8_t tag[SL_AEAD_TAG]);

#endif
