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
 * An idle channel with a poll group is not polled until the group reports input, or a reply or
 * credit is due.
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
	SL_BE_BUCKETS = 4096,           /* hash table of a channel's requests by id */
	SL_BE_SHARES = 4096,            /* hash table of client shares */
	SL_BE_RESPONSE_MAX = 256 << 10, /* bytes of one RESPONSE with several replies */
	/* polling before sleep; longer starves other threads */
	SL_BE_SPIN_NS = 15000,
};
#define SL_BE_CHANNEL_MEM ((size_t)256 << 20) /* requests of one channel */
#define SL_BE_REQUEST_MEM ((size_t)1 << 30)
/* also the limit of other threads' replies */
#define SL_BE_REPLY_MEM ((size_t)512 << 20)
#define SL_BE_WANT_NS   (10 * SL_NS_PER_MS)
/* no more parts above it */
#define SL_BE_UNSENT_MEM ((size_t)4 << 20)

struct request;

/* A message of a reply, or a piece of one that exceeds the credit. */
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
	bool counted;               /* in `unsent` of the channel */
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
	uint32_t request_cnt; /* not counted in `unknown` */
	uint32_t look;
	_Atomic size_t reply_used;   /* written only by the I/O thread */
	_Atomic size_t foreign_used; /* of other threads */
	_Atomic size_t wanted;       /* least need of a blocked request; 0: none */
};

/* Returns metadata and, unless lent, payload, each padded to 8. */
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

/* REPLIED: the handler is done, the rest of the reply waits for credit. */
enum request_state { REQUEST_ARRIVING, REQUEST_QUEUED, REQUEST_HANDLED, REQUEST_REPLIED };

struct request {
	struct sl_request_view view;
	struct sl_list node;
	struct sl_list queue;
	struct client_share *share;
	struct request *hash_next;
	struct channel *channel;
	uint64_t id, deadline_ns; /* UINT64_MAX: none */
	uint64_t begun_ns;        /* delivery to the handler; 0: not yet */
	uint32_t together;
	size_t filled, size; /* body received; memory charged */
	uint8_t *body;
	enum { BODY_HERE, BODY_PLACED, BODY_APART } where;
	enum request_state state;
	uint32_t credit;       /* reply bytes that may be sent */
	_Atomic int64_t room;  /* minus waiting bytes; below 1 no part is accepted */
	uint32_t message_left; /* bytes left of a message sent in pieces */
	bool message_compressed;
	uint8_t class;      /* of the reply; initially that of the request */
	bool class_set;     /* by a reply */
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
	/* streams only */
	bool stream, ended, told_end;
	bool has_headers;
	_Atomic bool expects;       /* neither 100 (Continue) nor a reply was sent */
	bool ignored;               /* unsupported Upgrade */
	uint32_t in_credit, in_due; /* credit of the gateway; to be announced */
	uint32_t in_rest;           /* in later entries */
	uint32_t in_left;           /* not yet received */
	bool in_compressed;
	const struct sl_rpc_header *in_from; /* message of its next part */
	bool wide;
	uint32_t in_kept;  /* in `parts`, at least SL_RPC_MIN_COST each */
	uint32_t in_given; /* credit granted, until it is wide */
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
	bool used; /* since the last tick */
	uint32_t rest_at;
	struct sl_link link;
	struct sl_list open;
	struct sl_list windows; /* streams with credit to announce */
	uint32_t open_cnt;
	size_t mem_used;
	/* Replies to pack; bit i of `classes`: class i is not empty. */
	struct {
		struct reply *first, **end;
	} replies[SL_CLASS_CNT];
	uint32_t classes;
	struct sl_list stalled;
	struct client_share unknown; /* requests without a client */
	uint32_t share_cnt, looks;
	uint64_t want_ns;
	_Atomic size_t reply_used;   /* written only by the I/O thread */
	_Atomic size_t foreign_used; /* of other threads */
	_Atomic size_t wanted;       /* as in a share */
	_Atomic size_t unsent;       /* parts delayed by the transport, not by clients */
	_Atomic bool blocked;        /* by `unsent` */
	struct request **bucket;     /* SL_BE_BUCKETS; borrowed while requests are open */
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
	bool prepared; /* by sl_backend_prepare(), until the next poll */
	struct sl_backend_stats stats;
	uint64_t hash_key, now_ns, tick_ns, active_ns, flushed_ns, flush_gap_ns;
	uint64_t taken;
	uint64_t pass_ns, away_ns; /* last pass; total time without passes */
	uint64_t upcalls;          /* without batches */
	struct request *resumed_next;
	enum sl_away told_away;
	int epoll_fd, wake_fd;
	int work_fd; /* signalled when a batch waits for a handler */
	_Atomic bool stop, quit, unready, leaves, entered;
	pthread_t io_thread; /* valid unless IO_NONE */
	_Atomic int io_state;
	pthread_mutex_t stats_lock;
	struct sl_backend_stats published; /* protected by stats_lock */
	/* shared by I/O and handler thread */
	_Atomic int turn SL_ALIGNED(SL_CACHELINE); /* owner of the batch */
	_Atomic bool waiting;                      /* the handler's thread sleeps on work_fd */
	/* written by other threads */
	_Atomic(struct reply *) handed SL_ALIGNED(SL_CACHELINE);
	_Atomic size_t foreign_used;
	_Atomic bool sleeping;
	_Atomic bool full; /* `blocked` or `wanted` was set in some channel, possibly idle */
	_Atomic(struct request *) resumed;
};

