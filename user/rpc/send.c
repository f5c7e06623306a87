/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "rpc/session.h"

static const uint8_t zeros[8];

static uint64_t body_of(const struct sl_rpc_item *items, uint32_t cnt)
{
	uint64_t total = cnt * sizeof(struct sl_rpc_entry);

	for (uint32_t i = 0; i < cnt; i++) {
		const struct sl_rpc_item *it = &items[i];
		uint64_t sum = 0;

		for (uint32_t k = 0; k < it->span_cnt; k++)
			sum += it->spans[k].len;
		if (it->len > SL_RPC_MAX_MESSAGE || it->meta_len > SL_RPC_MAX_ASKED ||
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

static bool wants_continue(const struct sl_rpc_item *it)
{
	return it->stream && it->open && it->expects;
}

static uint64_t later_ns(uint64_t ns, uint64_t us)
{
	if (!us)
		return ns;
	return us < (UINT64_MAX - ns) / SL_NS_PER_US ? ns + us * SL_NS_PER_US : UINT64_MAX;
}

static struct sl_send *build_message(struct sl_rpc *r, const struct sl_rpc_item *items,
				     uint32_t cnt, uint8_t class, uint64_t now_ns)
{
	uint64_t span_cnt = 1, first_ns = UINT64_MAX;
	uint32_t of_class = 0;
	struct sl_rpc_entry *e;
	struct sl_send *s;
	struct sl_span *to;
	size_t table, ids;

	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t due_ns = later_ns(now_ns, items[i].budget_us);

		if (items[i].class != class)
			continue;
		of_class++;
		span_cnt += (uint64_t)items[i].span_cnt + 3;
		if (items[i].budget_us && due_ns < first_ns)
			first_ns = due_ns;
	}
	table = of_class * sizeof(*e);
	ids = of_class * sizeof(*s->cancelled);
	s = sl_capped_malloc(&r->mem, sizeof(*s) + table + ids + span_cnt * sizeof(struct sl_span));
	if (!s)
		return NULL;
	e = (struct sl_rpc_entry *)(s + 1);
	to = (struct sl_span *)((uint8_t *)(e + of_class) + ids);
	*s = (struct sl_send){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
			   .priority = class,
			   .count = (uint16_t)of_class},
		.total = (uint32_t)table,
		.deadline_ns = first_ns,
		.spans = to,
		.cancelled = (uint64_t *)(e + of_class),
	};
	to = add_span(to, e, table);
	for (uint32_t i = 0; i < cnt; i++) {
		const struct sl_rpc_item *it = &items[i];

		if (it->class != class)
			continue;
		*e++ = (struct sl_rpc_entry){
			.id = it->id,
			.len = it->len,
			.meta_len = it->meta_len,
			.flags = (uint8_t)((it->idempotent ? SL_ENTRY_IDEMPOTENT : 0) |
					   (it->compressed ? SL_ENTRY_COMPRESSED : 0) |
					   (it->stream ? SL_ENTRY_STREAM : 0) |
					   (it->stream && it->open ? SL_ENTRY_MORE : 0) |
					   (wants_continue(it) ? SL_ENTRY_EXPECT : 0)),
			.time_us = it->budget_us < SL_RPC_TIME_MAX ? (uint32_t)it->budget_us : 0,
		};
		s->total += (uint32_t)(sl_rpc_pad8(it->meta_len) + sl_rpc_pad8(it->len));
		to = add_item(to, it);
	}
	s->span_cnt = (uint32_t)(to - s->spans);
	return s;
}

static void add_pending(struct sl_rpc_channel *ch, struct sl_rpc_item *it,
			struct sl_pending_batch *b, uint64_t now_ns)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_pending *p = sl_outstanding_get(&r->out);

	p->channel = ch;
	p->batch = b;
	p->cookie = it->cookie;
	p->credit = it->stream ? SL_RPC_STREAM_WINDOW : SL_RPC_INITIAL_WINDOW;
	p->rest = p->due = p->given = 0;
	p->flags = 0;
	p->stream = it->stream;
	p->class = it->class;
	p->open = it->stream && it->open;
	p->expects = wants_continue(it);
	p->part_credit = SL_RPC_PART_WINDOW;
	p->begun = false;
	p->interims = 0;
	it->id = sl_outstanding_id(&r->out, p);
	sl_list_add_tail(&ch->requests, &p->node);
	if (it->budget_us)
		sl_timer_set(&r->wheel, &p->timer,
			     later_ns(now_ns + r->cfg.grace_ns, it->budget_us));
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
	for (unsigned c = 0; c < SL_CLASS_CNT; c++)
		sl_capped_free(&r->mem, b->sends[c]);
	sl_outstanding_batch_put(&r->out, b);
}

