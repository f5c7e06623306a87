/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a channel, for gateway and backend: messages over a transport.
 *
 * Callbacks may call sl_link_send() and sl_link_cancel(), but not poll, flush or fini.
 */
#ifndef SL_RPC_LINK_H
#define SL_RPC_LINK_H

#include "rpc/tx_port.h"
#include "rpc/reassembly.h"
#include "rpc/sendq.h"
#include "rpc/transport.h"

enum { SL_LINK_POLL = 16 };
/* A class is active for this time after its last message. */
enum { SL_LINK_QUIET_NS = 100000000 };

struct sl_link_ops {
	sl_part_fn *part;
	/* All parts were passed on; `h`: the first header. May be NULL. */
	void (*message)(void *ctx, const struct sl_rpc_header *h);
	/* The owner has `s` and its bytes back. */
	void (*sent)(void *ctx, struct sl_send *s);
	void (*cancel)(void *ctx, uint64_t id);
	void (*window)(void *ctx, uint64_t id, uint32_t bytes);
	/* Moves up to max grants of credit to `to`. */
	unsigned (*grants)(void *ctx, struct sl_rpc_window *to, unsigned max);
	void (*goaway)(void *ctx, bool stays);
	void (*ready)(void *ctx);
	/* A migration has ended; close `t`: the former transport, or (!moved_on) the next. */
	void (*retired)(void *ctx, struct sl_transport *t, bool moved_on);
	/* Debug builds; may be NULL: a post reads these bytes. */
	void (*reads)(void *ctx, const struct sl_span *spans, unsigned cnt);
};

enum sl_away { SL_AWAY_NOT, SL_AWAY_UNREADY, SL_AWAY_ENDS };

struct sl_link_stats {
	uint64_t messages_sent, messages_received, bytes_sent, bytes_received;
	uint64_t stalls;
};

enum sl_link_move {
	SL_MOVE_NONE,
	SL_MOVE_OFFERED, /* the next transport, not used yet */
	SL_MOVE_HALF,    /* `second` takes the input, `t` the output */
	SL_MOVE_RETIRED, /* the former transport, until its end */
};

/* See keepalive.c. */
struct sl_keepalive {
	uint64_t silence_ns,
		/* set by the owner: before a PING, between two */
		interval_ns;
	uint64_t next_ns;
	uint64_t pinged_ns;
	uint32_t pings; /* since the peer was heard */
};

struct sl_link_cancels;

struct sl_link {
	struct sl_transport *t, *second; /* output goes to t */
	enum sl_link_move move;
	bool probed_ok;
	bool move_due;
	uint64_t move_until_ns;
	struct sl_list retired_in_flight; /* read by the former transport */
	const struct sl_link_ops *ops;
	void *ctx;
	struct sl_capped_alloc *mem;
	struct sl_reassembly_scratch *scratch;
	struct sl_tx_ports *tx_ports;
	enum sl_rpc_type takes; /* REQUEST or RESPONSE */
	int error;
	struct sl_sendq q;
	/* posted sends without `copies` */
	struct sl_list in_flight;
	uint64_t next_id;
	uint64_t generation; /* high 16 bits of our ids: boot epoch */
	uint64_t peer_generation;
	bool pong_due, ping_due;
	/* the peer learns of the connection by its first message */
	bool unheard;
	uint8_t away, said_away; /* GOAWAY or READY is due where they differ */
	bool windows_due;
	uint64_t pong_id, ping_id;
	struct sl_link_cancels *cancels, *last_cancels;
	uint32_t window_cnt;
	struct sl_rpc_window windows[SL_RPC_MAX_WINDOWS];
	uint64_t last_rx_ns;
	struct sl_keepalive alive;
	uint64_t now_ns;
	bool cut; /* the pump stopped at its limit */
	struct sl_tx_port_link out;
	struct sl_link_stats stats;
	uint32_t reassembling;
	struct sl_reassembler reassemblers[SL_RPC_MAX_INTERLEAVE];
};

