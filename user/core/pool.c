/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pool.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

enum { LEAVE_LOOK_MS = 1 };

struct sl_pool *sl_pool_new(struct sl_core *c, uint32_t slot)
{
	struct sl_pool *g = calloc(1, sizeof(*g));
	uint64_t seed;

	if (!g)
		return NULL;
	if (sl_rand_bytes(&seed, sizeof(seed)))
		seed = (uintptr_t)g;
	sl_prng_seed(&g->prng, seed);
	g->core = c;
	atomic_store(&g->slot, slot);
	g->hist = &c->maps.hist[slot * SL_STAGE_CNT];
	sl_list_init(&g->backends);
	sl_list_init(&g->node);
	sl_list_init(&g->streams);
	sl_list_add_tail(&c->pools_made, &g->made);
	return g;
}

static uint32_t unused_number(const struct sl_pool *g)
{
	uint64_t taken[2 * SL_MAX_BACKENDS / 64] = {0};
	struct sl_list *at;

	sl_list_for_each (at, &g->backends) {
		uint16_t n = sl_container_of(at, struct sl_backend_ref, made)->number;

		taken[n / 64] |= UINT64_C(1) << n % 64;
	}
	for (uint32_t i = 0; i < SL_ARRAY_LEN(taken); i++) {
		if (~taken[i])
			return i * 64 + (uint32_t)__builtin_ctzll(~taken[i]);
	}
	return UINT32_MAX;
}

struct sl_backend_ref *sl_backend_ref_new(struct sl_pool *g, const char *pool,
					  const struct sl_cfg_backend *b)
{
	const char *name = b->name;
	size_t len = strlen(name) + 1;
	uint32_t number = unused_number(g);
	struct sl_backend_ref *m = number < UINT16_MAX ? calloc(1, sizeof(*m) + len) : NULL;

	if (!m)
		return NULL;
	memcpy(m->name, name, len);
	m->pool = g;
	m->number = (uint16_t)number;
	sl_list_init(&m->stalled);
	sl_list_init(&m->stalled_node);
	m->health = sl_backend_health_get(g->core->maps.health, pool, name, b->endpoint);
	m->channel = m->health ? sl_rpc_channel_new(name, m) : NULL;
	if (!m->channel) {
		sl_backend_health_put(m->health);
		free(m);
		return NULL;
	}
	sl_list_add_tail(&g->backends, &m->made);
	return m;
}

void sl_backend_ref_free(struct sl_backend_ref *m)
{
	sl_list_del(&m->made);
	sl_backend_health_put(m->health);
	free(m);
}

void sl_pool_free(struct sl_pool *g)
{
	struct sl_backend_ref *m;

	/* The analyzer takes the next one for the freed one. */
	while ((m = sl_list_first(&g->backends, struct sl_backend_ref, made)))
		sl_backend_ref_free(m); /* NOLINT(clang-analyzer-unix.Malloc) */
	if (g->batcher)
		sl_batcher_destroy(g->batcher);
	sl_list_del(&g->made);
	free(g->by_number);
	free(g);
}

static bool is_gone(const _Atomic bool *gone)
{
	return atomic_load_explicit(gone, memory_order_acquire);
}

void sl_pools_reap(struct sl_core *c)
{
	struct sl_list *at, *next, *m, *after;

	sl_list_for_each_safe (at, next, &c->pools_made) {
		struct sl_pool *g = sl_container_of(at, struct sl_pool, made);

		if (is_gone(&g->gone)) {
			sl_pool_free(g);
			continue;
		}
		sl_list_for_each_safe (m, after, &g->backends) {
			struct sl_backend_ref *one =
				sl_container_of(m, struct sl_backend_ref, made);

			if (is_gone(&one->gone))
				sl_backend_ref_free(one);
		}
	}
}

void sl_backend_ref_adopt(struct sl_backend_ref *m, struct sl_transport *t)
{
	int rc = 0;

	if (m->leaving)
		sl_rpc_dial_drop(t);
	else
		rc = sl_rpc_adopt(m->channel, t, m->pool->core->now_ns);
	if (rc)
		sl_log_warn("backend %s/%s: cannot watch a new connection: %s; retrying",
			    m->pool->cfg->name, m->name, strerror(-rc));
	if ((rc || m->leaving) && sl_backend_ref_state(m) == SL_BACKEND_OFFERED)
		sl_backend_ref_set_state(m, SL_BACKEND_DOWN);
}

void sl_backend_ref_forgotten(struct sl_backend_ref *m, uint32_t number)
{
	if (m->channel)
		sl_rpc_peer_removed(m->channel, number);
}

void sl_backend_ref_release(struct sl_backend_ref *m)
{
	if (m->channel)
		sl_rpc_channel_drain(m->channel);
}

static bool backend_has_left(struct sl_backend_ref *m)
{
	if (!m->leaving)
		return false;
	if (m->channel && sl_rpc_channel_state(m->channel) != SL_RPC_DOWN) {
		sl_rpc_channel_drain(m->channel);
		return false;
	}
	if (m->channel)
		sl_rpc_channel_remove(m->channel);
	m->channel = NULL;
	/* After `released` no transport is on its way. */
	return m->refs == 0 && atomic_load_explicit(&m->released, memory_order_acquire) &&
	       sl_backend_ref_state(m) == SL_BACKEND_DOWN;
}

static uint32_t backends_leave(struct sl_pool *g)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < g->room; i++) {
		struct sl_backend_ref *m = g->by_number[i];

		if (!m)
			continue;
		m->leaving = m->leaving || !g->refs;
		if (backend_has_left(m)) {
			g->by_number[i] = NULL;
			sl_list_del(&m->stalled_node);
			atomic_store_explicit(&m->gone, true, memory_order_release);
		} else {
			left += m->leaving;
		}
	}
	return left;
}

void sl_pools_leave(struct sl_core *c)
{
	struct sl_list *at, *next;
	bool more = false;

	sl_list_for_each_safe (at, next, &c->pools) {
		struct sl_pool *g = sl_container_of(at, struct sl_pool, node);

		if (backends_leave(g)) {
			more = true;
		} else if (!g->refs) {
			sl_list_del(&g->node);
			sl_worker_cfg_put(g->wcfg);
			atomic_store_explicit(&g->gone, true, memory_order_release);
		}
	}
	c->leaving = more;
	c->leave_ns = c->now_ns + LEAVE_LOOK_MS * SL_NS_PER_MS;
}
