/* SPDX-License-Identifier: Apache-2.0 */
#include "core/reload.h"

#include <stdlib.h>

#include "base/clock.h"
#include "core/client.h"

enum { LEAVE_LOOK_MS = 1 };

/* --- control thread --- */

static bool make_channels(struct sl_core *c, struct sl_core_change *ch, uint32_t p,
			  const struct sl_cfg_pool *now)
{
	const struct sl_cfg_pool *pool = &ch->gen.cfg->pools[p];

	for (uint32_t i = 0; i < pool->backend_cnt; i++) {
		struct sl_rpc_channel **slot = &ch->channels[p * SL_MAX_BACKENDS + i];

		if (!pool->backends[i].name ||
		    (now && i < now->backend_cnt && now->backends[i].name))
			continue;
		*slot = sl_rpc_channel_new(pool->backends[i].name, &c->services[p].backends[i]);
		if (!*slot)
			return false;
	}
	return true;
}

static const struct sl_cfg_pool *pool_at(const struct sl_config *cfg, uint32_t p)
{
	return p < cfg->pool_cnt && cfg->pools[p].name ? &cfg->pools[p] : NULL;
}

static bool make_service(struct sl_core *c, struct sl_core_change *ch, uint32_t p,
			 const struct sl_config *const *living, uint32_t living_cnt)
{
	const struct sl_cfg_pool *pool = pool_at(ch->gen.cfg, p);
	uint32_t max_queue = 0;

	if (!pool)
		return true;
	/* One that has been taken out may have something waiting still, and comes back. */
	for (uint32_t k = 0; k < living_cnt; k++) {
		const struct sl_cfg_pool *was = pool_at(living[k], p);

		if (was && was->max_queue > max_queue)
			max_queue = was->max_queue;
	}
	ch->batchers[p] =
		sl_batcher_create_next(pool, max_queue, &sl_service_batch_ops, &c->services[p],
				       &c->maps.hist[p * SL_STAGE_CNT], &c->maps.live[p],
				       c->maps.ctl ? &c->maps.ctl[p] : NULL);
	return ch->batchers[p] && make_channels(c, ch, p, pool_at(living[0], p));
}

struct sl_core_change *sl_core_change_create(struct sl_core *c,
					     const struct sl_config *const *living,
					     uint32_t living_cnt, const struct sl_config *next,
					     uint64_t number)
{
	struct sl_core_change *ch = calloc(1, sizeof(*ch));
	uint32_t cnt = c->maps.service_cnt;

	if (!ch)
		return NULL;
	ch->gen = (struct sl_generation){.cfg = next, .number = number};
	ch->service_cnt = cnt;
	ch->batchers = calloc(cnt + 1, sizeof(*ch->batchers));
	ch->channels = calloc((size_t)cnt * SL_MAX_BACKENDS + 1, sizeof(struct sl_rpc_channel *));
	if (!ch->batchers || !ch->channels)
		goto fail;
	for (uint32_t p = 0; p < next->pool_cnt; p++) {
		if (!make_service(c, ch, p, living, living_cnt))
			goto fail;
	}
	return ch;
fail:
	sl_core_change_free(ch);
	return NULL;
}

void sl_core_change_tidy(struct sl_core_change *ch)
{
	for (uint32_t i = 0; ch->batchers && i < ch->service_cnt; i++) {
		if (ch->batchers[i])
			sl_batcher_destroy(ch->batchers[i]);
	}
	for (uint32_t i = 0; ch->channels && i < ch->service_cnt * SL_MAX_BACKENDS; i++)
		sl_rpc_channel_free(ch->channels[i]);
	free(ch->listeners);
	free(ch->batchers);
	free(ch->channels);
	ch->listeners = NULL;
	ch->batchers = NULL;
	ch->channels = NULL;
}

void sl_core_change_free(struct sl_core_change *ch)
{
	if (!ch)
		return;
	sl_core_change_tidy(ch);
	free(ch);
}

/* --- the worker --- */

static void prepare_service(struct sl_core *c, struct sl_core_change *ch, uint32_t p)
{
	const struct sl_cfg_pool *pool = &ch->gen.cfg->pools[p];
	struct sl_service *s = &c->services[p];

	s->core = c;
	s->index = p;
	s->wanted = true;
	for (uint32_t i = 0; i < pool->backend_cnt; i++) {
		struct sl_rpc_channel **made = &ch->channels[p * SL_MAX_BACKENDS + i];

		if (!pool->backends[i].name)
			continue;
		s->backends[i].wanted = true; /* it may have been leaving */
		if (!*made || s->backends[i].channel)
			continue;
		sl_rpc_channel_join(c->rpc, *made);
		sl_service_set_backend(s, i, *made);
		*made = NULL;
	}
}

