/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client library: calls servers that use sluice/backend.h, and `sluice agent`, without a gateway.
 *
 *   int main(void) {
 *           struct sl_rpc_client_options opt = {.size = sizeof(opt),
 *                                               .endpoints = "shm:///run/sluice/echo.sock"};
 *           struct sl_rpc_call_args call = {.size = sizeof(call), .path = "/",
 *                                           .body = "hello", .body_len = 5};
 *           struct sl_rpc_call_reply *reply;
 *           char err[256];
 *           struct sl_rpc_client *c = sl_rpc_client_open(&opt, err, sizeof(err));
 *
 *           if (c && sl_rpc_client_call(c, &call, &reply) == 0) {
 *                   fwrite(reply->body, 1, reply->body_len, stdout);
 *                   sl_rpc_call_reply_free(reply);
 *           }
 *           sl_rpc_client_close(c);
 *   }
 *
 * Servers: a client keeps one connection to each endpoint, with back-off. A call goes to the less
 * loaded of two connected servers drawn at random, or waits for one, at most `connect_timeout_ms`.
 *
 * Retries: a call that no server can have executed is sent to another one. A call that may have
 * been executed is repeated at most twice, and only with `idempotent` and before its reply begins.
 *
 * Errors: functions return 0 or a negative errno value. After an error nothing has happened, and
 * the caller keeps what it passed. Each accepted call ends exactly once, with `error`:
 *   0             the server's reply is complete; see its `status` or `grpc_status`
 *   -EHOSTUNREACH no server was connected in time; not executed
 *   -EBUSY        servers refused it, because of overload or shutdown; not executed
 *   -ETIMEDOUT    the deadline has passed
 *   -ECONNRESET   the connection ended; may have been executed
 *   -EPROTO       the server broke the protocol; may have been executed
 *   -EBADMSG      the server could not parse the call
 *   -ENOSYS       unsupported by the server, e.g. streams
 *   -EMSGSIZE     the reply is longer than `max_reply`, or the server accepts no such length
 *   -EREMOTEIO    the server failed
 *   -ECANCELED    sl_rpc_client_cancel() or sl_rpc_client_close()
 *   -ENOMEM       no memory for the reply
 *
 * Threads: any thread may call any function, unless stated otherwise. Callbacks run in the client's
 * own thread, or that of sl_rpc_client_process(). They must be short. They may submit and cancel,
 * but not wait for calls or close the client.
 *
 * Structs begin with `size`: sizeof(struct). Members unknown to the library must be zero (-E2BIG).
 */
#ifndef SLUICE_CLIENT_H
#define SLUICE_CLIENT_H

#include <sluice/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct sl_rpc_client;

struct sl_rpc_client_options {
	size_t size;
	/*
	 * Separated by commas: "shm:///path", "rdma://addr:port", "rdma+ud://addr:port" (virtual
	 * connections), "tcp://host:port". At most 4096.
	 */
	const char *endpoints;
	/*
	 * Instead of `endpoints`: a file with one endpoint per line; '#' begins a comment. Changes
	 * are read within a second, unless they have errors.
	 */
	const char *members_file;
	const char *key_file;        /* shared key of rdma:// and tcp:// peers; NULL: shm only */
	unsigned connect_timeout_ms; /* 0: 5000 */
	unsigned max_calls;          /* calls in progress; 0: 16384; at most 1048576 */
	uint64_t max_reply;          /* bytes of a reply without on_data; 0: 64 MiB */
	bool own_loop;               /* the program calls sl_rpc_client_process() */
	bool busy_poll;              /* the client's thread never sleeps */
	uint32_t listen_user;        /* shm: user that may listen, besides root and ours */
	/*
	 * Reports failed connects, at most once per second and server, in a thread of the client.
	 * May be NULL.
	 */
	void (*on_connect_error)(void *arg, const char *line);
	void *arg;
};

/* Opens a client and begins to connect. Returns NULL and one line in `err` on error. */
struct sl_rpc_client *sl_rpc_client_open(const struct sl_rpc_client_options *opt, char *err,
					 size_t err_len);

/*
 * Ends all calls with -ECANCELED and frees the client, or NULL. Blocks while attempts to connect
 * last, at most connect_timeout_ms. No other thread may use the client.
 */
void sl_rpc_client_close(struct sl_rpc_client *c);

/*
 * Waits until a server is connected. Returns 0; -ETIMEDOUT, with the last error in `err`; or
 * -EDEADLK as sl_rpc_client_call(). With own_loop, threads other than the loop's only wait.
 */
int sl_rpc_client_wait_connected(struct sl_rpc_client *c, unsigned timeout_ms, char *err,
				 size_t err_len);

/*
 * A reply, or its state so far. Views are not NUL-terminated; absent ones have length 0. In a
 * callback they are valid until it returns.
 */
struct sl_rpc_call_reply {
	size_t size;
	int error;            /* see above */
	uint16_t status;      /* HTTP */
	uint16_t grpc_status; /* 0: OK, or not gRPC */
	const char *grpc_message, *content_type;
	uint16_t grpc_message_len, content_type_len;
	const void *body; /* empty with on_data */
	size_t body_len;
	const uint8_t *meta; /* for sl_rpc_call_reply_header() */
	size_t meta_len;
	uint32_t service_us; /* in the server */
	uint32_t attempts;   /* servers tried */
};

