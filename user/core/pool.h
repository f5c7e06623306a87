/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Backend groups on one worker: named, reference-counted objects. A table says which of them a
 * configuration serves; a reload puts another table in its place and drops what the old one held:
 *
 *   core.table --> table --(in force)--> group --> member: channel
 *                  ^   ^                  |  ^        ^
 *                  |   '----- options ----'  |        | sent to
 *         routes --|                         |        |
 *                  '------- exchange --------'--------'
 *
 * A group has a slot in the BPF maps while a table in force has it. Afterwards its counts are not shown.
 * It lives until no table in force and no exchange has it: then its members leave, each when
 * nothing of it is outstanding any more. A backend that stays in the configuration keeps its member,
 * with the channel and all that is counted and learnt; one that goes and comes back has a new one.
 *
 * The control thread makes all of these and frees them; what is on a line with "control" is its own.
 * Everything else is the worker's from sl_worker_cfg_prepare() on until it says gone. References are the
 * worker's, plain numbers.
 */
#ifndef SL_CORE_POOL_H
#define SL_CORE_POOL_H

#include <stdatomic.h>
#include "core/core.h"

/*
 * Whether a member has a channel. OFFERED: a transport is on its way to the worker. UNREADY: the
 * channel is there, and its backend takes no new requests.
 */
enum sl_backend_state { SL_BACKEND_DOWN, SL_BACKEND_OFFERED, SL_BACKEND_UP, SL_BACKEND_UNREADY };

/* A backend of a group: what a channel's upcalls find. */
struct sl_backend_ref {
	struct sl_list made;      /* control: in its group's list */
	struct sl_dialer *dialer; /* control: who connects it; it knows what that is */
	struct sl_pool *pool;
	struct sl_rpc_channel *channel; /* NULL: it has left */
	struct sl_list stalled; /* streams whose parts found no room, by item.link (stream.c) */
	struct sl_list stalled_node; /* in core->stalled, while there are any */
	uint32_t refs;               /* exchanges that were sent here last */
	uint32_t streams;            /* of this worker, that it has */
	uint16_t number;             /* in its group, while it lives */
	bool leaving;
	bool known;        /* its channel has joined the session */
	bool joined;       /* it is of the configuration in force */
	bool served;       /* the batcher may send to it */
	_Atomic int state; /* enum sl_backend_state; dialer: DOWN to OFFERED, worker: all others */
	/* worker: how often its channel was to go on by another transport, and has; or has not */
	_Atomic uint32_t switched_cnt, stayed_cnt;
	_Atomic bool released; /* control: nobody dials for it any more */
	_Atomic bool gone;     /* worker: it is the control thread's to free */
	char name[];
};

#define SL_NO_SLOT UINT32_MAX

struct sl_pool {
	struct sl_list made;     /* control: in core->groups_made */
	struct sl_list backends; /* control: all that were made and not yet freed */
	struct sl_list node;     /* in core->groups */
	struct sl_core *core;
	struct sl_worker_cfg *wcfg; /* whose options it has, referenced */
	const struct sl_cfg_pool *cfg;
	struct sl_batcher *batcher;
	struct sl_backend_ref **by_number; /* [room]; NULL: none has that number */
	uint32_t room;
	_Atomic uint32_t slot;        /* in the maps, or SL_NO_SLOT; worker, control reads */
	struct sl_svc_hist *hist;     /* [SL_STAGE_CNT], of the slot, or core->unread */
	struct sl_svc_live live;      /* what the batcher publishes once it has no slot */
	uint32_t next_stream_backend; /* where the search for a stream's backend begins */
	struct sl_list streams;       /* that wait for a backend, by item.link, oldest first */
	uint32_t stream_cnt;
	bool may_begin; /* these may: who is up has changed since they were looked at */
	uint32_t refs;
	_Atomic bool gone;
};

