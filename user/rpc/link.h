/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a channel, the same for gateway and backend: messages over a transport.
 *
 *   out: sl_link_send -> send queue (classes, slices) -> transport.post
 *   in:  transport.poll -> checks -> readers (one per message under way) -> ops->part
 *
 * Control messages (PING, PONG, CANCEL, WINDOW, GOAWAY, READY) are bits and short lists here, not queue
 * entries; they go before all else. After an error (negative return of poll) the link does nothing
 * more; its owner takes what was not sent with sl_link_unsent() and closes it.
 *
 * Callbacks may call sl_link_send and sl_link_cancel, not poll, flush or fini.
 */
#ifndef SL_RPC_LINK_H
#define SL_RPC_LINK_H

#include "rpc/outlet.h"
#include "rpc/reader.h"
#include "rpc/sendq.h"
#include "rpc/transport.h"

enum { SL_LINK_POLL = 16 };
/* A class is about for so long after its last message: others are cut for the next one (start). */
enum { SL_LINK_QUIET_NS = 100000000 };

struct sl_link_ops {
	sl_part_fn *part;
	/* All parts of a message were passed on; its first header. May be NULL. */
	void (*message)(void *ctx, const struct sl_rpc_header *h);
	/* The transport is done with the bytes; the send is its owner's again. */
	void (*sent)(void *ctx, struct sl_send *s);
	void (*cancel)(void *ctx, uint64_t id);
	/* The peer may be sent so many bytes more of this request or reply. */
	void (*window)(void *ctx, uint64_t id, uint32_t bytes);
	/* Credit that is to be given, if windows_due was set: takes up to max off the owner's list. */
	unsigned (*grants)(void *ctx, struct sl_rpc_window *to, unsigned max);
	void (*goaway)(void *ctx, bool stays); /* stays: the backend is not ready for now */
	void (*ready)(void *ctx);
	/*
	 * This transport is not used any more, and is the owner's to close: the one before, of which
	 * all has been taken; or (gone_on false) the next one, that the peer has not gone on by.
	 */
	void (*left)(void *ctx, struct sl_transport *t, bool gone_on);
	/* Debug builds, may be NULL: a post reads these bytes now. */
	void (*reads)(void *ctx, const struct sl_span *spans, unsigned cnt);
};

/* What the peer is told of new requests. UNREADY: none for now. ENDS: none any more. */
enum sl_away { SL_AWAY_NOT, SL_AWAY_UNREADY, SL_AWAY_ENDS };

struct sl_link_stats {
	uint64_t messages_sent, messages_received, bytes_sent, bytes_received;
	uint64_t stalls;
};

/* Of going on by another transport: what `second` is (migrate.c). */
enum sl_link_move {
	SL_MOVE_NONE,    /* there is none */
	SL_MOVE_OFFERED, /* the next one, by which nothing goes yet */
	SL_MOVE_HALF,    /* the one by which messages come, while `t` takes what goes out */
	SL_MOVE_LEFT,    /* the one before: nothing but its end is awaited */
};

/* Whether the peer is still there (keepalive.c). */
struct sl_keepalive {
	uint64_t silence_ns,
		interval_ns; /* by hand: it is asked after the one, again after the other */
	uint64_t next_ns;    /* to be looked at by then */
	uint64_t pinged_ns;  /* last PING */
	uint32_t pings;      /* since the peer was heard */
};

/* Requests of which the peer is to hear that nobody waits for them: one message's. */
struct sl_link_cancels;

struct sl_link {
	struct sl_transport *t, *second; /* what goes out goes by t */
	enum sl_link_move move;
	bool met;                      /* OFFERED: the peer has been heard by the next one */
	bool move_due;                 /* MIGRATE is to be sent by t */
	uint64_t move_until_ns;        /* it has failed, or is over, by then */
	struct sl_list left_in_flight; /* of in_flight, those that `second`, left, still reads */
	const struct sl_link_ops *ops;
	void *ctx;
	struct sl_mem *mem;
	struct sl_reader_scratch *scratch;
	struct sl_outlets *outlets;
	enum sl_rpc_type takes; /* REQUEST or RESPONSE; the other is a protocol error */
	int error;
	struct sl_sendq q;
	struct sl_list in_flight; /* sends that a transport without `copies` still reads */
	uint64_t next_id;         /* of messages */
	uint64_t generation;      /* high 16 bits of our ids: boot epoch */
	uint64_t peer_generation;
	/* control messages that are due */
	bool pong_due, ping_due;
	bool unheard; /* its peer knows of it by what it hears first: a PING, if nothing else goes */
	uint8_t away, said_away; /* enum sl_away; GOAWAY or READY is due where they differ */
	bool windows_due;        /* there may be more of them than `windows` */
	uint64_t pong_id, ping_id;
	struct sl_link_cancels *cancels, *last_cancels;
	uint32_t window_cnt;
	struct sl_rpc_window windows[SL_RPC_MAX_WINDOWS];
	uint64_t last_rx_ns; /* anything from the peer */
	struct sl_keepalive alive;
	uint64_t now_ns;
	bool cut;                 /* more could be posted at once */
	struct sl_outlet_use out; /* the cap on posted bytes, and who is about */
	struct sl_link_stats stats;
	uint32_t reading; /* readers in the midst of a message */
	struct sl_reader readers[SL_RPC_MAX_INTERLEAVE];
};

