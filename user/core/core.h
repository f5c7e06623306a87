/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a worker: it joins clients (tcp, udp, front) with backend pools (batch, rpc).
 *
 * Its files call in one direction, downwards here:
 *
 *   core.c            set-up and tear-down of the parts; the steps of one event-loop round
 *   reload.c          from one configuration to the next (reload.h)
 *   transport.c       TCP events, passed to a client or to its filters
 *   dgram.c           requests in single datagrams
 *   backend.c         events of backends: replies, failures, the end of batches
 *   reply.c           replies of backends and of the gateway, for the front to pull
 *   request.c         requests as fronts push them: routing and admission
 *   evict.c           what is ended when a resource is exhausted or a client is late
 *   stream.c          requests that are forwarded while they are received
 *   dispatch.c        batches to the backends of a pool
 *   meta.c            the metadata block that a backend gets with a request
 *   redirect.c        the location of a redirect
 *   exchange.c        what one request and its reply hold, and their end
 *   sent_batch.c      request buffers that a posted send still reads (sent_batch.h)
 *   event.c           one record for each finished exchange, for the control thread (event.h)
 *   backpressure.c    smaller windows and paused bodies while frames are short
 *   min_rate.c        minimum byte rates of clients
 *   stream_limits.c   duration and rate of streams
 *   client.c          a connection, its front, and TCP as a byte stream
 *   client_timeout.c  time-outs of a client
 *   conn_addr.c       addresses of a connection
 *   pool.c            life cycle of pools (pool.h)
 *   health.c          whether a pool or route can be served
 *   router.c          from a request to a pool or a fixed reply
 *   limits.c          limits from the configuration
 *   addr_quota.c      usage and limits per client address (addr_quota.h)
 *   store.c           bytes that wait, in frames
 *
 * Each worker has one struct sl_core, used by its thread only. Clients and exchanges come from
 * memory pools sized by the configuration. Request bodies and waiting replies lie in frames of the
 * worker's UMEM.
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

/* Entries of the mmapped maps that belong to one worker; a pool has one slot of each. */
struct sl_core_maps {
	uint32_t service_cnt;         /* slots, at least cfg->pool_cnt */
	struct sl_svc_hist *hist;     /* [slots][SL_STAGE_CNT] */
	struct sl_svc_live *live;     /* [slots] */
	const struct sl_svc_ctl *ctl; /* [slots] */
};

/*
 * Reply bytes of the RPC upcall that is running. They belong to the RPC and are lent to the front
 * of one exchange until the upcall returns. backend.c starts and ends the loan.
 */
struct sl_loan {
	struct sl_exchange *x;  /* the exchange; NULL: none, or it has ended */
	bool is_head;           /* the reply begins */
	struct sl_span head;    /* metadata block of the head */
	struct sl_span tail;    /* metadata block of the trailers; empty: a later message has it */
	struct sl_span body[2]; /* not yet taken: the prefix of the message, the message */
	uint8_t prefix[SL_PREFIX_MAX];
};

