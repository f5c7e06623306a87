/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include "base/check.h"
#include "base/cpu.h"
#include "rpc/mem.h"

enum { CLASS_MIN = 6, CHUNK_LEN = 256 << 10, CARVE_MAX = 16 << 10, LARGE = 0xff };

#ifdef SL_DEBUG
enum { POOLED = 0 };
#else
enum { POOLED = 1 };
#endif

/* In front of each block. */
struct sl_mem_block {
	union {
		struct sl_mem_block *next; /* while unused */
		size_t len;                /* while in use: what it counts for */
	};
	uint64_t class;
};
_Static_assert(sizeof(struct sl_mem_block) == 16, "keeps blocks aligned");

struct sl_mem_chunk {
	struct sl_mem_chunk *next;
	uint64_t pad;
};

void sl_mem_init(struct sl_mem *m, size_t limit)
{
	*m = (struct sl_mem){.limit = limit};
}

void sl_mem_fini(struct sl_mem *m)
{
	for (unsigned class = 0; class < SL_MEM_CLASSES; class ++) {
		struct sl_mem_block *b = m->unused[class], *next;

		for (; b && (size_t)1 << class > CARVE_MAX; b = next) {
			next = b->next;
			free(b);
		}
		m->unused[class] = NULL;
	}
	while (m->chunks) {
		struct sl_mem_chunk *c = m->chunks;

		m->chunks = c->next;
		free(c);
	}
	m->bump_left = 0;
}

/* A block that has never been used: small ones out of a chunk, others from the system. */
static struct sl_mem_block *fresh_block(struct sl_mem *m, size_t len)
{
	struct sl_mem_block *b;

	if (len > CARVE_MAX)
		return malloc(len);
	if (m->bump_left < len) {
		struct sl_mem_chunk *c = malloc(CHUNK_LEN);

		if (!c)
			return NULL;
		c->next = m->chunks;
		m->chunks = c;
		m->bump = (uint8_t *)(c + 1);
		m->bump_left = CHUNK_LEN - sizeof(*c);
	}
	b = (struct sl_mem_block *)(void *)m->bump;
	m->bump += len;
	m->bump_left -= len;
	return b;
}

static unsigned class_of(size_t len)
{
	unsigned class = 64 - (unsigned)__builtin_clzll(len - 1);

	return class < CLASS_MIN ? CLASS_MIN : class;
}

void *sl_mem_alloc(struct sl_mem *m, size_t len)
{
	struct sl_mem_block *b;
	uint64_t class = LARGE;

	if (len > m->limit)
		return NULL;
	len += sizeof(*b);
	if (POOLED && sl_likely(len <= SL_MEM_LARGE)) {
		class = class_of(len);
		len = (size_t)1 << class;
	}
	if (m->used + len > m->limit)
		return NULL;
	if (class == LARGE) {
		b = malloc(len);
	} else if ((b = m->unused[class])) {
		m->unused[class] = b->next;
		if (len > CARVE_MAX)
			m->kept -= len;
	} else {
		b = fresh_block(m, len);
	}
	if (!b)
		return NULL;
	b->class = class;
	b->len = len;
	m->used += len;
	return b + 1;
}

void sl_mem_free(struct sl_mem *m, void *ptr)
{
	struct sl_mem_block *b;

	if (!ptr)
		return;
	b = (struct sl_mem_block *)ptr - 1;
	SL_CHECK(m->used >= b->len);
	m->used -= b->len;
	if (b->class == LARGE || (b->len > CARVE_MAX && m->kept + b->len > SL_MEM_KEEP)) {
		free(b);
		return;
	}
	if (b->len > CARVE_MAX)
		m->kept += b->len;
	b->next = m->unused[b->class];
	m->unused[b->class] = b;
}
