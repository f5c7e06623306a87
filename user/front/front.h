/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between client protocols and the core. Requests are pushed, replies are pulled:
 *
 *             bytes            begin, body*, end
 *   client ---------> front ----------------------> host (core) ---> queue, batch, rpc
 *          <--------- front <---------------------- host        <--- rpc, or the gateway itself
 *           write            head, peek + take*, trailers
 *
 * A front (http1, h2, datagram) is one protocol on one connection. It does no I/O, reads no clock,
 * knows no TCP. A stream is one request on it, and its reply. The host embeds struct sl_stream as
 * the first member of its exchange, so no allocation or lookup joins the two. Life of a stream:
 *
 *   begin -> body* -> end                    the request, as the front reads it
 *   ready -> head -> (peek -> take)* -> END  the reply, as fast as the front can write it; it may
 *                                   BROKEN   start, and be over, before the request's `end`
 *   done                                     the reply is out: the host takes the stream back
 *   cancel                                   the client is gone or broke the protocol: no reply is
 *                                            wanted; the host takes the stream back
 *
 * Who calls whom. There is one direction: the host calls the front (struct sl_front_ops), and the
 * front, from within such a call, calls the host (struct sl_host_ops). The host never calls back
 * from within a call of the front, so neither side need be re-entrant:
 *
 * - `ready` says that there is something new to pull on a stream: its head, bytes behind those that
 *   were there, its end, or that it broke off; or that more of its request was passed on, or is wanted. It comes
 *   at once when a backend has answered, and the bytes may then lie in memory that is lent until it
 *   returns: who takes them saves a copy. What the gateway says itself is told at the end of the
 *   burst.
 * - A front pulls when it is the stream's turn and there is room: in `ready`, but also in any other
 *   call, as `writable` and `input`, without being asked again. What it leaves is kept for it.
 * - Nothing is pulled, and nothing ends, within begin, body and end; they do not answer.
 * - An interim reply is pushed (`interim`): whoever has no use for it at once drops it.
 * - Exactly one of done and cancel is called for each stream. After it the stream is gone.
 *
 * The pull itself. `head` shows how the reply begins. Once that is on its way to the client the
 * front sets st->started: from then on a reply that fails is BROKEN, before that the gateway's own
 * reply takes its place, so a front that has sent nothing never sees a broken one. `peek` shows the
 * next bytes, which stay until `take` removes them: what could not be written is not lost, and
 * nothing is ever put back.
 */
#ifndef SL_FRONT_FRONT_H
#define SL_FRONT_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "http/field.h"
#include "http/method.h"
#include "sluice/outcome.h"
#include "sluice/rpc_wire.h"
#include "xio/frame.h"

struct sl_mempool;
struct sl_descriptors;

enum sl_proto { SL_PROTO_HTTP1, SL_PROTO_HTTP2, SL_PROTO_GRPC, SL_PROTO_DATAGRAM, SL_PROTO_CNT };

#define SL_LEN_UNKNOWN UINT64_MAX

/* The head of a request. All views are valid during `begin` only. */
struct sl_request {
	uint8_t proto;     /* enum sl_proto */
	uint8_t method;    /* enum sl_method */
	int8_t urgency;    /* RFC 9218, 0 most urgent .. 7; -1 not stated */
	bool end;          /* no body follows, and `end` is not called */
	bool unproven;     /* its source address proves nothing */
	bool expect;       /* before its body its client waits for 100 (Continue), or a while */
	bool all_headers;  /* backends get all of them, not only those that their route names */
	bool must_upgrade; /* it is nothing unless it goes on in `upgrade` */
	bool coalesces;    /* connections carry requests for other hosts too, RFC 9113 9.1.1 */
	uint16_t service;  /* the route, by number; 0: by path */
	struct sl_span method_name;
	struct sl_span authority;
	struct sl_span path;  /* absolute path without query, as received (not decoded) */
	struct sl_span query; /* after '?', may be empty */
	/* What is called, where a protocol says so: goes to backends for the path and the method. */
	struct sl_span call;
	struct sl_span content_type;
	/*
	 * Protocols that the client would go on in, a list; empty: none. Nothing follows the head (so `end`
	 * is set) but what is of that protocol, for which see sl_stream.upgrade.
	 */
	struct sl_span upgrade;
	const struct sl_header *headers; /* all of them, in order */
	uint32_t header_cnt;
	uint64_t content_length; /* SL_LEN_UNKNOWN when not stated */
	uint64_t body_max;       /* unless the route or its pool say less: 413 */
	uint64_t timeout_ns;     /* that the client gives it; 0 none */
	uint64_t rx_ns;          /* arrival of the first byte as stamped by XDP; 0 unknown */
	uint64_t take_ns;        /* when user space took it */
};

