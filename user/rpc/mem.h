/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocator of one owner with a limit. Size classes are powers of two. Freed blocks are kept, so
 * that a steady flow allocates nothing. Not thread-safe. Blocks are aligned to 16 bytes.
 *
 * At most SL_MEM_KEEP bytes of large blocks are kept, and no block over SL_MEM_LARGE. SL_DEBUG
 * takes each block from the system, so that ASan knows its bounds.
 */
#ifndef SL_RPC_MEM_H
#define SL_RPC_MEM_H

#include <stddef.h>
#include <stdint.h>
#include "base/check.h"
#include "base/cpu.h"

#define SL_MEM_CARVED ((size_t)16 << 10) /* blocks up to this size are cut from chunks, and kept */
#define SL_MEM_LARGE  ((size_t)4 << 20)
#define SL_MEM_KEEP   ((size_t)64 << 20)

enum { SL_MEM_CLASSES = 23, SL_MEM_CLASS_MIN = 6, SL_MEM_SYSTEM = 0xff };

/* Precedes each block. */
struct sl_mem_block {
	union {
		struct sl_mem_block *next; /* while unused */
		size_t len;                /* while in use: bytes that count against the limit */
	};
	uint64_t class; /* SL_MEM_SYSTEM: goes back to the system when freed */
};
_Static_assert(sizeof(struct sl_mem_block) == 16, "keeps blocks aligned");

struct sl_mem_chunk;

struct sl_mem {
	size_t used, limit; /* bytes handed out, headers and rounding included */
	size_t kept;        /* bytes of unused large blocks */
	struct sl_mem_block *unused[SL_MEM_CLASSES];
	struct sl_mem_chunk *chunks;
	uint8_t *bump;
	size_t bump_left;
};

/* Initialises an allocator that hands out at most `limit` bytes. */
void sl_mem_init(struct sl_mem *m, size_t limit);
/* Frees what is kept. Blocks from chunks become invalid, even if still in use. */
void sl_mem_fini(struct sl_mem *m);

/* Returns the size class of so many bytes, header included. */
static inline unsigned sl_mem_class_(size_t len)
{
	unsigned class = 64 - (unsigned)__builtin_clzll(len - 1);

	return class < SL_MEM_CLASS_MIN ? SL_MEM_CLASS_MIN : class;
}

/* Slow paths of sl_mem_alloc() and sl_mem_free(). */
void *sl_mem_take(struct sl_mem *m, size_t len);
void sl_mem_give(struct sl_mem *m, struct sl_mem_block *b);

/* Returns a block of at least `len` bytes, or NULL beyond the limit or the system's memory. */
static inline void *sl_mem_alloc(struct sl_mem *m, size_t len)
{
	struct sl_mem_block *b;
	unsigned class;
	size_t whole;

	if (len > SL_MEM_CARVED - sizeof(*b))
		return sl_mem_take(m, len);
	class = sl_mem_class_(len + sizeof(*b));
	whole = (size_t)1 << class;
	b = m->unused[class];
	if (sl_unlikely(!b || m->used + whole > m->limit))
		return sl_mem_take(m, len);
	m->unused[class] = b->next;
	b->class = class;
	b->len = whole;
	m->used += whole;
	return b + 1;
}

/* Frees a block; NULL does nothing. */
static inline void sl_mem_free(struct sl_mem *m, void *ptr)
{
	struct sl_mem_block *b;

	if (!ptr)
		return;
	b = (struct sl_mem_block *)ptr - 1;
	if (!SL_ENSURE(m->used >= b->len))
		return; /* not ours, or freed twice: never reused */
	m->used -= b->len;
	if (b->len > SL_MEM_CARVED || b->class == SL_MEM_SYSTEM) {
		sl_mem_give(m, b);
		return;
	}
	b->next = m->unused[b->class];
	m->unused[b->class] = b;
}

#endif
