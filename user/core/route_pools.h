/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Steps of requests whose route has several pools, or prefers backends by a key (route->pools).
 *
 *   begin --> read --> settle --> read --> settle: pool and key are known
 *             each piece of the body
 *
 * A stream whose pool or key depends on the body is `held`: its head waits in x->head, and its
 * parts in x->request. These functions may be called again after they have ended.
 */
#ifndef SL_CORE_ROUTE_POOLS_H
#define SL_CORE_ROUTE_POOLS_H

#include "core/exchange.h"

/* Called when the head is stored. Sets x->looks and x->held. Returns OK, or the refusal. */
enum sl_outcome sl_route_pools_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Reads a piece of the body. Only while x->looks. */
void sl_route_pools_read(struct sl_exchange *x, struct sl_span bytes);
/*
 * Takes what is known now. `end`: the body is complete, so all is. Returns OK, or the refusal.
 * *release: the held stream must be sent now.
 */
enum sl_outcome sl_route_pools_settle(struct sl_exchange *x, bool end, bool *release);
/* Ends without a result. */
SL_COLD void sl_route_pools_drop(struct sl_exchange *x);

#endif
