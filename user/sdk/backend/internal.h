/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the SDK.
 *
 *   I/O thread:      channels -> requests (private copies) -> queue -> batch -> [turn]
 *   handler thread:  [turn] -> handler -> sl_reply
 *   any thread:      sl_reply -> [hand-over stack, if not the I/O thread] -> channel's replies
 *   I/O thread:      replies -> one RESPONSE message per channel and class -> link
 *
 * With `inline_handler` the thread that polls is both. Everything belongs to the I/O thread, except:
 * the batch, which is its that `turn` names; a request that a handler has, until it is replied to;
 * the hand-over stack; and the atomics. One batch is out at a time, so requests that come while it
 * is computed stay in the queue, where they can be cancelled, overtaken and expire. A channel
 * outlives its link while handlers still have requests of it.
 *
 * A channel with a hub (rpc/hub.h) that has nothing to do rests, though requests of it are open: no
 * pass looks at it, until its hub tells of something, or a reply, or credit, is to be sent.
 */
#ifndef SL_SDK_BACKEND_INTERNAL_H
#define SL_SDK_BACKEND_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/cpu.h"
#include "rpc/hub.h"
#include "rpc/link.h"
#include "sluice/backend.h"

enum {
	SL_BE_LISTENERS_MAX = 4,
	SL_BE_CHANNELS_MAX = 1024,
	SL_BE_OPEN_MAX = 16384,         /* requests of one channel */
	SL_BE_BUCKETS = 4096,           /* of a channel's table of requests by id */
	SL_BE_SHARES = 4096,            /* buckets of the table of client shares */
	SL_BE_RESPONSE_MAX = 256 << 10, /* bytes of one RESPONSE of several replies */
	/* A gateway's next request mostly is there by then; longer keeps the core from its clients. */
	SL_BE_SPIN_NS = 15000,
};
#define SL_BE_CHANNEL_MEM ((size_t)256 << 20) /* requests of one channel */
#define SL_BE_REQUEST_MEM ((size_t)1 << 30)
#define SL_BE_REPLY_MEM   ((size_t)512 << 20) /* and as much again for other threads' replies */
#define SL_BE_WANT_NS     (10 * SL_NS_PER_MS) /* until a share without room is looked at again */
#define SL_BE_UNSENT_MEM  ((size_t)4 << 20)   /* of one channel, unsent: no more parts are taken */

struct request;

/* One message of a reply, or, if the credit is too short for all of it, a piece of one. */
struct reply {
	struct reply *next;
	struct request *rq;
	struct sl_rpc_entry entry;
	struct reply *whole;    /* of which this is a piece; NULL: it is none */
	const uint8_t *meta;    /* what is sent, padded to 8 */
	const uint8_t *body;    /* the same, and right behind that; if lent, the program's */
	sl_reply_done_fn *done; /* if lent */
	void *done_arg;
	uint32_t cut;    /* of the payload: in pieces already */
	uint32_t pieces; /* that were not sent, and one more while they are being cut */
	enum { REPLY_POOLED, REPLY_MALLOC, REPLY_EMBEDDED } where;
	bool discard; /* nobody waits: only ends the request */
	bool lent;
	bool counted;               /* in its channel's `unsent` */
	struct client_share *share; /* whose memory it is; its request may be gone */
	uint8_t priority;
};

/* Reply memory of the requests of one client address at one channel: see share.c. */
struct client_share {
	struct client_share *next; /* in its bucket of the backend's `shares` */
	struct channel *channel;
	struct sl_list stalled;    /* REPLIED requests that wait for credit: the longest first */
	struct sl_list node;       /* of the channel's `stalled`, or unused */
	uint32_t client;           /* of the view of its requests */
	uint32_t request_cnt;      /* that refer to it; of `unknown` not counted */
	uint32_t look;             /* see find_largest() */
	_Atomic size_t reply_used; /* memory of replies: the I/O thread's, which alone writes it */
	_Atomic size_t foreign_used; /* and that of other threads */
	_Atomic size_t wanted;       /* the least that a blocked request wants; 0: none */
};

/* Behind it: metadata, payload unless it is lent, each padded to 8. */
static inline uint8_t *reply_bytes(struct reply *rp)
{
	return (uint8_t *)(rp + 1);
}

/* Bytes of a stream that its handler has not had. */
struct part {
	struct part *next;
	uint32_t len;
	uint32_t left; /* of its message, behind these */
	bool compressed;
	uint8_t bytes[];
};

/* REPLIED: no handler has it any more; what is left of the reply waits for credit. */
enum request_state { REQUEST_ARRIVING, REQUEST_QUEUED, REQUEST_HANDLED, REQUEST_REPLIED };

