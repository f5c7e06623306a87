/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that lives as long as a configuration, and is freed at once. */
#ifndef SL_CONFIG_ARENA_H
#define SL_CONFIG_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct conf_arena;

/* Returns an empty arena, or NULL without memory. */
struct conf_arena *conf_arena_create(void);
/* Frees all blocks. NULL is allowed. */
void conf_arena_free(struct conf_arena *a);
/* Return zeroed memory, the grown array or a text; NULL: no memory. */
void *conf_arena_alloc(struct conf_arena *a, size_t len);
/* Returns the array with room for more than cnt elements, perhaps a copy; NULL: no memory. */
void *conf_arena_grow(struct conf_arena *a, void *array, uint32_t cnt, size_t size);
/* Return a text; NULL: no memory. */
char *conf_arena_strndup(struct conf_arena *a, const char *s, size_t len);
char *conf_arena_printf(struct conf_arena *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
