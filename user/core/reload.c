/* SPDX-License-Identifier: Apache-2.0 */
#include "core/reload.h"

#include <stdlib.h>
#include <string.h>

#include "core/client.h"

/* --- control thread --- */

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
	       same_text(a->host, b->host);
}

const struct sl_table_pool *sl_table_find(const struct sl_table *t, const char *name)
{
	for (uint32_t i = 0; t && i < t->cfg->pool_cnt; i++) {
		if (strcmp(t->cfg->pools[i].name, name) == 0)
			return &t->pools[i];
	}
	return NULL;
}

/* Most stand where they stood, or a little further on: the search begins there. */
static struct sl_member *find_member(const struct sl_table *before, const struct sl_table_pool *was,
				     const struct sl_cfg_backend *b, uint32_t at)
{
	const struct sl_cfg_pool *pool = was ? &before->cfg->pools[was - before->pools] : NULL;

	for (uint32_t i = 0; pool && i < pool->backend_cnt; i++) {
		uint32_t k = (at + i) % pool->backend_cnt;

		if (same_backend(&pool->backends[k], b))
			return was->members[k];
	}
	return NULL;
}

static uint32_t room_of(const struct sl_group *g)
{
	const struct sl_list *at;
	uint32_t room = 0;

	sl_list_for_each (at, &g->members) {
		uint32_t n = sl_container_of(at, struct sl_member, made)->number;

		room = n >= room ? n + 1 : room;
	}
	return room;
}

/*
 * What may wait when the switch comes: no more than waits now, or than may be added to. Read while
 * the worker counts.
 */
static uint32_t waiting_max(const struct sl_group *g, const struct sl_cfg_pool *was)
{
	uint32_t waits = g->batcher ? sl_batcher_queue_len(g->batcher) : 0;

	return was && was->max_queue > waits ? was->max_queue : waits;
}

static bool fill_pool(struct sl_core *c, struct sl_table *t, uint32_t p,
		      const struct sl_table *before, uint32_t slot)
{
	const struct sl_cfg_pool *pool = &t->cfg->pools[p];
	const struct sl_table_pool *was = sl_table_find(before, pool->name);
	struct sl_table_pool *tp = &t->pools[p];
	struct sl_group *g = was ? was->group : sl_group_new(c, slot);

	tp->group = g;
	tp->members = calloc(pool->backend_cnt + 1, sizeof(struct sl_member *));
	if (!g || !tp->members)
		return false;
	for (uint32_t i = 0; i < pool->backend_cnt; i++) {
		tp->members[i] = find_member(before, was, &pool->backends[i], i);
		if (!tp->members[i])
			tp->members[i] = sl_member_new(g, pool->backends[i].name);
		if (!tp->members[i])
			return false;
	}
	tp->room = room_of(g);
	tp->numbered = calloc(tp->room + 1, sizeof(struct sl_member *));
	tp->batcher = sl_batcher_create_next(
		pool, tp->room,
		waiting_max(g, was ? &before->cfg->pools[was - before->pools] : NULL),
		&sl_service_batch_ops, g, &c->maps.live[slot],
		c->maps.ctl ? &c->maps.ctl[slot] : NULL);
	return tp->numbered && tp->batcher;
}

struct sl_table *sl_table_create(struct sl_core *c, const struct sl_config *cfg,
				 const struct sl_table *before, const uint32_t *slots)
{
	struct sl_table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	sl_list_add_tail(&c->tables_made, &t->made);
	t->cfg = cfg;
	t->router = sl_router_create(cfg);
	t->pools = calloc(cfg->pool_cnt + 1, sizeof(*t->pools));
	for (uint32_t p = 0; t->router && t->pools && p < cfg->pool_cnt; p++) {
		if (!fill_pool(c, t, p, before, slots[p]))
			goto fail;
	}
	if (t->router && t->pools)
		return t;
fail:
	sl_table_free(t);
	return NULL;
}

void sl_table_tidy(struct sl_table *t)
{
	for (uint32_t p = 0; t->pools && p < t->cfg->pool_cnt; p++) {
		struct sl_table_pool *tp = &t->pools[p];

		if (tp->batcher)
			sl_batcher_destroy(tp->batcher);
		free(tp->numbered);
		tp->batcher = NULL;
		tp->numbered = NULL;
	}
	free(t->listeners);
	t->listeners = NULL;
}

/* What was made for a table that no worker has heard of. */
static void undo_pool(struct sl_table_pool *tp)
{
	struct sl_list *at, *next;

	if (!tp->group)
		return;
	sl_list_for_each_safe (at, next, &tp->group->members) {
		struct sl_member *m = sl_container_of(at, struct sl_member, made);

		if (m->known)
			continue;
		sl_rpc_channel_free(m->channel);
		sl_member_free(m);
	}
	if (!tp->group->table)
		sl_group_free(tp->group);
}

void sl_table_free(struct sl_table *t)
{
	for (uint32_t p = 0; t->pools && p < t->cfg->pool_cnt; p++) {
		if (sl_table_step(t) == SL_TABLE_MADE)
			undo_pool(&t->pools[p]);
		free(t->pools[p].members);
	}
	sl_table_tidy(t);
	sl_router_destroy(t->router);
	sl_list_del(&t->made);
	free(t->pools);
	free(t);
}

