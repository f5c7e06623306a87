/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which links have connections of their own: the law, without I/O or clock. A link of a backend with
 * `first` begins by that. Each worker has `max` places for those that go by their own endpoint.
 *
 *   worth a place  is a link that has carried SL_PLACE_MESSAGES or SL_PLACE_BYTES within SL_PLACE_WINDOW_NS,
 *                  both ways together (as much more as the look comes late), or on which something had to
 *                  wait for room
 *   a free place   is given to the link that has been worth one for longest
 *   without one    while a link waits for it: of those that have not been worth one for SL_PLACE_WORTH_NS, idle
 *                  or nearly, that which last was longest ago goes back to `first`
 *
 * So idle links keep their places until somebody wants them. A place is taken from the moment at which
 * it is given until the link has left it; so there are at most `max`, but for links whose `first` was
 * not there when they began.
 *
 *   sl_claim_note() of each link -> sl_allot_count() of each -> sl_allot_claim() of each -> next, back
 */
#ifndef SL_GATEWAY_PLACES_H
#define SL_GATEWAY_PLACES_H

#include <stdbool.h>
#include <stdint.h>
#include "rpc/rpc.h"

enum {
	SL_PLACE_MESSAGES = 64,
	SL_PLACE_BYTES = 64 << 10, /* what a virtual connection has under way at the most */
};
#define SL_PLACE_WINDOW_NS UINT64_C(100000000)
#define SL_PLACE_WORTH_NS  UINT64_C(1000000000)

/* What a link has to show for a place. */
struct sl_claim {
	struct sl_rpc_traffic from;  /* when the window began */
	uint64_t window_ns;          /* when that was */
	uint64_t since_ns, worth_ns; /* it has been worth a place since, and was last */
	bool worth, refused;         /* refused: and there was none */
};

/* By `first`; by its own endpoint, or on the way there; on its way back. */
enum sl_claim_state { SL_CLAIM_FIRST, SL_CLAIM_OWN, SL_CLAIM_LEAVING };

/* Of one worker, once. */
struct sl_allot {
	unsigned max, taken, leaving; /* leaving: of those that are taken */
	unsigned refused;      /* links that want a place for the first time, and there is none */
	struct sl_claim *next; /* who gets one; NULL: nobody */
	struct sl_claim *back; /* who goes back; NULL: nobody */
};

/* A link begins. */
void sl_claim_begin(struct sl_claim *c, const struct sl_rpc_traffic *t, uint64_t now_ns);
/* What it has carried by now. */
void sl_claim_note(struct sl_claim *c, const struct sl_rpc_traffic *t, uint64_t now_ns);
/* First all are counted, then all are looked at. */
void sl_allot_count(struct sl_allot *a, enum sl_claim_state state);
/* may_move: it is not on its way, and no attempt has failed a moment ago. */
void sl_allot_claim(struct sl_allot *a, struct sl_claim *c, enum sl_claim_state state,
		    bool may_move, uint64_t now_ns);
/* What was found holds: at most one of the two is left. */
void sl_allot_end(struct sl_allot *a);

#endif
