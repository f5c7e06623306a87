/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for nghttp2: size classes in slabs of one mapped region.
 *
 * A slab has objects of one class while any is in use. One never used takes no memory.
 *
 * Limits: the region, a budget per connection, and one per client address. Above a limit: NULL. One
 * thread.
 */
#ifndef SL_FRONT_H2_MEM_H
#define SL_FRONT_H2_MEM_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SL_H2_SLAB = 128 << 10, SL_H2_MEM_CLASSES = 32 };

struct sl_h2_slab;

struct sl_h2_mem {
	uint8_t *base;
	size_t map_len;
	uint32_t slabs, fresh; /* `fresh`: index of the first never used */
	struct sl_h2_slab *empty;
	struct sl_h2_slab *partial[SL_H2_MEM_CLASSES];
	uint64_t used; /* rounded up to size classes */
};

struct sl_h2_budget {
	nghttp2_mem mem;
	struct sl_h2_mem *from;
	size_t used, max;
	uint64_t *of_source; /* bytes of the address; NULL: not limited */
	uint64_t source_max;
};

/* Maps the region. Returns 0 or -errno. */
int sl_h2_mem_init(struct sl_h2_mem *m, size_t bytes);
/* Unmaps the region. */
void sl_h2_mem_fini(struct sl_h2_mem *m);

/* Sets up a connection's budget of `max` bytes, with nghttp2's allocator. */
void sl_h2_budget_init(struct sl_h2_budget *b, struct sl_h2_mem *m, size_t max);
/* Returns memory, or NULL at a limit. */
void *sl_h2_alloc(struct sl_h2_budget *b, size_t size);
/* Frees memory (may be NULL) of the same budget. */
void sl_h2_free(struct sl_h2_budget *b, void *ptr);

#endif
