/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The windows of one connection: what the peer may send, which the home moves (home.h), and what the
 * peer lets us send. Both are told by CREDITs, as rpc_wire.h says. Of the first:
 *
 *   window    counts in the home's budget                   home's lock and the desk's `taking`
 *   allowed   what the peer is to have                      written by who moves it, read by the owner
 *   granted   what it was told last                         the owner's
 *   held      the most that it may still believe to have    written by the owner, read by who moves it
 *
 *   larger:   window, allowed -> CREDIT -> granted, held
 *   smaller:  allowed -> CREDIT -> granted -> the peer keeps to it, and says so -> held -> window
 *
 * Of the second, which is that of the credits: if it is made smaller, all keep to it at once but CREDITs.
 * They may go `over` it by as much as it was larger, until it has slots for them again: for want of one
 * both ends could be stuck, which is what the reserved slots prevent (credits.h).
 */
#include "rpc/verbs/verbs.h"

/*
 * An honest peer has read that its window is smaller before it has used twice the former one, for
 * the room that it goes on with is told behind that; and says so once that has been acknowledged.
 */
enum { DEAF_WINDOWS = 8 };

static void hold(struct sl_verbs *v, uint32_t window)
{
	v->inbox.limit = window + VB_BESIDE;
	v->held = window;
}

void vb_window_begin(struct sl_verbs *v, uint32_t slots)
{
	v->window = v->granted = SL_RPC_MIN_SLOTS;
	/* In a queue of its own there is room for all. */
	v->allowed = v->home ? v->window : slots;
	hold(v, v->allowed);
}

uint32_t vb_window_wants(uint32_t window, uint32_t most, uint32_t came, bool spent)
{
	return spent && came >= window / 2 && 2 * window <= most ? 2 * window : window;
}

uint32_t vb_window_needs(uint32_t window, uint32_t came)
{
	while (window > SL_RPC_MIN_SLOTS && window / 2 >= came)
		window /= 2;
	return window;
}

void vb_window_spent(struct sl_verbs *v)
{
	struct sl_credits now = {.window = v->granted, .sent = v->rx_next, .acked = v->knows};

	/* That much is under way, as far as the peer admits. */
	if (!sl_credits_spent(&now))
		return;
	atomic_store_explicit(&v->spent, true, memory_order_release);
	if (v->home && v->held <= v->mask && v->allowed == v->held)
		vb_home_want(v->home);
}

bool vb_window_deaf(const struct sl_verbs *v)
{
	return v->lowering && v->rx_next - v->lowered_in > DEAF_WINDOWS * v->held;
}

/* The peer's word on ours. */
static void keep_to(struct sl_verbs *v, uint32_t window)
{
	struct sl_credits *c = &v->base.credits;
	uint32_t before = c->window + v->over;

	c->window = window;
	v->over = window < before ? before - window : 0;
	if (!v->over)
		return;
	v->owes = true;
	v->owed = v->rx_next;
}

int vb_window_heard(struct sl_verbs *v, const struct sl_rpc_header *credit)
{
	uint32_t window = credit->total_or_offset;

	if (window < SL_RPC_MIN_SLOTS || window > v->mask + 1)
		return -EPROTO;
	keep_to(v, window);
	if (v->lowering && (int32_t)(credit->consumed - v->lowered_out) >= 0 &&
	    credit->time_us <= v->granted) {
		v->lowering = false;
		hold(v, v->granted);
	}
	return 0;
}

uint32_t vb_window_room(const struct sl_verbs *v, enum sl_credit_kind kind)
{
	struct sl_credits wide;

	if (sl_likely(!v->over || kind != SL_CREDIT_CREDIT))
		return sl_credits_room(&v->base.credits, kind);
	wide = v->base.credits;
	wide.window += v->over;
	return sl_credits_room(&wide, kind);
}

bool vb_window_due(struct sl_verbs *v)
{
	struct sl_credits *c = &v->base.credits;
	bool due = v->allowed != v->granted;

	if (v->over && c->sent - c->acked <= c->window - SL_CREDIT_RESERVE)
		v->over = 0;
	due |= v->owes && !v->over && (int32_t)(c->consumed - v->owed) >= 0;
	/* The last slot is for a CREDIT that makes room. */
	return (due && vb_window_room(v, SL_CREDIT_CREDIT) > 1) || sl_credits_due_of(c, v->granted);
}

void vb_window_tell(struct sl_verbs *v)
{
	struct sl_credits *c = &v->base.credits;
	uint32_t allowed = v->allowed;
	const struct sl_rpc_header credit = {
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
		.flags = SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_CONTROL,
		.total_or_offset = allowed,
		.time_us = c->window + v->over,
	};

	if (vb_post(&v->base, &credit, NULL, 0, 0))
		return;
	/* Behind the doorbell, which is yet to ring, the peer has it. */
	if (allowed < v->granted) {
		v->lowering = true;
		v->lowered_in = v->rx_next;
		v->lowered_out = c->sent;
	} else if (!v->lowering) {
		hold(v, allowed);
	}
	v->granted = allowed;
	v->owes &= v->over || (int32_t)(c->told - v->owed) < 0;
}
