/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed-size objects from one mapping, O(1) get and put, for one thread.
 *
 *   base  [ obj 0 | obj 1 | ... | obj fresh-1 | never handed out: no memory behind it ... ]
 *            ^ free ones are chained through their first 8 bytes, last freed first
 *
 * The mapping is reserved without backing (MAP_NORESERVE), so capacity costs address space until
 * objects are used. Whoever gets an object owns it until it puts it back. Contents after get are
 * undefined. With SL_DEBUG, a put object is filled with SL_POOL_POISON, and a double put, a
 * foreign pointer or a write after put aborts; under ASan free objects are poisoned as well.
 */
#ifndef SL_BASE_POOL_H
#define SL_BASE_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"

#define SL_POOL_POISON 0xa5

struct sl_pool {
	uint8_t *base;
	void *free_head;
	size_t stride;
	uint32_t fresh; /* index of the first object that was never handed out */
	uint32_t used;
	uint32_t cap;
	uint32_t shift;   /* stride = odd << shift */
	uint64_t odd_inv; /* odd * odd_inv == 1 mod 2^64: exact division by a multiplication */
	size_t map_len;
	uint64_t *in_use; /* SL_DEBUG: one bit per object, else NULL */
};

/* Objects are aligned to align (a power of two up to 4096; 0 means 8). 0 or -errno. */
int sl_pool_init(struct sl_pool *p, size_t obj_size, size_t align, uint32_t capacity);

/* Frees the mapping, objects still in use included. A zeroed pool is allowed. */
void sl_pool_fini(struct sl_pool *p);

/* NULL when all are in use. */
void *sl_pool_get(struct sl_pool *p);
void sl_pool_put(struct sl_pool *p, void *obj);

static inline uint32_t sl_pool_used(const struct sl_pool *p)
{
	return p->used;
}

static inline uint32_t sl_pool_capacity(const struct sl_pool *p)
{
	return p->cap;
}

/* Of an object of this pool. */
static inline uint32_t sl_pool_index(const struct sl_pool *p, const void *obj)
{
	uint64_t off = (uint64_t)((const uint8_t *)obj - p->base);

	return (uint32_t)((off >> p->shift) * p->odd_inv);
}

static inline void *sl_pool_at(const struct sl_pool *p, uint32_t index)
{
	SL_CHECK(index < p->cap);
	return p->base + (size_t)index * p->stride;
}

/* Whether the pointer is the start of one of its objects, in use or not. */
bool sl_pool_owns(const struct sl_pool *p, const void *obj);

#endif
