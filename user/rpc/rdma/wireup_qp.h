/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UD queue pairs for outgoing wireup requests, one per call. At most 16 per device and 64 in all,
 * in LRU order. Any thread.
 */
#ifndef SL_RPC_RDMA_WIREUP_QP_H
#define SL_RPC_RDMA_WIREUP_QP_H

#include "rpc/rdma/device.h"

struct wireup_call {
	const struct rdma_local *local;
	struct ibv_ah *ah;
	uint32_t qpn;   /* the server's wireup QP */
	unsigned tries; /* 0: until the deadline */
	uint64_t deadline_ns;
	/* Writes the next request, with a new number. Returns its length or -errno. */
	int (*build)(void *arg, const struct ud_qp *qp, uint8_t *to);
	bool (*is_reply)(void *arg, const struct ud_packet *p);
	void (*overlap)(void *arg); /* called once while the reply is awaited; may be NULL */
	void *arg;
};

/*
 * Sends requests on a shared queue pair until one is answered. Returns 0, -ETIMEDOUT, or another
 * -errno. -EBUSY: no queue pair was free for half of the time. Blocks.
 */
int wireup_call_run(const struct wireup_call *call);

#endif
