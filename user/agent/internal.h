/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the agent.
 *
 *   gateway -> sl_backend -> server: waiting -> conn (h1: one call; h2: many) -> the server's socket
 *   gateway <- sl_reply   <- call           <-  conn                          <-
 *
 * A call is a request on its way. It is its server's while it waits, then its connection's too. It
 * ends with the last part of its reply, or with agent_call_fail(); what it holds of the SDK's goes
 * with that. A connection that fails gives its calls back by agent_call_lost(), which knows which of
 * them may be tried again. Connections are freed at the end of a turn of the loop, since events of
 * the same turn may name them.
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
	AGENT_CONNS_MAX = 16384, /* to one server */
	AGENT_TRIES_MAX = 3,
	AGENT_INTERIM_MAX = 32, /* 1xx in front of a reply */
};
#define AGENT_BODIES_MEM ((size_t)1 << 30) /* of what comes in parts, and of replies by HTTP/2 */

/* What the loop waits for; first in what has a descriptor. */
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
	uint8_t kind; /* enum agent_timer_kind: what it lies in */
};

struct agent {
	int epoll_fd;
	int fd_max; /* of connections to servers; those above are for gateways, and what else there is */
	uint64_t now_ns;
	struct sl_wheel wheel;
	struct sl_mempool calls, clients;
	struct sl_capped_alloc bodies;
	struct sl_list
		unread; /* streams of HTTP/2 for which the gateway has no room, oldest first */
	struct sl_list servers, watches;
	struct sl_list dead;  /* connections to be freed */
	struct sl_list dirty; /* those that have something to write at the end of the turn */
	bool pump;           /* a call waits again, or a place is free, since servers were pumped */
	struct sl_prng prng; /* of trace ids, which are no secrets, and of jitter */
	struct agent_names *names;
	volatile int stop;
};

struct agent_conn;
struct agent_call;

/* Of a reply, at a time: with what the SDK puts in front of it, no more than a block of its memory. */
enum { AGENT_PART_MAX = 15 << 10 };

/* A protocol towards servers: h1.c. */
struct agent_proto {
	size_t conn_size;                 /* of the struct that begins with struct agent_conn */
	unsigned calls_per_conn;          /* about */
	bool (*up)(struct agent_conn *c); /* it is connected; false: it cannot be used */
	unsigned (*room)(const struct agent_conn *c); /* for so many calls more */
	void (*start)(struct agent_conn *c, struct agent_call *call);
	void (*readable)(struct agent_conn *c);
	void (*writable)(struct agent_conn *c);
	/* More of its body has come, or the end of it. */
	void (*body)(struct agent_conn *c, struct agent_call *call);
	void (*cancel)(struct agent_conn *c, struct agent_call *call);
	void (*resume)(struct agent_conn *c, struct agent_call *call); /* replies have room again */
	/* Gives all its calls back: `why` is what has happened. */
	void (*closing)(struct agent_conn *c, const char *why);
};
extern const struct agent_proto agent_h1, agent_h2;

struct agent_server {
	struct agent_watch watch; /* of the SDK's descriptor */
	struct sl_list link;
	struct agent *a;
	struct sl_backend *backend;
	const struct agent_proto *proto;
	struct sl_server_url url;
	struct sockaddr_storage addr;
	socklen_t addr_len; /* 0: its name has not been resolved yet */
	struct agent_query query;
	struct agent_timer lookup; /* of its name, the next one */
	char *name, *listen;
	struct agent_authority *authority;
	struct agent_queue waiting; /* calls */
	struct sl_list resting;     /* those that were lost twice, for a moment */
	struct sl_list ready;       /* connections with room, the last used first */
	struct sl_list conns;       /* all */
	uint32_t busy_cnt, conn_cnt, connecting;
	struct agent_concurrency_limit limit;
	struct agent_timer retry; /* of connecting */
	struct agent_timer rest;  /* of the first of `resting` */
	uint64_t down_ns;         /* since when it refuses connections; 0: it does not */
	uint64_t said_ns;         /* when the log said so last */
	uint32_t retry_ms;
	char why[96];          /* it is down */
	bool named, lost_name; /* it has a name; which was not found the last time */
	bool found;            /* it has had an address */
	bool probe;            /* a connection is to be tried, for calls that rest */
	bool told_unready, leaving;
	struct sl_agent_status_server *status; /* NULL: nobody reads of it */
};

struct agent_call {
	struct sl_list link;         /* of its server's, or of its connection's */
	struct agent_client *client; /* at that server */
	struct agent_server *server;
	struct sl_request_view *rq; /* NULL: answered */
	struct agent_conn *conn;    /* NULL: it waits */
	struct agent_timer late;
	uint64_t start_ns;    /* on a connection */
	uint64_t rest_ns;     /* until when it rests; 0: it does not */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint8_t tries;
	bool grpc;
	bool written;  /* some of it, since the last try */
	bool repeated; /* some of it was written in an earlier try */
	bool answered; /* bytes of a reply have come */
	bool begun;    /* a part of the reply is out */
	bool over;     /* its connection has nothing to do with it any more */
	bool counted;  /* in server->busy_cnt */
	bool streams;  /* in client->streams_cnt */
	void *stream;  /* the protocol's */
	struct agent_body body;
};

