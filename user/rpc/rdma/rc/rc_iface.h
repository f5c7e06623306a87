/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RC interface: what the connections of one worker or backend share on a device: protection domain,
 * shared receive queue (SRQ), receive CQ (rx_cq.h), registered memory and queue pairs.
 *
 *   slots     registered as the windows need them (rc_srq.h, srq_credits.h)
 *   windows   a connection begins with the smallest. The service thread rebalances by what each has
 *             received: after SPENT, and from time to time
 *
 * In a shared protection domain an rkey would open a ring to all peers. So rings are opened by
 * type-2 memory windows, each bound to one queue pair.
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
	/* also pending and parked ones */
	RC_IFACE_CONNS = 1024 + 64,
};

/* Returns false if the device lacks shared receive queues or type-2 memory windows. */
bool rc_iface_is_supported(struct ibv_context *device);
/*
 * Adds a connection to the interface of device and group, made if need be. Returns 0 and *joined,
 * -EOPNOTSUPP (the device cannot share), -EUSERS (full) or another -errno. May block.
 */
int rc_iface_join(struct ibv_context *device, unsigned group, struct rc_iface **joined);
/* Has the windows rebalanced by the service thread. */
void rc_iface_request_rebalance(struct rc_iface *iface);
/* Removes a connection and its window. The last one frees a failed interface. */
void rc_iface_leave(struct rc_iface *iface, uint32_t window);
/* Marks the interface as failed: no further connection joins. */
void rc_iface_fail(struct rc_iface *iface);
/* Returns true if an interface of the group blocks that host (rx_cq.h). */
bool rc_ifaces_host_blocked(unsigned group, const uint8_t host[16]);
/* Fails the group's interfaces, and frees empty ones. */
void rc_ifaces_retire(unsigned group);
/* Fails interfaces of `device` (may be NULL), then frees failed ones without connections. */
void rc_ifaces_sweep(const struct ibv_context *device);

/* Returns the shared receive queue. Parts of the interface are valid until rc_iface_leave(). */
struct ibv_srq *rc_iface_srq(const struct rc_iface *iface);
/* Returns the receive CQ. */
struct rc_rx_cq *rc_iface_rx_cq(struct rc_iface *iface);
/* Returns the pool of ring buffers. */
struct mr_pool *rc_iface_mr_pool(struct rc_iface *iface);
/* Returns the pool of queue pairs. */
struct rc_qp_pool *rc_iface_qp_pool(struct rc_iface *iface);
/* Sets sizes for the next refill. Makes the interface if need be. */
void rc_iface_request(struct ibv_context *device, unsigned group, uint32_t slots, size_t rings_len);
/* Lets the service thread refill all pools soon. */
void rc_ifaces_schedule_refill(void);
/* Returns true if the device sends LAST_WQE_REACHED. */
bool rc_iface_has_last_wqe_event(const struct rc_iface *iface);
/* Returns the memory of a slot. */
uint8_t *rc_iface_slot(const struct rc_iface *iface, uint32_t slot);
/* SRQ_LIMIT_REACHED: polls to find the peer that exceeds its window. Service thread. */
void rc_iface_srq_low(struct rc_iface *iface);
/* Lets the service thread call rc_ifaces_arm_srq_limit() soon. */
void rc_ifaces_schedule_srq_limit(void);
/* Requests the event again where it has come. */
void rc_ifaces_arm_srq_limit(void);
/* Posts slots to the SRQ. Returns 0 or -EIO. */
int rc_iface_post(struct rc_iface *iface, const uint32_t *slots, unsigned cnt);

#endif
