/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client side of HTTP/1.1 and HTTP/2 towards a server, without sockets, events or clock.
 *
 *   calls -- start, body, cancel, resume --> protocol -- send, shut, close --> transport (origin_io)
 *   calls <- reply, fail, lost (origin_ops)- protocol <- space, input, eof --- transport
 *
 * A call is one request. It ends with the last part of its reply or fail(); after lost(), call.c
 * may try again. Closed connections stay allocated until the turn's end.
 *
 * One thread per struct origin.
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

enum { ORIGIN_INTERIM_MAX = 32 };

/*
 * Bytes of a reply part; with its header it fits a block of the SDK's memory. At most
 * ORIGIN_WIDE_MAX HTTP/1.1 replies have wide parts, after ORIGIN_WIDE_AFTER bytes.
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

/* Transport of connections that are not closed. */
struct origin_io {
	/* Returns the number of bytes sent, or -errno; -EAGAIN: no room. */
	ssize_t (*send)(struct origin_conn *c, const struct iovec *iov, unsigned cnt);
	/* Ends the output. Returns false on failure. */
	bool (*shut)(struct origin_conn *c);
	/* Reads available input; may close the connection. */
	void (*read)(struct origin_conn *c);
	/* Enables upcalls: input, and writable(). */
	void (*wait)(struct origin_conn *c, bool input, bool writable);
	void (*write_soon)(struct origin_conn *c);
	/* The idle time begins. */
	void (*idle)(struct origin_conn *c);
	void (*busy)(struct origin_conn *c);
	/* The number of calls that fit may have changed. */
	void (*room)(struct origin_conn *c);
	/* Closes the connection; calls closing() unless it is closed. */
	void (*close)(struct origin_conn *c, const char *why);
};

struct origin_ops {
	void (*answered)(struct origin_call *call);
	/* Returns false if the call has ended. */
	bool (*send_continue)(struct origin_call *call);
	/* May be dropped. */
	void (*interim)(struct origin_call *call, uint16_t status,
			const struct origin_reply_fields *fields);
	/*
	 * Passes on a part of the reply; the last one, without `args->more`, frees the call.
	 * Returns false without room: the caller keeps the part until `resume`.
	 */
	bool (*reply)(struct origin_call *call, const struct sl_reply_args *args);
	/* Frees the call. */
	void (*fail)(struct origin_call *call, enum sl_rpc_status status);
	/* The connection gives the call back. `why` is for the log. */
	void (*lost)(struct origin_call *call, const char *why);
	/* Resumes or pauses the request. */
	void (*flow)(struct origin_call *call, bool flows);
};

/* A zeroed timer is idle. */
struct origin_timer {
	struct sl_timer t;
	void (*fn)(struct origin_timer *t);
};

struct origin {
	const struct origin_io *io;
	const struct origin_ops *ops;
	const struct origin_owner *owner;
	const char *area;
	uint64_t now_ns;      /* set by the owner at each turn */
	struct sl_prng *prng; /* the owner's: trace ids (not secret), jitter */
	struct sl_wheel wheel;
	struct sl_mempool calls, clients;
	struct sl_capped_alloc bodies;
	struct sl_list unread; /* HTTP/2 streams that wait for `resume`, oldest first */
	struct sl_list dead;   /* to free at the end of the turn */
	struct sl_list dirty;  /* to write at the end of the turn */
	uint32_t wide_cnt;     /* HTTP/1.1 connections with wide parts */
	bool pump;             /* a server may assign calls */
	struct origin_scratch *scratch;
};

/*
 * `calls_max`: of all servers. Returns false without memory; origin_fini() follows. The caller sets
 * the members up to `prng`.
 */
bool origin_init(struct origin *o, size_t bodies_max, uint32_t calls_max, uint64_t now_ns);
/* Frees memory; servers, calls and connections are gone. */
void origin_fini(struct origin *o);

/* Set a timer, also a running one, to a time; stop it, if it runs. */
static inline void origin_timer_set(struct origin *o, struct origin_timer *t, uint64_t ns)
{
	sl_timer_set(&o->wheel, &t->t, ns);
}
static inline void origin_timer_cancel(struct origin *o, struct origin_timer *t)
{
	sl_timer_cancel(&o->wheel, &t->t);
}
/* Calls a bounded number of due timers. */
void origin_timers_run(struct origin *o);

