/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promotion policy, without I/O or clock. Links start on the bootstrap endpoint. A worker may have
 * `max` links on primary ones, with queue pairs of their own.
 *
 *   busy link    carried PROMO_MESSAGES or PROMO_BYTES, both directions together, per
 *                PROMO_WINDOW_NS, or waited for send buffers
 *   promotion    of the link busy for longest, if fewer than `max` are promoted
 *   demotion     if `max` is reached and a link waits: of the link busy longest ago, at least
 *                PROMO_IDLE_NS
 *
 *   promo_candidate_note() and promo_round_count() for each link -> promo_round_add() for each link
 *       -> promo_round_end() -> promote, demote
 */
#ifndef SL_GATEWAY_PROMOTION_H
#define SL_GATEWAY_PROMOTION_H

#include <stdbool.h>
#include <stdint.h>
#include "rpc/rpc.h"

enum {
	PROMO_MESSAGES = 64,
	PROMO_BYTES = 64 << 10, /* limit of unacknowledged bytes of a virtual connection */
};
#define PROMO_WINDOW_NS UINT64_C(100000000)
#define PROMO_IDLE_NS   UINT64_C(1000000000)

struct promo_candidate {
	struct sl_rpc_traffic from; /* at the start of the window */
	uint64_t window_ns;
	uint64_t busy_since_ns, busy_ns;
	bool busy, refused; /* busy while `max` was reached */
};

enum promo_state { PROMO_BOOTSTRAP, PROMO_PROMOTED, PROMO_DEMOTING };

struct promo_round {
	unsigned max, taken, leaving; /* switching back */
	unsigned refused;             /* links at the limit */
	struct promo_candidate *promote;
	struct promo_candidate *demote;
};

/* Starts to measure a link's traffic. t: its counters now. */
void promo_candidate_begin(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			   uint64_t now_ns);
/* Checks if the link is busy, at each scan. */
void promo_candidate_note(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			  uint64_t now_ns);
/*
 * Counts a link. The round is zeroed but `max`. All links must be counted before the first
 * promo_round_add().
 */
void promo_round_count(struct promo_round *a, enum promo_state state);
/*
 * Compares a link with the round's choice: longest busy for `promote`, longest idle for `demote`.
 * may_move: it may switch now.
 */
void promo_round_add(struct promo_round *a, struct promo_candidate *c, enum promo_state state,
		     bool may_move, uint64_t now_ns);
/* Clears `promote` at the limit, and `demote` unless only it makes room for a waiting link. */
void promo_round_end(struct promo_round *a);

#endif
