/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many receive slots of one shared queue each connection may use. Counts only, no I/O.
 *
 * A sender that keeps to its window has never more than that in the queue's slots, so the queue is
 * never found empty as long as the windows granted, with what each connection has besides, are no
 * more than its slots. The first connections get what they ask for; a part that suffices for the
 * smallest window is kept back for each that may still come.
 */
#ifndef SL_RPC_VERBS_BUDGET_H
#define SL_RPC_VERBS_BUDGET_H

#include <stdint.h>
#include "sluice/rpc_wire.h"

/*
 * Besides its window: its first message, one that it broke off in, and slots that it was told of as
 * free before they are back in the queue.
 */
enum {
	VB_BUDGET_EARLY = 2,
	VB_BUDGET_SPARE = 2 + VB_BUDGET_EARLY,
	VB_BUDGET_LEAST = SL_RPC_MIN_SLOTS + VB_BUDGET_SPARE
};

struct vb_budget {
	uint32_t total, members_max; /* members_max * VB_BUDGET_LEAST <= total */
	uint32_t members, granted;   /* slots, spare ones included */
};

/* As many members as the slots allow, at most members_max. */
void vb_budget_init(struct vb_budget *b, uint32_t total, uint32_t members_max);
/* A window of at most `asked`, both powers of two; 0: there are members_max already. */
uint32_t vb_budget_join(struct vb_budget *b, uint32_t asked);
/* The peer wants a smaller one. */
void vb_budget_lower(struct vb_budget *b, uint32_t from, uint32_t to);
void vb_budget_leave(struct vb_budget *b, uint32_t window);

#endif
