/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pre-shared key of a network transport: the bytes of a file, without white space at the end. A
 * file that others could read or write is refused.
 */
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
/*
 * Reads the key; an unchanged file comes from a cache. Returns 0, or -1 and a line in err. Any
 * thread.
 */
int sl_psk_read(struct sl_psk *s, const char *path, struct sl_err *err);
/* Returns the key of at most SL_KEY_MAX bytes. */
struct sl_psk sl_psk_of(const void *bytes, size_t len);
void sl_psk_wipe(struct sl_psk *s);

enum { SL_PSK_MAC_LEN = 32 };
/* Computes HMAC-SHA-256 (RFC 2104) of the text. */
void sl_psk_mac(const struct sl_psk *s, const void *text, size_t len, uint8_t mac[SL_PSK_MAC_LEN]);

#endif
