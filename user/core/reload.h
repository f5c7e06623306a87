/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From one table to the next while requests run. For each worker the control thread makes a table:
 * with it all memory that the next configuration takes. The worker takes it in two steps, between
 * two bursts:
 *
 *   prepare   channels to new backends, so that they can be dialled before anything goes there
 *   switch    routes, limits, listeners, batchers. What waits moves on into the new batchers, what
 *             was learned with it; the old table drops its groups, and backends that are gone get
 *             no more batches
 *
 *   control:  create -> [prepare] -> wait for links -> [switch] -> tidy -> free once it is GONE
 */
#ifndef SL_CORE_RELOAD_H
#define SL_CORE_RELOAD_H

#include "core/pool.h"

/*
 * Control thread. A group of `before` (the table in force, or NULL) is taken over by its name, a
 * backend by all that the configuration says of it. slots: places in the maps, for each pool of
 * cfg, below SL_MAX_SERVICES; those of groups that are taken over are the same. The place of a group
 * that cfg does not have may be given away: it is free once the table is prepared. The listeners are the caller's to set.
 * NULL: no memory, and nothing has changed.
 */
struct sl_worker_cfg *sl_worker_cfg_create(struct sl_core *c, const struct sl_config *cfg,
					   const struct sl_worker_cfg *before,
					   const uint32_t *slots);
/* The pool of that name; NULL: none. */
const struct sl_worker_cfg_pool *sl_worker_cfg_find(const struct sl_worker_cfg *t,
						    const char *name);
/* Once it is switched: frees what it has replaced. */
void sl_worker_cfg_tidy(struct sl_worker_cfg *t);
/* One that is GONE, or that the worker has never heard of: with the groups and members made for it. */
void sl_worker_cfg_free(struct sl_worker_cfg *t);

/* The worker. */
void sl_worker_cfg_prepare(struct sl_worker_cfg *t, struct sl_core *c);
void sl_worker_cfg_switch(struct sl_worker_cfg *t, struct sl_core *c);

#endif
