/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reload: from one sl_worker_cfg to the next while requests run. The control thread creates one for
 * each worker, with all memory that it takes. The worker applies it in two steps between bursts:
 *
 *   prepare   adds channels to new backends, so that they are connected before the switch
 *   switch    replaces routes, limits, listeners, batchers. Queued requests and learnt values move
 *             to the new batchers. Removed pools are dropped; removed backends get no more batches
 *
 *   control:  create -> [prepare] -> wait for links -> [switch] -> tidy -> free once it is GONE
 */
#ifndef SL_CORE_RELOAD_H
#define SL_CORE_RELOAD_H

#include "core/pool.h"

/*
 * Creates the worker's part of `cfg`. Pools of `before` (in force, or NULL) with the same name are
 * taken over, and their backends if nothing of them has changed. slots: slot of each pool in the
 * maps; a pool that is taken over keeps its own. The slot of a removed pool is free once this is
 * prepared. The caller sets the listeners. Control thread. Returns NULL without memory; nothing has
 * changed then.
 */
struct sl_worker_cfg *sl_worker_cfg_create(struct sl_core *c, const struct sl_config *cfg,
					   const struct sl_worker_cfg *before,
					   const uint32_t *slots);
/* Returns the pool of that name, or NULL. */
const struct sl_worker_cfg_pool *sl_worker_cfg_find(const struct sl_worker_cfg *t,
						    const char *name);
/* Frees what the switch has replaced. Control thread. */
void sl_worker_cfg_tidy(struct sl_worker_cfg *t);
/*
 * Frees one that is GONE, or that the worker has never seen with all that was created for it.
 * Control thread.
 */
void sl_worker_cfg_free(struct sl_worker_cfg *t);

/* Adds channels to new backends. Worker. */
void sl_worker_cfg_prepare(struct sl_worker_cfg *t, struct sl_core *c);
/* Puts it in force and drops the one before. Worker. */
void sl_worker_cfg_switch(struct sl_worker_cfg *t, struct sl_core *c);

#endif
