/* SPDX-License-Identifier: Apache-2.0 */
/* Pre-shared key: a file's bytes, without white space at the end. */
#ifndef SL_RPC_PSK_H
#define SL_RPC_PSK_H

#include <openssl/sha.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum { SL_KEY_MIN = 16, SL_KEY_MAX = 1024 };

struct sl_psk {
	uint8_t bytes[SL_KEY_MAX];
	size_t len;
	SHA256_CTX inner, outer; /* state after the first block of each hash of an HMAC */
};

/* Latest time for noticing a changed file. */
enum { SL_PSK_CHECK_MS = 100 };
/* Reads or looks up a key file; call sl_psk_wipe(). Returns 0, or -1 and err. Any thread. */
int sl_psk_read(struct sl_psk *s, const char *path, struct sl_err *err);
/* Returns a key of at most SL_KEY_MAX bytes. */
struct sl_psk sl_psk_of(const void *bytes, size_t len);
/* Overwrites a key with zeros. */
void sl_psk_wipe(struct sl_psk *s);

enum { SL_PSK_MAC_LEN = 32 };
/* Computes HMAC-SHA-256 (RFC 2104). */
void sl_psk_mac(const struct sl_psk *s, const void *text, size_t len, uint8_t mac[SL_PSK_MAC_LEN]);

#endif
