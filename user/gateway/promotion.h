/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which links have connections of their own: the law, without I/O or clock. A link of a backend with
 * `first` begins by that. Each worker has `max` places for those that go by their own endpoint.
 *
 *   worth a place  is a link that has carried PROMO_MESSAGES or PROMO_BYTES within PROMO_WINDOW_NS,
 *                  both ways together (as much more as the look comes late), or on which something had to
 *                  wait for room
 *   a free place   is given to the link that has been worth one for longest
 *   without one    while a link waits for it: of those that have not been worth one for PROMO_IDLE_NS, idle
 *                  or nearly, that which last was longest ago goes back to `first`
 *
 * So idle links keep their places until somebody wants them. A place is taken from the moment at which
 * it is given until the link has left it; so there are at most `max`, but for links whose `first` was
 * not there when they began.
 *
 *   promo_candidate_note() of each link -> promo_round_count() of each -> promo_round_add() of each -> next, back
 */
#ifndef SL_GATEWAY_PROMOTION_H
#define SL_GATEWAY_PROMOTION_H

#include <stdbool.h>
#include <stdint.h>
#include "rpc/rpc.h"

enum {
	PROMO_MESSAGES = 64,
	PROMO_BYTES = 64 << 10, /* what a virtual connection has under way at the most */
};
#define PROMO_WINDOW_NS UINT64_C(100000000)
#define PROMO_IDLE_NS   UINT64_C(1000000000)

/* What a link has to show for a place. */
struct promo_candidate {
	struct sl_rpc_traffic from;      /* when the window began */
	uint64_t window_ns;              /* when that was */
	uint64_t busy_since_ns, busy_ns; /* it has been worth a place since, and was last */
	bool busy, refused;              /* refused: and there was none */
};

/* By `first`; by its own endpoint, or on the way there; on its way back. */
enum promo_state { PROMO_BOOTSTRAP, PROMO_PROMOTED, PROMO_DEMOTING };

/* Of one worker, once. */
struct promo_round {
	unsigned max, taken, leaving; /* leaving: of those that are taken */
	unsigned refused; /* links that want a place for the first time, and there is none */
	struct promo_candidate *promote; /* who gets one; NULL: nobody */
	struct promo_candidate *demote;  /* who goes back; NULL: nobody */
};

/* A link begins. */
void promo_candidate_begin(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			   uint64_t now_ns);
/* What it has carried by now. */
void promo_candidate_note(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			  uint64_t now_ns);
/* First all are counted, then all are looked at. */
void promo_round_count(struct promo_round *a, enum promo_state state);
/* may_move: it is not on its way, and no attempt has failed a moment ago. */
void promo_round_add(struct promo_round *a, struct promo_candidate *c, enum promo_state state,
		     bool may_move, uint64_t now_ns);
/* What was found holds: at most one of the two is left. */
void promo_round_end(struct promo_round *a);

#endif
