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
 * Servers: a client keeps one connection to each endpoint and reconnects with back-off. A call goes
 * to the less loaded of two connected servers drawn at random. Without a connected server it waits
 * for one, for at most `connect_timeout_ms`.
 *
 * Retries: as those of the gateway. A call that no server can have executed is sent to another
 * server. A call that a server may have executed is repeated at most twice, and only with
 * `idempotent`. Calls whose reply has begun are not repeated.
 *
 * Errors: functions return 0 or a negative errno value. After an error nothing has happened, and
 * the caller still owns what it passed. Each accepted call ends exactly once, with `error`:
 *   0             the server's reply is complete; see its `status` or `grpc_status`
 *   -EHOSTUNREACH no server was connected in time; not executed
 *   -EBUSY        servers refused it, because of overload or shutdown; not executed
 *   -ETIMEDOUT    the deadline has passed
 *   -ECONNRESET   the connection ended; may have been executed
 *   -EPROTO       the server broke the protocol; may have been executed
 *   -EBADMSG      the server could not parse the call
 *   -ENOSYS       the server does not support such calls, e.g. streams
 *   -EMSGSIZE     the reply is longer than `max_reply`, or the server accepts no such length
 *   -EREMOTEIO    the server failed
 *   -ECANCELED    sl_rpc_client_cancel() or sl_rpc_client_close()
 *   -ENOMEM       no memory for the reply
 *
 * Threads: all functions may be called from any thread, unless stated otherwise. Callbacks run in
 * the client's own thread; with `own_loop`, in the thread that calls sl_rpc_client_process(). They
 * must be short. They may submit and cancel, but not wait for calls or close the client.
 *
 * Structs begin with `size`, which the program sets to sizeof(struct). Members that the library
 * does not know must be zero (-E2BIG).
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
	 * Servers, separated by commas: "shm:///path", "rdma://addr:port", "rdma+ud://addr:port"
	 * (virtual connections), "tcp://host:port". At most 4096.
	 */
	const char *endpoints;
	/*
	 * Instead of `endpoints`: a file with one endpoint per line; '#' begins a comment. It is
	 * read again within a second when it has changed. A file with an error is not applied.
	 */
	const char *members_file;
	const char *key_file;        /* shared key of rdma:// and tcp:// peers; NULL: shm only */
	unsigned connect_timeout_ms; /* 0: 5000 */
	unsigned max_calls;          /* calls in progress; 0: 16384; at most 1048576 */
	uint64_t max_reply;          /* bytes of a reply without on_data; 0: 64 MiB */
	bool own_loop;               /* no thread: the program calls sl_rpc_client_process() */
	bool busy_poll;              /* the client's thread never sleeps, and uses a core */
	uint32_t listen_user;        /* shm: user that may listen, besides root and ours */
	/*
	 * Called with a line for people when an attempt to connect fails, at most once per second
	 * and server. Runs in a thread of the client. May be NULL.
	 */
	void (*on_connect_error)(void *arg, const char *line);
	void *arg;
};

/*
 * Opens a client and begins to connect, without waiting. Returns NULL and one line in `err` on
 * error.
 */
struct sl_rpc_client *sl_rpc_client_open(const struct sl_rpc_client_options *opt, char *err,
					 size_t err_len);

/*
 * Ends all calls with -ECANCELED and frees the client; NULL is allowed. Blocks until attempts to
 * connect have ended, for at most connect_timeout_ms. No other thread may use the client.
 */
void sl_rpc_client_close(struct sl_rpc_client *c);

/*
 * Waits until a server is connected. Returns 0; or -ETIMEDOUT, and in `err` the last error of
 * connecting; or -EDEADLK as sl_rpc_client_call(). Other threads than that of an own loop only wait.
 */
int sl_rpc_client_wait_connected(struct sl_rpc_client *c, unsigned timeout_ms, char *err,
				 size_t err_len);

/*
 * A reply, or its state so far. Views are not NUL-terminated; absent ones have length 0. In a
 * callback they are valid until it returns. sl_rpc_client_call() returns a copy.
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
	uint32_t service_us; /* computing time in the server */
	uint32_t attempts;   /* servers that the call was sent to */
};

struct sl_rpc_call_args {
	size_t size;
	const char *method;       /* HTTP; NULL: POST */
	const char *path;         /* gRPC: "Service/Method" */
	const char *query;        /* NULL: none */
	const char *authority;    /* "host:port"; NULL: none */
	const char *content_type; /* NULL: none */
	const struct sl_header_arg *headers;
	unsigned header_cnt;
	const void *body; /* copied */
	size_t body_len;  /* at most SL_RPC_MAX_MESSAGE; a stream has none */
	bool grpc;
	bool idempotent; /* may be executed twice */
	/*
	 * SL_CLASS_LATENCY, _NORMAL or _BULK; 0: normal. More urgent calls overtake others on the
	 * way to the server, also those that are partly sent.
	 */
	uint8_t priority;
	uint64_t deadline_us; /* from submission on; 0: none */
	/*
	 * A stream: sl_rpc_stream_send() sends its messages, while replies arrive by on_data. A
	 * server needs `on_stream`, or is an agent.
	 */
	bool stream;
	void *user_data;
	/*
	 * Bytes of the reply, as they arrive. `left` bytes of the same message follow. `reply` has
	 * status and headers. NULL: the reply is collected.
	 */
	void (*on_data)(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply,
			const void *bytes, size_t len, size_t left);
	/* After -EAGAIN of sl_rpc_stream_send(): there is room again. May be NULL. */
	void (*on_writable)(void *user_data, uint64_t call);
	/* The call has ended. Called exactly once, and last. */
	void (*on_end)(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply);
};

