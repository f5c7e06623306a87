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
 * clock. A stream is one request and its reply, and the first member of the core's exchange. Life
 * of a stream:
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
 * - `ready` comes at once for a backend's reply, whose bytes may be lent until it returns; for the gateway's own at the end of the burst.
 * - A front may pull in any call. The core keeps what is not pulled.
 * - No reply is pulled and no stream ends within begin, body and end.
 * - Exactly one of done and cancel is called for each stream, which is invalid afterwards.
 *
 * The front sets st->started once the head is being written. A later failure is BROKEN; an earlier
 * one is replaced by the gateway's own reply. Bytes of `peek` stay valid until `take`.
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

/* Views are valid during `begin` only. */
struct sl_request {
	uint8_t proto;
	uint8_t method;
	int8_t urgency; /* RFC 9218, 0 (most urgent) .. 7; -1: none */
	bool end;       /* no body follows; `end` is not called */
	bool unproven;  /* source address not verified */
	/* the client waits for 100 (Continue), RFC 9110 10.1.1 */
	bool expect;
	bool all_headers;  /* not only the route's */
	bool must_upgrade; /* valid only if answered with 101 */
	bool coalesces;    /* the connection may carry other hosts, RFC 9113 9.1.1 */
	uint16_t service;  /* of a datagram; 0: route by path */
	struct sl_span method_name;
	struct sl_span authority;
	struct sl_span path; /* absolute, without query, as received (not decoded) */
	struct sl_span query;
	/* gRPC: "pkg.Service/Method". Replaces path and method for backends. */
	struct sl_span call;
	struct sl_span content_type;
	/*
	 * Value of the Upgrade field. If not empty, `end` is set: later bytes belong to the new
	 * protocol (sl_stream.upgrade).
	 */
	struct sl_span upgrade;
	const struct sl_header *headers;
	uint32_t header_cnt;
	uint64_t content_length; /* SL_LEN_UNKNOWN: not stated */
	/* protocol's limit, which a route or pool may lower; 413 */
	uint64_t body_max;
	uint64_t timeout_ns; /* relative; 0: none */
	uint64_t rx_ns;
	uint64_t take_ns;
};

/* Views are valid until the next call of the core. */
struct sl_reply {
	uint16_t status; /* HTTP; 101 only with `upgrade` */
	uint16_t grpc_status;
	bool gateway; /* created by the gateway for `outcome` */
	uint8_t outcome;
	bool whole;
	uint32_t retry_after_s;
	uint32_t allow;      /* enum sl_method bits for the Allow field; 0: no field */
	uint32_t service_us; /* 0: unknown */
	struct sl_span grpc_message;
	struct sl_span content_type;
	struct sl_span reason; /* HTTP/1; empty: standard text */
	bool has_server, has_date;
	struct sl_span upgrade; /* status 101: protocol of the bytes that follow */
	/* Names in lower case. Values without CR, LF or NUL, unless the name ends with -bin. */
	const struct sl_header *headers;
	uint32_t header_cnt;
	const struct sl_header *trailers;
	uint32_t trailer_cnt;
	uint64_t body_len; /* SL_LEN_UNKNOWN: streamed, or status 101 */
};

struct sl_reply_parts {
	struct sl_reply reply;
	struct sl_header headers[SL_RPC_MAX_FIELDS];
	struct sl_header trailers[SL_RPC_MAX_TRAILERS];
};

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
	/* longest reply head: a backend's metadata and 2 KiB of own fields */
	SL_FRONT_HEAD_OUT = SL_RPC_MAX_META + 2048,
};

