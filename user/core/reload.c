/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fnv.h"
#include "core/reload.h"

#include <stdlib.h>
#include <string.h>

#include "core/affinity.h"
#include "core/client.h"
#include "front/exemplar.h"

static bool same_text(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool same_backend(const struct sl_cfg_backend *a, const struct sl_cfg_backend *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->endpoint, b->endpoint) == 0 &&
	       same_text(a->first, b->first) && same_text(a->fallback, b->fallback) &&
	       same_text(a->key_file, b->key_file) && same_text(a->source, b->source) &&
	       same_text(a->device, b->device) && a->device_port == b->device_port &&
	       a->tos == b->tos && a->owner == b->owner && a->concurrency == b->concurrency &&
	       a->server_hash == b->server_hash && a->way == b->way && same_text(a->host, b->host);
}

const struct sl_worker_cfg_pool *sl_worker_cfg_find(const struct sl_worker_cfg *t, const char *name)
{
	for (uint32_t i = 0; t && i < t->cfg->pool_cnt; i++) {
		if (strcmp(t->cfg->pools[i].name, name) == 0)
			return &t->pools[i];
	}
	return NULL;
}

static struct sl_backend_ref *find_backend(const struct sl_worker_cfg *before,
					   const struct sl_worker_cfg_pool *was,
					   const struct sl_cfg_backend *b, uint32_t at)
{
	const struct sl_cfg_pool *pool = was ? &before->cfg->pools[was - before->pools] : NULL;

	for (uint32_t i = 0; pool && i < pool->backend_cnt; i++) {
		uint32_t k = (at + i) % pool->backend_cnt;

		if (same_backend(&pool->backends[k], b))
			return was->backends[k];
	}
	return NULL;
}

static uint32_t room_of(const struct sl_pool *g)
{
	const struct sl_list *at;
	uint32_t room = 0;

	sl_list_for_each (at, &g->backends) {
		uint32_t n = sl_container_of(at, struct sl_backend_ref, made)->number;

		room = n >= room ? n + 1 : room;
	}
	return room;
}

static uint32_t waiting_max(const struct sl_pool *g, const struct sl_cfg_pool *was)
{
	uint32_t waits = g->batcher ? sl_batcher_queue_len(g->batcher) : 0;

	return was && was->max_queue > waits ? was->max_queue : waits;
}

static bool needs_affinity(const struct sl_config *cfg, uint32_t pool)
{
	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		const struct sl_cfg_route *r = &cfg->routes[i];

		if (r->pools && r->pools->affinity.by && sl_cfg_route_has_pool(r, (int32_t)pool))
			return true;
	}
	return false;
}

static bool add_affinity(const struct sl_worker_cfg *t, uint32_t p)
{
	const struct sl_worker_cfg_pool *tp = &t->pools[p];
	struct sl_affinity *a;

	if (!needs_affinity(t->cfg, p))
		return true;
	a = sl_affinity_of_backends(tp->backends, t->cfg->pools[p].backend_cnt);
	sl_batcher_set_affinity(tp->batcher, a);
	return a;
}

static bool fill_pool(struct sl_core *c, struct sl_worker_cfg *t, uint32_t p,
		      const struct sl_worker_cfg *before, uint32_t slot)
{
	const struct sl_cfg_pool *pool = &t->cfg->pools[p];
	const struct sl_worker_cfg_pool *was = sl_worker_cfg_find(before, pool->name);
	struct sl_worker_cfg_pool *tp = &t->pools[p];
	struct sl_pool *g = was ? was->pool : sl_pool_new(c, slot);

	tp->pool = g;
	tp->backends = calloc(pool->backend_cnt + 1, sizeof(struct sl_backend_ref *));
	if (!g || !tp->backends)
		return false;
	for (uint32_t i = 0; i < pool->backend_cnt; i++) {
		tp->backends[i] = find_backend(before, was, &pool->backends[i], i);
		if (!tp->backends[i])
			tp->backends[i] = sl_backend_ref_new(g, pool->name, &pool->backends[i]);
		if (!tp->backends[i])
			return false;
	}
	tp->room = room_of(g);
	tp->by_number = calloc(tp->room + 1, sizeof(struct sl_backend_ref *));
	tp->batcher = sl_batcher_create_next(
		pool, tp->room,
		waiting_max(g, was ? &before->cfg->pools[was - before->pools] : NULL),
		&sl_dispatch_batch_ops, g, &c->maps.live[slot],
		c->maps.ctl ? &c->maps.ctl[slot] : NULL);
	return tp->by_number && tp->batcher && add_affinity(t, p);
}