struct sl_rpc_call_args {
	size_t size;
	const char *method; /* HTTP; NULL: POST */
	const char *path;   /* gRPC: "Service/Method" */
	const char *query;
	const char *authority; /* "host:port" */
	const char *content_type;
	const struct sl_header_arg *headers;
	unsigned header_cnt;
	const void *body; /* copied */
	size_t body_len;  /* at most SL_RPC_MAX_MESSAGE; a stream has none */
	bool grpc;
	bool idempotent; /* may be executed twice */
	/*
	 * SL_CLASS_LATENCY, _NORMAL or _BULK; 0: normal. More urgent calls overtake others, also
	 * partly sent ones.
	 */
	uint8_t priority;
	uint64_t deadline_us; /* from submission on; 0: none */
	/*
	 * A stream of sl_rpc_stream_send() and on_data. A server needs `on_stream`, or is an agent.
	 */
	bool stream;
	void *user_data;
	/*
	 * Bytes of the reply; `left` more of the message follow. `reply` has status and headers.
	 * NULL: the reply is collected.
	 */
	void (*on_data)(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply,
			const void *bytes, size_t len, size_t left);
	/* There is room after -EAGAIN of sl_rpc_stream_send(). May be NULL. */
	void (*on_writable)(void *user_data, uint64_t call);
	/* Called exactly once, and last. */
	void (*on_end)(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply);
};

/*
 * Begins `cnt` calls, at most SL_RPC_MAX_BATCH, and copies the arguments. Calls to one server reach
 * its handler as a batch per class. Returns 0 and their numbers in `calls` (may be NULL); -EINVAL
 * for wrong arguments, -EMSGSIZE for a body or headers too long, -EAGAIN above max_calls, -ENOMEM,
 * -ESHUTDOWN while the client is closed.
 */
int sl_rpc_client_submit(struct sl_rpc_client *c, const struct sl_rpc_call_args *args, unsigned cnt,
			 uint64_t *calls);

/* Ends a call with -ECANCELED, unless it has just ended. Ignores unknown numbers. */
void sl_rpc_client_cancel(struct sl_rpc_client *c, uint64_t call);

/*
 * Makes a call and waits for its end, without callbacks. Returns the call's error, or that of
 * sl_rpc_client_submit(). After 0, *reply, a copy, belongs to the caller; otherwise it is NULL.
 * With own_loop, the calling thread runs the loop. -EDEADLK: within a callback, or while another
 * thread runs the loop.
 */
int sl_rpc_client_call(struct sl_rpc_client *c, const struct sl_rpc_call_args *args,
		       struct sl_rpc_call_reply **reply);
/*
 * Same for several calls. After 0, replies[0..cnt-1] belong to the caller; see the `error` of each.
 */
int sl_rpc_client_call_batch(struct sl_rpc_client *c, const struct sl_rpc_call_args *args,
			     unsigned cnt, struct sl_rpc_call_reply **replies);
/* Frees a reply of these two; NULL is allowed. */
void sl_rpc_call_reply_free(struct sl_rpc_call_reply *reply);

/*
 * Gets a header, trailer or gRPC metadata; `name` is in lower case. Returns false if absent. *value
 * points into the reply.
 */
bool sl_rpc_call_reply_header(const struct sl_rpc_call_reply *reply, const char *name,
			      const char **value, size_t *value_len);

/*
 * Copies and sends a message of a stream; `last` ends the client's side, without a message if
 * empty. Returns 0; -EAGAIN if 64 KiB wait already (on_writable follows); -EPIPE if the call has
 * ended, is no stream, or its last message was sent; -EMSGSIZE above SL_RPC_MAX_MESSAGE; -ENOMEM.
 */
int sl_rpc_stream_send(struct sl_rpc_client *c, uint64_t call, const void *bytes, size_t len,
		       bool last);
/*
 * Pause and resume on_data. While paused, bytes within the server's credit are stored. on_end waits
 * for them, but not after an error.
 */
void sl_rpc_stream_pause(struct sl_rpc_client *c, uint64_t call);
void sl_rpc_stream_resume(struct sl_rpc_client *c, uint64_t call);

/*
 * Own loop, in one thread at a time: prepare, wait for the descriptor to be readable or the time,
 * process. The client owns the descriptor, which stays the same and may only be waited for.
 *
 * sl_rpc_client_prepare() sends what was submitted. *timeout_us: time to wait; UINT64_MAX: no
 * limit. sl_rpc_client_process() receives, sends and runs callbacks. It returns the number of
 * events, or -EDEADLK within a callback or while another thread runs the loop. Both return -EINVAL
 * without own_loop.
 */
int sl_rpc_client_fd(const struct sl_rpc_client *c);
int sl_rpc_client_prepare(struct sl_rpc_client *c, uint64_t *timeout_us);
int sl_rpc_client_process(struct sl_rpc_client *c);

struct sl_rpc_client_stats {
	size_t size;
	uint64_t calls;   /* accepted */
	uint64_t replies; /* without error */
	uint64_t failures;
	uint64_t retries;
	uint64_t connects; /* established */
	uint64_t connect_errors;
	uint32_t open_calls;
	uint32_t servers, servers_connected;
};
/* Copies the counters. The caller sets out->size. */
void sl_rpc_client_stats(const struct sl_rpc_client *c, struct sl_rpc_client_stats *out);

#ifdef __cplusplus
}
#endif
#endif
