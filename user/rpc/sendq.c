/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"
#include "rpc/sendq.h"

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

void sl_sendq_push(struct sl_sendq *q, struct sl_send *s, enum sl_rpc_class class)
{
	struct sl_list *head, *at;

	s->header.priority = (uint8_t) class;
	q->cnt++;
	q->bytes += s->total;
	if (q->one_class) {
		sl_list_add_tail(&q->queue[SL_CLASS_BULK], &s->node);
		return;
	}
	/* From the end: most come in the order of their deadlines. */
	head = &q->queue[class];
	for (at = head->prev; at != head && send_of(at)->deadline_ns > s->deadline_ns;)
		at = at->prev;
	sl_list_add_head(at, &s->node);
}

static enum sl_rpc_class class_of(const struct sl_sendq *q, const struct sl_send *s)
{
	return q->one_class ? SL_CLASS_BULK : (enum sl_rpc_class)s->header.priority;
}

/* The earliest deadline, unless that would interleave too many messages. */
static struct sl_send *head_of(const struct sl_sendq *q, unsigned class)
{
	const struct sl_list *head = &q->queue[class];
	struct sl_list *at;

	if (sl_list_empty(head))
		return NULL;
	if (q->started[class] < SL_SENDQ_STARTED_MAX || q->one_class)
		return send_of(head->next);
	sl_list_for_each (at, head) {
		if (send_of(at)->offset)
			break;
	}
	return send_of(at);
}

uint32_t sl_sendq_cap(uint64_t rate_bps, uint32_t slice_min)
{
	uint64_t bytes = rate_bps / 8 * SL_SENDQ_CAP_NS / 1000000000;

	/* Two slices, or nothing moves while the next one is made. */
	if (bytes < 2 * (uint64_t)slice_min)
		return 2 * slice_min;
	return bytes < SL_SENDQ_CAP_MAX ? (uint32_t)bytes : SL_SENDQ_CAP_MAX;
}

/* Bytes of the next slice; false if it cannot go now. */
static bool slice_of(const struct sl_send *s, const struct sl_send_room *room, uint32_t most,
		     uint32_t *len)
{
	uint32_t left = s->total - s->offset;
	/* No sliver of a message by itself. */
	uint32_t want = left <= most + most / 4 ? left : most;

	if (!room->window)
		return false;
	if (want > room->window) {
		/* Rather wait for the ring than chop a long message into slots. */
		if (room->window < SL_SENDQ_SLICE_MIN)
			return false;
		want = room->window;
	}
	*len = want;
	return true;
}

static struct sl_send *pick(struct sl_sendq *q, unsigned class, const struct sl_send_room *room,
			    uint32_t most, uint32_t *len)
{
	struct sl_send *s = head_of(q, class);

	return s && slice_of(s, room, most, len) ? s : NULL;
}

static void next_turn(struct sl_sendq *q)
{
	q->turn = q->turn + 1 < SL_SENDQ_CLASSES ? q->turn + 1 : DRR_FIRST;
	q->granted = false;
}

static struct sl_send *round_robin(struct sl_sendq *q, const struct sl_send_room *room,
				   uint32_t most, uint32_t *len)
{
	struct sl_send *s[SL_SENDQ_CLASSES] = {NULL}, *only = NULL;
	uint32_t slice[SL_SENDQ_CLASSES];
	unsigned ready = 0;

	for (unsigned c = DRR_FIRST; c < SL_SENDQ_CLASSES; c++) {
		s[c] = pick(q, c, room, most, &slice[c]);
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
	/* Each turn adds to some deficit, so this ends: after slice / quantum rounds at the most.
	 */
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

/* A quarter of the cap. */
static uint32_t slice_for(const struct sl_send_room *room, uint32_t cap)
{
	uint32_t slice = cap / 4 / SL_SENDQ_SLICE_UNIT * SL_SENDQ_SLICE_UNIT;

	slice = slice < room->slice_min ? room->slice_min : slice;
	return slice < room->slice_max ? slice : room->slice_max;
}

struct sl_send *sl_sendq_next(struct sl_sendq *q, const struct sl_send_room *room, uint32_t *len)
{
	struct sl_send *s;
	uint32_t cap;

	if (!q->cnt)
		return NULL;
	if (q->one_class)
		return pick(q, SL_CLASS_BULK, room, room->slice_max, len);
	s = pick(q, SL_CLASS_CONTROL, room, room->slice_max, len);
	if (s)
		return s;
	cap = sl_sendq_cap(room->rate_bps, room->slice_min);
	if (room->posted >= cap && room->posted >= room->limit)
		return NULL;
	return round_robin(q, room, slice_for(room, cap), len);
}

bool sl_sendq_posted(struct sl_sendq *q, struct sl_send *s, uint32_t len)
{
	enum sl_rpc_class class = class_of(q, s);
	bool was_started = s->offset != 0;

	s->offset += len;
	q->bytes -= len;
	if (s->offset < s->total) {
		q->started[class] += !was_started;
		return false;
	}
	q->started[class] -= was_started;
	q->cnt--;
	sl_list_del(&s->node);
	return true;
}

struct sl_send *sl_sendq_pop(struct sl_sendq *q)
{
	for (unsigned c = 0; c < SL_SENDQ_CLASSES; c++) {
		struct sl_list *node = sl_list_pop_head(&q->queue[c]);

		if (node) {
			q->cnt--;
			q->bytes -= send_of(node)->total - send_of(node)->offset;
			return send_of(node);
		}
	}
	return NULL;
}
