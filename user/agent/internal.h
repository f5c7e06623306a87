/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interfaces of the agent.
 *
 *    gateway -> sl_backend -> server.c -> room origin: calls, connections -> conn.c: sockets
 *    gateway <- sl_reply   <-             room origin                     <- conn.c
 *
 * A call is one request, owned by its server. Its end releases the SDK's request. Connections are
 * freed at the end of a loop turn, because events of the same turn may point to them.
 */
#ifndef SL_AGENT_INTERNAL_H
#define SL_AGENT_INTERNAL_H

#include <sys/socket.h>
#include "agent/agent.h"
#include "agent/names.h"
#include "base/list.h"
#include "base/rand.h"
#include "config/agent_status.h"
#include "config/server.h"
#include "origin/server.h"

enum {
	AGENT_CALLS_MAX = 65536,
	AGENT_CONNS_MAX = 16384, /* per server */
};
#define AGENT_BODIES_MEM ((size_t)1 << 30) /* bytes of request bodies and HTTP/2 replies */

/* Callback of an epoll event; first member of each struct with a descriptor. */
struct agent_watch {
	void (*fn)(struct agent_watch *w, uint32_t events);
};

#include "agent/probe.h"

struct agent {
	int epoll_fd;
	int fd_max; /* server sockets; the rest is for gateways */
	struct origin origin;
	struct sl_list servers, watches;
	struct sl_list unfinished; /* connections with input for the next turn */
	struct sl_prng prng;       /* trace ids (not secret), jitter */
	struct agent_names *names;
	volatile int stop;
};

struct agent_server {
	struct agent_watch watch; /* SDK's descriptor */
	struct sl_list link;
	struct agent *a;
	struct sl_backend *backend;
	struct origin_server origin;
	struct sl_server_url url;
	struct sockaddr_storage addr;
	socklen_t addr_len; /* 0: not resolved yet */
	struct agent_query query;
	struct origin_timer lookup;
	char *name, *listen;
	struct agent_probe health;
	bool named, lost_name;                 /* has a host name; the last look-up failed */
	bool found;                            /* had an address before */
	struct sl_agent_status_server *status; /* NULL: no shared memory */
};

struct agent_conn {
	struct agent_watch watch;
	struct sl_list unfinished; /* in the agent */
	int fd;
	bool wants_input, wants_output;
	bool ended; /* the server has closed its output, or the socket failed */
	/* The protocol's connection, of proto->conn_size; last. */
	struct origin_conn origin;
};

static inline struct agent_server *agent_server_of(const struct origin_server *s)
{
	return sl_container_of(s, struct agent_server, origin);
}

static inline struct agent_server *agent_conn_server(const struct agent_conn *c)
{
	return agent_server_of(c->origin.server);
}

static inline struct agent_conn *agent_conn_of(struct origin_conn *c)
{
	return sl_container_of(c, struct agent_conn, origin);
}

/* agent.c */
/*
 * Closes an idle connection of any server. Returns false, with errno unchanged, if there is none.
 */
bool agent_close_idle(struct agent *a);

/* Returns the highest descriptor that a new connection may have. */
int agent_fds_of(const struct agent_server *server);
/* Returns how many streams without a place a client address may have: half of the connections. */
uint32_t agent_streams_max(const struct origin_server *s);

/* conn.c */
/* Starts a connection attempt. Returns false without a socket. */
bool agent_conn_open(struct origin_server *s);
/* Initializes a zeroed connection for a socket. */
void agent_conn_init(struct agent_conn *c, struct agent_server *s, int fd);
/* Closes the socket of a closed connection. */
void agent_conn_gone(struct origin_conn *c);
void agent_conn_free(struct origin_conn *c);
/*
 * Reads until the socket is empty or the protocol takes no more. After READ_MAX bytes the rest is
 * left for the next turn.
 */
void agent_conn_read(struct agent_conn *c);
/* Reads what earlier turns left. Returns true if there is more: the loop must not sleep. */
bool agent_conns_read(struct agent *a);
/* The gateway has room for the reply of a call that is on a connection. */
void agent_conn_resume(struct origin_call *call);
extern const struct origin_io agent_io;

/* server.c */
extern const struct origin_owner agent_owner;
struct agent_server *agent_server_new(struct agent *a, const struct sl_agent_options *opt,
				      struct sl_err *err);
void agent_server_free(struct agent_server *s);
/* Publishes the state (config/agent_status.h). */
void agent_server_tell(const struct agent_server *s);

/* address.c */
/* Resolves the address, or starts the look-up. */
void agent_address_begin(struct agent_server *s);
/* Starts a look-up of the host name, if there is one. */
void agent_address_look_up(struct agent_server *s);
/* Processes finished look-ups. */
void agent_address_answers(struct agent *a);
/* Writes ADDRESS:PORT, NAME:PORT or the path of the socket. */
void agent_address_text(const struct agent_server *s, char *to, size_t len);

#endif