struct origin_server {
	struct origin *origin;
	const struct origin_proto *proto;
	const char *name;
	struct origin_authority authority;
	bool secure;  /* TLS: the scheme is https */
	bool leaving; /* no connection is kept */

	struct origin_queue waiting;
	struct sl_list resting; /* calls before their last try */
	struct sl_list ready;   /* connections with room, last used first */
	struct sl_list conns;
	uint32_t busy_cnt, conn_cnt, connecting;
	uint32_t ended_cnt; /* of the connections */
	struct origin_concurrency_limit limit;
	struct origin_timer retry; /* next attempt to connect */
	struct origin_timer rest;
	uint64_t down_ns; /* refuses connections since then; 0: up */
	uint64_t said_ns; /* last log line about it */
	uint32_t retry_ms;
	uint8_t mute_cnt; /* connections in a row that ended before any reply byte */
	bool refused;     /* the last connection was, by a TLS alert */
	char why[96];     /* reason of down or unhealthy */
	bool unhealthy;
	bool said_unhealthy; /* logged since it was healthy */
	bool told_unready;   /* the owner must send no calls */
	bool probe;          /* try a connection for resting calls */
};

struct origin_call {
	struct sl_list link; /* queue or list of its server */
	struct origin_client *client;
	struct origin_server *server;
	struct sl_request_view *rq; /* NULL: answered */
	struct origin_conn *conn;   /* NULL: waiting */
	uint64_t deadline_ns;       /* UINT64_MAX: none */
	uint8_t tries;
	bool grpc;
	bool written;  /* in this try */
	bool answered; /* the reply has begun */
	bool headed;   /* its final head has come */
	bool begun;    /* a part was passed on; set by reply() */
	bool over;     /* the connection has released it */
	bool repeated; /* written in an earlier try */
	bool counted;
	bool streams;
	void *stream;
	struct origin_body body;
	struct origin_timer late;
	uint64_t start_ns;
	uint64_t rest_ns; /* 0: not resting */
};

enum origin_conn_state { ORIGIN_CONNECTING, ORIGIN_UP, ORIGIN_DEAD };

struct origin_conn {
	struct origin_server *server;
	struct sl_list link, ready;
	struct sl_list dirty;
	struct origin_timer timer;
	uint8_t state;
	bool stale;  /* another address: no more calls */
	bool ended;  /* by the server; what has come may be unread */
	bool called; /* has had a call */
	bool spoke;  /* input has come */
	bool unread; /* the server has read nothing */
};

/* Space for input; none without room at the owner. */
struct origin_space {
	uint8_t *at;
	size_t len;
};

struct origin_proto {
	size_t conn_size; /* struct origin_conn first; zeroed by the owner */
	unsigned calls_per_conn;
	bool (*up)(struct origin_conn *c);             /* connected; false: unusable */
	unsigned (*room)(const struct origin_conn *c); /* calls that it can still take */
	void (*start)(struct origin_conn *c, struct origin_call *call);
	/* Returns where input goes; may end calls, and the connection. */
	struct origin_space (*space)(struct origin_conn *c);
	/* Takes `len` bytes of `space`. True: more this turn. */
	bool (*input)(struct origin_conn *c, size_t len);
	/* No more input now: received bytes are passed on. */
	void (*pause)(struct origin_conn *c);
	/* The input has ended; `why`: error or NULL. */
	void (*eof)(struct origin_conn *c, const char *why);
	void (*writable)(struct origin_conn *c);
	void (*body)(struct origin_conn *c, struct origin_call *call);
	void (*cancel)(struct origin_conn *c, struct origin_call *call);
	/* The owner has room again. Returns true if input is taken now. */
	bool (*resume)(struct origin_conn *c, struct origin_call *call);
	/* Returns all calls with lost(). */
	void (*closing)(struct origin_conn *c, const char *why);
};
extern const struct origin_proto origin_h1, origin_h2;

/* Return the owner's functions. */
static inline const struct origin_io *origin_io_of(const struct origin_conn *c)
{
	return c->server->origin->io;
}
static inline const struct origin_ops *origin_ops_of(const struct origin_call *call)
{
	return call->server->origin->ops;
}

#endif
