/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The core of a worker: joins clients (tcp, udp, front) with backend pools (batch, rpc).
 *
 * Each worker has one struct sl_core, used by its thread only.
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

/* One worker's entries in the mapped maps. */
struct sl_core_maps {
	uint32_t service_cnt;
	struct sl_svc_hist *hist; /* [slots][SL_STAGE_CNT] */
	struct sl_svc_live *live;
	const struct sl_svc_ctl *ctl;
	struct sl_health_table *health; /* of all workers; NULL: the core makes its own */
	uint32_t lane;                  /* this worker's in it */
};

/* Reply bytes of an RPC upcall, lent to an exchange until it returns (backend.c). */
struct sl_loan {
	struct sl_exchange *x;  /* NULL: none, or it has ended */
	bool is_head;           /* the reply begins */
	struct sl_span head;    /* metadata block */
	struct sl_span tail;    /* trailers' metadata block; empty: not yet */
	struct sl_span body[2]; /* not yet taken: prefix, message */
	uint8_t prefix[SL_PREFIX_MAX];
};

struct sl_core {
	const struct sl_config *cfg;
	struct sl_worker_cfg *wcfg; /* in force (pool.h) */
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
	struct sl_mempool sent_batches;
	uint32_t *sent_batch_slots; /* hash table */
	uint32_t sent_batch_mask;
	struct sl_mempool buf_refs;
	struct sl_mempool body_matches;
	struct sl_mempool usage_scans;
	struct sl_mempool prefix_hashes;
	struct sl_prefix_table *prefixes;
	struct sl_mempool heads;
	void **head_conns; /* env.head_conns: clients */
	struct sl_mempool notes;
	struct sl_ring *events;
	struct sl_ring *offenders;
	struct sl_prng prng;        /* ids of traces, sampling */
	char refused_id[64];        /* of the last request without an exchange */
	uint8_t refused_id_len;     /* 0: none */
	_Atomic bool events_wanted; /* set by the control thread: `events` has a reader */
	struct sl_list pools;       /* in force or referenced */
	struct sl_dgram *dgram;
	struct sl_mirror *mirror;
	const struct sl_udp_peer *datagram_from; /* datagram being read */
	struct sl_core_maps maps;
	struct sl_health_table *own_health; /* maps.health, to be freed; NULL: the gateway's */
	struct sl_svc_hist *unread;         /* [SL_STAGE_CNT]; written by pools without a slot */
	struct sl_core_stats stats;
	uint32_t hand; /* index in clients of the last eviction */
	struct sl_list min_rate_list;
	uint32_t trusted;             /* streams that may send before a backend has answered */
	uint32_t keeping;             /* streams that keep what was sent */
	struct sl_list stalled;       /* backends, by stalled_node */
	struct sl_list paused_bodies; /* by item.link */
	uint64_t paused_ns;           /* last one resumed, or first paused */
	struct sl_list ready;         /* by item.link */
	struct sl_loan loan;
	uint32_t client_head;          /* index + 1, see client.h */
	struct sl_rpc_item *rpc_items; /* scratch for one batch: [SL_RPC_MAX_BATCH] */
	struct sl_span *spans;         /* the same: [span_cap] */
	uint32_t span_cap;
	char date[32];
	uint64_t date_ns;
	uint8_t *rule_buf;                   /* scratch, sl_rules_room() */
	uint8_t *meta_buf;                   /* scratch, SL_RPC_MAX_META */
	char limit_texts[2][SL_QUOTA_FIELD]; /* of the reply being written (quota.c) */
	uint64_t follow_ns;                  /* sl_core_follow_health() is due */
	uint32_t health_changes;             /* followed */
	uint64_t now_ns;
	uint32_t now_ms; /* now_ns rounded up, modulo 2^32 */
	bool draining;
	bool serving_changed; /* check gRPC health watches */
	bool leaving;         /* some pools or backends are unreferenced */
	uint64_t leave_ns;    /* next check */
	/* Control thread's. */
	struct sl_list wcfgs_made, pools_made, route_codes_made;
};

/*
 * The net's ports must exist; `cfg` and `net` must outlive the core. Returns 0 or -errno, with all
 * freed. Before the worker starts.
 */
int sl_core_init(struct sl_core *c, const struct sl_config *cfg, struct sl_net *net,
		 const struct sl_core_maps *maps);
/*
 * Returns the most connections of a worker to servers with via = stack: frames suffice for all
 * their receive windows.
 */
uint32_t sl_core_server_conns(const struct sl_config *cfg, uint32_t frame_size);
/* Frees all, and resets connections. The worker's thread must have ended. */
void sl_core_fini(struct sl_core *c);

/* Sets the time of the burst, and follows changes of health. Worker, as all below. */
void sl_core_set_now(struct sl_core *c, uint64_t now_ns);
/*
 * Runs timers, sends batches, resumes and evicts exchanges at the end of a burst. Returns the
 * number of events.
 */
unsigned sl_core_run(struct sl_core *c);
/* Sends what filters hold. Must come right before TCP output. */
void sl_core_flush(struct sl_core *c);
/* Returns the latest time for sl_core_run(). */
uint64_t sl_core_next_ns(const struct sl_core *c);
/* Returns if the gateway, pool or route is served (sl_front_env.serving; `arg`: core). */
enum sl_serving sl_core_serving(void *arg, enum sl_asked what, struct sl_span name);
/* Returns true if a route has the call (sl_front_env.routed; `conn`: the client). */
bool sl_core_routed(void *conn, const struct sl_request *rq, struct sl_span service);

/* Sets limits of fronts and quotas from c->cfg. */
void sl_core_set_limits(struct sl_core *c);
/* Returns how many bytes are discarded behind a refusal. */
uint32_t sl_core_max_discard(const struct sl_cfg_limits *l);

/* Refuses new connections and requests. Connections close once idle. */
void sl_core_drain(struct sl_core *c);
/* Returns true without exchanges and connections. */
bool sl_core_idle(const struct sl_core *c);

#endif
