/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of requests to another pool (mirror block of a route); replies are dropped.
 *
 * A copy is an exchange of the mirror's client. It never waits for memory, a backend or a retry,
 * and takes only memory that is plentiful.
 */
#ifndef SL_CORE_MIRROR_H
#define SL_CORE_MIRROR_H

#include "core/exchange.h"

struct sl_mirror;

/* Returns 0 or -ENOMEM. Before the worker starts. */
int sl_mirror_init(struct sl_core *c);
/* Frees open copies, too. After the worker's end. */
void sl_mirror_fini(struct sl_core *c);
/* Sends a copy of a queued request, or counts that there is none. Only with route->pools. */
void sl_mirror_send(const struct sl_exchange *x);

extern const struct sl_front_ops sl_mirror_front;

#endif
