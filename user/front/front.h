/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface between client protocols and the core. Requests are pushed, replies are pulled:
 *
 *             bytes            begin, body*, end
 *   client ---------> front ----------------------> core        ---> queue, batch, rpc
 *          <--------- front <---------------------- core        <--- rpc, or the gateway itself
 *           write            head, peek + take*, trailers
 *
 * A front (http1, h2, datagram) is one protocol on one connection. It does no I/O and reads no
 * clock. A stream is one request and its reply. The core embeds struct sl_stream as the first
 * member of its exchange. Life of a stream:
 *
 *   begin -> body* -> end                    request, as the front parses it
 *   ready -> head -> (peek -> take)* -> END  reply, as fast as the front can write it; it can start
 *                                   BROKEN   and complete before the request's `end`
 *   done                                     reply written: the core takes the stream back
 *   cancel                                   client gone or protocol error: no reply is needed; the
 *                                            core takes the stream back
 *
 * The core calls the front (struct sl_front_ops). Only within such a call, the front calls the core
 * (struct sl_front_cb), which does not call back:
 *
 * - `ready` reports a reply head, more reply bytes, the end, BROKEN, or request bytes that were
 *   passed on or may be sent.
 * - `ready` comes at once for a backend's reply, whose bytes may be lent until it returns. For a
 *   reply of the gateway it comes at the end of the burst.
 * - A front pulls in any call when it is the stream's turn and there is room. The core keeps the
 *   rest.
 * - No reply is pulled and no stream ends within begin, body and end.
 * - Exactly one of done and cancel is called for each stream. The stream is invalid afterwards.
 *
 * The front sets st->started once the head is being written. A failure after that is BROKEN; a
 * failure before that is replaced by the gateway's own reply. Bytes of `peek` stay valid until
 * `take`.
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
#include "sluice/types.h"
#include "xio/frame.h"

struct sl_mempool;
struct sl_descriptors;

#define SL_LEN_UNKNOWN UINT64_MAX

/* Head of a request. Views are valid during `begin` only. */
struct sl_request {
	uint8_t proto;
	uint8_t method;
	int8_t urgency; /* RFC 9218, 0 most urgent .. 7; -1 not stated */
	bool end;       /* no body follows, and `end` is not called */
	bool unproven;  /* source address not verified */
	/* the client waits for 100 (Continue), RFC 9110 10.1.1 */
	bool expect;
	bool all_headers;  /* pass all fields to the backend, not only the route's */
	bool must_upgrade; /* valid only if answered with 101 */
	bool coalesces;    /* the connection may carry other hosts, RFC 9113 9.1.1 */
	uint16_t service;  /* of a datagram; 0: route by path */
	struct sl_span method_name;
	struct sl_span authority;
	struct sl_span path; /* absolute, without query, as received (not decoded) */
	struct sl_span query;
	/* gRPC: "pkg.Service/Method". Backends get it in place of path and method. */
	struct sl_span call;
	struct sl_span content_type;
	/*
	 * Protocols of the client's Upgrade field. If not empty, `end` is set: later bytes belong
	 * to the new protocol, see sl_stream.upgrade.
	 */
	struct sl_span upgrade;
	const struct sl_header *headers;
	uint32_t header_cnt;
	uint64_t content_length; /* SL_LEN_UNKNOWN when not stated */
	/* limit of the protocol, which a route or pool may lower; 413 */
	uint64_t body_max;
	uint64_t timeout_ns; /* relative; 0: none */
	uint64_t rx_ns;
	uint64_t take_ns;
};

/* Reply without body. Views are valid until the next call of the core. */
struct sl_reply {
	uint16_t status; /* HTTP; 101 only with `upgrade` */
	uint16_t grpc_status;
	bool gateway; /* created by the gateway; `outcome` gives the reason */
	uint8_t outcome;
	bool whole;
	uint32_t retry_after_s;
	uint32_t allow;      /* enum sl_method bits for the Allow field; 0: no field */
	uint32_t service_us; /* time the backend took; 0: unknown */
	struct sl_span grpc_message;
	struct sl_span content_type;
	struct sl_span reason;     /* HTTP/1; empty: the standard text */
	bool has_server, has_date; /* present in `headers`: the front adds none */
	struct sl_span upgrade;    /* status 101: protocol of the bytes that follow */
	/* Names in lower case. Values without CR, LF or NUL, unless the name ends with -bin. */
	const struct sl_header *headers;
	uint32_t header_cnt;
	const struct sl_header *trailers;
	uint32_t trailer_cnt;
	uint64_t body_len; /* total; SL_LEN_UNKNOWN: streamed, or status 101 */
};

