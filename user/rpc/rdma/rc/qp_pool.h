/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of connections: all that one needs before it has a peer. To make it takes calls of the
 * kernel, and with a NIC of its firmware; so of each iface some are made ahead, off the path.
 *
 *   made ahead --get--> of a connection --> freed with it   none is used twice: what the device may
 *                                                           still have under way for it is unknown
 *
 * The connection manager takes the queue pair to INIT when it knows the port, and on from there.
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
		*comp_channel; /* with a shared receive queue, this and rx_cq are the qp_attr's */
	struct ibv_cq *tx_cq, *rx_cq;
	struct ibv_qp *qp;
	struct ibv_mw *mw; /* with a shared receive queue */
	bool uses_srq;
	uint32_t slots; /* that its queues have room for */
	uint32_t sge_max, wr_max, inline_max;
};

/* Where ends are made. */
struct rc_qp_attr {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* NULL: each has a receive queue of its own, and so of these */
	struct ibv_comp_channel *comp_channel; /* for all */
	struct ibv_cq *cq;                     /* of their receives */
	int vector;                            /* of their bells */
};

/*
 * Bells of one worker on one interrupt, of several on several. Listeners go by their process'.
 */
int rdma_comp_vector(const struct ibv_context *device, unsigned group);

/* 0 or -errno. */
int rc_qp_create(struct rc_qp *e, const struct rc_qp_attr *qp_attr, uint32_t slots);
void rc_qp_destroy(struct rc_qp *e);

struct rc_qp_pool {
	struct rc_qp_attr attr;
	pthread_mutex_t lock;
	struct sl_list spare;
	unsigned spare_cnt;
	uint32_t refill_slots; /* slots of those to be made ahead; 0 none */
};

void rc_qp_pool_init(struct rc_qp_pool *p, const struct rc_qp_attr *qp_attr);
void rc_qp_pool_fini(struct rc_qp_pool *p);
/* One that is there, or else is made now. 0 or -errno. */
int rc_qp_pool_get(struct rc_qp_pool *p, uint32_t slots, struct rc_qp *e);
/* From now on those are made ahead. */
void rc_qp_pool_request(struct rc_qp_pool *p, uint32_t slots);
void rc_qp_pool_refill(struct rc_qp_pool *p);

#endif
