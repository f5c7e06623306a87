/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One worker: one thread, one core, its own receive queues, memory, connections, timers and RPC
 * channels. Others reach it by messages only, which it reads between two bursts.
 */
#ifndef SL_WORKER_WORKER_H
#define SL_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include "core/core.h"
#include "front/proxy/proxy.h"
#include "worker/adaptive_poll.h"

struct sl_backend_ref;
struct sl_mpsc;
struct sl_worker_cfg;
struct sl_tls;
struct sl_tls_config;
struct sl_transport;

enum sl_worker_verb {
	SL_WORKER_ADOPT,
	SL_WORKER_FORGET,  /* the member's link by that connection has ended at the other end */
	SL_WORKER_RELEASE, /* the member is not used any more: its link ends after its requests */
	SL_WORKER_PREPARE, /* see core/reload.h */
	SL_WORKER_SWITCH,
	SL_WORKER_DRAIN,
	SL_WORKER_STOP,
};

/*
 * Belongs to the worker once it is sent, but for the table, which stays the control thread's;
 * allocated and freed with malloc.
 */
struct sl_worker_msg {
	enum sl_worker_verb verb;
	struct sl_backend_ref *backend;
	struct sl_transport *transport;
	uint32_t number; /* of a virtual connection */
	struct sl_worker_cfg *wcfg;
};

struct sl_worker {
	unsigned index;
	int cpu; /* -1: not pinned */
	struct sl_adaptive_poll poll;
	struct sl_umem umem;
	struct sl_net net;
	struct sl_core core;
	struct sl_tls *tls; /* of its connections */
	struct sl_proxy_env proxy;
	struct sl_port *ports[SL_MAX_PORTS];
	unsigned port_cnt;
	int epoll_fd, wake_fd;
	struct sl_mpsc *mailbox;
	pthread_t thread;
	bool thread_started;
	bool stopping, draining; /* the worker's own */
	_Atomic bool drained;
	bool news;        /* the last look has found what is to be computed, or was */
	bool idle;        /* it has looked since, and polls */
	uint64_t busy_ns; /* last time that there was something to do */
	uint64_t loops, busy_loops, sleeps;
};

/* Everything but ports (added by the gateway in between) and the thread. 0 or -errno. */
int sl_worker_init(struct sl_worker *w, const struct sl_config *cfg, unsigned index,
		   uint32_t frame_size);
/*
 * With its ports in place: the stack, the core, the sleeping place. `tls`: who makes handshakes; the
 * rest of it is filled in.
 */
int sl_worker_build(struct sl_worker *w, const struct sl_config *cfg,
		    const struct sl_core_maps *maps, const struct sl_tls_config *tls);
int sl_worker_start(struct sl_worker *w);
/* Ends the thread and waits for it. */
void sl_worker_stop(struct sl_worker *w);
void sl_worker_fini(struct sl_worker *w);

/* mailbox.c. Any thread. 0, or -EAGAIN: the mailbox is full and the message still the caller's. */
int sl_worker_send(struct sl_worker *w, struct sl_worker_msg *msg);
/* The control thread: the same for a copy of it, waiting for room. 0 or -ENOMEM. */
int sl_worker_tell(struct sl_worker *w, const struct sl_worker_msg *msg);
/* The worker's own: 0 or -errno; what is left in it is freed; how many messages it had. */
int sl_worker_mailbox_open(struct sl_worker *w);
void sl_worker_mailbox_close(struct sl_worker *w);
unsigned sl_worker_read_mailbox(struct sl_worker *w);

/* loop.c */
void sl_worker_run(struct sl_worker *w);

#endif
