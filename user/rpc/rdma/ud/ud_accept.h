/* SPDX-License-Identifier: Apache-2.0 */
/* Who takes HELLOs: a queue pair of its own, so that whoever floods it disturbs no connection. */
#ifndef SL_RPC_RDMA_UD_ACCEPT_H
#define SL_RPC_RDMA_UD_ACCEPT_H

#include "rpc/transport.h"

struct sl_rpc_listener *sl_ud_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);

/* Both ends' rule. */
static inline bool ud_slots_ok(uint32_t slots)
{
	return slots >= SL_RPC_MIN_SLOTS && slots <= SL_RPC_MAX_SLOTS && !(slots & (slots - 1));
}

#endif
