/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include "base/cpu.h"
#include "rpc/capped_alloc.h"

enum { CHUNK_LEN = 256 << 10 };

#ifdef SL_DEBUG
enum { POOLED = 0 };
#else
enum { POOLED = 1 };
#endif

struct sl_capped_chunk {
	struct sl_capped_chunk *next;
	uint64_t pad;
};

void sl_capped_init(struct sl_capped_alloc *m, size_t limit)
{
	*m = (struct sl_capped_alloc){.limit = limit};
}

void sl_capped_fini(struct sl_capped_alloc *m)
{
	for (unsigned class = 0; class < SL_CAPPED_CLASSES; class ++) {
		struct sl_capped_block *b = m->unused[class], *next;

		for (; b && (size_t)1 << class > SL_CAPPED_CARVED; b = next) {
			next = b->next;
			free(b);
		}
		m->unused[class] = NULL;
	}
	while (m->chunks) {
		struct sl_capped_chunk *c = m->chunks;

		m->chunks = c->next;
		free(c);
	}
	m->bump_left = 0;
}

static struct sl_capped_block *cut_block(struct sl_capped_alloc *m, size_t len)
{
	struct sl_capped_block *b;

	if (len > SL_CAPPED_CARVED)
		return malloc(len);
	if (m->bump_left < len) {
		struct sl_capped_chunk *c = malloc(CHUNK_LEN);

		if (!c)
			return NULL;
		c->next = m->chunks;
		m->chunks = c;
		m->bump = (uint8_t *)(c + 1);
		m->bump_left = CHUNK_LEN - sizeof(*c);
	}
	b = (struct sl_capped_block *)(void *)m->bump;
	m->bump += len;
	m->bump_left -= len;
	return b;
}

void *sl_capped_malloc_slow(struct sl_capped_alloc *m, size_t len)
{
	struct sl_capped_block *b;
	uint64_t class = SL_CAPPED_SYSTEM;

	if (len > m->limit)
		return NULL;
	len += sizeof(*b);
	if (POOLED && sl_likely(len <= SL_CAPPED_LARGE)) {
		class = sl_capped_class_(len);
		len = (size_t)1 << class;
	}
	if (m->used + len > m->limit)
		return NULL;
	if (class == SL_CAPPED_SYSTEM) {
		b = malloc(len);
	} else if ((b = m->unused[class])) {
		m->unused[class] = b->next;
		if (len > SL_CAPPED_CARVED)
			m->kept -= len;
	} else {
		b = cut_block(m, len);
	}
	if (!b)
		return NULL;
	b->class = class;
	b->len = len;
	m->used += len;
	return b + 1;
}

void sl_capped_free_slow(struct sl_capped_alloc *m, struct sl_capped_block *b)
{
	if (b->class == SL_CAPPED_SYSTEM || m->kept + b->len > SL_CAPPED_KEEP) {
		free(b);
		return;
	}
	m->kept += b->len;
	b->next = m->unused[b->class];
	m->unused[b->class] = b;
}