static bool fill_route_codes(struct sl_core *c, struct sl_worker_cfg *t)
{
	uint32_t cnt = t->cfg->route_cnt;

	t->route_codes = calloc(cnt + 1, sizeof(struct sl_route_codes *));
	for (uint32_t i = 0; t->route_codes && i <= cnt; i++) {
		t->route_codes[i] = sl_route_codes_get(&c->route_codes_made,
						       i < cnt ? &t->cfg->routes[i] : NULL);
		if (!t->route_codes[i] ||
		    (sl_cfg_traces(&t->cfg->trace) && !sl_exemplars_make(t->route_codes[i])))
			return false;
	}
	return t->route_codes;
}

static void put_route_codes(struct sl_worker_cfg *t)
{
	for (uint32_t i = 0; t->route_codes && i <= t->cfg->route_cnt; i++)
		sl_route_codes_put(t->route_codes[i]);
	free(t->route_codes);
}

struct sl_worker_cfg *sl_worker_cfg_create(struct sl_core *c, const struct sl_config *cfg,
					   const struct sl_worker_cfg *before,
					   const uint32_t *slots)
{
	struct sl_worker_cfg *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	sl_list_add_tail(&c->wcfgs_made, &t->made);
	t->cfg = cfg;
	t->router = sl_router_create(cfg);
	t->pools = calloc(cfg->pool_cnt + 1, sizeof(*t->pools));
	if (!fill_route_codes(c, t))
		goto fail;
	for (uint32_t p = 0; t->router && t->pools && p < cfg->pool_cnt; p++) {
		if (!fill_pool(c, t, p, before, slots[p]))
			goto fail;
	}
	if (t->router && t->pools)
		return t;
fail:
	sl_worker_cfg_free(t);
	return NULL;
}

void sl_worker_cfg_tidy(struct sl_worker_cfg *t)
{
	for (uint32_t p = 0; t->pools && p < t->cfg->pool_cnt; p++) {
		struct sl_worker_cfg_pool *tp = &t->pools[p];

		if (tp->batcher)
			sl_batcher_destroy(tp->batcher);
		free(tp->by_number);
		tp->batcher = NULL;
		tp->by_number = NULL;
	}
	free(t->listeners);
	t->listeners = NULL;
}

static void undo_pool(struct sl_worker_cfg_pool *tp)
{
	struct sl_list *at, *next;

	if (!tp->pool)
		return;
	sl_list_for_each_safe (at, next, &tp->pool->backends) {
		struct sl_backend_ref *m = sl_container_of(at, struct sl_backend_ref, made);

		if (m->known)
			continue;
		sl_rpc_channel_free(m->channel);
		sl_backend_ref_free(m);
	}
	if (!tp->pool->wcfg)
		sl_pool_free(tp->pool);
}

void sl_worker_cfg_free(struct sl_worker_cfg *t)
{
	for (uint32_t p = 0; t->pools && p < t->cfg->pool_cnt; p++) {
		if (sl_worker_cfg_step(t) == SL_WORKER_CFG_MADE)
			undo_pool(&t->pools[p]);
		free(t->pools[p].backends);
	}
	sl_worker_cfg_tidy(t);
	put_route_codes(t);
	sl_router_destroy(t->router);
	sl_list_del(&t->made);
	free(t->pools);
	free(t);
}

static void give_up_slots(struct sl_core *c, const struct sl_worker_cfg *t, bool all)
{
	const struct sl_pool *next[SL_MAX_SERVICES] = {NULL};
	struct sl_list *at;

	for (uint32_t p = 0; p < t->cfg->pool_cnt; p++)
		next[atomic_load(&t->pools[p].pool->slot)] = t->pools[p].pool;
	sl_list_for_each (at, &c->pools) {
		struct sl_pool *g = sl_container_of(at, struct sl_pool, node);
		const uint32_t slot = atomic_load(&g->slot);

		if (slot == SL_NO_SLOT || next[slot] == g || !(all || next[slot]))
			continue;
		g->hist = c->unread;
		sl_batcher_unpublish(g->batcher, &g->live);
		atomic_store(&g->slot, SL_NO_SLOT);
	}
}

