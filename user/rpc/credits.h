/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow control of one channel: two windows and the peer's bulk ring. Counts only, no I/O; every
 * transport uses it.
 *
 *   window 1  receive slots of the peer: sent - acked <= window. `acked` is what the peer says that
 *             it has consumed, cumulative, so a lost or repeated statement does no harm. Over verbs
 *             the peer moves it (verbs/window.c), and each direction has its own.
 *   window 2  own send queue: sent - done <= sq.
 *   bulk      bytes in the peer's bulk ring: bulk_sent - bulk_acked <= bulk_len; given back with
 *             the message that used them.
 *
 * A tail of window 1 is reserved: data leaves RESERVE slots free, control messages leave two, and
 * those are for CREDIT alone. A CREDIT is due when half of the window (or of the bulk ring) has
 * been consumed and not been told. So when both sides consume what they get, one of them can
 * always send: if data is stuck, at least half a window is untold at the peer, whose CREDIT has
 * its own slots. Indices run freely and wrap.
 */
#ifndef SL_RPC_CREDITS_H
#define SL_RPC_CREDITS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

enum sl_credit_kind { SL_CREDIT_DATA, SL_CREDIT_CONTROL, SL_CREDIT_CREDIT };
enum { SL_CREDIT_RESERVE = 2 };

struct sl_credits {
	uint32_t window, sq, bulk_len; /* constant, but for the window over verbs */
	/* towards the peer */
	uint32_t sent, acked, done;
	uint64_t bulk_sent, bulk_acked;
	/* from the peer */
	uint32_t consumed, told;
	uint64_t bulk_consumed, bulk_told;
};

void sl_credits_init(struct sl_credits *c, uint32_t window, uint32_t sq, uint32_t bulk_len);

/* Slots that a kind leaves free for more important ones. */
static inline uint32_t sl_credits_reserve(const struct sl_credits *c, enum sl_credit_kind kind)
{
	switch (kind) {
	case SL_CREDIT_CREDIT: return 0;
	case SL_CREDIT_CONTROL: return SL_CREDIT_RESERVE;
	default: return c->window < 64 ? c->window / 8 + SL_CREDIT_RESERVE : 10;
	}
}

static inline uint32_t sl_credits_left(uint32_t window, uint32_t used)
{
	return used < window ? window - used : 0;
}

/* Messages of this kind that may be posted now. */
static inline uint32_t sl_credits_room(const struct sl_credits *c, enum sl_credit_kind kind)
{
	uint32_t reserve = sl_credits_reserve(c, kind);
	uint32_t slots = sl_credits_left(c->window - reserve, c->sent - c->acked);
	uint32_t entries = sl_credits_left(c->sq - reserve, c->sent - c->done);

	return slots < entries ? slots : entries;
}

/*
 * Bulk bytes come in one piece: what does not fit before the ring's end starts at its beginning,
 * and the rest is skipped. Both sides compute the place from the lengths alone, so no offset is
 * sent or trusted. Places are multiples of 64.
 */
uint32_t sl_credits_bulk_room(const struct sl_credits *c);
/* The end (cumulative) of a body of len that starts at or behind `head`; *at is its place. */
uint64_t sl_credits_bulk_place(uint32_t bulk_len, uint64_t head, uint32_t len, uint32_t *at);

/* A statement of the peer. The number of newly acknowledged messages, or -EPROTO. */
static inline int64_t sl_credits_ack(struct sl_credits *c, uint32_t consumed)
{
	uint32_t fresh = consumed - c->acked;

	if (fresh > c->sent - c->acked)
		return -EPROTO;
	c->acked = consumed;
	return fresh;
}

/* No data can follow before the peer acknowledges some. */
static inline bool sl_credits_spent(const struct sl_credits *c)
{
	return c->sent - c->acked >= c->window - sl_credits_reserve(c, SL_CREDIT_DATA);
}

/* Is an explicit CREDIT due to a peer that has that window? */
static inline bool sl_credits_due_of(const struct sl_credits *c, uint32_t window)
{
	return c->consumed - c->told >= window / 2 ||
	       c->bulk_consumed - c->bulk_told >= c->bulk_len / 2;
}

static inline bool sl_credits_due(const struct sl_credits *c)
{
	return sl_credits_due_of(c, c->window);
}

/* For the header of the message that is being posted: counts it and says what we have consumed. */
static inline uint32_t sl_credits_post(struct sl_credits *c)
{
	c->sent++;
	c->told = c->consumed;
	c->bulk_told = c->bulk_consumed;
	return c->consumed;
}

#endif
