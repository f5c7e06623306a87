/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow table: (addresses, ports) -> 32-bit value; not thread-safe; keys may be hostile.
 *
 *   hash = SipHash-1-3(key)          one bucket = one cache line = 4 entries {hash, value}
 *
 *     low half  -> bucket A [ e e e e ]     an entry lies in A or in B, so a look-up reads two
 *     high half -> bucket B [ e e e e ]     cache lines at most, whatever the peers do
 *
 * Linear hashing: once four fifths of all slots are used, each insertion splits the next bucket in
 * place. Memory is reserved for the largest size.
 *
 * The table stores hashes, not keys: `match` tells whether `value` has that key.
 */
#ifndef SL_NET_FLOW_TABLE_H
#define SL_NET_FLOW_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/bytes.h"
#include "base/cpu.h"
#include "base/siphash.h"

enum {
	SL_FLOW_SLOTS = 4,
	SL_FLOW_BYTES_MAX = 20,
};
/* an enum of its own: unsigned */
enum { SL_FLOW_NONE = 0xffffffff };

/* IPv4 addresses: first four bytes, the rest zero. */
struct sl_flow_key {
	uint8_t local[16];
	uint8_t remote[16];
	uint16_t local_port_be;
	uint16_t remote_port_be;
	uint8_t family; /* 4 or 6 */
	uint8_t pad[3]; /* zero: compared as bytes */
};
_Static_assert(sizeof(struct sl_flow_key) == 40, "no hidden padding");

typedef bool sl_flow_match_fn(const void *ctx, uint32_t value, const struct sl_flow_key *key);

struct sl_flow_entry {
	uint64_t hash; /* 0: an empty slot */
	uint32_t value;
	uint32_t pad;
};

struct sl_flow_bucket {
	struct sl_flow_entry slot[SL_FLOW_SLOTS];
};
_Static_assert(sizeof(struct sl_flow_bucket) == SL_CACHELINE, "one cache line per bucket");

struct sl_flow_table {
	struct sl_flow_bucket *buckets;
	uint32_t mask;  /* of the complete part of the table */
	uint32_t split; /* buckets below it use the next larger mask */
	struct sl_sipkey key;
	sl_flow_match_fn *match;
	const void *ctx;
	uint32_t count;
	uint32_t max_entries;
	uint32_t max_mask;
	size_t map_len;
};

/* max_entries: 1 .. 2^27. Copies key. Returns 0, -EINVAL or another -errno. */
int sl_flow_table_init(struct sl_flow_table *t, uint32_t max_entries, const struct sl_sipkey *key,
		       sl_flow_match_fn *match, const void *ctx);
/* Frees the memory. */
void sl_flow_table_fini(struct sl_flow_table *t);

/* Return the key's hash, never 0. */
static inline uint64_t sl_flow_hash_key(const struct sl_sipkey *key, const struct sl_flow_key *k)
{
	uint64_t w[5], hash;

	if (k->family == 4) {
		/* The number of words is part of the hash. */
		w[0] = sl_get_le32(k->local) | (uint64_t)sl_get_le32(k->remote) << 32;
		w[1] = k->local_port_be | (uint32_t)k->remote_port_be << 16;
		hash = sl_siphash13_words(key, w, 2);
	} else {
		memcpy(w, k->local, 16);
		memcpy(w + 2, k->remote, 16);
		w[4] = k->local_port_be | (uint32_t)k->remote_port_be << 16;
		hash = sl_siphash13_words(key, w, 5);
	}
	return hash ? hash : 1;
}
static inline uint64_t sl_flow_hash(const struct sl_flow_table *t, const struct sl_flow_key *k)
{
	return sl_flow_hash_key(&t->key, k);
}

/* Return the buckets of a hash. */
static inline struct sl_flow_bucket *sl_flow_bucket_at(const struct sl_flow_table *t, uint32_t half)
{
	uint32_t i = half & t->mask;

	if (i < t->split)
		i = half & (t->mask << 1 | 1);
	return &t->buckets[i];
}
static inline struct sl_flow_bucket *sl_flow_bucket_a(const struct sl_flow_table *t, uint64_t hash)
{
	return sl_flow_bucket_at(t, (uint32_t)hash);
}
static inline struct sl_flow_bucket *sl_flow_bucket_b(const struct sl_flow_table *t, uint64_t hash)
{
	return sl_flow_bucket_at(t, (uint32_t)(hash >> 32));
}

/* Prefetches both buckets. */
static inline void sl_flow_prefetch(const struct sl_flow_table *t, uint64_t hash)
{
	sl_prefetch(sl_flow_bucket_a(t, hash));
	sl_prefetch(sl_flow_bucket_b(t, hash));
}

/* Returns the key's value, or SL_FLOW_NONE. match: t->match, where the caller knows it. */
static inline uint32_t sl_flow_find_by(const struct sl_flow_table *t, uint64_t hash,
				       const struct sl_flow_key *k, sl_flow_match_fn *match)
{
	const struct sl_flow_bucket *b = sl_flow_bucket_a(t, hash);

	for (int pass = 0; pass < 2; pass++) {
		for (int i = 0; i < SL_FLOW_SLOTS; i++) {
			if (b->slot[i].hash == hash && match(t->ctx, b->slot[i].value, k))
				return b->slot[i].value;
		}
		b = sl_flow_bucket_b(t, hash);
	}
	return SL_FLOW_NONE;
}

/* Same with the table's match. */
static inline uint32_t sl_flow_find(const struct sl_flow_table *t, uint64_t hash,
				    const struct sl_flow_key *k)
{
	return sl_flow_find_by(t, hash, k, t->match);
}

/* The key must be new. Returns 0, or -ENOSPC and an unchanged table. */
int sl_flow_insert(struct sl_flow_table *t, uint64_t hash, uint32_t value);

/* Removes an entry. Returns false if none matches. */
bool sl_flow_remove(struct sl_flow_table *t, uint64_t hash, uint32_t value);

/* Returns the memory in use. */
size_t sl_flow_table_bytes(const struct sl_flow_table *t);

#endif
