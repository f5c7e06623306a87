/* SPDX-License-Identifier: Apache-2.0 */
#include "config/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROW_FIRST = 8 }; /* a power of two */

struct arena_chunk {
	struct arena_chunk *next;
	_Alignas(16) unsigned char bytes[];
};

struct conf_arena {
	struct arena_chunk *pieces;
};

struct conf_arena *conf_arena_create(void)
{
	return calloc(1, sizeof(struct conf_arena));
}

void conf_arena_free(struct conf_arena *a)
{
	if (!a)
		return;
	for (struct arena_chunk *p = a->pieces, *next; p; p = next) {
		next = p->next;
		free(p);
	}
	free(a);
}

void *conf_arena_alloc(struct conf_arena *a, size_t len)
{
	struct arena_chunk *p = calloc(1, sizeof(*p) + len);

	if (!p)
		return NULL;
	p->next = a->pieces;
	a->pieces = p;
	return p->bytes;
}

void *conf_arena_grow(struct conf_arena *a, void *array, uint32_t cnt, size_t size)
{
	void *more;

	if (cnt & (cnt - 1) || (cnt && cnt < GROW_FIRST))
		return array;
	more = conf_arena_alloc(a, size * (cnt ? 2 * cnt : GROW_FIRST));
	if (more && cnt)
		memcpy(more, array, cnt * size);
	return more;
}

char *conf_arena_strndup(struct conf_arena *a, const char *s, size_t len)
{
	char *copy = conf_arena_alloc(a, len + 1);

	if (copy)
		memcpy(copy, s, len);
	return copy;
}

char *conf_arena_printf(struct conf_arena *a, const char *fmt, ...)
{
	va_list ap, again;
	char *s;
	int len;

	va_start(ap, fmt);
	va_copy(again, ap);
	len = vsnprintf(NULL, 0, fmt, ap);
	s = len < 0 ? NULL : conf_arena_alloc(a, (size_t)len + 1);
	if (s)
		vsnprintf(s, (size_t)len + 1, fmt, again);
	va_end(again);
	va_end(ap);
	return s;
}
