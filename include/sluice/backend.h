/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SDK for backends.
 *
 *   static void handle(void *arg, struct sl_batch *batch) {
 *           for (unsigned i = 0; i < batch->count; i++) {
 *                   struct sl_request_view *rq = batch->requests[i];
 *
 *                   sl_reply(rq, &(struct sl_reply_args){
 *                           .body = rq->body, .body_len = rq->body_len});
 *           }
 *   }
 *
 *   int main(void) {
 *           struct sl_backend_options opt = {.listen = "shm:///run/echo.sock", .on_batch = handle};
 *           char err[256];
 *           struct sl_backend *b = sl_backend_open(&opt, err, sizeof(err));
 *
 *           return b ? sl_backend_run(b) : 1;
 *   }
 *
 * Ownership:
 * - A request and its bytes belong to the handler until sl_reply() without `more`, or
 *   sl_reply_error().
 * - Each request must be replied to exactly once. sl_backend_close() answers open requests with
 *   SL_RPC_REFUSED, or SL_RPC_LOST if a handler has seen them and they are not idempotent. None
 *   may be used afterwards.
 * - sl_reply() copies the bytes of the reply; sl_reply_ref() does not.
 * - The request's bytes are a private copy, which the gateway cannot change.
 *
 * Errors: functions of requests return 0 or a negative errno value.
 * - -ECANCELED and -ENOBUFS: the request is closed, and must not be used any more.
 * - Others: nothing has happened, and the program keeps what it passed. The request must still be
 *   replied to. After -EAGAIN, `on_writable` follows.
 *
 * Threads: `on_batch` runs in the thread that calls sl_backend_run() or sl_backend_poll(). The
 * first such call starts an I/O thread, which sl_backend_close() ends. `inline_handler` needs none:
 * its handler delays I/O, so it must be short. Any thread may reply, in any order.
 *
 * Input structs begin with `size`: sizeof(struct), or 0 for the members of this release. Members
 * unknown to the library must be zero.
 *
 * Batches: a free handler gets the pending requests of all gateways, at most `max_batch`. Urgent
 * classes come first, each in order of arrival; one request in sixteen is of the least urgent
 * class. Expired requests are answered with SL_RPC_EXPIRED.
 */
#ifndef SLUICE_BACKEND_H
#define SLUICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sluice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_backend;

/* Views are not NUL-terminated; absent ones have length 0. */
struct sl_request_view {
	const uint8_t *body;
	size_t body_len;
	const char *method, *path, *query, *content_type;
	uint16_t method_len, path_len, query_len, content_type_len;
	uint8_t protocol;        /* enum sl_proto: HTTP, gRPC, datagram */
	uint8_t priority;        /* enum sl_rpc_class */
	uint32_t budget_us;      /* left when sent; 0: see long_budget_us */
	uint64_t arrived_ns;     /* CLOCK_MONOTONIC of this host */
	uint64_t long_budget_us; /* time left if it exceeds budget_us; 0: none */
	const uint8_t *meta;     /* for sl_request_header() */
	uint16_t meta_len;
	bool idempotent;
	/* See sl_stream_send_continue(). */
	union {
		bool expect_continue;
		bool expects SL_DEPRECATED("use expect_continue");
	};
	/* gRPC: the body is compressed; stream: the bytes of this `on_data` call are */
	bool compressed;
	uint64_t length; /* stream: length of the body; UINT64_MAX: unknown */
	void *own;       /* free for the handler; initially NULL */
	/* Stream, from `on_end` on: for sl_request_trailer(). */
	const uint8_t *trailers;
	uint16_t trailers_len;
	/* Hash of the client's address, constant per address and gateway; 0: unknown. */
	uint32_t client;
};

struct sl_batch {
	unsigned count;
	struct sl_request_view *requests[SL_RPC_MAX_BATCH];
};

typedef void sl_batch_fn(void *arg, struct sl_batch *batch);

/*
 * Event of a request; `arg` is that of the options. Called in the I/O thread (`inline_handler`:
 * polling thread), also while the handler runs or before it has seen the request. Must be short;
 * may reply. The request is valid until the call returns, even if another thread replies.
 */
