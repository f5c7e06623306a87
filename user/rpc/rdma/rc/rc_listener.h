/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener of RDMA connections: who knocks by the connection manager (rc_accept.c), or by datagrams at
 * its door (wireup_server.c), waits here until it has proven that it has heard the answer.
 */
#ifndef SL_RPC_RDMA_RC_LISTENER_H
#define SL_RPC_RDMA_RC_LISTENER_H

#include <pthread.h>
#include "rpc/rdma/wireup.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	RC_PENDING_MAX = 32,
	/*
	 * Of these: so that one that lies leaves places to others. Who comes by the connection manager
	 * has places whatever is said at the door, be it in the name of others.
	 */
	RC_PENDING_PER_HOST = 8, /* by the door, and by the connection manager */
	RC_PENDING_BY_WIREUP = 16,
	/*
	 * Whoever waits has proven the key, and there are RC_PENDING_MAX of them at the most: so a
	 * busy or emulated machine is given the time that making rings takes there.
	 */
	RC_PENDING_MS = 10000,
};

/* Accepted: has proven the key for its request, but not yet for this connection. */
struct rc_pending {
	struct rc_conn *conn; /* NULL free */
	bool by_wireup;
	uint8_t host[16]; /* the GID that it says it comes from */
	union {
		struct cm_transcript transcript;
		struct wireup_transcript wireup; /* by_wireup */
	};
	uint64_t deadline_ns;
};

struct rc_listener {
	struct sl_rpc_listener base; /* fd: an eventfd, raised while some are established */
	pthread_t thread;
	pid_t pid;      /* whose thread it is; 0: it does not run */
	unsigned group; /* of its connections' homes */
	_Atomic bool stop;
	_Atomic uint64_t refused;
	pthread_mutex_t lock;
	struct sl_list established; /* by rc_conn.closing */
	int epoll_fd;               /* over the listening id, the pending ones, and `wake` */
	int wake;                   /* an eventfd: stop */
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id; /* NULL: its device is gone; listen again at retry_ns */
	struct sockaddr_storage sa;
	uint64_t retry_ns;
	unsigned retry_ms;
	struct sl_psk psk;
	struct replay_filter cm_replay, wireup_replay; /* requests, HELLOs */
	struct wireup_listener wireup;
	struct ibv_context *wireup_device; /* NULL: there is no door */
	struct rc_ring_sizes max_sizes;
	struct sl_rpc_memory mem;
	struct rc_pending pending[RC_PENDING_MAX];
};

bool rc_listener_watch(struct rc_listener *l, int fd);
/*
 * On the device by which the first one comes: a wildcard's is not known before. If there can be none
 * now, there may be when the next one comes.
 */
void rc_listener_open_wireup(struct rc_listener *l, const struct rdma_cm_id *id);

/* For one of that host. NULL: none is free, or as many are taken as may be. */
struct rc_pending *rc_pending_alloc(struct rc_listener *l, const uint8_t host[16], bool by_wireup);
void rc_pending_begin(struct rc_listener *l, struct rc_conn *conn, uint32_t hello_flags);
void rc_pending_drop(struct rc_listener *l, struct rc_pending *p);

/* Of wireup_listener_poll(): whoever knocks has a connection that waits, or is told why not. */
void wireup_handle_request(void *listener, const struct wireup_request *h);
/* Its first message is here: that of one that has heard, or -EACCES. */
int wireup_handle_ack(struct rc_listener *l, struct rc_pending *p);

#endif
