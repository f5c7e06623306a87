/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   I/O thread:      channels -> requests (private copies) -> queue -> batch -> [turn]
 *   handler thread:  [turn] -> handler -> sl_reply
 *   any thread:      sl_reply -> [hand-over stack, if not the I/O thread] -> channel's replies
 *   I/O thread:      replies -> one RESPONSE message per channel and class -> link
 *
 * With `inline_handler` the polling thread is both. The I/O thread owns all but: the batch (owner:
 * `turn`), a request that a handler has not answered, the hand-over stack, and atomics. One batch
 * is out at a time. A channel outlives its link while handlers have requests of it.
 *
 * An idle channel with a poll group rests until the group reports input, or a reply or credit is
 * due.
 */
#ifndef SL_SDK_BACKEND_INTERNAL_H
#define SL_SDK_BACKEND_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/cpu.h"
#include "rpc/poll_group.h"
#include "rpc/link.h"
#include "sluice/backend.h"

enum {
	SL_BE_LISTENERS_MAX = 4,
	SL_BE_CHANNELS_MAX = 1024,
	SL_BE_OPEN_MAX = 16384,         /* per channel */
	SL_BE_BUCKETS = 4096,           /* channel's requests by id */
	SL_BE_SHARES = 4096,            /* client shares */
	SL_BE_RESPONSE_MAX = 256 << 10, /* a RESPONSE with several replies */
	/* polling before sleep */
	SL_BE_SPIN_NS = 15000,
};
#define SL_BE_CHANNEL_MEM ((size_t)256 << 20) /* per channel */
#define SL_BE_REQUEST_MEM ((size_t)1 << 30)
/* also the limit of other threads' replies */
#define SL_BE_REPLY_MEM ((size_t)512 << 20)
#define SL_BE_WANT_NS   (10 * SL_NS_PER_MS)
/* no more parts above it */
#define SL_BE_UNSENT_MEM ((size_t)4 << 20)

struct request;

/* A message, or a piece above the credit. */
struct reply {
	struct reply *next;
	struct request *rq;
	struct sl_rpc_entry entry;
	struct reply *whole;
	const uint8_t *meta; /* padded to 8 */
	const uint8_t *body; /* padded to 8, after `meta`; or lent by the program */
	sl_reply_done_fn *done;
	void *done_arg;
	uint32_t cut;    /* bytes cut into pieces */
	uint32_t pieces; /* unsent pieces, plus one while cutting */
	enum { REPLY_POOLED, REPLY_MALLOC, REPLY_EMBEDDED } where;
	bool discard; /* only ends the request */
	bool lent;
	bool counted;               /* in the channel's `unsent` */
	struct client_share *share; /* outlives the request */
	uint8_t priority;
};

/* Reply memory of a client address, see share.c. */
struct client_share {
	struct client_share *next;
	struct channel *channel;
	struct sl_list stalled; /* REPLIED requests waiting for credit, longest first */
	struct sl_list node;
	uint32_t client;
	uint32_t request_cnt;
	uint32_t look;
	_Atomic size_t reply_used;   /* written by the I/O thread only */
	_Atomic size_t foreign_used; /* of other threads */
	_Atomic size_t wanted;       /* least need of a blocked request; 0: none */
};

/* Returns the bytes behind the struct. */
static inline uint8_t *reply_bytes(struct reply *rp)
{
	return (uint8_t *)(rp + 1);
}

/* Stream bytes not yet delivered to the handler. */
struct part {
	struct part *next;
	uint32_t len;
	uint32_t left; /* of the message */
	bool compressed;
	uint8_t bytes[];
};

enum request_state { REQUEST_ARRIVING, REQUEST_QUEUED, REQUEST_HANDLED, REQUEST_REPLIED };

