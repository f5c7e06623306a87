/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/promotion.h"

void promo_candidate_begin(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			   uint64_t now_ns)
{
	*c = (struct promo_candidate){.from = *t, .window_ns = now_ns, .busy_ns = now_ns};
}

static bool has_grown(uint64_t from, uint64_t to, double by)
{
	return to > from && (double)(to - from) >= by;
}

void promo_candidate_note(struct promo_candidate *c, const struct sl_rpc_traffic *t,
			  uint64_t now_ns)
{
	uint64_t span_ns = now_ns - c->window_ns;
	double windows = span_ns > PROMO_WINDOW_NS ? (double)span_ns / PROMO_WINDOW_NS : 1;
	bool busy = has_grown(c->from.messages, t->messages, PROMO_MESSAGES * windows) ||
		    has_grown(c->from.bytes, t->bytes, PROMO_BYTES * windows) ||
		    has_grown(c->from.waits, t->waits, 1);

	if (busy) {
		c->busy_since_ns = c->busy ? c->busy_since_ns : now_ns;
		c->busy_ns = now_ns;
		c->busy = true;
	} else if (c->busy && now_ns - c->busy_ns >= PROMO_IDLE_NS) {
		c->busy = c->refused = false;
	}
	if (busy || span_ns >= PROMO_WINDOW_NS) {
		c->from = *t;
		c->window_ns = now_ns;
	}
}

void promo_round_count(struct promo_round *a, enum promo_state state)
{
	a->taken += state != PROMO_BOOTSTRAP;
	a->leaving += state == PROMO_DEMOTING;
}

void promo_round_add(struct promo_round *a, struct promo_candidate *c, enum promo_state state,
		     bool may_move, uint64_t now_ns)
{
	if (state == PROMO_BOOTSTRAP && c->busy) {
		if (a->taken >= a->max && !c->refused) {
			c->refused = true;
			a->refused++;
		}
		if (may_move && (!a->promote || c->busy_since_ns < a->promote->busy_since_ns))
			a->promote = c;
	}
	if (state == PROMO_PROMOTED && may_move && now_ns - c->busy_ns >= PROMO_IDLE_NS &&
	    (!a->demote || c->busy_ns < a->demote->busy_ns))
		a->demote = c;
}

void promo_round_end(struct promo_round *a)
{
	unsigned stay = a->taken - a->leaving;

	/* A link that switches back already makes room for one promotion. */
	if (stay < a->max || (stay == a->max && !a->promote))
		a->demote = NULL;
	if (a->taken >= a->max)
		a->promote = NULL;
}