static int build_all(struct sl_rpc *r, const struct sl_rpc_item *items, struct sl_pending_batch *b,
		     uint64_t now_ns)
{
	for (uint32_t i = 0; i < b->cnt; i++) {
		struct sl_send **s = &b->sends[items[i].class];

		if (*s)
			continue;
		*s = build_message(r, items, b->cnt, items[i].class, now_ns);
		if (!*s)
			return -EAGAIN;
		(*s)->owner = (uint64_t)(b - r->out.batches);
		b->unsent++;
	}
	return 0;
}

static bool is_valid(const struct sl_rpc_item *items, uint32_t cnt)
{
	if (cnt == 0 || cnt > SL_RPC_MAX_BATCH || (items->stream && (cnt != 1 || items->len)))
		return false;
	for (uint32_t i = 0; i < cnt; i++) {
		if (items[i].class >= SL_CLASS_CNT)
			return false;
	}
	return true;
}

static bool is_crowded(const struct sl_rpc_channel *ch, bool of_stream)
{
	return ch->link.q.cnt >= (of_stream ? SL_SESSION_STREAMS_MAX : SL_SESSION_QUEUED_MAX);
}

int sl_rpc_send(struct sl_rpc_channel *ch, struct sl_rpc_item *items, uint32_t cnt, uint64_t now_ns,
		uint64_t *batch)
{
	struct sl_rpc *r = ch->rpc;
	struct sl_pending_batch *b;

	if (ch->state != SL_RPC_UP || ch->link.error)
		return -ENOTCONN;
	if (!is_valid(items, cnt))
		return -EINVAL;
	if (!body_of(items, cnt))
		return -EMSGSIZE;
	if (r->out.used + cnt > r->out.cap || is_crowded(ch, items->stream) ||
	    !(b = sl_outstanding_batch_get(&r->out)))
		return -EAGAIN;
	*b = (struct sl_pending_batch){.node = b->node,
				       .channel = ch,
				       .number = ++ch->next_batch,
				       .sent_ns = now_ns,
				       .stream = items->stream};
	sl_list_add_tail(&ch->batches, &b->node);
	for (b->cnt = 0; b->cnt < cnt; b->cnt++)
		add_pending(ch, &items[b->cnt], b, now_ns);
	if (build_all(r, items, b, now_ns)) {
		forget_batch(ch, items, b);
		return -EAGAIN;
	}
	b->left = cnt;
	ch->outstanding += cnt;
	ch->stats.batches_sent++;
	ch->stats.requests_sent += cnt;
	*batch = b->number;
	sl_channel_wake(ch);
	for (unsigned c = 0; c < SL_CLASS_CNT; c++) {
		struct sl_send *s = b->sends[c];

		if (!s)
			continue;
		sl_channel_watch(ch, SL_RPC_LENT, s->spans, s->span_cnt);
		sl_link_send(&ch->link, s, (enum sl_rpc_class)c, now_ns);
	}
	return 0;
}