struct request {
	struct sl_request_view view;
	struct sl_list node;
	struct sl_list queue;
	struct client_share *share;
	struct request *hash_next;
	struct channel *channel;
	uint64_t id, deadline_ns; /* UINT64_MAX: none */
	uint64_t begun_ns;        /* handler's start; 0: not yet */
	uint32_t together;
	size_t filled, size; /* body received; memory charged */
	uint8_t *body;
	enum { BODY_HERE, BODY_PLACED, BODY_APART } where;
	enum request_state state;
	uint32_t credit;
	_Atomic int64_t room;  /* minus waiting bytes; below 1 no part is accepted */
	uint32_t message_left; /* message sent in pieces */
	bool message_compressed;
	uint8_t class; /* reply's; initially the request's */
	bool class_set;
	_Atomic bool begun; /* a part was made */
	_Atomic uint8_t interims;
	bool taken; /* a part reached the I/O thread */
	struct reply *waiting, **waiting_end;
	struct sl_list stalled;
	uint64_t
		/* last credit or begin of waiting, without `away_ns` */
		credit_ns;
	_Atomic bool gone;    /* cancelled or link lost */
	_Atomic bool blocked; /* a part was rejected: `on_writable` is due */
	bool stream, ended, told_end;
	bool has_headers;
	_Atomic bool expects;       /* neither 100 (Continue) nor a reply was sent */
	bool ignored;               /* unsupported Upgrade */
	uint32_t in_credit, in_due; /* credit of the gateway; to be announced */
	uint32_t in_rest;           /* in later entries */
	uint32_t in_left;
	bool in_compressed;
	const struct sl_rpc_header *in_from; /* message of its next part */
	bool wide;
	uint32_t in_kept;  /* in `parts`, at least SL_RPC_MIN_COST each */
	uint32_t in_given; /* until it is wide */
	struct part *parts, **parts_end;
	uint8_t *trailers;
	struct sl_list window;
	struct request *resume_next;
	_Atomic bool paused, resuming;
	_Atomic bool over;    /* no further upcalls */
	struct reply closing; /* needs no allocation */
	uint8_t bytes[];      /* metadata and, if BODY_HERE, the body, aligned to 16 */
};

struct channel {
	struct sl_list node;
	struct sl_backend *b;
	bool up, peer_goaway;
	bool used;
	uint32_t rest_at;
	struct sl_link link;
	struct sl_list open;
	struct sl_list windows;
	uint32_t open_cnt;
	size_t mem_used;
	/* bit i of `classes`: class i is not empty */
	struct {
		struct reply *first, **end;
	} replies[SL_CLASS_CNT];
	uint32_t classes;
	struct sl_list stalled;
	struct client_share unknown; /* requests without a client */
	uint32_t share_cnt, looks;
	uint64_t want_ns;
	_Atomic size_t reply_used;   /* written by the I/O thread only */
	_Atomic size_t foreign_used; /* of other threads */
	_Atomic size_t wanted;       /* as in a share */
	_Atomic size_t unsent;       /* parts delayed by the transport, not by clients */
	_Atomic bool blocked;
	struct request **bucket; /* SL_BE_BUCKETS; borrowed while requests are open */
};

enum batch_turn { TURN_IO, TURN_HANDLER };
enum io_state { IO_NONE, IO_RUNS, IO_ENDED };

struct sl_backend {
	struct sl_backend_options opt;
	struct sl_rpc_listener *listeners[SL_BE_LISTENERS_MAX];
	unsigned listener_cnt;
	struct sl_list channels, queue[SL_CLASS_CNT]; /* `channels`: without idle ones */
	struct channel *resting[SL_BE_CHANNELS_MAX];
	uint32_t resting_cnt;
	uint64_t look_ns;
	struct client_share **shares;
	struct request **spare; /* free tables, linked by their first entries */
	uint32_t channel_cnt, open_cnt, queue_cnt;
	uint32_t wide_cnt;
	struct sl_capped_alloc request_mem, reply_mem;
	struct sl_reassembly_scratch scratch;
	struct sl_tx_ports tx_ports;
	struct sl_poll_groups poll_groups;
	struct sl_batch batch;
	bool prepared; /* until the next poll */
	struct sl_backend_stats stats;
	uint64_t hash_key, now_ns, tick_ns, active_ns, flushed_ns, flush_gap_ns;
	uint64_t taken;
	uint64_t pass_ns, away_ns; /* last pass; total time without passes */
	uint64_t upcalls;          /* without batches */
	struct request *resumed_next;
	enum sl_away told_away;
	int epoll_fd, wake_fd;
	int work_fd; /* a batch waits for a handler */
	_Atomic bool stop, quit, unready, leaves, entered;
	pthread_t io_thread; /* valid unless IO_NONE */
	_Atomic int io_state;
	pthread_mutex_t stats_lock;
	struct sl_backend_stats published;         /* protected by stats_lock */
	_Atomic int turn SL_ALIGNED(SL_CACHELINE); /* owner of the batch */
	_Atomic bool waiting;                      /* the handler's thread sleeps on work_fd */
	/* written by other threads */
	_Atomic(struct reply *) handed SL_ALIGNED(SL_CACHELINE);
	_Atomic size_t foreign_used;
	_Atomic bool sleeping;
	_Atomic bool full; /* `blocked` or `wanted` was set somewhere */
	_Atomic(struct request *) resumed;
};