/* Zeroed by the core; the front's from begin to done or cancel. */
struct sl_stream {
	union {
		struct sl_stream *next;
		void *own;
	};
	uint64_t reply_left;
	uint64_t body_left;
	uint8_t method; /* the core tests it for HEAD */
	uint8_t state;
	uint8_t flags;
	uint8_t version_minor;
	/* set by the core */
	/* answered early: drop the rest, call neither body nor end */
	bool refused;
	bool open_ended; /* body is passed on as it arrives; a reply may start meanwhile */
	bool narrow;
	bool awaits; /* do not send 100 (Continue) before a `ready` that finds this false */
	/*
	 * Body bytes whose window the front must reopen. Includes message prefixes if `open_ended`
	 * and `prefix` are set.
	 */
	uint32_t passed;
	/*
	 * Set by `begin`: a reply with status 101 switches protocols. All further client bytes are
	 * the body, whatever the reply is; `end` follows.
	 */
	bool upgrade;
	/* set by the front; `trailers` and `prefix` after begin */
	bool started; /* set before the first take */
	bool trailers;
	bool compressed;   /* the message is; set before `end`, unused if `open_ended` */
	bool message_over; /* the call's only message is complete; unused if `open_ended` */
	/* `body` takes all; `passed` reopens the window; set after begin */
	bool windowed;
	uint8_t prefix_len; /* of each request message; set with `prefix` */
	/*
	 * Writes the prefix of a reply message. Returns its length, which counts in body_len. NULL:
	 * messages are concatenated.
	 */
	size_t (*prefix)(uint8_t *to, uint64_t message_len, bool compressed);
};

struct sl_front_limits {
	uint32_t max_head;     /* 431 */
	uint32_t max_target;   /* 414 */
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
/* Sets the limits of a configuration without keys. */
void sl_front_limits_default(struct sl_front_limits *l);

/* `conn` is the core's client connection. */
struct sl_front_cb {

	/*
	 * Starts a request. Returns its stream, or NULL if no exchange is free: the front answers
	 * 503 and closes. Sets `refused` if already answered, unless rq->end is set.
	 */
	struct sl_stream *(*begin)(void *conn, const struct sl_request *rq);
	/*
	 * Returns how many body bytes were taken. If not all, stop reading and offer the rest at
	 * the next `input`. May take chunk->frame with all bytes.
	 */
	size_t (*body)(void *conn, struct sl_stream *st, struct sl_chunk *chunk);
	/*
	 * The next `len` body bytes are one message of an `open_ended` stream. Returns false if
	 * refused.
	 */
	bool (*message)(void *conn, struct sl_stream *st, uint32_t len, bool compressed);
	/*
	 * Passes the trailers of an `open_ended` request, directly before `end`, which is not
	 * called if this call refuses the stream.
	 */
	void (*request_trailers)(void *conn, struct sl_stream *st, const struct sl_header *fields,
				 uint32_t cnt);
	/* Not called if rq->end was set. */
	void (*end)(void *conn, struct sl_stream *st);

	/*
	 * Records a request that is refused without an exchange: `error` of enum sl_front_error.
	 * Returns the request id for the reply, valid until the next call; empty: none. `rq` may be
	 * incomplete; NULL: nothing is known, or begin() has refused it. May be NULL.
	 */
	struct sl_span (*refused)(void *conn, const struct sl_request *rq, unsigned status,
				  unsigned error);

