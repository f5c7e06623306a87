/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Posted bytes of a transmit port: a worker's queue pairs on a device port, or one other transport.
 * The links of a port share one cap (sendq.h) and one learnt limit (dql.h).
 *
 *   link ---counted---.
 *   link ---counted---+--> posted <= cap         waiting: links that the cap holds back, in turns
 *
 * Bytes that a peer has not taken for SL_TX_PORT_DRAIN_NS do not count: a dead backend must not
 * stop the others.
 */
#ifndef SL_RPC_TX_PORT_H
#define SL_RPC_TX_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include "base/list.h"
#include "rpc/dql.h"
#include "sluice/types.h"

enum { SL_TX_PORTS_MAX = 8, SL_TX_PORT_DRAIN_NS = 5000000 };

struct sl_tx_port {
	uintptr_t port; /* 0: one link's own */
	uint32_t links;
	uint32_t posted; /* sum of `counted` */
	bool capped;
	struct sl_dql dql;
	uint64_t seen_ns
		/* last message; 0: never */
		[SL_CLASS_CNT];
	struct sl_list waiting;
};

/* Zeroed at first. */
struct sl_tx_ports {
	struct sl_tx_port list[SL_TX_PORTS_MAX];
};

struct sl_tx_port_link {
	struct sl_tx_port *o;
	struct sl_tx_port own;
	struct sl_list node;
	uint32_t posted;
	uint32_t counted; /* 0 while it is stuck */
	uint64_t moved_ns;
};

/*
 * Adds the link to the port; to its own if `port` is 0 or all are taken. `least`, `max`: limits in
 * bytes.
 */
void sl_tx_port_join(struct sl_tx_port_link *u, struct sl_tx_ports *all, uintptr_t port,
		     uint32_t least, uint32_t max);
/* Removes the link and its bytes from the port. */
void sl_tx_port_leave(struct sl_tx_port_link *u);

/* Updates the link's bytes in the port; 0 if they do not drain. */
static inline void sl_tx_port_count(struct sl_tx_port_link *u, uint32_t posted, uint64_t now_ns)
{
	struct sl_tx_port *o = u->o;
	uint32_t counted = posted;

	if (posted < u->posted || !u->posted)
		u->moved_ns = now_ns;
	u->posted = posted;
	if (o->port && now_ns >= u->moved_ns + SL_TX_PORT_DRAIN_NS)
		counted = 0;
	o->posted += counted - u->counted;
	u->counted = counted;
}

/* Returns true if the peer has taken nothing for SL_TX_PORT_DRAIN_NS. */
static inline bool sl_tx_port_not_draining(const struct sl_tx_port_link *u)
{
	return u->counted != u->posted;
}

/* Returns the posted bytes ahead of the link; UINT32_MAX: it is another link's turn. */
static inline uint32_t sl_tx_port_ahead(const struct sl_tx_port_link *u)
{
	const struct sl_tx_port *o = u->o;

	if (!sl_list_empty(&o->waiting) && o->waiting.next != &u->node)
		return UINT32_MAX;
	return sl_tx_port_not_draining(u) && u->posted > o->posted ? u->posted : o->posted;
}

/* Queues the delayed link; at the end if it has posted something. */
void sl_tx_port_wait(struct sl_tx_port_link *u, bool has_posted);

#endif
