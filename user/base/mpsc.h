/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded ring of 64-bit words, many producer threads, one consumer thread.
 *
 * Each cell has a turn (Vyukov's bounded queue), stored with release and loaded with acquire.
 *
 * A producer that stops between claim and fill blocks the later words.
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
	_Atomic uint64_t head SL_ALIGNED(SL_CACHELINE); /* producers */
	uint64_t tail SL_ALIGNED(SL_CACHELINE);         /* consumer */
	uint64_t mask SL_ALIGNED(SL_CACHELINE);         /* constant */
	struct sl_mpsc_cell cell[] SL_ALIGNED(SL_CACHELINE);
};

/* capacity: a power of two from 2 to 2^31. Returns NULL and errno EINVAL or ENOMEM. */
struct sl_mpsc *sl_mpsc_new(uint32_t capacity);
/* Frees q (may be NULL), not the words' objects. */
void sl_mpsc_free(struct sl_mpsc *q);

/* Returns false if full. Any thread. */
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

/* Returns false if empty. Consumer only. */
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

/* Passes a pointer's ownership, unless full (false). p: not NULL. */
static inline bool sl_mpsc_put_ptr(struct sl_mpsc *q, void *p)
{
	SL_CHECK(p != NULL);
	return sl_mpsc_put(q, (uint64_t)(uintptr_t)p);
}

/* Returns the next pointer, now the caller's, or NULL: empty. */
static inline void *sl_mpsc_get_ptr(struct sl_mpsc *q)
{
	uint64_t v;

	return sl_mpsc_get(q, &v) ? (void *)(uintptr_t)v : NULL;
}

#endif