struct sl_reply_parts {
	struct sl_reply reply;
	struct sl_header headers[SL_RPC_MAX_FIELDS];
	struct sl_header trailers[SL_RPC_MAX_TRAILERS];
};

/* Next contiguous bytes of a reply, and the state behind them. */
struct sl_piece {
	struct sl_span bytes; /* empty: none now */
	enum sl_behind {
		SL_MORE,
		SL_END,
		SL_BROKEN, /* the reply broke off; no bytes */
	} behind;
};

enum {
	SL_PREFIX_MAX = 8,
	/* Longest reply head: a backend's metadata and 2 KiB of own fields. */
	SL_FRONT_HEAD_OUT = SL_RPC_MAX_META + 2048,
};

/*
 * Request as its front sees it. Zeroed by the core; used by the front from begin to done or cancel.
 */
struct sl_stream {
	union {
		struct sl_stream *next;
		void *own;
	};
	uint64_t reply_left; /* bytes of the body not yet written */
	uint64_t body_left;  /* bytes of the body not yet received */
	uint8_t method;      /* the core tests it for HEAD */
	uint8_t state;
	uint8_t flags;
	uint8_t version_minor;
	/* set by the core */
	/* answered before the request's end: drop the rest, call neither body nor end */
	bool refused;
	bool open_ended; /* the body is passed on as it arrives; a reply may start meanwhile */
	bool narrow;
	bool awaits; /* do not send 100 (Continue) before a `ready` that finds this false */
	/*
	 * Body bytes whose window the front must reopen. Includes message prefixes if the stream is
	 * `open_ended` and has `prefix`.
	 */
	uint32_t passed;
	/*
	 * Set by `begin`: a reply with status 101 switches protocols. All further client bytes are
	 * the body, whatever the reply is; `end` follows.
	 */
	bool upgrade;
	/* set by the front; `trailers` and `prefix` after begin */
	bool started;      /* the head is being written; set before the first take */
	bool trailers;     /* the protocol can carry trailers */
	bool compressed;   /* message is compressed; set before `end`, unused if `open_ended` */
	bool message_over; /* the call's only message is complete; unused if `open_ended` */
	/* `body` takes all bytes; the window is reopened by `passed`; set after begin */
	bool windowed;
	uint8_t prefix_len; /* of each request message; set with `prefix` */
	/*
	 * Writes the prefix of a reply message, at most SL_PREFIX_MAX bytes. Returns its length,
	 * which counts in body_len. NULL: messages are concatenated.
	 */
	size_t (*prefix)(uint8_t *to, uint64_t message_len, bool compressed);
};

struct sl_front_limits {
	uint32_t max_head;     /* request line and fields; 431 */
	uint32_t max_target;   /* request line; 414 */
	uint32_t max_headers;  /* 431 */
	uint64_t max_body;     /* a route may set a lower limit; 413 */
	uint32_t max_discard;  /* http1: bytes dropped while one reply is written */
	uint32_t max_pipeline; /* http1: requests without a reply */
	uint32_t max_streams;
	uint32_t max_resets_per_s; /* h2: rapid resets, PING and SETTINGS floods */
	uint64_t max_message;
	bool upgrades; /* h2: announce extended CONNECT, RFC 8441 */
	/* h2: share of connections and streams per address; 1: no limit */
	double address_connections, address_streams;
};
void sl_front_limits_default(struct sl_front_limits *l);

/* Operations of the core. `conn` is the core's client connection. */
struct sl_front_cb {

