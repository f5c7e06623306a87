/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the connections of one worker, or of one backend, share on a device: a protection domain and
 * a shared receive queue, so that memory for small messages grows with the traffic that was granted
 * (srq_credits.h) and not with the number of connections.
 *
 *   slots     in chunks, registered when the grants need them; a slot's index is its wr_id
 *   windows   each connection begins with the least; the closer's thread looks at what has come for
 *             each, when one has used up its own or some time has gone by, and moves them (share)
 *   a slot is in the queue, or of the connection whose completion has named it, until posted again
 *
 * In one protection domain the rkey of one connection's ring would open it to the others' peers. So
 * rings are opened by memory windows of type 2, which hold for one queue pair. A device without
 * those, or without shared receive queues, has no iface: its connections have domains and receive
 * queues of their own, and say so (rc_conn_set_info).
 *
 * Rings and the owner's memory are registered once for all (mr_pool.h), all that arrives comes by one
 * completion queue (rx_cq.h), and queue pairs are made ahead (qp_pool.h).
 *
 * Any thread; the calls that a burst makes take no lock of ours.
 */
#ifndef SL_RPC_RDMA_RC_IFACE_H
#define SL_RPC_RDMA_RC_IFACE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include "rpc/rdma/mr_pool.h"
#include "rpc/rdma/rc/rx_cq.h"
#include "rpc/rdma/rc/qp_pool.h"

struct rc_iface;

/* `group` of gateways: the worker's number; of listeners this, and the listener's. */
enum { RDMA_GROUP_BACKEND = 1 << 16 };

enum {
	RC_IFACE_SLOTS = 32768, /* at the most: 128 MiB, if ever */
	/* Channels of a listener, and those that have yet to prove the key, or are parked (peer.h). */
	RC_IFACE_CONNS = 1024 + 64,
};

/*
 * 0, and a iface with a window of SL_RPC_MIN_SLOTS, or NULL in *joined where the device cannot share;
 * -EUSERS: it is full; -ENOMEM and the like.
 */
int rc_iface_join(struct ibv_context *device, unsigned group, struct rc_iface **joined);
/* A window is used up: windows are looked at soon. One call of the kernel, and that seldom. */
void rc_iface_request_rebalance(struct rc_iface *iface);
/* Moves windows where it is time; when it will be, or UINT64_MAX. The closer's thread. */
uint64_t rc_ifaces_rebalance(uint64_t now_ns);
void rc_iface_lower_window(struct rc_iface *iface, uint32_t from, uint32_t to);
/* A failed one goes with its last; others stay for the next. */
void rc_iface_leave(struct rc_iface *iface, uint32_t window);
/* Slots may have got lost with a connection, or the queue has failed: nobody joins any more. */
void rc_iface_fail(struct rc_iface *iface);
/* Whether a rx_cq of that group shuns that host. */
bool rc_ifaces_host_blocked(unsigned group, const uint8_t host[16]);
/* Nobody of that group joins any more. */
void rc_ifaces_retire(unsigned group);
/* Frees failed ones that are empty. All of `device`, which fails or goes, are failed before. */
void rc_ifaces_sweep(const struct ibv_context *device);

struct ibv_pd *rc_iface_pd(const struct rc_iface *iface);
struct ibv_srq *rc_iface_srq(const struct rc_iface *iface);
struct rc_rx_cq *rc_iface_rx_cq(struct rc_iface *iface);
struct mr_pool *rc_iface_mr_pool(struct rc_iface *iface);
struct rc_qp_pool *rc_iface_qp_pool(struct rc_iface *iface);
/* Connections of that size are to come: what they need is made at the next rc_ifaces_refill(). */
void rc_iface_request(struct ibv_context *device, unsigned group, uint32_t slots, size_t rings_len);
/* What connections that are to come will need (mr_pool_refill, rc_qp_pool_refill), of all homes. */
void rc_ifaces_refill(void);
/* Whether the device last_wqe_event when a queue pair in error has used its last slot. */
bool rc_iface_has_last_wqe_event(const struct rc_iface *iface);
uint8_t *rc_iface_slot(const struct rc_iface *iface, uint32_t slot);
/*
 * Few slots are left in the queue, which those who keep to their windows never bring about: somebody
 * does not, while the owner does not look. It is found out by whoever calls this, the closer's thread.
 */
void rc_iface_srq_low(struct rc_iface *iface);
/* Queues that have run short are watched again. */
void rc_ifaces_arm_srq_limit(void);
/* Slots go (back) to the queue. 0 or -EIO. */
int rc_iface_post(struct rc_iface *iface, const uint32_t *slots, unsigned cnt);

#endif
