/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ciphers of TLS 1.3's records, RFC 8446 5.2: bytes in, bytes out, in place. OpenSSL's EVP asks
 * so many questions for each record that a small one takes six times as long as with this, which is
 * Intel's library of functions per cipher; that one chooses its code by the processor at the start.
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

enum { SL_AEAD_TAG = 16, SL_AEAD_NONCE = 12, SL_AEAD_AAD = 5, SL_AEAD_KEY_BYTES = 1008 };

/* A key made ready: round keys, powers of the hash's key. As secret as itself. */
struct sl_aead_key {
	_Alignas(16) uint8_t bytes[SL_AEAD_KEY_BYTES];
};

/* A record's content, wherever its pieces lie. */
struct sl_tls_piece {
	uint8_t *ptr;
	size_t len;
};

struct sl_aead;

/* Whether this processor can do it: the library wants AES-NI and PCLMULQDQ. */
bool sl_aead_supported(void);
/* For one thread. NULL: no memory, or not supported. */
struct sl_aead *sl_aead_new(void);
void sl_aead_free(struct sl_aead *a);

void sl_aead_set_key(const struct sl_aead *a, enum sl_tls_suite suite, const uint8_t *key,
		     struct sl_aead_key *out);
void sl_aead_seal(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  uint8_t *bytes, size_t len, uint8_t tag[SL_AEAD_TAG]);
/* Of the first len bytes of the pieces; the tag is the caller's to compare. */
void sl_aead_open(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  const struct sl_tls_piece *pieces, size_t len, uint8_t tag[SL_AEAD_TAG]);

#endif
