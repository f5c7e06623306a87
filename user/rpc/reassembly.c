/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "base/cpu.h"
#include "rpc/reassembly.h"

/* Copies shared bytes, which the compiler must not read again. */
static void copy_out(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
	__asm__ volatile("" ::: "memory");
}

int sl_reassembler_start(struct sl_reassembler *r, const struct sl_rpc_header *h,
			 struct sl_capped_alloc *mem, struct sl_reassembly_scratch *scratch)
{
	size_t table = h->count * sizeof(struct sl_rpc_entry);

	if (!(h->flags & SL_RPC_BATCH) || h->count == 0 || h->count > SL_RPC_MAX_BATCH ||
	    h->total_or_offset < table || h->total_or_offset > SL_RPC_MAX_BODY)
		return -EPROTO;
	*r = (struct sl_reassembler){
		.header = *h, .phase = SL_REASM_ENTRIES, .total = h->total_or_offset};
	r->entries = scratch->entries;
	if (h->fragment_len == r->total)
		return 0;
	r->entries = sl_capped_malloc(mem, table);
	r->own_entries = r->entries != NULL;
	return r->entries ? 0 : -ENOBUFS;
}

static void drop_meta(struct sl_reassembler *r, struct sl_capped_alloc *mem)
{
	if (r->own_meta)
		sl_capped_free(mem, r->meta);
	r->own_meta = false;
	r->meta = NULL;
}

void sl_reassembler_reset(struct sl_reassembler *r, struct sl_capped_alloc *mem)
{
	drop_meta(r, mem);
	if (r->own_entries)
		sl_capped_free(mem, r->entries);
	r->own_entries = false;
	r->phase = SL_REASM_IDLE;
}

