/* SPDX-License-Identifier: Apache-2.0 */
#include "front/tls/aead.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* OpenSSL expands the key for each record. */
enum { KEY_MAX = 32 };
_Static_assert(sizeof(struct sl_aead_key) >= KEY_MAX, "a key fits");

static const struct {
	const char *name;
	size_t key_len;
} algorithms[SL_TLS_SUITE_CNT] = {
	[SL_TLS_AES_128_GCM_SHA256] = {"AES-128-GCM", 16},
	[SL_TLS_AES_256_GCM_SHA384] = {"AES-256-GCM", 32},
	[SL_TLS_CHACHA20_POLY1305_SHA256] = {"ChaCha20-Poly1305", 32},
};

struct sl_aead {
	EVP_CIPHER_CTX *seal[SL_TLS_SUITE_CNT], *open[SL_TLS_SUITE_CNT];
};

bool sl_aead_supported(void)
{
	return true;
}

const char *sl_aead_library(void)
{
	return "OpenSSL";
}

static EVP_CIPHER_CTX *new_context(const EVP_CIPHER *cipher, int is_seal)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();

	if (ctx && EVP_CipherInit_ex2(ctx, cipher, NULL, NULL, is_seal, NULL) == 1)
		return ctx;
	EVP_CIPHER_CTX_free(ctx);
	return NULL;
}

static bool add_contexts(struct sl_aead *a, enum sl_tls_suite suite)
{
	EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, algorithms[suite].name, NULL);

	if (!cipher)
		return false;
	a->seal[suite] = new_context(cipher, 1);
	a->open[suite] = new_context(cipher, 0);
	EVP_CIPHER_free(cipher);
	return a->seal[suite] && a->open[suite];
}

struct sl_aead *sl_aead_new(void)
{
	struct sl_aead *a = calloc(1, sizeof(*a));

	for (unsigned i = 0; a && i < SL_TLS_SUITE_CNT; i++) {
		if (!add_contexts(a, (enum sl_tls_suite)i)) {
			sl_aead_free(a);
			return NULL;
		}
	}
	return a;
}

void sl_aead_free(struct sl_aead *a)
{
	for (unsigned i = 0; a && i < SL_TLS_SUITE_CNT; i++) {
		EVP_CIPHER_CTX_free(a->seal[i]);
		EVP_CIPHER_CTX_free(a->open[i]);
	}
	free(a);
}

void sl_aead_set_key(const struct sl_aead *a, enum sl_tls_suite suite, const uint8_t *key,
		     struct sl_aead_key *out)
{
	(void)a;
	memcpy(out->bytes, key, algorithms[suite].key_len);
}

static bool start_record(EVP_CIPHER_CTX *ctx, const struct sl_aead_key *key,
			 const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD])
{
	int n;

	return EVP_CipherInit_ex2(ctx, NULL, key->bytes, nonce, -1, NULL) == 1 &&
	       EVP_CipherUpdate(ctx, NULL, &n, aad, SL_AEAD_AAD) == 1;
}

void sl_aead_seal(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  uint8_t *bytes, size_t len, uint8_t tag[SL_AEAD_TAG])
{
	EVP_CIPHER_CTX *ctx = a->seal[suite];
	int n, rest;
	bool ok = start_record(ctx, key, nonce, aad) &&
		  EVP_EncryptUpdate(ctx, bytes, &n, bytes, (int)len) == 1 && (size_t)n == len &&
		  EVP_EncryptFinal_ex(ctx, bytes + len, &rest) == 1 && rest == 0 &&
		  EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, SL_AEAD_TAG, tag) == 1;

	/* Plaintext must not leave. The peer ends the connection at a record of zeros. */
	if (!SL_ENSURE(ok)) {
		memset(bytes, 0, len);
		memset(tag, 0, SL_AEAD_TAG);
	}
}

bool sl_aead_open(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  const struct sl_tls_piece *pieces, size_t len, const uint8_t tag[SL_AEAD_TAG])
{
	EVP_CIPHER_CTX *ctx = a->open[suite];
	uint8_t expected[SL_AEAD_TAG], none[1];
	int n;

	if (!start_record(ctx, key, nonce, aad))
		return false;
	for (; len; pieces++) {
		size_t part = pieces->len < len ? pieces->len : len;

		if (EVP_DecryptUpdate(ctx, pieces->ptr, &n, pieces->ptr, (int)part) != 1)
			return false;
		len -= part;
	}
	memcpy(expected, tag, SL_AEAD_TAG);
	return EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, SL_AEAD_TAG, expected) == 1 &&
	       EVP_DecryptFinal_ex(ctx, none, &n) == 1;
}
