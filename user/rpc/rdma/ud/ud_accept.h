/* SPDX-License-Identifier: Apache-2.0 */
/* Listener for virtual connections. */
#ifndef SL_RPC_RDMA_UD_ACCEPT_H
#define SL_RPC_RDMA_UD_ACCEPT_H

#include "rpc/transport.h"

/* Listens at opt->address. NULL: see err. */
struct sl_rpc_listener *sl_ud_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);

/* Returns true for a power of two within the limits. */
static inline bool ud_slots_ok(uint32_t slots)
{
	return slots >= SL_RPC_MIN_SLOTS && slots <= SL_RPC_MAX_SLOTS && !(slots & (slots - 1));
}

#endif
