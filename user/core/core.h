/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a worker: it joins clients (tcp, udp, front) with backend groups (batch, rpc).
 *
 * Its files call in one direction, downwards here:
 *
 *   core.c       its parts, made and taken down; what a round of the loop does here
 *   reload.c     from one configuration to the next (reload.h)
 *   transport.c  what TCP tells, to a client or its filters
 *   dgram.c      requests in single datagrams
 *   backend.c    what backends tell: replies, losses, the end of batches
 *   reply.c      replies of backends and of the gateway, for the front to pull
 *   request.c    requests as fronts push them: where to, and whether they are let in
 *   evict.c     who gives way when something is short, and who was too slow
 *   stream.c     requests that are passed on as they come
 *   dispatch.c    batches to the members of a group
 *   meta.c       what a backend is told of a request beside its body
 *   redirect.c   where a redirect leads
 *   exchange.c   what one request and its reply have of all this, and their end
 *   sent_batch.c     whose bytes may be read until when (sent_batch.h)
 *   event.c      what became of each exchange, for the control thread (event.h)
 *   backpressure.c   bodies while frames get fewer
 *   min_rate.c       clients that send or read too slowly
 *   stream_limits.c       for how long streams may go on, and how fast
 *   client.c     a connection and the front that speaks on it, on TCP as a byte stream
 *   client_timeout.c   for how long a client is waited
 *   conn_addr.c       who is at the ends of a connection
 *   pool.c      backend groups: what keeps them, and how they end (pool.h)
 *   health.c    whether there is anybody to take a request, for those who ask
 *   router.c     which service or fixed reply a request goes to
 *   limits.c     what the configuration allows
 *   addr_quota.c    what each client address has of all this (addr_quota.h)
 *   store.c      bytes that wait, in frames
 *
 * One struct sl_core per worker, used by its thread only. Memory: clients and exchanges from pools
 * sized by the configuration, request bodies and waiting replies in frames of the worker's UMEM.
 */
#ifndef SL_CORE_CORE_H
#define SL_CORE_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/mempool.h"
#include "base/wheel.h"
#include "config/config.h"
#include "core/addr_quota.h"
#include "batch/batcher.h"
#include "core/stats.h"
#include "front/conn.h"
#include "front/front.h"
#include "net/net.h"
#include "rpc/rpc.h"
#include "tcp/tcp.h"
#include "udp/udp.h"

struct sl_router;
struct sl_exchange;
struct sl_worker_cfg;
struct sl_dgram;
struct sl_ring;

/* Entries of the mmapped maps that belong to one worker; a group has one slot of each. */
struct sl_core_maps {
	uint32_t service_cnt;         /* slots, at least cfg->pool_cnt */
	struct sl_svc_hist *hist;     /* [slots][SL_STAGE_CNT] */
	struct sl_svc_live *live;     /* [slots] */
	const struct sl_svc_ctl *ctl; /* [slots] */
};

/*
 * What the upcall of the RPC that is on the stack has brought: bytes of the RPC's, lent to the front
 * of one exchange until the upcall returns. reply.c makes it and ends it.
 */
struct sl_loan {
	struct sl_exchange *x;  /* whose; NULL: none, or it has gone */
	bool is_head;           /* the reply begins */
	struct sl_span head;    /* block that says how */
	struct sl_span tail;    /* block that says how it ends; empty: another one does */
	struct sl_span body[2]; /* not yet taken: what stands before the message, the message */
	uint8_t prefix[SL_PREFIX_MAX];
};

