/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the route of a request by host, listener, header, path prefix and method, in this order.
 *
 *   host     exact, else the longest "*.suffix", else a route without hosts
 *   listener a route that names the request's listener, else one without listeners
 *   header   a route with a field that the request has, else one without; of two the longer prefix
 *            wins, then the first in the file
 *   prefix   the longest of whole path segments: "/a" matches "/a" and "/a/b", not "/ab"
 *   method   of the routes left, one with the method; else one without methods; else none
 *
 * If no prefix matches, the next less specific header, listener or host is tried. A look-up takes
 * one pass over the path, two if routes name listeners, and one more for each matching header rule.
 * Immutable; points to routes of the configuration.
 */
#ifndef SL_CORE_ROUTER_H
#define SL_CORE_ROUTER_H

#include "config/config.h"
#include "front/front.h"

struct sl_router;

/* Builds a router. The configuration must outlive it. NULL: no memory. */
struct sl_router *sl_router_create(const struct sl_config *cfg);
void sl_router_destroy(struct sl_router *r);

struct sl_route_match {
	const struct sl_cfg_route *route; /* NULL: none */
	uint32_t
		methods; /* for a 405: bit per enum sl_method, of all routes at the prefix; 0: any */
	bool method_ok;
};

/* Returns the route of a request at a listener. */
struct sl_route_match sl_router_find(const struct sl_router *r, uint16_t listener,
				     const struct sl_request *rq);

/* Returns the route of a datagram's service number; NULL: none. */
const struct sl_cfg_route *sl_router_find_service(const struct sl_router *r, uint16_t listener,
						  uint16_t service);

/*
 * Returns the host of an authority without port and trailing dot. Callers must compare without
 * case.
 */
struct sl_span sl_router_host(struct sl_span authority);

#endif
