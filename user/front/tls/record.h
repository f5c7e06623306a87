/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection of TLS 1.3 records, RFC 8446 5: bytes in, bytes out, in place.
 *
 *   [ head 5 | content | type | zeros ... | tag 16 ]
 *            '------ encrypted -----------'
 *
 * A key's schedule takes longer to make than a small record to seal. So each worker has a table of
 * ciphers that remember whose key they were given last: a connection that talks finds its own there,
 * one that is idle holds keys and numbers only (struct sl_tls_dir).
 */
#ifndef SL_FRONT_TLS_RECORD_H
#define SL_FRONT_TLS_RECORD_H

#include "front/tls/aead.h"

enum {
	SL_TLS_HEAD = 5,
	SL_TLS_TAG = SL_AEAD_TAG,
	SL_TLS_OVERHEAD = SL_TLS_HEAD + 1 + SL_TLS_TAG,
	SL_TLS_PLAIN_MAX = 1 << 14,
	SL_TLS_CIPHER_MAX = SL_TLS_PLAIN_MAX + 256, /* of a record behind its head */
	SL_TLS_SECRET_MAX = 48,
	SL_TLS_KEY_MAX = 32,
	SL_TLS_IV = SL_AEAD_NONCE,
};

/* What a record carries: ContentType of RFC 8446. */
enum { SL_TLS_CCS = 20, SL_TLS_ALERT = 21, SL_TLS_HANDSHAKE = 22, SL_TLS_DATA = 23 };

/* One direction of a connection. */
struct sl_tls_dir {
	uint8_t secret
		[SL_TLS_SECRET_MAX]; /* traffic secret of now, from which the next one comes */
	uint8_t key[SL_TLS_KEY_MAX];
	uint8_t iv[SL_TLS_IV];
	uint8_t suite; /* enum sl_tls_suite */
	uint8_t unused[3];
	uint64_t seq; /* of the next record */
};

struct sl_tls_ciphers;

/* NULL: no memory. */
struct sl_tls_ciphers *sl_tls_ciphers_new(void);
void sl_tls_ciphers_free(struct sl_tls_ciphers *c);

/* The suite of that number of the protocol; SL_TLS_SUITE_CNT: none of ours. */
enum sl_tls_suite sl_tls_suite_of(uint16_t number);
const char *sl_tls_suite_name(enum sl_tls_suite suite);
size_t sl_tls_secret_len(enum sl_tls_suite suite);

/*
 * A line of OpenSSL's log of secrets, "LABEL client-random secret" in hexadecimal: into the direction
 * whose traffic secret it is. False: of neither.
 */
bool sl_tls_take_secret(const char *line, struct sl_tls_dir *client, struct sl_tls_dir *server);

/* RFC 8446 7.1, for at most as many bytes as the suite's hash has. False: the library failed. */
bool sl_tls_expand(enum sl_tls_suite suite, const uint8_t *secret, const char *label, uint8_t *out,
		   size_t len);
/* Key and IV of dir->secret; numbers begin at seq. Any thread. */
bool sl_tls_dir_derive(struct sl_tls_dir *dir, uint64_t seq);
/* The same with the secret that follows, RFC 8446 7.2. */
bool sl_tls_dir_update(struct sl_tls_ciphers *c, struct sl_tls_dir *dir);
/* Wipes it, here and in the table. */
void sl_tls_dir_wipe(struct sl_tls_ciphers *c, struct sl_tls_dir *dir);

/*
 * Makes a record at rec of the len bytes of content that stand behind its head already; what is
 * behind them has room for SL_TLS_OVERHEAD - SL_TLS_HEAD. Returns the length of the record.
 */
size_t sl_tls_seal(struct sl_tls_ciphers *c, struct sl_tls_dir *dir, uint8_t type, uint8_t *rec,
		   size_t len);

/*
 * Opens what stands behind a record's head, in place, wherever its pieces lie. False: the tag is
 * wrong, and nothing of it may be used.
 */
bool sl_tls_open(struct sl_tls_ciphers *c, struct sl_tls_dir *dir, const uint8_t head[SL_TLS_HEAD],
		 const struct sl_tls_piece *pieces, unsigned cnt);

#endif
