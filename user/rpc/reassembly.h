/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reassembly of REQUEST and RESPONSE messages: fragments in, parts out. Only an entry table or
 * metadata that a fragment cuts is buffered.
 *
 * A hostile peer may change the bytes: entries and metadata are copied, then checked.
 */
#ifndef SL_RPC_REASSEMBLY_H
#define SL_RPC_REASSEMBLY_H

#include "base/bytes.h"
#include "rpc/capped_alloc.h"
#include "wire/rpc_wire.h"

/* Spans are valid during the call only. */
struct sl_part {
	const struct sl_rpc_entry *entry;   /* private copy; lengths checked */
	const struct sl_rpc_header *header; /* first fragment's */
	bool first, last;
	struct sl_span meta; /* with the first part; private copy */
	struct sl_span body; /* memory that the peer can change */
};

typedef void sl_part_fn(void *ctx, const struct sl_part *part);

enum sl_reassembly_phase {
	SL_REASM_IDLE,
	SL_REASM_ENTRIES,
	SL_REASM_META,
	SL_REASM_META_PAD,
	SL_REASM_BODY,
	SL_REASM_BODY_PAD,
};

struct sl_reassembler {
	struct sl_rpc_header header;
	enum sl_reassembly_phase phase;
	uint32_t total, offset;
	uint32_t index;
	uint32_t have;
	bool first;
	struct sl_rpc_entry *entries;
	uint8_t *meta;
	bool own_entries, own_meta; /* from mem; else in the scratch */
};

/* Buffers for one fragment; shared by a thread's reassemblers. */
struct sl_reassembly_scratch {
	struct sl_rpc_entry entries[SL_RPC_MAX_BATCH];
	uint8_t meta[SL_RPC_MAX_META];
};

/* Begins a message. `h`: of a FIRST fragment. Returns 0, -EPROTO or -ENOBUFS (no memory). */
int sl_reassembler_start(struct sl_reassembler *r, const struct sl_rpc_header *h,
			 struct sl_capped_alloc *mem, struct sl_reassembly_scratch *scratch);

/*
 * Takes the next fragment's body. Returns 0 (more to come), 1 (complete); -EPROTO or -ENOBUFS: call
 * sl_reassembler_reset(), the channel is lost.
 */
int sl_reassembler_feed(struct sl_reassembler *r, struct sl_span body, struct sl_capped_alloc *mem,
			struct sl_reassembly_scratch *scratch, sl_part_fn *fn, void *ctx);

/* Drops an incomplete message. */
void sl_reassembler_reset(struct sl_reassembler *r, struct sl_capped_alloc *mem);

#endif
