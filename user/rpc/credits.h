/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flow control of one channel: two windows and the peer's bulk ring. Counts only, no I/O.
 *
 *   window 1  receive slots of the peer: sent - acked <= window. Over RC the peer moves the window,
 *             and each direction has its own.
 *   window 2  own send queue: sent - done <= sq.
 *   bulk      the peer's bulk ring: bulk_sent - bulk_acked <= bulk_len; given back with the message
 *             that used it.
 *
 * Indices wrap.
 */
#ifndef SL_RPC_CREDITS_H
#define SL_RPC_CREDITS_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

enum sl_credit_kind { SL_CREDIT_DATA, SL_CREDIT_CONTROL, SL_CREDIT_CREDIT };
enum { SL_CREDIT_RESERVE = 2 };

struct sl_credits {
	uint32_t window, sq, bulk_len; /* constant, except the window over RC */
	/* towards the peer */
	uint32_t sent, acked, done;
	uint64_t bulk_sent, bulk_acked;
	/* from the peer */
	uint32_t consumed, advertised;
	uint64_t bulk_consumed, bulk_advertised;
};

/* Starts with nothing sent or received. */
void sl_credits_init(struct sl_credits *c, uint32_t window, uint32_t sq, uint32_t bulk_len);

/* Returns the slots that a kind leaves to more important ones. */
static inline uint32_t sl_credits_reserve(const struct sl_credits *c, enum sl_credit_kind kind)
{
	switch (kind) {
	case SL_CREDIT_CREDIT: return 0;
	case SL_CREDIT_CONTROL: return SL_CREDIT_RESERVE;
	default: return c->window < 64 ? c->window / 8 + SL_CREDIT_RESERVE : 10;
	}
}

/* Returns window - used, or 0 if more is used. */
static inline uint32_t sl_credits_left(uint32_t window, uint32_t used)
{
	return used < window ? window - used : 0;
}
/* Returns how many messages of a kind may be sent now. */
static inline uint32_t sl_credits_room(const struct sl_credits *c, enum sl_credit_kind kind)
{
	uint32_t reserve = sl_credits_reserve(c, kind);
	uint32_t slots = sl_credits_left(c->window - reserve, c->sent - c->acked);
	uint32_t entries = sl_credits_left(c->sq - reserve, c->sent - c->done);

	return slots < entries ? slots : entries;
}

/*
 * Returns the longest body that the peer's bulk ring takes now. A body that does not fit before the
 * ring's end starts at its beginning. Both ends compute its offset, a multiple of 64: none is sent
 * or trusted.
 */
uint32_t sl_credits_bulk_room(const struct sl_credits *c);
/* Returns the cumulative end of a body from `head` on; *at is its offset. */
uint64_t sl_credits_bulk_place(uint32_t bulk_len, uint64_t head, uint32_t len, uint32_t *at);

/* Takes the peer's `consumed`. Returns the number of newly acknowledged messages, or -EPROTO. */
static inline int64_t sl_credits_ack(struct sl_credits *c, uint32_t consumed)
{
	uint32_t fresh = consumed - c->acked;

	if (fresh > c->sent - c->acked)
		return -EPROTO;
	c->acked = consumed;
	return fresh;
}

/* Returns true if data must await an acknowledgement. */
static inline bool sl_credits_spent(const struct sl_credits *c)
{
	return c->sent - c->acked >= c->window - sl_credits_reserve(c, SL_CREDIT_DATA);
}

/* Returns true if half of `window`, or of the bulk ring, is consumed but unreported. */
static inline bool sl_credits_due_of(const struct sl_credits *c, uint32_t window)
{
	return c->consumed - c->advertised >= window / 2 ||
	       c->bulk_consumed - c->bulk_advertised >= c->bulk_len / 2;
}

/* Calls sl_credits_due_of() with c->window. */
static inline bool sl_credits_due(const struct sl_credits *c)
{
	return sl_credits_due_of(c, c->window);
}

/* Counts a message to be sent. Returns `consumed` for its header. */
static inline uint32_t sl_credits_post(struct sl_credits *c)
{
	c->sent++;
	c->advertised = c->consumed;
	c->bulk_advertised = c->bulk_consumed;
	return c->consumed;
}

#endif
