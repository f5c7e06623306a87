/* SPDX-License-Identifier: Apache-2.0 */
/* upstream.c: servers; upstream_conn.c: their connections. */
#ifndef SL_WORKER_UPSTREAM_IMPL_H
#define SL_WORKER_UPSTREAM_IMPL_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/rand.h"
#include "config/agent_status.h"
#include "origin/server.h"
#include "worker/upstream.h"
#include "xio/frame.h"

struct sl_upstream_list {
	struct sl_tcp *tcp;
	struct origin origin;
	struct origin_owner owner;
	struct sl_list servers;
	struct sl_list received; /* connections with input in this turn */
	struct sl_list closing;  /* handles of TCP connections without a user */
	struct sl_prng prng;
	uint32_t ports; /* per server */
	uint32_t conns; /* most of all servers */
	const struct sl_umem *umem;
	uint64_t tell_ns;        /* next publication of the servers' state */
	unsigned events;         /* upcalls of TCP since the last turn */
	struct sl_net *stopping; /* sends resets in turns; NULL: TCP does */
	unsigned resets;         /* then */
};

struct sl_upstream {
	struct sl_list link;
	struct sl_upstream_list *list; /* NULL: not added yet */
	struct origin_server origin;
	struct sl_backend *backend;
	struct sl_addr remote;
	struct sl_addr local[2]; /* set by the control thread; family 0: no route */
	_Atomic unsigned which;  /* index of `local` */
	char *name, *listen;
	unsigned worker;
	_Atomic bool left;
	_Atomic uint32_t busy; /* requests, for the control thread */
	int epoll_fd;
	struct sl_agent_status_server *status; /* NULL: no memory for it */
};

/* Converts the member `origin`. */
static inline struct sl_upstream *upstream_of(const struct origin_server *s)
{
	return sl_container_of(s, struct sl_upstream, origin);
}

/* upstream.c */
/* Returns true if a connection leaves other servers their parts. */
bool upstream_has_place(const struct sl_upstream *u);

/* upstream_conn.c. Members of struct origin_owner. */
extern const struct origin_io upstream_io;
extern const struct sl_tcp_ops upstream_tcp_ops;
/* Starts to connect. Returns false after a reported failure. */
bool upstream_conn_open(struct origin_server *s);
/* Closes or resets TCP's connection. */
void upstream_conn_gone(struct origin_conn *c);
/* Frees our connection. */
void upstream_conn_free(struct origin_conn *c);
/* Resets connections without a user. */
void upstream_handles_reset(struct sl_upstream_list *l);
/* Passes on what was received, and reads what is wanted again. */
void upstream_conns_pause(struct sl_upstream_list *l);

#endif