/* The caller has zeroed *l, and set ops to takes, and alive. Owns `t`. */
void sl_link_init(struct sl_link *l, struct sl_transport *t, uint64_t now_ns, bool one_class);
/* Closes the transports. Without sl_link_unsent() before, sends are lost. */
void sl_link_fini(struct sl_link *l);

/*
 * Posts or queues a message, and sets its id. Needs version_type, count, deadline_ns, spans,
 * span_cnt and total. ops->sent returns `s`, possibly at once; after an error,
 * sl_link_unsent() does.
 */
void sl_link_send(struct sl_link *l, struct sl_send *s, enum sl_rpc_class class, uint64_t now_ns);
/* Removes a message of which nothing was posted. ops->sent returns `s`. */
void sl_link_withdraw(struct sl_link *l, struct sl_send *s);
/*
 * Cancels a request. `s`: its message, unless ops->sent has returned it; may be NULL. `s` is
 * withdrawn if nothing of it was posted and all its requests are cancelled; else CANCEL follows.
 */
void sl_link_cancel(struct sl_link *l, uint64_t id, struct sl_send *s);

/* Joins the transmit port of l->t. sl_tx_port_leave() must precede a further call. */
static inline void sl_link_join(struct sl_link *l)
{
	const struct sl_transport *t = l->t;
	uint32_t ring = t->credits.bulk_len, far = sl_sendq_far(t->rate_bps, t->slice_min);

	sl_tx_port_join(&l->out, l->tx_ports, t->port, sl_sendq_cap(t->rate_bps, t->slice_min),
			t->port && far < ring ? far : ring);
}

/* Passes on what has arrived. Returns the number of messages, or -errno (broken link). */
int sl_link_poll(struct sl_link *l, uint64_t now_ns);
/* Posts what may go, with one doorbell. */
void sl_link_flush(struct sl_link *l, uint64_t now_ns);
/* PINGs a silent peer. Sets `error` after three unanswered PINGs and dead_after_ns. */
void sl_link_keep_alive(struct sl_link *l, uint64_t dead_after_ns, uint64_t now_ns);
/* Prepares a sleep on the fd. False: there is work now. */
bool sl_link_arm(struct sl_link *l);
/* Leaves event mode. */
static inline void sl_link_disarm(struct sl_link *l)
{
	l->t->ops->disarm(l->t);
	if (l->second)
		l->second->ops->disarm(l->second);
}
/* Returns when a migration is given up; UINT64_MAX: none. */
static inline uint64_t sl_link_next_ns(const struct sl_link *l)
{
	return l->move ? l->move_until_ns : UINT64_MAX;
}
/* Asks the kernel whether the peer is alive; sets `error` if not. */
void sl_link_check(struct sl_link *l);

/*
 * Migrates the link to `t`: a gateway begins, a backend waits. ops->retired follows. Returns 0 and
 * owns `t`, -EPROTO (another peer), -EBUSY, or the error of post().
 */
int sl_link_migrate(struct sl_link *l, struct sl_transport *t, uint64_t now_ns);

/* Returns true if the link must be flushed or polled soon. */
static inline bool sl_link_has_work(const struct sl_link *l)
{
	return l->error || l->move || (l->out.o->port && l->out.counted) || l->q.cnt ||
	       !sl_list_empty(&l->in_flight) || l->cancels || l->window_cnt || l->windows_due ||
	       l->pong_due || l->ping_due || l->unheard || l->away != l->said_away;
}

/* Removes and returns the next message not reported as sent, after an error. */
struct sl_send *sl_link_unsent(struct sl_link *l);

/* Returns true if the peer's host has all that was sent. */
static inline bool sl_link_idle(const struct sl_link *l)
{
	return !l->move && !l->q.cnt && sl_list_empty(&l->in_flight) &&
	       (!l->t->ops->delivered || l->t->ops->delivered(l->t));
}

#endif
