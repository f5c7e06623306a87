/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/internal.h"

#include <errno.h>

#include "core/pool.h"

bool sl_gateway_pool_ready(const struct sl_gateway *g, uint32_t pool)
{
	bool up = false;

	for (unsigned w = 0; w < g->worker_cnt && !up; w++) {
		const struct sl_worker_cfg *t = g->generation->wcfgs[w];

		for (uint32_t b = 0; b < t->cfg->pools[pool].backend_cnt && !up; b++) {
			const struct sl_backend_ref *m = t->pools[pool].backends[b];

			up = sl_backend_ref_state(m) == SL_BACKEND_UP &&
			     !atomic_load(&m->health->health.drained);
		}
	}
	return up;
}

int sl_gateway_override(const struct sl_gateway *g, const char *pool, const char *backend,
			struct sl_backend_override *out)
{
	const struct sl_backend_health *h = sl_backend_health_find(&g->health, pool, backend);

	if (!h)
		return -ENOENT;
	out->drain = atomic_load(&h->health.drained);
	out->weight = atomic_load(&h->health.weight);
	return 0;
}

int sl_gateway_override_set(struct sl_gateway *g, const char *pool, const char *backend,
			    const struct sl_backend_override *o)
{
	struct sl_backend_health *h = sl_backend_health_find(&g->health, pool, backend);

	if (!h)
		return -ENOENT;
	atomic_store(&h->health.drained, o->drain);
	atomic_store(&h->health.weight, o->weight);
	sl_pool_health_changed(h->pool);
	return 0;
}

void sl_snapshot_health(const struct sl_backend_ref *m, struct sl_backend_info *bi)
{
	const struct sl_health *h = &m->health->health;
	uint32_t weight = atomic_load(&h->weight);
	enum sl_health_state state = sl_health_state(h);

	bi->health = (struct sl_backend_health_info){
		.ejections = atomic_load_explicit(&m->ejections, memory_order_relaxed),
		.faults = atomic_load_explicit(&m->faults, memory_order_relaxed),
		.silences = atomic_load_explicit(&m->silences, memory_order_relaxed),
		.silent = atomic_load_explicit(&m->silent, memory_order_relaxed),
		.ejected = state == SL_HEALTH_EJECTED,
		.trial = state == SL_HEALTH_TRIAL,
		.drained = atomic_load(&h->drained),
		.weight = weight ? weight : m->weight,
		.backup = m->tier == SL_TIER_BACKUP,
		.other_zone = m->tier == SL_TIER_OTHER_ZONE,
	};
}
