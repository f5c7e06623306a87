/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RC interface: what the connections of one worker or backend share on a device. These are a
 * protection domain, a shared receive queue (SRQ), a receive CQ (rx_cq.h), registered memory
 * (mr_pool.h) and queue pairs (qp_pool.h). Memory for small messages grows with the granted windows
 * (srq_credits.h).
 *
 *   slots     registered as the windows need them (rc_srq.h)
 *   windows   a connection begins with the smallest. The service thread counts what each has
 *             received and rebalances: after SPENT, and from time to time
 *
 * In a shared protection domain an rkey would open a ring to all peers. So rings are opened by
 * type-2 memory windows, each bound to one queue pair. A device without those, or without SRQs, has
 * no interface.
 *
 * Any thread. The data path takes no lock.
 */
#ifndef SL_RPC_RDMA_RC_IFACE_H
#define SL_RPC_RDMA_RC_IFACE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include "rpc/rdma/mr_pool.h"
#include "rpc/rdma/rc/rc_srq.h"
#include "rpc/rdma/rc/rx_cq.h"
#include "rpc/rdma/rc/qp_pool.h"

struct rc_iface;

enum {
	/* Channels of a listener; pending and parked connections (peer.h). */
	RC_IFACE_CONNS = 1024 + 64,
};

/*
 * Adds a connection with a window of SL_RPC_MIN_SLOTS. Returns 0 and *joined, which is NULL if the
 * device cannot share; -EUSERS (full) or -ENOMEM.
 */
int rc_iface_join(struct ibv_context *device, unsigned group, struct rc_iface **joined);
/* Requests a rebalance because a window is used up. Makes at most one system call per rebalance. */
void rc_iface_request_rebalance(struct rc_iface *iface);
/* Frees slots when the peer has confirmed. */
void rc_iface_lower_window(struct rc_iface *iface, uint32_t from, uint32_t to);
/* Removes a connection. A failed interface is freed with its last one. */
void rc_iface_leave(struct rc_iface *iface, uint32_t window);
/* Takes no further connections: slots may be lost, or a queue has failed. */
void rc_iface_fail(struct rc_iface *iface);
bool rc_ifaces_host_blocked(unsigned group, const uint8_t host[16]);
/* Fails all interfaces of the group. */
void rc_ifaces_retire(unsigned group);
/* Frees failed interfaces without connections. Those of `device` fail first. */
void rc_ifaces_sweep(const struct ibv_context *device);

/* Return objects that the interface owns. */
struct ibv_pd *rc_iface_pd(const struct rc_iface *iface);
struct ibv_srq *rc_iface_srq(const struct rc_iface *iface);
struct rc_rx_cq *rc_iface_rx_cq(struct rc_iface *iface);
struct mr_pool *rc_iface_mr_pool(struct rc_iface *iface);
struct rc_qp_pool *rc_iface_qp_pool(struct rc_iface *iface);
/* Requests memory and queue pairs of that size for the next refill. */
void rc_iface_request(struct ibv_context *device, unsigned group, uint32_t slots, size_t rings_len);
/* Lets the service thread refill the pools of all interfaces soon. */
void rc_ifaces_schedule_refill(void);
bool rc_iface_has_last_wqe_event(const struct rc_iface *iface);
uint8_t *rc_iface_slot(const struct rc_iface *iface, uint32_t slot);
/* Handles SRQ_LIMIT_REACHED: polls to find the peer that exceeds its window. Service thread. */
void rc_iface_srq_low(struct rc_iface *iface);
/* Lets the service thread call the next function soon. */
void rc_ifaces_schedule_srq_limit(void);
/* Requests the event again where it has come. */
void rc_ifaces_arm_srq_limit(void);
/* Returns 0 or -EIO. */
int rc_iface_post(struct rc_iface *iface, const uint32_t *slots, unsigned cnt);

#endif
