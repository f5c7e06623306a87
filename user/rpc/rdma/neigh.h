/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a way to a host can be made at once: it is this host, or the kernel knows the next one on the
 * way there. It is asked by netlink, and asks no host. False also: nobody can tell. Any thread.
 */
#ifndef SL_RPC_RDMA_NEIGH_H
#define SL_RPC_RDMA_NEIGH_H

#include "rpc/rdma/device.h"

bool neigh_resolved(const struct rdma_local *l, const uint8_t gid[16]);
/* The same of addresses as they are in GIDs, by that interface. */
bool neigh_resolved_on(unsigned ifindex, const uint8_t from[16], const uint8_t to[16]);

#endif
