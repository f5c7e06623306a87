/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listener for RC connections. A thread accepts them while their owner serves others. A connection
 * is pending until its client has proven that it received the reply.
 *
 *   thread only            pending, wireup, once the thread runs
 *   protected by the lock  established
 */
#ifndef SL_RPC_RDMA_RC_LISTENER_H
#define SL_RPC_RDMA_RC_LISTENER_H

#include <pthread.h>
#include "rpc/rdma/rc/rc_conn.h"

enum {
	RC_PENDING_MAX = 32,
	RC_PENDING_PER_HOST = 8, /* leaves room for other hosts */
	/* Allows a busy machine to make rings. The client has proven the key. */
	RC_PENDING_MS = 10000,
};

struct rc_pending {
	struct rc_conn *conn; /* NULL: unused */
	struct sl_wireup_creq creq;
	struct sl_wireup_crep crep;
	uint64_t deadline_ns;
};

struct rc_listener {
	/* eventfd, readable while connections are established */
	struct sl_rpc_listener base;
	pthread_t thread;
	pid_t pid; /* 0: not running */
	unsigned group;
	_Atomic bool stop;
	pthread_mutex_t lock;
	struct sl_list established; /* linked by rc_conn.closing */
	int epoll_fd;               /* over `wireup`, pending connections and `wake` */
	int wake;                   /* eventfd: stop */
	uint64_t start_ns;          /* when to try to start the thread again */
	struct wireup_listener wireup;
	struct rc_ring_sizes max_sizes;
	struct sl_rpc_memory mem;
	struct rc_pending pending[RC_PENDING_MAX];
};

/* Handles the client's first message. Returns 0, or -EACCES if its proof is wrong. */
int rc_pending_confirm(struct rc_listener *l, struct rc_pending *p);

#endif
