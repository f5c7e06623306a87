/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SDK for backends: a program that computes replies to batches of requests.
 *
 *   static void handle(void *arg, struct sl_batch *batch) {
 *           for (unsigned i = 0; i < batch->count; i++) {
 *                   struct sl_request_view *rq = batch->requests[i];
 *
 *                   sl_reply(rq, &(struct sl_reply_args){.body = rq->body, .body_len = rq->body_len});
 *           }
 *   }
 *
 *   int main(void) {
 *           struct sl_backend_options opt = {.listen = "shm:///run/echo.sock", .handle = handle};
 *           char err[256];
 *           struct sl_backend *b = sl_backend_open(&opt, err, sizeof(err));
 *
 *           return b ? sl_backend_run(b) : 1;
 *   }
 *
 * Ownership: a request and the bytes that it points to belong to the handler until the request is
 * replied to (sl_reply with `more` unset, sl_reply_error) by any thread, at once or later, in any
 * order. A request must be replied to exactly once; sl_backend_close() answers what is left with
 * SL_RPC_REFUSED, so that it is tried elsewhere, but with SL_RPC_LOST what a handler has had and is
 * not idempotent. Reply bytes are copied before sl_reply() returns; sl_reply_ref() copies none. A
 * request's bytes are a private copy, made once, in the SDK's memory or where `place` says: a gateway
 * cannot change them while they are parsed. After sl_backend_close() no request may be used.
 *
 * Threads: the handler runs on the thread that calls sl_backend_run() or sl_backend_poll(). A second
 * one, the I/O thread, which the first such call starts and sl_backend_close() ends, takes gateways
 * and requests, sends replies and sees cancels, however long a handler computes. With
 * `inline_handler` there is no second thread: that saves some microseconds per batch, and is for
 * handlers of microseconds, since nobody connects and nothing is sent or cancelled while one runs.
 *
 * Requests from all gateways and workers that have arrived when a handler is free are merged into
 * one batch of at most `max_batch`: urgent classes first, within a class in order of arrival, and
 * one in sixteen from the least urgent that waits. Their budgets count from arrival; one that has
 * run out is answered SL_RPC_EXPIRED and not computed.
 */
#ifndef SLUICE_BACKEND_H
#define SLUICE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sluice/rpc_wire.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_backend;

/* One request. Views into the SDK's memory; not NUL-terminated; absent ones have length 0. */
struct sl_request_view {
	const uint8_t *body;
	size_t body_len;
	const char *method, *path, *query, *content_type;
	uint16_t method_len, path_len, query_len, content_type_len;
	uint8_t protocol;        /* enum sl_proto: HTTP, gRPC, datagram */
	uint8_t priority;        /* enum sl_rpc_class */
	uint32_t budget_us;      /* time left when it was sent; 0: none */
	uint64_t arrived_ns;     /* CLOCK_MONOTONIC of this host */
	uint64_t long_budget_us; /* time left, where that is more than budget_us can say; 0: none */
	const uint8_t *meta;     /* all metadata fields, for sl_request_header() */
	uint16_t meta_len;
	bool idempotent; /* may be computed twice */
	bool expects;    /* of a stream: its client waits, see sl_stream_go_on() */
	bool compressed; /* gRPC: the body is; of a stream: what `data` shows, for that call */
	uint64_t length; /* of a stream: bytes of its body; UINT64_MAX: not known before its end */
	void *own;       /* the handler's; NULL at first */
	/* Of a stream, from its `end` on: all fields behind its body, for sl_request_trailer(). */
	const uint8_t *trailers;
	uint16_t trailers_len;
	/* Hash of the client's address, the same in all requests of an address by a gateway; 0: unknown. */
	uint32_t client;
};

struct sl_batch {
	unsigned count;
	struct sl_request_view *requests[SL_RPC_MAX_BATCH];
};

typedef void sl_batch_fn(void *arg, struct sl_batch *batch);

/*
 * About one request that a handler has and that is not replied to yet; `arg` of the options. Called
 * by the I/O thread (with `inline_handler`: by the one that polls), so not for long and possibly
 * while the handler runs, even before it has come to this request. The request is valid until the
 * call returns, even if another thread replies meanwhile. It may be replied to from within.
 */
typedef void sl_request_fn(void *arg, struct sl_request_view *rq);

