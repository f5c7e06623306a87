/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which backends of a pool get requests: connected, port up, not drained, not ejected unless too
 * few are left, of the lowest tier that has any. Also their shares: weight, slow start, trial.
 */
#include "core/pool.h"

#include "base/clock.h"
#include "base/min.h"

#define RAMP_NS (100 * SL_NS_PER_MS) /* between updates of a slow start */

struct census {
	bool held; /* no port is up: those that are down serve */
	bool panic;
	uint8_t last; /* tiers up to this one serve */
	uint32_t up, ejected;
	uint32_t serving[SL_TIER_CNT]; /* up and, unless in panic, not ejected */
};

static bool is_up(const struct sl_backend_ref *m, bool held)
{
	return m && m->joined && m->channel && sl_rpc_channel_state(m->channel) == SL_RPC_UP &&
	       !atomic_load_explicit(&m->health->health.drained, memory_order_relaxed) &&
	       (held || !sl_rpc_channel_port_down(m->channel));
}

static bool is_ejected(const struct sl_backend_ref *m)
{
	return sl_health_state(&m->health->health) == SL_HEALTH_EJECTED;
}

static bool serves(const struct sl_backend_ref *m, const struct census *c)
{
	return is_up(m, c->held) && (c->panic || !is_ejected(m)) && m->tier <= c->last;
}

static struct census count_backends(const struct sl_pool *g)
{
	struct census c = {.held = true};

	for (uint32_t i = 0; i < g->room; i++)
		c.held = c.held && !is_up(g->by_number[i], false);
	for (uint32_t i = 0; i < g->room; i++) {
		if (!is_up(g->by_number[i], c.held))
			continue;
		c.up++;
		c.ejected += is_ejected(g->by_number[i]);
	}
	c.panic = sl_outlier_panic(c.up, c.ejected);
	for (uint32_t i = 0; i < g->room; i++) {
		const struct sl_backend_ref *m = g->by_number[i];

		if (is_up(m, c.held) && (c.panic || !is_ejected(m)))
			c.serving[m->tier]++;
	}
	while (c.last + 1 < SL_TIER_CNT && !c.serving[c.last])
		c.last++;
	return c;
}

static void set_served(struct sl_pool *g, struct sl_backend_ref *m, bool served)
{
	if (!m || m->served == served)
		return;
	if (served && m->was_served)
		m->start_ns = g->core->now_ns;
	m->was_served |= m->served;
	m->served = served;
	if (!served && is_ejected(m))
		sl_batcher_forget(g->batcher, m->number);
	sl_batcher_backend(g->batcher, m->number, served, g->core->now_ns);
}

static uint32_t ramp_of(struct sl_pool *g, const struct sl_backend_ref *m)
{
	uint64_t now_ns = g->core->now_ns, slow_ns = g->cfg->slow_start_ns;
	uint64_t up_ns = atomic_load_explicit(&m->health->health.up_ns, memory_order_relaxed);
	uint64_t start_ns = up_ns > m->start_ns ? up_ns : m->start_ns;
	uint32_t ramp = sl_slow_start(start_ns, slow_ns, now_ns);

	if (sl_health_state(&m->health->health) == SL_HEALTH_TRIAL)
		return SL_WEIGHT_FLOOR;
	if (ramp < SL_WEIGHT_UNIT)
		g->serving_due_ns = sl_min_ns(g->serving_due_ns, now_ns + RAMP_NS);
	return ramp;
}

static void weigh_backend(struct sl_pool *g, struct sl_backend_ref *m, const struct census *c)
{
	const struct sl_health *h = &m->health->health;
	uint32_t forced = atomic_load_explicit(&h->weight, memory_order_relaxed);
	uint32_t weight = forced ? forced : m->weight ? m->weight : 1;

	m->share = weight * ramp_of(g, m);
	m->trial = sl_health_state(h) == SL_HEALTH_TRIAL && c->up - c->ejected > 1;
	sl_batcher_weigh(g->batcher, m->number, m->share, m->trial);
}

static void weigh_all(struct sl_pool *g, const struct census *c)
{
	uint32_t most = 0, least = UINT32_MAX;
	bool trial = false;

	for (uint32_t i = 0; i < g->room; i++) {
		struct sl_backend_ref *m = g->by_number[i];

		if (!m || !m->served)
			continue;
		weigh_backend(g, m, c);
		most = m->share > most ? m->share : most;
		least = m->share < least ? m->share : least;
		trial |= m->trial;
	}
	g->weighted = trial || least < most;
	sl_batcher_weighted(g->batcher, g->weighted ? most : 0);
}

static void follow_ejections(struct sl_pool *g)
{
	for (uint32_t i = 0; i < g->room; i++) {
		struct sl_backend_ref *m = g->by_number[i];

		if (m && m->joined &&
		    sl_health_follow(&m->health->health, g->core->now_ns) == SL_HEALTH_EJECTED)
			g->serving_due_ns = sl_min_ns(g->serving_due_ns,
						      atomic_load(&m->health->health.until_ns));
	}
}

/* Adds before it removes: the batcher drops requests while it has no backend. */
void sl_pool_update_batcher(struct sl_pool *g)
{
	struct census c;

	g->may_begin = true;
	g->serving_due_ns = UINT64_MAX;
	if (g->health)
		g->epoch = atomic_load_explicit(&g->health->epoch, memory_order_acquire);
	follow_ejections(g);
	c = count_backends(g);
	for (uint32_t i = 0; i < g->room; i++) {
		if (g->by_number[i] && serves(g->by_number[i], &c))
			set_served(g, g->by_number[i], true);
	}
	for (uint32_t i = 0; i < g->room; i++) {
		if (g->by_number[i] && !serves(g->by_number[i], &c))
			set_served(g, g->by_number[i], false);
	}
	weigh_all(g, &c);
	g->core->follow_ns = sl_min_ns(g->core->follow_ns, g->serving_due_ns);
}

static bool has_changed(const struct sl_pool *g)
{
	return g->core->now_ns >= g->serving_due_ns ||
	       (g->health &&
		atomic_load_explicit(&g->health->epoch, memory_order_acquire) != g->epoch);
}

void sl_pools_follow_health(struct sl_core *c)
{
	struct sl_list *at;

	c->health_changes = atomic_load_explicit(&c->maps.health->changes, memory_order_acquire);
	c->follow_ns = UINT64_MAX;
	sl_list_for_each (at, &c->pools) {
		struct sl_pool *g = sl_container_of(at, struct sl_pool, node);

		if (has_changed(g))
			sl_pool_update_batcher(g);
		c->follow_ns = sl_min_ns(c->follow_ns, g->serving_due_ns);
	}
}
