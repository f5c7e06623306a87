/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where all that comes for the connections of a iface arrives: one completion queue, however many they
 * are, and one comp_channel for it and for their send queues. Whoever takes what is there puts each into the
 * rx_fifo of its connection.
 *
 *   poll_cq   poller the owner's hub, once a turn: for connections that are its own, from attach() to close()
 *   pull   poller whoever sets up, or closes, one that is not, and wants to know what has come for it
 *
 * So an idle connection costs no poll. Send queues keep completion queues of their own: what a queue
 * pair in error flushes would fill a shared one, and a queue that runs over ends all that share it.
 * The receive queue's cannot: each entry names a slot, and there are no more of these. A peer that
 * takes more of them than its window is shut out poller whoever finds its rx_fifo full; of a listener's, all
 * of its host are, and it is refused for a second.
 *
 * `poll_lock` says that somebody takes. The owner's turns never wait for it: whoever else had it tells
 * the owner of what came for its connections.
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
struct rc_iface;
struct srq_demand;

enum { RC_RX_CQ_BUCKETS = 1024 };

enum rc_rx_op { RC_RX_SEND, RC_RX_WRITE, RC_RX_OTHER, RC_RX_FAILED };

/* What a completion of the receive queue says. */
struct rc_rx_comp {
	uint32_t slot;
	uint32_t len; /* of a WRITE: what its immediate data say */
	enum rc_rx_op op;
};

/* Written poller whoever takes, read poller whoever has the connection. */
struct rc_rx_fifo {
	struct rc_rx_comp *comps;
	uint32_t size;          /* a power of two */
	_Atomic uint32_t limit; /* the window, and what goes before and behind all of one */
	_Atomic uint32_t in;
	_Atomic uint32_t out;
};

/* False: it is full, so its peer has sent more than its window allows. */
bool rc_rx_fifo_push(struct rc_rx_fifo *b, const struct ibv_wc *wc);

static inline bool rc_rx_fifo_empty(const struct rc_rx_fifo *b)
{
	return atomic_load_explicit(&b->in, memory_order_acquire) ==
	       atomic_load_explicit(&b->out, memory_order_relaxed);
}

static inline const struct rc_rx_comp *rc_rx_fifo_peek(const struct rc_rx_fifo *b)
{
	return rc_rx_fifo_empty(b) ? NULL : &b->comps[b->out & (b->size - 1)];
}

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
	struct sl_poll_group group; /* fd: epoll over the comp_channel and `wake` */
	struct rc_iface *iface;
	struct ibv_comp_channel *comp_channel;
	struct ibv_cq *cq;
	int wake; /* an eventfd: the owner is told */
	_Atomic bool notified;
	atomic_flag poll_lock;
	/* with `poll_lock` */
	bool notify_armed; /* for a comp_channel, which no_owner has taken */
	const void *owner; /* NULL: no_owner's */
	unsigned conn_cnt, attached_cnt;
	uint8_t blocked_host[16]; /* the last host that was shut out, and until when */
	uint64_t blocked_until_ns;
	struct rc_conn *buckets[RC_RX_CQ_BUCKETS]; /* poller number of queue pair */
};

/* With room for `slots` completions. 0, or -errno with nothing made. */
int rc_rx_cq_init(struct rc_rx_cq *rx, struct rc_iface *iface, struct ibv_context *device,
		  int vector, uint32_t slots);
void rc_rx_cq_fini(struct rc_rx_cq *rx);

/* From now on what comes for its queue pair, which has no peer yet, is put into its rx_fifo. */
void rc_rx_cq_add(struct rc_rx_cq *rx, struct rc_conn *conn);
/* The queue pair is about to go, or to be reset: what has come for it is in the rx_fifo. */
void rc_rx_cq_begin_remove(struct rc_rx_cq *rx, struct rc_conn *conn);
/* It has gone, and what came meanwhile is in the rx_fifo; nothing follows. */
void rc_rx_cq_remove(struct rc_rx_cq *rx, struct rc_conn *conn);

/* False: it is another owner's rx_cq. With async_event.c's lock. */
bool rc_rx_cq_attach(struct rc_rx_cq *rx, struct rc_conn *conn, const void *owned_by);
void rc_rx_cq_detach(struct rc_rx_cq *rx, struct rc_conn *conn);

/* What has come is put into inboxes, for the sake of conn, which is not attached; NULL: of all. */
void rc_rx_cq_poll_for(struct rc_rx_cq *rx, const struct rc_conn *conn);
/* The same before a sleep on conn's own descriptor. False: no comp_channel can be armed for. */
bool rc_rx_cq_arm_for(struct rc_rx_cq *rx, const struct rc_conn *conn);
/* That descriptor says that the comp_channel has rung. */
void rc_rx_cq_handle_event(struct rc_rx_cq *rx, const struct rc_conn *conn);
/*
 * What windows its connections want, poller what has come for each since the last time; `idle`: so long
 * ago that those for whom fewer have come than their window holds need none of that size.
 */
void rc_rx_cq_measure_demand(struct rc_rx_cq *rx, struct srq_credits *b, bool idle,
			     struct srq_demand *wants);
/*
 * They are to have that, up to `level`, and those that are to have another are told. A smaller one
 * counts once its peer keeps to it. Whether anybody's has moved.
 */
bool rc_rx_cq_set_windows(struct rc_rx_cq *rx, struct srq_credits *b, uint32_t posted,
			  uint32_t level);
/* Whether that host was shut out a moment ago. */
bool rc_rx_cq_host_blocked(struct rc_rx_cq *rx, const uint8_t host[16]);
/* The owner of conn, which is attached, is to look at it. Any thread that keeps conn from being closed. */
void rc_rx_cq_notify_owner(struct rc_rx_cq *rx, struct rc_conn *conn);

#endif
