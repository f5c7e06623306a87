/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes REQUEST and RESPONSE messages apart while their fragments arrive: bytes in, parts of
 * requests or replies out. Nothing is collected except the entry table and metadata that a
 * fragment's end has cut, so a message of 64 MB costs no more than one of 64 bytes.
 *
 *   idle -> entries -> (metadata -> padding -> payload -> padding) for each entry -> idle
 *
 * The peer may be hostile, and the bytes may change while they are read: entries and metadata are
 * copied first and checked then; payload is only passed on.
 */
#ifndef SL_RPC_READER_H
#define SL_RPC_READER_H

#include "base/bytes.h"
#include "rpc/mem.h"
#include "sluice/rpc_wire.h"

/* A part of one request or reply. Spans are valid during the call only. */
struct sl_part {
	const struct sl_rpc_entry *entry;   /* private copy; lengths checked */
	const struct sl_rpc_header *header; /* of the message's first fragment */
	bool first, last;
	struct sl_span meta; /* with the first part; private copy */
	struct sl_span body; /* memory of the peer */
};

typedef void sl_part_fn(void *ctx, const struct sl_part *part);

enum sl_reader_phase {
	SL_READ_IDLE,
	SL_READ_ENTRIES,
	SL_READ_META,
	SL_READ_META_PAD,
	SL_READ_BODY,
	SL_READ_BODY_PAD,
};

struct sl_reader {
	struct sl_rpc_header header;
	enum sl_reader_phase phase;
	uint32_t total, offset;
	uint32_t index; /* entry under way */
	uint32_t have;  /* bytes of the phase's object so far */
	bool first;     /* nothing of this entry was passed on yet */
	struct sl_rpc_entry *entries;
	uint8_t *meta;              /* of this entry, whole */
	bool own_entries, own_meta; /* from mem; else the scratch */
};

/* For what lies in one fragment; shared by all readers of one thread. */
struct sl_reader_scratch {
	struct sl_rpc_entry entries[SL_RPC_MAX_BATCH];
	uint8_t meta[SL_RPC_MAX_META];
};

/* Begins with a FIRST fragment's header. 0, -EPROTO, or -ENOBUFS (no memory). */
int sl_reader_start(struct sl_reader *r, const struct sl_rpc_header *h, struct sl_mem *mem,
		    struct sl_reader_scratch *scratch);

/*
 * The next fragment's body. 0: more to come; 1: that was all, and the reader is idle; -EPROTO,
 * -ENOBUFS: the channel is beyond repair, call sl_reader_reset.
 */
int sl_reader_feed(struct sl_reader *r, struct sl_span body, struct sl_mem *mem,
		   struct sl_reader_scratch *scratch, sl_part_fn *fn, void *ctx);

void sl_reader_reset(struct sl_reader *r, struct sl_mem *mem);

#endif
