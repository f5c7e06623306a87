/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internal interfaces of the agent.
 *
 *    gateway -> sl_backend -> server: waiting -> conn (h1: one call; h2: many) -> the server's socket
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
#include "agent/body.h"
#include "agent/concurrency_limit.h"
#include "agent/names.h"
#include "agent/queue.h"
#include "agent/request.h"
#include "base/list.h"
#include "base/mempool.h"
#include "base/rand.h"
#include "base/wheel.h"
#include "config/agent_status.h"
#include "config/server.h"
#include "rpc/capped_alloc.h"
#include "sluice/backend.h"

enum {
	AGENT_CALLS_MAX = 65536,
	AGENT_CONNS_MAX = 16384, /* per server */
	AGENT_TRIES_MAX = 3,
	AGENT_INTERIM_MAX = 32, /* 1xx before a reply */
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
};

struct agent_timer {
	struct sl_timer t;
	uint8_t kind; /* enum agent_timer_kind */
};

struct agent {
	int epoll_fd;
	int fd_max; /* server sockets; the rest is for gateways */
	uint64_t now_ns;
	struct sl_wheel wheel;
	struct sl_mempool calls, clients;
	struct sl_capped_alloc bodies;
	struct sl_list unread; /* HTTP/2 streams that wait for the gateway, oldest first */
	struct sl_list servers, watches;
	struct sl_list dead;
	struct sl_list dirty; /* have output for the end of the turn */
	bool pump;            /* a call waits or a place is free */
	struct sl_prng prng;  /* trace ids (not secret), jitter */
	struct agent_names *names;
	volatile int stop;
};

struct agent_conn;
struct agent_call;

/* Bytes of one reply part; with the SDK's header it fits a block of the SDK's memory. */
enum { AGENT_PART_MAX = 15 << 10 };

/* Operations of a protocol towards servers (h1.c, h2.c). */
struct agent_proto {
	size_t conn_size;
	unsigned calls_per_conn;
	bool (*up)(struct agent_conn *c);             /* connected; false: unusable */
	unsigned (*room)(const struct agent_conn *c); /* further calls that fit */
	void (*start)(struct agent_conn *c, struct agent_call *call);
	void (*readable)(struct agent_conn *c);
	void (*writable)(struct agent_conn *c);
	/* More of the body, or its end, is available. */
	void (*body)(struct agent_conn *c, struct agent_call *call);
	void (*cancel)(struct agent_conn *c, struct agent_call *call);
	void (*resume)(struct agent_conn *c,
		       struct agent_call *call); /* the gateway has room again */
	/* Returns all calls with agent_call_lost(); `why` is the cause. */
	void (*closing)(struct agent_conn *c, const char *why);
};
extern const struct agent_proto agent_h1, agent_h2;

struct agent_server {
	struct agent_watch watch; /* SDK's descriptor */
	struct sl_list link;
	struct agent *a;
	struct sl_backend *backend;
	const struct agent_proto *proto;
	struct sl_server_url url;
	struct sockaddr_storage addr;
	socklen_t addr_len; /* 0: not resolved yet */
	struct agent_query query;
	struct agent_timer lookup;
	char *name, *listen;
	struct agent_authority *authority;
	struct agent_queue waiting;
	struct sl_list resting; /* before their last try */
	struct sl_list ready;   /* have room; most recently used first */
	struct sl_list conns;
	uint32_t busy_cnt, conn_cnt, connecting;
	struct agent_concurrency_limit limit;
	struct agent_timer retry; /* next attempt to connect */
	struct agent_timer rest;
	uint64_t down_ns; /* refuses connections since; 0: accepts */
	uint64_t said_ns; /* last log line about that */
	uint32_t retry_ms;
	char why[96];          /* it is down */
	bool named, lost_name; /* has a host name; the last look-up failed */
	bool found;            /* had an address before */
	bool probe;            /* try a connection for resting calls */
	bool told_unready, leaving;
	struct sl_agent_status_server *status; /* NULL: no shared memory */
};

