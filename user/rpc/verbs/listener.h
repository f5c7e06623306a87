/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener of RDMA connections: who knocks by the connection manager (listen.c), or by datagrams at
 * its door (admit.c), waits here until it has proven that it has heard the answer.
 */
#ifndef SL_RPC_VERBS_LISTENER_H
#define SL_RPC_VERBS_LISTENER_H

#include <pthread.h>
#include "rpc/verbs/door.h"
#include "rpc/verbs/verbs.h"

enum {
	VB_PENDING_MAX = 32,
	/*
	 * Of these: so that one that lies leaves places to others. Who comes by the connection manager
	 * has places whatever is said at the door, be it in the name of others.
	 */
	VB_PENDING_OF_HOST = 8, /* by the door, and by the connection manager */
	VB_PENDING_BY_DOOR = 16,
	/*
	 * Whoever waits has proven the key, and there are VB_PENDING_MAX of them at the most: so a
	 * busy or emulated machine is given the time that making rings takes there.
	 */
	VB_PENDING_MS = 10000,
};

/* Accepted: has proven the key for its request, but not yet for this connection. */
struct vb_pending {
	struct sl_verbs *v; /* NULL free */
	bool by_door;
	uint8_t host[16]; /* the GID that it says it comes from */
	union {
		struct vb_talk talk;
		struct vb_greetings said; /* by_door */
	};
	uint64_t deadline_ns;
};

struct vb_listener {
	struct sl_rpc_listener base; /* fd: an eventfd, raised while some are established */
	pthread_t thread;
	pid_t pid;      /* whose thread it is; 0: it does not run */
	unsigned group; /* of its connections' homes */
	_Atomic bool stop;
	_Atomic uint64_t refused;
	pthread_mutex_t lock;
	struct sl_list established; /* by sl_verbs.closing */
	int epoll_fd;               /* over the listening id, the pending ones, and `wake` */
	int wake;                   /* an eventfd: stop */
	struct rdma_event_channel *cm;
	struct rdma_cm_id *id; /* NULL: its device is gone; listen again at retry_ns */
	struct sockaddr_storage sa;
	uint64_t retry_ns;
	unsigned retry_ms;
	struct sl_secret secret;
	struct vb_seen seen, knocked; /* requests, HELLOs */
	struct vb_door door;
	struct ibv_context *door_device; /* NULL: there is no door */
	struct vb_geometry most;
	struct sl_rpc_memory mem;
	struct vb_pending pending[VB_PENDING_MAX];
};

bool vb_listener_watch(struct vb_listener *l, int fd);
/*
 * On the device by which the first one comes: a wildcard's is not known before. If there can be none
 * now, there may be when the next one comes.
 */
void vb_listener_door(struct vb_listener *l, const struct rdma_cm_id *id);

/* For one of that host. NULL: none is free, or as many are taken as may be. */
struct vb_pending *vb_pending_place(struct vb_listener *l, const uint8_t host[16], bool by_door);
void vb_pending_promise(struct vb_listener *l, struct sl_verbs *v, uint32_t hello_flags);
void vb_pending_drop(struct vb_listener *l, struct vb_pending *p);

/* Of vb_door_look(): whoever knocks has a connection that waits, or is told why not. */
void vb_admit(void *listener, const struct vb_hello *h);
/* Its first message is here: that of one that has heard, or -EACCES. */
int vb_admitted(struct vb_listener *l, struct vb_pending *p);

#endif
