/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the gateway's session: shared by session.c (create, poll, sleep), channel.c (up, down,
 * what comes in) and send.c (what goes out).
 */
#ifndef SL_RPC_SESSION_H
#define SL_RPC_SESSION_H

#include "rpc/link.h"
#include "rpc/outstanding.h"
#include "rpc/rpc.h"

enum {
	SL_SESSION_CHECK_NS = 1000000, /* how often the kernel is asked about each peer */
	SL_SESSION_QUEUED_MAX = 1024,  /* batches waiting in one channel */
	SL_SESSION_TIMERS_MAX = 256,   /* time-outs per poll */
};

struct sl_rpc_channel {
	struct sl_list node; /* of the session */
	struct sl_rpc *rpc;
	char name[64];
	void *app_data;
	enum sl_rpc_state state;
	struct sl_link link; /* valid unless DOWN */
	struct sl_list requests, batches;
	struct sl_list ended; /* batches whose batch_done or sent is to be told */
	uint32_t outstanding;
	uint64_t ping_ns;   /* next one */
	uint64_t pinged_ns; /* last one */
	uint32_t pings;     /* since the peer was heard */
	uint64_t next_batch;
	struct sl_rpc_stats stats; /* without what link and transport count */
	struct sl_link_stats past; /* of former links */
	uint64_t past_doorbells;
};

struct sl_rpc {
	struct sl_rpc_config cfg;
	struct sl_rpc_memory mem_area;
	const struct sl_rpc_ops *ops;
	void *app;
	struct sl_list channels;
	struct sl_outstanding out;
	struct sl_wheel wheel;
	struct sl_mem mem;
	uint64_t now_ns, check_ns;
	int epoll_fd;
	bool draining;
	struct sl_reader_scratch scratch;
};

/* channel.c */
extern const struct sl_link_ops sl_channel_link_ops;
unsigned sl_channel_poll(struct sl_rpc_channel *ch, uint64_t now_ns);
void sl_channel_tick(struct sl_rpc_channel *ch, uint64_t now_ns);
/* Ends everything: sent, failed, batch_done, state. */
void sl_channel_down(struct sl_rpc_channel *ch, enum sl_rpc_failure why_left);
/* Tells what has ended since the last time. */
void sl_channel_tell(struct sl_rpc_channel *ch);
/* Takes a request out of its channel and batch; the last one ends the batch. */
void sl_channel_forget(struct sl_rpc_channel *ch, struct sl_pending *p);
void sl_channel_timeout(struct sl_rpc_channel *ch, struct sl_pending *p);

#endif
