/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "base/cpu.h"
#include "rpc/session.h"

static const uint8_t zeros[8];

/* Spans that a batch needs at the most: the table, and per item its own, a cut and two paddings. */
static uint64_t spans_of(const struct sl_rpc_item *items, uint32_t cnt)
{
	uint64_t n = 1;

	for (uint32_t i = 0; i < cnt; i++)
		n += (uint64_t)items[i].span_cnt + 3;
	return n;
}

/* Body length, or 0: a length is wrong. */
static uint64_t body_of(const struct sl_rpc_item *items, uint32_t cnt)
{
	uint64_t total = cnt * sizeof(struct sl_rpc_entry);

	for (uint32_t i = 0; i < cnt; i++) {
		const struct sl_rpc_item *it = &items[i];
		uint64_t sum = 0;

		for (uint32_t k = 0; k < it->span_cnt; k++)
			sum += it->spans[k].len;
		if (it->len > SL_RPC_MAX_MESSAGE || it->meta_len > SL_RPC_MAX_META ||
		    sum != (uint64_t)it->len + it->meta_len)
			return 0;
		total += sl_rpc_pad8(it->meta_len) + sl_rpc_pad8(it->len);
	}
	return total <= SL_RPC_MAX_BODY ? total : 0;
}

static struct sl_span *add_span(struct sl_span *to, const void *ptr, size_t len)
{
	if (!len)
		return to;
	*to = sl_span_of(ptr, len);
	return to + 1;
}

static struct sl_span *add_pad(struct sl_span *to, uint64_t len)
{
	return add_span(to, zeros, sl_rpc_pad8(len) - len);
}

/* Metadata, padding, payload, padding. The caller's spans may be cut anywhere. */
static struct sl_span *add_item(struct sl_span *to, const struct sl_rpc_item *it)
{
	size_t meta = it->meta_len;

	for (uint32_t k = 0; k < it->span_cnt; k++) {
		struct sl_span s = it->spans[k];
		size_t part = s.len < meta ? s.len : meta;

		if (part) {
			to = add_span(to, s.ptr, part);
			meta -= part;
			if (!meta)
				to = add_pad(to, it->meta_len);
		}
		to = add_span(to, s.ptr + part, s.len - part);
	}
	return add_pad(to, it->len);
}

static struct sl_send *build(struct sl_rpc *r, struct sl_rpc_item *items, uint32_t cnt,
			     uint64_t total)
{
	size_t table = cnt * sizeof(struct sl_rpc_entry);
	struct sl_send *s = sl_mem_alloc(
		&r->mem, sizeof(*s) + table + spans_of(items, cnt) * sizeof(struct sl_span));
	struct sl_rpc_entry *e;
	struct sl_span *to;

	if (!s)
		return NULL;
	e = (struct sl_rpc_entry *)(s + 1);
	to = (struct sl_span *)(e + cnt);
	*s = (struct sl_send){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
			   .count = (uint16_t)cnt},
		.total = (uint32_t)total,
		.deadline_ns = UINT64_MAX,
		.spans = to,
	};
	to = add_span(to, e, table);
	for (uint32_t i = 0; i < cnt; i++) {
		const struct sl_rpc_item *it = &items[i];

		e[i] = (struct sl_rpc_entry){
			.id = it->id,
			.len = it->len,
			.meta_len = it->meta_len,
			.flags = it->idempotent ? SL_ENTRY_IDEMPOTENT : 0,
			.time_us = it->budget_us,
		};
		to = add_item(to, it);
	}
	s->span_cnt = (uint32_t)(to - s->spans);
	return s;
}

static void remember(struct sl_rpc_channel *ch, struct sl_rpc_item *it, struct sl_pending_batch *b,
		     uint64_t now_ns)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_pending *p = sl_outstanding_get(&r->out);

	p->channel = ch;
	p->batch = b;
	p->cookie = it->cookie;
	it->id = sl_outstanding_id(&r->out, p);
	sl_list_add_tail(&ch->requests, &p->node);
	if (it->budget_us)
		sl_timer_set(&r->wheel, &p->timer,
			     now_ns + it->budget_us * UINT64_C(1000) + r->cfg.grace_ns);
}

static void forget_batch(struct sl_rpc_channel *ch, const struct sl_rpc_item *items,
			 struct sl_pending_batch *b)
{
	struct sl_rpc *r = ch->rpc;

	for (uint32_t i = 0; i < b->cnt; i++) {
		struct sl_pending *p = sl_outstanding_find(&r->out, ch, items[i].id);

		sl_timer_cancel(&r->wheel, &p->timer);
		sl_outstanding_put(&r->out, p);
	}
	sl_outstanding_batch_put(&r->out, b);
}

/* The earliest deadline of the batch orders it in its class. */
static uint64_t deadline_of(const struct sl_rpc_item *items, uint32_t cnt, uint64_t now_ns)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t at = now_ns + items[i].budget_us * UINT64_C(1000);

		if (items[i].budget_us && at < first)
			first = at;
	}
	return first;
}

int sl_rpc_send(struct sl_rpc_channel *ch, struct sl_rpc_item *items, uint32_t cnt,
		enum sl_rpc_class class, uint64_t now_ns, uint64_t *batch)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_pending_batch *b;
	uint64_t total;

	if (ch->state != SL_RPC_UP || ch->link.error || r->draining)
		return -ENOTCONN;
	if (cnt == 0 || cnt > SL_RPC_MAX_BATCH || class >= SL_CLASS_CNT)
		return -EINVAL;
	total = body_of(items, cnt);
	if (!total)
		return -EMSGSIZE;
	if (r->out.used + cnt > r->out.cap || ch->link.q.cnt >= SL_SESSION_QUEUED_MAX ||
	    !(b = sl_outstanding_batch_get(&r->out)))
		return -EAGAIN;
	*b = (struct sl_pending_batch){
		.node = b->node, .channel = ch, .number = ++ch->next_batch, .sent_ns = now_ns};
	sl_list_add_tail(&ch->batches, &b->node);
	for (b->cnt = 0; b->cnt < cnt; b->cnt++)
		remember(ch, &items[b->cnt], b, now_ns);
	b->send = build(r, items, cnt, total);
	if (!b->send) {
		forget_batch(ch, items, b);
		return -EAGAIN;
	}
	b->left = cnt;
	b->send->deadline_ns = deadline_of(items, cnt, now_ns);
	b->send->owner = (uint64_t)(b - r->out.batches);
	ch->outstanding += cnt;
	ch->stats.batches_sent++;
	ch->stats.requests_sent += cnt;
	*batch = b->number;
	sl_link_send(&ch->link, b->send, class, now_ns);
	return 0;
}

void sl_rpc_cancel(struct sl_rpc_channel *ch, uint64_t id)
{
	struct sl_pending *p = sl_outstanding_find(&ch->rpc->out, ch, id);

	if (!p)
		return;
	ch->stats.cancels++;
	sl_link_cancel(&ch->link, id);
	sl_channel_forget(ch, p);
}
