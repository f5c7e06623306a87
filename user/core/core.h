/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a worker: joins clients (tcp, udp, front) with backend pools (batch, rpc).
 *
 * Its files call in one direction, downwards here:
 *
 *   core.c            set-up, tear-down, event-loop round
 *   reload.c          change of configuration
 *   transport.c       events of TCP and kernel sockets
 *   dgram.c           requests in single datagrams
 *   backend.c         events of backends
 *   outcome.c         replies as signs of a backend's health
 *   reply.c           replies, pulled by fronts
 *   request.c         requests, pushed by fronts: routing, admission
 *   evict.c           ends exchanges and connections in a shortage
 *   stream.c          streamed requests
 *   dispatch.c        batches to backends
 *   meta.c            metadata block of requests
 *   redirect.c        redirects
 *   exchange.c        accounting and end of an exchange
 *   sent_batch.c      buffers that a posted send still reads
 *   event.c           access-log records
 *   trace.c           traces and request ids
 *   backpressure.c    smaller windows and paused bodies
 *   min_rate.c        minimum byte rates
 *   stream_limits.c   duration and rate of streams
 *   client.c          a connection and its front
 *   client_timeout.c  time-outs
 *   conn_addr.c       addresses
 *   pool.c            life cycle
 *   serving.c         which backends serve, and their weights
 *   health_table.c    health of backends, shared by workers
 *   health.c          health answers of fronts
 *   router.c          selection of routes
 *   route_pools.c     routes with several pools or affinity
 *   mirror.c          copies of requests to another pool
 *   body_match.c      pool selection by body
 *   affinity.c        keys of requests for one backend
 *   prefix_hash.c     keys from beginnings of bodies
 *   usage_scan.c      a number in a reply
 *   json_member.c     a member of JSON text
 *   limits.c          configured limits
 *   api_key.c         API keys
 *   cors.c            cross-origin requests
 *   quota.c           limits of routes per client: rates, open requests
 *   quota_table.c     token buckets of all workers
 *   addr_quota.c      usage and limits per client address
 *   store.c           waiting bytes, in frames
 *
 * Each worker has one struct sl_core, used by its thread only. Clients and exchanges come from
 * memory pools sized by the configuration. Waiting bytes lie in frames of the worker's UMEM.
 */
#ifndef SL_CORE_CORE_H
#define SL_CORE_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/mempool.h"
#include "base/rand.h"
#include "base/wheel.h"
#include "config/config.h"
#include "core/addr_quota.h"
#include "core/quota.h"
#include "batch/batcher.h"
#include "core/stats.h"
#include "front/conn.h"
#include "front/front.h"
#include "net/net.h"
#include "rpc/rpc.h"
#include "sock/sock.h"
#include "tcp/tcp.h"
#include "udp/udp.h"

struct sl_router;
struct sl_health_table;
struct sl_exchange;
struct sl_worker_cfg;
struct sl_dgram;
struct sl_ring;
struct sl_prefix_table;
struct sl_mirror;

/* One worker's entries in the mmapped maps; a pool has one slot of each. */
struct sl_core_maps {
	uint32_t service_cnt;           /* at least cfg->pool_cnt */
	struct sl_svc_hist *hist;       /* [slots][SL_STAGE_CNT] */
	struct sl_svc_live *live;       /* [slots] */
	const struct sl_svc_ctl *ctl;   /* [slots] */
	struct sl_health_table *health; /* of all workers; NULL: the core makes its own */
	uint32_t lane;                  /* this worker's in it */
};

/*
 * Reply bytes of the running RPC upcall, lent to one exchange's front until the upcall returns
 * (backend.c).
 */
struct sl_loan {
	struct sl_exchange *x;  /* NULL: none, or it has ended */
	bool is_head;           /* the reply begins */
	struct sl_span head;    /* metadata block */
	struct sl_span tail;    /* metadata block of the trailers; empty: not yet */
	struct sl_span body[2]; /* not yet taken: prefix, message */
	uint8_t prefix[SL_PREFIX_MAX];
};

