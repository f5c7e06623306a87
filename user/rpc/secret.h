/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that both ends of a network transport have: the bytes of a file, without white space at
 * the end. What others could read or write is refused.
 */
#ifndef SL_RPC_SECRET_H
#define SL_RPC_SECRET_H

#include <openssl/sha.h>
#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum { SL_KEY_MIN = 16, SL_KEY_MAX = 1024 };

struct sl_secret {
	uint8_t bytes[SL_KEY_MAX];
	size_t len;
	SHA256_CTX inner, outer; /* behind the first block of either hash of an HMAC */
};

/* A key file is looked at once in that time at the most: who dials after that has what is there now. */
enum { SL_SECRET_LOOK_MS = 100 };
/*
 * 0, or -1 and one line in err. A file that has not changed since it was read last, and is not new, is
 * not read again. Any thread.
 */
int sl_secret_read(struct sl_secret *s, const char *path, struct sl_err *err);
/* Of at most SL_KEY_MAX bytes. */
struct sl_secret sl_secret_of(const void *bytes, size_t len);
void sl_secret_wipe(struct sl_secret *s);

enum { SL_SECRET_MAC_LEN = 32 };
/* HMAC-SHA-256 (RFC 2104) of the text by the secret. */
void sl_secret_mac(const struct sl_secret *s, const void *text, size_t len,
		   uint8_t mac[SL_SECRET_MAC_LEN]);

#endif
