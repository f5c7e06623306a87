/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receive slots of one SRQ that each connection may use. No I/O.
 *
 * The SRQ never runs empty while the granted windows, each with SRQ_CREDITS_SPARE slots, do not
 * exceed the posted slots. The rest is divided max-min fairly in powers of two: each gets its
 * demand, up to the highest level that fits.
 */
#ifndef SL_RPC_RDMA_SRQ_CREDITS_H
#define SL_RPC_RDMA_SRQ_CREDITS_H

#include <stdbool.h>
#include <stdint.h>
#include "wire/rpc_wire.h"

/*
 * Slots beyond the window: the first message, one that ends a violation, and slots reported free
 * before reposting.
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

/* Connections that need SL_RPC_MIN_SLOTS << level. */
struct srq_demand {
	uint32_t cnt[SRQ_CREDITS_LEVELS];
};

/* Starts without members. Leaves a quarter of the slots for larger windows. */
void srq_credits_init(struct srq_credits *b, uint32_t total, uint32_t members_max);
/* Grants the smallest window. Returns false at members_max. */
bool srq_credits_join(struct srq_credits *b);
/* Gives a member's window back. */
void srq_credits_leave(struct srq_credits *b, uint32_t window);

/*
 * Returns the window needed: doubled if the peer set SPENT and used half, up to `most`. `came`:
 * messages since the last check.
 */
uint32_t srq_demand_of(uint32_t window, uint32_t most, uint32_t came, bool spent);
/* Returns the window halved while `came` messages still fit. */
uint32_t srq_demand_idle(uint32_t window, uint32_t came);
/* Counts a member whose demand is `window`. */
void srq_demand_add(struct srq_demand *w, uint32_t window);
/* Returns the largest window for which all demands, cut to it, fit. */
uint32_t srq_credits_level(const struct srq_credits *b, const struct srq_demand *w);
/* Returns the slots for all demands, cut to `level`. */
uint32_t srq_credits_need(const struct srq_credits *b, const struct srq_demand *w, uint32_t level);

/* Grants a larger window out of `posted` slots, at most `to`. Returns it, or `from`. */
uint32_t srq_credits_raise(struct srq_credits *b, uint32_t posted, uint32_t from, uint32_t to);
/* Takes the difference back, once the peer has confirmed it. */
void srq_credits_lower(struct srq_credits *b, uint32_t from, uint32_t to);

#endif