typedef void sl_request_fn(void *arg, struct sl_request_view *rq);

/*
 * Callbacks of streams: requests of routes with `stream = yes`, including all kinds of gRPC calls.
 * Streams are not batched and may be answered while they arrive. Called like sl_request_fn, in this
 * order:
 *
 *   on_open -> (on_data* | on_end | on_cancel)   sl_reply(.more = true)* and the last one, at any time
 *
 * No call follows the last reply or `on_cancel`.
 *
 * The header `upgrade` requests to switch protocols (WebSocket, if the route's `upgrade` allows
 * it). With `upgrades`, a first part with status 101 and `more` accepts: bytes pass until either
 * side ends. Other statuses refuse. Without `upgrades`, the header is ignored and `on_end` follows
 * at once.
 *
 * Metadata are valid until the reply, bytes only during a call. All four callbacks must be set.
 */
typedef void sl_data_fn(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
			size_t left);
struct sl_stream_ops {
	union {
		sl_request_fn *on_open;
		sl_request_fn *open SL_DEPRECATED("use on_open");
	};
	/* Bytes of a message (HTTP: any bytes); `left` follow later. May be empty. */
	union {
		sl_data_fn *on_data;
		sl_data_fn *data SL_DEPRECATED("use on_data");
	};
	union {
		sl_request_fn *on_end;
		sl_request_fn *end SL_DEPRECATED("use on_end");
	};
	/* The client has gone. Called at most once; a reply is still needed. */
	union {
		sl_request_fn *on_cancel;
		sl_request_fn *cancel SL_DEPRECATED("use on_cancel");
	};
};

struct sl_backend_options {
	size_t size;
	/*
	 * Separated by commas: "shm:///path", "rdma://addr:port", "rdma+ud://addr:port" (virtual
	 * connections), "tcp://host:port".
	 */
	const char *listen;
	union {
		sl_batch_fn *on_batch;
		sl_batch_fn *handle SL_DEPRECATED("use on_batch");
	};
	void *arg;
	unsigned max_batch;     /* 0: 256 */
	const char *key_file;   /* shared key of rdma:// and tcp:// peers; NULL: shm only */
	bool busy_poll;         /* never sleep; uses a core (two if not inline) */
	uint32_t bulk_ring_len; /* bytes per channel and direction; 0: 4 MiB */
	bool inline_handler;    /* no I/O thread, see above */
	/*
	 * The client has gone; not called for deadlines. Called at most once per request; a reply
	 * is still needed. May be NULL.
	 */
	union {
		sl_request_fn *on_cancel;
		sl_request_fn *cancelled SL_DEPRECATED("use on_cancel");
	};
	/*
	 * There is room after -EAGAIN, or the client has gone (streams: `on_cancel`). May be NULL.
	 */
	union {
		sl_request_fn *on_writable;
		sl_request_fn *writable SL_DEPRECATED("use on_writable");
	};
	/* NULL: streams are answered with SL_RPC_NO_METHOD. */
	const struct sl_stream_ops *on_stream;
	bool upgrades; /* `on_stream` supports switching protocols */
	/*
	 * gRPC: accept compressed messages; nothing limits the uncompressed length. If false, such
	 * calls end with UNIMPLEMENTED; a running stream gets `on_cancel`.
	 */
	bool compressed;
	/*
	 * Returns memory for a body, rq->body_len bytes of any alignment; NULL: the SDK allocates.
	 * Called like sl_request_fn when the first bytes have arrived, except for streams. All
	 * metadata are valid, and `own` may be set. The call must not reply.
	 *
	 * `unplace` returns the memory (rq->body), exactly once per `place`, when the request has
	 * ended. Both must be set, or neither.
	 */
	void *(*place)(void *arg, struct sl_request_view *rq);
	sl_request_fn *unplace;
	/*
	 * rdma:// only: the device reads bodies in this area directly if sl_reply_ref() lends them.
	 * The area is registered until sl_backend_close(). NULL: none.
	 */
	void *memory;
	size_t memory_len;
};