struct sl_core {
	const struct sl_config *cfg; /* table->cfg */
	struct sl_worker_cfg *wcfg;  /* in force: of new exchanges (pool.h) */
	struct sl_net *net;
	struct sl_tcp *tcp;
	struct sl_udp *udp;
	struct sl_rpc *rpc;
	struct sl_front_env env;
	struct sl_filter_maker filters; /* of connections that are accepted */
	struct sl_front_limits limits;
	struct sl_wheel wheel;
	struct sl_wheel late; /* deadlines of exchanges whose request is still coming */
	struct sl_addr_quotas quotas;
	struct sl_mempool clients;
	struct sl_mempool exchanges;
	struct sl_mempool sent_batches; /* struct sl_sent_batch */
	uint32_t *sent_batch_slots;     /* sent_batch.c */
	uint32_t sent_batch_mask;
	struct sl_mempool buf_refs; /* struct sl_buf_ref */
	struct sl_mempool heads;    /* env.heads */
	void **head_conns;          /* env.head_conns: clients */
	struct sl_mempool notes;    /* struct sl_event, if there are events */
	struct sl_ring *events;     /* of this worker; NULL: nobody reads any */
	struct sl_list pools;       /* that are in force, or that an exchange has still */
	struct sl_dgram *dgram;
	const struct sl_udp_peer *datagram_from; /* of the one that is being read */
	struct sl_core_maps maps;
	struct sl_svc_hist *unread; /* [SL_STAGE_CNT], of groups without a slot */
	struct sl_core_stats stats;
	uint32_t hand;                /* in clients, of the search for idle ones (evict.c) */
	struct sl_list min_rate_list; /* exchanges that wait for their clients (min_rate.c) */
	uint32_t
		trusted; /* streams that may send much before their backends have taken any (stream.c) */
	uint32_t keeping;       /* streams that keep what was sent of them (stream.c) */
	struct sl_list stalled; /* members with parts that wait for room, by `turn` (stream.c) */
	struct sl_list paused_bodies; /* that are not read for now, by item.link (backpressure.c) */
	uint64_t paused_ns;           /* since when none of them has gone on */
	struct sl_list ready;         /* exchanges whose fronts are to be told, by item.link */
	struct sl_loan loan;
	uint32_t client_head;  /* client.h: index + 1 */
	struct sl_span *spans; /* scratch for one batch */
	uint32_t span_cap;
	char date[32];
	uint64_t date_ns;  /* when `date` was formatted */
	uint8_t *rule_buf; /* scratch: values of fields of a reply, sl_rules_room() */
	uint8_t *meta_buf; /* scratch: a stored metadata block, SL_RPC_MAX_META */
	uint64_t now_ns;
	bool draining;
	bool serving_changed; /* a backend came or went: gRPC health watches are to be looked at */
	bool leaving;         /* a group or a member that nobody has any more is there still */
	uint64_t leave_ns;    /* when to look again */
	/* The control thread's: all that it has made, and not yet freed. */
	struct sl_list wcfgs_made, pools_made;
};

/* Builds tcp, udp, rpc and groups on a net whose ports exist. 0 or -errno. */
int sl_core_init(struct sl_core *c, const struct sl_config *cfg, struct sl_net *net,
		 const struct sl_core_maps *maps);
void sl_core_fini(struct sl_core *c);

/* Time of this burst; also keeps the Date header. */
void sl_core_set_now(struct sl_core *c, uint64_t now_ns);
/* Timers, batches; after input and replies of this burst. Returns events handled. */
unsigned sl_core_run(struct sl_core *c);
/* What connections hold back until output is made; right before it. */
void sl_core_flush(struct sl_core *c);
/* When sl_core_run wants to be called at the latest. */
uint64_t sl_core_next_ns(const struct sl_core *c);
/* For sl_front_env.serving, arg: the core; and for .routed. */
enum sl_serving sl_core_serving(void *arg, enum sl_asked what, struct sl_span name);
bool sl_core_routed(void *conn, const struct sl_request *rq, struct sl_span service);

/* limits.c: what fronts and addresses may take, from the configuration in force. */
void sl_core_set_limits(struct sl_core *c);
/* Bytes of a client that are thrown away once it has its answer, while that goes out and after the close. */
uint32_t sl_core_max_discard(const struct sl_cfg_limits *l);

/* No new requests; connections close as they fall idle. */
void sl_core_drain(struct sl_core *c);
/* Nothing is in flight. */
bool sl_core_idle(const struct sl_core *c);

#endif
