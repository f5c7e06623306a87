/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health (batch/outlier.h) of all backends, by pool and name, shared by all workers.
 *
 * The control thread creates, finds and frees. Workers use the health of their refs, which hold
 * references.
 */
#ifndef SL_CORE_HEALTH_TABLE_H
#define SL_CORE_HEALTH_TABLE_H

#include "base/list.h"
#include "batch/outlier.h"

struct sl_health_table {
	struct sl_list pools;
	uint32_t lane_cnt;        /* workers */
	_Atomic uint32_t changes; /* of all pools */
};

struct sl_pool_health {
	struct sl_list link;
	struct sl_health_table *table;
	struct sl_list backends;
	_Atomic uint32_t epoch; /* counts changes */
	char name[];
};

struct sl_backend_health {
	struct sl_list link;
	struct sl_pool_health *pool;
	uint32_t refs;
	struct sl_health health;
	const char *endpoint;
	char name[];
};

/* Makes all workers check the pool's health. Any thread. */
static inline void sl_pool_health_changed(struct sl_pool_health *p)
{
	atomic_fetch_add_explicit(&p->epoch, 1, memory_order_release);
	atomic_fetch_add_explicit(&p->table->changes, 1, memory_order_release);
}

/* Makes an empty table for that many workers. Control thread, as all below. */
void sl_health_table_init(struct sl_health_table *t, uint32_t lane_cnt);
/* Returns a new reference, also to a health that exists. NULL: no memory. */
struct sl_backend_health *sl_backend_health_get(struct sl_health_table *t, const char *pool,
						const char *name, const char *endpoint);
/* Drops a reference; the last one frees the health. NULL is allowed. */
void sl_backend_health_put(struct sl_backend_health *h);
/* Returns the newest health of that name, or NULL. Takes no reference. */
struct sl_backend_health *sl_backend_health_find(const struct sl_health_table *t, const char *pool,
						 const char *name);

#endif
