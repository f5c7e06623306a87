/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys of requests whose route has affinity (batch/affinity.h), and the backends of streams with a
 * key. The batcher chooses those of all other requests.
 */
#ifndef SL_CORE_AFFINITY_H
#define SL_CORE_AFFINITY_H

#include "core/exchange.h"
#include "core/pool.h"

/* Sets the key by the head of a request, or x->prefix. False: no memory. */
bool sl_affinity_begin(struct sl_exchange *x, const struct sl_request *rq);
/* Returns the backend that a stream's key prefers; NULL: no preference. */
struct sl_backend_ref *sl_affinity_backend(const struct sl_exchange *x);
/* Counts whether the request was sent to the first backend of its key. */
void sl_affinity_count(struct sl_exchange *x, const struct sl_backend_ref *m);
/* Returns the homes of keys in a pool. NULL: no memory. */
struct sl_affinity *sl_affinity_of_backends(struct sl_backend_ref *const *backends, uint32_t cnt);

#endif
