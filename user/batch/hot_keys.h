/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts recent requests per key, to find keys for several backends. Counts halve after each
 * window.
 */
#ifndef SL_BATCH_HOT_KEYS_H
#define SL_BATCH_HOT_KEYS_H

#include <stdint.h>

enum { SL_HOT_KEYS_SETS = 1024, SL_HOT_KEYS_WAYS = 4, SL_HOT_KEYS_WINDOW = 128 };

struct sl_hot_key {
	uint32_t cnt;
	uint16_t tag, epoch;
};

/* Zeroed before use. */
struct sl_hot_keys {
	struct sl_hot_key at[SL_HOT_KEYS_SETS][SL_HOT_KEYS_WAYS];
	uint32_t total;
	uint16_t epoch;
};

/* Counts a request. The window is SL_HOT_KEYS_WINDOW times `backends`, which are at least one. */
void sl_hot_keys_add(struct sl_hot_keys *h, uint64_t key, uint32_t backends);
/* Returns how many of the last h->total requests had the key. */
uint32_t sl_hot_keys_cnt(const struct sl_hot_keys *h, uint64_t key);

#endif
