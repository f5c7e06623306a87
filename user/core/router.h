/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which route a request takes: by host, listener, header, path prefix and method, in this order.
 *
 *   host     exactly, else the longest "*.suffix", else a route without hosts
 *   listener a route with the one that the request came in by, else one without listeners
 *   header   a route with a field that the request has, else one without; of two the longer prefix
 *            wins, then the first in the file
 *   prefix   whole path segments: "/a" is a prefix of "/a" and "/a/b", not of "/ab"; the longest wins
 *   method   of the routes that have all of these in common, that which has the method; else that
 *            without methods; else none, and `methods` says what a 405 has to name
 *
 * Where no prefix matches, the request is left to the next less specific header, listener or host. A
 * look-up costs one pass over the path and a probe at each of its '/' borders where some prefix ends,
 * however many routes there are; twice that where routes name listeners, and once more for each of
 * the headers that they name there and that the request has. Immutable once made: built from a configuration, whose routes it points to.
 */
#ifndef SL_CORE_ROUTER_H
#define SL_CORE_ROUTER_H

#include "config/config.h"
#include "front/front.h"

struct sl_router;

/* NULL: no memory. The configuration must outlive it. */
struct sl_router *sl_router_create(const struct sl_config *cfg);
void sl_router_destroy(struct sl_router *r);

struct sl_route_match {
	const struct sl_cfg_route *route; /* NULL: none */
	uint32_t methods; /* bit per enum sl_method, of all routes at its place; 0: any */
	bool method_ok;   /* the route has the request's method */
};

/* By the listener's index in the configuration, and rq's authority, headers, path and method. */
struct sl_route_match sl_router_find(const struct sl_router *r, uint16_t listener,
				     const struct sl_request *rq);

/* By the number that datagrams carry; NULL: none, or not at this listener. */
const struct sl_cfg_route *sl_router_find_service(const struct sl_router *r, uint16_t listener,
						  uint16_t service);

/*
 * The host of an authority, as routes name it: without port and trailing dot. Still in the
 * client's letters: hosts are compared without case.
 */
struct sl_span sl_router_host(struct sl_span authority);

#endif