/* How a reply begins, and how it ends. Views are valid until the next call of the host. */
struct sl_reply {
	uint16_t status;      /* HTTP; 101 only with `upgrade` */
	uint16_t grpc_status; /* enum sl_grpc_status */
	bool gateway;         /* made by the gateway itself, not by a backend: `outcome` says why */
	uint8_t outcome;      /* enum sl_outcome */
	bool whole;           /* all of its body is here */
	uint32_t retry_after_s; /* 0 none */
	uint32_t allow;         /* bits of the methods that are allowed here; 0 not said */
	uint32_t service_us;    /* that the backend took; 0 not known */
	struct sl_span grpc_message;
	struct sl_span content_type;
	struct sl_span reason;     /* HTTP/1: behind the status; empty: the usual text */
	bool has_server, has_date; /* among the headers: the front adds none of its own */
	struct sl_span upgrade;    /* of status 101: what follows is of this protocol */
	/* Names in lower case, without CR, LF, NUL; values too, unless the name ends with -bin. */
	const struct sl_header *headers;
	uint32_t header_cnt;
	const struct sl_header *trailers;
	uint32_t trailer_cnt;
	uint64_t
		body_len; /* in all; SL_LEN_UNKNOWN when it comes in parts and does not say, and of 101 */
};

/* A reply and the room for its fields. */
struct sl_reply_parts {
	struct sl_reply reply;
	struct sl_header headers[SL_RPC_MAX_FIELDS];
	struct sl_header trailers[SL_RPC_MAX_TRAILERS];
};

/* The next bytes of a reply, as far as they lie together, and what stands behind them. */
struct sl_piece {
	struct sl_span bytes; /* empty: none now */
	enum sl_behind {
		SL_MORE,   /* there is or may come more */
		SL_END,    /* these are the last ones */
		SL_BROKEN, /* it broke off, and there are no bytes: end it so that the client knows */
	} behind;
};

enum {
	SL_PREFIX_MAX = 8,
	/* The longest head of a reply: what a backend can say of it, and 2 KiB of the gateway's. */
	SL_FRONT_HEAD_OUT = SL_RPC_MAX_META + 2048,
};

/* A request as its front sees it. Zeroed by the host; the front's from begin until done or cancel. */
struct sl_stream {
	/* the front's own */
	union {
		struct sl_stream *next; /* http1: order of replies */
		void *own;              /* the others: what they know of it */
	};
	uint64_t reply_left; /* bytes of reply body still to come */
	uint64_t body_left;  /* bytes of request body still to come */
	uint8_t method;      /* set by each front: the host asks whether it is HEAD */
	uint8_t state;
	uint8_t flags;
	uint8_t version_minor; /* http1: 0 or 1 */
	/* from the host */
	bool refused; /* answered before the request's end: the rest of its body goes nowhere, and the
			 front calls neither body nor end any more */
	bool open_ended; /* its body is passed on as it comes, while a reply may come */
	bool narrow;     /* as little as can be shall come ahead, where the stream has a window */
	bool awaits; /* 100 (Continue) is not the front's to say before a `ready` that finds this fallen */
	uint32_t passed; /* bytes of its body for which the front is to make room; of an open-ended
			    one with `prefix`, also those in front of each message */
	/*
	 * Set by `begin`: it may go on in another protocol, as a reply with status 101 says. Bytes of the
	 * client are its body from here on, whatever the reply will be; `end` follows.
	 */
	bool upgrade;
	/* to the host; `trailers` and `prefix` are set when begin has returned */
	bool started;  /* the head is on its way to the client: set before the first take */
	bool trailers; /* the protocol has a place for them */
	bool compressed; /* where messages are told apart and it is not open-ended, its message is; set
			    before `end` */
	bool windowed; /* the client waits for room of this stream's own, made as `passed` says; set
			  when begin has returned: `body` then takes all that comes */
	uint8_t prefix_len; /* bytes that stand before each message of a request; set with `prefix` */
	/*
	 * Where the messages of a reply are told apart: writes what stands before one, up to
	 * SL_PREFIX_MAX bytes, and returns how many. It is pulled with the body, and body_len counts
	 * it. NULL: messages are joined.
	 */
	size_t (*prefix)(uint8_t *to, uint64_t message_len, bool compressed);
};

