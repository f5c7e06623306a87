/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   any thread:     submit, cancel, send  -> [submitted, commands]      (lock)
 *   dialer threads: connect to servers    -> [dialed]                   (lock)
 *   loop thread:    all three -> waiting[class] -> session (rpc/rpc.h) -> callbacks
 *
 * The loop thread owns the session, `waiting`, and a call but for the members marked (lock). No
 * callback is made with the lock held. A call is freed with its last reference: one of `calls` until
 * its end, one of each flight that reads its bytes.
 */
#ifndef SL_SDK_CLIENT_INTERNAL_H
#define SL_SDK_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/list.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "sdk/client/members.h"
#include "sluice/client.h"

enum {
	SL_CL_DIALERS_MAX = 4,
	SL_CL_RETRIES_MAX = 2, /* attempts that a server may have executed, or refused */
	SL_CL_ELSEWHERE_MAX = 32,
	SL_CL_GROUP_MAX = 64,        /* calls submitted apart that share a message */
	SL_CL_UNSENT_MAX = 128,      /* messages of a class and server in the session */
	SL_CL_STREAM_OUT = 64 << 10, /* waiting bytes of a stream */
};

struct client_server {
	struct sl_list node;
	struct sl_list dialed; /* (lock) in `dialed`: `transport` is new */
	struct sl_rpc_client *client;
	char endpoint[SL_MEMBER_LEN];
	struct sl_rpc_channel *channel;
	struct sl_transport *transport; /* (lock) */
	uint32_t number;                /* (lock) 0: not virtual */
	uint32_t forgotten;             /* (lock) number that the peer does not know */
	uint64_t probe_ns;              /* (lock) */
	bool probed;                    /* (lock) a dialer uses the server */
	bool up;
	bool leaves;       /* drains its channel */
	unsigned up_index; /* in `up` */
	uint32_t in_flight;
	uint32_t unsent[SL_CLASS_CNT]; /* flights */
	uint64_t full_until_ns;        /* the session has no room */
	uint64_t up_ns;
	struct sl_list flights;
	/* (lock) */
	enum { DIAL_IDLE, DIAL_DUE, DIAL_RUNS } dial;
	bool removed; /* not in the list of endpoints any more */
	uint64_t dial_ns, backoff_ns, reported_ns;
};

/* The session reads the bytes of its calls. */
struct client_flight {
	struct sl_list node;
	struct client_server *server;
	uint64_t batch;
	uint8_t class;
	unsigned cnt;
	struct client_call *calls[];
};

/* A message awaiting credit, or a reply's piece awaiting resume. */
struct client_piece {
	struct sl_list node;
	uint32_t len, taken;
	uint64_t left;
	bool last;
	uint8_t bytes[];
};

enum client_call_state { CALL_WAITING, CALL_SENT, CALL_REPLIED };

struct client_call {
	struct sl_list node;    /* submitted (lock); waiting; open */
	struct sl_list command; /* (lock) in `commands` */
	struct sl_list turn;    /* in `writable` */
	struct sl_rpc_client *client;
	uint64_t number;
	unsigned refs;
	enum client_call_state state;
	uint8_t class;
	bool grpc, idempotent, stream, grouped;
	bool begun;
	bool parts_gone;       /* a part of the stream was sent */
	bool cancel;           /* (lock) */
	bool write;            /* (lock) stream_send() was called */
	bool pause;            /* (lock) last requested state */
	bool paused;           /* state in the loop */
	bool out_ended;        /* (lock) the last message was submitted */
	bool out_blocked;      /* (lock) on_writable is due */
	bool ended;            /* (lock) */
	uint32_t out_len;      /* (lock) */
	struct sl_list out;    /* (lock) struct client_piece */
	struct sl_list stored; /* struct client_piece: while paused */
	uint64_t stored_len;
	uint64_t message_left; /* of the reply */
	struct client_server *server, *excluded;
	uint64_t rpc_id;
	uint64_t deadline_ns, give_up_ns;
	unsigned retries, repeats;
	struct sl_rpc_call_reply reply;
	uint8_t *collected;
	size_t collected_cap;
	uint8_t *head;
	void *user_data;
	void (*on_data)(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply,
			const void *bytes, size_t len, size_t left);
	void (*on_writable)(void *user_data, uint64_t call);
	void (*on_end)(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply);
	uint16_t meta_len;
	uint32_t body_len;
	uint8_t bytes[]; /* metadata, body */
};

struct client_slot {
	struct client_call *call; /* NULL: free */
	uint32_t generation, next_free;
};

struct sl_rpc_client {
	struct sl_rpc_client_options opt;
	unsigned number; /* below NUMBERS (client.c); shared if there are more clients */
	char *key_file, *members_file;
	struct sl_rpc *rpc;
	struct sl_list servers;
	struct client_server **up;
	unsigned up_cnt, removed_cnt;
	struct sl_list waiting[SL_CLASS_CNT];
	struct sl_list open;
	struct sl_list writable; /* streams */
	uint64_t waiting_ns;     /* next deadline among waiting calls */
	uint64_t retry_ns;       /* when to try again what found no room */
	struct sl_prng prng;
	uint64_t now_ns;
	bool armed, slept;
	struct sl_rpc_item items[SL_RPC_MAX_BATCH];
	struct sl_span spans[SL_RPC_MAX_BATCH][2];
	uint8_t *scratch;
	size_t scratch_cap;

