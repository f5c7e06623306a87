/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backend pools on one worker. A reload replaces the sl_worker_cfg:
 *
 *   core.wcfg --> wcfg --(in force)--> pool --> backend: channel
 *
 * Backends of an unreferenced pool, or not in the configuration, leave when they have nothing
 * outstanding.
 *
 * The control thread creates and frees these objects, and owns members marked "control". The worker
 * owns others and reference counts from sl_worker_cfg_prepare() until it sets `gone`.
 */
#ifndef SL_CORE_POOL_H
#define SL_CORE_POOL_H

#include <stdatomic.h>
#include "base/rand.h"
#include "front/codes.h"
#include "core/core.h"
#include "core/health_table.h"
#include "core/hedge_delay.h"
#include "core/retry_budget.h"

/* OFFERED: a transport is on its way to the worker. UNREADY: up, but takes no new requests. */
enum sl_backend_state { SL_BACKEND_DOWN, SL_BACKEND_OFFERED, SL_BACKEND_UP, SL_BACKEND_UNREADY };

/* A tier serves while no higher one can. */
enum sl_tier { SL_TIER_NEAR, SL_TIER_OTHER_ZONE, SL_TIER_BACKUP, SL_TIER_CNT };

struct sl_backend_ref {
	struct sl_list made;      /* control */
	struct sl_dialer *dialer; /* control; opaque here */
	struct sl_pool *pool;
	struct sl_rpc_channel *channel;   /* NULL: it has left */
	struct sl_list stalled;           /* streams without room in the RPC, by item.link */
	struct sl_list stalled_node;      /* in core->stalled */
	uint32_t refs;                    /* exchanges sent here last */
	struct sl_backend_health *health; /* referenced */
	uint64_t start_ns;                /* of the slow start; 0: none */
	uint32_t weight;
	uint32_t share; /* weight in force, in 1/SL_WEIGHT_UNIT */
	uint16_t number;
	bool leaving;
	bool known;      /* channel has joined the RPC */
	bool joined;     /* in the configuration in force */
	bool served;     /* by the batcher */
	bool was_served; /* before */
	uint8_t tier;    /* enum sl_tier */
	bool trial;
	_Atomic int state; /* enum sl_backend_state; dialer: DOWN to OFFERED, worker: all others */
	/* worker: successful and failed switches to another transport */
	_Atomic uint32_t switched_cnt, stayed_cnt;
	_Atomic uint64_t ejections, faults, silences; /* worker: outcome.c */
	_Atomic bool silent;                          /* worker: outcome.c */
	_Atomic bool released;                        /* control: no dialer connects it */
	_Atomic bool gone;                            /* worker: control may free it */
	struct sl_backend_codes codes;
	char name[];
};

#define SL_NO_SLOT UINT32_MAX

struct sl_pool {
	struct sl_list made;     /* control */
	struct sl_list backends; /* control */
	struct sl_list node;     /* in core->pools */
	struct sl_core *core;
	struct sl_worker_cfg *wcfg; /* referenced */
	const struct sl_cfg_pool *cfg;
	struct sl_batcher *batcher;
	struct sl_backend_ref **by_number; /* [room]; NULL: unused */
	uint32_t room;
	_Atomic uint32_t slot;    /* in the maps, or SL_NO_SLOT; written by the worker */
	struct sl_svc_hist *hist; /* [SL_STAGE_CNT]: the slot's, or core->unread */
	struct sl_svc_live live;  /* the batcher's, without a slot */
	struct sl_list streams;   /* queued, by item.link, oldest first */
	uint32_t stream_cnt;
	bool may_begin; /* backends have changed: check `streams` */
	struct sl_retry_budget budget;
	struct sl_hedge_delay hedge_delay;
	struct sl_pool_health *health; /* NULL: no backends */
	uint32_t epoch;                /* followed */
	uint64_t serving_due_ns;       /* sl_pool_update_batcher() is due */
	bool weighted;                 /* shares of backends differ, or one is on trial */
	struct sl_prng prng;
	uint32_t refs;
	_Atomic bool gone;
	struct sl_codes codes; /* replies to clients */
};

/* A pool in one configuration. After the switch: what it replaced. */
struct sl_worker_cfg_pool {
	struct sl_pool *pool;
	struct sl_backend_ref **backends; /* [backend_cnt] */
	struct sl_backend_ref **by_number;
	struct sl_batcher *batcher;
	uint32_t room;
};

/* GONE: unreferenced. */
enum sl_worker_cfg_step {
	SL_WORKER_CFG_MADE,
	SL_WORKER_CFG_PREPARED,
	SL_WORKER_CFG_SWITCHED,
	SL_WORKER_CFG_GONE
};