	/* Repeatable until st->started. Returns false if there is no head yet. */
	bool (*head)(void *conn, struct sl_stream *st, struct sl_reply_parts *out);
	/* Returns the next bytes, the same until taken. BROKEN only after st->started. */
	struct sl_piece (*peek)(void *conn, struct sl_stream *st);
	/* Only after st->started. */
	void (*take)(void *conn, struct sl_stream *st, size_t n);
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
	 * SL_FRONT_HEAD_OUT, or fails.
	 */
	size_t (*write)(void *conn, const void *bytes, size_t len);
	bool (*write_head)(void *conn, const void *bytes, size_t len);
	size_t (*room)(void *conn);
	/*
	 * Defers the rest of the input. `input` is called again after other connections, within 10
	 * ms.
	 */
	void (*later)(void *conn);
	/* Counts frames of the client's incomplete requests. Returns false if it has too many. */
	bool (*hold)(void *conn, int32_t frames);
	/*
	 * Closes after the written bytes. `at_once`: sends RST, for a truncated reply. No input
	 * follows. The core calls sl_front_ops.close later, never from within this call.
	 */
	void (*close)(void *conn, bool at_once);
};

enum sl_serving { SL_SERVING_UNKNOWN, SL_SERVING_YES, SL_SERVING_NO };
/* Scope of a health query. ROUTE: of exactly this prefix. */
enum sl_asked { SL_ASKED_ALL, SL_ASKED_POOL, SL_ASKED_ROUTE };

/*
 * A worker's resources for fronts. A split request head is gathered in a frame, then in a buffer of
 * `heads` (limits->max_head bytes each). If none is free, the answer is 503.
 */
struct sl_front_env {
	struct sl_umem *umem;
	struct sl_mempool *heads; /* NULL: a split head must fit in a frame, or 431 */
	/* connection per object of `heads`; may be NULL */
	void **head_conns;
	const struct sl_front_limits *limits;
	const struct sl_front_cb *cb;
	const uint64_t *now_ns; /* updated once per burst */
	const char *date;       /* IMF-fixdate, 29 bytes */
	void *h2;
	void *datagram;
	uint64_t *errors; /* [SL_FRONT_ERR_CNT]; may be NULL */
	bool draining;
	/* Returns whether a backend is available; NULL: no health service. */
	enum sl_serving (*serving)(void *arg, enum sl_asked what, struct sl_span name);
	/* Returns true if a route names "/pkg.Service"; NULL: none does. */
	bool (*routed)(void *conn, const struct sl_request *rq, struct sl_span service);
	void *serving_arg;
	const struct sl_descriptors *descriptors; /* NULL: no reflection */
};

/* Returns a buffer of `heads`, or NULL: none left. */
uint8_t *sl_front_head_get(const struct sl_front_env *env, void *conn);
/* Gives it back. */
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
	 * connection. `source` identifies the client address (IPv6: /64) while it has connections;
	 * 0: unknown.
	 */
	void (*open)(void *state, const struct sl_front_env *env, void *conn, uint32_t source);
	/*
	 * Returns how many bytes were used. The rest is offered again, with later bytes, after
	 * `ready` and `writable`.
	 */
	size_t (*input)(void *state, const struct sl_front_env *env, struct sl_chunk *chunk);
	/*
	 * The client closed its half. `listens`: it may still read: requests are answered.
	 * Otherwise incomplete streams are cancelled.
	 */
	void (*eof)(void *state, const struct sl_front_env *env, bool listens);
	/* May end the stream. */
	void (*ready)(void *state, const struct sl_front_env *env, struct sl_stream *st);
	/*
	 * Sends an interim reply before the final head; drops it behind another reply, or if the
	 * client does not read. May be NULL.
	 */
	void (*interim)(void *state, const struct sl_front_env *env, struct sl_stream *st,
			const struct sl_reply *r);
	void (*writable)(void *state, const struct sl_front_env *env);
	/*
	 * Refuses new requests (GOAWAY, Connection: close), finishes running ones. Also called
	 * after the idle timeout.
	 */
	void (*drain)(void *state, const struct sl_front_env *env);
	/* A head or body was too slow: answers 408, and closes. */
	void (*timeout)(void *state, const struct sl_front_env *env);
	void (*close)(void *state, const struct sl_front_env *env);
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
	/* Resets a slow reader's stream. May be NULL. */
	void (*abandon)(void *state, const struct sl_front_env *env, struct sl_stream *st);
};

extern const struct sl_front_ops sl_front_http1;
extern const struct sl_front_ops sl_front_h2;
extern const struct sl_front_ops sl_front_datagram;

/* Returns h2 for its preface (RFC 9113 3.4), else http1. NULL: needs more bytes. */
const struct sl_front_ops *sl_front_detect(struct sl_span first);

enum sl_reply_side { SL_REPLY_HEAD = 1, SL_REPLY_TAIL = 2, SL_REPLY_INTERIM = 4 };

/* Decodes metadata of `sides`; *out has views of block. Returns false if malformed. */
bool sl_reply_decode(struct sl_span block, unsigned sides, struct sl_reply_parts *out);

/* Makes the gateway's reply; body: sl_outcome_text(). */
void sl_reply_own(enum sl_outcome why, struct sl_reply_parts *out);
/* Returns static text. */
struct sl_span sl_outcome_text(enum sl_outcome why);

/*
 * Returns true for backend fields to omit: hop-by-hop, or written by the gateway (RFC 9110 7.6.1,
 * RFC 9113 8.2.2).
 */
bool sl_reply_is_ours(const struct sl_reply *r, struct sl_span name);

#endif
