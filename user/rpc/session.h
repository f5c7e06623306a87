/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the session: session.c (create, poll, sleep), channel.c (up, down, input), send.c.
 *
 * A burst polls the channels that are awake: used since the last tick, with something due, or,
 * without a poll group, with requests outstanding. The others rest: armed, woken by their poll
 * group or by the tick after their doorbell.
 */
#ifndef SL_RPC_SESSION_H
#define SL_RPC_SESSION_H

#include "rpc/poll_group.h"
#include "rpc/link.h"
#include "rpc/outstanding.h"
#include "rpc/rpc.h"

enum {
	SL_SESSION_CHECK_NS = 1000000,
	SL_SESSION_QUEUED_MAX = 1024, /* per channel */
	SL_SESSION_STREAMS_MAX = 1 << 16,
	/* a class of a channel may use 1/8 of the free memory */
	SL_SESSION_PARTS_OF_FREE = 8,
	SL_SESSION_TIMERS_MAX = 256, /* per poll */
};

/* Owner of a send without a batch. */
#define SL_SEND_PART UINT64_MAX

struct sl_stream_part {
	struct sl_send send;
	struct sl_list of_request;
};

/* Counters of the last tick, for other threads. */
struct sl_channel_copy {
	uint64_t silent_ns, doorbells, retransmitted, duplicates, bad_mac;
	uint32_t slots, slots_free;
};

struct sl_rpc_channel {
	struct sl_list node;
	struct sl_list awake; /* unlinked: resting or DOWN */
	bool used;            /* since the last tick */
	struct sl_rpc *rpc;
	char name[64];
	void *app_data;
	enum sl_rpc_state state;
	bool port_down;
	bool leaving;
	bool ends;
	uint64_t drained_ns; /* nothing outstanding since; 0: no */
	struct sl_link link; /* valid unless DOWN */
	struct sl_list requests, batches;
	struct sl_list windows; /* requests with credit to grant */
	struct sl_list ended;   /* `sent` or batch_done is due */
	uint32_t outstanding;
	uint32_t part_bytes[SL_CLASS_CNT];
	uint64_t next_batch;
	struct sl_channel_copy seen;
	uint64_t asked_ns;
	struct sl_rpc_stats stats; /* without those of link and transport */
	struct sl_link_stats past;
	uint64_t past_doorbells;
};

struct sl_rpc {
	struct sl_rpc_config cfg;
	struct sl_rpc_memory mem_area;
	const struct sl_rpc_ops *ops;
	void *app;
	struct sl_list channels, awake;
	unsigned channel_cnt;
	bool armed; /* about to sleep: awake channels are armed, too */
	uint64_t next_ping_ns;
	unsigned round;
	uint64_t round_ping_ns; /* earliest PING of these */
	struct sl_outstanding out;
	struct sl_wheel wheel;
	struct sl_capped_alloc mem;
	size_t part_bytes;
	uint64_t now_ns, check_ns;
	int epoll_fd;
	struct sl_poll_groups poll_groups;
	struct sl_reassembly_scratch scratch;
	struct sl_tx_ports tx_ports;
};

/* Begins to poll the channel, unless it is down. */
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

/* Returns true if a draining channel ends after its last request. */
static inline bool sl_channel_closes_when_idle(const struct sl_rpc_channel *ch)
{
	return ch->state == SL_RPC_DRAINING && (ch->leaving || ch->ends);
}

/* channel.c */
extern const struct sl_link_ops sl_channel_link_ops;
/*
 * Receives messages, and makes their upcalls. An error takes the channel down. Returns the number
 * of messages.
 */
unsigned sl_channel_poll(struct sl_rpc_channel *ch, uint64_t now_ns);
/* Runs about every millisecond: keep-alive, counters, drain's end. */
void sl_channel_tick(struct sl_rpc_channel *ch, uint64_t now_ns);
/* Copies the transport's counters, for other threads. */
void sl_channel_copy_stats(struct sl_rpc_channel *ch);
/* Adds the transport to the worker's events. Returns 0 or -errno. */
int sl_channel_watch_transport(struct sl_rpc_channel *ch, struct sl_transport *t);
/* Makes the upcall `moved`: a migration has ended. */
void sl_channel_report_move(const struct sl_rpc_channel *ch, bool gone_on);
/* Fails all requests and closes the link. why_left: for requests that were partly sent. */
void sl_channel_down(struct sl_rpc_channel *ch, enum sl_rpc_failure why_left);
/* Makes the upcalls `sent` and batch_done that are due. */
void sl_channel_report_sent(struct sl_rpc_channel *ch);
/* Frees a request, without upcall. The last one ends its batch. */
void sl_channel_forget(struct sl_rpc_channel *ch, struct sl_pending *p);
/* Cancels and frees a request. The peer gets a CANCEL, unless it never left. */
void sl_channel_cancel(struct sl_rpc_channel *ch, struct sl_pending *p);
/* Makes the upcall `watch`, in debug builds only. */
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
/*
 * Called at the deadline: cancels the request, with `failed`. Waits on if the caller holds back
 * credit.
 */
void sl_channel_timeout(struct sl_rpc_channel *ch, struct sl_pending *p);

#endif