/* What a table has of a pool of its configuration; what it replaces is here after the switch. */
struct sl_worker_cfg_pool {
	struct sl_pool *pool;
	struct sl_backend_ref **backends; /* [backend_cnt], in the order of the configuration */
	struct sl_backend_ref **by_number;
	struct sl_batcher *batcher;
	uint32_t room;
};

/* GONE: no reference is left. */
enum sl_worker_cfg_step {
	SL_WORKER_CFG_MADE,
	SL_WORKER_CFG_PREPARED,
	SL_WORKER_CFG_SWITCHED,
	SL_WORKER_CFG_GONE
};

struct sl_worker_cfg {
	struct sl_list made; /* control: in core->tables_made */
	const struct sl_config *cfg;
	struct sl_router *router; /* of cfg's routes */
	struct sl_worker_cfg_pool
		*pools; /* [cfg->pool_cnt]; groups are referenced while in force */
	struct sl_net_listener *listeners;
	uint32_t listener_cnt;
	uint32_t refs;    /* of being in force, exchanges (their routes), groups (their options) */
	_Atomic int step; /* enum sl_worker_cfg_step */
};

static inline void sl_pool_get(struct sl_pool *g)
{
	g->refs++;
}

/* What nobody has any more leaves at the end of a burst, not here. */
static inline void sl_pool_put(struct sl_pool *g)
{
	if (--g->refs == 0)
		g->core->leaving = true;
}

static inline void sl_worker_cfg_get(struct sl_worker_cfg *t)
{
	t->refs++;
}

/* With the last reference the control thread may free it. */
static inline void sl_worker_cfg_put(struct sl_worker_cfg *t)
{
	if (--t->refs == 0)
		atomic_store_explicit(&t->step, SL_WORKER_CFG_GONE, memory_order_release);
}

static inline enum sl_worker_cfg_step sl_worker_cfg_step(const struct sl_worker_cfg *t)
{
	return (enum sl_worker_cfg_step)atomic_load_explicit(&t->step, memory_order_acquire);
}

/* Any thread. */
static inline enum sl_backend_state sl_backend_ref_state(const struct sl_backend_ref *m)
{
	return (enum sl_backend_state)atomic_load(&m->state);
}

static inline void sl_backend_ref_set_state(struct sl_backend_ref *m, enum sl_backend_state link)
{
	atomic_store(&m->state, (int)link);
}

/* The control thread: NULL is no memory. */
struct sl_pool *sl_pool_new(struct sl_core *c, uint32_t slot);
/* With a number that none of the group has, and a channel that no worker knows of. */
struct sl_backend_ref *sl_backend_ref_new(struct sl_pool *g, const char *name);
void sl_backend_ref_free(struct sl_backend_ref *m);
/* With all its members. The worker has never known it, has said gone, or does not run any more. */
void sl_pool_free(struct sl_pool *g);
/* The control thread: frees what the worker has said gone. */
void sl_pools_reap(struct sl_core *c);

/* What batchers and channels call: dispatch.c and backend.c. */
extern const struct sl_batch_ops sl_dispatch_batch_ops;
extern const struct sl_rpc_ops sl_backend_ops;

/*
 * The worker: the batcher is told which members it may send to: those that are up; of them those
 * that are held only while there is no other.
 */
void sl_pool_update_batcher(struct sl_pool *g);
/* The worker: the member comes up on this transport, or goes on by it, unless it is leaving. */
void sl_backend_ref_adopt(struct sl_backend_ref *m, struct sl_transport *t);
/* Its peer does not have that connection any more. */
void sl_backend_ref_forgotten(struct sl_backend_ref *m, uint32_t number);
/* It gets no more, and its channel goes down after what it has; it may come up again. */
void sl_backend_ref_release(struct sl_backend_ref *m);
/* A step towards the end of all that nobody has any more; core->leaving says if there is more. */
void sl_pools_leave(struct sl_core *c);

#endif
