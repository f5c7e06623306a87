/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends of connections: all that one needs before it has a peer. To make it takes calls of the
 * kernel, and with a NIC of its firmware; so of each home some are made ahead, off the path.
 *
 *   made ahead --get--> of a connection --> freed with it   none is used twice: what the device may
 *                                                           still have under way for it is unknown
 *
 * The connection manager takes the queue pair to INIT when it knows the port, and on from there.
 *
 * Any thread.
 */
#ifndef SL_RPC_VERBS_ENDS_H
#define SL_RPC_VERBS_ENDS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"

enum { VB_ENDS_READY = 8 };

struct vb_end {
	struct ibv_comp_channel
		*bell; /* with a shared receive queue, this and rx_cq are the place's */
	struct ibv_cq *tx_cq, *rx_cq;
	struct ibv_qp *qp;
	struct ibv_mw *mw; /* with a shared receive queue */
	bool shares;
	uint32_t slots; /* that its queues have room for */
	uint32_t sge_max, wr_max, inline_max;
};

/* Where ends are made. */
struct vb_place {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_srq *srq; /* NULL: each has a receive queue of its own, and so of these */
	struct ibv_comp_channel *bell; /* for all */
	struct ibv_cq *cq;             /* of their receives */
	int vector;                    /* of their bells */
};

/*
 * Bells of one worker on one interrupt, of several on several. Listeners go by their process'.
 */
int vb_vector_of(const struct ibv_context *device, unsigned group);

/* 0 or -errno. */
int vb_end_make(struct vb_end *e, const struct vb_place *place, uint32_t slots);
void vb_end_free(struct vb_end *e);

struct vb_ends {
	struct vb_place place;
	pthread_mutex_t lock;
	struct sl_list unused;
	unsigned unused_cnt;
	uint32_t want; /* slots of those to be made ahead; 0 none */
};

void vb_ends_init(struct vb_ends *p, const struct vb_place *place);
void vb_ends_fini(struct vb_ends *p);
/* One that is there, or else is made now. 0 or -errno. */
int vb_ends_get(struct vb_ends *p, uint32_t slots, struct vb_end *e);
/* From now on those are made ahead. */
void vb_ends_want(struct vb_ends *p, uint32_t slots);
void vb_ends_fill(struct vb_ends *p);

#endif
