/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client side of HTTP/1.1 and HTTP/2 towards a server, without sockets, events or clock.
 *
 *   calls -- start, body, cancel, resume --> protocol -- send, shut, close --> transport (origin_io)
 *   calls <- reply, fail, lost (origin_ops)- protocol <- space, input, eof --- transport
 *
 * A call is one request. It ends with the last part of its reply, with fail() or with lost(), which
 * returns it; server.h decides about another try. A connection must stay allocated until the end of
 * the turn in which it was closed.
 *
 * One thread; all objects of a struct origin belong to it.
 */
#ifndef SL_ORIGIN_ORIGIN_H
#define SL_ORIGIN_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/mempool.h"
#include "base/rand.h"
#include "base/wheel.h"
#include "origin/body.h"
#include "origin/concurrency_limit.h"
#include "origin/queue.h"
#include "origin/request.h"
#include "rpc/capped_alloc.h"
#include "sluice/backend.h"

enum { ORIGIN_INTERIM_MAX = 32 }; /* 1xx before a reply */

/*
 * Bytes of one reply part; with the SDK's header it fits a block of the SDK's memory. A few
 * HTTP/1.1 replies have wide ones, after ORIGIN_WIDE_AFTER bytes: their clients read.
 */
enum {
	ORIGIN_PART_MAX = 15 << 10,
	ORIGIN_PART_WIDE = 63 << 10,
	ORIGIN_WIDE_AFTER = 1 << 20,
	ORIGIN_WIDE_MAX = 64
};

struct iovec;
struct origin_call;
struct origin_conn;
struct origin_client;
struct origin_owner;
struct origin_proto;
struct origin_reply_fields;
struct origin_scratch;

/* Transport of connections. Functions get a connection that is not closed. */
struct origin_io {
	/* Sends what the transport takes. Returns the number of bytes or -errno; -EAGAIN: none. */
	ssize_t (*send)(struct origin_conn *c, const struct iovec *iov, unsigned cnt);
	/* Sends the end of the output. Returns false if it cannot. */
	bool (*shut)(struct origin_conn *c);
	/* Reads what the transport has now: may close the connection. */
	void (*read)(struct origin_conn *c);
	/* Chooses the next upcalls: input, if it takes some; writable(), once send() takes some. */
	void (*wait)(struct origin_conn *c, bool input, bool writable);
	/* Schedules writable() for the end of the turn. */
	void (*write_soon)(struct origin_conn *c);
	/* The connection carries no call: it may be closed after an idle time. */
	void (*idle)(struct origin_conn *c);
	/* The connection carries a call. */
	void (*busy)(struct origin_conn *c);
	/* The number of calls that fit may have changed. */
	void (*room)(struct origin_conn *c);
	/* Closes the connection; calls closing() unless it is closed. */
	void (*close)(struct origin_conn *c, const char *why);
};

/* Upcalls about calls. */
struct origin_ops {
	/* A reply begins. */
	void (*answered)(struct origin_call *call);
	/* Passes on 100 (Continue). Returns false if the call has ended. */
	bool (*send_continue)(struct origin_call *call);
	/* Passes on another interim reply, which may be dropped. */
	void (*interim)(struct origin_call *call, uint16_t status,
			const struct origin_reply_fields *fields);
	/*
	 * Passes on a part of the reply; without `args->more` it is the last one and the call is
	 * freed. Returns false without room: `resume` follows, and the caller keeps the part.
	 */
	bool (*reply)(struct origin_call *call, const struct sl_reply_args *args);
	/* Ends a call with an error and frees it. */
	void (*fail)(struct origin_call *call, enum sl_rpc_status status);
	/* The call is off its connection, without an end. `why` is for the log. */
	void (*lost)(struct origin_call *call, const char *why);
	/* Lets parts of the request come, or stops them. */
	void (*flow)(struct origin_call *call, bool flows);
};

/* A timer of struct origin's wheel; a zeroed one is idle. */
struct origin_timer {
	struct sl_timer t;
	void (*fn)(struct origin_timer *t);
};

/* State that all connections of one owner share. */
struct origin {
	const struct origin_io *io;
	const struct origin_ops *ops;
	const struct origin_owner *owner; /* of servers and calls, see server.h */
	const char *area;                 /* of log lines */
	uint64_t now_ns;                  /* set by the owner in each turn */
	struct sl_prng *prng;             /* the owner's: trace ids (not secret), jitter */
	struct sl_wheel wheel;
	struct sl_mempool calls, clients;
	struct sl_capped_alloc bodies; /* request bodies and HTTP/2 replies */
	struct sl_list unread;         /* HTTP/2 streams that wait for `resume`, oldest first */
	struct sl_list dead;           /* closed connections, until the end of the turn */
	struct sl_list dirty;          /* connections with output for the end of the turn */
	uint32_t wide_cnt;             /* HTTP/1.1 connections with wide parts */
	bool pump;                     /* a call waits or a place is free */
	struct origin_scratch *scratch;
};

