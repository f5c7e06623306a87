/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_RPC_RDMA_INFO_H
#define SL_RPC_RDMA_INFO_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct rdma_cm_id;
struct sl_rpc_rdma;

enum { RDMA_PATH_TEXT_LEN = 96 };

struct rdma_path_info {
	uint64_t rate_bps;
	uint32_t message_max;
	uint32_t packet_len; /* path MTU in bytes; 0: unknown */
	char text[RDMA_PATH_TEXT_LEN];
};

/* Fills in `f`. Returns 0, -EIO, or -EINVAL if the queue pair is not connected. */
int rdma_path_query(struct rdma_path_info *f, const struct rdma_cm_id *id, struct ibv_qp *qp);
/* Describe the path to an address; load providers early (rpc/rpc.h). */
int sl_rdma_route_info(const char *address, const struct sl_rpc_rdma *way, char *text, size_t len);
void sl_rdma_preload(void);

#endif