/* Status of a delivered request: only idempotent ones are retried. */
static inline enum sl_rpc_status sl_be_unanswered(const struct request *rq)
{
	return rq->view.idempotent ? SL_RPC_REFUSED : SL_RPC_LOST;
}

/* Returns the state to announce to gateways. */
static inline enum sl_away sl_be_away(const struct sl_backend *b)
{
	if (!b->listener_cnt || atomic_load_explicit(&b->leaves, memory_order_relaxed))
		return SL_AWAY_ENDS;
	return atomic_load_explicit(&b->unready, memory_order_relaxed) ? SL_AWAY_UNREADY
								       : SL_AWAY_NOT;
}

/* Backend whose I/O the current thread does. */
extern _Thread_local struct sl_backend *sl_be_polling;

/* Functions below: I/O thread, unless stated otherwise. */

/* Adds a transport, or continues its channel. Takes it; closes it on false. */
bool sl_be_channel_add(struct sl_backend *b, struct sl_transport *t);
/* Ends the link and its requests, with upcalls. sl_be_channel_reap() frees the channel. */
void sl_be_channel_close(struct channel *ch);
/* Called every TICK_NS: PINGs, and lets an unused channel rest. */
void sl_be_channel_tick(struct channel *ch, uint64_t now_ns);
/* Wakes all resting channels. */
void sl_be_channels_wake(struct sl_backend *b);
/* Wakes those with blocked requests. */
void sl_be_channels_wake_blocked(struct sl_backend *b);
/* Wakes those that are lost, or need a PING. */
void sl_be_channels_look(struct sl_backend *b);
/* Frees a closed channel unless handlers have requests. Returns true if freed. */
bool sl_be_channel_reap(struct channel *ch);
/* Returns an open request, or NULL. */
struct request *sl_be_find(const struct channel *ch, uint64_t id);

/* Opens a request. Returns NULL at a limit or without memory. */
struct request *sl_be_request_new(struct channel *ch, const struct sl_part *part);
/* Copies the metadata. Returns false if they are malformed. */
bool sl_be_request_parse(struct request *rq, const struct sl_part *part);
/* Gives the body its memory (`place`). Returns false without memory. */
bool sl_be_request_place(struct request *rq);
/* Closes a request without reply. Frees what it has, with upcalls. */
void sl_be_request_free(struct request *rq);
/* Replies with a status, and closes the request. */
void sl_be_request_close(struct request *rq, enum sl_rpc_status status);

/* Any thread. `waits`: returns -EAGAIN without memory, and an upcall follows; else -ENOBUFS. */
int sl_be_reply_interim(struct sl_request_view *view, const struct sl_reply_args *args, bool waits);

/* Counts in `unsent` until sent or waiting for credit. */
void sl_be_reply_count(struct reply *rp);
/* Ends that, if it began. */
void sl_be_reply_uncount(struct reply *rp);
/* Queues a reply, within its credit, on the channel. */
void sl_be_reply_append(struct channel *ch, struct reply *rp);
/* Returns an empty reply, or NULL at the limit. */
struct reply *sl_be_end_alloc(struct channel *ch);
/* Frees a reply, or a piece; the last one calls `done`. */
void sl_be_reply_free(struct reply *rp);
/* Frees the waiting replies of a request. */
void sl_be_replies_drop(struct request *rq);
/* Queues a reply without body. Returns 0 or -ENOMEM. */
int sl_be_answer(struct channel *ch, uint64_t id, uint8_t priority, enum sl_rpc_status status);

/* Takes a reply. Any thread; in the I/O thread it may end the request. */
void sl_be_reply_hand_over(struct sl_backend *b, struct reply *rp);
/* Takes replies of other threads. Returns false if there are none. */
bool sl_be_replies_take(struct sl_backend *b);
/* Adds credit, and sends what it allows. Returns false if the sum is implausible. */
bool sl_be_reply_credit(struct request *rq, uint32_t bytes);
/* Ends stalled replies of the largest share while the channel uses over 1/4 of the free memory. */
void sl_be_replies_relieve(struct channel *ch);

/* Sends queued replies, most urgent class first. */
void sl_be_replies_pack(struct channel *ch);
/* Frees the queued replies of a channel that is down. */
void sl_be_replies_forget(struct channel *ch);
/* Frees a RESPONSE and its replies. */
void sl_be_replies_sent(struct channel *ch, struct sl_send *s);
/* Sends the replies of all channels. */
void sl_be_flush(struct sl_backend *b);