/* Returns the status of a delivered request: only idempotent ones are retried. */
static inline enum sl_rpc_status sl_be_unanswered(const struct request *rq)
{
	return rq->view.idempotent ? SL_RPC_REFUSED : SL_RPC_LOST;
}

static inline enum sl_away sl_be_away(const struct sl_backend *b)
{
	if (!b->listener_cnt || atomic_load_explicit(&b->leaves, memory_order_relaxed))
		return SL_AWAY_ENDS;
	return atomic_load_explicit(&b->unready, memory_order_relaxed) ? SL_AWAY_UNREADY
								       : SL_AWAY_NOT;
}

/* Backend whose I/O the current thread does. */
extern _Thread_local struct sl_backend *sl_be_polling;

/* channel.c. Adds a transport, or continues its channel. Takes it; closes it on false. */
bool sl_be_channel_add(struct sl_backend *b, struct sl_transport *t);
void sl_be_channel_close(struct channel *ch);
/* channel.c. Called every TICK_NS. */
void sl_be_channel_tick(struct channel *ch, uint64_t now_ns);
void sl_be_channels_wake(struct sl_backend *b);
void sl_be_channels_wake_blocked(struct sl_backend *b);
void sl_be_channels_look(struct sl_backend *b);
/* Frees a closed channel unless handlers have requests. Returns true if freed. */
bool sl_be_channel_reap(struct channel *ch);
struct request *sl_be_find(const struct channel *ch, uint64_t id);

/* request.c. Returns NULL at a limit or without memory. */
struct request *sl_be_request_new(struct channel *ch, const struct sl_part *part);
bool sl_be_request_parse(struct request *rq, const struct sl_part *part);
/* Returns false without memory. */
bool sl_be_request_place(struct request *rq);
void sl_be_request_free(struct request *rq);
/* I/O thread. */
void sl_be_request_close(struct request *rq, enum sl_rpc_status status);

/* Sends an interim reply. `waits`: -EAGAIN without memory, and a later upcall; else -ENOBUFS. */
int sl_be_reply_interim(struct sl_request_view *view, const struct sl_reply_args *args, bool waits);

/* reply_queue.c. Counts a reply in `unsent` until it is sent or waits for credit. */
void sl_be_reply_count(struct reply *rp);
void sl_be_reply_uncount(struct reply *rp);
/* Queues a reply that is within its credit. */
void sl_be_reply_append(struct channel *ch, struct reply *rp);
/* Allocates a reply without bytes. Returns NULL at the limit, which ignores other threads' memory. */
struct reply *sl_be_end_alloc(struct channel *ch);
void sl_be_reply_free(struct reply *rp);
void sl_be_replies_drop(struct request *rq);
/* Returns 0 or -ENOMEM. */
int sl_be_answer(struct channel *ch, uint64_t id, uint8_t priority, enum sl_rpc_status status);

/* waiting.c. Any thread; in the I/O thread it may end the request. */
void sl_be_reply_hand_over(struct sl_backend *b, struct reply *rp);
/* Processes other threads' replies. Returns false without any. */
bool sl_be_replies_take(struct sl_backend *b);
/* Returns false if the sum is implausible. */
bool sl_be_reply_credit(struct request *rq, uint32_t bytes);
/*
 * Ends stalled replies of the largest share while the channel uses over a quarter of the free
 * memory.
 */
void sl_be_replies_relieve(struct channel *ch);

