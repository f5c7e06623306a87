/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys from the beginnings of bodies, such as prompts: hashes at several depths.
 *
 * The key is the hash at the first depth that is not shared: that of a conversation. A beginning is
 * shared once it has gone on in more than SL_PREFIX_WAYS ways at the next depth. A body that ends
 * there has no key: all backends should have cached it. The last depth is never shared.
 *
 * Hashes have no secret, as gateways must agree; bounded loads (batch/affinity.h) limit collision
 * attacks.
 */
#ifndef SL_CORE_PREFIX_HASH_H
#define SL_CORE_PREFIX_HASH_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "config/config.h"

enum { SL_PREFIX_WAYS = 3 };

struct sl_prefix_table;

/* Returns an empty table, or NULL without memory. */
struct sl_prefix_table *sl_prefix_table_create(void);
/* Frees the table. NULL is allowed. */
void sl_prefix_table_destroy(struct sl_prefix_table *t);

struct sl_prefix_hash {
	const struct sl_cfg_affinity *cfg;
	uint64_t hash, word;
	uint64_t before; /* hash at the last depth reached; 0: none */
	uint64_t key;    /* 0: not yet known */
	uint32_t len;
	uint8_t depth; /* index of the next one */
	bool over;
};

/* Begins the key of one body. `cfg` must stay valid. */
void sl_prefix_hash_begin(struct sl_prefix_hash *p, const struct sl_cfg_affinity *cfg);
/* Hashes bytes until p->over; p->key: the deepest known prefix. */
void sl_prefix_hash_read(struct sl_prefix_hash *p, struct sl_prefix_table *t, struct sl_span bytes);
/* Called behind the last byte. p->key stays 0 if not known by then. */
void sl_prefix_hash_end(struct sl_prefix_hash *p);

#endif
