/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls, connections and state of a server, for any transport and any kind of client:
 *
 *   owner -- call_new, data, cancel --> call.c: waits -> server.c: pump -> conn.c -> protocol
 *   owner <- reply, ready ------------- call.c <------------------------------------'
 *
 * The owner (struct origin_owner) passes on replies and opens connections. In each turn it calls
 * origin_timers_run(), origin_server_pump() for each server, origin_conns_write() and, last,
 * origin_conns_free().
 */
#ifndef SL_ORIGIN_SERVER_H
#define SL_ORIGIN_SERVER_H

#include "origin/origin.h"

enum { ORIGIN_TRIES_MAX = 3 };

struct origin_owner {
	/* Answers of requests; contracts as of the functions in sluice/backend.h. */
	int (*reply)(struct sl_request_view *rq, const struct sl_reply_args *args);
	int (*reply_error)(struct sl_request_view *rq, enum sl_rpc_status status);
	int (*reply_interim)(struct sl_request_view *rq, const struct sl_reply_args *args);
	int (*send_continue)(struct sl_request_view *rq);
	void (*pause)(struct sl_request_view *rq);
	void (*resume)(struct sl_request_view *rq);
	/* Starts a connection attempt. Returns false after it has reported the failure. */
	bool (*connect)(struct origin_server *s);
	/* Called when the retry timer ends: look-up of the address, or origin_server_try(). */
	void (*retry)(struct origin_server *s);
	/* The connection is closed: releases its transport. The memory stays until free(). */
	void (*gone)(struct origin_conn *c);
	void (*free)(struct origin_conn *c);
	/* The server takes calls, or takes none: `told_unready`. */
	void (*ready)(struct origin_server *s);
	/* Publishes `why`. */
	void (*explain)(const struct origin_server *s);
	/* Writes the address for the log, or "" if it is unknown. */
	void (*address)(const struct origin_server *s, char *to, size_t len);
	/* Returns how many streams without a place a client address may have. */
	uint32_t (*streams_max)(const struct origin_server *s);
	uint32_t conns_max; /* per server */
};

/* server.c */
/* Initializes a zeroed server that is not ready. `concurrency`: 0: learnt. */
void origin_server_init(struct origin_server *s, struct origin *o, const struct origin_proto *proto,
			uint32_t concurrency);
/* The server is down until its first connection. `why` says so. */
void origin_server_begin(struct origin_server *s, const char *why);
/* Refuses all calls and closes all connections. */
void origin_server_fini(struct origin_server *s, const char *why);
/* Assigns waiting calls and opens connections. Called at the end of a turn. */
void origin_server_pump(struct origin_server *s);
/* Called when a connection attempt succeeded or failed. */
void origin_server_up(struct origin_server *s);
void origin_server_down(struct origin_server *s, const char *why);
/* Results of health checks. */
void origin_server_healthy(struct origin_server *s);
void origin_server_unhealthy(struct origin_server *s, const char *why);
/* Schedules a connection attempt for waiting calls. */
void origin_server_retry(struct origin_server *s);
/* This host has no descriptor or port left: calls wait for existing connections. */
void origin_server_short(struct origin_server *s, const char *why);
/* Opens a connection if the server is down, or for resting calls. */
void origin_server_try(struct origin_server *s);
/* The server has another address: forgets the back-off, and retries at once. */
void origin_server_moved(struct origin_server *s);

/* call.c: upcalls of protocols. */
extern const struct origin_ops origin_call_ops;

/* Creates a call that waits for a connection. Returns NULL at `calls_max`. */
struct origin_call *origin_call_new(struct origin_server *s, struct sl_request_view *rq,
				    bool stream);
/* Parts of a stream's request, and its end. May free the call. */
void origin_call_data(struct origin_call *call, const void *bytes, size_t len, size_t left);
void origin_call_data_end(struct origin_call *call);
/* Ends a call with SL_RPC_REFUSED: the gateway tries another backend. */
void origin_call_refuse(struct origin_call *call);
/* Ends a call with an error: cancellation, deadline or a failure. */
void origin_call_fail(struct origin_call *call, enum sl_rpc_status status);
/* Ends the rest of calls: they wait again. */
void origin_calls_rested(struct origin_timer *rest);
/* Assigns the call to a connection. */
void origin_call_assign(struct origin_call *call, struct origin_conn *c);

/* conn.c */
/* Initializes a zeroed connection, whose server must be set, and counts it. */
void origin_conn_init(struct origin_conn *c);
/* The transport connects: sets the deadline. */
void origin_conn_connecting(struct origin_conn *c);
/* The transport is connected. Returns false if the connection was closed. */
bool origin_conn_up(struct origin_conn *c);
/* The transport could not connect. */
void origin_conn_failed(struct origin_conn *c, const char *why);
/* Closes a connection and returns its calls. `why` is for the log and lost calls. */
void origin_conn_close(struct origin_conn *c, const char *why);
/* Updates the list of connections with room. */
void origin_conn_room(struct origin_conn *c);
/* Members of struct origin_io. */
void origin_conn_write_soon(struct origin_conn *c);
void origin_conn_idle(struct origin_conn *c);
void origin_conn_busy(struct origin_conn *c);
/* Lets the protocol write now. */
void origin_conn_write(struct origin_conn *c);
/* Writes what was scheduled. Called at the end of a turn. */
void origin_conns_write(struct origin *o);
/* Frees closed connections. */
void origin_conns_free(struct origin *o);

#endif