struct sl_core {
	const struct sl_config *cfg; /* wcfg->cfg */
	struct sl_worker_cfg *wcfg;  /* in force, for new exchanges (pool.h) */
	struct sl_net *net;
	struct sl_tcp *tcp;
	struct sl_udp *udp;
	struct sl_rpc *rpc;
	struct sl_front_env env;
	struct sl_filter_maker filters; /* accepted connections */
	struct sl_front_limits limits;
	struct sl_wheel wheel;
	struct sl_wheel late; /* deadlines of exchanges whose request is incomplete */
	struct sl_addr_quotas quotas;
	struct sl_mempool clients;
	struct sl_mempool exchanges;
	struct sl_mempool sent_batches; /* struct sl_sent_batch */
	uint32_t *sent_batch_slots;     /* hash table, see sent_batch.c */
	uint32_t sent_batch_mask;
	struct sl_mempool buf_refs; /* struct sl_buf_ref */
	struct sl_mempool heads;    /* env.heads */
	void **head_conns;          /* env.head_conns: clients */
	struct sl_mempool notes;    /* struct sl_event, if there are events */
	struct sl_ring *events;     /* NULL: there is no reader */
	struct sl_list pools;       /* in force, or still referenced by an exchange */
	struct sl_dgram *dgram;
	const struct sl_udp_peer *datagram_from; /* sender of the datagram that is being read */
	struct sl_core_maps maps;
	struct sl_svc_hist
		*unread; /* [SL_STAGE_CNT], written by pools without a slot, never read */
	struct sl_core_stats stats;
	uint32_t hand; /* index in clients where the search for idle ones goes on (evict.c) */
	struct sl_list min_rate_list; /* exchanges that wait for their clients (min_rate.c) */
	uint32_t trusted;       /* streams that may send before a backend has answered (stream.c) */
	uint32_t keeping;       /* streams that keep a copy of what was sent (stream.c) */
	struct sl_list stalled; /* backends with parts that wait, by stalled_node (stream.c) */
	struct sl_list paused_bodies; /* not read for now, by item.link (backpressure.c) */
	uint64_t paused_ns;           /* when the last of them resumed, or the first was paused */
	struct sl_list ready;         /* exchanges whose fronts must be notified, by item.link */
	struct sl_loan loan;
	uint32_t client_head;  /* index + 1, see client.h */
	struct sl_span *spans; /* scratch for one batch */
	uint32_t span_cap;
	char date[32];
	uint64_t date_ns;  /* when `date` was formatted */
	uint8_t *rule_buf; /* scratch: field values of a reply, sl_rules_room() */
	uint8_t *meta_buf; /* scratch: a stored metadata block, SL_RPC_MAX_META */
	uint64_t now_ns;
	bool draining;
	bool serving_changed; /* a backend came or went: gRPC health watches must be checked */
	bool leaving;         /* an unreferenced pool or backend still exists */
	uint64_t leave_ns;    /* when to check again */
	/* Owned by the control thread: all that it has created and not yet freed. */
	struct sl_list wcfgs_made, pools_made;
};

/* Builds tcp, udp, rpc and pools on a net whose ports exist. Returns 0 or -errno. */
int sl_core_init(struct sl_core *c, const struct sl_config *cfg, struct sl_net *net,
		 const struct sl_core_maps *maps);
/* Frees all parts. The worker's thread must have ended. */
void sl_core_fini(struct sl_core *c);

/* Sets the time of this burst and keeps the Date header up to date. */
void sl_core_set_now(struct sl_core *c, uint64_t now_ns);
/*
 * Runs timers and batches, after the input and the replies of this burst. Returns the number of
 * events handled.
 */
unsigned sl_core_run(struct sl_core *c);
/* Flushes the filters of all connections. Called right before TCP output. */
void sl_core_flush(struct sl_core *c);
/* Returns the latest time at which sl_core_run() must be called. */
uint64_t sl_core_next_ns(const struct sl_core *c);
/*
 * Returns whether all pools, a pool or a route can be served (sl_front_env.serving). `arg` is the
 * core.
 */
enum sl_serving sl_core_serving(void *arg, enum sl_asked what, struct sl_span name);
/*
 * Returns true if a route covers the gRPC service `service` (sl_front_env.routed). `conn` is the
 * client.
 */
bool sl_core_routed(void *conn, const struct sl_request *rq, struct sl_span service);

/* Sets the limits of fronts and addresses from the configuration in force (limits.c). */
void sl_core_set_limits(struct sl_core *c);
/*
 * Returns how many bytes of a client are discarded after its reply, while that is sent and after
 * the close.
 */
uint32_t sl_core_max_discard(const struct sl_cfg_limits *l);

/* Refuses new requests; connections close when they become idle. */
void sl_core_drain(struct sl_core *c);
/* Returns true if nothing is in flight. */
bool sl_core_idle(const struct sl_core *c);

#endif
