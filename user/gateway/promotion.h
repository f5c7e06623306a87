/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promotion policy, without I/O or clock: selects the links that get a queue pair of their own.
 *
 * Links of a backend with a bootstrap endpoint begin there. A worker may have at most `max` links on
 * primary endpoints.
 *
 *   busy link    carried PROMO_MESSAGES or PROMO_BYTES, both directions together, within
 *                PROMO_WINDOW_NS (limits grow with a longer interval), or waited for send buffers
 *   promotion    of the link that has been busy for longest, if fewer than `max` are promoted
 *   demotion     if `max` is reached and a link waits: of the link that was busy longest ago, if
 *                that is at least PROMO_IDLE_NS ago
 *
 * A promoted link counts until its demotion is complete. Only links whose bootstrap endpoint was
 * unreachable at their start can exceed `max`.
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
	bool busy, refused; /* refused: busy while `max` was reached */
};

/* On the bootstrap endpoint; promoted or switching; switching back. */
enum promo_state { PROMO_BOOTSTRAP, PROMO_PROMOTED, PROMO_DEMOTING };

struct promo_round {
	unsigned max, taken, leaving;    /* leaving: switching back */
	unsigned refused;                /* links at the limit, each counted once */
	struct promo_candidate *promote; /* or NULL */
	struct promo_candidate *demote;  /* or NULL */
};

/* Start and continue to measure a link's traffic. */
void promo_candidate_begin(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			   uint64_t now_ns);
void promo_candidate_note(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			  uint64_t now_ns);
/* All links must be counted before the first promo_round_add(). */
void promo_round_count(struct promo_round *a, enum promo_state state);
/* may_move: the link is not switching, and no attempt failed recently. */
void promo_round_add(struct promo_round *a, struct promo_candidate *c, enum promo_state state,
		     bool may_move, uint64_t now_ns);
/* Sets promote or demote, at most one of them. */
void promo_round_end(struct promo_round *a);

#endif