struct request {
	struct sl_request_view view; /* first: what the handler has */
	struct sl_list node;         /* of the channel's open ones */
	struct sl_list queue;        /* of the backend's queue */
	struct client_share *share;
	struct request *hash_next;
	struct channel *channel;
	uint64_t id, deadline_ns; /* UINT64_MAX none */
	uint64_t begun_ns;        /* given to the handler; 0 not yet */
	uint32_t together;        /* in a batch of so many */
	size_t filled, size;      /* of the body; what it counts for */
	uint8_t *body;            /* what view.body shows */
	enum { BODY_HERE, BODY_PLACED, BODY_APART } where;
	enum request_state state;
	uint32_t credit;       /* what may be sent of the reply */
	_Atomic int64_t room;  /* the same, less what waits for it: below 1 no part is taken */
	uint32_t message_left; /* of a message of gRPC that the handler gives in pieces */
	bool message_compressed;
	_Atomic bool begun;                   /* the first part of the reply is given */
	_Atomic uint8_t interims;             /* before it */
	bool taken;                           /* it has come to the I/O thread */
	struct reply *waiting, **waiting_end; /* messages for which there was no credit */
	struct sl_list stalled;               /* of its share's, or unused */
	uint64_t
		credit_ns; /* of those: when it was given some, or began to wait; without `away_ns` */
	_Atomic bool gone;    /* nobody waits */
	_Atomic bool blocked; /* a part was not taken: `writable` is due */
	/* a stream's */
	bool stream, ended, told_end;
	bool has_headers;     /* its metadata have any */
	_Atomic bool expects; /* nobody has said that it may go on, nor replied */
	bool ignored; /* it asks for another protocol, and the program knows nothing of those */
	uint32_t in_credit, in_due; /* what the gateway may send; of that, what it is to be told */
	uint32_t in_rest;           /* of the message that is coming, in further entries */
	uint32_t in_left;           /* of it, not yet here */
	bool in_compressed;
	const struct sl_rpc_header
		*in_from;  /* of the message in the midst of which its parts are */
	bool wide;         /* its window is one of those that are */
	uint32_t in_kept;  /* what is in `parts`, each SL_RPC_MIN_COST at least */
	uint32_t in_given; /* credit, until it is wide */
	struct part *parts, **parts_end;
	uint8_t *trailers;     /* what view.trailers shows */
	struct sl_list window; /* of the channel's `windows`, or unused */
	struct request *resume_next;
	_Atomic bool paused, resuming;
	_Atomic bool over;    /* it was replied to: nothing more is said about it */
	struct reply closing; /* for short answers: needs no memory */
	uint8_t bytes[];      /* metadata, then, if HERE, the body from a multiple of 16 */
};

struct channel {
	struct sl_list node;
	struct sl_backend *b;
	bool up, peer_goaway;
	bool used;        /* since the last tick */
	uint32_t rest_at; /* its place among those that rest */
	struct sl_link link;
	struct sl_list open;
	struct sl_list windows; /* streams that are given credit */
	uint32_t open_cnt;
	size_t mem_used;
	/* To be packed, by class, the most urgent one first; bit i of `classes`: there are some of class i. */
	struct {
		struct reply *first, **end;
	} replies[SL_CLASS_CNT];
	uint32_t classes;
	struct sl_list stalled;      /* shares with requests that wait for credit */
	struct client_share unknown; /* of requests that name no client */
	uint32_t share_cnt, looks;
	uint64_t want_ns;          /* `wanted` is looked at from then on */
	_Atomic size_t reply_used; /* memory of replies: the I/O thread's, which alone writes it */
	_Atomic size_t foreign_used; /* and others' */
	_Atomic size_t
		wanted; /* of that, by some request that is blocked for want of it; 0: none */
	_Atomic size_t
		unsent; /* memory of parts that only the transport keeps back, not their clients */
	_Atomic bool blocked;    /* some request is, for want of that */
	struct request **bucket; /* SL_BE_BUCKETS; lent while requests are open */
};

enum batch_turn { TURN_IO, TURN_HANDLER };
enum io_state { IO_NONE, IO_RUNS, IO_ENDED };

