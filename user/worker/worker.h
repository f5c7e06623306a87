/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread with its own receive queues, memory, connections, timers and RPC channels. It reads
 * messages between bursts.
 */
#ifndef SL_WORKER_WORKER_H
#define SL_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/cpu.h"
#include "core/core.h"
#include "front/proxy/proxy.h"
#include "sock/sock.h"
#include "worker/adaptive_poll.h"

struct sl_backend_ref;
struct sl_mpsc;
struct sl_routes;
struct sl_rss_list;
struct sl_worker_cfg;
struct sl_tls;
struct sl_tls_config;
struct sl_transport;
struct sl_upstream;
struct sl_upstream_list;

enum sl_worker_verb {
	SL_WORKER_ADOPT,
	SL_WORKER_FORGET,  /* the peer no longer has connection `number` */
	SL_WORKER_RELEASE, /* link ends after its requests */
	SL_WORKER_PREPARE, /* see core/reload.h */
	SL_WORKER_SWITCH,
	SL_WORKER_ADD_PORT, /* for an added queue */
	SL_WORKER_LINK,     /* new MTU (`number`) and MAC of `ifindex` */
	SL_WORKER_ROUTES,
	SL_WORKER_RSS,
	SL_WORKER_LISTEN,         /* see sl_sock_set_listeners() */
	SL_WORKER_UPSTREAM,       /* serves `upstream`, see upstream.h */
	SL_WORKER_UPSTREAM_LEAVE, /* ends it after its requests */
	SL_WORKER_UPSTREAM_HEALTH,
	SL_WORKER_DRAIN,
	SL_WORKER_STOP,
};

/* Allocated with malloc; the worker owns it once sent. wcfg stays the control thread's. */
struct sl_worker_msg {
	enum sl_worker_verb verb;
	struct sl_backend_ref *backend;
	struct sl_transport *transport;
	uint32_t number; /* virtual connection's, or an MTU */
	int ifindex;
	uint8_t mac[6];
	struct sl_worker_cfg *wcfg;
	struct sl_port *port;
	struct sl_upstream *upstream;
	char why[64];             /* see sl_upstream_set_health() */
	_Atomic bool *added;      /* set when the worker owns the port */
	struct sl_routes *routes; /* owns a reference; NULL: none */
	struct sl_rss_list *rss;  /* likewise */
	/* Allocated with malloc; with the descriptors, the worker's once sent. */
	struct sl_sock_listener *listeners;
	uint32_t listener_cnt, excluded_cnt;
	int excluded[SL_SOCK_EXCLUDED_MAX];
};

struct sl_worker {
	unsigned index;
	int cpu; /* -1: not pinned */
	struct sl_adaptive_poll poll;
	struct sl_umem umem;
	struct sl_net net;
	struct sl_core core;
	struct sl_tls *tls;
	struct sl_upstream_list *upstreams; /* NULL: no tcp.server_ports */
	struct sl_proxy_env proxy;
	struct sl_port *ports[SL_MAX_PORTS];
	unsigned port_cnt;
	int epoll_fd, wake_fd;
	struct sl_mpsc *mailbox;
	pthread_t thread;
	bool thread_started;
	bool stopping, draining; /* worker only */
	_Atomic bool drained;
	bool news;        /* the last round found requests, replies */
	bool idle;        /* the worker polls */
	uint64_t busy_ns; /* last work */
	uint64_t loops, busy_loops, sleeps;
} SL_ALIGNED(SL_CACHELINE); /* its neighbour in an array belongs to another thread */

/*
 * Creates memory and network. The gateway adds ports next. Control thread, as the functions below.
 * Returns 0, or -errno; sl_worker_fini() follows in both cases.
 */
int sl_worker_init(struct sl_worker *w, const struct sl_config *cfg, unsigned index,
		   uint32_t frame_size);
/*
 * Creates stack, core and epoll set on existing ports. `tls` has the TLS thread functions; the rest
 * is filled in. Returns 0 or -errno.
 */
int sl_worker_build(struct sl_worker *w, const struct sl_config *cfg,
		    const struct sl_core_maps *maps, const struct sl_tls_config *tls);
/* Starts the thread. Returns 0 or -errno. */
int sl_worker_start(struct sl_worker *w);
/* Ends and joins the thread, if it runs. */
void sl_worker_stop(struct sl_worker *w);
/* Frees all but w, and closes the ports. The thread must have ended. */
void sl_worker_fini(struct sl_worker *w);

/* Sends a message. Any thread. Returns 0, or -EAGAIN: full; the caller keeps the message. */
int sl_worker_send(struct sl_worker *w, struct sl_worker_msg *msg);
/* Sends a copy and waits for room. Control thread. Returns 0 or -ENOMEM. */
int sl_worker_tell(struct sl_worker *w, const struct sl_worker_msg *msg);
/* Creates mailbox and wake_fd. Returns 0 or -errno; sl_worker_mailbox_close() follows. */
int sl_worker_mailbox_open(struct sl_worker *w);
/* Frees them, and what waiting messages own. The thread has ended. */
void sl_worker_mailbox_close(struct sl_worker *w);
/* Adds a port while running. Worker. Returns 0; or -errno: the caller keeps the port. */
int sl_worker_add_port(struct sl_worker *w, struct sl_port *p);
/* Carries out waiting messages. Worker. Returns their number. */
unsigned sl_worker_read_mailbox(struct sl_worker *w);

/* Runs the worker until it is told to stop. Worker. */
void sl_worker_run(struct sl_worker *w);

#endif