	/*
	 * Starts a request. Returns its stream, or NULL if no exchange is free: the front answers
	 * 503 and closes. Sets `refused` if already answered, unless rq->end is set.
	 */
	struct sl_stream *(*begin)(void *conn, const struct sl_request *rq);
	/*
	 * Passes body bytes. Returns how many were taken. If fewer than chunk->len, stop reading
	 * and offer the rest at the next `input`. May take chunk->frame if all bytes are taken.
	 */
	size_t (*body)(void *conn, struct sl_stream *st, struct sl_chunk *chunk);
	/*
	 * Announces that the next `len` body bytes are one message of an `open_ended` stream.
	 * Returns false if the stream is refused.
	 */
	bool (*message)(void *conn, struct sl_stream *st, uint32_t len, bool compressed);
	/*
	 * Passes the trailers of an `open_ended` request, directly before `end`. If this call
	 * refuses the stream, `end` is not called.
	 */
	void (*request_trailers)(void *conn, struct sl_stream *st, const struct sl_header *fields,
				 uint32_t cnt);
	/* Not called if rq->end was set. */
	void (*end)(void *conn, struct sl_stream *st);

	/* Gets the reply head; repeatable until st->started. Returns false if there is none yet. */
	bool (*head)(void *conn, struct sl_stream *st, struct sl_reply_parts *out);
	/* Returns the next bytes, the same until taken. BROKEN only after st->started. */
	struct sl_piece (*peek)(void *conn, struct sl_stream *st);
	/* Releases the first n bytes of `peek`. Only after st->started. */
	void (*take)(void *conn, struct sl_stream *st, size_t n);
	/* Returns true if the reply has arrived completely, taken or not. */
	bool (*whole)(void *conn, const struct sl_stream *st);
	/*
	 * After END, if st->trailers: gets gRPC status, message and trailers. Returns false if the
	 * reply is BROKEN after all. After BROKEN: gets the gateway's own reply.
	 */
	bool (*trailers)(void *conn, struct sl_stream *st, struct sl_reply_parts *out);

	void (*done)(void *conn, struct sl_stream *st);
	void (*cancel)(void *conn, struct sl_stream *st);

	/*
	 * `write` may take fewer bytes than offered. `write_head` takes all, up to
	 * SL_FRONT_HEAD_OUT, or fails. `room`: bytes that `write` would take.
	 */
	size_t (*write)(void *conn, const void *bytes, size_t len);
	bool (*write_head)(void *conn, const void *bytes, size_t len);
	size_t (*room)(void *conn);
	/*
	 * Defers the rest of this connection's input in this burst. `input` is called again after
	 * other connections and a `writable`, within 10 ms.
	 */
	void (*later)(void *conn);
	/*
	 * Counts frames of incomplete requests of this client (1 or -1). Returns false if it has
	 * too many.
	 */
	bool (*hold)(void *conn, int32_t frames);
	/*
	 * Closes after the written bytes. `at_once`: sends RST, for a truncated reply. No input
	 * follows. The core calls sl_front_ops.close later, never from within this call.
	 */
	void (*close)(void *conn, bool at_once);
};

enum sl_serving { SL_SERVING_UNKNOWN, SL_SERVING_YES, SL_SERVING_NO };
/* Scope of a health query: all, a pool, or the route of exactly this prefix. */
enum sl_asked { SL_ASKED_ALL, SL_ASKED_POOL, SL_ASKED_ROUTE };

/*
 * Resources that a front borrows from its worker. A split request head is gathered in a frame, then
 * in a buffer of `heads` (limits->max_head bytes each). If none is free, the answer is 503.
 */
struct sl_front_env {
	struct sl_umem *umem;
	struct sl_mempool *heads; /* NULL: a split head must fit in a frame, or 431 */
	/* connection per object of `heads`, for eviction; NULL: not recorded */
	void **head_conns;
	const struct sl_front_limits *limits;
	const struct sl_front_cb *cb;
	const uint64_t *now_ns; /* updated once per burst */
	const char *date;       /* IMF-fixdate of this second, 29 bytes */
	void *h2;
	void *datagram;
	uint64_t *errors; /* [SL_FRONT_ERR_CNT]; NULL: not counted */
	bool draining;
	/* Returns whether a backend is available; NULL: no health service. */
	enum sl_serving (*serving)(void *arg, enum sl_asked what, struct sl_span name);
	/* Returns true if a route names this service, "/pkg.Service"; NULL: none does. */
	bool (*routed)(void *conn, const struct sl_request *rq, struct sl_span service);
	void *serving_arg;
	const struct sl_descriptors *descriptors; /* NULL: no reflection */
};

