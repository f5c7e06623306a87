/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded ring of 64-bit words, many producer threads, one consumer thread.
 *
 * Producers claim position p by a compare-and-swap on head. Cell p & mask is free if turn == p, and
 * filled if turn == p + 1. The consumer then sets turn = p + capacity. Turn is stored with release
 * and loaded with acquire, which orders the word and earlier writes.
 *
 * A producer that stops between claim and fill blocks the later words: not for producers that may
 * die half-way.
 */
#ifndef SL_BASE_MPSC_H
#define SL_BASE_MPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "base/cpu.h"

struct sl_mpsc_cell {
	_Atomic uint64_t turn;
	uint64_t word;
};

struct sl_mpsc {
	_Atomic uint64_t head SL_ALIGNED(SL_CACHELINE); /* written by producers */
	uint64_t tail SL_ALIGNED(SL_CACHELINE);         /* written by the consumer */
	uint64_t mask SL_ALIGNED(SL_CACHELINE);         /* constant */
	struct sl_mpsc_cell cell[] SL_ALIGNED(SL_CACHELINE);
};

/* capacity: a power of two from 2 to 2^31. Returns NULL and errno EINVAL or ENOMEM. */
struct sl_mpsc *sl_mpsc_new(uint32_t capacity);
void sl_mpsc_free(struct sl_mpsc *q);

/* Any thread. Returns false if full. */
static inline bool sl_mpsc_put(struct sl_mpsc *q, uint64_t word)
{
	uint64_t pos = atomic_load_explicit(&q->head, memory_order_relaxed);

	for (;;) {
		struct sl_mpsc_cell *c = &q->cell[pos & q->mask];
		uint64_t turn = atomic_load_explicit(&c->turn, memory_order_acquire);

		if (turn == pos) {
			if (!atomic_compare_exchange_weak_explicit(&q->head, &pos, pos + 1,
								   memory_order_relaxed,
								   memory_order_relaxed))
				continue;
			c->word = word;
			atomic_store_explicit(&c->turn, pos + 1, memory_order_release);
			return true;
		}
		if ((int64_t)(turn - pos) < 0)
			return false;
		pos = atomic_load_explicit(&q->head, memory_order_relaxed);
	}
}

/* Consumer only. Returns false if empty. */
static inline bool sl_mpsc_get(struct sl_mpsc *q, uint64_t *word)
{
	struct sl_mpsc_cell *c = &q->cell[q->tail & q->mask];

	if (atomic_load_explicit(&c->turn, memory_order_acquire) != q->tail + 1)
		return false;
	*word = c->word;
	atomic_store_explicit(&c->turn, q->tail + q->mask + 1, memory_order_release);
	q->tail++;
	return true;
}

/* Passes the ownership of a pointer; NULL cannot be put. */
static inline bool sl_mpsc_put_ptr(struct sl_mpsc *q, void *p)
{
	SL_CHECK(p != NULL);
	return sl_mpsc_put(q, (uint64_t)(uintptr_t)p);
}

/* Returns NULL if empty. */
static inline void *sl_mpsc_get_ptr(struct sl_mpsc *q)
{
	uint64_t v;

	return sl_mpsc_get(q, &v) ? (void *)(uintptr_t)v : NULL;
}

#endif