enum agent_conn_state { AGENT_CONNECTING, AGENT_UP, AGENT_DEAD };

struct agent_conn {
	struct agent_watch watch;
	struct sl_list link, ready; /* of the server's */
	struct sl_list dirty;       /* of the agent's */
	struct agent_server *server;
	int fd;
	uint32_t events; /* that are waited for */
	uint8_t state;
	bool stale;               /* its server has moved: no further calls */
	struct agent_timer timer; /* connecting takes too long; or it has been idle for too long */
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
/* A connection without calls, of whichever server; false, and errno as it was: there is none. */
bool agent_close_idle(struct agent *a);

/* Returns the number above which a further connection of this server may have no descriptor. */
int agent_fds_of(const struct agent_server *server);
/* What its clients have to share now. */
struct agent_shares agent_server_shares(const struct agent_server *s);

/* conn.c */
/* One more connection is under way; false: it cannot even be tried. */
bool agent_conn_open(struct agent_server *s);
/* It goes, with all that is on it; `why` for the log and for what is lost. */
void agent_conn_close(struct agent_conn *c, const char *why);
void agent_conn_wait_for(struct agent_conn *c, uint32_t events);
/* Of c->proto's own making: it has room for a call, or not. */
void agent_conn_room(struct agent_conn *c);
void agent_conn_late(struct agent_conn *c);
/* It has something to write, at the end of this turn. */
void agent_conn_write_soon(struct agent_conn *c);
/* The end of a turn. */
void agent_conns_write(struct agent *a);
void agent_conns_free(struct agent *a);

/* server.c */
/* The end of a turn: gives waiting calls to connections, and opens those that are needed. */
void agent_server_pump(struct agent_server *s);
/* A connection could (not) be made. */
void agent_server_up(struct agent_server *s);
void agent_server_down(struct agent_server *s, const char *why);
/* Again in a moment, if any wait by then. */
void agent_server_retry(struct agent_server *s);
/* No further one can be had on this host now: what waits has those that are there. */
void agent_server_short(struct agent_server *s, const char *why);
void agent_server_timer(struct agent_server *s);
/* It has another address. */
void agent_server_moved(struct agent_server *s);
struct agent_server *agent_server_new(struct agent *a, const struct sl_agent_options *opt,
				      struct sl_err *err);
void agent_server_free(struct agent_server *s);
/* How it is, on the board. */
void agent_server_tell(const struct agent_server *s);

/* address.c */
/* Finds its address, or begins to. */
void agent_address_begin(struct agent_server *s);
/* Looks its name up, if it has one. */
void agent_address_look_up(struct agent_server *s);
/* Takes what look-ups have found. */
void agent_address_answers(struct agent *a);
/* For people: ADDRESS:PORT, NAME:PORT or the path of a socket. */
void agent_address_text(const struct agent_server *s, char *to, size_t len);

/* call.c */
/* A new one waits for a connection; NULL: there are too many. */
struct agent_call *agent_call_new(struct agent_server *s, struct sl_request_view *rq, bool stream);
/* What the SDK says about a stream. */
void agent_call_data(struct agent_call *call, const void *bytes, size_t len, size_t left);
void agent_call_data_end(struct agent_call *call);
/* No server of this agent will have it: gateways may try it elsewhere. */
void agent_call_refuse(struct agent_call *call);
/* Its reply is out, or it is refused; it is gone afterwards. Not to be used with it on a list. */
void agent_call_end(struct agent_call *call);
void agent_call_fail(struct agent_call *call, enum sl_rpc_status status);
/* Its connection is gone: again, if that can do no harm. It is off the connection already. */
void agent_call_lost(struct agent_call *call, const char *why);
void agent_call_late(struct agent_call *call);
/* Those that have rested wait again. */
void agent_calls_rested(struct agent_server *s);
/* It is on this connection now. */
void agent_call_assign(struct agent_call *call, struct agent_conn *c);
/* A reply to it begins: how long that took. */
void agent_call_answered(struct agent_call *call);
/* Its server wants the body, for which its client may wait. False: the call is gone. */
bool agent_call_send_continue(struct agent_call *call);
/* Its server has said that before the reply. */
struct agent_reply_fields;
void agent_call_interim(const struct agent_call *call, uint16_t status,
			const struct agent_reply_fields *fields);
/*
 * A part of its reply, or with `args->more` unset all or the last of it, after which the call is
 * gone. False: there is no room, `resume` follows; the call and the part stay.
 */
bool agent_call_reply(struct agent_call *call, const struct sl_reply_args *args);

#endif