struct sl_front_limits {
	uint32_t max_head;         /* request line and headers; 431 */
	uint32_t max_target;       /* request line; 414 */
	uint32_t max_headers;      /* number of header fields; 431 */
	uint64_t max_body;         /* unless the route says less; 413 */
	uint32_t max_discard;      /* http1: bytes thrown away while one reply is on its way */
	uint32_t max_pipeline;     /* http1: requests without reply per connection */
	uint32_t max_streams;      /* h2 */
	uint32_t max_resets_per_s; /* h2: rapid reset, PING and SETTINGS floods */
	uint64_t max_message;      /* gRPC message */
	bool upgrades;             /* h2: some route has them: RFC 8441 */
	/* h2: shares of its connections and streams that one address may have; 1: no limit */
	double address_connections, address_streams;
};
void sl_front_limits_default(struct sl_front_limits *l);

/* What the core offers to a front. `host` is the core's client connection. */
struct sl_host_ops {
	/* --- the request, pushed --- */

	/*
	 * A request has begun. Returns its stream, NULL if exchanges are exhausted (the front then
	 * answers 503 itself and closes). Sets `refused` if it is answered already, unless rq->end.
	 */
	struct sl_stream *(*begin)(void *host, const struct sl_request *rq);
	/*
	 * Body bytes. Returns how many were taken; fewer means: stop reading, offer the rest when
	 * sl_front_ops.input is called again. May take chunk->frame if it takes all.
	 */
	size_t (*body)(void *host, struct sl_stream *st, struct sl_chunk *chunk);
	/*
	 * Of a stream that is open-ended, where messages are told apart: the next len bytes of body are
	 * one. False: it is refused now.
	 */
	bool (*message)(void *host, struct sl_stream *st, uint32_t len, bool compressed);
	/*
	 * Of a stream that is open-ended, right before `end`: what stands behind its body. It may be refused
	 * then, and has no end.
	 */
	void (*request_trailers)(void *host, struct sl_stream *st, const struct sl_header *fields,
				 uint32_t cnt);
	/* The request is whole. Not called when rq->end has said so at `begin`. */
	void (*end)(void *host, struct sl_stream *st);

	/* --- the reply, pulled --- */

	/* How it begins; again and again, until st->started. False: there is no reply yet. */
	bool (*head)(void *host, struct sl_stream *st, struct sl_reply_parts *out);
	/* The next bytes; the same ones until they are taken. BROKEN only after st->started. */
	struct sl_piece (*peek)(void *host, struct sl_stream *st);
	/* The first n bytes of what `peek` showed are not needed any more. After st->started. */
	void (*take)(void *host, struct sl_stream *st, size_t n);
	/* All of the reply has come, whether it has been taken or not. */
	bool (*whole)(void *host, const struct sl_stream *st);
	/*
	 * Behind END and with st->trailers: how the reply ends, gRPC status, message and trailers;
	 * false: it is BROKEN after all. Behind BROKEN: why, as the gateway's own reply.
	 */
	bool (*trailers)(void *host, struct sl_stream *st, struct sl_reply_parts *out);

	/* --- both are over --- */

	void (*done)(void *host, struct sl_stream *st);
	void (*cancel)(void *host, struct sl_stream *st);

	/* --- the connection --- */

	/* Bytes to the client; `write` may take fewer, `write_head` (up to SL_FRONT_HEAD_OUT) takes all or
	 * fails. */
	size_t (*write)(void *host, const void *bytes, size_t len);
	bool (*write_head)(void *host, const void *bytes, size_t len);
	size_t (*room)(void *host);
	/*
	 * Its input has cost much in this burst: what `input` does not use comes again behind those of
	 * others, after a call of `writable`, and in 10 ms at the latest.
	 */
	void (*later)(void *host);
	/* A frame more for what has begun of the client's, -1: one less. False: it has too many. */
	bool (*hold)(void *host, int32_t frames);
	/*
	 * After what has been written: close in order. `at_once`: without that (RST), so that the
	 * client cannot take a reply that broke off for a whole one. No input is wanted any more. The
	 * host calls sl_front_ops.close later, when the connection is gone, never from within this call.
	 */
	void (*close)(void *host, bool at_once);
};

