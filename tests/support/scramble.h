/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A filter that changes every byte, and splits and joins what comes: a front that works behind it
 * works behind any filter. Bytes are XORed with 0x5a in both directions.
 */
#ifndef SL_TESTS_SCRAMBLE_H
#define SL_TESTS_SCRAMBLE_H

#include "base/rand.h"
#include "front/conn.h"

struct scramble {
	struct sl_filter filter;
	struct sl_prng prng;
	uint8_t *kept; /* unscrambled, not yet taken above */
	size_t kept_len;
	bool eof, told;
};

/* Filters that are alive: none may be left at the end. */
extern unsigned scramble_live;

/*
 * An sl_filter_maker.open; arg: const unsigned *, number of filters on top of each other, or NULL:
 * one.
 */
bool scramble_open(void *arg, struct sl_conn transport, const struct sl_conn_info *info,
		   struct sl_filter **top);
void scramble_bytes(uint8_t *bytes, size_t len);

#endif
