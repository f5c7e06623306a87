/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reload: from one sl_worker_cfg to the next while requests run.
 *
 *   control:  create -> [prepare] -> wait for links -> [switch] -> tidy -> free once it is GONE
 *
 * The switch replaces routes, limits, listeners and batchers; removed pools and backends leave.
 */
#ifndef SL_CORE_RELOAD_H
#define SL_CORE_RELOAD_H

#include "core/pool.h"

/*
 * Creates the worker's part of `cfg`, which must outlive it. Takes over pools of `before` (in
 * force, or NULL) with the same name, and their unchanged backends. slots: each pool's slot in the
 * maps; a pool taken over keeps its own. A removed pool's slot is free after `prepare`. The caller
 * sets t->listeners, which are freed with it. NULL: no memory. Control thread, as the next three.
 */
struct sl_worker_cfg *sl_worker_cfg_create(struct sl_core *c, const struct sl_config *cfg,
					   const struct sl_worker_cfg *before,
					   const uint32_t *slots);
/* Returns the pool of that name, or NULL. `t` may be NULL. */
const struct sl_worker_cfg_pool *sl_worker_cfg_find(const struct sl_worker_cfg *t,
						    const char *name);
/* Frees what the switch has replaced. Only once SWITCHED. */
void sl_worker_cfg_tidy(struct sl_worker_cfg *t);
/* Frees a GONE one; or, with all created for it, one that the worker has never seen. */
void sl_worker_cfg_free(struct sl_worker_cfg *t);

/* Adds channels of new backends, and sets PREPARED. Worker, between bursts, as the next. */
void sl_worker_cfg_prepare(struct sl_worker_cfg *t, struct sl_core *c);
/* Puts a prepared `t` in force, drops the former one, and sets SWITCHED. */
void sl_worker_cfg_switch(struct sl_worker_cfg *t, struct sl_core *c);

#endif