/*
 * Opens the endpoints. Returns NULL and one line in `err` on error. Replaces the socket file of a
 * dead process, not that of a live one.
 */
struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *err, size_t err_len);

/*
 * Serves until sl_backend_stop(), then answers pending requests for at most 5 s, or until a second
 * stop, and returns 0. Returns errors of sl_backend_poll().
 *
 * sl_backend_stop(): any thread or signal handler.
 */
int sl_backend_run(struct sl_backend *b);
void sl_backend_stop(struct sl_backend *b);

/*
 * Handles one batch, waiting at most wait_us microseconds; inline, also returns after another
 * upcall. Returns the number of batches; -EDEADLK within a handler or an upcall, or while another
 * thread polls or runs; or the error of starting the I/O thread.
 */
int sl_backend_poll(struct sl_backend *b, unsigned wait_us);

/*
 * For event loops (epoll), in the polling thread. The SDK owns the descriptor sl_backend_fd(),
 * which stays the same and may only be waited for. With `inline_handler`, poll at least once per
 * second.
 *
 * sl_backend_prepare() prepares a sleep until the descriptor is readable, for at most *timeout_us
 * (UINT64_MAX: no limit). The next sl_backend_poll() ends it. Returns 0 or errors of
 * sl_backend_poll().
 *
 * Alternatively, when sl_backend_poll(b, 0) returns 0: arm, sleep, disarm, poll. sl_backend_arm()
 * returns 1, 0 if there is work (disarm, poll), or the error of starting the I/O thread.
 */
int sl_backend_prepare(struct sl_backend *b, uint64_t *timeout_us);
int sl_backend_fd(const struct sl_backend *b);
int sl_backend_arm(struct sl_backend *b);
void sl_backend_disarm(struct sl_backend *b);

/*
 * Sets readiness, initially true. While false, gateways use other backends but keep their
 * connections. Requests may still arrive. Any thread.
 */
void sl_backend_ready(struct sl_backend *b, bool ready);
/*
 * Like not ready, but gateways also close their connections after the last request. False revokes
 * it. Any thread.
 */
void sl_backend_leave(struct sl_backend *b, bool leave);

/*
 * Stops listening, answers open requests, and frees everything; NULL is allowed. Must not be called
 * within a handler or upcall, or while a thread runs or polls. `done` returns lent memory; its
 * replies get -ECANCELED.
 */
void sl_backend_close(struct sl_backend *b);

/*
 * Gets a header or gRPC metadata; `name` is in lower case. Returns false if absent. *value points
 * into the request.
 */
bool sl_request_header(const struct sl_request_view *rq, const char *name, const char **value,
		       size_t *value_len);
/* Same for a trailer of a stream. */
bool sl_request_trailer(const struct sl_request_view *rq, const char *name, const char **value,
			size_t *value_len);

/* Returns true if the client has gone or the deadline has passed. */
bool sl_request_cancelled(const struct sl_request_view *rq);

/*
 * Pause and resume `on_data` and `on_end`. While paused, bytes within the client's credit are
 * stored. Any thread, before the reply.
 */
void sl_stream_pause(struct sl_request_view *rq);
void sl_stream_resume(struct sl_request_view *rq);

/*
 * Sends 100 (Continue) for a stream with `expect_continue` (routes with `continue = backend`). Any
 * thread that may reply. Returns 0, also if the client has gone; -EINVAL if not expected, already
 * sent, or the reply has begun; -EAGAIN without memory.
 */
int sl_stream_send_continue(struct sl_request_view *rq);
int sl_stream_go_on(struct sl_request_view *rq) SL_DEPRECATED("use sl_stream_send_continue()");

