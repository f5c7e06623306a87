/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listener for virtual connections. Its wireup QP is separate, so that a flood of requests disturbs
 * no connection.
 */
#ifndef SL_RPC_RDMA_UD_ACCEPT_H
#define SL_RPC_RDMA_UD_ACCEPT_H

#include "rpc/transport.h"

/* Member of sl_ud_scheme (rpc/transport.h). */
struct sl_rpc_listener *sl_ud_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);

static inline bool ud_slots_ok(uint32_t slots)
{
	return slots >= SL_RPC_MIN_SLOTS && slots <= SL_RPC_MAX_SLOTS && !(slots & (slots - 1));
}

#endif
