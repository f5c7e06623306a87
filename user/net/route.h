/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Next hops by the host's rules, routes and neighbours, for packets to peers whose packets arrive
 * by another neighbour: direct server return, or routers with asymmetric paths.
 *
 *   control thread:  xio/host_route.h -> sl_routes_new -> message -> worker: sl_net_set_routes
 *
 * A table is immutable and shared by all workers, which count their references. A look-up takes one
 * binary search per matching rule; equal costs are shared among peers by their address.
 */
#ifndef SL_NET_ROUTE_H
#define SL_NET_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include "xio/host_route.h"

struct sl_routes;

struct sl_next_hop {
	int ifindex;
	uint8_t mac[6];
	bool known; /* the neighbour is resolved, and mac is valid */
	bool stale; /* and must be verified */
};

/* Returns a table with one reference, or NULL without memory. */
struct sl_routes *sl_routes_new(const struct sl_host_routes *h);
struct sl_routes *sl_routes_get(struct sl_routes *r);
/* Drops a reference. NULL is ignored. Any thread. */
void sl_routes_put(struct sl_routes *r);

/* Addresses: 16 bytes, IPv4 in the first four. Returns false without a route. */
bool sl_routes_find(const struct sl_routes *r, uint8_t family, const uint8_t *local,
		    const uint8_t *remote, struct sl_next_hop *hop);

/*
 * The peer's packet came from the neighbour `from_mac` on `ifindex`. Returns true if packets to
 * `remote` leave by another one, and sets *out to their interface. A peer on the link counts as
 * the sender of its own packets, unless from_mac is the MAC of another neighbour.
 */
bool sl_routes_differ(const struct sl_routes *r, uint8_t family, const uint8_t *local,
		      const uint8_t *remote, int ifindex, const uint8_t *from_mac, int *out);

#endif
