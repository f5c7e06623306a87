/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes the place of malloc() and its kin in the one program that includes it: how many allocations
 * are alive, and what happens when one of them fails.
 */
#ifndef SL_TESTS_ALLOC_H
#define SL_TESTS_ALLOC_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* glibc's own names, or a sanitizer's. */
#ifdef __SANITIZE_ADDRESS__
#define ALLOC_REAL(name) __interceptor_##name
#else
#define ALLOC_REAL(name) __libc_##name
#endif
void *ALLOC_REAL(malloc)(size_t len);
void *ALLOC_REAL(calloc)(size_t cnt, size_t len);
void *ALLOC_REAL(realloc)(void *old, size_t len);
void ALLOC_REAL(free)(void *old);

static unsigned allocs_left = UINT32_MAX; /* before one fails, and none after it */
static long allocs_alive;

static void *alloc_counted(void *p)
{
	allocs_alive += p != NULL;
	return p;
}

static bool alloc_may(void)
{
	return allocs_left == UINT32_MAX || allocs_left--;
}

void *malloc(size_t len)
{
	return alloc_may() ? alloc_counted(ALLOC_REAL(malloc)(len)) : NULL;
}

void *calloc(size_t cnt, size_t len)
{
	return alloc_may() ? alloc_counted(ALLOC_REAL(calloc)(cnt, len)) : NULL;
}

void *realloc(void *old, size_t len)
{
	if (!alloc_may())
		return NULL;
	return old ? ALLOC_REAL(realloc)(old, len) : alloc_counted(ALLOC_REAL(malloc)(len));
}

void free(void *old)
{
	allocs_alive -= old != NULL;
	ALLOC_REAL(free)(old);
}

#endif