/* --- the worker --- */

/*
 * Takes groups off the maps that t does not have: all of them, or those whose slot a group of t is
 * about to have.
 */
static void give_up_slots(struct sl_core *c, const struct sl_table *t, bool all)
{
	const struct sl_group *next[SL_MAX_SERVICES] = {NULL};
	struct sl_list *at;

	for (uint32_t p = 0; p < t->cfg->pool_cnt; p++)
		next[atomic_load(&t->pools[p].group->slot)] = t->pools[p].group;
	sl_list_for_each (at, &c->groups) {
		struct sl_group *g = sl_container_of(at, struct sl_group, node);
		const uint32_t slot = atomic_load(&g->slot);

		if (slot == SL_NO_SLOT || next[slot] == g || !(all || next[slot]))
			continue;
		g->hist = c->unread;
		sl_batcher_unpublish(g->batcher, &g->live);
		atomic_store(&g->slot, SL_NO_SLOT);
	}
}

void sl_table_prepare(struct sl_table *t, struct sl_core *c)
{
	for (uint32_t p = 0; p < t->cfg->pool_cnt; p++) {
		struct sl_table_pool *tp = &t->pools[p];
		struct sl_group *g = tp->group;
		struct sl_member **numbered = g->numbered;
		uint32_t room = g->room;

		for (uint32_t i = 0; i < room && i < tp->room; i++)
			tp->numbered[i] = numbered[i];
		for (uint32_t i = 0; i < t->cfg->pools[p].backend_cnt; i++) {
			struct sl_member *m = tp->members[i];

			tp->numbered[m->number] = m;
			if (!m->known)
				sl_rpc_channel_join(c->rpc, m->channel);
			m->known = true;
		}
		g->numbered = tp->numbered;
		g->room = tp->room;
		tp->numbered = numbered;
	}
	give_up_slots(c, t, false);
	atomic_store_explicit(&t->step, SL_TABLE_PREPARED, memory_order_release);
}

static void change_members(struct sl_group *g, const struct sl_table_pool *tp, uint32_t cnt)
{
	for (uint32_t i = 0; i < g->room; i++) {
		if (g->numbered[i])
			g->numbered[i]->leaving = true;
	}
	for (uint32_t i = 0; i < cnt; i++) {
		struct sl_member *m = tp->members[i];

		m->leaving = false;
		if (m->joined)
			continue;
		m->joined = true;
		sl_batcher_begin(g->batcher, m->number);
	}
	for (uint32_t i = 0; i < g->room; i++) {
		struct sl_member *m = g->numbered[i];

		if (m && m->leaving)
			m->joined = false;
	}
	sl_group_tell(g);
}

static void switch_group(struct sl_table *t, uint32_t p)
{
	struct sl_table_pool *tp = &t->pools[p];
	struct sl_group *g = tp->group;
	struct sl_batcher *old = g->batcher;

	if (!g->table)
		sl_list_add_tail(&g->core->groups, &g->node);
	else
		sl_table_put(g->table);
	sl_group_get(g);
	sl_table_get(t);
	g->table = t;
	g->pool = &t->cfg->pools[p];
	g->batcher = tp->batcher;
	tp->batcher = old;
	if (old)
		sl_batcher_take_over(g->batcher, old);
	change_members(g, tp, g->pool->backend_cnt);
}

/*
 * Clients get the number that their listener has now. Connections to one that is gone end as at a
 * drain: what was asked is answered.
 */
static void renumber_listeners(struct sl_core *c)
{
	struct sl_client *cl, *next;
	int listener;

	for (cl = sl_client_next(c, NULL); cl; cl = next) {
		next = sl_client_next(c, cl);
		if (!cl->conn)
			continue;
		listener = sl_tcp_listener(sl_client_tcp(cl));
		cl->listener = listener < 0 ? SL_NO_LISTENER : (uint16_t)listener;
		if (listener < 0)
			sl_client_drain(cl);
	}
}

void sl_table_switch(struct sl_table *t, struct sl_core *c)
{
	struct sl_table *before = c->table;

	sl_table_get(t);
	for (uint32_t p = 0; p < t->cfg->pool_cnt; p++)
		switch_group(t, p);
	c->table = t;
	c->cfg = t->cfg;
	give_up_slots(c, t, true);
	if (before) {
		/* It stays for as long as an exchange has one of its routes. */
		for (uint32_t p = 0; p < before->cfg->pool_cnt; p++)
			sl_group_put(before->pools[p].group);
		sl_table_put(before);
	}
	sl_core_set_limits(c);
	if (c->filters.listeners)
		c->filters.listeners(c->filters.arg, t->cfg);
	/* If there is no memory for the copy, those of before stay. */
	if (t->listeners && sl_net_set_listeners(c->net, t->listeners, t->listener_cnt) == 0)
		renumber_listeners(c);
	c->serving_changed = true; /* other services may be known now */
	c->leaving = true;
	c->leave_ns = 0;
	atomic_store_explicit(&t->step, SL_TABLE_SWITCHED, memory_order_release);
}