	pthread_t thread;
	bool has_thread;
	int wake_fd, epoll_fd; /* epoll_fd: own loop; the session's and wake_fd */
	_Atomic bool stop;
	_Atomic bool news;        /* something was submitted */
	_Atomic pthread_t looper; /* 0: none */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* a server came up */
	struct sl_list submitted, commands, dialed;
	struct client_slot *slots;
	uint32_t slot_cnt, first_free, open_cnt;
	bool asleep, closing;
	char last_error[256];
	struct sl_members members;
	_Atomic bool has_members;

	/* (lock) */
	pthread_t dialers[SL_CL_DIALERS_MAX];
	unsigned dialer_cnt;
	pthread_cond_t dial_due;
	bool dial_stop, has_looker;
	bool has_virtual;
	struct sl_prng dial_prng;
	uint64_t members_mtime_ns, members_ino, members_look_ns;

	struct {
		_Atomic uint64_t calls, replies, failures, retries, connects, connect_errors;
		_Atomic uint32_t servers, up;
	} count;
};

/* Functions below: loop thread, unless stated otherwise. */

/* Any thread. Copies a struct that begins with `size`. Returns 0, -EINVAL or -E2BIG. */
int sl_cl_copy_struct(void *to, size_t known, size_t first_version, const void *from);
/* Wakes the loop. Any thread, lock held. */
void sl_cl_wake(struct sl_rpc_client *c);

/* Returns an open call, or NULL. Any thread, lock held. */
struct client_call *sl_cl_call_find(struct sl_rpc_client *c, uint64_t number);
/* Drops a reference. */
void sl_cl_call_unref(struct client_call *call);
/* Ends the call: calls on_end, and drops its reference. */
void sl_cl_call_end(struct client_call *call, int error);
/* Takes requests of other threads. Returns how many. */
unsigned sl_cl_take_commands(struct sl_rpc_client *c);

/* Puts a call into `waiting`. */
void sl_cl_wait(struct client_call *call);
/* Sends waiting calls that find a server, and ends late ones. */
void sl_cl_send_waiting(struct sl_rpc_client *c);
/* Repeats the call if allowed, otherwise ends it. */
void sl_cl_retry_or_end(struct client_call *call, bool may_be_done, int error);
/* Frees a flight, whose bytes are not read any more. */
void sl_cl_flight_end(struct client_server *s, uint64_t batch);
/* Removes the call from its server, if any. */
void sl_cl_call_unsend(struct client_call *call);

/* reply.c */
extern const struct sl_rpc_ops sl_cl_rpc_ops;
/* Delivers stored pieces unless paused; may end the call. */
void sl_cl_resume(struct client_call *call);

/* Sends what fits of a stream. */
void sl_cl_send_parts(struct client_call *call);
/* Frees a list of client_piece. */
void sl_cl_drop_pieces(struct sl_list *pieces);

/* connect.c */
/* Reads the servers and starts the dialers, before the loop. Returns 0, or -1 and a line in err. */
int sl_cl_connect_start(struct sl_rpc_client *c, struct sl_err *err);
/* Joins the dialers, after the loop. */
void sl_cl_connect_stop(struct sl_rpc_client *c);
/* Adopts what dialers have connected. */
void sl_cl_adopt_dialed(struct sl_rpc_client *c);
/* Handles a change of the channel's state. */
void sl_cl_server_state(struct client_server *s, enum sl_rpc_state state);
/* Frees removed servers that nothing uses. */
void sl_cl_reap_servers(struct sl_rpc_client *c);

/* Returns options with pointers into `c` and `s`. Any thread. */
struct sl_rpc_dial_options sl_cl_dial_options(const struct sl_rpc_client *c,
					      const struct client_server *s);

/* liveness.c */
/* Probes silent peers. A dialer. Lock held; released meanwhile. */
void sl_cl_probe_silent(struct sl_rpc_client *c);

/* Makes one turn. Returns its events. */
unsigned sl_cl_turn(struct sl_rpc_client *c);
/* Starts the loop's thread, or makes the own loop's fd. Returns 0 or -1. */
int sl_cl_loop_start(struct sl_rpc_client *c);
/* Ends the loop, and joins its thread. */
void sl_cl_loop_stop(struct sl_rpc_client *c);
/* Returns true in the loop's thread. Any thread. */
bool sl_cl_in_loop(const struct sl_rpc_client *c);
/* Runs the own loop until *done or the time. Returns 0, -ETIMEDOUT, -EDEADLK. */
int sl_cl_run_until(struct sl_rpc_client *c, bool (*done)(void *arg), void *arg, uint64_t until_ns);

#endif