/*
 * Begins `cnt` calls, at most SL_RPC_MAX_BATCH. Calls that go to one server travel in one message
 * per class, and reach its handler as a batch. Returns 0 and their numbers in `calls` (may be NULL);
 * -EINVAL for wrong arguments, -EMSGSIZE for a body or headers that are too long, -EAGAIN above
 * max_calls, -ENOMEM, -ESHUTDOWN while the client is closed. The arguments are copied.
 */
int sl_rpc_client_submit(struct sl_rpc_client *c, const struct sl_rpc_call_args *args, unsigned cnt,
			 uint64_t *calls);

/* Ends a call, with -ECANCELED unless it has just ended. Ignores unknown numbers. */
void sl_rpc_client_cancel(struct sl_rpc_client *c, uint64_t call);

/*
 * Makes a call and waits for its end. Callbacks of `args` are not called. Returns the call's
 * error, or that of sl_rpc_client_submit(). After 0, *reply belongs to the caller; otherwise it is
 * NULL. With own_loop, the calling thread runs the loop. -EDEADLK: called within a callback, or while
 * another thread runs the own loop.
 */
int sl_rpc_client_call(struct sl_rpc_client *c, const struct sl_rpc_call_args *args,
		       struct sl_rpc_call_reply **reply);
/*
 * Same for several calls. Returns 0 when all have ended: then replies[0..cnt-1] belong to the
 * caller, and the `error` of each says how it ended.
 */
int sl_rpc_client_call_batch(struct sl_rpc_client *c, const struct sl_rpc_call_args *args,
			     unsigned cnt, struct sl_rpc_call_reply **replies);
/* Frees a reply of these two; NULL is allowed. */
void sl_rpc_call_reply_free(struct sl_rpc_call_reply *reply);

/*
 * Gets a header, trailer or gRPC metadata of a reply; `name` is in lower case. Returns false if
 * absent. *value points into the reply.
 */
bool sl_rpc_call_reply_header(const struct sl_rpc_call_reply *reply, const char *name,
			      const char **value, size_t *value_len);

/*
 * Sends a message of a stream, which is copied; `last` ends the client's side. A last message
 * without bytes only ends it. Returns 0; -EAGAIN if 64 KiB wait already (on_writable follows);
 * -EPIPE if the call has ended, is no stream, or its last message was sent; -EMSGSIZE above
 * SL_RPC_MAX_MESSAGE; -ENOMEM.
 */
int sl_rpc_stream_send(struct sl_rpc_client *c, uint64_t call, const void *bytes, size_t len,
		       bool last);
/*
 * Pause and resume on_data. While paused, the server may still send the credit that it has; the
 * bytes are stored. on_end waits for them, but not after an error.
 */
void sl_rpc_stream_pause(struct sl_rpc_client *c, uint64_t call);
void sl_rpc_stream_resume(struct sl_rpc_client *c, uint64_t call);

/*
 * Own loop, in one thread at a time: sl_rpc_client_prepare(), wait until sl_rpc_client_fd() is
 * readable or the time has passed, sl_rpc_client_process(), and so on. The descriptor stays the same
 * and belongs to the client; it may only be waited for.
 *
 * sl_rpc_client_prepare() sends what was submitted. *timeout_us: how long to wait, 0: not at all;
 * UINT64_MAX: without limit. sl_rpc_client_process() receives, sends and runs callbacks. It returns
 * the number of events, or -EDEADLK within a callback or while another thread runs the loop. Both
 * return -EINVAL without own_loop.
 */
int sl_rpc_client_fd(const struct sl_rpc_client *c);
int sl_rpc_client_prepare(struct sl_rpc_client *c, uint64_t *timeout_us);
int sl_rpc_client_process(struct sl_rpc_client *c);

struct sl_rpc_client_stats {
	size_t size;
	uint64_t calls;          /* accepted */
	uint64_t replies;        /* ended with error 0 */
	uint64_t failures;       /* ended with another error */
	uint64_t retries;        /* sent again */
	uint64_t connects;       /* connections that were established */
	uint64_t connect_errors; /* attempts that failed */
	uint32_t open_calls;
	uint32_t servers, servers_connected;
};
/* Gets statistics; out->size must be set. */
void sl_rpc_client_stats(const struct sl_rpc_client *c, struct sl_rpc_client_stats *out);

#ifdef __cplusplus
}
#endif
#endif
