/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel whether a packet to a host leaves at once. Any thread. */
#ifndef SL_RPC_RDMA_NEIGH_H
#define SL_RPC_RDMA_NEIGH_H

#include "rpc/rdma/device.h"

/* Returns true if that GID's host is local or its next hop resolved. */
bool neigh_resolved(const struct rdma_local *l, const uint8_t gid[16]);
/* The same by interface and source; addresses as GIDs. */
bool neigh_resolved_on(unsigned ifindex, const uint8_t from[16], const uint8_t to[16]);

#endif