struct sl_backend {
	struct sl_backend_options opt;
	struct sl_rpc_listener *listeners[SL_BE_LISTENERS_MAX];
	unsigned listener_cnt;
	struct sl_list channels, queue[SL_CLASS_CNT]; /* `channels`: but those that rest */
	struct channel *resting[SL_BE_CHANNELS_MAX];
	uint32_t resting_cnt;
	uint64_t look_ns; /* when those are looked at next */
	struct client_share **shares;
	struct request **spare; /* tables that no channel has, chained by their first entries */
	uint32_t channel_cnt, open_cnt, queue_cnt;
	uint32_t wide_cnt; /* streams whose windows are */
	struct sl_mem request_mem, reply_mem;
	struct sl_reader_scratch scratch;
	struct sl_outlets outlets;
	struct sl_hubs hubs;
	struct sl_batch batch;
	struct sl_backend_stats stats;
	uint64_t hash_key, now_ns, tick_ns, active_ns, flushed_ns, flush_gap_ns;
	uint64_t taken;            /* requests, from the queue */
	uint64_t pass_ns, away_ns; /* the last pass; all time in which none looked at what comes */
	uint64_t upcalls;          /* about requests and streams; not of batches */
	struct request *resumed_next; /* taken off `resumed`, not yet looked at */
	enum sl_away told_away;
	int epoll_fd, wake_fd;
	int work_fd; /* rings when a batch waits for the handler's thread */
	_Atomic bool stop, quit, unready, leaves, entered;
	pthread_t io_thread; /* of io_state != IO_NONE */
	_Atomic int io_state;
	pthread_mutex_t stats_lock;
	struct sl_backend_stats published; /* under it */
	/* between the two threads */
	_Atomic int turn SL_ALIGNED(SL_CACHELINE); /* whose the batch is */
	_Atomic bool waiting;                      /* the handler's thread, for work_fd */
	/* written by other threads */
	_Atomic(struct reply *) handed SL_ALIGNED(SL_CACHELINE);
	_Atomic size_t foreign_used;
	_Atomic bool sleeping;
	_Atomic bool full; /* some channel's `blocked` or `wanted` was set, which may rest */
	_Atomic(struct request *) resumed;
};

/* Of one that a handler has had: it may have been carried out, and is repeated if that does no harm. */
static inline enum sl_rpc_status sl_be_unanswered(const struct request *rq)
{
	return rq->view.idempotent ? SL_RPC_REFUSED : SL_RPC_LOST;
}

/* What gateways are told about new requests. */
static inline enum sl_away sl_be_away(const struct sl_backend *b)
{
	if (!b->listener_cnt || atomic_load_explicit(&b->leaves, memory_order_relaxed))
		return SL_AWAY_ENDS;
	return atomic_load_explicit(&b->unready, memory_order_relaxed) ? SL_AWAY_UNREADY
								       : SL_AWAY_NOT;
}

/* The backend whose I/O this thread does. */
extern _Thread_local struct sl_backend *sl_be_polling;

/* channel.c */
bool sl_be_channel_add(struct sl_backend *b, struct sl_transport *t);
void sl_be_channel_close(struct channel *ch);
/* Every millisecond or so: is the gateway still there, and is there anything to do? */
void sl_be_channel_tick(struct channel *ch, uint64_t now_ns);
/* It rests no more, if it did. */
void sl_be_channel_wake(struct channel *ch);
void sl_be_channels_wake(struct sl_backend *b);
/* Those whose parts were not taken for want of room in their transport. */
void sl_be_channels_wake_blocked(struct sl_backend *b);
/* From time to time: of those that rest, which has ended, or is to be asked whether it is there? */
void sl_be_channels_look(struct sl_backend *b);
/* Frees it once it is closed and no handler has a request of it. */
bool sl_be_channel_reap(struct channel *ch);
struct request *sl_be_find(const struct channel *ch, uint64_t id);

/* request.c */
struct request *sl_be_request_new(struct channel *ch, const struct sl_part *part);
bool sl_be_request_parse(struct request *rq, const struct sl_part *part);
/* Room for its body, if it has none yet: the program's or ours. False: there is none. */
bool sl_be_request_place(struct request *rq);
void sl_be_request_free(struct request *rq);
/* Answers without payload, by the poll thread. */
void sl_be_request_close(struct request *rq, enum sl_rpc_status status);

/* waiting.c */
/* Its bytes are on their way, until they leave or wait for its client only. */
void sl_be_reply_count(struct reply *rp);
/* Any thread. The poll thread takes it at once, and a request may end with it. */
void sl_be_reply_hand_over(struct sl_backend *b, struct reply *rp);
/* Without the request, of which there may be none: 0 or -ENOMEM. */
int sl_be_answer(struct channel *ch, uint64_t id, uint8_t priority, enum sl_rpc_status status);
/* What other threads have handed over; false: nothing. */
bool sl_be_replies_take(struct sl_backend *b);
/* Of the I/O thread, if it sleeps. */
void sl_be_wake(struct sl_backend *b);
/* The most urgent class first: packing takes a while, and a fast reader would take all of a bulk reply meanwhile. */
void sl_be_replies_pack(struct channel *ch);
/* Of a channel that is down: those that were to be packed. */
void sl_be_replies_forget(struct channel *ch);
void sl_be_replies_sent(struct channel *ch, struct sl_send *s);
void sl_be_reply_free(struct reply *rp);
/* Of a request: those that wait for credit. */
void sl_be_replies_drop(struct request *rq);
/* So much more of the reply may be sent; false: nobody gives so much. */
bool sl_be_reply_credit(struct request *rq, uint32_t bytes);

