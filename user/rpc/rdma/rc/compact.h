/* SPDX-License-Identifier: Apache-2.0 */
/* A message of one request or reply in the short form (rpc_wire.h), which a SEND carries. */
#ifndef SL_RPC_RDMA_COMPACT_H
#define SL_RPC_RDMA_COMPACT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/bytes.h"
#include "sluice/rpc_wire.h"

/* Writes it to `to`, of SL_RPC_COMPACT_MAX bytes. How many it has taken; 0: it has to go in the long form. */
uint32_t rc_compact_write(uint8_t *to, const struct sl_rpc_header *h, const struct sl_span *spans,
			  unsigned span_cnt);

static inline bool rc_is_compact(const uint8_t *message)
{
	return ((const struct sl_rpc_compact *)message)->flags & SL_RPC_COMPACT;
}

/*
 * Of `len` bytes of it at the beginning of a receive slot: header, and in the slot the body, as the long
 * form has them. 0 or -EPROTO.
 */
int rc_compact_read(uint8_t *slot, uint32_t len, uint64_t peer_epoch, struct sl_rpc_header *h);

#endif
