/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interface's receive CQ, and one completion channel for it and its connections' send CQs. Each
 * completion is put into the FIFO of its connection, found by qp_num.
 *
 *   owner's poll group   polls once per loop, for attached connections
 *   rc_rx_cq_poll_for    polls for one connection that is being set up or closed
 *
 * Send CQs are not shared: the flush of a queue pair in error could overrun them. The receive CQ
 * cannot overrun: each entry uses a slot of the SRQ.
 *
 * poll_lock is a spinlock; the owner only tries it.
 */
#ifndef SL_RPC_RDMA_RX_CQ_H
#define SL_RPC_RDMA_RX_CQ_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "rpc/poll_group.h"

struct rc_conn;
struct srq_credits;
struct rc_srq;
struct srq_demand;

enum { RC_RX_CQ_BUCKETS = 1024 };

enum rc_rx_op { RC_RX_SEND, RC_RX_WRITE, RC_RX_OTHER, RC_RX_FAILED };

struct rc_rx_comp {
	uint32_t slot;
	uint32_t len; /* RC_RX_WRITE: immediate data */
	enum rc_rx_op op;
};

/* Written with poll_lock, read by the connection's thread. */
struct rc_rx_fifo {
	struct rc_rx_comp *comps;
	uint32_t size;          /* a power of two */
	_Atomic uint32_t limit; /* window + RC_BEYOND_WINDOW */
	_Atomic uint32_t in;
	_Atomic uint32_t out;
};

/* Adds a completion. Returns false beyond `limit`. poll_lock held. */
bool rc_rx_fifo_push(struct rc_rx_fifo *b, const struct ibv_wc *wc);

/* Returns true if it is empty. Connection's thread, like the next two. */
static inline bool rc_rx_fifo_empty(const struct rc_rx_fifo *b)
{
	return atomic_load_explicit(&b->in, memory_order_acquire) ==
	       atomic_load_explicit(&b->out, memory_order_relaxed);
}
/* Returns the first completion, or NULL. */
static inline const struct rc_rx_comp *rc_rx_fifo_peek(const struct rc_rx_fifo *b)
{
	return rc_rx_fifo_empty(b) ? NULL : &b->comps[b->out & (b->size - 1)];
}
/* Takes the first completion. False: there is none. */
static inline bool rc_rx_fifo_pop(struct rc_rx_fifo *b, struct rc_rx_comp *a)
{
	const struct rc_rx_comp *first = rc_rx_fifo_peek(b);

	if (!first)
		return false;
	*a = *first;
	atomic_store_explicit(&b->out, b->out + 1, memory_order_release);
	return true;
}

struct rc_rx_cq {
	struct sl_poll_group group; /* fd: epoll over comp_channel and `wake` */
	struct rc_srq *srq;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	int wake; /* eventfd: a connection's `notified` is set */
	_Atomic bool notified;
	atomic_flag poll_lock;
	/* protected by poll_lock */
	bool notify_armed;
	const void *owner;
	unsigned conn_cnt, attached_cnt;
	uint8_t blocked_host[16];
	uint64_t blocked_until_ns;
	struct rc_conn *buckets[RC_RX_CQ_BUCKETS]; /* by qp_num */
};

/* Returns 0, or -errno and leaves nothing behind. */
int rc_rx_cq_init(struct rc_rx_cq *rx, struct rc_srq *srq, struct ibv_context *device, int vector,
		  uint32_t slots);
/* Closes what is open. There must be no connections. */
void rc_rx_cq_fini(struct rc_rx_cq *rx);

/* Adds a connection with its FIFO; its queue pair must have no peer yet. */
void rc_rx_cq_add(struct rc_rx_cq *rx, struct rc_conn *conn);
/* Collects the completions of a connection before its queue pair is destroyed or reset. */
void rc_rx_cq_begin_remove(struct rc_rx_cq *rx, struct rc_conn *conn);
/* Removes the connection after that. Its later completions are dropped. */
void rc_rx_cq_remove(struct rc_rx_cq *rx, struct rc_conn *conn);

/* Lets `owned_by` poll the CQ for `conn`. False: another owner does. Lock of rc_events.c held. */
bool rc_rx_cq_attach(struct rc_rx_cq *rx, struct rc_conn *conn, const void *owned_by);
/* Ends rc_rx_cq_attach(), under the same lock. A CQ without attached connections has no owner. */
void rc_rx_cq_detach(struct rc_rx_cq *rx, struct rc_conn *conn);

/*
 * Polls the CQ for all connections. `conn`: the caller's, not attached, and not woken; NULL: none.
 */
void rc_rx_cq_poll_for(struct rc_rx_cq *rx, const struct rc_conn *conn);
/* Requests an event, then polls, before a sleep on the fd of `conn`. False: failed. */
bool rc_rx_cq_arm_for(struct rc_rx_cq *rx, const struct rc_conn *conn);
/*
 * Takes events of the channel, requests the next and polls. Any thread. `conn`: the caller's, not
 * attached, and not woken.
 */
void rc_rx_cq_handle_event(struct rc_rx_cq *rx, const struct rc_conn *conn);
/*
 * Adds the window that each connection needs to `wants`. Takes back slots of confirmed smaller
 * windows. `idle`: windows may shrink.
 */
void rc_rx_cq_measure_demand(struct rc_rx_cq *rx, struct srq_credits *b, bool idle,
			     struct srq_demand *wants);
/*
 * Sets windows to the demand, up to `level`; smaller ones count once the peer confirms. Returns
 * true if any changed.
 */
bool rc_rx_cq_set_windows(struct rc_rx_cq *rx, struct srq_credits *b, uint32_t posted,
			  uint32_t level);
/* Returns true if that host is blocked. */
bool rc_rx_cq_host_blocked(struct rc_rx_cq *rx, const uint8_t host[16]);
/* Wakes the owner to poll the attached `conn`, which must not be closed meanwhile. */
void rc_rx_cq_notify_owner(struct rc_rx_cq *rx, struct rc_conn *conn);

#endif