void sl_worker_cfg_prepare(struct sl_worker_cfg *t, struct sl_core *c)
{
	for (uint32_t p = 0; p < t->cfg->pool_cnt; p++) {
		struct sl_worker_cfg_pool *tp = &t->pools[p];
		struct sl_pool *g = tp->pool;
		struct sl_backend_ref **by_number = g->by_number;
		uint32_t room = g->room;

		for (uint32_t i = 0; i < room && i < tp->room; i++)
			tp->by_number[i] = by_number[i];
		for (uint32_t i = 0; i < t->cfg->pools[p].backend_cnt; i++) {
			struct sl_backend_ref *m = tp->backends[i];

			tp->by_number[m->number] = m;
			if (!m->known)
				sl_rpc_channel_join(c->rpc, m->channel);
			m->known = true;
		}
		g->by_number = tp->by_number;
		g->room = tp->room;
		tp->by_number = by_number;
	}
	give_up_slots(c, t, false);
	atomic_store_explicit(&t->step, SL_WORKER_CFG_PREPARED, memory_order_release);
}

static enum sl_tier tier_of(const struct sl_config *cfg, const struct sl_cfg_backend *b)
{
	if (b->backup)
		return SL_TIER_BACKUP;
	return cfg->zone && b->zone && strcmp(cfg->zone, b->zone) != 0 ? SL_TIER_OTHER_ZONE
								       : SL_TIER_NEAR;
}

static void change_backends(struct sl_pool *g, const struct sl_worker_cfg_pool *tp, uint32_t cnt)
{
	g->health = NULL;
	for (uint32_t i = 0; i < g->room; i++) {
		if (g->by_number[i])
			g->by_number[i]->leaving = true;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		struct sl_backend_ref *m = tp->backends[i];

		m->leaving = false;
		m->weight = g->cfg->backends[i].weight;
		m->tier = (uint8_t)tier_of(g->wcfg->cfg, &g->cfg->backends[i]);
		g->health = m->health->pool;
		if (m->joined)
			continue;
		m->joined = true;
		sl_batcher_begin(g->batcher, m->number);
	}
	for (uint32_t i = 0; i < g->room; i++) {
		struct sl_backend_ref *m = g->by_number[i];

		if (m && m->leaving)
			m->joined = false;
	}
	sl_pool_update_batcher(g);
}

static void switch_pool(struct sl_worker_cfg *t, uint32_t p)
{
	struct sl_worker_cfg_pool *tp = &t->pools[p];
	struct sl_pool *g = tp->pool;
	struct sl_batcher *old = g->batcher;

	g->core->follow_ns = 0;
	if (!g->wcfg)
		sl_list_add_tail(&g->core->pools, &g->node);
	else
		sl_worker_cfg_put(g->wcfg);
	sl_pool_get(g);
	sl_worker_cfg_get(t);
	g->wcfg = t;
	g->cfg = &t->cfg->pools[p];
	g->batcher = tp->batcher;
	tp->batcher = old;
	if (old)
		sl_batcher_take_over(g->batcher, old);
	change_backends(g, tp, g->cfg->backend_cnt);
}

static int32_t find_unix_listener(const void *arg, uint64_t name)
{
	const struct sl_config *cfg = arg;

	for (uint32_t i = 0; i < cfg->listener_cnt; i++) {
		const char *path = cfg->listeners[i].socket;

		if (path && sl_fnv64(SL_FNV64, path, strlen(path)) == name)
			return (int32_t)i;
	}
	return -1;
}

static void renumber_listeners(struct sl_core *c)
{
	struct sl_client *cl, *next;
	int listener;

	sl_sock_renumber(c->sock, find_unix_listener, c->cfg);
	for (cl = sl_client_next(c, NULL); cl; cl = next) {
		next = sl_client_next(c, cl);
		if (!cl->conn)
			continue;
		listener = sl_client_find_listener(cl);
		cl->listener = listener < 0 ? SL_NO_LISTENER : (uint16_t)listener;
		if (listener < 0)
			sl_client_drain(cl);
	}
}

void sl_worker_cfg_switch(struct sl_worker_cfg *t, struct sl_core *c)
{
	struct sl_worker_cfg *before = c->wcfg;

	sl_worker_cfg_get(t);
	for (uint32_t p = 0; p < t->cfg->pool_cnt; p++)
		switch_pool(t, p);
	c->wcfg = t;
	c->cfg = t->cfg;
	give_up_slots(c, t, true);
	if (before) {
		for (uint32_t p = 0; p < before->cfg->pool_cnt; p++)
			sl_pool_put(before->pools[p].pool);
		sl_worker_cfg_put(before);
	}
	sl_core_set_limits(c);
	if (c->filters.listeners)
		c->filters.listeners(c->filters.arg, t->cfg);
	if (t->listeners && sl_net_set_listeners(c->net, t->listeners, t->listener_cnt) == 0)
		renumber_listeners(c);
	c->serving_changed = true;
	c->leaving = true;
	c->leave_ns = 0;
	atomic_store_explicit(&t->step, SL_WORKER_CFG_SWITCHED, memory_order_release);
}
