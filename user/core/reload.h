/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reload: from one sl_worker_cfg to the next while requests run. The control thread creates one for
 * each worker, with all its memory. The worker applies it in two steps between bursts:
 *
 *   prepare   adds channels to new backends
 *   switch    replaces routes, limits, listeners, batchers; moves queued requests and learnt values
 *             to the new batchers; drops removed pools and backends
 *
 *   control:  create -> [prepare] -> wait for links -> [switch] -> tidy -> free once it is GONE
 */
#ifndef SL_CORE_RELOAD_H
#define SL_CORE_RELOAD_H

#include "core/pool.h"

/*
 * Creates the worker's part of `cfg`. Takes over pools of `before` (in force, or NULL) with the
 * same name, and their unchanged backends. slots: each pool's slot in the maps; a pool taken over
 * keeps its own. A removed pool's slot is free once this is prepared. The caller sets the
 * listeners. NULL: no memory; nothing has changed. Control thread.
 */
struct sl_worker_cfg *sl_worker_cfg_create(struct sl_core *c, const struct sl_config *cfg,
					   const struct sl_worker_cfg *before,
					   const uint32_t *slots);
const struct sl_worker_cfg_pool *sl_worker_cfg_find(const struct sl_worker_cfg *t,
						    const char *name);
/* Frees what the switch has replaced. Control thread. */
void sl_worker_cfg_tidy(struct sl_worker_cfg *t);
/*
 * Frees a GONE one, or one that the worker has never seen with all created for it. Control thread.
 */
void sl_worker_cfg_free(struct sl_worker_cfg *t);

/* The steps above. Worker. */
void sl_worker_cfg_prepare(struct sl_worker_cfg *t, struct sl_core *c);
void sl_worker_cfg_switch(struct sl_worker_cfg *t, struct sl_core *c);

#endif
