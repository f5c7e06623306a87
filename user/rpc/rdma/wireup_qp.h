/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Doors of those who dial, where ANSWERs to their HELLOs come. Who says HELLO has one alone until that is
 * answered, or was said often enough: so who is not answered is in few others' way. Of a device there are as
 * many as were in use at once, 16 at the most; of all, 64, and then the one that was not last_used for longest
 * goes. Any thread.
 */
#ifndef SL_RPC_RDMA_WIREUP_QP_H
#define SL_RPC_RDMA_WIREUP_QP_H

#include "rpc/rdma/device.h"

struct wireup_call {
	const struct rdma_local *local;
	struct ibv_ah *ah;
	uint32_t qpn;   /* of the entry there */
	unsigned tries; /* 0: until the time is over */
	uint64_t deadline_ns;
	/* Writes the next HELLO, each with a number of its own: its length, or -errno. */
	int (*build)(void *arg, const struct ud_qp *qp, uint8_t *to);
	bool (*is_reply)(void *arg, const struct ud_packet *p);
	void (*overlap)(void *arg); /* there is time for this, once; NULL: nothing to do */
	void *arg;
};

/*
 * Blocks. 0 once it is answered, -ETIMEDOUT; -EBUSY: all entries were in use for half of the time, the other
 * half is the caller's; or another -errno. For as long as it has waited for a entry the deadline moves.
 */
int wireup_call_run(const struct wireup_call *call);

#endif