struct agent_call {
	struct sl_list link; /* in its server or connection */
	struct agent_client *client;
	struct agent_server *server;
	struct sl_request_view *rq; /* NULL: answered */
	struct agent_conn *conn;    /* NULL: waiting */
	struct agent_timer late;
	uint64_t start_ns;    /* assigned to a connection */
	uint64_t rest_ns;     /* 0: not resting */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint8_t tries;
	bool grpc;
	bool written;  /* in this try */
	bool repeated; /* written in an earlier try */
	bool answered; /* bytes of a reply were received */
	bool begun;    /* a part of the reply was sent */
	bool over;     /* the connection is done with it */
	bool counted;  /* in server->busy_cnt */
	bool streams;  /* counted in client->streams_cnt */
	void *stream;
	struct agent_body body;
};

enum agent_conn_state { AGENT_CONNECTING, AGENT_UP, AGENT_DEAD };

struct agent_conn {
	struct agent_watch watch;
	struct sl_list link, ready; /* in its server */
	struct sl_list dirty;       /* in the agent */
	struct agent_server *server;
	int fd;
	uint32_t events;
	uint8_t state;
	bool stale;               /* the server has another address: no more calls */
	struct agent_timer timer; /* connect or idle */
};

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
struct agent_shares agent_server_shares(const struct agent_server *s);

/* conn.c */
/* Starts a connection attempt. Returns false without a socket. */
bool agent_conn_open(struct agent_server *s);
/* Closes a connection and returns its calls. `why` is for the log and lost calls. */
void agent_conn_close(struct agent_conn *c, const char *why);
void agent_conn_wait_for(struct agent_conn *c, uint32_t events);
/* Updates the list of connections with room. Called by the protocol. */
void agent_conn_room(struct agent_conn *c);
void agent_conn_late(struct agent_conn *c);
/* Schedules output for the end of the turn. */
void agent_conn_write_soon(struct agent_conn *c);
/* Called at the end of a turn. */
void agent_conns_write(struct agent *a);
void agent_conns_free(struct agent *a);

/* server.c */
/* Assigns waiting calls and opens connections. Called at the end of a turn. */
void agent_server_pump(struct agent_server *s);
/* Called when a connection attempt succeeded or failed. */
void agent_server_up(struct agent_server *s);
void agent_server_down(struct agent_server *s, const char *why);
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
struct agent_call *agent_call_new(struct agent_server *s, struct sl_request_view *rq, bool stream);
/* Called by the SDK's stream callbacks. */
void agent_call_data(struct agent_call *call, const void *bytes, size_t len, size_t left);
void agent_call_data_end(struct agent_call *call);
/* Ends a call with SL_RPC_REFUSED: the gateway tries another backend. */
void agent_call_refuse(struct agent_call *call);
/* Frees a call after its reply or refusal. It must be on no list. */
void agent_call_end(struct agent_call *call);
void agent_call_fail(struct agent_call *call, enum sl_rpc_status status);
/*
 * The connection was lost: queues the call again if a repetition is safe, else fails it. The call
 * is off the connection already.
 */
void agent_call_lost(struct agent_call *call, const char *why);
void agent_call_late(struct agent_call *call);
/* Queues calls whose rest has ended. */
void agent_calls_rested(struct agent_server *s);
/* Assigns the call to a connection. */
void agent_call_assign(struct agent_call *call, struct agent_conn *c);
/* A reply begins; its latency goes to the concurrency limit. */
void agent_call_answered(struct agent_call *call);
/* Sends 100 (Continue). Returns false if the call has ended. */
bool agent_call_send_continue(struct agent_call *call);
/* Passes on an interim reply. */
struct agent_reply_fields;
void agent_call_interim(const struct agent_call *call, uint16_t status,
			const struct agent_reply_fields *fields);
/*
 * Passes on a part of the reply; without `args->more` it is the last one and the call is freed.
 * Returns false if the gateway has no room: `resume` follows, and the caller keeps the part.
 */
bool agent_call_reply(struct agent_call *call, const struct sl_reply_args *args);

#endif
