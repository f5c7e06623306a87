/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/credits.h"

enum { BULK_ALIGN = 64 };

void sl_credits_init(struct sl_credits *c, uint32_t window, uint32_t sq, uint32_t bulk_len)
{
	*c = (struct sl_credits){.window = window, .sq = sq, .bulk_len = bulk_len};
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
