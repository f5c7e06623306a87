/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between client protocols and the core: client bytes in, requests out; replies in, bytes
 * out.
 *
 *            chunk                begin / body / end / cancel
 *   tcp --> sl_front_ops.input --> struct sl_host_ops (core) --> queue, batch, rpc
 *   tcp <-- host write         <-- sl_front_ops.reply / more <-- core
 *
 * A front (http1, h2) is one protocol on one connection. It does no I/O, reads no clock, knows no
 * TCP. A stream is one request on it. The core embeds struct sl_stream as the first member of its
 * exchange, so no allocation or lookup joins the two. Life of a stream:
 *
 *   begin(host) -> [body]* -> end          request side, driven by the front
 *   reply(front) -> [more]*                answer side, driven by the core; may start before `end`
 *   done(host)                             both sides over: the core takes the stream back
 *   cancel(host)                           the client is gone or broke the protocol: no reply is
 *                                          wanted; the core takes the stream back
 *
 * Exactly one of done and cancel is called for each stream, never from within begin, body or end.
 * Both may come from within input, reply, more and abort: the core must not touch the stream after
 * such a call if it was given back meanwhile.
 */
#ifndef SL_FRONT_FRONT_H
#define SL_FRONT_FRONT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/bytes.h"
#include "xio/frame.h"

struct sl_pool;
struct sl_descriptors;

enum sl_proto { SL_PROTO_HTTP1, SL_PROTO_HTTP2, SL_PROTO_GRPC, SL_PROTO_DATAGRAM, SL_PROTO_CNT };

enum sl_method {
	SL_METHOD_OTHER,
	SL_METHOD_GET,
	SL_METHOD_HEAD,
	SL_METHOD_POST,
	SL_METHOD_PUT,
	SL_METHOD_DELETE,
	SL_METHOD_OPTIONS,
	SL_METHOD_PATCH,
	SL_METHOD_CONNECT,
	SL_METHOD_TRACE,
	SL_METHOD_CNT,
};

#define SL_LEN_UNKNOWN UINT64_MAX

struct sl_header {
	struct sl_span name; /* requests: as received; compare without case */
	struct sl_span value;
};

/* The head of a request. All views are valid during `begin` only. */
struct sl_request {
	uint8_t proto;  /* enum sl_proto */
	uint8_t method; /* enum sl_method */
	int8_t urgency; /* RFC 9218, 0 most urgent .. 7; -1 not stated */
	bool end;       /* no body follows, and `end` is not called */
	struct sl_span method_name;
	struct sl_span authority;
	struct sl_span path;  /* absolute path without query, as received (not decoded) */
	struct sl_span query; /* after '?', may be empty */
	struct sl_span content_type;
	const struct sl_header *headers; /* all of them, in order */
	uint32_t header_cnt;
	uint64_t content_length; /* SL_LEN_UNKNOWN when not stated */
	uint64_t timeout_ns;     /* grpc-timeout; 0 none */
	uint64_t rx_ns;          /* arrival of the first byte as stamped by XDP; 0 unknown */
	uint64_t take_ns;        /* when user space took it */
};

/* A reply as far as it is known. Views are valid during the call. */
struct sl_reply {
	uint16_t status;        /* HTTP */
	uint16_t grpc_status;   /* gRPC streams only */
	bool end;               /* body is all that remains: nothing follows it */
	bool gateway;           /* made by the gateway itself, not by a backend */
	uint32_t retry_after_s; /* 0 none */
	struct sl_span grpc_message;
	struct sl_span content_type;
	const struct sl_header *headers; /* names in lower case; checked: no CR, LF, NUL */
	uint32_t header_cnt;
	const struct sl_header *trailers;
	uint32_t trailer_cnt;
	uint64_t body_len;   /* of the whole reply; SL_LEN_UNKNOWN when it comes in parts */
	struct sl_span body; /* the bytes that are there now */
};