/*
 * `bodies_max`: bytes; `calls_max`: of all servers. Returns false without memory. The caller sets
 * the members up to `prng`.
 */
bool origin_init(struct origin *o, size_t bodies_max, uint32_t calls_max, uint64_t now_ns);
void origin_fini(struct origin *o);

static inline void origin_timer_set(struct origin *o, struct origin_timer *t, uint64_t ns)
{
	sl_timer_set(&o->wheel, &t->t, ns);
}

static inline void origin_timer_cancel(struct origin *o, struct origin_timer *t)
{
	sl_timer_cancel(&o->wheel, &t->t);
}

/* Calls the functions of timers that are due. */
void origin_timers_run(struct origin *o);

/* A server, its connections and calls; server.h has the functions. */
struct origin_server {
	struct origin *origin;
	const struct origin_proto *proto;
	const char *name; /* in the log */
	struct origin_authority authority;
	bool leaving; /* no connection is kept */

	struct origin_queue waiting;
	struct sl_list resting; /* before their last try */
	struct sl_list ready;   /* connections with room; most recently used first */
	struct sl_list conns;
	uint32_t busy_cnt, conn_cnt, connecting;
	struct origin_concurrency_limit limit;
	struct origin_timer retry; /* next attempt to connect */
	struct origin_timer rest;
	uint64_t down_ns; /* refuses connections since; 0: accepts */
	uint64_t said_ns; /* last log line about that */
	uint32_t retry_ms;
	char why[96];        /* it is down, or not healthy */
	bool unhealthy;      /* by its health checks */
	bool said_unhealthy; /* logged; once until it is healthy again */
	bool told_unready;   /* the owner sends no calls */
	bool probe;          /* try a connection for resting calls */
};

struct origin_call {
	struct sl_list link; /* in a queue or list of its server */
	struct origin_client *client;
	struct origin_server *server;
	struct sl_request_view *rq; /* NULL: answered */
	struct origin_conn *conn;   /* NULL: waiting */
	uint64_t deadline_ns;       /* UINT64_MAX: none */
	uint8_t tries;
	bool grpc;
	bool written;  /* in this try */
	bool answered; /* bytes of a reply were received */
	bool begun;    /* a part of the reply was sent; set by reply() */
	bool over;     /* the connection is done with it */
	bool repeated; /* written in an earlier try */
	bool counted;  /* in server->busy_cnt */
	bool streams;  /* counted in client->streams_cnt */
	void *stream;
	struct origin_body body;
	struct origin_timer late;
	uint64_t start_ns; /* assigned to a connection */
	uint64_t rest_ns;  /* 0: not resting */
};

enum origin_conn_state { ORIGIN_CONNECTING, ORIGIN_UP, ORIGIN_DEAD };

struct origin_conn {
	struct origin_server *server;
	struct sl_list link, ready; /* in its server */
	struct sl_list dirty;       /* in its origin */
	struct origin_timer timer;  /* connect or idle */
	uint8_t state;              /* enum origin_conn_state */
	bool stale;                 /* the server has another address: no more calls */
};

/* Bytes that a connection takes now; none without room at the owner. */
struct origin_space {
	uint8_t *at;
	size_t len;
};

/* Operations of a protocol. */
struct origin_proto {
	size_t conn_size; /* begins with struct origin_conn, zeroed by the owner */
	unsigned calls_per_conn;
	bool (*up)(struct origin_conn *c);             /* connected; false: unusable */
	unsigned (*room)(const struct origin_conn *c); /* further calls that fit */
	void (*start)(struct origin_conn *c, struct origin_call *call);
	/* Returns where input goes; may end calls, and the connection. */
	struct origin_space (*space)(struct origin_conn *c);
	/*
	 * Takes the first `len` bytes of `space`. Returns true if it reads on: the owner asks for
	 * space again if the transport may have more.
	 */
	bool (*input)(struct origin_conn *c, size_t len);
	/* The input waits for more: what has come is passed on. */
	void (*pause)(struct origin_conn *c);
	/* The input has ended; `why`: with an error, or NULL. */
	void (*eof)(struct origin_conn *c, const char *why);
	void (*writable)(struct origin_conn *c);
	/* More of the body, or its end, is available. */
	void (*body)(struct origin_conn *c, struct origin_call *call);
	void (*cancel)(struct origin_conn *c, struct origin_call *call);
	/* The owner has room again. Returns true if input is taken now. */
	bool (*resume)(struct origin_conn *c, struct origin_call *call);
	/* Returns all calls with lost(); `why` is the cause. */
	void (*closing)(struct origin_conn *c, const char *why);
};
extern const struct origin_proto origin_h1, origin_h2;

static inline const struct origin_io *origin_io_of(const struct origin_conn *c)
{
	return c->server->origin->io;
}

static inline const struct origin_ops *origin_ops_of(const struct origin_call *call)
{
	return call->server->origin->ops;
}

#endif
