/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SDK for backends: a program that computes replies to batches of requests.
 *
 *   static void handle(void *arg, struct sl_batch *batch) {
 *           for (unsigned i = 0; i < batch->count; i++)
 *                   sl_reply(batch->requests[i], &(struct sl_reply_args){ .body = ..., .body_len =
 * ... });
 *   }
 *   int main(void) {
 *           struct sl_backend_options opt = { .listen = "shm:///run/sluice/echo.sock", .handle =
 * handle }; struct sl_backend *b = sl_backend_open(&opt, err, sizeof err); return b ?
 * sl_backend_run(b) : 1;
 *   }
 *
 * Ownership: a request and the bytes that it points to belong to the handler until the request is
 * replied to (sl_reply with `more` unset, sl_reply_error) by any thread, at once or later, in any
 * order. A request must be replied to exactly once; sl_backend_close() answers what is left with
 * SL_RPC_REFUSED. Reply bytes are copied before sl_reply() returns. A request's bytes are a private
 * copy: a gateway cannot change them while they are parsed. After sl_backend_close() no request may
 * be used.
 *
 * Requests from all gateways and workers that have arrived are merged into one batch of at most
 * `max_batch`, in order of arrival. The handler runs on the thread that called sl_backend_run() or
 * sl_backend_poll(); while it computes, further requests collect for the next batch.
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
	uint8_t protocol;    /* enum sl_proto: HTTP, gRPC, datagram */
	uint8_t priority;    /* enum sl_rpc_class */
	uint32_t budget_us;  /* time left when it was sent; 0: none */
	uint64_t arrived_ns; /* CLOCK_MONOTONIC of this host */
	const uint8_t *meta; /* all metadata fields, for sl_request_header() */
	uint16_t meta_len;
};

struct sl_batch {
	unsigned count;
	struct sl_request_view *requests[SL_RPC_MAX_BATCH];
};

typedef void sl_batch_fn(void *arg, struct sl_batch *batch);

struct sl_backend_options {
	const char *listen; /* "shm:///path", "rdma://addr:port", or both separated by a comma */
	sl_batch_fn *handle;
	void *arg;
	unsigned max_batch;     /* largest batch for one call; 0: 256 */
	const char *key_file;   /* shared key for rdma:// peers; NULL: shm only */
	bool busy_poll;         /* never sleep: lowest latency for a core of its own */
	uint32_t bulk_ring_len; /* bytes per channel and direction; 0: 4 MiB */
};

/*
 * Opens the listening endpoints. Returns NULL and one line in err (expected, found, what to do).
 * A stale socket file of a dead process is replaced; that of a live one is an error.
 */
struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *err, size_t err_len);

/*
 * Serves until sl_backend_stop(), which may be called from a signal handler: then takes no more
 * gateways, asks those there are to send no more, answers what has come (5 s at the most), and
 * returns 0. A second stop ends at once.
 */
int sl_backend_run(struct sl_backend *b);
void sl_backend_stop(struct sl_backend *b);

/* For programs with a loop of their own: serve what is there, at most wait_us for more. Returns
 * batches handled. */
int sl_backend_poll(struct sl_backend *b, unsigned wait_us);

/* Stops accepting, answers what is left with SL_RPC_REFUSED, frees. */
void sl_backend_close(struct sl_backend *b);

/* A header or gRPC metadata that the route forwards; name in lower case. Returns false if absent.
 */
bool sl_request_header(const struct sl_request_view *rq, const char *name, const char **value,
		       size_t *value_len);

/* True once the client has gone or the deadline has passed: the result will not be used. */
bool sl_request_cancelled(const struct sl_request_view *rq);

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
	bool no_message; /* gRPC: this part carries no message; `body` is ignored */
};

/*
 * Replies to one request; thread-safe. 0, or
 *   -EMSGSIZE   body exceeds SL_RPC_MAX_MESSAGE or the headers SL_RPC_MAX_META: stays open
 *   -ECANCELED  nobody waits any more: it is closed
 *   -EAGAIN     with `more`: replies wait for a slow gateway, the part was not taken: stays open
 *   -ENOBUFS    as before without `more`: it is closed, its client told to try elsewhere
 * From within the handler replies leave when it returns, or after 50 us if it takes longer; those
 * with `more` at once.
 */
int sl_reply(struct sl_request_view *rq, const struct sl_reply_args *args);
int sl_reply_error(struct sl_request_view *rq, enum sl_rpc_status status);

struct sl_backend_stats {
	uint64_t requests, batches, replies, cancelled, expired, bad_messages;
	uint32_t channels, open_requests, largest_batch;
};
void sl_backend_stats(const struct sl_backend *b, struct sl_backend_stats *out);

#ifdef __cplusplus
}
#endif
#endif
