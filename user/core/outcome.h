/* SPDX-License-Identifier: Apache-2.0 */
/* Replies and failures as signs of a backend's health. Worker. */
#ifndef SL_CORE_OUTCOME_H
#define SL_CORE_OUTCOME_H

#include "core/exchange.h"
#include "front/fault.h"

struct sl_backend_ref;
struct sl_rpc_reply;

/* Counts a success (fault 0) or failure. May eject the backend, or readmit it. */
void sl_backend_outcome(struct sl_backend_ref *m, enum sl_fault fault, unsigned status);
/*
 * Counts a success or failure of the backend by the status of its reply. Must precede the change of
 * x->state.
 */
void sl_backend_replied(struct sl_exchange *x, const struct sl_rpc_reply *r);

#endif
