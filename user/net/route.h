/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Next hops by the host's rules, routes and neighbours, for peers whose packets arrive by another
 * neighbour (direct server return, asymmetric paths).
 *
 * Tables are immutable, shared by all workers, and counted. A peer's address selects among equal
 * costs.
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
	bool known; /* the neighbour is resolved; mac is valid */
	bool stale; /* must be verified */
};

/* Copies h to a table with one reference. Returns NULL without memory. */
struct sl_routes *sl_routes_new(const struct sl_host_routes *h);
/* Returns r with another reference. Any thread. */
struct sl_routes *sl_routes_get(struct sl_routes *r);
/* Drops a reference (may be NULL); the last frees r. Any thread. */
void sl_routes_put(struct sl_routes *r);

/* Finds the next hop. Addresses: 16 bytes. Returns false without a route. */
bool sl_routes_find(const struct sl_routes *r, uint8_t family, const uint8_t *local,
		    const uint8_t *remote, struct sl_next_hop *hop);

/*
 * Returns true if packets to `remote`, whose packets come from `from_mac` on `ifindex`, leave by
 * another neighbour. Sets *out to their interface. A peer on the link counts as the sender of its
 * packets, unless from_mac is another neighbour's.
 */
bool sl_routes_differ(const struct sl_routes *r, uint8_t family, const uint8_t *local,
		      const uint8_t *remote, int ifindex, const uint8_t *from_mac, int *out);

#endif
