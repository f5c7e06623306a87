/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one owner with a limit: blocks of powers of two, kept for the next use, so that in a
 * steady flow nothing is allocated. For one thread. Blocks are aligned to 16 bytes.
 *
 * Of large blocks no more than SL_MEM_KEEP bytes are kept, and none over SL_MEM_LARGE: one of 64 MB
 * should not stay. With SL_DEBUG every block is the system's own, so that ASan sees its bounds.
 */
#ifndef SL_RPC_MEM_H
#define SL_RPC_MEM_H

#include <stddef.h>
#include <stdint.h>

#define SL_MEM_LARGE ((size_t)4 << 20)
#define SL_MEM_KEEP  ((size_t)64 << 20)

enum { SL_MEM_CLASSES = 23 };

struct sl_mem_block;
struct sl_mem_chunk;

struct sl_mem {
	size_t used, limit; /* bytes handed out, headers and rounding included */
	size_t kept;        /* large blocks, unused */
	struct sl_mem_block *unused[SL_MEM_CLASSES];
	struct sl_mem_chunk *chunks;
	uint8_t *bump;
	size_t bump_left;
};

void sl_mem_init(struct sl_mem *m, size_t limit);
/* Frees what is kept; blocks still handed out from chunks become invalid. */
void sl_mem_fini(struct sl_mem *m);

/* NULL beyond the limit or the system's memory. */
void *sl_mem_alloc(struct sl_mem *m, size_t len);
/* NULL does nothing. */
void sl_mem_free(struct sl_mem *m, void *ptr);

#endif
