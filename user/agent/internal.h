/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interfaces of the agent.
 *
 *    gateway -> sl_backend -> server: waiting -> conn (room origin) -> the server's socket
 *    gateway <- sl_reply   <- call           <-  conn                          <-
 *
 * A call is one request, owned by its server. It ends with the last part of its reply or with
 * agent_call_fail(), which also release the SDK's request. A connection that fails returns its
 * calls with agent_call_lost(). Connections are freed at the end of a loop turn, because events of
 * the same turn may point to them.
 */
#ifndef SL_AGENT_INTERNAL_H
#define SL_AGENT_INTERNAL_H

#include <sys/socket.h>
#include "agent/agent.h"
#include "agent/names.h"
#include "base/list.h"
#include "base/mempool.h"
#include "base/rand.h"
#include "base/wheel.h"
#include "config/agent_status.h"
#include "config/server.h"
#include "origin/concurrency_limit.h"
#include "origin/origin.h"
#include "origin/queue.h"

enum {
	AGENT_CALLS_MAX = 65536,
	AGENT_CONNS_MAX = 16384, /* per server */
	AGENT_TRIES_MAX = 3,
};
#define AGENT_BODIES_MEM ((size_t)1 << 30) /* bytes of request bodies and HTTP/2 replies */

/* Callback of an epoll event; first member of each struct with a descriptor. */
struct agent_watch {
	void (*fn)(struct agent_watch *w, uint32_t events);
};

enum agent_timer_kind {
	AGENT_TIMER_CALL,
	AGENT_TIMER_CONN,
	AGENT_TIMER_SERVER,
	AGENT_TIMER_REST,
	AGENT_TIMER_LOOKUP,
	AGENT_TIMER_PROBE,
};

struct agent_timer {
	struct sl_timer t;
	uint8_t kind; /* enum agent_timer_kind */
};

#include "agent/probe.h"

struct agent {
	int epoll_fd;
	int fd_max; /* server sockets; the rest is for gateways */
	uint64_t now_ns;
	struct sl_wheel wheel;
	struct sl_mempool calls, clients;
	struct origin origin;
	struct sl_list servers, watches;
	struct sl_list dead;
	struct sl_list dirty;      /* have output for the end of the turn */
	struct sl_list unfinished; /* have input for the next turn */
	bool pump;                 /* a call waits or a place is free */
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
	const struct origin_proto *proto;
	struct sl_server_url url;
	struct sockaddr_storage addr;
	socklen_t addr_len; /* 0: not resolved yet */
	struct agent_query query;
	struct agent_timer lookup;
	char *name, *listen;
	struct origin_queue waiting;
	struct sl_list resting; /* before their last try */
	struct sl_list ready;   /* have room; most recently used first */
	struct sl_list conns;
	uint32_t busy_cnt, conn_cnt, connecting;
	struct origin_concurrency_limit limit;
	struct agent_timer retry; /* next attempt to connect */
	struct agent_timer rest;
	uint64_t down_ns; /* refuses connections since; 0: accepts */
	uint64_t said_ns; /* last log line about that */
	uint32_t retry_ms;
	char why[96];        /* it is down, or not healthy */
	bool unhealthy;      /* by its health checks */
	bool said_unhealthy; /* logged; once until it is healthy again */
	struct agent_probe health;
	bool named, lost_name; /* has a host name; the last look-up failed */
	bool found;            /* had an address before */
	bool probe;            /* try a connection for resting calls */
	bool told_unready;
	struct sl_agent_status_server *status; /* NULL: no shared memory */
};

struct agent_call {
	struct origin_call origin; /* first */
	struct agent_timer late;
	uint64_t start_ns; /* assigned to a connection */
	uint64_t rest_ns;  /* 0: not resting */
	bool repeated;     /* written in an earlier try */
	bool counted;      /* in server->busy_cnt */
	bool streams;      /* counted in client->streams_cnt */
};

