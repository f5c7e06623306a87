/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"
#include "rpc/sendq.h"
#include "rpc/transport.h"

static const uint32_t weight[SL_SENDQ_CLASSES] = {
	[SL_CLASS_LATENCY] = 8, [SL_CLASS_NORMAL] = 4, [SL_CLASS_BULK] = 1};

enum { DRR_FIRST = SL_CLASS_LATENCY, DRR_CNT = SL_CLASS_CNT - DRR_FIRST };

void sl_sendq_init(struct sl_sendq *q, bool one_class)
{
	*q = (struct sl_sendq){.turn = DRR_FIRST, .one_class = one_class};
	for (unsigned c = 0; c < SL_SENDQ_CLASSES; c++)
		sl_list_init(&q->queue[c]);
}

static struct sl_send *send_of(struct sl_list *node)
{
	return sl_container_of(node, struct sl_send, node);
}

static unsigned class_of(const struct sl_sendq *q, const struct sl_send *s)
{
	return q->one_class ? SL_CLASS_BULK : s->header.priority;
}

static struct sl_list *insert_after_of(struct sl_sendq *q, const struct sl_send *s, unsigned class)
{
	struct sl_list *head = &q->queue[class], *at;

	if (s->deadline_ns == UINT64_MAX)
		return head->prev;
	if (!q->last_timed[class] || send_of(head->next)->deadline_ns > s->deadline_ns)
		return head;
	at = &q->last_timed[class]->node;
	for (unsigned n = 0; n < SL_SENDQ_LOOK_BACK && send_of(at)->deadline_ns > s->deadline_ns;
	     n++)
		at = at->prev;
	return at;
}

static void unlink_send(struct sl_sendq *q, struct sl_send *s)
{
	unsigned class = class_of(q, s);
	struct sl_list *before = s->node.prev;

	if (q->last_timed[class] == s)
		q->last_timed[class] = before == &q->queue[class] ? NULL : send_of(before);
	sl_list_del(&s->node);
	q->cnt--;
}

void sl_sendq_push(struct sl_sendq *q, struct sl_send *s, enum sl_rpc_class class)
{
	struct sl_list *at;

	s->header.priority = (uint8_t) class;
	q->cnt++;
	q->bytes += s->total;
	if (q->one_class) {
		sl_list_add_tail(&q->queue[SL_CLASS_BULK], &s->node);
		return;
	}
	at = insert_after_of(q, s, class);
	sl_list_add_head(at, &s->node);
	if (s->deadline_ns != UINT64_MAX &&
	    (!q->last_timed[class] || at == &q->last_timed[class]->node))
		q->last_timed[class] = s;
}

static struct sl_send *head_of(const struct sl_sendq *q, unsigned class, bool begun_only)
{
	bool may_begin = !begun_only && (q->started[class] < SL_SENDQ_STARTED_MAX || q->one_class);
	struct sl_send *best = NULL;

	if (may_begin)
		return sl_list_first(&q->queue[class], struct sl_send, node);
	for (unsigned i = 0; i < q->started[class]; i++) {
		struct sl_send *s = q->begun[class][i];

		if (!best || s->deadline_ns < best->deadline_ns)
			best = s;
	}
	return best;
}

static uint64_t bytes_in(uint64_t rate_bps, uint64_t ns)
{
	return rate_bps / 8 * ns / 1000000000;
}

uint32_t sl_sendq_cap(uint64_t rate_bps, uint32_t slice_min)
{
	uint64_t bytes = bytes_in(rate_bps, SL_SENDQ_CAP_NS);

	/* Two slices: one moves while the next is made. */
	if (bytes < 2 * (uint64_t)slice_min)
		return 2 * slice_min;
	return bytes < SL_SENDQ_CAP_MAX ? (uint32_t)bytes : SL_SENDQ_CAP_MAX;
}

uint32_t sl_sendq_far(uint64_t rate_bps, uint32_t slice_min)
{
	uint64_t bytes = bytes_in(rate_bps, SL_SENDQ_FAR_NS);
	uint32_t caps = 2 * sl_sendq_cap(rate_bps, slice_min);

	return bytes > caps ? (uint32_t)bytes : caps;
}