static uint32_t min_len(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

static void enter_phase(struct sl_reassembler *r, enum sl_reassembly_phase phase)
{
	r->phase = phase;
	r->have = 0;
	r->first |= phase == SL_REASM_META;
}

static void pass_part(struct sl_reassembler *r, struct sl_span body, sl_part_fn *fn, void *ctx)
{
	const struct sl_rpc_entry *e = &r->entries[r->index];
	struct sl_part part = {.entry = e,
			       .header = &r->header,
			       .first = r->first,
			       .last = r->have + body.len == e->len,
			       .body = body};

	if (r->first)
		part.meta = sl_span_of(r->meta, e->meta_len);
	r->first = false;
	fn(ctx, &part);
}

static int feed_entries(struct sl_reassembler *r, struct sl_span b, uint32_t *used)
{
	uint32_t table = r->header.count * (uint32_t)sizeof(struct sl_rpc_entry);
	uint64_t sum = table;

	*used = min_len(table - r->have, b.len);
	copy_out((uint8_t *)r->entries + r->have, b.ptr, *used);
	r->have += *used;
	if (r->have < table)
		return 0;
	enter_phase(r, SL_REASM_META);
	for (unsigned i = 0; i < r->header.count; i++) {
		const struct sl_rpc_entry *e = &r->entries[i];

		/* Nothing may follow an error: it would be taken for another reply. */
		if (e->len > SL_RPC_MAX_MESSAGE || e->meta_len > SL_RPC_MAX_META ||
		    e->rest > SL_RPC_MAX_MESSAGE - e->len || (e->rest && !e->len) ||
		    (e->status != SL_RPC_OK && (e->len || e->rest || (e->flags & SL_ENTRY_MORE))))
			return -EPROTO;
		sum += sl_rpc_pad8(e->meta_len) + sl_rpc_pad8(e->len);
	}
	return sum == r->total ? 0 : -EPROTO;
}

static int feed_meta(struct sl_reassembler *r, struct sl_span b, uint32_t *used,
		     struct sl_capped_alloc *mem, struct sl_reassembly_scratch *scratch)
{
	uint32_t len = r->entries[r->index].meta_len;

	*used = min_len(len - r->have, b.len);
	if (*used && !r->have) {
		/* The scratch is valid for this fragment only. */
		r->own_meta = r->own_entries;
		r->meta = r->own_meta ? sl_capped_malloc(mem, len) : scratch->meta;
		if (!r->meta) {
			r->own_meta = false;
			return -ENOBUFS;
		}
	}
	if (*used)
		copy_out(r->meta + r->have, b.ptr, *used);
	r->have += *used;
	if (r->have == len)
		enter_phase(r, SL_REASM_META_PAD);
	return 0;
}

static void feed_pad(struct sl_reassembler *r, struct sl_span b, uint32_t *used, uint32_t len,
		     enum sl_reassembly_phase next)
{
	uint32_t pad = (uint32_t)sl_rpc_pad8(len) - len;

	*used = min_len(pad - r->have, b.len);
	r->have += *used;
	if (r->have == pad)
		enter_phase(r, next);
}

static void feed_body(struct sl_reassembler *r, struct sl_span b, uint32_t *used, sl_part_fn *fn,
		      void *ctx)
{
	uint32_t len = r->entries[r->index].len;

	*used = min_len(len - r->have, b.len);
	if (*used || len == 0)
		pass_part(r, sl_span_of(b.ptr, *used), fn, ctx);
	r->have += *used;
	if (r->have == len)
		enter_phase(r, SL_REASM_BODY_PAD);
}

static bool feed_whole_entry(struct sl_reassembler *r, struct sl_span b, uint32_t *used,
			     struct sl_reassembly_scratch *scratch, sl_part_fn *fn, void *ctx)
{
	const struct sl_rpc_entry *e = &r->entries[r->index];
	uint64_t meta_len, len;

	if (r->phase != SL_REASM_META || r->have)
		return false;
	meta_len = sl_rpc_pad8(e->meta_len);
	len = meta_len + sl_rpc_pad8(e->len);
	if (b.len < len)
		return false;
	copy_out(scratch->meta, b.ptr, e->meta_len);
	r->meta = scratch->meta;
	pass_part(r, sl_span_of(b.ptr + meta_len, e->len), fn, ctx);
	r->meta = NULL;
	*used = (uint32_t)len;
	if (++r->index == r->header.count)
		r->phase = SL_REASM_IDLE;
	else
		enter_phase(r, SL_REASM_META);
	return true;
}

static int feed_step(struct sl_reassembler *r, struct sl_span b, uint32_t *used,
		     struct sl_capped_alloc *mem, struct sl_reassembly_scratch *scratch,
		     sl_part_fn *fn, void *ctx)
{
	const struct sl_rpc_entry *e = &r->entries[r->index];

	*used = 0;
	if (sl_likely(feed_whole_entry(r, b, used, scratch, fn, ctx)))
		return 0;
	switch (r->phase) {
	case SL_REASM_ENTRIES: return feed_entries(r, b, used);
	case SL_REASM_META: return feed_meta(r, b, used, mem, scratch);
	case SL_REASM_META_PAD: feed_pad(r, b, used, e->meta_len, SL_REASM_BODY); return 0;
	case SL_REASM_BODY: feed_body(r, b, used, fn, ctx); return 0;
	case SL_REASM_BODY_PAD:
		feed_pad(r, b, used, e->len, SL_REASM_META);
		if (r->phase == SL_REASM_META) {
			drop_meta(r, mem);
			if (++r->index == r->header.count)
				r->phase = SL_REASM_IDLE;
		}
		return 0;
	default: return -EPROTO;
	}
}

int sl_reassembler_feed(struct sl_reassembler *r, struct sl_span body, struct sl_capped_alloc *mem,
			struct sl_reassembly_scratch *scratch, sl_part_fn *fn, void *ctx)
{
	uint32_t used;

	if (body.len > r->total - r->offset)
		return -EPROTO;
	r->offset += (uint32_t)body.len;
	for (;;) {
		enum sl_reassembly_phase phase = r->phase;
		uint32_t index = r->index;
		int rc = feed_step(r, body, &used, mem, scratch, fn, ctx);

		if (rc)
			return rc;
		body = sl_span_skip(body, used);
		if (r->phase == SL_REASM_IDLE) {
			sl_reassembler_reset(r, mem);
			return 1;
		}
		if (!used && r->phase == phase && r->index == index)
			return 0;
	}
}