enum sl_serving { SL_SERVING_UNKNOWN, SL_SERVING_YES, SL_SERVING_NO };
/* Of what: everything (without a name), a pool, the route of exactly this prefix. */
enum sl_asked { SL_ASKED_ALL, SL_ASKED_POOL, SL_ASKED_ROUTE };

/*
 * What a front borrows from its worker. A request head that is split over segments is gathered in a
 * frame; one that outgrows a frame moves to a buffer of `heads` (objects of limits->max_head
 * bytes). Both are bounded and held only while a head is incomplete; when none is left the answer
 * is 503. Who has which of the buffers is known, so that the worker can end whoever keeps one.
 */
struct sl_front_env {
	struct sl_umem *umem;
	struct sl_mempool *heads; /* NULL: a split head must fit in a frame, 431 otherwise */
	void **head_hosts;        /* by place in `heads`: whose it is, or NULL; NULL: not kept */
	const struct sl_front_limits *limits;
	const struct sl_host_ops *host;
	const uint64_t *now_ns; /* the worker's time, advanced once per burst */
	const char *date;       /* IMF-fixdate of this second, 29 bytes, kept by the worker */
	void *h2;               /* per-worker state of the h2 front */
	void *datagram;         /* and of the datagram front */
	uint64_t *errors;       /* [SL_FRONT_ERR_CNT]; NULL: not counted */
	bool draining;          /* answer what comes, then close */
	/* Whether a backend would take it; NULL: clients are not told. */
	enum sl_serving (*serving)(void *arg, enum sl_asked what, struct sl_span name);
	/* Whether it is for a route that names this service, "/pkg.Service"; NULL: there is none. */
	bool (*routed)(void *host, const struct sl_request *rq, struct sl_span service);
	void *serving_arg;
	const struct sl_descriptors *descriptors; /* gRPC reflection; NULL: not offered */
};

/* One of `heads`; NULL: none is left, or there are none. */
uint8_t *sl_front_head_get(const struct sl_front_env *env, void *host);
void sl_front_head_put(const struct sl_front_env *env, uint8_t *buf);

/* Protocol errors by name, for metrics. */
#define SL_FRONT_ERRORS(X)                                                                         \
	X(BAD_REQUEST, "bad_request")                                                              \
	X(SMUGGLING, "smuggling")                                                                  \
	X(TARGET_TOO_LONG, "target_too_long")                                                      \
	X(HEAD_TOO_LARGE, "head_too_large")                                                        \
	X(BODY_TOO_LARGE, "body_too_large")                                                        \
	X(UNKNOWN_CODING, "unknown_coding")                                                        \
	X(VERSION, "version")                                                                      \
	X(NO_EXCHANGE, "no_exchange")                                                              \
	X(NO_FRAME, "no_frame")                                                                    \
	X(H2_PROTOCOL, "h2_protocol")                                                              \
	X(H2_FLOOD, "h2_flood")                                                                    \
	X(GRPC_MESSAGE, "grpc_message")                                                            \
	X(METHOD, "method")                                                                        \
	X(BAD_REPLY, "bad_reply")                                                                  \
	X(TIMEOUT, "timeout")                                                                      \
	X(DISCARDED, "discarded")
enum sl_front_error {
#define X(name, metric) SL_FRONT_ERR_##name,
	SL_FRONT_ERRORS(X)
#undef X
		SL_FRONT_ERR_CNT
};

enum { SL_FRONT_STATE_SIZE = 64 }; /* bytes of protocol state inside the core's client connection */

enum sl_front_rest {
	SL_FRONT_BUSY,
	SL_FRONT_IDLE,
	SL_FRONT_TELLS, /* idle, and the client waits for what the front tells by itself, however long */
};

