/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool of RC queue pairs, made ahead, each with its completion queue and memory window. Any thread.
 *
 * No queue pair is reused: the device may still work on it.
 */
#ifndef SL_RPC_RDMA_QP_POOL_H
#define SL_RPC_RDMA_QP_POOL_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"

enum { RC_QP_POOL_READY = 8 };

struct rc_qp {
	struct ibv_cq *tx_cq, *rx_cq; /* rx_cq: the interface's */
	struct ibv_qp *qp;
	struct ibv_mw *mw;
	uint32_t slots; /* messages that its queues hold */
	uint32_t sge_max, wr_max, inline_max;
};

struct rc_qp_attr {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_srq *srq;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	int vector;
};

/*
 * Creates queue pair, CQ and window, without the pool; slow. Returns 0 or -errno and a zeroed *e.
 */
int rc_qp_create(struct rc_qp *e, const struct rc_qp_attr *qp_attr, uint32_t slots);
/* Destroys what exists, and zeroes *e. */
void rc_qp_destroy(struct rc_qp *e);

struct rc_qp_pool {
	struct rc_qp_attr attr;
	pthread_mutex_t lock;
	struct sl_list spare;
	unsigned spare_cnt;
	uint32_t refill_slots; /* of queue pairs to make; 0: none */
};

/* Makes an empty pool. Copies the attributes. */
void rc_qp_pool_init(struct rc_qp_pool *p, const struct rc_qp_attr *qp_attr);
/* Destroys the unused queue pairs. */
void rc_qp_pool_fini(struct rc_qp_pool *p);
/*
 * Takes a queue pair for that many slots, or creates one, which is slow. Returns 0 or -errno and a
 * zeroed *e. The caller destroys it.
 */
int rc_qp_pool_get(struct rc_qp_pool *p, uint32_t slots, struct rc_qp *e);
/* Sets the size for rc_qp_pool_refill(). */
void rc_qp_pool_request(struct rc_qp_pool *p, uint32_t slots);
/* Destroys queue pairs of other sizes, and creates some up to RC_QP_POOL_READY. Blocks. */
void rc_qp_pool_refill(struct rc_qp_pool *p);

#endif
