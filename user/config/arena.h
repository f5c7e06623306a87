/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that lives as long as a configuration: allocated piece by piece, freed at once.
 */
#ifndef SL_CONFIG_ARENA_H
#define SL_CONFIG_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct conf_arena;

/* Returns an empty arena; NULL: no memory. */
struct conf_arena *conf_arena_create(void);
void conf_arena_free(struct conf_arena *a);
/* Zeroed; NULL when there is no memory. */
void *conf_arena_alloc(struct conf_arena *a, size_t len);
/* An array with room for one more than cnt: the same, or a copy of twice the size. */
void *conf_arena_grow(struct conf_arena *a, void *array, uint32_t cnt, size_t size);
char *conf_arena_strndup(struct conf_arena *a, const char *s, size_t len);
char *conf_arena_printf(struct conf_arena *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