struct sl_front_ops {
	const char *name;
	/*
	 * `state` is SL_FRONT_STATE_SIZE zeroed bytes that live as long as the connection. `source`: a
	 * number of who the client is, its address, of IPv6 the /64: another's for as long as a
	 * connection of it is open; 0: it is not known.
	 */
	void (*open)(void *state, const struct sl_front_env *env, void *host, uint32_t source);
	/*
	 * Client bytes. Returns how many were used. The rest waits for a reply to be out, or for room
	 * in the host: it is offered again (with what follows) after calls of ready and writable.
	 */
	size_t (*input)(void *state, const struct sl_front_env *env, struct sl_chunk *chunk);
	/*
	 * The client closed its half. `listens`: whoever does that here may still read, so what it has asked
	 * is answered. Otherwise it is gone: what has no whole reply is cancelled.
	 */
	void (*eof)(void *state, const struct sl_front_env *env, bool listens);
	/*
	 * There is something new to pull on this stream, st->passed has grown, or st->awaits has fallen. The stream may be done
	 * when this returns.
	 */
	void (*ready)(void *state, const struct sl_front_env *env, struct sl_stream *st);
	/*
	 * An interim reply to it, as 103, while its head has not been shown: pushed, since it is a hint. It
	 * goes out now or, where it is not this stream's turn or the client does not read, never. NULL: the
	 * protocol has no place for it.
	 */
	void (*interim)(void *state, const struct sl_front_env *env, struct sl_stream *st,
			const struct sl_reply *r);
	/* The connection has room to write again. */
	void (*writable)(void *state, const struct sl_front_env *env);
	/*
	 * Stop taking new requests (GOAWAY, Connection: close), finish what runs. Also for a
	 * connection that was idle for too long.
	 */
	void (*drain)(void *state, const struct sl_front_env *env);
	/*
	 * The client was too slow with a head or body: answer 408 if that can be told, and close.
	 */
	void (*timeout)(void *state, const struct sl_front_env *env);
	/* The connection is gone: cancel every stream, give back every frame. */
	void (*close)(void *state, const struct sl_front_env *env);
	/* Whether anything is under way (for idle and head-read timeouts). */
	enum sl_front_rest (*rest)(const void *state);
	/*
	 * When the head that is being read has begun, whatever else is under way; 0: there is none.
	 * NULL: other streams hold up a head, so that its time alone is no fault of the client.
	 */
	uint64_t (*head_since)(const void *state);
	/*
	 * Whether a stream that has bytes of a reply shares what the client takes with the others of
	 * its connection: *bytes of replies so far, of all, modulo 2^32. False: the client keeps this
	 * one shut. NULL: there is one reply at a time.
	 */
	bool (*flow)(const void *state, const struct sl_stream *st, uint32_t *bytes);
	/* The client has had its time for this stream: reset it, without the connection. May be NULL. */
	void (*abandon)(void *state, const struct sl_front_env *env, struct sl_stream *st);
};

extern const struct sl_front_ops sl_front_http1;
extern const struct sl_front_ops sl_front_h2;
extern const struct sl_front_ops sl_front_datagram;

/*
 * Looks at the first bytes of a connection: the h2 front if they begin like the HTTP/2 preface (RFC
 * 9113 3.4), http1 if they do not, NULL if more bytes are needed (never more than 4).
 */
const struct sl_front_ops *sl_front_detect(struct sl_span first);

/* --- reply.c: what a reply says --- */

enum sl_reply_side { SL_REPLY_HEAD = 1, SL_REPLY_TAIL = 2, SL_REPLY_INTERIM = 4 };

/*
 * Reads a backend's metadata block, as far as it says how a reply begins (HEAD), how it ends (TAIL)
 * or both, and checks it; false: malformed. INTERIM: it is all of one.
 */
bool sl_reply_decode(struct sl_span block, unsigned sides, struct sl_reply_parts *out);

/* What the gateway says itself. Its body, if the protocol has a place for one, is the text. */
void sl_reply_own(enum sl_outcome why, struct sl_reply_parts *out);
struct sl_span sl_outcome_text(enum sl_outcome why);

/*
 * Whether a backend's header field is the gateway's own to say, or concerns one connection only,
 * and is left out of a reply: RFC 9110 7.6.1, RFC 9113 8.2.2.
 */
bool sl_reply_is_ours(const struct sl_reply *r, struct sl_span name);

#endif
