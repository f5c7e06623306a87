/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/verbs/budget.h"

void vb_budget_init(struct vb_budget *b, uint32_t total, uint32_t members_max)
{
	uint32_t most = total / VB_BUDGET_LEAST;

	*b = (struct vb_budget){.total = total,
				.members_max = members_max < most ? members_max : most};
}

uint32_t vb_budget_join(struct vb_budget *b, uint32_t asked)
{
	uint32_t kept, left, window;

	if (b->members >= b->members_max || asked < SL_RPC_MIN_SLOTS)
		return 0;
	kept = (b->members_max - b->members - 1) * VB_BUDGET_LEAST;
	left = b->total - b->granted - kept;
	for (window = asked; window + VB_BUDGET_SPARE > left;)
		window /= 2;
	b->granted += window + VB_BUDGET_SPARE;
	b->members++;
	return window;
}

void vb_budget_lower(struct vb_budget *b, uint32_t from, uint32_t to)
{
	b->granted -= from - to;
}

void vb_budget_leave(struct vb_budget *b, uint32_t window)
{
	b->granted -= window + VB_BUDGET_SPARE;
	b->members--;
}
