/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection of TLS 1.3 records (RFC 8446 5), in place.
 *
 *   [ head 5 | content | type | zeros ... | tag 16 ]
 *            '------ encrypted -----------'
 *
 * Each worker caches expanded keys; an idle connection has only struct sl_tls_dir.
 */
#ifndef SL_FRONT_TLS_RECORD_H
#define SL_FRONT_TLS_RECORD_H

#include "front/tls/aead.h"

enum {
	SL_TLS_HEAD = 5,
	SL_TLS_TAG = SL_AEAD_TAG,
	SL_TLS_OVERHEAD = SL_TLS_HEAD + 1 + SL_TLS_TAG,
	SL_TLS_PLAIN_MAX = 1 << 14,
	SL_TLS_CIPHER_MAX = SL_TLS_PLAIN_MAX + 256, /* without the header */
	SL_TLS_SECRET_MAX = 48,
	SL_TLS_KEY_MAX = 32,
	SL_TLS_IV = SL_AEAD_NONCE,
};

/* ContentType, RFC 8446. */
enum { SL_TLS_CCS = 20, SL_TLS_ALERT = 21, SL_TLS_HANDSHAKE = 22, SL_TLS_DATA = 23 };

struct sl_tls_dir {
	uint8_t secret[SL_TLS_SECRET_MAX];
	uint8_t key[SL_TLS_KEY_MAX];
	uint8_t iv[SL_TLS_IV];
	uint8_t suite;
	uint8_t unused[3];
	uint64_t seq; /* next record */
};

struct sl_tls_ciphers;

/* Returns a worker's cache, or NULL without memory. */
struct sl_tls_ciphers *sl_tls_ciphers_new(void);
/* Frees c, which may be NULL. */
void sl_tls_ciphers_free(struct sl_tls_ciphers *c);

/* Convert an IANA number (SL_TLS_SUITE_CNT: unknown); return name and length of secrets. */
enum sl_tls_suite sl_tls_suite_of(uint16_t number);
const char *sl_tls_suite_name(enum sl_tls_suite suite);
size_t sl_tls_secret_len(enum sl_tls_suite suite);

/*
 * Parses a line of OpenSSL's key log, and stores a traffic secret in `client` or `server`. Returns
 * false for other labels.
 */
bool sl_tls_take_secret(const char *line, struct sl_tls_dir *client, struct sl_tls_dir *server);

/*
 * HKDF-Expand-Label (RFC 8446 7.1) to `out`; `len`: at most the hash length. False: library error.
 */
bool sl_tls_expand(enum sl_tls_suite suite, const uint8_t *secret, const char *label, uint8_t *out,
		   size_t len);
/* Derives key and IV from dir->secret; records start at `seq`. False: library error. Any thread. */
bool sl_tls_dir_derive(struct sl_tls_dir *dir, uint64_t seq);
/* Derives the next secret and keys (RFC 8446 7.2). False: library error. */
bool sl_tls_dir_update(struct sl_tls_ciphers *c, struct sl_tls_dir *dir);
/* Wipes secrets, also in the cache. */
void sl_tls_dir_wipe(struct sl_tls_ciphers *c, struct sl_tls_dir *dir);

/*
 * Seals a record. `rec`: space for the header, `len` bytes of content, `SL_TLS_OVERHEAD -
 * SL_TLS_HEAD` free bytes. Returns the record's length.
 */
size_t sl_tls_seal(struct sl_tls_ciphers *c, struct sl_tls_dir *dir, uint8_t type, uint8_t *rec,
		   size_t len);

/*
 * Opens a record, and advances `seq`. Returns false if the tag is wrong: its bytes must not be
 * used.
 */
bool sl_tls_open(struct sl_tls_ciphers *c, struct sl_tls_dir *dir, const uint8_t head[SL_TLS_HEAD],
		 const struct sl_tls_piece *pieces, unsigned cnt);

#endif