/*
 * Streams: requests of routes with `stream = yes`, gRPC calls of all four kinds among them, which
 * are not batched and may be answered while they come. Each of these is called by the I/O thread
 * (with `inline_handler`: by the one that polls), so not for long, in this order, and not again once
 * the request was replied to (sl_reply without `more`, sl_reply_error) or after `cancel`:
 *
 *   open -> (data* | end | cancel)     sl_reply(.more = true)* and the last one, at any time
 *
 * One whose client asks to go on in another protocol (WebSocket; the route says which, by `upgrade`)
 * has its name as the header `upgrade`. A first part with status 101 and `more` agrees, where
 * `upgrades` is set; then both sides' bytes go through as they are until either ends its own. Any
 * other status refuses it. Where `upgrades` is not set it is a request like any other: its end comes
 * at once.
 *
 * `open` shows the request without a body. What it is about stays valid until it was replied to;
 * bytes are valid during the call. All four must be set.
 */
struct sl_stream_ops {
	void (*open)(void *arg, struct sl_request_view *rq);
	/*
	 * Bytes of a message, of which `left` are still to come; messages are those of gRPC, and in
	 * HTTP whatever has come together. A message may have no bytes.
	 */
	void (*data)(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
		     size_t left);
	/* The client sends no more. */
	void (*end)(void *arg, struct sl_request_view *rq);
	/* Nobody waits any more, once; it must be replied to all the same. */
	void (*cancel)(void *arg, struct sl_request_view *rq);
};

struct sl_backend_options {
	const char *listen; /* "shm:///path", "rdma://addr:port", "rdma+ud://addr:port" (virtual
			   connections), "tcp://host:port"; several: by commas */
	sl_batch_fn *handle;
	void *arg;
	unsigned max_batch;   /* largest batch for one call; 0: 256 */
	const char *key_file; /* of rdma:// and tcp:// peers; NULL: shm only */
	bool busy_poll; /* never sleep: lowest latency for a core of its own (two, not inline) */
	uint32_t bulk_ring_len; /* bytes per channel and direction; 0: 4 MiB */
	bool inline_handler;    /* no I/O thread, see above; its clock is the handler's */
	/* Nobody waits any more, once per request; it must be replied to all the same. May be NULL.
	 * A deadline that passes does not call it. */
	sl_request_fn *cancelled;
	/* After sl_reply() said -EAGAIN: there is room again, or nobody waits for it any more, which that
	 * part then learns: try it again. A stream whose client has gone has `cancel` for it. May be NULL. */
	sl_request_fn *writable;
	/* NULL: streams are answered with SL_RPC_NO_METHOD. */
	const struct sl_stream_ops *on_stream;
	bool upgrades; /* `on_stream` knows requests that would go on in another protocol, see there */
	/*
	 * gRPC: compressed messages come, as they are: by the coding that the header grpc-encoding names,
	 * or by one that it does not say, if a client is wrong; `compressed` of the request tells them
	 * from others. Their plain length may be any number of times their own: nobody has looked.
	 * Otherwise calls that have such a message end with UNIMPLEMENTED and the offer of `identity`;
	 * a stream that is under way then learns it by `cancel`.
	 */
	bool compressed;
	/*
	 * Where a request's body goes, straight from the ring: rq->body_len bytes of the program's own,
	 * say a row of what a GPU copies from, aligned as it likes. NULL: the SDK's memory. Called as
	 * sl_request_fn is, for each request with a body but streams, when its first bytes have come;
	 * all else about it is known, and `own` may be set. It must not be replied to in there.
	 *
	 * `unplace` gives the bytes back (rq->body), once for each place: when the request is replied to,
	 * or ends without a handler having seen it. Both are set, or none.
	 */
	void *(*place)(void *arg, struct sl_request_view *rq);
	sl_request_fn *unplace;
	/*
	 * rdma://: bodies that sl_reply_ref() lends from there are read by the device where they lie; it is
	 * registered with each one that gateways come by, until sl_backend_close(). Others are copied once,
	 * as over shm:// and tcp://. NULL: none.
	 */
	void *memory;
	size_t memory_len;
};

/*
 * Opens the listening endpoints. Returns NULL and one line in err (expected, found, what to do).
 * A stale socket file of a dead process is replaced; that of a live one is an error.
 */
struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *err, size_t err_len);

