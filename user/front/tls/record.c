/* SPDX-License-Identifier: Apache-2.0 */
#include "front/tls/record.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/cpu.h"
#include "base/num.h"

enum { SLOT_BITS = 11, SLOTS = 1 << SLOT_BITS, LABEL_MAX = 64 };

static const struct suite {
	const char *name;
	const EVP_MD *(*hash)(void);
	uint16_t number;
	uint8_t key_len, secret_len;
} suites[SL_TLS_SUITE_CNT] = {
	{"TLS_AES_128_GCM_SHA256", EVP_sha256, 0x1301, 16, 32},
	{"TLS_AES_256_GCM_SHA384", EVP_sha384, 0x1302, 32, 48},
	{"TLS_CHACHA20_POLY1305_SHA256", EVP_sha256, 0x1303, 32, 32},
};

struct cipher_slot {
	struct sl_aead_key key;
	const struct sl_tls_dir *owner;
	uint64_t unused;
};
_Static_assert(sizeof(struct cipher_slot) % SL_CACHELINE == 0, "whole lines");

struct sl_tls_ciphers {
	struct sl_aead *aead;
	struct cipher_slot *slots; /* excluded from core dumps */
};

struct sl_tls_ciphers *sl_tls_ciphers_new(void)
{
	struct sl_tls_ciphers *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->aead = sl_aead_new();
	c->slots = mmap(NULL, SLOTS * sizeof(*c->slots), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (c->slots == MAP_FAILED)
		c->slots = NULL;
	/* Without AEAD, sl_tls_load() rejects TLS listeners. */
	if ((c->aead || !sl_aead_supported()) && c->slots &&
	    madvise(c->slots, SLOTS * sizeof(*c->slots), MADV_DONTDUMP) == 0)
		return c;
	sl_tls_ciphers_free(c);
	return NULL;
}

void sl_tls_ciphers_free(struct sl_tls_ciphers *c)
{
	if (!c)
		return;
	sl_aead_free(c->aead);
	if (c->slots)
		munmap(c->slots, SLOTS * sizeof(*c->slots));
	free(c);
}

enum sl_tls_suite sl_tls_suite_of(uint16_t number)
{
	unsigned i = 0;

	while (i < SL_TLS_SUITE_CNT && suites[i].number != number)
		i++;
	return (enum sl_tls_suite)i;
}

const char *sl_tls_suite_name(enum sl_tls_suite suite)
{
	return suites[suite].name;
}

size_t sl_tls_secret_len(enum sl_tls_suite suite)
{
	return suites[suite].secret_len;
}

bool sl_tls_take_secret(const char *line, struct sl_tls_dir *client, struct sl_tls_dir *server)
{
	const char *hex = strrchr(line, ' ') + 1;
	struct sl_tls_dir *dir = NULL;

	if (strncmp(line, "CLIENT_TRAFFIC_SECRET_0 ", 24) == 0)
		dir = client;
	if (strncmp(line, "SERVER_TRAFFIC_SECRET_0 ", 24) == 0)
		dir = server;
	for (size_t i = 0; dir && i < SL_TLS_SECRET_MAX && hex[2 * i]; i++)
		dir->secret[i] = (uint8_t)((unsigned)sl_hex_digit((uint8_t)hex[2 * i]) << 4 |
					   (unsigned)sl_hex_digit((uint8_t)hex[2 * i + 1]));
	return dir;
}

bool sl_tls_expand(enum sl_tls_suite suite, const uint8_t *secret, const char *label, uint8_t *out,
		   size_t len)
{
	const struct suite *s = &suites[suite];
	uint8_t info[LABEL_MAX], block[EVP_MAX_MD_SIZE], *at = info;
	size_t label_len = strlen(label);
	bool ok;

	SL_CHECK(len <= s->secret_len && label_len + 11 <= LABEL_MAX);
	*at++ = 0;
	*at++ = (uint8_t)len;
	*at++ = (uint8_t)(6 + label_len);
	memcpy(at, "tls13 ", 6);
	memcpy(at + 6, label, label_len);
	at += 6 + label_len;
	*at++ = 0;
	*at++ = 1; /* one block of HKDF-Expand suffices */
	ok = HMAC(s->hash(), secret, s->secret_len, info, (size_t)(at - info), block, NULL);
	if (ok)
		memcpy(out, block, len);
	OPENSSL_cleanse(block, sizeof(block));
	return ok;
}

bool sl_tls_dir_derive(struct sl_tls_dir *dir, uint64_t seq)
{
	enum sl_tls_suite suite = (enum sl_tls_suite)dir->suite;

	dir->seq = seq;
	return sl_tls_expand(suite, dir->secret, "key", dir->key, suites[suite].key_len) &&
	       sl_tls_expand(suite, dir->secret, "iv", dir->iv, SL_TLS_IV);
}

static struct cipher_slot *slot_of(struct sl_tls_ciphers *c, const struct sl_tls_dir *dir)
{
	uint64_t h = (uint64_t)(uintptr_t)dir * UINT64_C(0x9e3779b97f4a7c15);

