/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys from the beginnings of bodies, such as prompts: hashes at several depths (1, 4, 16 and 64
 * KiB by default), and a table of the beginnings that many bodies share.
 *
 *   body:   [ system prompt, shared ... | one conversation ............................ ]
 *   depth:          1k: shared            4k: key          16k              64k
 *
 * The key is the hash at the first depth that is not shared: all turns of a conversation have the
 * same one, and conversations with one system prompt have different ones. A beginning is shared
 * when it was seen to go on in more than SL_PREFIX_WAYS ways at the next depth. All backends are
 * expected to have it, so a body that ends before another depth has no key. The last depth is never
 * shared.
 *
 * Each worker has a table of fixed size, used by its thread only. The hashes have no secret, so that
 * gateways agree; bounded loads (batch/affinity.h) limit what a client can do with collisions.
 */
#ifndef SL_CORE_PREFIX_HASH_H
#define SL_CORE_PREFIX_HASH_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "config/config.h"

enum { SL_PREFIX_WAYS = 3 };

struct sl_prefix_table;

/* NULL: no memory. */
struct sl_prefix_table *sl_prefix_table_create(void);
void sl_prefix_table_destroy(struct sl_prefix_table *t);

/* A body being hashed. */
struct sl_prefix_hash {
	const struct sl_cfg_affinity *cfg; /* depths */
	uint64_t hash, word;
	uint64_t before; /* hash at the last depth reached; 0: none */
	uint64_t key;    /* 0: not yet known */
	uint32_t len;    /* hashed */
	uint8_t depth;   /* index of the next one */
	bool over;       /* no more bytes are needed */
};

void sl_prefix_hash_begin(struct sl_prefix_hash *p, const struct sl_cfg_affinity *cfg);
/* Hashes bytes. After the key is known, one depth more is hashed for the table. */
void sl_prefix_hash_read(struct sl_prefix_hash *p, struct sl_prefix_table *t, struct sl_span bytes);
/* The body is complete. */
void sl_prefix_hash_end(struct sl_prefix_hash *p);

#endif
