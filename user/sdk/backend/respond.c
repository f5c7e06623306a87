/* SPDX-License-Identifier: Apache-2.0 */
#include "sdk/backend/internal.h"

static const uint8_t zeros[8];

enum { SPANS_MAX = 3 }; /* per reply */

static unsigned count_together(const struct reply *rp, uint64_t *total)
{
	unsigned cnt = 0;

	*total = 0;
	for (; rp && cnt < SL_RPC_MAX_BATCH; rp = rp->next) {
		uint64_t more = sizeof(rp->entry) + sl_rpc_pad8(rp->entry.meta_len) +
				sl_rpc_pad8(rp->entry.len);

		if (cnt && *total + more > SL_BE_RESPONSE_MAX)
			break;
		*total += more;
		cnt++;
	}
	return cnt;
}

static struct sl_span *add_spans(struct sl_span *to, const struct reply *rp)
{
	size_t meta = sl_rpc_pad8(rp->entry.meta_len), len = rp->entry.len;
	size_t padded = sl_rpc_pad8(len);

	if (!rp->lent) {
		*to++ = sl_span_of(meta ? rp->meta : rp->body, meta + padded);
		return to;
	}
	if (meta)
		*to++ = sl_span_of(rp->meta, meta);
	if (len)
		*to++ = sl_span_of(rp->body, len);
	if (padded > len)
		*to++ = sl_span_of(zeros, padded - len);
	return to;
}

static void remove_until(struct channel *ch, unsigned class, struct reply *last)
{
	ch->replies[class].first = last->next;
	if (!last->next) {
		ch->replies[class].end = &ch->replies[class].first;
		ch->classes &= ~(UINT32_C(1) << class);
	}
	last->next = NULL;
}

static bool pack_one(struct channel *ch, unsigned class)
{
	struct reply *first = ch->replies[class].first, *rp = first;
	uint64_t total;
	uint32_t longest_us = 1;
	unsigned cnt = count_together(first, &total), i;
	struct sl_send *s = sl_be_reply_mem_take(
		&ch->unknown, sizeof(*s) + cnt * sizeof(struct sl_rpc_entry) +
				      (cnt * SPANS_MAX + 1) * sizeof(struct sl_span));
	struct sl_rpc_entry *e;
	struct sl_span *spans, *end;

	if (!s)
		return false;
	e = (struct sl_rpc_entry *)(s + 1);
	spans = (struct sl_span *)(e + cnt);
	spans[0] = sl_span_of(e, cnt * sizeof(*e));
	end = spans + 1;
	for (i = 0;; rp = rp->next) {
		e[i] = rp->entry;
		longest_us = e[i].time_us > longest_us ? e[i].time_us : longest_us;
		end = add_spans(end, rp);
		if (++i == cnt)
			break;
	}
	remove_until(ch, class, rp);
	*s = (struct sl_send){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_RESPONSE,
			   .count = (uint16_t)cnt,
			   .time_us = longest_us},
		.total = (uint32_t)total,
		.deadline_ns = UINT64_MAX,
		.spans = spans,
		.span_cnt = (uint32_t)(end - spans),
		.owner = (uintptr_t)first,
	};
	sl_link_send(&ch->link, s, class, ch->b->now_ns);
	return true;
}

void sl_be_replies_pack(struct channel *ch)
{
	while (ch->classes && !ch->link.error) {
		if (!pack_one(ch, (unsigned)__builtin_ctz(ch->classes)))
			return;
	}
}

void sl_be_replies_forget(struct channel *ch)
{
	while (ch->classes) {
		unsigned class = (unsigned)__builtin_ctz(ch->classes);
		struct reply *rp = ch->replies[class].first;

		remove_until(ch, class, rp);
		sl_be_reply_free(rp);
	}
}

void sl_be_replies_sent(struct channel *ch, struct sl_send *s)
{
	struct reply *rp = (struct reply *)(uintptr_t)s->owner, *next;

	for (; rp; rp = next) {
		next = rp->next;
		sl_be_reply_free(rp);
	}
	sl_be_reply_mem_give(&ch->unknown, s);
}

void sl_be_flush(struct sl_backend *b)
{
	struct sl_list *at;

	b->flushed_ns = b->now_ns;
	sl_list_for_each (at, &b->channels) {
		struct channel *ch = sl_container_of(at, struct channel, node);

		if (!ch->up)
			continue;
		sl_be_replies_pack(ch);
		sl_link_flush(&ch->link, b->now_ns);
	}
}