/* Makes an empty share. */
void sl_be_share_init(struct client_share *share, struct channel *ch, uint32_t client);
/* Moves a request from `unknown`; it stays there without memory. */
void sl_be_share_join(struct request *rq);
/* Removes a request. May free the share. */
void sl_be_share_leave(struct request *rq);
/* Lists a REPLIED request that waits for credit. */
void sl_be_share_stall(struct request *rq);
/* Returns true if the share may take `len` bytes. */
bool sl_be_reply_mem_left(const struct client_share *share, size_t len);
/* Returns false only if each share would. */
bool sl_be_channel_mem_left(const struct channel *ch, size_t len);
/* Returns memory of the pool, or NULL at the limit of all channels. */
void *sl_be_reply_mem_take(struct client_share *share, size_t len);
/* Gives it back. May free the share. */
void sl_be_reply_mem_give(struct client_share *share, void *ptr);
/* Charges other threads' memory. Returns false above the share. Any thread, also undo. */
bool sl_be_foreign_take(struct client_share *share, size_t len);
/* Takes it back, while the request is open. */
void sl_be_foreign_undo(struct client_share *share, size_t len);
/* Takes it back later. May free the share. */
void sl_be_foreign_give(struct client_share *share, size_t len);
/*
 * Returns the longest stalled request of the largest share; NULL: none, or the channel uses at most
 * a quarter of the free memory.
 */
struct request *sl_be_share_longest_stalled(struct channel *ch);

/* Begins a stream with its first entry. */
void sl_be_stream_open(struct request *rq, const struct sl_part *part);
/* Takes a part. Returns false on a protocol error. */
bool sl_be_stream_part(struct request *rq, const struct sl_part *part);
/* Tells the handler that the client has gone. */
void sl_be_stream_cancel(struct request *rq);
/* Called after the last reply: drops input. Any request. */
void sl_be_stream_over(struct request *rq);
/* Delivers to resumed streams. Returns false if there are none. */
bool sl_be_streams_take(struct sl_backend *b);
/* Moves up to `max` grants of credit to `to`. Returns their number. */
unsigned sl_be_stream_grants(struct channel *ch, struct sl_rpc_window *to, unsigned max);
/* Frees what sl_be_request_free() must of a stream. */
void sl_be_stream_free(struct request *rq);

/* Inline: calls on_batch. Returns the batch's size. */
unsigned sl_be_batch_run(struct sl_backend *b);
/* Passes a batch to the handler's thread if that is idle. Returns the batch's size. */
unsigned sl_be_batch_offer(struct sl_backend *b);

/* Wakes the I/O thread, after work for it was published. Any thread. */
void sl_be_wake(struct sl_backend *b);
/* Wakes the handler's thread, after `turn` or io_state was set. */
void sl_be_wake_handler(struct sl_backend *b);
/* Lets the next pass look at the channel. */
void sl_be_channel_wake(struct channel *ch);
/* Calls `fn`, unless NULL. Its replies are processed later. */
void sl_be_upcall(struct request *rq, sl_request_fn *fn);
/* For calls of the program: its replies then end no request. Restore the result. */
static inline struct sl_backend *sl_be_step_out(void)
{
	struct sl_backend *outer = sl_be_polling;

	sl_be_polling = NULL;
	return outer;
}

/* Serves for `wait_us` or until the end; inline also until an upcall. Returns batches. */
unsigned sl_be_serve(struct sl_backend *b, unsigned wait_us);
/* Prepares a sleep. Returns false if there is work. */
bool sl_be_arm(struct sl_backend *b);
/* Returns how long it may last; UINT64_MAX: no limit. */
uint64_t sl_be_sleep_us(const struct sl_backend *b);
/* Ends the sleep. */
void sl_be_disarm(struct sl_backend *b);
/* Waits for events, at most wait_ms, and handles them. */
void sl_be_take_events(struct sl_backend *b, int wait_ms);
/* Stops listening; answers pending requests for a limited time. */
void sl_be_drain(struct sl_backend *b);
/* Stops listening. */
void sl_be_close_listeners(struct sl_backend *b);

/* Handles a batch, in the handler's thread. Returns the number of batches or -errno. */
int sl_be_handle_wait(struct sl_backend *b, unsigned wait_us);
/* Returns true in the I/O thread. Any thread, also the next. */
bool sl_be_is_io_thread(const struct sl_backend *b);
/* Returns true once the I/O thread has drained. */
bool sl_be_io_ended(const struct sl_backend *b);
/* Ends the I/O thread, if any. Another thread. */
void sl_be_io_join(struct sl_backend *b);

/* api.c. `known`: the struct's size here, in the first version. Returns 0, -EINVAL or -E2BIG. */
int sl_be_check_size(const void *given, size_t size, size_t known);
/* Copies the counters for sl_backend_stats(). */
void sl_be_stats_publish(struct sl_backend *b);

#endif
