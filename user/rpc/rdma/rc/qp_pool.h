/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool of RC queue pairs, made ahead, each with its completion queue and memory window.
 *
 *   refill --> unused --get--> used by a connection --> destroyed
 *
 * A queue pair is never used twice: the device may still work on it. The CM moves it to INIT, and
 * then to RTS.
 *
 * Any thread.
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
	struct ibv_comp_channel
		*comp_channel; /* with an SRQ, comp_channel and rx_cq belong to the interface */
	struct ibv_cq *tx_cq, *rx_cq;
	struct ibv_qp *qp;
	struct ibv_mw *mw; /* NULL without an SRQ */
	bool uses_srq;
	uint32_t slots; /* messages that its queues hold */
	uint32_t sge_max, wr_max, inline_max;
};

struct rc_qp_attr {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* NULL: own receive queues, CQs, channels */
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq; /* receive CQ */
	int vector;
};

/* Outside the pool. Returns 0 or -errno. */
int rc_qp_create(struct rc_qp *e, const struct rc_qp_attr *qp_attr, uint32_t slots);
void rc_qp_destroy(struct rc_qp *e);

struct rc_qp_pool {
	struct rc_qp_attr attr;
	pthread_mutex_t lock;
	struct sl_list spare;
	unsigned spare_cnt;
	uint32_t refill_slots; /* size of those to make; 0: none */
};

/* Initialises an empty pool; copies the attributes. */
void rc_qp_pool_init(struct rc_qp_pool *p, const struct rc_qp_attr *qp_attr);
void rc_qp_pool_fini(struct rc_qp_pool *p);
/* Takes or creates one. Returns 0 or -errno. */
int rc_qp_pool_get(struct rc_qp_pool *p, uint32_t slots, struct rc_qp *e);
/* Sets the size for rc_qp_pool_refill(). */
void rc_qp_pool_request(struct rc_qp_pool *p, uint32_t slots);
/* Fills the pool to RC_QP_POOL_READY. Blocks. */
void rc_qp_pool_refill(struct rc_qp_pool *p);

#endif
