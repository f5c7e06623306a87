/* SPDX-License-Identifier: Apache-2.0 */
#include "front/tls/aead.h"

#include <intel-ipsec-mb.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(struct sl_aead_key) >= sizeof(struct gcm_key_data), "the library's key fits");
_Static_assert(_Alignof(struct sl_aead_key) >= _Alignof(struct gcm_key_data), "and is aligned");

enum { CHACHA_KEY = 32 };

struct sl_aead {
	IMB_MGR *lib;
};

struct gcm {
	aes_gcm_init_t init;
	aes_gcm_enc_dec_t seal, open;
	aes_gcm_enc_dec_update_t open_more;
	aes_gcm_enc_dec_finalize_t open_end;
};

bool sl_aead_supported(void)
{
	const uint64_t wants = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ | IMB_FEATURE_SSE4_2;

	return (imb_get_feature_flags() & wants) == wants;
}

const char *sl_aead_library(void)
{
	return "libipsec-mb";
}

struct sl_aead *sl_aead_new(void)
{
	struct sl_aead *a = malloc(sizeof(*a));

	if (!a)
		return NULL;
	a->lib = alloc_mb_mgr(0);
	if (a->lib)
		init_mb_mgr_auto(a->lib, NULL);
	if (a->lib && imb_get_errno(a->lib) == 0)
		return a;
	sl_aead_free(a);
	return NULL;
}

void sl_aead_free(struct sl_aead *a)
{
	if (a && a->lib)
		free_mb_mgr(a->lib);
	free(a);
}

static struct gcm gcm_of(const IMB_MGR *m, enum sl_tls_suite suite)
{
	if (suite == SL_TLS_AES_128_GCM_SHA256)
		return (struct gcm){m->gcm128_init, m->gcm128_enc, m->gcm128_dec,
				    m->gcm128_dec_update, m->gcm128_dec_finalize};
	return (struct gcm){m->gcm256_init, m->gcm256_enc, m->gcm256_dec, m->gcm256_dec_update,
			    m->gcm256_dec_finalize};
}

void sl_aead_set_key(const struct sl_aead *a, enum sl_tls_suite suite, const uint8_t *key,
		     struct sl_aead_key *out)
{
	if (suite == SL_TLS_AES_128_GCM_SHA256)
		IMB_AES128_GCM_PRE(a->lib, key, (struct gcm_key_data *)out);
	else if (suite == SL_TLS_AES_256_GCM_SHA384)
		IMB_AES256_GCM_PRE(a->lib, key, (struct gcm_key_data *)out);
	else
		memcpy(out->bytes, key, CHACHA_KEY);
}

void sl_aead_seal(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  uint8_t *bytes, size_t len, uint8_t tag[SL_AEAD_TAG])
{
	struct chacha20_poly1305_context_data chacha;
	struct gcm_context_data gcm;

	if (suite != SL_TLS_CHACHA20_POLY1305_SHA256) {
		gcm_of(a->lib, suite)
			.seal((const struct gcm_key_data *)key, &gcm, bytes, bytes, len, nonce, aad,
			      SL_AEAD_AAD, tag, SL_AEAD_TAG);
		return;
	}
	IMB_CHACHA20_POLY1305_INIT(a->lib, key->bytes, &chacha, nonce, aad, SL_AEAD_AAD);
	IMB_CHACHA20_POLY1305_ENC_UPDATE(a->lib, key->bytes, &chacha, bytes, bytes, len);
	IMB_CHACHA20_POLY1305_ENC_FINALIZE(a->lib, &chacha, tag, SL_AEAD_TAG);
}

struct opening {
	const struct sl_aead *a;
	enum sl_tls_suite suite;
	const struct sl_aead_key *key;
	union {
		struct gcm_context_data gcm;
		struct chacha20_poly1305_context_data chacha;
	};
};

static void open_pieces(struct opening *o, const struct sl_tls_piece *pieces, size_t len)
{
	for (; len; pieces++) {
		size_t n = pieces->len < len ? pieces->len : len;

		if (o->suite == SL_TLS_CHACHA20_POLY1305_SHA256)
			IMB_CHACHA20_POLY1305_DEC_UPDATE(o->a->lib, o->key->bytes, &o->chacha,
							 pieces->ptr, pieces->ptr, n);
		else
			gcm_of(o->a->lib, o->suite)
				.open_more((const struct gcm_key_data *)o->key, &o->gcm,
					   pieces->ptr, pieces->ptr, n);
		len -= n;
	}
}

bool sl_aead_open(const struct sl_aead *a, enum sl_tls_suite suite, const struct sl_aead_key *key,
		  const uint8_t nonce[SL_AEAD_NONCE], const uint8_t aad[SL_AEAD_AAD],
		  const struct sl_tls_piece *pieces, size_t len, const uint8_t tag[SL_AEAD_TAG])
{
	uint8_t found[SL_AEAD_TAG];
	struct opening o = {.a = a, .suite = suite, .key = key};
	const struct gcm_key_data *keys = (const struct gcm_key_data *)key;
	struct gcm gcm = gcm_of(a->lib, suite);

	if (suite == SL_TLS_CHACHA20_POLY1305_SHA256) {
		IMB_CHACHA20_POLY1305_INIT(a->lib, key->bytes, &o.chacha, nonce, aad, SL_AEAD_AAD);
		open_pieces(&o, pieces, len);
		IMB_CHACHA20_POLY1305_DEC_FINALIZE(a->lib, &o.chacha, found, SL_AEAD_TAG);
	} else if (len <= pieces->len) {
		gcm.open(keys, &o.gcm, pieces->ptr, pieces->ptr, len, nonce, aad, SL_AEAD_AAD,
			 found, SL_AEAD_TAG);
	} else {
		gcm.init(keys, &o.gcm, nonce, aad, SL_AEAD_AAD);
		open_pieces(&o, pieces, len);
		gcm.open_end(keys, &o.gcm, found, SL_AEAD_TAG);
	}
	return CRYPTO_memcmp(found, tag, SL_AEAD_TAG) == 0;
}
