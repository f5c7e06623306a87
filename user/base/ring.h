/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded lock-free ring of 64-bit words, one producer thread and one consumer thread.
 *
 * Count = head - tail; indices run freely.
 *
 * Head and tail are stored with release and loaded with acquire. Each side caches the other's
 * index.
 */
#ifndef SL_BASE_RING_H
#define SL_BASE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"

struct sl_ring {
	/* Written by the producer. */
	_Atomic uint32_t head SL_ALIGNED(SL_CACHELINE);
	uint32_t tail_seen;
	/* Written by the consumer. */
	_Atomic uint32_t tail SL_ALIGNED(SL_CACHELINE);
	uint32_t head_seen;
	/* Constant. */
	uint32_t mask SL_ALIGNED(SL_CACHELINE);
	uint64_t slot[] SL_ALIGNED(SL_CACHELINE);
};

_Static_assert(offsetof(struct sl_ring, tail) % SL_CACHELINE == 0, "consumer line");
_Static_assert(offsetof(struct sl_ring, mask) % SL_CACHELINE == 0, "constant line");
_Static_assert(offsetof(struct sl_ring, slot) % SL_CACHELINE == 0, "slots");

/* capacity: a power of two, at most 2^31. Returns NULL and errno EINVAL or ENOMEM. */
struct sl_ring *sl_ring_new(uint32_t capacity);
/* Frees r (may be NULL), not the words' objects. */
void sl_ring_free(struct sl_ring *r);

/* Returns the number of words, exact while the other side rests. Any thread. */
static inline uint32_t sl_ring_count(struct sl_ring *r)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_acquire);
	uint32_t n = atomic_load_explicit(&r->head, memory_order_acquire) - tail;

	return n > r->mask + 1 ? r->mask + 1 : n;
}

/* Returns the number put, less if full. Producer only. */
static inline uint32_t sl_ring_put_burst(struct sl_ring *r, const uint64_t *v, uint32_t n)
{
	uint32_t head = atomic_load_explicit(&r->head, memory_order_relaxed);
	uint32_t room = r->mask + 1 - (head - r->tail_seen);

	if (room < n) {
		r->tail_seen = atomic_load_explicit(&r->tail, memory_order_acquire);
		room = r->mask + 1 - (head - r->tail_seen);
		n = room < n ? room : n;
	}
	for (uint32_t i = 0; i < n; i++)
		r->slot[(head + i) & r->mask] = v[i];
	if (n)
		atomic_store_explicit(&r->head, head + n, memory_order_release);
	return n;
}

/* Returns the number taken. Consumer only. */
static inline uint32_t sl_ring_get_burst(struct sl_ring *r, uint64_t *v, uint32_t n)
{
	uint32_t tail = atomic_load_explicit(&r->tail, memory_order_relaxed);
	uint32_t have = r->head_seen - tail;

	if (have < n) {
		r->head_seen = atomic_load_explicit(&r->head, memory_order_acquire);
		have = r->head_seen - tail;
		n = have < n ? have : n;
	}
	for (uint32_t i = 0; i < n; i++)
		v[i] = r->slot[(tail + i) & r->mask];
	if (n)
		atomic_store_explicit(&r->tail, tail + n, memory_order_release);
	return n;
}

/* Put or get one word. Return false if full or empty. */
static inline bool sl_ring_put(struct sl_ring *r, uint64_t v)
{
	return sl_ring_put_burst(r, &v, 1) == 1;
}
static inline bool sl_ring_get(struct sl_ring *r, uint64_t *v)
{
	return sl_ring_get_burst(r, v, 1) == 1;
}

#endif