/* respond.c. Packs RESPONSE messages, most urgent class first. */
void sl_be_replies_pack(struct channel *ch);
/* Frees the unpacked replies of a channel that is down. */
void sl_be_replies_forget(struct channel *ch);
void sl_be_replies_sent(struct channel *ch, struct sl_send *s);
void sl_be_flush(struct sl_backend *b);

/* share.c. I/O thread, except sl_be_foreign_take() and sl_be_foreign_undo(). */
void sl_be_share_init(struct client_share *share, struct channel *ch, uint32_t client);
/* Moves a request from `unknown`; it stays there without memory. */
void sl_be_share_join(struct request *rq);
void sl_be_share_leave(struct request *rq);
/* Appends a REPLIED request to `stalled`. */
void sl_be_share_stall(struct request *rq);
/* Returns true if `len` more bytes are within the share. */
bool sl_be_reply_mem_left(const struct client_share *share, size_t len);
/* Same for the channel. False implies false for every share. */
bool sl_be_channel_mem_left(const struct channel *ch, size_t len);
/* Returns NULL at the limit of all channels. Giving may free the share. */
void *sl_be_reply_mem_take(struct client_share *share, size_t len);
void sl_be_reply_mem_give(struct client_share *share, void *ptr);
/*
 * Charge memory of other threads; take returns false above the share. sl_be_foreign_undo() needs an
 * open request.
 */
bool sl_be_foreign_take(struct client_share *share, size_t len);
void sl_be_foreign_undo(struct client_share *share, size_t len);
void sl_be_foreign_give(struct client_share *share, size_t len);
/*
 * Returns the request of the largest share that has stalled longest; NULL: none, or the channel
 * uses at most a quarter of the free memory.
 */
struct request *sl_be_share_longest_stalled(struct channel *ch);

/* stream.c. */
void sl_be_stream_open(struct request *rq, const struct sl_part *part);
/* Handles a further entry. Returns false on a protocol error. */
bool sl_be_stream_part(struct request *rq, const struct sl_part *part);
void sl_be_stream_cancel(struct request *rq);
void sl_be_stream_over(struct request *rq);
/* Delivers to resumed streams. Returns false without any. */
bool sl_be_streams_take(struct sl_backend *b);
unsigned sl_be_stream_grants(struct channel *ch, struct sl_rpc_window *to, unsigned max);
void sl_be_stream_free(struct request *rq);

/* batch.c. Inline. Returns the batch's size. */
unsigned sl_be_batch_run(struct sl_backend *b);
/* Offers a batch to the handler's thread if it is idle. Returns its size. */
unsigned sl_be_batch_offer(struct sl_backend *b);

/* wake.c. Called after work for the I/O thread was published. */
void sl_be_wake(struct sl_backend *b);
void sl_be_wake_handler(struct sl_backend *b);
/* Lets the next pass look at the channel. I/O thread. */
void sl_be_channel_wake(struct channel *ch);
/* Calls `fn`, if not NULL; its replies are processed later. */
void sl_be_upcall(struct request *rq, sl_request_fn *fn);
/* Used around a call of the program: its replies then end no request meanwhile. */
static inline struct sl_backend *sl_be_step_out(void)
{
	struct sl_backend *outer = sl_be_polling;

	sl_be_polling = NULL;
	return outer;
}

/* serve.c. Serves for `wait_us` or until the end; inline also until an upcall. Returns batches. */
unsigned sl_be_serve(struct sl_backend *b, unsigned wait_us);
/* Returns false if there is work. */
bool sl_be_arm(struct sl_backend *b);
/* Returns how long sl_backend_prepare() may sleep. */
uint64_t sl_be_sleep_us(const struct sl_backend *b);
void sl_be_disarm(struct sl_backend *b);
void sl_be_take_events(struct sl_backend *b, int wait_ms);
void sl_be_drain(struct sl_backend *b);
void sl_be_close_listeners(struct sl_backend *b);

/* threads.c. Handler's thread. Returns the number of batches or -errno. */
int sl_be_handle_wait(struct sl_backend *b, unsigned wait_us);
bool sl_be_is_io_thread(const struct sl_backend *b);
bool sl_be_io_ended(const struct sl_backend *b);
void sl_be_io_join(struct sl_backend *b);

/*
 * api.c. Checks a struct that begins with `size`; `known`: its size here, in the first version.
 * Returns 0, -EINVAL or -E2BIG.
 */
int sl_be_check_size(const void *given, size_t size, size_t known);
/* Copies the counters for sl_backend_stats() in other threads. I/O thread. */
void sl_be_stats_publish(struct sl_backend *b);

#endif
