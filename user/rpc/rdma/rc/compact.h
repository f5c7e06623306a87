/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compact form of a message with one request or reply (see SHORT in rpc_wire.h), carried by a SEND.
 */
#ifndef SL_RPC_RDMA_COMPACT_H
#define SL_RPC_RDMA_COMPACT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "wire/rpc_wire.h"

/*
 * Writes the message to `to`, which has SL_RPC_COMPACT_MAX bytes. Returns the length, or 0 if the
 * message needs the long form.
 */
uint32_t rc_compact_write(uint8_t *to, const struct sl_rpc_header *h, const struct sl_span *spans,
			  unsigned span_cnt);

static inline bool rc_is_compact(const uint8_t *message)
{
	return ((const struct sl_rpc_compact *)message)->flags & SL_RPC_COMPACT;
}

/*
 * Expands the compact message of `len` bytes at the beginning of a receive slot: fills in the
 * header, and moves the body to where the long form has it. Returns 0 or -EPROTO.
 */
int rc_compact_read(uint8_t *slot, uint32_t len, uint64_t peer_epoch, struct sl_rpc_header *h);

#endif
