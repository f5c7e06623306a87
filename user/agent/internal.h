/* SPDX-License-Identifier: Apache-2.0 */
/*
 *    gateway -> sl_backend -> server.c -> room origin: calls, connections -> conn.c: sockets
 *    gateway <- sl_reply   <-             room origin                     <- conn.c
 *
 * Connections are freed at the end of a turn: its events may point to them. Functions: the agent's
 * thread.
 */
#ifndef SL_AGENT_INTERNAL_H
#define SL_AGENT_INTERNAL_H

#include <sys/socket.h>
#include "agent/agent.h"
#include "agent/names.h"
#include "agent/tls.h"
#include "base/list.h"
#include "base/rand.h"
#include "config/agent_status.h"
#include "config/server.h"
#include "origin/server.h"

enum {
	AGENT_CALLS_MAX = 65536,
	AGENT_CONNS_MAX = 16384, /* per server */
};
#define AGENT_BODIES_MEM ((size_t)1 << 30) /* request bodies and HTTP/2 replies */

/* First member of each struct with a descriptor. */
struct agent_watch {
	void (*fn)(struct agent_watch *w, uint32_t events);
};

#include "agent/probe.h"

struct agent {
	int epoll_fd;
	int fd_max; /* server sockets; the rest is for gateways */
	struct origin origin;
	struct sl_list servers, watches;
	struct sl_list tls;        /* contexts */
	struct sl_list unfinished; /* connections with input for the next turn; no sleep before */
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
	struct agent_tls_server tls; /* with url.tls */
	struct sockaddr_storage addr;
	socklen_t addr_len; /* 0: not resolved yet */
	struct agent_query query;
	struct origin_timer lookup;
	char *name, *listen;
	struct agent_probe health;
	bool named, lost_name;                 /* has a host name; last look-up failed */
	bool found;                            /* had an address */
	bool tried;                            /* a connection to the address was attempted */
	struct sl_agent_status_server *status; /* NULL: no shared memory */
};

struct agent_conn {
	struct agent_watch watch;
	struct sl_list unfinished;
	int fd;
	struct agent_tls *tls; /* NULL: none, or not connected */
	bool wants_input, wants_output;
	/* The protocol's connection, of proto->conn_size; last. */
	struct origin_conn origin;
};

/* Return the agent's server or connection that contains a member `origin`. */
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

/* Closes an idle connection of any server. Returns false, errno unchanged, if none is idle. */
bool agent_close_idle(struct agent *a);

/* Returns the highest descriptor that a new connection may have. */
int agent_fds_of(const struct agent_server *server);
/* Returns the limit of streams without a place per client address: half of the connections. */
uint32_t agent_streams_max(const struct origin_server *s);

/* Starts a connection. Returns false if it failed, which is reported. */
bool agent_conn_open(struct origin_server *s);
/* Initializes a zeroed connection; it owns fd. */
void agent_conn_init(struct agent_conn *c, struct agent_server *s, int fd);
/* Closes TLS and socket of a closed connection. */
void agent_conn_gone(struct origin_conn *c);
/* Frees its memory, then. */
void agent_conn_free(struct origin_conn *c);
/*
 * Reads until the socket is empty or the protocol takes no more; at most READ_MAX bytes per turn.
 * May close the connection.
 */
void agent_conn_read(struct agent_conn *c);
/* Reads what earlier turns left. */
void agent_conns_read(struct agent *a);
extern const struct origin_io agent_io;

extern const struct origin_owner agent_owner;
/* Returns a started server, or NULL and err. Copies the options. */
struct agent_server *agent_server_new(struct agent *a, const struct sl_agent_options *opt,
				      struct sl_err *err);
/* Closes connections and backend, and refuses calls. */
void agent_server_free(struct agent_server *s);
/* Open connections take no more calls; idle ones are closed, for the reason `why`. */
void agent_server_retire(struct agent_server *s, const char *why);
/* Publishes the state, in shared memory. */
void agent_server_tell(const struct agent_server *s);

/* Sets the address, or starts the look-up. */
void agent_address_begin(struct agent_server *s);
/* Starts a look-up of the host name, if there is one. */
void agent_address_look_up(struct agent_server *s);
/* Changes to the name's next address, if this one was tried. */
void agent_address_next(struct agent_server *s);
/* Takes finished look-ups. */
void agent_address_answers(struct agent *a);
/* Writes ADDRESS:PORT, NAME:PORT or the socket's path. */
void agent_address_text(const struct agent_server *s, char *to, size_t len);

#endif