/*
 * Serves until sl_backend_stop(), which may be called from a signal handler or any thread: then
 * takes no more gateways, asks those there are to send no more, answers what has come (5 s at the
 * most), and returns 0. A second stop ends at once. Negative: -EDEADLK as of sl_backend_poll(), or
 * why there is no I/O thread.
 */
int sl_backend_run(struct sl_backend *b);
void sl_backend_stop(struct sl_backend *b);

/*
 * For programs with a loop of their own: handles a batch, waiting for one wait_us microseconds at
 * the most, with `inline_handler` also until something else was called (a stream's, `cancelled`,
 * `writable`), so that a loop says at once what that gave it to say. Batches handled; -EDEADLK from
 * within a handler or an upcall, and while another thread is in it or in sl_backend_run(); otherwise
 * negative: why there is no I/O thread.
 */
int sl_backend_poll(struct sl_backend *b, unsigned wait_us);

/*
 * For loops around epoll or the like, by the thread that polls: once sl_backend_poll(b, 0) returns
 * 0, sl_backend_arm() (1), sleep until sl_backend_fd() is readable, sl_backend_disarm(), and poll
 * again. 0 of arm: there is something to do already, so disarm and poll; negative: why there is no
 * I/O thread. The descriptor is the SDK's, for waiting only. With `inline_handler` poll at least
 * once per second besides: gateways' silence is found then.
 */
int sl_backend_fd(const struct sl_backend *b);
int sl_backend_arm(struct sl_backend *b);
void sl_backend_disarm(struct sl_backend *b);

/*
 * False: gateways finish what they have sent and go elsewhere, and those that connect are told so
 * again, until true. Gateways keep their connections. What comes meanwhile is handled as ever. Any
 * thread; at first it is true.
 */
void sl_backend_ready(struct sl_backend *b, bool ready);
/*
 * True: as if it was not ready, and gateways close their connections once their requests have ended.
 * For a program with a loop of its own that is about to end. False takes it back. Any thread.
 */
void sl_backend_leave(struct sl_backend *b, bool leave);

/*
 * Stops accepting, answers what is left, as said above, frees. Not from within a handler or an
 * upcall, nor while a thread is in sl_backend_run() or sl_backend_poll(). NULL does nothing. What was
 * lent comes back by it; a `done` may still reply to what is open, which says -ECANCELED.
 */
void sl_backend_close(struct sl_backend *b);

/*
 * A header or gRPC metadata that the route forwards; name in lower case. Returns false if absent.
 */
bool sl_request_header(const struct sl_request_view *rq, const char *name, const char **value,
		       size_t *value_len);
/* The same of what a client has sent behind the body of a stream. */
bool sl_request_trailer(const struct sl_request_view *rq, const char *name, const char **value,
			size_t *value_len);

/* True once the client has gone or the deadline has passed: the result will not be used. */
bool sl_request_cancelled(const struct sl_request_view *rq);

/*
 * Of a stream: no `data` and `end` from the next one on, until resume. Meanwhile its client may send
 * SL_RPC_PART_WINDOW bytes more, or what it has been given, which are kept. Any thread, before it is replied to.
 */
void sl_stream_pause(struct sl_request_view *rq);
void sl_stream_resume(struct sl_request_view *rq);

/*
 * Of a stream that `expects`, which those of routes with `continue = backend` do whose client has said
 * so: its client is told to send the body, by status 100 (Continue). Without it such a client sends
 * none before a reply, or only after a while of its own choosing. Any thread that may reply. 0, also
 * if nobody waits any more; -EINVAL: it does not expect that, has been told, or its reply has begun;
 * -EAGAIN: no memory, `writable` is called when there is some again. It stays open in any case.
 */
int sl_stream_go_on(struct sl_request_view *rq);

struct sl_header_arg {
	const char *name; /* lower case */
	const void *value;
	size_t value_len;
	bool trailer;
};

