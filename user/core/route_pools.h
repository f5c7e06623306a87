/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of requests whose route has several pools, or prefers backends by a key (route->pools).
 *
 * A stream whose pool or key depends on the body is `held`: its head waits in x->head, parts in
 * x->request.
 */
#ifndef SL_CORE_ROUTE_POOLS_H
#define SL_CORE_ROUTE_POOLS_H

#include "core/exchange.h"

/*
 * Decides split, mirror, hedge and affinity when the head is stored, with route->pools. Sets
 * x->looks if the body matters. Returns OK, or the caller must fail the exchange with it. Worker,
 * as all below.
 */
enum sl_outcome sl_route_pools_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Reads the next bytes of the body. Only while x->looks. */
void sl_route_pools_read(struct sl_exchange *x, struct sl_span bytes);
/*
 * Takes what is known (`end`: all). Returns OK, or the refusal as above. *release: the caller must
 * send the stream now.
 */
enum sl_outcome sl_route_pools_settle(struct sl_exchange *x, bool end, bool *release);
/* Frees the search and the hash. */
SL_COLD void sl_route_pools_drop(struct sl_exchange *x);

#endif
