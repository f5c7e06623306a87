/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the route of a request by host, listener, header, path prefix and method, in this order.
 *
 *   host     exact, else the longest "*.suffix", else a route without hosts
 *   listener a route that names it, else one without
 *   header   a route with a field of the request, else one without; then the longer prefix wins
 *   prefix   the longest of whole path segments: "/a" matches "/a" and "/a/b", not "/ab"
 *   method   a route with it, else one without methods, else none
 *
 * If no prefix matches, the next less specific header, listener or host is tried. Immutable.
 */
#ifndef SL_CORE_ROUTER_H
#define SL_CORE_ROUTER_H

#include "config/config.h"
#include "front/front.h"

struct sl_router;

/* Returns a router, or NULL without memory. The configuration must outlive it. */
struct sl_router *sl_router_create(const struct sl_config *cfg);
/* Frees the router. NULL is allowed. */
void sl_router_destroy(struct sl_router *r);

struct sl_route_match {
	const struct sl_cfg_route *route; /* NULL: none */
	uint32_t
		methods; /* for a 405: bit per enum sl_method, of all routes at the prefix; 0: any */
	bool method_ok;
};

/*
 * Finds the route of a request; method_ok is false if none there has the method. Any thread, as all
 * below.
 */
struct sl_route_match sl_router_find(const struct sl_router *r, uint16_t listener,
				     const struct sl_request *rq);

/* Returns the route of a datagram's service number; NULL: none. */
const struct sl_cfg_route *sl_router_find_service(const struct sl_router *r, uint16_t listener,
						  uint16_t service);

/* Returns the host without port and trailing dot, to be compared without case. */
struct sl_span sl_router_host(struct sl_span authority);

#endif
