/* SPDX-License-Identifier: Apache-2.0 */
#include "core/group.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { LEAVE_LOOK_MS = 1 };

/* --- control thread --- */

struct sl_group *sl_group_new(struct sl_core *c, uint32_t slot)
{
	struct sl_group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->core = c;
	atomic_store(&g->slot, slot);
	g->hist = &c->maps.hist[slot * SL_STAGE_CNT];
	sl_list_init(&g->members);
	sl_list_init(&g->node);
	sl_list_init(&g->streams);
	sl_list_add_tail(&c->groups_made, &g->made);
	return g;
}

static uint32_t free_number(const struct sl_group *g)
{
	uint64_t taken[2 * SL_MAX_BACKENDS / 64] = {0};
	struct sl_list *at;

	sl_list_for_each (at, &g->members) {
		uint16_t n = sl_container_of(at, struct sl_member, made)->number;

		taken[n / 64] |= UINT64_C(1) << n % 64;
	}
	for (uint32_t i = 0; i < SL_ARRAY_LEN(taken); i++) {
		if (~taken[i])
			return i * 64 + (uint32_t)__builtin_ctzll(~taken[i]);
	}
	return UINT32_MAX;
}

struct sl_member *sl_member_new(struct sl_group *g, const char *name)
{
	size_t len = strlen(name) + 1;
	uint32_t number = free_number(g);
	struct sl_member *m = number < UINT16_MAX ? calloc(1, sizeof(*m) + len) : NULL;

	if (!m)
		return NULL;
	memcpy(m->name, name, len);
	m->group = g;
	m->number = (uint16_t)number;
	sl_list_init(&m->stalled);
	sl_list_init(&m->turn);
	m->channel = sl_rpc_channel_new(name, m);
	if (!m->channel) {
		free(m);
		return NULL;
	}
	sl_list_add_tail(&g->members, &m->made);
	return m;
}

void sl_member_free(struct sl_member *m)
{
	sl_list_del(&m->made);
	free(m);
}

void sl_group_free(struct sl_group *g)
{
	struct sl_list *l;

	while ((l = sl_list_pop_head(&g->members)))
		free(sl_container_of(l, struct sl_member, made));
	if (g->batcher)
		sl_batcher_destroy(g->batcher);
	sl_list_del(&g->made);
	free(g->numbered);
	free(g);
}

static bool is_gone(const _Atomic bool *gone)
{
	return atomic_load_explicit(gone, memory_order_acquire);
}

void sl_groups_reap(struct sl_core *c)
{
	struct sl_list *at, *next, *m, *after;

	sl_list_for_each_safe (at, next, &c->groups_made) {
		struct sl_group *g = sl_container_of(at, struct sl_group, made);

		if (is_gone(&g->gone)) {
			sl_group_free(g);
			continue;
		}
		sl_list_for_each_safe (m, after, &g->members) {
			struct sl_member *one = sl_container_of(m, struct sl_member, made);

			if (is_gone(&one->gone))
				sl_member_free(one);
		}
	}
}

/* --- the worker --- */

static bool is_up(const struct sl_member *m, bool held)
{
	return m && m->joined && m->channel && sl_rpc_channel_state(m->channel) == SL_RPC_UP &&
	       (held || !sl_rpc_channel_held(m->channel));
}

static void serve(struct sl_group *g, struct sl_member *m, bool served)
{
	if (!m || m->served == served)
		return;
	m->served = served;
	sl_batcher_backend(g->batcher, m->number, served, g->core->now_ns);
}

/* Those who may first: what would be nobody's for a moment would be dropped. */
void sl_group_tell(struct sl_group *g)
{
	bool held = true; /* as there is no other */

	g->may_begin = true;
	for (uint32_t i = 0; i < g->room; i++)
		held = held && !is_up(g->numbered[i], false);
	for (uint32_t i = 0; i < g->room; i++) {
		if (is_up(g->numbered[i], held))
			serve(g, g->numbered[i], true);
	}
	for (uint32_t i = 0; i < g->room; i++) {
		if (!is_up(g->numbered[i], held))
			serve(g, g->numbered[i], false);
	}
}

void sl_member_adopt(struct sl_member *m, struct sl_transport *t)
{
	if (!m->leaving) {
		sl_rpc_adopt(m->channel, t, m->group->core->now_ns);
		return;
	}
	/* Dialled for before it was taken out of the configuration. */
	sl_rpc_dial_drop(t);
	if (sl_member_link(m) == SL_LINK_OFFERED)
		sl_member_link_set(m, SL_LINK_DOWN);
}

void sl_member_forgotten(struct sl_member *m, uint32_t number)
{
	if (m->channel)
		sl_rpc_forgotten(m->channel, number);
}

void sl_member_release(struct sl_member *m)
{
	if (m->channel)
		sl_rpc_channel_drain(m->channel);
}

/* True when nothing of it is left. */
static bool member_left(struct sl_member *m)
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
	/* Nobody offers a transport once it is released, and none is on its way. */
	return m->refs == 0 && atomic_load_explicit(&m->released, memory_order_acquire) &&
	       sl_member_link(m) == SL_LINK_DOWN;
}

/* Returns how many members are to leave. */
static uint32_t members_leave(struct sl_group *g)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < g->room; i++) {
		struct sl_member *m = g->numbered[i];

		if (!m)
			continue;
		m->leaving = m->leaving || !g->refs;
		if (member_left(m)) {
			g->numbered[i] = NULL;
			sl_list_del(&m->turn);
			atomic_store_explicit(&m->gone, true, memory_order_release);
		} else {
			left += m->leaving;
		}
	}
	return left;
}

void sl_groups_leave(struct sl_core *c)
{
	struct sl_list *at, *next;
	bool more = false;

	sl_list_for_each_safe (at, next, &c->groups) {
		struct sl_group *g = sl_container_of(at, struct sl_group, node);

		if (members_leave(g)) {
			more = true;
		} else if (!g->refs) {
			sl_list_del(&g->node);
			sl_table_put(g->table);
			atomic_store_explicit(&g->gone, true, memory_order_release);
		}
	}
	c->leaving = more;
	c->leave_ns = c->now_ns + LEAVE_LOOK_MS * SL_NS_PER_MS;
}
