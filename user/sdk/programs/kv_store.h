/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Key-value store for `kv` and bench/kv: hash table with linear probing (Knuth 6.4, algorithm L).
 * One thread.
 */
#ifndef SL_SDK_KV_STORE_H
#define SL_SDK_KV_STORE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "base/fnv.h"

enum { KV_KEY_MAX = 250, KV_VALUE_MAX = 1 << 20 };

struct kv_entry {
	uint64_t hash;
	uint32_t key_len, value_len;
	uint8_t bytes[]; /* key, value */
};

struct kv_store {
	struct kv_entry **slots;
	size_t cap, cnt; /* a power of two, at least twice cnt */
	size_t bytes, bytes_max;
};

/* Makes an empty store. Returns false without memory. */
static inline bool kv_open(struct kv_store *s, size_t bytes_max)
{
	*s = (struct kv_store){.cap = 1024, .bytes_max = bytes_max};
	s->slots = calloc(s->cap, sizeof(struct kv_entry *));
	return s->slots != NULL;
}

/* Returns the slot of a key, or a free one for it. */
static inline struct kv_entry **kv_slot(const struct kv_store *s, uint64_t hash, const void *key,
					size_t key_len)
{
	for (size_t i = hash;; i++) {
		struct kv_entry **slot = &s->slots[i & (s->cap - 1)];
		const struct kv_entry *e = *slot;

		if (!e || (e->hash == hash && e->key_len == key_len &&
			   memcmp(e->bytes, key, key_len) == 0))
			return slot;
	}
}

/* Returns the FNV-1a hash. */
static inline uint64_t kv_hash(const void *key, size_t key_len)
{
	return sl_fnv64(UINT64_C(14695981039346656037), key, key_len);
}

/* Returns the entry, valid until the next kv_put(); NULL: absent. */
static inline const struct kv_entry *kv_get(const struct kv_store *s, const void *key,
					    size_t key_len)
{
	return *kv_slot(s, kv_hash(key, key_len), key, key_len);
}

/* Doubles the table. Returns false without memory. */
static inline bool kv_grow(struct kv_store *s)
{
	struct kv_store next = {.cap = 2 * s->cap};

	next.slots = calloc(next.cap, sizeof(struct kv_entry *));
	if (!next.slots)
		return false;
	for (size_t i = 0; i < s->cap; i++) {
		struct kv_entry *e = s->slots[i];

		if (e)
			*kv_slot(&next, e->hash, e->bytes, e->key_len) = e;
	}
	free(s->slots);
	s->slots = next.slots;
	s->cap = next.cap;
	return true;
}

/* Stores a copy. False: above bytes_max, or no memory. Lengths are at most those of the enum. */
static inline bool kv_put(struct kv_store *s, const void *key, size_t key_len, const void *value,
			  size_t value_len)
{
	size_t size = sizeof(struct kv_entry) + key_len + value_len;
	uint64_t hash = kv_hash(key, key_len);
	struct kv_entry *e, **slot;

	if (s->bytes + size > s->bytes_max || (2 * s->cnt >= s->cap && !kv_grow(s)) ||
	    !(e = malloc(size)))
		return false;
	e->hash = hash;
	e->key_len = (uint32_t)key_len;
	e->value_len = (uint32_t)value_len;
	memcpy(e->bytes, key, key_len);
	if (value_len)
		memcpy(e->bytes + key_len, value, value_len);
	slot = kv_slot(s, hash, key, key_len);
	if (*slot)
		s->bytes -= sizeof(**slot) + (*slot)->key_len + (*slot)->value_len;
	else
		s->cnt++;
	s->bytes += size;
	free(*slot);
	*slot = e;
	return true;
}

/* Frees all entries. */
static inline void kv_close(struct kv_store *s)
{
	for (size_t i = 0; i < s->cap; i++)
		free(s->slots[i]);
	free(s->slots);
}

#endif
