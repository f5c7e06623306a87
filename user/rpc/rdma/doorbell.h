/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_RPC_RDMA_DOORBELL_H
#define SL_RPC_RDMA_DOORBELL_H

#include <infiniband/verbs.h>

/* Posts a chain. Returns 0 or -errno. */
int rdma_post_chain(struct ibv_qp *qp, struct ibv_send_wr *first);

#endif
