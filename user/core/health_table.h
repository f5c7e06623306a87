/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health (batch/outlier.h) of all backends of a gateway, by pool and name: one for all workers.
 *
 *   table -> pool health: epoch -> backend health <- backend refs of each worker (pool.h)
 *
 * The control thread creates, finds and frees. Workers use the health of their refs, which hold
 * references, and follow changes by the pool's epoch.
 */
#ifndef SL_CORE_HEALTH_TABLE_H
#define SL_CORE_HEALTH_TABLE_H

#include "base/list.h"
#include "batch/outlier.h"

struct sl_health_table {
	struct sl_list pools;
	uint32_t lane_cnt; /* workers */
};

struct sl_pool_health {
	struct sl_list link;
	struct sl_list backends;
	_Atomic uint32_t epoch; /* counts changes */
	char name[];
};

struct sl_backend_health {
	struct sl_list link;
	struct sl_pool_health *pool;
	uint32_t refs;
	struct sl_health health;
	const char *endpoint; /* within `name` */
	char name[];
};

/* Tells all workers that a backend of the pool has changed. Any thread. */
static inline void sl_pool_health_changed(struct sl_pool_health *p)
{
	atomic_fetch_add_explicit(&p->epoch, 1, memory_order_release);
}

void sl_health_table_init(struct sl_health_table *t, uint32_t lane_cnt);
/* Returns a new reference, also to a backend that exists. NULL: no memory. */
struct sl_backend_health *sl_backend_health_get(struct sl_health_table *t, const char *pool,
						const char *name, const char *endpoint);
/* Drops a reference; h may be NULL. */
void sl_backend_health_put(struct sl_backend_health *h);
/* Returns the newest backend of that name without a reference, or NULL. */
struct sl_backend_health *sl_backend_health_find(const struct sl_health_table *t, const char *pool,
						 const char *name);

#endif