/* A request as its front sees it. Owned by the front from begin until done or cancel. */
struct sl_stream {
	struct sl_stream *next; /* front: order of replies, or hash chain */
	uint64_t reply_left;    /* front: bytes of reply body still to come */
	uint64_t body_left;     /* front: bytes of request body still to come */
	uint32_t id;            /* front: stream identifier (h2), 0 otherwise */
	uint8_t proto;
	uint8_t method;
	uint8_t state; /* front's own */
	uint8_t flags; /* front's own */
	/*
	 * Set and reset by the core: a final answer was given before the request's end; its body is
	 * unwanted: the front throws it away and calls neither body nor end any more.
	 */
	bool refused;
	uint8_t version_minor; /* http1: 0 or 1 */
	uint8_t reserved[6];
};

struct sl_front_limits {
	uint32_t max_head;         /* request line and headers; 431 */
	uint32_t max_target;       /* request line; 414 */
	uint32_t max_headers;      /* number of header fields; 431 */
	uint64_t max_body;         /* unless the route says less; 413 */
	uint32_t max_pipeline;     /* http1: requests without reply per connection */
	uint32_t max_streams;      /* h2 */
	uint32_t max_resets_per_s; /* h2: rapid reset, PING and SETTINGS floods */
	uint64_t max_message;      /* gRPC message */
};
void sl_front_limits_default(struct sl_front_limits *l);

/* What the core offers to a front. `host` is the core's client connection. */
struct sl_host_ops {
	/*
	 * A request has begun. Returns its stream, never NULL unless exchanges are exhausted (the
	 * front then answers 503 itself and closes). The core may call sl_front_ops.reply before
	 * begin returns only through the stream that it is about to return; it then sets `refused`
	 * unless rq->end.
	 */
	struct sl_stream *(*begin)(void *host, const struct sl_request *rq);
	/*
	 * Body bytes. Returns how many were taken; fewer means: stop reading, offer the rest when
	 * sl_front_ops.input is called again. May take chunk->frame if it takes all.
	 */
	size_t (*body)(void *host, struct sl_stream *st, struct sl_chunk *chunk);
	/* The request is whole. Not called when rq->end has said so at `begin`. */
	void (*end)(void *host, struct sl_stream *st);
	void (*done)(void *host, struct sl_stream *st);
	void (*cancel)(void *host, struct sl_stream *st);
	/* Bytes to the client; `write` may take fewer, `write_head` (up to 16 KiB) takes all or
	 * fails. */
	size_t (*write)(void *host, const void *bytes, size_t len);
	bool (*write_head)(void *host, const void *bytes, size_t len);
	size_t (*room)(void *host);
	/*
	 * After what has been written: close in order. No input is wanted any more. The host calls
	 * sl_front_ops.close later, when the connection is gone, never from within this call.
	 */
	void (*close)(void *host);
	/*
	 * There is room in the front again for a reply that took less than offered: call more; or
	 * it is the turn of a reply that got -1: call reply. From within this call or later.
	 */
	void (*resume)(void *host, struct sl_stream *st);
	/*
	 * Close at once (RST), so that the client cannot take a reply that broke off for a whole
	 * one. May be NULL: then close is called. sl_front_ops.close follows as after close.
	 */
	void (*reset)(void *host);
};

enum sl_serving { SL_SERVING_UNKNOWN, SL_SERVING_YES, SL_SERVING_NO };

/*
 * What a front borrows from its worker. A request head that is split over segments is gathered in a
 * frame; one that outgrows a frame moves to a buffer of `heads` (objects of limits->max_head
 * bytes). Both are bounded and held only while a head is incomplete; when none is left the answer
 * is 503.
 */
struct sl_front_env {
	struct sl_umem *umem;
	struct sl_pool *heads; /* NULL: a split head must fit in a frame, 431 otherwise */
	const struct sl_front_limits *limits;
	const struct sl_host_ops *host;
	const uint64_t *now_ns; /* the worker's time, advanced once per burst */
	const char *date;       /* IMF-fixdate of this second, 29 bytes, kept by the worker */
	void *h2;               /* per-worker state of the h2 front */
	uint64_t *errors;       /* [SL_FRONT_ERR_CNT]; NULL: not counted */
	bool draining;          /* answer what comes, then close */
	/* gRPC health: whether what has this name (a pool, a route's service, "" all) is served. */
	enum sl_serving (*serving)(void *arg, struct sl_span name); /* NULL: not offered */
	void *serving_arg;
	const struct sl_descriptors *descriptors; /* gRPC reflection; NULL: not offered */
};

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
	X(TIMEOUT, "timeout")
