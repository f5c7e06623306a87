/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/compact.h"

#include <errno.h>
#include <string.h>
#include "rpc/transport.h"

enum {
	WHOLE_FLAGS = SL_RPC_BATCH | SL_RPC_FIRST | SL_RPC_LAST,
	TYPE_MASK = 15,
	PADDING_MAX = 7,
};

/* Not reached by fragmented messages, and not used in whole ones. */
#define WHOLE_ID ((UINT64_C(1) << 48) - 1)

static uint64_t body_len_of(const struct sl_rpc_entry *e)
{
	return sizeof(*e) + sl_rpc_pad8(e->meta_len) + sl_rpc_pad8(e->len);
}

static bool fits_compact(const struct sl_rpc_header *h, const struct sl_rpc_entry *e)
{
	return !e->rest && e->together <= UINT8_MAX && body_len_of(e) == h->fragment_len &&
	       h->total_or_offset == h->fragment_len &&
	       (uint16_t)(h->id >> 48) == (uint16_t)sl_rpc_boot_epoch() &&
	       sizeof(struct sl_rpc_compact) + sl_rpc_pad8(e->meta_len) + e->len <=
		       SL_RPC_COMPACT_MAX;
}

uint32_t rc_compact_write(uint8_t *to, const struct sl_rpc_header *h, const struct sl_span *spans,
			  unsigned span_cnt)
{
	struct sl_rpc_compact s;
	struct sl_rpc_entry e;
	struct sl_span first;
	uint32_t len, copied;

	if ((h->flags & WHOLE_FLAGS) != WHOLE_FLAGS || h->count != 1 || !span_cnt ||
	    spans[0].len < sizeof(e))
		return 0;
	memcpy(&e, spans[0].ptr, sizeof(e));
	if (!fits_compact(h, &e))
		return 0;
	s = (struct sl_rpc_compact){
		.version_type = h->version_type,
		.flags = h->flags | SL_RPC_COMPACT,
		.priority = h->priority,
		.status = e.status,
		.entry_flags = e.flags,
		.meta_len = (uint8_t)e.meta_len,
		.together = (uint8_t)e.together,
		.consumed = h->consumed,
		.time_us = e.time_us,
		.id = e.id,
	};
	memcpy(to, &s, sizeof(s));
	to += sizeof(s);
	len = (uint32_t)sl_rpc_pad8(e.meta_len) + e.len;
	first = sl_span_skip(spans[0], sizeof(e));
	copied = first.len < len ? (uint32_t)first.len : len;
	sl_message_gather(to, copied, &first, 1);
	sl_message_gather(to + copied, len - copied, spans + 1, span_cnt - 1);
	return (uint32_t)sizeof(s) + len;
}

int rc_compact_read(uint8_t *slot, uint32_t len, uint64_t peer_epoch, struct sl_rpc_header *h)
{
	struct sl_rpc_compact s;
	struct sl_rpc_entry e;
	uint32_t meta, rest;

	if (len < sizeof(s) || len > SL_RPC_COMPACT_MAX)
		return -EPROTO;
	memcpy(&s, slot, sizeof(s));
	rest = len - (uint32_t)sizeof(s);
	meta = (uint32_t)sl_rpc_pad8(s.meta_len);
	if ((s.version_type & TYPE_MASK) > SL_RPC_RESPONSE ||
	    (s.flags & WHOLE_FLAGS) != WHOLE_FLAGS || rest < meta)
		return -EPROTO;
	e = (struct sl_rpc_entry){
		.id = s.id,
		.len = rest - meta,
		.time_us = s.time_us,
		.together = s.together,
		.meta_len = s.meta_len,
		.status = s.status,
		.flags = s.entry_flags,
	};
	memmove(slot + sizeof(e), slot + sizeof(s), rest);
	memset(slot + sizeof(e) + rest, 0, PADDING_MAX);
	memcpy(slot, &e, sizeof(e));
	*h = (struct sl_rpc_header){
		.version_type = s.version_type,
		.flags = s.flags & (uint8_t)~SL_RPC_COMPACT,
		.priority = s.priority,
		.count = 1,
		.fragment_len = (uint32_t)body_len_of(&e),
		.total_or_offset = (uint32_t)body_len_of(&e),
		.id = peer_epoch << 48 | WHOLE_ID,
		.consumed = s.consumed,
		.time_us = s.time_us,
	};
	return 0;
}
