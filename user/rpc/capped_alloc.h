/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocator with a limit; not thread-safe. Size classes are powers of two. SL_DEBUG takes each
 * block from the system, for ASan.
 */
#ifndef SL_RPC_CAPPED_ALLOC_H
#define SL_RPC_CAPPED_ALLOC_H

#include <stddef.h>
#include <stdint.h>
#include "base/check.h"
#include "base/cpu.h"

#define SL_CAPPED_CARVED ((size_t)16 << 10) /* cut from chunks, and kept */
#define SL_CAPPED_LARGE  ((size_t)4 << 20)
#define SL_CAPPED_KEEP   ((size_t)64 << 20)

enum { SL_CAPPED_CLASSES = 23, SL_CAPPED_CLASS_MIN = 6, SL_CAPPED_SYSTEM = 0xff };

/* Precedes each block. */
struct sl_capped_block {
	union {
		struct sl_capped_block *next;
		size_t len; /* bytes that count against the limit */
	};
	uint64_t class;
};
_Static_assert(sizeof(struct sl_capped_block) == 16, "keeps blocks aligned");

struct sl_capped_chunk;

struct sl_capped_alloc {
	size_t used, limit; /* bytes, headers and rounding included */
	size_t kept;
	struct sl_capped_block *unused[SL_CAPPED_CLASSES];
	struct sl_capped_chunk *chunks;
	uint8_t *bump;
	size_t bump_left;
};

/* Makes an empty allocator of at most `limit` bytes. */
void sl_capped_init(struct sl_capped_alloc *m, size_t limit);
/* Frees unused blocks and all chunks. */
void sl_capped_fini(struct sl_capped_alloc *m);

/* Returns the binary logarithm of the block size. */
static inline unsigned sl_capped_class_(size_t len)
{
	unsigned class = 64 - (unsigned)__builtin_clzll(len - 1);

	return class < SL_CAPPED_CLASS_MIN ? SL_CAPPED_CLASS_MIN : class;
}

/* Called by sl_capped_malloc() if its free list cannot serve. Same result. */
void *sl_capped_malloc_slow(struct sl_capped_alloc *m, size_t len);
/* Called by sl_capped_free(): keeps a block for reuse, or frees it. */
void sl_capped_free_slow(struct sl_capped_alloc *m, struct sl_capped_block *b);

/* Returns NULL without memory or at the limit. */
static inline void *sl_capped_malloc(struct sl_capped_alloc *m, size_t len)
{
	struct sl_capped_block *b;
	unsigned class;
	size_t whole;

	if (len > SL_CAPPED_CARVED - sizeof(*b))
		return sl_capped_malloc_slow(m, len);
	class = sl_capped_class_(len + sizeof(*b));
	whole = (size_t)1 << class;
	b = m->unused[class];
	if (sl_unlikely(!b || m->used + whole > m->limit))
		return sl_capped_malloc_slow(m, len);
	m->unused[class] = b->next;
	b->class = class;
	b->len = whole;
	m->used += whole;
	return b + 1;
}

/* Frees a block, or NULL. */
static inline void sl_capped_free(struct sl_capped_alloc *m, void *ptr)
{
	struct sl_capped_block *b;

	if (!ptr)
		return;
	b = (struct sl_capped_block *)ptr - 1;
	if (!SL_ENSURE(m->used >= b->len))
		return; /* not ours, or freed twice: never reused */
	m->used -= b->len;
	if (b->len > SL_CAPPED_CARVED || b->class == SL_CAPPED_SYSTEM) {
		sl_capped_free_slow(m, b);
		return;
	}
	b->next = m->unused[b->class];
	m->unused[b->class] = b;
}

#endif