struct sl_worker_cfg {
	struct sl_list made; /* control */
	const struct sl_config *cfg;
	struct sl_router *router;
	struct sl_worker_cfg_pool *pools;    /* [cfg->pool_cnt], referenced in force */
	struct sl_route_codes **route_codes; /* [cfg->route_cnt + 1]; last: without a route */
	struct sl_net_listener *listeners;
	uint32_t listener_cnt;
	uint32_t refs;    /* core, exchanges, pools */
	_Atomic int step; /* enum sl_worker_cfg_step */
};

/* Returns the counters of a route; those without a route if NULL or of another configuration. */
static inline struct sl_route_codes *sl_worker_cfg_route_codes(const struct sl_worker_cfg *t,
							       const struct sl_cfg_route *route)
{
	uintptr_t first = (uintptr_t)t->cfg->routes, at = (uintptr_t)route;
	uint32_t cnt = t->cfg->route_cnt;

	if (at < first || at >= (uintptr_t)(t->cfg->routes + cnt))
		return t->route_codes[cnt];
	return t->route_codes[(at - first) / sizeof(*route)];
}

/* Takes a reference. Worker. */
static inline void sl_pool_get(struct sl_pool *g)
{
	g->refs++;
}

/* Drops a reference. An unreferenced pool leaves at the end of a burst. Worker. */
static inline void sl_pool_put(struct sl_pool *g)
{
	if (--g->refs == 0)
		g->core->leaving = true;
}

/* Takes a reference. Worker. */
static inline void sl_worker_cfg_get(struct sl_worker_cfg *t)
{
	t->refs++;
}

/* Drops a reference. The control thread may free an unreferenced one. Worker. */
static inline void sl_worker_cfg_put(struct sl_worker_cfg *t)
{
	if (--t->refs == 0)
		atomic_store_explicit(&t->step, SL_WORKER_CFG_GONE, memory_order_release);
}

/* Returns how far the configuration is in force. Any thread. */
static inline enum sl_worker_cfg_step sl_worker_cfg_step(const struct sl_worker_cfg *t)
{
	return (enum sl_worker_cfg_step)atomic_load_explicit(&t->step, memory_order_acquire);
}

/* Returns the state. Any thread. */
static inline enum sl_backend_state sl_backend_ref_state(const struct sl_backend_ref *m)
{
	return (enum sl_backend_state)atomic_load(&m->state);
}

/* Sets the state: OFFERED by the dialer, others by the worker. */
static inline void sl_backend_ref_set_state(struct sl_backend_ref *m, enum sl_backend_state link)
{
	atomic_store(&m->state, (int)link);
}

/* Creates a pool without backends. NULL: no memory. Control thread, as the next four. */
struct sl_pool *sl_pool_new(struct sl_core *c, uint32_t slot);
/* Adds a backend with a channel outside the RPC. Returns NULL without memory or number. */
struct sl_backend_ref *sl_backend_ref_new(struct sl_pool *g, const char *pool,
					  const struct sl_cfg_backend *b);
/* Frees a backend without its channel, unseen by the worker or `gone`. */
void sl_backend_ref_free(struct sl_backend_ref *m);
/* Frees a pool and its backends, unseen or `gone`, or of an ended worker. */
void sl_pool_free(struct sl_pool *g);
/* Frees pools and backends that are `gone`. */
void sl_pools_reap(struct sl_core *c);

extern const struct sl_batch_ops sl_dispatch_batch_ops;
extern const struct sl_rpc_ops sl_backend_ops;

/* Tells the batcher the serving backends and weights. Worker. */
void sl_pool_update_batcher(struct sl_pool *g);
/*
 * Updates batchers after changes of health, or due slow starts and back-offs. Worker.
 */
SL_COLD void sl_pools_follow_health(struct sl_core *c);
/* Calls sl_pools_follow_health() if needed. Before and behind a burst. */
static inline void sl_core_follow_health(struct sl_core *c)
{
	uint32_t changes = atomic_load_explicit(&c->maps.health->changes, memory_order_acquire);

	if (sl_unlikely(changes != c->health_changes || c->now_ns >= c->follow_ns))
		sl_pools_follow_health(c);
}
/* Notes and logs that a backend is silent, or no longer (sl_batch_ops.silent, outcome.c). */
void sl_pool_backend_silent(void *pool, unsigned backend, bool silent);
/* Takes the transport, or drops it if the backend is leaving. Worker. */
void sl_backend_ref_adopt(struct sl_backend_ref *m, struct sl_transport *t);
/* Ends connection `number`, which the peer no longer has. Worker. */
void sl_backend_ref_forgotten(struct sl_backend_ref *m, uint32_t number);
/* Drains the channel of an unused backend; it may come up again later. Worker. */
void sl_backend_ref_release(struct sl_backend_ref *m);
/* Removes unreferenced pools and backends (`gone`). Sets core->leaving if some are left. Worker. */
void sl_pools_leave(struct sl_core *c);

#endif
