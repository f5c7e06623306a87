/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that both ends of a network transport have: the bytes of a file, without white space at
 * the end. What others could read or write is refused.
 */
#ifndef SL_RPC_SECRET_H
#define SL_RPC_SECRET_H

#include <stddef.h>
#include <stdint.h>
#include "base/err.h"

enum { SL_KEY_MIN = 16, SL_KEY_MAX = 1024 };

struct sl_secret {
	uint8_t bytes[SL_KEY_MAX];
	size_t len;
};

/* 0, or -1 and one line in err. */
int sl_secret_read(struct sl_secret *s, const char *path, struct sl_err *err);
void sl_secret_wipe(struct sl_secret *s);

#endif