/* Returns a buffer of `heads` for `conn`, or NULL if none is free or configured. */
uint8_t *sl_front_head_get(const struct sl_front_env *env, void *conn);
void sl_front_head_put(const struct sl_front_env *env, uint8_t *buf);

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

enum { SL_FRONT_STATE_SIZE = 64 };

enum sl_front_rest {
	SL_FRONT_BUSY,
	SL_FRONT_IDLE,
	/* idle, but the client waits for messages (health watch) */
	SL_FRONT_TELLS,
};

struct sl_front_ops {
	const char *name;
	/*
	 * Initialises `state`, SL_FRONT_STATE_SIZE zeroed bytes that live as long as the
	 * connection. `source` identifies the client address (IPv6: /64) while a connection of it
	 * is open; 0: unknown.
	 */
	void (*open)(void *state, const struct sl_front_env *env, void *conn, uint32_t source);
	/*
	 * Parses client bytes. Returns how many were used. The rest is offered again, with later
	 * bytes, after `ready` and `writable`.
	 */
	size_t (*input)(void *state, const struct sl_front_env *env, struct sl_chunk *chunk);
	/*
	 * The client closed its half. `listens`: it may still read, so requests are answered.
	 * Otherwise streams without a complete reply are cancelled.
	 */
	void (*eof)(void *state, const struct sl_front_env *env, bool listens);
	/*
	 * A stream has something to pull, st->passed has grown, or st->awaits was cleared. The
	 * stream may be done when this returns.
	 */
	void (*ready)(void *state, const struct sl_front_env *env, struct sl_stream *st);
	/*
	 * Sends an interim reply now, or drops it if another stream is being answered or the client
	 * does not read. Only before the final head. May be NULL.
	 */
	void (*interim)(void *state, const struct sl_front_env *env, struct sl_stream *st,
			const struct sl_reply *r);
	void (*writable)(void *state, const struct sl_front_env *env);
	/*
	 * Takes no new requests (GOAWAY, Connection: close) and finishes the running ones. Also
	 * called after the idle timeout.
	 */
	void (*drain)(void *state, const struct sl_front_env *env);
	/* A head or body was too slow: answers 408 if possible, and closes. */
	void (*timeout)(void *state, const struct sl_front_env *env);
	/* The connection is gone: cancels every stream and returns every frame. */
	void (*close)(void *state, const struct sl_front_env *env);
	/* Returns whether requests are in progress, for idle and head timeouts. */
	enum sl_front_rest (*rest)(const void *state);
	/*
	 * Returns when the head being received began; 0: none. NULL: other streams can delay a
	 * head.
	 */
	uint64_t (*head_since)(const void *state);
	/*
	 * Returns false if the client keeps the stream's window closed. *bytes: reply bytes sent on
	 * the connection, modulo 2^32. NULL: one reply at a time.
	 */
	bool (*flow)(const void *state, const struct sl_stream *st, uint32_t *bytes);
	/* Resets a stream whose client reads too slowly. May be NULL. */
	void (*abandon)(void *state, const struct sl_front_env *env, struct sl_stream *st);
};

extern const struct sl_front_ops sl_front_http1;
extern const struct sl_front_ops sl_front_h2;
extern const struct sl_front_ops sl_front_datagram;

/*
 * Selects h2 for an HTTP/2 preface (RFC 9113 3.4), http1 otherwise. NULL: needs more bytes, up to
 * 4.
 */
const struct sl_front_ops *sl_front_detect(struct sl_span first);

enum sl_reply_side { SL_REPLY_HEAD = 1, SL_REPLY_TAIL = 2, SL_REPLY_INTERIM = 4 };

/*
 * Decodes and checks a backend's metadata block: head, tail, both, or an INTERIM reply. Returns
 * false if malformed.
 */
bool sl_reply_decode(struct sl_span block, unsigned sides, struct sl_reply_parts *out);

/* Builds the gateway's own reply. The body, if any, is the outcome's text. */
void sl_reply_own(enum sl_outcome why, struct sl_reply_parts *out);
struct sl_span sl_outcome_text(enum sl_outcome why);

/*
 * Returns true for backend fields that a reply leaves out: hop-by-hop, and written by the gateway
 * (RFC 9110 7.6.1, RFC 9113 8.2.2).
 */
bool sl_reply_is_ours(const struct sl_reply *r, struct sl_span name);

#endif
