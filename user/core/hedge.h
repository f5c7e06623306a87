/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hedged requests (Dean and Barroso, "The Tail at Scale"): a late one gets a second copy.
 *
 *   x: IN_FLIGHT --delay over--> hedge: QUEUED --> IN_FLIGHT at another backend
 *      x answered first, or ended:                     hedge cancelled
 *      hedge answered first, or x's backend failed:    x takes the hedge's place
 *
 * A hedge exists only while its original is IN_FLIGHT, and uses its frames.
 */
#ifndef SL_CORE_HEDGE_H
#define SL_CORE_HEDGE_H

#include "core/exchange.h"
#include "core/hedge_delay.h"

/* Starts the delay of a hedge. Only with SL_EXTRA_HEDGE. */
void sl_hedge_begin(struct sl_exchange *x);
/* Sends the hedge if the delay is over, or sets the timer again. */
void sl_hedge_on_timer(struct sl_exchange *x);
/* Drops any hedge, and notes the time of the reply. Only with SL_EXTRA_HEDGE. */
void sl_hedge_end(struct sl_exchange *x);
/* Cancels and frees the hedge of `x`. Needs x->twin. */
void sl_hedge_drop(struct sl_exchange *x);
/* Cancels the first copy; `x` replaces its hedge, which is freed. */
void sl_hedge_won(struct sl_exchange *x);
/*
 * Called when the RPC has ended an original or a hedge. Frees the hedge. Returns true if the other
 * copy goes on.
 */
bool sl_hedge_failed(struct sl_exchange *x, enum sl_outcome why);

#endif
