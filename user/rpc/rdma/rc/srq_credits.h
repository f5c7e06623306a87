/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many receive slots of one shared queue each connection may use. Counts only, no I/O.
 *
 * A sender that keeps to its window has never more than that in the queue's slots, so the queue is
 * never found empty as long as the windows granted, with what each connection has besides, are no
 * more than the slots that were posted. Each begins with the smallest window, and the part that
 * suffices for that is kept back for each that may still come. The rest goes to whom uses it, in
 * powers of two and whatever the order in which they came: all may have what they want up to the same
 * level, the highest for which there is enough.
 */
#ifndef SL_RPC_RDMA_SRQ_CREDITS_H
#define SL_RPC_RDMA_SRQ_CREDITS_H

#include <stdbool.h>
#include <stdint.h>
#include "sluice/rpc_wire.h"

/*
 * Besides its window: its first message, one that it broke off in, and slots that it was told of as
 * free before they are back in the queue.
 */
enum {
	SRQ_CREDITS_EARLY = 2,
	SRQ_CREDITS_SPARE = 2 + SRQ_CREDITS_EARLY,
	SRQ_CREDITS_MIN = SL_RPC_MIN_SLOTS + SRQ_CREDITS_SPARE,
	SRQ_CREDITS_LEVELS = 9 /* SL_RPC_MIN_SLOTS << 0 to 8 */
};
_Static_assert(SL_RPC_MIN_SLOTS << (SRQ_CREDITS_LEVELS - 1) == SL_RPC_MAX_SLOTS, "levels");

struct srq_credits {
	uint32_t total, members_max; /* members_max * SRQ_CREDITS_MIN <= 3/4 total */
	uint32_t members, granted;   /* slots, spare ones included */
};

/* How many want windows of SL_RPC_MIN_SLOTS << level; those that are not counted want the least. */
struct srq_demand {
	uint32_t cnt[SRQ_CREDITS_LEVELS];
};

/* At most members_max, and as many as leave a quarter of the slots to whom needs more than the least. */
void srq_credits_init(struct srq_credits *b, uint32_t total, uint32_t members_max);
/* With a window of SL_RPC_MIN_SLOTS. False: there are members_max already. */
bool srq_credits_join(struct srq_credits *b);
void srq_credits_leave(struct srq_credits *b, uint32_t window);

void srq_demand_add(struct srq_demand *w, uint32_t window);
/* What nobody's window is to be above, so that all have what they want, up to that. */
uint32_t srq_credits_level(const struct srq_credits *b, const struct srq_demand *w);
/* The slots that it takes then. */
uint32_t srq_credits_need(const struct srq_credits *b, const struct srq_demand *w, uint32_t level);

/* Of `posted` slots: a larger window, as near to `to` as there is room, or `from`. */
uint32_t srq_credits_raise(struct srq_credits *b, uint32_t posted, uint32_t from, uint32_t to);
/* The peer keeps to a smaller one. */
void srq_credits_lower(struct srq_credits *b, uint32_t from, uint32_t to);

#endif