	return &c->slots[h >> (64 - SLOT_BITS)];
}

static void forget_slot(struct sl_tls_ciphers *c, const struct sl_tls_dir *dir)
{
	struct cipher_slot *s = slot_of(c, dir);

	if (s->owner != dir)
		return;
	OPENSSL_cleanse(s, sizeof(*s));
}

bool sl_tls_dir_update(struct sl_tls_ciphers *c, struct sl_tls_dir *dir)
{
	enum sl_tls_suite suite = (enum sl_tls_suite)dir->suite;
	uint8_t next[SL_TLS_SECRET_MAX];

	forget_slot(c, dir);
	if (!sl_tls_expand(suite, dir->secret, "traffic upd", next, suites[suite].secret_len))
		return false;
	memcpy(dir->secret, next, suites[suite].secret_len);
	OPENSSL_cleanse(next, sizeof(next));
	return sl_tls_dir_derive(dir, 0);
}

void sl_tls_dir_wipe(struct sl_tls_ciphers *c, struct sl_tls_dir *dir)
{
	forget_slot(c, dir);
	OPENSSL_cleanse(dir, sizeof(*dir));
}

static const struct sl_aead_key *
begin_record(struct sl_tls_ciphers *c, const struct sl_tls_dir *dir, uint8_t nonce[SL_TLS_IV])
{
	struct cipher_slot *s = slot_of(c, dir);
	uint64_t seq = htobe64(dir->seq), low;

	memcpy(nonce, dir->iv, SL_TLS_IV);
	memcpy(&low, nonce + 4, 8);
	low ^= seq;
	memcpy(nonce + 4, &low, 8);
	if (sl_unlikely(s->owner != dir)) {
		sl_aead_set_key(c->aead, dir->suite, dir->key, &s->key);
		s->owner = dir;
	}
	return &s->key;
}

size_t sl_tls_seal(struct sl_tls_ciphers *c, struct sl_tls_dir *dir, uint8_t type, uint8_t *rec,
		   size_t len)
{
	uint8_t nonce[SL_TLS_IV], *body = rec + SL_TLS_HEAD;
	size_t inner = len + 1;

	rec[0] = SL_TLS_DATA;
	rec[1] = 3; /* legacy_record_version */
	rec[2] = 3;
	rec[3] = (uint8_t)((inner + SL_TLS_TAG) >> 8);
	rec[4] = (uint8_t)(inner + SL_TLS_TAG);
	body[len] = type;
	sl_aead_seal(c->aead, dir->suite, begin_record(c, dir, nonce), nonce, rec, body, inner,
		     body + inner);
	dir->seq++;
	return len + SL_TLS_OVERHEAD;
}

bool sl_tls_open(struct sl_tls_ciphers *c, struct sl_tls_dir *dir, const uint8_t head[SL_TLS_HEAD],
		 const struct sl_tls_piece *pieces, unsigned cnt)
{
	uint8_t nonce[SL_TLS_IV], sent[SL_TLS_TAG];
	size_t len = 0, want = SL_TLS_TAG;

	for (unsigned i = 0; i < cnt; i++)
		len += pieces[i].len;
	if (len <= SL_TLS_TAG)
		return false;
	while (want && cnt--) {
		size_t n = pieces[cnt].len < want ? pieces[cnt].len : want;

		memcpy(sent + want - n, pieces[cnt].ptr + pieces[cnt].len - n, n);
		want -= n;
	}
	if (!sl_aead_open(c->aead, dir->suite, begin_record(c, dir, nonce), nonce, head, pieces,
			  len - SL_TLS_TAG, sent))
		return false;
	dir->seq++;
	return true;
}
