/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/places.h"

void sl_claim_begin(struct sl_claim *c, const struct sl_rpc_traffic *t, uint64_t now_ns)
{
	*c = (struct sl_claim){.from = *t, .window_ns = now_ns, .worth_ns = now_ns};
}

/* Counters that fall are of a link that has begun anew meanwhile. */
static bool has_grown(uint64_t from, uint64_t to, double by)
{
	return to > from && (double)(to - from) >= by;
}

void sl_claim_note(struct sl_claim *c, const struct sl_rpc_traffic *t, uint64_t now_ns)
{
	uint64_t span_ns = now_ns - c->window_ns;
	double windows = span_ns > SL_PLACE_WINDOW_NS ? (double)span_ns / SL_PLACE_WINDOW_NS : 1;
	bool worth = has_grown(c->from.messages, t->messages, SL_PLACE_MESSAGES * windows) ||
		     has_grown(c->from.bytes, t->bytes, SL_PLACE_BYTES * windows) ||
		     has_grown(c->from.waits, t->waits, 1);

	if (worth) {
		c->since_ns = c->worth ? c->since_ns : now_ns;
		c->worth_ns = now_ns;
		c->worth = true;
	} else if (c->worth && now_ns - c->worth_ns >= SL_PLACE_WORTH_NS) {
		c->worth = c->refused = false;
	}
	if (worth || span_ns >= SL_PLACE_WINDOW_NS) {
		c->from = *t;
		c->window_ns = now_ns;
	}
}

void sl_allot_count(struct sl_allot *a, enum sl_claim_state state)
{
	a->taken += state != SL_CLAIM_FIRST;
	a->leaving += state == SL_CLAIM_LEAVING;
}

void sl_allot_claim(struct sl_allot *a, struct sl_claim *c, enum sl_claim_state state,
		    bool may_move, uint64_t now_ns)
{
	if (state == SL_CLAIM_FIRST && c->worth) {
		if (a->taken >= a->max && !c->refused) {
			c->refused = true;
			a->refused++;
		}
		if (may_move && (!a->next || c->since_ns < a->next->since_ns))
			a->next = c;
	}
	if (state == SL_CLAIM_OWN && may_move && now_ns - c->worth_ns >= SL_PLACE_WORTH_NS &&
	    (!a->back || c->worth_ns < a->back->worth_ns))
		a->back = c;
}

void sl_allot_end(struct sl_allot *a)
{
	unsigned stay = a->taken - a->leaving;

	/* One that is leaving will be free: that is as good as one more who goes back. */
	if (stay < a->max || (stay == a->max && !a->next))
		a->back = NULL;
	if (a->taken >= a->max)
		a->next = NULL;
}