enum sl_front_error {
#define X(name, metric) SL_FRONT_ERR_##name,
	SL_FRONT_ERRORS(X)
#undef X
		SL_FRONT_ERR_CNT
};

enum { SL_FRONT_STATE_SIZE = 64 }; /* bytes of protocol state inside the core's client connection */

struct sl_front_ops {
	const char *name;
	/* `state` is SL_FRONT_STATE_SIZE zeroed bytes that live as long as the connection. */
	void (*open)(void *state, const struct sl_front_env *env, void *host);
	/*
	 * Client bytes. Returns how many were used; the rest is offered again (with what follows)
	 * when the host resumes the connection: after a reply has finished, or after body space;
	 * never from within another call of this front for the same connection.
	 */
	size_t (*input)(void *state, const struct sl_front_env *env, struct sl_chunk *chunk);
	/* The client closed its half. Replies are still delivered to it. */
	void (*eof)(void *state, const struct sl_front_env *env);
	/*
	 * The answer to a stream. Returns how many bytes of r->body were taken (fewer: the host
	 * keeps the rest and offers it by `more` after `resume` or `writable`), or -1: not this
	 * stream's turn (http1 pipelining): nothing was taken, the host keeps the whole reply and
	 * calls again after `resume`.
	 */
	int64_t (*reply)(void *state, const struct sl_front_env *env, struct sl_stream *st,
			 const struct sl_reply *r);
	/* Further bytes of its body; `end` with the last ones. Returns how many were taken. */
	size_t (*more)(void *state, const struct sl_front_env *env, struct sl_stream *st,
		       struct sl_span body, bool end);
	/*
	 * What stands behind the body of a reply that came in parts: gRPC status and message,
	 * trailers. Before the `more` with `end`; or, from the gateway itself, before `abort`:
	 * why. NULL: the protocol has no place for it.
	 */
	void (*trailers)(void *state, const struct sl_front_env *env, struct sl_stream *st,
			 const struct sl_reply *r);
	/*
	 * The reply broke off: end the stream so that the client sees an error (reset, close; 502
	 * if nothing was sent yet). `done` follows, at once or when the stream's turn has come.
	 */
	void (*abort)(void *state, const struct sl_front_env *env, struct sl_stream *st);
	/* The connection has room to write again. */
	void (*writable)(void *state, const struct sl_front_env *env);
	/*
	 * Stop taking new requests (GOAWAY, Connection: close), finish what runs. Also for a
	 * connection that was idle for too long.
	 */
	void (*drain)(void *state, const struct sl_front_env *env);
	/* The client was too slow with a head or body: answer 408 if that can be told, and close.
	 */
	void (*timeout)(void *state, const struct sl_front_env *env);
	/* The connection is gone: cancel every stream, give back every frame. */
	void (*close)(void *state, const struct sl_front_env *env);
	/* True when nothing is under way (for idle and head-read timeouts). */
	bool (*idle)(const void *state);
	/* The client waits for what the front will tell by itself, however long that takes. NULL:
	 * never. */
	bool (*waits)(const void *state);
};

extern const struct sl_front_ops sl_front_http1;
extern const struct sl_front_ops sl_front_h2;

/*
 * Looks at the first bytes of a connection: the h2 front if they begin like the HTTP/2 preface (RFC
 * 9113 3.4), http1 if they do not, NULL if more bytes are needed (never more than 4).
 */
const struct sl_front_ops *sl_front_detect(struct sl_span first);

/* Method by name; SL_METHOD_OTHER for unknown ones. Name of a method, "" for OTHER. */
enum sl_method sl_method_parse(struct sl_span name);
const char *sl_method_name(enum sl_method m);
bool sl_method_idempotent(enum sl_method m); /* RFC 9110 9.2.2 */
const char *sl_status_text(unsigned status);

/*
 * Whether a backend's header field is the gateway's own to say, or concerns one connection only,
 * and is left out of a reply: RFC 9110 7.6.1, RFC 9113 8.2.2.
 */
bool sl_reply_is_ours(const struct sl_reply *r, struct sl_span name);

#endif
