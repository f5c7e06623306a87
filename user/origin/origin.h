/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client side of HTTP/1.1 and HTTP/2 towards a server, without sockets, events or clock.
 *
 *   owner -- start, body, cancel, resume --> protocol -- send, shut, close --> transport (origin_io)
 *   owner <- reply, fail, lost (origin_ops)- protocol <- space, input, eof --- transport
 *
 * A call is one request. It ends with the last part of its reply, with fail() or with lost(), which
 * returns it to its owner; the owner decides about another try. Owners allocate calls and
 * connections. A connection must stay allocated until the end of the turn in which it was closed.
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
#include "base/rand.h"
#include "origin/body.h"
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

/* State that all connections of one owner share. */
struct origin {
	const struct origin_io *io;
	const struct origin_ops *ops;
	const char *area;              /* of log lines */
	uint64_t now_ns;               /* set by the owner in each turn */
	struct sl_prng *prng;          /* the owner's, for trace ids (not secret) */
	struct sl_capped_alloc bodies; /* request bodies and HTTP/2 replies */
	struct sl_list unread;         /* HTTP/2 streams that wait for `resume`, oldest first */
	uint32_t wide_cnt;             /* HTTP/1.1 connections with wide parts */
	struct origin_scratch *scratch;
};

/* `bodies_max`: bytes. Returns false without memory. The caller sets the other members. */
bool origin_init(struct origin *o, size_t bodies_max);
void origin_fini(struct origin *o);

struct origin_server {
	struct origin *origin;
	const char *name; /* in the log */
	struct origin_authority authority;
	bool leaving; /* no connection is kept */
};

struct origin_call {
	struct sl_list link; /* in a queue or list of its owner */
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
	void *stream;
	struct origin_body body;
};

enum origin_conn_state { ORIGIN_CONNECTING, ORIGIN_UP, ORIGIN_DEAD };

struct origin_conn {
	struct origin_server *server;
	uint8_t state; /* enum origin_conn_state, set by the owner */
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
