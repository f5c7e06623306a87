/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listener for RC connections, requested by the CM (rc_accept.c) or wireup datagrams
 * (wireup_server.c). A connection is pending until its client has proven that it received the
 * reply.
 */
#ifndef SL_RPC_RDMA_RC_LISTENER_H
#define SL_RPC_RDMA_RC_LISTENER_H

#include <pthread.h>
#include "rpc/rdma/rc/wireup.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	RC_PENDING_MAX = 32,
	/*
	 * Limits leave room for other hosts. Wireup requests leave room for CM requests, whatever
	 * host they name.
	 */
	RC_PENDING_PER_HOST = 8, /* each for wireup and CM */
	RC_PENDING_BY_WIREUP = 16,
	/*
	 * A pending client has proven the key and is one of at most RC_PENDING_MAX. So the time
	 * allows a busy machine to make rings.
	 */
	RC_PENDING_MS = 10000,
};

struct rc_pending {
	struct rc_conn *conn;
	bool by_wireup;
	uint8_t host[16]; /* GID, claimed by the client */
	union {
		struct cm_transcript transcript;
		struct wireup_transcript wireup; /* if by_wireup */
	};
	uint64_t deadline_ns;
};

struct rc_listener {
	/* fd: eventfd, readable while connections are established */
	struct sl_rpc_listener base;
	pthread_t thread;
	pid_t pid; /* 0: not running */
	unsigned group;
	_Atomic bool stop;
	_Atomic uint64_t refused;
	pthread_mutex_t lock;
	struct sl_list established; /* linked by rc_conn.closing */
	int epoll_fd;               /* over `cm`, pending connections and `wake` */
	int wake;                   /* eventfd: stop */
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id; /* NULL: device gone; listen again at retry_ns */
	struct sockaddr_storage sa;
	uint64_t retry_ns;
	unsigned retry_ms;
	struct sl_psk psk;
	struct replay_filter cm_replay, wireup_replay;
	struct wireup_listener wireup;
	struct ibv_context *wireup_device;
	struct rc_ring_sizes max_sizes;
	struct sl_rpc_memory mem;
	struct rc_pending pending[RC_PENDING_MAX];
};

/* Adds a descriptor to the listener's epoll. Returns false on failure. */
bool rc_listener_watch(struct rc_listener *l, int fd);
/* Opens the wireup QP on the request's device. A later request tries again on failure. */
void rc_listener_open_wireup(struct rc_listener *l, const struct rdma_cm_id *id);

/* Returns an entry; NULL: a limit is reached. */
struct rc_pending *rc_pending_alloc(struct rc_listener *l, const uint8_t host[16], bool by_wireup);
/* Counts it as unaccepted, unless a link migrates to it. */
void rc_pending_begin(struct rc_listener *l, struct rc_conn *conn, uint32_t hello_flags);
/* Closes it, and counts it as refused. */
void rc_pending_drop(struct rc_listener *l, struct rc_pending *p);

/* Handler for wireup_listener_poll(): makes a pending connection, or replies why not. */
void wireup_handle_request(void *listener, const struct wireup_request *h);
/* Handles the client's first message. Returns 0, or -EACCES if its proof is wrong. */
int wireup_handle_ack(struct rc_listener *l, struct rc_pending *p);

#endif