/* Returns the longest slice of a class; 0: too many bytes are posted. */
static uint32_t slice_limit_of(const struct sl_send_room *room, unsigned class)
{
	uint32_t cap = sl_sendq_cap(room->rate_bps, room->slice_min);
	uint32_t posted = class == SL_CLASS_LATENCY ? room->own : room->posted;
	uint32_t ring = SL_SENDQ_WHOLES * sl_rpc_at_most(SL_SENDQ_WHOLE, room->slice_max);
	uint32_t slice = cap / 4 / SL_SENDQ_SLICE_UNIT * SL_SENDQ_SLICE_UNIT;

	if (slice < room->slice_min)
		slice = room->slice_min;
	if (class <= room->urgent) {
		slice = slice < SL_SENDQ_WHOLE ? SL_SENDQ_WHOLE : slice;
		cap = cap < ring ? ring : cap;
	}
	if (posted >= cap && posted >= room->limit)
		return 0;
	return sl_rpc_at_most(slice, room->slice_max);
}

static struct sl_send *pick_send(struct sl_sendq *q, unsigned class,
				 const struct sl_send_room *room, uint32_t most, uint32_t *len)
{
	struct sl_send *s = head_of(q, class, room->begun_only);
	uint32_t left;

	if (!s || !room->window)
		return NULL;
	left = s->total - s->offset;
	*len = left <= most + most / 4 ? left : most;
	if (*len <= room->window)
		return s;
	*len = room->window;
	return room->window < SL_SENDQ_SLICE_MIN ? NULL : s;
}

static void next_turn(struct sl_sendq *q)
{
	q->turn = q->turn + 1 < SL_SENDQ_CLASSES ? q->turn + 1 : DRR_FIRST;
	q->granted = false;
}

static struct sl_send *round_robin(struct sl_sendq *q, const struct sl_send_room *room,
				   uint32_t *len)
{
	struct sl_send *s[SL_SENDQ_CLASSES] = {NULL}, *only = NULL;
	uint32_t slice[SL_SENDQ_CLASSES];
	unsigned ready = 0;

	for (unsigned c = DRR_FIRST; c < SL_SENDQ_CLASSES; c++) {
		uint32_t most = slice_limit_of(room, c);

		s[c] = most ? pick_send(q, c, room, most, &slice[c]) : NULL;
		if (sl_list_empty(&q->queue[c]))
			q->deficit[c] = 0;
		if (s[c]) {
			ready++;
			only = s[c];
			*len = slice[c];
		}
	}
	if (ready <= 1)
		return only;
	/* At most slice / quantum rounds: each turn raises a deficit. */
	for (;; next_turn(q)) {
		unsigned c = q->turn;

		if (!s[c])
			continue;
		if (!q->granted)
			q->deficit[c] += weight[c] * SL_SENDQ_QUANTUM;
		q->granted = true;
		if (q->deficit[c] < slice[c])
			continue;
		q->deficit[c] -= slice[c];
		*len = slice[c];
		return s[c];
	}
}

struct sl_send *sl_sendq_next(struct sl_sendq *q, const struct sl_send_room *room, uint32_t *len)
{
	struct sl_send *s;

	if (!q->cnt)
		return NULL;
	if (q->one_class)
		return pick_send(q, SL_CLASS_BULK, room, room->slice_max, len);
	s = pick_send(q, SL_CLASS_CONTROL, room, room->slice_max, len);
	return s ? s : round_robin(q, room, len);
}

static void end_send(struct sl_sendq *q, const struct sl_send *s)
{
	unsigned class = class_of(q, s), kept = 0;

	for (unsigned i = 0; i < q->started[class]; i++) {
		if (q->begun[class][i] != s)
			q->begun[class][kept++] = q->begun[class][i];
	}
	q->started[class] = kept;
}

bool sl_sendq_posted(struct sl_sendq *q, struct sl_send *s, uint32_t len)
{
	unsigned class = class_of(q, s);
	bool was_started = s->offset != 0;

	s->offset += len;
	q->bytes -= len;
	if (s->offset < s->total) {
		if (!was_started)
			q->begun[class][q->started[class]++] = s;
		return false;
	}
	if (was_started)
		end_send(q, s);
	unlink_send(q, s);
	return true;
}

void sl_sendq_remove(struct sl_sendq *q, struct sl_send *s)
{
	unlink_send(q, s);
	q->bytes -= s->total;
}

struct sl_send *sl_sendq_pop(struct sl_sendq *q)
{
	for (unsigned c = 0; c < SL_SENDQ_CLASSES; c++) {
		struct sl_send *s = sl_list_first(&q->queue[c], struct sl_send, node);

		if (s) {
			q->bytes -= s->total - s->offset;
			if (s->offset)
				end_send(q, s);
			unlink_send(q, s);
			return s;
		}
	}
	return NULL;
}