/* All by hand but the transport, which the link owns from now on. */
void sl_link_init(struct sl_link *l, struct sl_transport *t, uint64_t now_ns, bool one_class);
/* Frees what is being read, closes its transports. */
void sl_link_fini(struct sl_link *l);

/*
 * Queues a message: header.version_type, count, time_us and spans are the caller's; id is filled
 * in. Posts at once what may go. Owner gets it back by ops->sent, possibly before this returns.
 */
void sl_link_send(struct sl_link *l, struct sl_send *s, enum sl_rpc_class class, uint64_t now_ns);
/* Of which nothing is posted: the peer never hears of it. Owner gets it back by ops->sent. */
void sl_link_withdraw(struct sl_link *l, struct sl_send *s);
/*
 * Nobody waits for this request of ours any more. Of the last one of a message of which nothing is
 * posted the peer never hears: the owner gets that by ops->sent. Of the others it hears it behind
 * their messages, however many they are: what it does not hear of stays open there. `s`: the message,
 * if that has not come back; or NULL.
 */
void sl_link_cancel(struct sl_link *l, uint64_t id, struct sl_send *s);

/* Its part of what goes out by the way of its transport. */
static inline void sl_link_join(struct sl_link *l)
{
	const struct sl_transport *t = l->t;
	uint32_t ring = t->credits.bulk_len, far = sl_sendq_far(t->rate_bps, t->slice_min);

	sl_outlet_join(&l->out, l->outlets, t->port, sl_sendq_cap(t->rate_bps, t->slice_min),
		       t->port && far < ring ? far : ring);
}

/* Messages taken, or negative errno: the link is broken. */
int sl_link_poll(struct sl_link *l, uint64_t now_ns);
/* Posts what may go, one doorbell. */
void sl_link_flush(struct sl_link *l, uint64_t now_ns);
/*
 * From time to time: asks a silent peer, and ends the link (error) when that has not been heard for
 * three PINGs and at least patience_ns.
 */
void sl_link_keep_alive(struct sl_link *l, uint64_t patience_ns, uint64_t now_ns);
/* Event mode; false: there is something to do. */
bool sl_link_arm(struct sl_link *l);
static inline void sl_link_disarm(struct sl_link *l)
{
	l->t->ops->disarm(l->t);
	if (l->second)
		l->second->ops->disarm(l->second);
}
/* When it is to be polled at the latest, whatever comes. */
static inline uint64_t sl_link_next_ns(const struct sl_link *l)
{
	return l->move ? l->move_until_ns : UINT64_MAX;
}
/* One of its descriptors has an event, or it is time to ask the kernel. */
void sl_link_check(struct sl_link *l);

/*
 * The link goes on by this transport, with all that is under way: a gateway's begins, a backend's is
 * ready to follow. ops->left follows for one of the two. 0, and it is the link's; -EPROTO: the peer is
 * another one, -EBUSY: it is on the move already, or what post() says.
 */
int sl_link_migrate(struct sl_link *l, struct sl_transport *t, uint64_t now_ns);

/* Something waits to be posted, is on its way, or cannot go on. */
static inline bool sl_link_has_work(const struct sl_link *l)
{
	return l->error || l->move || (l->out.o->port && l->out.counted) || l->q.cnt ||
	       !sl_list_empty(&l->in_flight) || l->cancels || l->window_cnt || l->windows_due ||
	       l->pong_due || l->ping_due || l->unheard || l->away != l->said_away;
}

/* After an error: the sends that had not left whole, one by one; NULL: no more. */
struct sl_send *sl_link_unsent(struct sl_link *l);

/* Everything has left: closing it now cuts nothing off. */
static inline bool sl_link_idle(const struct sl_link *l)
{
	return !l->move && !l->q.cnt && sl_list_empty(&l->in_flight) &&
	       (!l->t->ops->delivered || l->t->ops->delivered(l->t));
}

#endif
