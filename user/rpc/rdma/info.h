/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_RPC_RDMA_INFO_H
#define SL_RPC_RDMA_INFO_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include "rpc/rdma/device.h"

struct sl_rpc_rdma;

enum { RDMA_PATH_TEXT_LEN = 96 };

struct rdma_path_info {
	uint64_t rate_bps;
	uint32_t message_max;
	char text[RDMA_PATH_TEXT_LEN];
};

/* Describes a path with that MTU. Returns 0 or -EIO. */
int rdma_path_query(struct rdma_path_info *f, const struct rdma_local *local, uint32_t mtu);
/* See sl_rpc_route_info(). */
int sl_rdma_route_info(const char *address, const struct sl_rpc_rdma *way, char *text, size_t len);
/* See sl_rpc_preload(). */
void sl_rdma_preload(void);

#endif
