/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/budget.h"

void vb_budget_init(struct vb_budget *b, uint32_t total, uint32_t members_max)
{
	uint32_t most = total / 4 * 3 / VB_BUDGET_LEAST;

	*b = (struct vb_budget){.total = total,
				.members_max = members_max < most ? members_max : most};
}

bool vb_budget_join(struct vb_budget *b)
{
	if (b->members >= b->members_max)
		return false;
	b->granted += VB_BUDGET_LEAST;
	b->members++;
	return true;
}

void vb_budget_leave(struct vb_budget *b, uint32_t window)
{
	b->granted -= window + VB_BUDGET_SPARE;
	b->members--;
}

/* But for what is kept back for those who may still come. */
static uint32_t usable(const struct vb_budget *b)
{
	return b->total - (b->members_max - b->members) * VB_BUDGET_LEAST;
}

void vb_wants_add(struct vb_wants *w, uint32_t window)
{
	unsigned level = 0;

	while (level + 1 < VB_BUDGET_LEVELS && (uint32_t)SL_RPC_MIN_SLOTS << level < window)
		level++;
	w->cnt[level]++;
}

uint32_t vb_budget_need(const struct vb_budget *b, const struct vb_wants *w, uint32_t level)
{
	uint32_t need = b->members * VB_BUDGET_LEAST;

	for (unsigned i = 0; i < VB_BUDGET_LEVELS; i++) {
		uint32_t window = (uint32_t)SL_RPC_MIN_SLOTS << i;

		need += w->cnt[i] * ((window < level ? window : level) - SL_RPC_MIN_SLOTS);
	}
	return need;
}

uint32_t vb_budget_level(const struct vb_budget *b, const struct vb_wants *w)
{
	uint32_t level = SL_RPC_MAX_SLOTS;

	while (level > SL_RPC_MIN_SLOTS && vb_budget_need(b, w, level) > usable(b))
		level /= 2;
	return level;
}

uint32_t vb_budget_raise(struct vb_budget *b, uint32_t posted, uint32_t from, uint32_t to)
{
	uint32_t most = usable(b) < posted ? usable(b) : posted;

	while (to > from && to - from > most - b->granted)
		to /= 2;
	if (to <= from)
		return from;
	b->granted += to - from;
	return to;
}

void vb_budget_lower(struct vb_budget *b, uint32_t from, uint32_t to)
{
	b->granted -= from - to;
}
