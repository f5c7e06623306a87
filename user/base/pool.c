/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_ASAN 1
#endif
#endif
#ifdef POOL_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { LINK_LEN = sizeof(void *), ALIGN_MAX = 4096 };

/* Modular inverse of an odd number by Newton: each step doubles the right bits, from 3. */
static uint64_t inverse_odd(uint64_t odd)
{
	uint64_t inv = odd;

	for (int i = 0; i < 5; i++)
		inv *= 2 - odd * inv;
	return inv;
}

#ifdef SL_DEBUG
static int debug_init(struct sl_pool *p)
{
	p->in_use = calloc(p->cap / 64 + 1, sizeof(*p->in_use));
	return p->in_use ? 0 : -ENOMEM;
}

static void debug_get(struct sl_pool *p, const uint8_t *obj, bool was_free)
{
	uint32_t i = sl_pool_index(p, obj);

	SL_CHECK(!(p->in_use[i / 64] >> (i % 64) & 1));
	p->in_use[i / 64] |= UINT64_C(1) << (i % 64);
	for (size_t k = LINK_LEN; was_free && k < p->stride; k++)
		SL_CHECK(obj[k] == SL_POOL_POISON);
}

static void debug_put(struct sl_pool *p, void *obj)
{
	uint32_t i = sl_pool_index(p, obj);

	SL_CHECK(sl_pool_owns(p, obj));
	SL_CHECK(p->in_use[i / 64] >> (i % 64) & 1);
	p->in_use[i / 64] &= ~(UINT64_C(1) << (i % 64));
	memset(obj, SL_POOL_POISON, p->stride);
}
#else
static int debug_init(struct sl_pool *p)
{
	p->in_use = NULL;
	return 0;
}

static void debug_get(struct sl_pool *p, const uint8_t *obj, bool was_free)
{
	(void)p, (void)obj, (void)was_free;
}

static void debug_put(struct sl_pool *p, void *obj)
{
	(void)p, (void)obj;
}
#endif

static bool shape_ok(size_t obj_size, size_t align, uint32_t capacity)
{
	return obj_size && obj_size <= UINT32_MAX && capacity && align <= ALIGN_MAX &&
	       (align & (align - 1)) == 0;
}

int sl_pool_init(struct sl_pool *p, size_t obj_size, size_t align, uint32_t capacity)
{
	int err;

	*p = (struct sl_pool){0};
	if (!shape_ok(obj_size, align, capacity))
		return -EINVAL;
	if (align < LINK_LEN)
		align = LINK_LEN;
	p->stride = (obj_size + align - 1) & ~(align - 1);
	p->cap = capacity;
	p->shift = (uint32_t)__builtin_ctzll(p->stride);
	p->odd_inv = inverse_odd(p->stride >> p->shift);
	p->map_len = p->stride * capacity;
	p->base = mmap(NULL, p->map_len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p->base == MAP_FAILED) {
		err = -errno;
		goto out;
	}
	err = debug_init(p);
	if (err)
		goto unmap;
	ASAN_POISON_MEMORY_REGION(p->base, p->map_len);
	return 0;

unmap:
	munmap(p->base, p->map_len);
out:
	*p = (struct sl_pool){0};
	return err;
}

void sl_pool_fini(struct sl_pool *p)
{
	if (p->base) {
		ASAN_UNPOISON_MEMORY_REGION(p->base, p->map_len);
		munmap(p->base, p->map_len);
	}
	free(p->in_use);
	*p = (struct sl_pool){0};
}

void *sl_pool_get(struct sl_pool *p)
{
	bool was_free = p->free_head != NULL;
	void *obj = p->free_head;

	if (!was_free) {
		if (p->fresh == p->cap)
			return NULL;
		obj = p->base + (size_t)p->fresh++ * p->stride;
	}
	ASAN_UNPOISON_MEMORY_REGION(obj, p->stride);
	if (was_free)
		memcpy(&p->free_head, obj, LINK_LEN);
	debug_get(p, obj, was_free);
	p->used++;
	return obj;
}

void sl_pool_put(struct sl_pool *p, void *obj)
{
	debug_put(p, obj);
	memcpy(obj, &p->free_head, LINK_LEN);
	ASAN_POISON_MEMORY_REGION(obj, p->stride);
	p->free_head = obj;
	p->used--;
}

bool sl_pool_owns(const struct sl_pool *p, const void *obj)
{
	uintptr_t off = (uintptr_t)obj - (uintptr_t)p->base;

	return off < p->map_len && off % p->stride == 0;
}