static struct sl_stream_part *build_part(struct sl_rpc *r, uint64_t id,
					 const struct sl_rpc_part *part, enum sl_rpc_class class)
{
	uint64_t padded = sl_rpc_pad8(part->len);
	struct sl_stream_part *p =
		sl_capped_malloc(&r->mem, sizeof(*p) + sizeof(struct sl_span) +
						  sizeof(struct sl_rpc_entry) + padded);
	struct sl_rpc_entry *e;
	struct sl_send *s;
	uint8_t *to;

	if (!p)
		return NULL;
	s = &p->send;
	*s = (struct sl_send){
		.header = {.version_type = SL_RPC_VERSION << 4 | SL_RPC_REQUEST,
			   .priority = (uint8_t) class,
			   .count = 1},
		.total = (uint32_t)(sizeof(*e) + padded),
		.deadline_ns = UINT64_MAX,
		.spans = (struct sl_span *)(p + 1),
		.span_cnt = 1,
		.owner = SL_SEND_PART,
	};
	e = (struct sl_rpc_entry *)(s->spans + 1);
	s->spans[0] = sl_span_of(e, s->total);
	*e = (struct sl_rpc_entry){
		.id = id,
		.rest = part->rest,
		.flags = (uint8_t)(SL_ENTRY_PART | (part->end ? 0 : SL_ENTRY_MORE) |
				   (part->compressed ? SL_ENTRY_COMPRESSED : 0)),
	};
	if (part->end)
		e->meta_len = (uint16_t)part->len;
	else
		e->len = part->len;
	to = (uint8_t *)(e + 1);
	if (padded)
		memset(to + padded - 8, 0, 8);
	for (uint32_t i = 0; i < part->span_cnt; to += part->spans[i++].len)
		memcpy(to, part->spans[i].ptr, part->spans[i].len);
	return p;
}

static uint32_t cost_of(const struct sl_rpc_part *part)
{
	const struct sl_rpc_entry e = {.len = part->len, .flags = SL_ENTRY_MORE};

	return part->end ? 0 : sl_rpc_cost(&e);
}

static struct sl_pending *find_open(struct sl_rpc_channel *ch, uint64_t id)
{
	struct sl_pending *p = sl_outstanding_find(&ch->rpc->out, ch, id);

	return p && p->open && !ch->link.error ? p : NULL;
}

uint32_t sl_rpc_part_credit(struct sl_rpc_channel *ch, uint64_t id)
{
	const struct sl_pending *p = find_open(ch, id);

	return p && p->part_credit >= SL_RPC_MIN_COST ? p->part_credit : 0;
}

/*
 * Returns true if a part may be queued: parts use less than half of the session's memory, and this
 * class its share (dynamic thresholds: Choudhury, Hahne 1998).
 */
static bool may_wait(const struct sl_rpc_channel *ch, enum sl_rpc_class class)
{
	const struct sl_rpc *r = ch->rpc;
	size_t most = r->mem.limit / 2;

	return r->part_bytes < most &&
	       ch->part_bytes[class] <= (most - r->part_bytes) / SL_SESSION_PARTS_OF_FREE;
}

int sl_rpc_send_part(struct sl_rpc_channel *ch, uint64_t id, const struct sl_rpc_part *part,
		     enum sl_rpc_class class, uint64_t now_ns)
{
	struct sl_pending *p = find_open(ch, id);
	struct sl_stream_part *s;

	if (!p || cost_of(part) > p->part_credit || (part->end && part->len > SL_RPC_MAX_ASKED))
		return -EINVAL;
	if (is_crowded(ch, true) || !may_wait(ch, class) ||
	    !(s = build_part(ch->rpc, id, part, class)))
		return -EAGAIN;
	ch->part_bytes[class] += s->send.total;
	ch->rpc->part_bytes += s->send.total;
	sl_list_init(&s->of_request);
	sl_list_add_tail(&p->parts, &s->of_request);
	p->part_credit -= cost_of(part);
	p->open = !part->end;
	sl_channel_wake(ch);
	sl_link_send(&ch->link, &s->send, class, now_ns);
	return 0;
}

void sl_rpc_cancel(struct sl_rpc_channel *ch, uint64_t id)
{
	struct sl_pending *p = sl_outstanding_find(&ch->rpc->out, ch, id);

	if (!p)
		return;
	ch->stats.cancels++;
	sl_channel_cancel(ch, p);
}

void sl_rpc_set_cookie(struct sl_rpc_channel *ch, uint64_t id, void *cookie)
{
	struct sl_pending *p = sl_outstanding_find(&ch->rpc->out, ch, id);

	if (p)
		p->cookie = cookie;
}
