/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of fixed size; O(1) get and put; not thread-safe.
 *
 * Unused capacity costs address space only (MAP_NORESERVE). Contents after get are undefined.
 * SL_ENSURE rejects a double put and foreign pointers. SL_DEBUG also detects writes after put.
 */
#ifndef SL_BASE_MEMPOOL_H
#define SL_BASE_MEMPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/poison.h"

#define SL_MEMPOOL_POISON 0xa5

struct sl_mempool {
	uint8_t *base;
	void *free_head;
	size_t stride;
	uint32_t fresh;
	uint32_t used;
	uint32_t cap;
	uint32_t shift;   /* stride = odd << shift */
	uint64_t odd_inv; /* odd * odd_inv == 1 mod 2^64: exact division */
	size_t map_len;
	uint64_t *in_use; /* one bit per object */
};

/* align: a power of two up to 4096; 0: 8. Returns 0, -EINVAL or another -errno. */
int sl_mempool_init(struct sl_mempool *p, size_t obj_size, size_t align, uint32_t capacity);

/* Frees the memory of all objects. */
void sl_mempool_fini(struct sl_mempool *p);

/* Return the number of objects handed out, and the most possible. */
static inline uint32_t sl_mempool_used(const struct sl_mempool *p)
{
	return p->used;
}
static inline uint32_t sl_mempool_capacity(const struct sl_mempool *p)
{
	return p->cap;
}

/* Convert between an object and its index. `obj` is not checked. */
static inline uint32_t sl_mempool_index(const struct sl_mempool *p, const void *obj)
{
	uint64_t off = (uint64_t)((const uint8_t *)obj - p->base);

	return (uint32_t)((off >> p->shift) * p->odd_inv);
}
static inline void *sl_mempool_at(const struct sl_mempool *p, uint32_t index)
{
	SL_CHECK(index < p->cap);
	return p->base + (size_t)index * p->stride;
}

/* Returns true between get and put. */
static inline bool sl_mempool_in_use(const struct sl_mempool *p, uint32_t index)
{
	return p->in_use[index / 64] >> index % 64 & 1;
}

/* Marks an object as used or free. */
static inline void sl_mempool_flip_(struct sl_mempool *p, uint32_t index)
{
	p->in_use[index / 64] ^= UINT64_C(1) << index % 64;
}

/* SL_DEBUG: checks that the object is free and unchanged since put. */
void sl_mempool_check_get(const struct sl_mempool *p, const uint8_t *obj, bool was_free);

/* Returns an object, or NULL if all are in use. */
static inline void *sl_mempool_get(struct sl_mempool *p)
{
	bool was_free = p->free_head != NULL;
	void *obj = p->free_head;

	if (!was_free) {
		if (p->fresh == p->cap)
			return NULL;
		obj = p->base + (size_t)p->fresh++ * p->stride;
	}
	SL_UNPOISON(obj, p->stride);
	if (was_free)
		memcpy(&p->free_head, obj, sizeof(p->free_head));
#ifdef SL_DEBUG
	sl_mempool_check_get(p, obj, was_free);
#endif
	sl_mempool_flip_(p, sl_mempool_index(p, obj));
	p->used++;
	return obj;
}

/* Returns true for a used object of this pool. */
static inline bool sl_mempool_may_put_(const struct sl_mempool *p, const void *obj)
{
	uint32_t i = sl_mempool_index(p, obj);

	return i < p->cap && p->base + (size_t)i * p->stride == obj && sl_mempool_in_use(p, i);
}

/* Gives the object back, not NULL. */
static inline void sl_mempool_put(struct sl_mempool *p, void *obj)
{
	if (!SL_ENSURE(sl_mempool_may_put_(p, obj)))
		return;
	sl_mempool_flip_(p, sl_mempool_index(p, obj));
#ifdef SL_DEBUG
	memset(obj, SL_MEMPOOL_POISON, p->stride);
#endif
	memcpy(obj, &p->free_head, sizeof(p->free_head));
	SL_POISON(obj, p->stride);
	p->free_head = obj;
	p->used--;
}

#endif
