/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/srq_credits.h"

void srq_credits_init(struct srq_credits *b, uint32_t total, uint32_t members_max)
{
	uint32_t most = total / 4 * 3 / SRQ_CREDITS_MIN;

	*b = (struct srq_credits){.total = total,
				  .members_max = members_max < most ? members_max : most};
}

bool srq_credits_join(struct srq_credits *b)
{
	if (b->members >= b->members_max)
		return false;
	b->granted += SRQ_CREDITS_MIN;
	b->members++;
	return true;
}

void srq_credits_leave(struct srq_credits *b, uint32_t window)
{
	b->granted -= window + SRQ_CREDITS_SPARE;
	b->members--;
}

static uint32_t usable_slots(const struct srq_credits *b)
{
	return b->total - (b->members_max - b->members) * SRQ_CREDITS_MIN;
}

uint32_t srq_demand_of(uint32_t window, uint32_t most, uint32_t came, bool spent)
{
	return spent && came >= window / 2 && 2 * window <= most ? 2 * window : window;
}

uint32_t srq_demand_idle(uint32_t window, uint32_t came)
{
	while (window > SL_RPC_MIN_SLOTS && window / 2 >= came)
		window /= 2;
	return window;
}

void srq_demand_add(struct srq_demand *w, uint32_t window)
{
	unsigned level = 0;

	while (level + 1 < SRQ_CREDITS_LEVELS && (uint32_t)SL_RPC_MIN_SLOTS << level < window)
		level++;
	w->cnt[level]++;
}

uint32_t srq_credits_need(const struct srq_credits *b, const struct srq_demand *w, uint32_t level)
{
	uint32_t need = b->members * SRQ_CREDITS_MIN;

	for (unsigned i = 0; i < SRQ_CREDITS_LEVELS; i++) {
		uint32_t window = (uint32_t)SL_RPC_MIN_SLOTS << i;

		need += w->cnt[i] * ((window < level ? window : level) - SL_RPC_MIN_SLOTS);
	}
	return need;
}

uint32_t srq_credits_level(const struct srq_credits *b, const struct srq_demand *w)
{
	uint32_t level = SL_RPC_MAX_SLOTS;

	while (level > SL_RPC_MIN_SLOTS && srq_credits_need(b, w, level) > usable_slots(b))
		level /= 2;
	return level;
}

uint32_t srq_credits_raise(struct srq_credits *b, uint32_t posted, uint32_t from, uint32_t to)
{
	uint32_t most = usable_slots(b) < posted ? usable_slots(b) : posted;

	while (to > from && to - from > most - b->granted)
		to /= 2;
	if (to <= from)
		return from;
	b->granted += to - from;
	return to;
}

void srq_credits_lower(struct srq_credits *b, uint32_t from, uint32_t to)
{
	b->granted -= from - to;
}
