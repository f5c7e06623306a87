/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wheel.h"

#include <string.h>

enum { SLOT_MASK = SL_WHEEL_SLOTS - 1, IDLE = -1 };

#define TICK_MAX UINT64_MAX

void sl_wheel_init(struct sl_wheel *w, uint64_t now_ns, uint64_t tick_ns)
{
	memset(w, 0, sizeof(*w));
	w->shift = tick_ns ? 63 - (uint32_t)__builtin_clzll(tick_ns) : 0;
	w->pos = now_ns >> w->shift;
	if (w->pos == TICK_MAX)
		w->pos--;
	w->seen_ns = now_ns;
	w->moving = IDLE;
	w->due_ns = UINT64_MAX;
}

static uint64_t link_timer(struct sl_wheel *w, struct sl_timer *t)
{
	uint64_t differs = (t->tick ^ w->pos) | SLOT_MASK;
	uint32_t level = (63 - (uint32_t)__builtin_clzll(differs)) / SL_WHEEL_BITS;
	uint32_t slot = (uint32_t)(t->tick >> (level * SL_WHEEL_BITS)) & SLOT_MASK;
	struct sl_timer **head = &w->slot[level * SL_WHEEL_SLOTS + slot];

	t->next = *head;
	if (t->next)
		t->next->link = &t->next;
	t->link = head;
	*head = t;
	w->filled[level] |= UINT64_C(1) << slot;
	w->levels |= 1u << level;
	return t->tick >> (level * SL_WHEEL_BITS) << (level * SL_WHEEL_BITS);
}

static void clear_slot_bit(struct sl_wheel *w, uint32_t index)
{
	uint32_t level = index / SL_WHEEL_SLOTS;

	w->filled[level] &= ~(UINT64_C(1) << (index & SLOT_MASK));
	if (!w->filled[level])
		w->levels &= ~(1u << level);
}

static void unlink_timer(struct sl_wheel *w, struct sl_timer *t)
{
	uintptr_t off = (uintptr_t)t->link - (uintptr_t)w->slot;

	*t->link = t->next;
	if (t->next)
		t->next->link = t->link;
	else if (off < sizeof(w->slot))
		clear_slot_bit(w, (uint32_t)(off / sizeof(w->slot[0])));
	t->link = NULL;
}

static uint64_t floor_of(const struct sl_wheel *w)
{
	uint64_t tick = w->seen_ns >> w->shift;

	return tick == TICK_MAX ? tick : tick + 1;
}

static uint64_t as_ns(const struct sl_wheel *w, uint64_t tick)
{
	return tick > UINT64_MAX >> w->shift ? UINT64_MAX : tick << w->shift;
}

void sl_timer_set(struct sl_wheel *w, struct sl_timer *t, uint64_t expires_ns)
{
	uint64_t below_tick = (UINT64_C(1) << w->shift) - 1;
	uint64_t tick = (expires_ns >> w->shift) + ((expires_ns & below_tick) != 0), due_ns;

	if (t->link)
		unlink_timer(w, t);
	else
		w->count++;
	t->tick = tick < floor_of(w) ? floor_of(w) : tick;
	due_ns = as_ns(w, link_timer(w, t));
	if (due_ns < w->due_ns)
		w->due_ns = due_ns;
}

void sl_timer_disarm(struct sl_wheel *w, struct sl_timer *t)
{
	unlink_timer(w, t);
	w->count--;
}

static uint64_t next_event(const struct sl_wheel *w, uint32_t *index)
{
	uint32_t level = (uint32_t)__builtin_ctz(w->levels);
	uint32_t slot = (uint32_t)__builtin_ctzll(w->filled[level]);
	uint32_t above = (level + 1) * SL_WHEEL_BITS;
	uint64_t base = above < 64 ? w->pos >> above << above : 0;

	*index = level * SL_WHEEL_SLOTS + slot;
	return base | (uint64_t)slot << (level * SL_WHEEL_BITS);
}

static bool move_down(struct sl_wheel *w, uint64_t *moves)
{
	struct sl_timer *t;

	while ((t = w->slot[w->moving])) {
		if (!*moves)
			return false;
		--*moves;
		unlink_timer(w, t);
		(void)link_timer(w, t);
	}
	w->moving = IDLE;
	return true;
}

static bool fire_slot(struct sl_wheel *w, uint32_t index, sl_timer_fn cb, void *arg, uint32_t *left)
{
	struct sl_timer *t;

	while ((t = w->slot[index])) {
		if (!*left)
			return false;
		--*left;
		unlink_timer(w, t);
		w->count--;
		cb(arg, t);
	}
	return true;
}

static uint32_t advance_to(struct sl_wheel *w, uint64_t now_ns, sl_timer_fn cb, void *arg,
			   uint32_t max)
{
	uint64_t moves = UINT64_C(4) * max + 64, target;
	uint32_t left = max, index;

	if (w->seen_ns < now_ns)
		w->seen_ns = now_ns;
	target = floor_of(w) - 1;
	for (;;) {
		uint64_t tick;

		if (w->moving != IDLE && !move_down(w, &moves))
			return max - left;
		if (!w->levels)
			break;
		tick = next_event(w, &index);
		if (tick > target)
			break;
		w->pos = tick;
		if (index >= SL_WHEEL_SLOTS)
			w->moving = (int32_t)index;
		else if (!fire_slot(w, index, cb, arg, &left))
			return max - left;
	}
	w->pos = target;
	return max - left;
}

uint32_t sl_wheel_advance_due(struct sl_wheel *w, uint64_t now_ns, sl_timer_fn cb, void *arg,
			      uint32_t max)
{
	uint32_t n = advance_to(w, now_ns, cb, arg, max);

	w->due_ns = sl_wheel_next_ns(w);
	return n;
}

uint64_t sl_wheel_next_ns(const struct sl_wheel *w)
{
	uint64_t tick = w->pos;
	uint32_t index;

	if (!w->count)
		return UINT64_MAX;
	if (w->moving == IDLE)
		tick = next_event(w, &index);
	return as_ns(w, tick);
}