struct sl_reply_args {
	size_t size;
	const void *body;
	size_t body_len;
	const char *content_type; /* NULL: none */
	uint16_t status;          /* HTTP; 0: 200 */
	uint16_t grpc_status;     /* gRPC */
	const char *grpc_message;
	const struct sl_header_arg *headers;
	unsigned header_cnt;
	/*
	 * More parts follow (gRPC: one message each). The first has headers, content type and HTTP
	 * status; the last gRPC status, message and trailers.
	 */
	bool more;
	/*
	 * gRPC: no message, `body` is ignored. A last part with an error status and empty body has
	 * none either.
	 */
	bool no_message;
	/* gRPC: compressed by the header grpc-encoding; all pieces of a message alike. */
	bool compressed;
	/* `total_len` is the length of the whole body. A reply that ends earlier is broken off. */
	bool has_total;
	/*
	 * gRPC: the part begins a message of `total_len` bytes; the next parts, each with `more`,
	 * contain the rest. Only an error may interrupt them.
	 */
	bool in_pieces;
	uint64_t total_len;
	const char *reason; /* HTTP/1.1; NULL: the standard text */
	/*
	 * SL_CLASS_LATENCY, _NORMAL or _BULK; 0: that of the request. The first part or interim
	 * reply decides.
	 */
	uint8_t priority;
};

/*
 * Sends a reply or a part of one. Thread-safe. Returns 0 or an error:
 *   -EMSGSIZE   body above SL_RPC_MAX_MESSAGE or headers above SL_RPC_MAX_META
 *   -EINVAL     piece of a message empty, too long, or without `more`
 *   -EINVAL     status 101 without `upgrades`, wrong priority or size
 *   -E2BIG      unknown members are set
 *   -EAGAIN     with `more`: the client or gateway reads too slowly, or no memory
 *   -ECANCELED  the client has gone
 *   -ENOBUFS    no memory, without `more`. Another backend executes the request if it is
 *               idempotent; otherwise its client gets an error.
 *
 * Flow control: at most SL_RPC_INITIAL_WINDOW unread bytes per request are sent to the gateway, for
 * most streams SL_RPC_STREAM_WINDOW. A part is accepted if all earlier parts fit in that window;
 * the last part always. A part is also rejected while too many bytes of all requests are unsent.
 *
 * Memory: copied replies to one gateway may use what is left of 512 MiB. Above a quarter of that,
 * replies whose clients have taken nothing for 1 s end with SL_RPC_LOST.
 *
 * With `inline_handler`, replies within the handler are sent when it returns, or after 50 us (1 ms
 * if sending is slow); others at once.
 */
int sl_reply(struct sl_request_view *rq, const struct sl_reply_args *args);

/*
 * Sends an interim reply before the reply, such as 103 (Early Hints, RFC 8297): only `status` (102
 * to 199) and `headers` count. It is dropped for gRPC, HTTP/1.0 and clients that do not read.
 * Thread-safe. Returns 0, also if the client has gone; -EINVAL for another status, after the reply
 * has begun, or after SL_RPC_MAX_INTERIM; -EMSGSIZE above SL_RPC_MAX_META bytes; -EAGAIN without
 * memory.
 */
int sl_reply_interim(struct sl_request_view *rq, const struct sl_reply_args *args);

/*
 * Like sl_reply(), but lends the body, which must not change until `done`. After 0, `done` is
 * called exactly once, like sl_request_fn, possibly before sl_reply_ref() returns, at the latest in
 * sl_backend_close(). Before reuse of placed memory, wait for both `done` and `unplace`.
 */
typedef void sl_reply_done_fn(void *arg);
int sl_reply_ref(struct sl_request_view *rq, const struct sl_reply_args *args,
		 sl_reply_done_fn *done, void *arg);

/* Ends the request with a status and no body. Returns 0 or -ECANCELED. */
int sl_reply_error(struct sl_request_view *rq, enum sl_rpc_status status);

struct sl_backend_stats {
	size_t size; /* set by the program to sizeof(struct) */
	uint64_t requests, batches, replies, cancelled, expired, bad_messages;
	uint64_t refused; /* rejected peers */
	uint32_t channels, open_requests, largest_batch;
};
/* Returns counters, at most 1 ms old. Any thread; with `inline_handler` only the polling thread. */
void sl_backend_stats(struct sl_backend *b, struct sl_backend_stats *out);

#ifdef __cplusplus
}
#endif
#endif
