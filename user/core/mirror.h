/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of requests to another pool (mirror block of a route). The replies are dropped.
 *
 *   request --> batcher of its pool
 *      '-- copy --> exchange of the mirror's client --> batcher of the mirror's pool
 *                        reply, failure --> front that takes all and ends the exchange
 *
 * A copy is made after the request was queued, and never waits for memory, a backend or a retry.
 * The copies of a worker have at most a sixteenth of the exchanges and an eighth of the frames.
 * None are made while less than half of the frames is free. All copies not made are counted. Copies
 * do not count as requests, and have no line in the access log.
 */
#ifndef SL_CORE_MIRROR_H
#define SL_CORE_MIRROR_H

#include "core/exchange.h"

struct sl_mirror;

/* Creates the client of all copies. Returns 0 or -ENOMEM. */
int sl_mirror_init(struct sl_core *c);
/* Ends all copies. */
void sl_mirror_fini(struct sl_core *c);
/* Sends a copy of a request that was queued, or counts that there is none. */
void sl_mirror_send(const struct sl_exchange *x);

extern const struct sl_front_ops sl_mirror_front;

#endif