struct sl_core {
	const struct sl_config *cfg; /* wcfg->cfg */
	struct sl_worker_cfg *wcfg;  /* in force (pool.h) */
	struct sl_net *net;
	struct sl_tcp *tcp;
	struct sl_sock_set *sock;
	struct sl_udp *udp;
	struct sl_rpc *rpc;
	struct sl_front_env env;
	struct sl_filter_maker filters;
	struct sl_front_limits limits;
	struct sl_wheel wheel;
	struct sl_wheel late; /* deadlines of exchanges whose request is incomplete */
	struct sl_addr_quotas quotas;
	struct sl_mempool clients;
	struct sl_mempool exchanges;
	struct sl_mempool sent_batches; /* struct sl_sent_batch */
	uint32_t *sent_batch_slots;     /* hash table, see sent_batch.c */
	uint32_t sent_batch_mask;
	struct sl_mempool buf_refs;      /* struct sl_buf_ref */
	struct sl_mempool body_matches;  /* struct sl_body_match */
	struct sl_mempool usage_scans;   /* struct sl_usage_scan */
	struct sl_mempool prefix_hashes; /* struct sl_prefix_hash */
	struct sl_prefix_table *prefixes;
	struct sl_mempool heads; /* env.heads */
	void **head_conns;       /* env.head_conns: clients */
	struct sl_mempool notes; /* struct sl_event */
	struct sl_ring *events;
	struct sl_prng prng;        /* ids of traces, sampling */
	_Atomic bool events_wanted; /* set by the control thread: `events` has a reader */
	struct sl_list pools;       /* in force or referenced */
	struct sl_dgram *dgram;
	struct sl_mirror *mirror;
	const struct sl_udp_peer *datagram_from; /* of the datagram being read */
	struct sl_core_maps maps;
	struct sl_health_table *own_health; /* maps.health, to be freed; NULL: the gateway's */
	struct sl_svc_hist *unread;         /* [SL_STAGE_CNT]; written by pools without a slot */
	struct sl_core_stats stats;
	uint32_t hand;                /* index in clients of the last eviction (evict.c) */
	struct sl_list min_rate_list; /* min_rate.c */
	uint32_t trusted;       /* streams that may send before a backend has answered (stream.c) */
	uint32_t keeping;       /* streams that keep what was sent */
	struct sl_list stalled; /* backends, by stalled_node (stream.c) */
	struct sl_list paused_bodies; /* by item.link (backpressure.c) */
	uint64_t paused_ns;           /* last one resumed, or first paused */
	struct sl_list ready;         /* exchanges to notify fronts of, by item.link */
	struct sl_loan loan;
	uint32_t client_head;  /* index + 1, see client.h */
	struct sl_span *spans; /* scratch for one batch */
	uint32_t span_cap;
	char date[32];
	uint64_t date_ns;
	uint8_t *rule_buf;                   /* scratch, sl_rules_room() */
	uint8_t *meta_buf;                   /* scratch, SL_RPC_MAX_META */
	char limit_texts[2][SL_QUOTA_FIELD]; /* of the reply being written (quota.c) */
	uint64_t now_ns;
	bool draining;
	bool serving_changed; /* check gRPC health watches */
	bool leaving;         /* unreferenced pools or backends exist */
	uint64_t leave_ns;    /* next check */
	/* Owned by the control thread: created and not yet freed. */
	struct sl_list wcfgs_made, pools_made, route_codes_made;
};

/* Builds the parts on a net whose ports exist. Returns 0 or -errno. */
int sl_core_init(struct sl_core *c, const struct sl_config *cfg, struct sl_net *net,
		 const struct sl_core_maps *maps);
/* The worker's thread must have ended. */
void sl_core_fini(struct sl_core *c);

/* Sets the burst's time and the Date header. */
void sl_core_set_now(struct sl_core *c, uint64_t now_ns);
/* Runs timers and batches, after the input and replies of a burst. Returns the number of events. */
unsigned sl_core_run(struct sl_core *c);
/* Flushes all filters, right before TCP output. */
void sl_core_flush(struct sl_core *c);
/* Returns when sl_core_run() must be called at the latest. */
uint64_t sl_core_next_ns(const struct sl_core *c);
/* Tells whether all pools, a pool or a route can be served (sl_front_env.serving). `arg`: core. */
enum sl_serving sl_core_serving(void *arg, enum sl_asked what, struct sl_span name);
/* Returns true if a route covers the gRPC service (sl_front_env.routed). `conn`: the client. */
bool sl_core_routed(void *conn, const struct sl_request *rq, struct sl_span service);

/* Sets the limits of fronts and addresses from the configuration (limits.c). */
void sl_core_set_limits(struct sl_core *c);
/* Returns how many bytes of a client are discarded during its reply and after the close. */
uint32_t sl_core_max_discard(const struct sl_cfg_limits *l);

/* Refuses new requests; connections close when they become idle. */
void sl_core_drain(struct sl_core *c);
/* Returns true if nothing is in flight. */
bool sl_core_idle(const struct sl_core *c);

#endif
