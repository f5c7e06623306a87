/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the route of a request by host, listener, header, path prefix and method, in this order.
 *
 *   host     exact, else the longest "*.suffix", else a route without hosts
 *   listener a route that names the request's listener, else one without listeners
 *   header   a route with a field that the request has, else one without; of two the longer prefix
 *            wins, then the first in the file
 *   prefix   whole path segments: "/a" matches "/a" and "/a/b", not "/ab"; the longest wins
 *   method   among the routes left, one with the method; else one without methods; else none, and
 *            `methods` says what a 405 names
 *
 * If no prefix matches, the next less specific header, listener or host is tried. A look-up takes
 * one pass over the path, and a probe at each '/' where a prefix may end. It takes two passes if
 * routes name listeners, and one more for each matching header rule. Immutable; points to routes of
 * the configuration.
 */
#ifndef SL_CORE_ROUTER_H
#define SL_CORE_ROUTER_H

#include "config/config.h"
#include "front/front.h"

struct sl_router;

/* Builds a router. The configuration must outlive it. Returns NULL without memory. */
struct sl_router *sl_router_create(const struct sl_config *cfg);
/* Frees it. */
void sl_router_destroy(struct sl_router *r);

struct sl_route_match {
	const struct sl_cfg_route *route; /* NULL: none */
	uint32_t methods; /* bit per enum sl_method, of all routes at its prefix; 0: any */
	bool method_ok;   /* the route has the request's method */
};

/* Returns the route for a listener's index and rq's authority, headers, path and method. */
struct sl_route_match sl_router_find(const struct sl_router *r, uint16_t listener,
				     const struct sl_request *rq);

/* Returns the route for a datagram's service number; NULL: none at this listener. */
const struct sl_cfg_route *sl_router_find_service(const struct sl_router *r, uint16_t listener,
						  uint16_t service);

/*
 * Returns the host of an authority without port and trailing dot. Letters keep their case, so
 * callers must compare without case.
 */
struct sl_span sl_router_host(struct sl_span authority);

#endif