struct agent_conn {
	struct agent_watch watch;
	struct sl_list link, ready;       /* in its server */
	struct sl_list dirty, unfinished; /* in the agent */
	int fd;
	bool wants_input, wants_output;
	bool ended;               /* the server has closed its output, or the socket failed */
	bool stale;               /* the server has another address: no more calls */
	struct agent_timer timer; /* connect or idle */
	/* The protocol's connection, of proto->conn_size; last. */
	struct origin_conn origin;
};

static inline struct agent_call *agent_call_of(struct origin_call *call)
{
	return sl_container_of(call, struct agent_call, origin);
}

static inline struct agent_server *agent_server_of(const struct origin_call *call)
{
	return sl_container_of(call->server, struct agent_server, origin);
}

static inline struct agent_server *agent_conn_server(const struct agent_conn *c)
{
	return sl_container_of(c->origin.server, struct agent_server, origin);
}

static inline void agent_timer_set(struct agent *a, struct agent_timer *t, uint64_t ns)
{
	sl_timer_set(&a->wheel, &t->t, ns);
}

static inline void agent_timer_cancel(struct agent *a, struct agent_timer *t)
{
	sl_timer_cancel(&a->wheel, &t->t);
}

/* agent.c */
/*
 * Closes an idle connection of any server. Returns false, with errno unchanged, if there is none.
 */
bool agent_close_idle(struct agent *a);

/* Returns the highest descriptor that a new connection may have. */
int agent_fds_of(const struct agent_server *server);
/* Returns what the clients of the server share now. */
struct origin_shares agent_server_shares(const struct agent_server *s);

/* conn.c */
/* Starts a connection attempt. Returns false without a socket. */
bool agent_conn_open(struct agent_server *s);
/* Closes a connection and returns its calls. `why` is for the log and lost calls. */
void agent_conn_close(struct agent_conn *c, const char *why);
/* Updates the list of connections with room. */
void agent_conn_room(struct agent_conn *c);
void agent_conn_late(struct agent_conn *c);
/* Initializes a zeroed connection for a socket. */
void agent_conn_init(struct agent_conn *c, struct agent_server *s, int fd);
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
/* Called at the end of a turn. */
void agent_conns_write(struct agent *a);
void agent_conns_free(struct agent *a);

/* server.c */
/* Assigns waiting calls and opens connections. Called at the end of a turn. */
void agent_server_pump(struct agent_server *s);
/* Called when a connection attempt succeeded or failed. */
void agent_server_up(struct agent_server *s);
void agent_server_down(struct agent_server *s, const char *why);
/* Results of health checks. */
void agent_server_healthy(struct agent_server *s);
void agent_server_unhealthy(struct agent_server *s, const char *why);
/* Schedules a connection attempt for waiting calls. */
void agent_server_retry(struct agent_server *s);
/* This host has no descriptor or port left: calls wait for existing connections. */
void agent_server_short(struct agent_server *s, const char *why);
void agent_server_timer(struct agent_server *s);
/* The server has another address. */
void agent_server_moved(struct agent_server *s);
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

/* call.c */
/* Creates a call that waits for a connection. Returns NULL at AGENT_CALLS_MAX. */
struct origin_call *agent_call_new(struct agent_server *s, struct sl_request_view *rq, bool stream);
/* Called by the SDK's stream callbacks. */
void agent_call_data(struct origin_call *call, const void *bytes, size_t len, size_t left);
void agent_call_data_end(struct origin_call *call);
/* Ends a call with SL_RPC_REFUSED: the gateway tries another backend. */
void agent_call_refuse(struct origin_call *call);
/* Frees a call after its reply or refusal. It must be on no list. */
void agent_call_end(struct origin_call *call);
void agent_call_fail(struct origin_call *call, enum sl_rpc_status status);
/*
 * The connection was lost: queues the call again if a repetition is safe, else fails it. The call
 * is off the connection already.
 */
void agent_call_lost(struct origin_call *call, const char *why);
void agent_call_late(struct origin_call *call);
/* Queues calls whose rest has ended. */
void agent_calls_rested(struct agent_server *s);
/* Assigns the call to a connection. */
void agent_call_assign(struct origin_call *call, struct agent_conn *c);
extern const struct origin_ops agent_call_ops;

#endif
