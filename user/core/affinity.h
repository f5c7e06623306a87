/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of requests on routes with affinity (batch/affinity.h).
 */
#ifndef SL_CORE_AFFINITY_H
#define SL_CORE_AFFINITY_H

#include "core/exchange.h"
#include "core/pool.h"

/* Sets the request's affinity key, or starts x->prefix. Returns false without memory. Worker. */
bool sl_affinity_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Counts if a request with a key was sent to its home, or not. Worker. */
void sl_affinity_count(struct sl_exchange *x, const struct sl_backend_ref *m);
/* Returns the ring of these backends, which the caller owns; NULL: no memory. Control thread. */
struct sl_affinity *sl_affinity_of_backends(struct sl_backend_ref *const *backends, uint32_t cnt);

#endif
