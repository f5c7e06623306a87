/* SPDX-License-Identifier: Apache-2.0 */
/* Replies and failures as signs of a backend's health. Worker. */
#ifndef SL_CORE_OUTCOME_H
#define SL_CORE_OUTCOME_H

#include "core/exchange.h"
#include "front/fault.h"

struct sl_backend_ref;
struct sl_rpc_reply;

/* Counts an outcome. Ejects the backend if it fails more than others. */
void sl_backend_outcome(struct sl_backend_ref *m, enum sl_fault fault, unsigned status);
/* Counts a reply by its status. Before the exchange's state changes. */
void sl_backend_replied(const struct sl_exchange *x, const struct sl_rpc_reply *r);

#endif
