/* SPDX-License-Identifier: Apache-2.0 */
/* Compact form of a message with one request or reply (user/docs/protocol.md). */
#ifndef SL_RPC_RDMA_COMPACT_H
#define SL_RPC_RDMA_COMPACT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/rpc_wire.h"

/*
 * Writes a message to SL_RPC_COMPACT_MAX bytes. Returns its length, or 0 if it needs the long form.
 */
uint32_t rc_compact_write(uint8_t *to, const struct sl_rpc_header *h, const struct sl_span *spans,
			  unsigned span_cnt);

/* Returns true for a message in compact form. */
static inline bool rc_is_compact(const uint8_t *message)
{
	return ((const struct sl_rpc_compact *)message)->flags & SL_RPC_COMPACT;
}

/*
 * Expands the message in a receive slot: fills in the header, and moves the body to its place in
 * the long form. Returns 0 or -EPROTO.
 */
int rc_compact_read(uint8_t *slot, uint32_t len, uint64_t peer_epoch, struct sl_rpc_header *h);

#endif
