/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls, connections and state of a server, for any transport.
 *
 * In each turn the owner calls origin_timers_run(), origin_server_pump() for each server,
 * origin_conns_write() and, last, origin_conns_free().
 */
#ifndef SL_ORIGIN_SERVER_H
#define SL_ORIGIN_SERVER_H

#include "origin/origin.h"

enum { ORIGIN_TRIES_MAX = 3, ORIGIN_MUTE_MAX = 6 };

struct origin_owner {
	/* As the functions in sluice/backend.h. */
	int (*reply)(struct sl_request_view *rq, const struct sl_reply_args *args);
	int (*reply_error)(struct sl_request_view *rq, enum sl_rpc_status status);
	int (*reply_interim)(struct sl_request_view *rq, const struct sl_reply_args *args);
	int (*send_continue)(struct sl_request_view *rq);
	void (*pause)(struct sl_request_view *rq);
	void (*resume)(struct sl_request_view *rq);
	/* Starts a connection attempt. False: the failure was reported. */
	bool (*connect)(struct origin_server *s);
	/* For the retry timer: looks the address up, or calls origin_server_try(). */
	void (*retry)(struct origin_server *s);
	/* Releases the transport of a closed connection; its memory stays until free(). */
	void (*gone)(struct origin_conn *c);
	void (*free)(struct origin_conn *c);
	/* `told_unready` has changed. */
	void (*ready)(struct origin_server *s);
	/* Publishes `why`. */
	void (*explain)(const struct origin_server *s);
	/* Writes the address for the log, or "". */
	void (*address)(const struct origin_server *s, char *to, size_t len);
	/* Returns the limit of streams without a place per client address. */
	uint32_t (*streams_max)(const struct origin_server *s);
	uint32_t conns_max;
};

/* Initializes a zeroed server. `concurrency`: 0: learnt. */
void origin_server_init(struct origin_server *s, struct origin *o, const struct origin_proto *proto,
			uint32_t concurrency);
/* The server is down, for the reason `why`, until its first connection. */
void origin_server_begin(struct origin_server *s, const char *why);
/* Refuses calls and closes connections; origin_conns_free() follows. */
void origin_server_fini(struct origin_server *s, const char *why);
/* Assigns waiting calls and opens connections. Once per turn, and again if o->pump is set. */
void origin_server_pump(struct origin_server *s);
/* Returns true if the server accepts connections and replies. */
bool origin_server_is_up(const struct origin_server *s);
/* A connection attempt succeeded. */
void origin_server_up(struct origin_server *s);
/* One failed: retries later, and is down without connections: refuses waiting calls. */
void origin_server_down(struct origin_server *s, const char *why);
/* A health check succeeded. `reaches`: on the way of calls, so that a server that is down is up. */
void origin_server_healthy(struct origin_server *s, bool reaches);
/* Checks failed, for the reason `why`: refuses waiting calls. */
void origin_server_unhealthy(struct origin_server *s, const char *why);
/* Schedules a connection attempt for waiting calls. */
void origin_server_retry(struct origin_server *s);
/* No descriptors or ports: calls wait for connections. */
void origin_server_short(struct origin_server *s, const char *why);
/* Connects if the server is down, or for resting calls. */
void origin_server_try(struct origin_server *s);
/* A connection with a call ended without input. After ORIGIN_MUTE_MAX of them: is down. */
void origin_server_mute(struct origin_server *s, const char *why);
/* Input came: the server is not mute. */
void origin_server_spoke(struct origin_server *s);
/* Another address: retries at once. */
void origin_server_moved(struct origin_server *s);

extern const struct origin_ops origin_call_ops;

/* Creates a call that waits for a connection. Returns NULL at `calls_max`. */
struct origin_call *origin_call_new(struct origin_server *s, struct sl_request_view *rq,
				    bool stream);
/* Takes a part of a stream's request, with `left` of its message. May free the call. */
void origin_call_data(struct origin_call *call, const void *bytes, size_t len, size_t left);
/* Takes the end. May free the call. */
void origin_call_data_end(struct origin_call *call);
/* Ends a call with SL_RPC_REFUSED: the gateway tries another backend; UNANSWERED if repeated. */
void origin_call_refuse(struct origin_call *call);
/* Ends a call with an error, and frees it. */
void origin_call_fail(struct origin_call *call, enum sl_rpc_status status);
/* Requeues resting calls. */
void origin_calls_rested(struct origin_timer *rest);
/* Gives a call that was taken from the queue to a connection. */
void origin_call_assign(struct origin_call *call, struct origin_conn *c);

/* Initializes and counts a zeroed connection, whose server must be set. */
void origin_conn_init(struct origin_conn *c);
/* Starts the deadline of the attempt. */
void origin_conn_connecting(struct origin_conn *c);
/* The attempt succeeded. Returns false if the connection was closed. */
bool origin_conn_up(struct origin_conn *c);
/* It failed: closes the connection, then does as origin_server_down(). */
void origin_conn_failed(struct origin_conn *c, const char *why);
/* Closes a connection; `why` is for the log and its lost calls. */
void origin_conn_close(struct origin_conn *c, const char *why);
/* The server has ended the connection, no longer a sign that it is up. */
void origin_conn_ended(struct origin_conn *c);
/* Called by protocols with each input. */
void origin_conn_spoke(struct origin_conn *c);
/* The server refused the connection before it read a call: its calls are refused as unread. */
void origin_conn_refused(struct origin_conn *c, const char *why);
/* Closes a connection that its server ends. `unused`: it never had a call; the next one waits. */
void origin_conn_end_idle(struct origin_conn *c, const char *why, bool unused);
/* Updates the list of connections with room. */
void origin_conn_room(struct origin_conn *c);
/* Members of struct origin_io. Schedules origin_conn_write(). */
void origin_conn_write_soon(struct origin_conn *c);
/* Starts and stops the idle time, after which the connection is closed. */
void origin_conn_idle(struct origin_conn *c);
void origin_conn_busy(struct origin_conn *c);
/* The client has room again for the reply. */
void origin_conn_resume(struct origin_call *call);
/* Writes pending output now. */
void origin_conn_write(struct origin_conn *c);
/* Writes scheduled output. */
void origin_conns_write(struct origin *o);
/* Frees closed connections. */
void origin_conns_free(struct origin *o);

#endif