struct sl_reply_args {
	const void *body;
	size_t body_len;
	const char *content_type; /* NULL: none */
	uint16_t status;          /* HTTP status; 0: 200 */
	uint16_t grpc_status;     /* for gRPC clients */
	const char *grpc_message;
	const struct sl_header_arg *headers;
	unsigned header_cnt;
	/*
	 * A further part of this reply follows (gRPC server streaming: a message each). Headers,
	 * content type and HTTP status are taken from the first part; gRPC status, message and
	 * trailers from the last one, which is the one without `more`.
	 */
	bool more;
	/*
	 * gRPC: this part carries no message; `body` is ignored. The last part of a reply whose grpc_status
	 * is an error carries none either if its body is empty; any other body reaches the client in front
	 * of the status.
	 */
	bool no_message;
	/*
	 * gRPC: this message is compressed, by a coding that the client's grpc-accept-encoding has and
	 * the header grpc-encoding of this reply names. Of one in pieces, as its first says.
	 */
	bool compressed;
	/* The length of the whole body is `total_len`: of a reply in parts, or of that which a HEAD
	 * asks for. A reply that ends short of it is broken off. */
	bool has_total;
	/*
	 * gRPC: this part begins a message of `total_len` bytes. The next ones, each with `more`, bring
	 * the rest of it and nothing else, before anything but an error can follow.
	 */
	bool in_pieces;
	uint64_t total_len;
	const char *reason; /* HTTP/1.1: what follows the status; NULL: the usual text */
};

/*
 * Replies to one request; thread-safe. 0, or
 *   -EMSGSIZE   body exceeds SL_RPC_MAX_MESSAGE or the headers SL_RPC_MAX_META: stays open
 *   -EINVAL     a piece of a message without bytes, beyond its end, or without `more`: stays open
 *   -ECANCELED  nobody waits any more: it is closed
 *   -EAGAIN     with `more`: earlier parts wait for a slow client or gateway, this one was not taken:
 *               stays open; `writable` is called when there is room again
 *   -EINVAL     status 101 without `upgrades`: stays open
 *   -ENOBUFS    no memory, without `more`: it is closed; if it is idempotent it is tried elsewhere,
 *               otherwise, since it may have been carried out, its client told that it is lost
 * What a client has not taken is not sent to its gateway beyond SL_RPC_INITIAL_WINDOW bytes, of
 * most streams SL_RPC_STREAM_WINDOW: the rest waits here. A part is taken if those before it fit, so what
 * waits of one request is a message at the most, and its last one, which is always taken; and if not too
 * much of all of them is on its way.
 *
 * Copies of replies of one gateway take no more memory than is left of 512 MiB. Where they have more than
 * half of that, whole replies whose clients have taken nothing for a second or more end as SL_RPC_LOST,
 * those that have waited for longest first.
 *
 * They leave at once; with `inline_handler`, from within the handler, when it returns, or after 50 us
 * if it takes longer, and those with `more` at once.
 */
int sl_reply(struct sl_request_view *rq, const struct sl_reply_args *args);

/*
 * Tells the client something before the reply to its request, as 103 (Early Hints, RFC 8297): `status`,
 * 102 to 199, and `headers`; whatever else `args` say is ignored. A hint: gRPC, HTTP/1.0 and a client
 * that does not read have no place for it. Thread-safe, and as `sl_reply` in when it leaves. 0, also if
 * nobody waits any more; -EINVAL: another status, the reply has begun, or there were SL_RPC_MAX_INTERIM;
 * -EMSGSIZE: more than SL_RPC_MAX_META bytes; -ENOBUFS: no memory. It stays open in any case.
 */
int sl_reply_interim(struct sl_request_view *rq, const struct sl_reply_args *args);

/*
 * The same without a copy of the body, which stays as it is until `done`: once for each call that
 * returned 0, as soon as nothing reads the bytes any more, be it because nobody waits for them. It
 * comes as sl_request_fn does, possibly before sl_reply_ref() returns, at the latest in
 * sl_backend_close(). If the body lies where its request was placed, both are to be waited for.
 */
typedef void sl_reply_done_fn(void *arg);
int sl_reply_ref(struct sl_request_view *rq, const struct sl_reply_args *args,
		 sl_reply_done_fn *done, void *arg);

int sl_reply_error(struct sl_request_view *rq, enum sl_rpc_status status);

struct sl_backend_stats {
	uint64_t requests, batches, replies, cancelled, expired, bad_messages;
	uint64_t refused; /* peers without a channel: silent, of another release, without the key */
	uint32_t channels, open_requests, largest_batch;
};
/* Any thread; a millisecond old at the most. With `inline_handler`: the thread that polls; exact. */
void sl_backend_stats(struct sl_backend *b, struct sl_backend_stats *out);

#ifdef __cplusplus
}
#endif
#endif
