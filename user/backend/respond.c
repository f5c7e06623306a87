/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of one channel into RESPONSE messages. */
#include <errno.h>
#include "backend/internal.h"
#include "base/clock.h"

static size_t bytes_of(const struct reply *rp)
{
	return sl_rpc_pad8(rp->entry.meta_len) + sl_rpc_pad8(rp->entry.len);
}

/* How many of the first replies go together: one class, and not too long unless it is one. */
static unsigned count_together(const struct channel *ch, uint64_t *total)
{
	const struct reply *rp = ch->replies;
	uint8_t priority = rp->priority;
	unsigned cnt = 0;

	*total = 0;
	for (; rp && cnt < SL_RPC_MAX_BATCH && rp->priority == priority; rp = rp->next) {
		uint64_t more = sizeof(struct sl_rpc_entry) + bytes_of(rp);

		if (cnt && *total + more > SL_BE_RESPONSE_MAX)
			break;
		*total += more;
		cnt++;
	}
	return cnt;
}

/* Service time of the batch: since the first of them was given to the handler. */
static uint32_t batch_us(const struct sl_backend *b, uint64_t begun_ns)
{
	uint64_t us = b->now_ns > begun_ns ? (b->now_ns - begun_ns) / SL_NS_PER_US : 0;

	if (us > UINT32_MAX)
		return UINT32_MAX;
	return us ? (uint32_t)us : 1;
}

static bool pack_one(struct channel *ch)
{
	struct sl_backend *b = ch->b;
	struct reply *rp = ch->replies, *first = rp;
	uint64_t total, begun = UINT64_MAX;
	unsigned cnt = count_together(ch, &total), i;
	struct sl_send *s =
		sl_mem_alloc(&b->reply_mem, sizeof(*s) + cnt * (sizeof(struct sl_rpc_entry)) +
						    (cnt + 1) * sizeof(struct sl_span));
	struct sl_rpc_entry *e;
	struct sl_span *spans;

	if (!s)
		return false;
	e = (struct sl_rpc_entry *)(s + 1);
	spans = (struct sl_span *)(e + cnt);
	spans[0] = sl_span_of(e, cnt * sizeof(*e));
	for (i = 0;; rp = rp->next) {
		e[i] = rp->entry;
		e[i].together = b->batch.count;
		begun = rp->begun_ns < begun ? rp->begun_ns : begun;
		spans[++i] = sl_span_of(reply_bytes(rp), bytes_of(rp));
		if (i == cnt)
			break;
	}
	ch->replies = rp->next;
	if (!ch->replies)
		ch->replies_end = &ch->replies;
	rp->next = NULL;
	*s = (struct sl_send){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
			   .count = (uint16_t)cnt,
			   .time_us = batch_us(b, begun)},
		.total = (uint32_t)total,
		.deadline_ns = UINT64_MAX,
		.spans = spans,
		.span_cnt = cnt + 1,
		.owner = (uintptr_t)first,
	};
	sl_link_send(&ch->link, s, first->priority, b->now_ns);
	return true;
}

void sl_be_replies_pack(struct channel *ch)
{
	while (ch->replies && !ch->link.error) {
		if (!pack_one(ch))
			return; /* memory comes back when something was sent */
	}
}

void sl_be_replies_sent(struct sl_backend *b, struct sl_send *s)
{
	struct reply *rp = (struct reply *)(uintptr_t)s->owner, *next;

	for (; rp; rp = next) {
		next = rp->next;
		sl_be_reply_free(b, rp);
	}
	sl_mem_free(&b->reply_mem, s);
}
