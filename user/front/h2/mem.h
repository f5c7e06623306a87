/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for libnghttp2: size classes in slabs of one region that is mapped at start.
 *
 *   region  [ slab | slab | slab | ... never used: no memory behind it ]
 *   slab    [ head | obj | obj | ... ]   of one class while any object of it is in use
 *
 * Bounded three times: the region bounds all connections together, a budget bounds each, and those of
 * one source together. What exceeds any of these gets NULL, and its connection ends. One thread.
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
	uint32_t slabs, fresh; /* all; index of the first that was never used */
	struct sl_h2_slab *empty;
	struct sl_h2_slab *partial[SL_H2_MEM_CLASSES]; /* doubly linked */
	uint64_t used;                                 /* bytes, as classes have them */
};

/* One connection's share, and its source's. `mem` is what nghttp2 is given. */
struct sl_h2_budget {
	nghttp2_mem mem;
	struct sl_h2_mem *from;
	size_t used, max;
	uint64_t *of_source; /* bytes that all of its connections have; NULL: not counted */
	uint64_t source_max;
};

/* 0 or -errno. */
int sl_h2_mem_init(struct sl_h2_mem *m, size_t bytes);
void sl_h2_mem_fini(struct sl_h2_mem *m);

void sl_h2_budget_init(struct sl_h2_budget *b, struct sl_h2_mem *m, size_t max);
void *sl_h2_alloc(struct sl_h2_budget *b, size_t size);
void sl_h2_free(struct sl_h2_budget *b, void *ptr);

#endif
