/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to backends, off the data path: one thread per backend dials for every worker that has
 * no channel to it, and hands the transport over.
 *
 *   link state per (worker, backend):   DOWN --dialled--> OFFERED --adopted--> UP --lost--> DOWN
 *                                        ^ dialler writes           ^ worker writes
 */
#ifndef SL_WORKER_DIAL_H
#define SL_WORKER_DIAL_H

#include "worker/gateway.h"
#include "worker/worker.h"

struct sl_dialler;

/* Copies what it needs of the configuration. NULL: no memory or thread. */
struct sl_dialler *sl_dialler_start(const struct sl_config *cfg, uint32_t pool, uint32_t backend,
				    struct sl_worker *workers, unsigned worker_cnt);
/* Tells it to end, which an attempt under way may put off. */
void sl_dialler_ask_stop(struct sl_dialler *d);
bool sl_dialler_ended(const struct sl_dialler *d);
/* Waits for the end and frees it. */
void sl_dialler_stop(struct sl_dialler *d);
/* Transport line or the last error for that worker; whether it is the fallback. */
void sl_dialler_info(struct sl_dialler *d, unsigned worker, struct sl_backend_info *out);

#endif
