/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include "base/cpu.h"
#include "rpc/mem.h"

enum { CHUNK_LEN = 256 << 10 };

#ifdef SL_DEBUG
enum { POOLED = 0 };
#else
enum { POOLED = 1 };
#endif

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

		for (; b && (size_t)1 << class > SL_MEM_CARVED; b = next) {
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

/* Returns a block that was never used: small ones from a chunk, others from the system. */
static struct sl_mem_block *fresh_block(struct sl_mem *m, size_t len)
{
	struct sl_mem_block *b;

	if (len > SL_MEM_CARVED)
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

void *sl_mem_take(struct sl_mem *m, size_t len)
{
	struct sl_mem_block *b;
	uint64_t class = SL_MEM_SYSTEM;

	if (len > m->limit)
		return NULL;
	len += sizeof(*b);
	if (POOLED && sl_likely(len <= SL_MEM_LARGE)) {
		class = sl_mem_class_(len);
		len = (size_t)1 << class;
	}
	if (m->used + len > m->limit)
		return NULL;
	if (class == SL_MEM_SYSTEM) {
		b = malloc(len);
	} else if ((b = m->unused[class])) {
		m->unused[class] = b->next;
		if (len > SL_MEM_CARVED)
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

void sl_mem_give(struct sl_mem *m, struct sl_mem_block *b)
{
	if (b->class == SL_MEM_SYSTEM || m->kept + b->len > SL_MEM_KEEP) {
		free(b);
		return;
	}
	m->kept += b->len;
	b->next = m->unused[b->class];
	m->unused[b->class] = b;
}