/* share.c: I/O thread, but for sl_be_foreign_take() and sl_be_foreign_undo() */
void sl_be_share_init(struct client_share *share, struct channel *ch, uint32_t client);
/* Moves a request from `unknown` to the share of its client; without memory it stays. */
void sl_be_share_join(struct request *rq);
/* Called once, before the request is freed. */
void sl_be_share_leave(struct request *rq);
/* Queues a REPLIED request as the last one of its share that waits for credit. */
void sl_be_share_stall(struct request *rq);
/*
 * Returns true if a reply of `len` bytes is within the share. What ends a request is small and can
 * have several times as much: no link ends for long replies of its clients.
 */
bool sl_be_reply_mem_left(const struct client_share *share, size_t len);
/* The same of the channel: false means that it is beyond every share, too. */
bool sl_be_channel_mem_left(const struct channel *ch, size_t len);
/* Returns NULL at the limit of all channels, or without memory. The share can be freed by give. */
void *sl_be_reply_mem_take(struct client_share *share, size_t len);
void sl_be_reply_mem_give(struct client_share *share, void *ptr);
/* The same for memory of other threads; false beyond the share. Undo: while its request is open. */
bool sl_be_foreign_take(struct client_share *share, size_t len);
void sl_be_foreign_undo(struct client_share *share, size_t len);
void sl_be_foreign_give(struct client_share *share, size_t len);
/*
 * While the channel has more than a quarter of what is left: ends replies of which the client has taken nothing
 * for a while, of the share that holds most.
 */
void sl_be_replies_relieve(struct channel *ch);

/* stream.c */
/* Its first entry has come. */
void sl_be_stream_open(struct request *rq, const struct sl_part *part);
/* A further one; false: it breaks the protocol. */
bool sl_be_stream_part(struct request *rq, const struct sl_part *part);
void sl_be_stream_cancel(struct request *rq);
/* It was replied to, if it is one, but is not free yet: more of it may come, and goes nowhere. */
void sl_be_stream_over(struct request *rq);
/* Those that other threads have resumed; false: none. */
bool sl_be_streams_take(struct sl_backend *b);
unsigned sl_be_stream_grants(struct channel *ch, struct sl_rpc_window *to, unsigned max);
void sl_be_stream_free(struct request *rq);

/* batch.c */
/* Inline: one batch of what is queued; how many requests. */
unsigned sl_be_batch_run(struct sl_backend *b);
/* A batch for the handler's thread, if that has none; how many requests. */
unsigned sl_be_batch_offer(struct sl_backend *b);
void sl_be_flush(struct sl_backend *b);
/* Calls fn, if any, about a request that a handler has. What fn replies is taken later. */
void sl_be_upcall(struct request *rq, sl_request_fn *fn);
/*
 * Around a call of the program's: its replies are another's, so that none ends a request under
 * whoever calls it.
 */
static inline struct sl_backend *sl_be_step_out(void)
{
	struct sl_backend *outer = sl_be_polling;

	sl_be_polling = NULL;
	return outer;
}

/* serve.c */
/* Serves for so long, or until it ends; inline: or until the program was called. Batches. */
unsigned sl_be_serve(struct sl_backend *b, unsigned wait_us);
/* Before the I/O thread sleeps; false: something has come meanwhile. */
bool sl_be_arm(struct sl_backend *b);
void sl_be_disarm(struct sl_backend *b);
void sl_be_take_events(struct sl_backend *b, int wait_ms);
void sl_be_drain(struct sl_backend *b);
void sl_be_close_listeners(struct sl_backend *b);

/* threads.c: the two threads of a backend that is not inline */
/* The handler's: one batch, waited for so long; batches handled or negative errno. */
int sl_be_handle_wait(struct sl_backend *b, unsigned wait_us);
void sl_be_wake_handler(struct sl_backend *b);
bool sl_be_is_io_thread(const struct sl_backend *b);
bool sl_be_io_ended(const struct sl_backend *b);
void sl_be_io_join(struct sl_backend *b);

/* backend.c */
void sl_be_stats_publish(struct sl_backend *b);

#endif
