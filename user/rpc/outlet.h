/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes out by one way: of a transport that shares none, its own; of queue pairs, all that one
 * worker, or one backend, has on a port of a device. What is posted on any of them cannot be
 * overtaken by what is urgent on another, so they have one cap (sendq.h), and one limit that is
 * learnt (limit.h).
 *
 *   link ---counted---.
 *   link ---counted---+--> posted <= cap         waiting: links that the cap holds back, in turns
 *   link ---counted---'
 *
 * Nothing is more urgent than the latency class, so that is held back by its own link's bytes only.
 * Bytes that a peer has not taken for SL_OUTLET_STUCK_NS are not what the port waits for, and are
 * not counted: a backend that is gone must not stop those beside it, and gets no more meanwhile.
 */
#ifndef SL_RPC_OUTLET_H
#define SL_RPC_OUTLET_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "rpc/limit.h"
#include "sluice/rpc_wire.h"

enum { SL_OUTLETS_MAX = 8, SL_OUTLET_STUCK_NS = 5000000 };

struct sl_outlet {
	uintptr_t port; /* 0: one link's own */
	uint32_t links;
	uint32_t posted; /* the sum of what is counted */
	bool held;       /* the cap holds something back, for what is more urgent */
	struct sl_limit limit;
	uint64_t seen_ns
		[SL_CLASS_CNT]; /* when a message of the class last came or was sent; 0 never */
	struct sl_list waiting;
};

/* The shared ones of a worker or a backend; zeroed at first. */
struct sl_outlets {
	struct sl_outlet of[SL_OUTLETS_MAX];
};

/* A link's part of one. */
struct sl_outlet_use {
	struct sl_outlet *o;
	struct sl_outlet own;
	struct sl_list node; /* of `waiting`, or unused */
	uint32_t posted;     /* as last seen */
	uint32_t counted;    /* of that; 0 while it is stuck */
	uint64_t moved_ns;   /* when some of it was last taken */
};

/* The one of that port; the link's own if `port` is 0, or all are taken. */
void sl_outlet_join(struct sl_outlet_use *u, struct sl_outlets *all, uintptr_t port, uint32_t least,
		    uint32_t max);
void sl_outlet_leave(struct sl_outlet_use *u);

/* So much of the link's is posted now. */
static inline void sl_outlet_count(struct sl_outlet_use *u, uint32_t posted, uint64_t now_ns)
{
	struct sl_outlet *o = u->o;
	uint32_t counted = posted;

	if (posted < u->posted || !u->posted)
		u->moved_ns = now_ns;
	u->posted = posted;
	if (o->port && now_ns >= u->moved_ns + SL_OUTLET_STUCK_NS)
		counted = 0;
	o->posted += counted - u->counted;
	u->counted = counted;
}

/* Its bytes are not counted: what holds it back is what it has posted itself. */
static inline bool sl_outlet_stuck(const struct sl_outlet_use *u)
{
	return u->counted != u->posted;
}

/* How many posted bytes the link is behind; UINT32_MAX: others wait, and it is not its turn. */
static inline uint32_t sl_outlet_ahead(const struct sl_outlet_use *u)
{
	const struct sl_outlet *o = u->o;

	if (!sl_list_empty(&o->waiting) && o->waiting.next != &u->node)
		return UINT32_MAX;
	return sl_outlet_stuck(u) && u->posted > o->posted ? u->posted : o->posted;
}

/* The cap has held the link back, having posted something or not. */
void sl_outlet_wait(struct sl_outlet_use *u, bool has_posted);

#endif
