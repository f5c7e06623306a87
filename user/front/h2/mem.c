/* SPDX-License-Identifier: Apache-2.0 */
#include "front/h2/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"

struct sl_h2_slab {
	struct sl_h2_slab *next, *prev; /* partial list; `next` alone: empty list */
	void *free_head;
	uint32_t size;
	uint32_t used;
	uint32_t fresh;
	uint8_t class;
	bool listed;
};

/* The largest leaves room for the slab's header. */
static const uint32_t sizes[] = {
	32,
	48,
	64,
	96,
	128,
	192,
	256,
	384,
	512,
	768,
	1024,
	1536,
	2048,
	3072,
	4096,
	6144,
	8192,
	12288,
	18432,
	24576,
	36864,
	65408,
	SL_H2_SLAB - 128,
};
_Static_assert(sizeof(sizes) / sizeof(sizes[0]) <= SL_H2_MEM_CLASSES, "classes");
_Static_assert(sizeof(struct sl_h2_slab) <= 64, "head of a slab");
enum { CLASSES = sizeof(sizes) / sizeof(sizes[0]), HEAD = 64 };

int sl_h2_mem_init(struct sl_h2_mem *m, size_t bytes)
{
	size_t len = (bytes + SL_H2_SLAB - 1) / SL_H2_SLAB * SL_H2_SLAB + SL_H2_SLAB;
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t base = ((uintptr_t)p + SL_H2_SLAB - 1) & ~(uintptr_t)(SL_H2_SLAB - 1);

	*m = (struct sl_h2_mem){0};
	if (p == MAP_FAILED)
		return -errno;
	/* Aligned: a mask gives an object's slab. */
	if (base != (uintptr_t)p)
		munmap(p, base - (uintptr_t)p);
	m->base = (uint8_t *)base;
	m->map_len = len - (base - (uintptr_t)p);
	m->slabs = (uint32_t)(m->map_len / SL_H2_SLAB);
	return 0;
}

void sl_h2_mem_fini(struct sl_h2_mem *m)
{
	if (m->base)
		munmap(m->base, m->map_len);
	m->base = NULL;
}

static int class_of(size_t size)
{
	for (int i = 0; i < CLASSES; i++) {
		if (size <= sizes[i])
			return i;
	}
	return -1;
}

static void list_partial(struct sl_h2_mem *m, struct sl_h2_slab *s)
{
	s->prev = NULL;
	s->next = m->partial[s->class];
	if (s->next)
		s->next->prev = s;
	m->partial[s->class] = s;
	s->listed = true;
}

static void unlist_partial(struct sl_h2_mem *m, struct sl_h2_slab *s)
{
	if (s->next)
		s->next->prev = s->prev;
	if (s->prev)
		s->prev->next = s->next;
	else
		m->partial[s->class] = s->next;
	s->listed = false;
}

static struct sl_h2_slab *new_slab(struct sl_h2_mem *m, int class)
{
	struct sl_h2_slab *s = m->empty;

	if (s)
		m->empty = s->next;
	else if (m->fresh < m->slabs)
		s = (struct sl_h2_slab *)(m->base + (size_t)m->fresh++ * SL_H2_SLAB);
	else
		return NULL;
	*s = (struct sl_h2_slab){.size = sizes[class], .class = (uint8_t) class, .fresh = HEAD};
	list_partial(m, s);
	return s;
}

void *sl_h2_alloc(struct sl_h2_budget *b, size_t size)
{
	struct sl_h2_mem *m = b->from;
	int class = class_of(size);
	struct sl_h2_slab *s;
	void *p;

	if (class < 0 || b->used + sizes[class] > b->max)
		return NULL;
	if (b->of_source && *b->of_source + sizes[class] > b->source_max)
		return NULL;
	s = m->partial[class] ? m->partial[class] : new_slab(m, class);
	if (!s)
		return NULL;
	p = s->free_head;
	if (p) {
		memcpy(&s->free_head, p, sizeof(s->free_head));
	} else {
		p = (uint8_t *)s + s->fresh;
		s->fresh += s->size;
	}
	s->used++;
	if (!s->free_head && s->fresh + s->size > SL_H2_SLAB)
		unlist_partial(m, s);
	b->used += s->size;
	m->used += s->size;
	if (b->of_source)
		*b->of_source += s->size;
	return p;
}

static struct sl_h2_slab *slab_of(void *p)
{
	return (struct sl_h2_slab *)((uintptr_t)p & ~(uintptr_t)(SL_H2_SLAB - 1));
}

void sl_h2_free(struct sl_h2_budget *b, void *ptr)
{
	struct sl_h2_mem *m = b->from;
	struct sl_h2_slab *s;

	if (!ptr)
		return;
	s = slab_of(ptr);
	if (!SL_ENSURE(s->used && b->used >= s->size))
		return; /* leak: it may be in use twice */
#ifdef SL_DEBUG
	memset(ptr, 0xa5, s->size);
#endif
	memcpy(ptr, &s->free_head, sizeof(s->free_head));
	s->free_head = ptr;
	s->used--;
	b->used -= s->size;
	m->used -= s->size;
	if (b->of_source)
		*b->of_source -= s->size;
	if (s->used) {
		if (!s->listed)
			list_partial(m, s);
		return;
	}
	if (s->listed)
		unlist_partial(m, s);
	s->next = m->empty;
	m->empty = s;
}

static void *mem_malloc(size_t size, void *arg)
{
	return sl_h2_alloc(arg, size);
}

static void mem_free(void *ptr, void *arg)
{
	sl_h2_free(arg, ptr);
}

static void *mem_calloc(size_t n, size_t size, void *arg)
{
	void *p = size && n > SIZE_MAX / size ? NULL : sl_h2_alloc(arg, n * size);

	if (p)
		memset(p, 0, n * size);
	return p;
}

static void *mem_realloc(void *ptr, size_t size, void *arg)
{
	size_t old;
	void *p;

	if (!ptr)
		return sl_h2_alloc(arg, size);
	old = slab_of(ptr)->size;
	if (size <= old)
		return ptr;
	p = sl_h2_alloc(arg, size);
	if (!p)
		return NULL;
	memcpy(p, ptr, old);
	sl_h2_free(arg, ptr);
	return p;
}

void sl_h2_budget_init(struct sl_h2_budget *b, struct sl_h2_mem *m, size_t max)
{
	*b = (struct sl_h2_budget){
		.mem = {.mem_user_data = b,
			.malloc = mem_malloc,
			.free = mem_free,
			.calloc = mem_calloc,
			.realloc = mem_realloc},
		.from = m,
		.max = max,
	};
}