void sl_core_prepare(struct sl_core *c, struct sl_core_change *ch)
{
	const struct sl_config *next = ch->gen.cfg;

	for (uint32_t p = 0; p < next->pool_cnt; p++) {
		if (next->pools[p].name)
			prepare_service(c, ch, p);
	}
	if (next->pool_cnt > c->service_cnt)
		c->service_cnt = next->pool_cnt;
	atomic_store_explicit(&ch->step, SL_CHANGE_PREPARED, memory_order_release);
}

static bool has_backend(const struct sl_cfg_pool *pool, uint32_t i)
{
	return i < pool->backend_cnt && pool->backends[i].name;
}

/* The batcher knows of exactly those that the configuration has. */
static void join_backends(struct sl_core *c, struct sl_service *s)
{
	for (uint32_t i = 0; i < SL_MAX_BACKENDS; i++) {
		struct sl_service_backend *be = &s->backends[i];
		bool has = has_backend(s->pool, i);

		be->wanted = has;
		if (!be->channel || has == be->joined)
			continue;
		if (has && sl_rpc_channel_state(be->channel) == SL_RPC_UP)
			sl_batcher_backend(s->batcher, i, true, c->now_ns);
		be->joined = has;
	}
}

/* New ones are told first: a request that may not go to them anew may go there. */
static void part_backends(struct sl_core *c, struct sl_service *s)
{
	for (uint32_t i = 0; i < SL_MAX_BACKENDS; i++) {
		struct sl_service_backend *be = &s->backends[i];

		if (be->channel && !be->wanted && sl_rpc_channel_state(be->channel) == SL_RPC_UP)
			sl_batcher_backend(s->batcher, i, false, c->now_ns);
	}
}

static void switch_service(struct sl_core *c, struct sl_core_change *ch, uint32_t p)
{
	struct sl_service *s = &c->services[p];
	struct sl_batcher *old = s->batcher;

	s->pool = &ch->gen.cfg->pools[p];
	s->batcher = ch->batchers[p];
	ch->batchers[p] = old;
	if (old)
		sl_batcher_take_over(s->batcher, old);
	join_backends(c, s);
	part_backends(c, s);
}

/* Connections to a listener that is gone end as at a drain: what was asked is answered. */
static void drain_unserved(struct sl_core *c)
{
	struct sl_client *cl, *next;

	for (cl = sl_client_next(c, NULL); cl; cl = next) {
		next = sl_client_next(c, cl);
		if (cl->conn && !sl_tcp_served(cl->conn))
			sl_client_drain(cl);
	}
}

void sl_core_switch(struct sl_core *c, struct sl_core_change *ch)
{
	const struct sl_config *next = ch->gen.cfg;

	for (uint32_t p = 0; p < c->service_cnt; p++) {
		struct sl_service *s = &c->services[p];

		if (p < next->pool_cnt && next->pools[p].name)
			switch_service(c, ch, p);
		else
			s->wanted = false;
	}
	c->gen = &ch->gen;
	c->cfg = next;
	sl_core_set_limits(c);
	/* If there is no memory for the copy, those of before stay. */
	if (sl_net_set_listeners(c->net, ch->listeners, ch->listener_cnt) == 0)
		drain_unserved(c);
	c->serving_changed = true; /* other services may be known now */
	c->leaving = true;
	c->leave_ns = 0;
	atomic_store_explicit(&ch->step, SL_CHANGE_SWITCHED, memory_order_release);
}

/* True when nothing of it is left. */
static bool backend_left(struct sl_service_backend *be)
{
	if (!be->channel || be->wanted)
		return true;
	if (sl_rpc_channel_state(be->channel) != SL_RPC_DOWN) {
		sl_rpc_channel_drain(be->channel);
		return false;
	}
	sl_rpc_channel_remove(be->channel);
	be->channel = NULL;
	be->joined = false;
	return true;
}

/* A pool that is gone serves the exchanges that know of it, `old` in number. */
static bool service_left(struct sl_service *s, uint32_t old)
{
	bool left = true;

	if (!s->wanted && s->batcher && old)
		return false;
	for (uint32_t i = 0; i < SL_MAX_BACKENDS; i++) {
		s->backends[i].wanted = s->backends[i].wanted && s->wanted;
		left = backend_left(&s->backends[i]) && left;
	}
	if (!left || s->wanted || !s->batcher)
		return left;
	sl_service_fini(s);
	s->pool = NULL;
	return true;
}

void sl_core_leave(struct sl_core *c)
{
	uint32_t old = sl_pool_used(&c->exchanges) - c->gen->exchanges;
	bool left = old == 0;

	for (uint32_t p = 0; p < c->service_cnt; p++)
		left = service_left(&c->services[p], old) && left;
	c->leave_ns = c->now_ns + LEAVE_LOOK_MS * SL_NS_PER_MS;
	if (!left)
		return;
	c->leaving = false;
	atomic_store_explicit(&c->settled, c->gen->number, memory_order_release);
}
