/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "rpc/credits.h"

enum { CREDIT_RESERVE = 2, BULK_ALIGN = 64 };

void sl_credits_init(struct sl_credits *c, uint32_t window, uint32_t sq, uint32_t bulk_len)
{
	*c = (struct sl_credits){.window = window, .sq = sq, .bulk_len = bulk_len};
}

/* Slots that a kind leaves free for more important ones. */
static uint32_t reserve_of(const struct sl_credits *c, enum sl_credit_kind kind)
{
	switch (kind) {
	case SL_CREDIT_CREDIT: return 0;
	case SL_CREDIT_CONTROL: return CREDIT_RESERVE;
	default: return c->window < 64 ? c->window / 8 + CREDIT_RESERVE : 10;
	}
}

static uint32_t left(uint32_t window, uint32_t used)
{
	return used < window ? window - used : 0;
}

uint32_t sl_credits_room(const struct sl_credits *c, enum sl_credit_kind kind)
{
	uint32_t reserve = reserve_of(c, kind);
	uint32_t slots = left(c->window - reserve, c->sent - c->acked);
	uint32_t entries = left(c->sq - reserve, c->sent - c->done);

	return slots < entries ? slots : entries;
}

uint32_t sl_credits_bulk_room(const struct sl_credits *c)
{
	uint32_t unused = c->bulk_len - (uint32_t)(c->bulk_sent - c->bulk_acked);
	uint32_t to_end = c->bulk_len - (uint32_t)(c->bulk_sent & (c->bulk_len - 1));

	if (unused < to_end)
		return unused;
	return unused - to_end > to_end ? unused - to_end : to_end;
}

uint64_t sl_credits_bulk_place(uint32_t bulk_len, uint64_t head, uint32_t len, uint32_t *at)
{
	uint32_t pos = (uint32_t)(head & (bulk_len - 1));

	if (len > bulk_len - pos) {
		head += bulk_len - pos;
		pos = 0;
	}
	*at = pos;
	return (head + len + BULK_ALIGN - 1) & ~(uint64_t)(BULK_ALIGN - 1);
}

int64_t sl_credits_ack(struct sl_credits *c, uint32_t consumed)
{
	uint32_t fresh = consumed - c->acked;

	if (fresh > c->sent - c->acked)
		return -EPROTO;
	c->acked = consumed;
	return fresh;
}

bool sl_credits_due(const struct sl_credits *c)
{
	return c->consumed - c->told >= c->window / 2 ||
	       c->bulk_consumed - c->bulk_told >= c->bulk_len / 2;
}
