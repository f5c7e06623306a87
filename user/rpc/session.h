/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the gateway's session: shared by session.c (create, poll, sleep), channel.c (up, down,
 * what comes in) and send.c (what goes out).
 *
 * A burst looks at channels that are awake: those that were used since the last tick, or on which
 * something is due, or, without a hub, outstanding. The others rest: they are armed, as all are when
 * the worker sleeps, and their hub wakes them at once, or a bell does, at the next tick at the latest.
 * A tick looks at all that are awake, and at some of the others in turn: for PINGs, which have the
 * time. So bursts and ticks cost what is going on, and not how many backends there are.
 */
#ifndef SL_RPC_SESSION_H
#define SL_RPC_SESSION_H

#include "rpc/hub.h"
#include "rpc/link.h"
#include "rpc/outstanding.h"
#include "rpc/rpc.h"

enum {
	SL_SESSION_CHECK_NS = 1000000,    /* how often the kernel is asked about each peer */
	SL_SESSION_QUEUED_MAX = 1024,     /* batches waiting in one channel */
	SL_SESSION_STREAMS_MAX = 1 << 16, /* streams, parts of them: each is a message by itself */
	SL_SESSION_PARTS_OF_FREE = 8,     /* a class of a channel: 1/8 of what is free for parts */
	SL_SESSION_TIMERS_MAX = 256,      /* time-outs per poll */
};

/* Owner of a send that belongs to no batch: it has its own bytes. */
#define SL_SEND_PART UINT64_MAX

/* Such a one, of a stream's request. */
struct sl_stream_part {
	struct sl_send send;
	struct sl_list of_request; /* until it has left, or the request has ended */
};

/* Of a channel's transport as of the last tick: other threads ask, and it may have gone since. */
struct sl_channel_seen {
	uint64_t silent_ns, doorbells, resent, doubled, unsealed;
	uint32_t slots, slots_free;
};

struct sl_rpc_channel {
	struct sl_list node;  /* of the session */
	struct sl_list awake; /* of the session's `awake`, or unused: it rests, or is DOWN */
	bool used;            /* since the last tick */
	struct sl_rpc *rpc;
	char name[64];
	void *app_data;
	enum sl_rpc_state state;
	bool held;           /* its transport is, as far as the owner was told */
	bool leaving;        /* its owner drains it */
	bool ends;           /* its peer does; else a peer that drains may be ready again */
	uint64_t drained_ns; /* nothing is outstanding since, of one that drains; 0: something is */
	struct sl_link link; /* valid unless DOWN */
	struct sl_list requests, batches;
	struct sl_list windows; /* requests whose replies are given credit */
	struct sl_list ended;   /* batches whose batch_done or sent is to be told */
	uint32_t outstanding;
	uint32_t part_bytes[SL_CLASS_CNT]; /* of parts that have not left */
	uint64_t next_batch;
	struct sl_channel_seen seen;
	uint64_t asked_ns;         /* when the peer last had something to compute */
	struct sl_rpc_stats stats; /* without what link and transport count */
	struct sl_link_stats past; /* of former links */
	uint64_t past_doorbells;
};

struct sl_rpc {
	struct sl_rpc_config cfg;
	struct sl_rpc_memory mem_area;
	const struct sl_rpc_ops *ops;
	void *app;
	struct sl_list channels, awake;
	unsigned channel_cnt;
	bool armed; /* those that are awake, too: the worker is about to sleep */
	uint64_t next_ping_ns;
	unsigned round;         /* of all channels, how many the ticks of this one have passed */
	uint64_t round_ping_ns; /* the earliest PING of these, and of who has come meanwhile */
	struct sl_outstanding out;
	struct sl_wheel wheel;
	struct sl_mem mem;
	size_t part_bytes; /* of all channels */
	uint64_t now_ns, check_ns;
	int epoll_fd;
	struct sl_hubs hubs;
	struct sl_reader_scratch scratch;
	struct sl_outlets outlets;
};

/* From now on each burst looks at it, until nothing is going on any more. */
static inline void sl_channel_wake(struct sl_rpc_channel *ch)
{
	struct sl_rpc *r = ch->rpc;

	ch->used = true;
	if (ch->state == SL_RPC_DOWN || !sl_list_empty(&ch->awake))
		return;
	sl_list_add_tail(&r->awake, &ch->awake);
	if (!r->armed)
		sl_link_disarm(&ch->link);
}

/* It goes down when nothing is outstanding any more. */
static inline bool sl_channel_parts(const struct sl_rpc_channel *ch)
{
	return ch->state == SL_RPC_DRAINING && (ch->leaving || ch->ends);
}

/* channel.c */
extern const struct sl_link_ops sl_channel_link_ops;
unsigned sl_channel_poll(struct sl_rpc_channel *ch, uint64_t now_ns);
void sl_channel_tick(struct sl_rpc_channel *ch, uint64_t now_ns);
/* What others may ask of its transport. */
void sl_channel_see(struct sl_rpc_channel *ch);
/* From now on its events are the channel's. 0 or -errno. */
int sl_channel_watch_transport(struct sl_rpc_channel *ch, struct sl_transport *t);
/* The owner hears how going on by another transport has ended. */
void sl_channel_tell_move(const struct sl_rpc_channel *ch, bool gone_on);
/* Ends everything: sent, failed, batch_done, state. */
void sl_channel_down(struct sl_rpc_channel *ch, enum sl_rpc_failure why_left);
/* Tells what has ended since the last time. */
void sl_channel_tell(struct sl_rpc_channel *ch);
/* Takes a request out of its channel and batch; the last one ends the batch. */
void sl_channel_forget(struct sl_rpc_channel *ch, struct sl_pending *p);
/*
 * The same where nobody waits for its reply: the peer is told, or, if it is alone in its message and
 * nothing of that has left, never hears of it.
 */
void sl_channel_cancel(struct sl_rpc_channel *ch, struct sl_pending *p);
/* Debug builds: tells the owner of these bytes. */
static inline void sl_channel_watch(struct sl_rpc_channel *ch, enum sl_rpc_watch what,
				    const struct sl_span *spans, uint32_t cnt)
{
#ifdef SL_DEBUG
	if (ch->rpc->ops->watch)
		ch->rpc->ops->watch(ch->rpc->app, what, spans, cnt);
#else
	(void)ch, (void)what, (void)spans, (void)cnt;
#endif
}
void sl_channel_timeout(struct sl_rpc_channel *ch, struct sl_pending *p);

#endif
