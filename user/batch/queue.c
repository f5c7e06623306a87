/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/queue.h"

#include <errno.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 64 };

static bool is_before(const struct sl_batch_item *a, const struct sl_batch_item *b)
{
	if (a->due_ns != b->due_ns)
		return a->due_ns < b->due_ns;
	return a->queued_ns < b->queued_ns;
}

static void place_item(struct sl_lane *l, struct sl_batch_item *item, uint32_t at)
{
	l->heap[at] = item;
	item->heap_pos = at;
}

static void sift_up(struct sl_lane *l, struct sl_batch_item *item, uint32_t at)
{
	while (at && is_before(item, l->heap[(at - 1) / 2])) {
		place_item(l, l->heap[(at - 1) / 2], at);
		at = (at - 1) / 2;
	}
	place_item(l, item, at);
}

static void sift_down(struct sl_lane *l, struct sl_batch_item *item, uint32_t at)
{
	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= l->len)
			break;
		if (child + 1 < l->len && is_before(l->heap[child + 1], l->heap[child]))
			child++;
		if (!is_before(l->heap[child], item))
			break;
		place_item(l, l->heap[child], at);
		at = child;
	}
	place_item(l, item, at);
}

int sl_queue_init(struct sl_batch_queue *q, uint32_t cap, uint32_t salt)
{
	uint32_t buckets = BUCKETS_MIN;

	while (buckets < cap)
		buckets *= 2;
	*q = (struct sl_batch_queue){.cap = cap, .salt = salt, .bucket_mask = buckets - 1};
	q->shares = calloc(cap, sizeof(*q->shares));
	q->buckets = calloc(buckets, sizeof(*q->buckets));
	q->by_cnt = calloc(cap + 1, sizeof(*q->by_cnt));
	for (unsigned i = 0; i < SL_LANES; i++) {
		sl_list_init(&q->lanes[i].ages);
		q->lanes[i].heap = calloc(cap, sizeof(*q->lanes[i].heap));
		if (!q->lanes[i].heap)
			goto fail;
	}
	if (!q->shares || !q->buckets || !q->by_cnt)
		goto fail;
	for (uint32_t i = 0; i <= cap; i++)
		sl_list_init(&q->by_cnt[i]);
	return 0;
fail:
	sl_queue_fini(q);
	return -ENOMEM;
}

void sl_queue_fini(struct sl_batch_queue *q)
{
	for (unsigned i = 0; i < SL_LANES; i++)
		free(q->lanes[i].heap);
	free(q->by_cnt);
	free(q->buckets);
	free(q->shares);
	*q = (struct sl_batch_queue){.cap = 0};
}

static uint32_t key_of(const struct sl_batch_item *item)
{
	return item->unproven ? 0 : item->client;
}

static struct sl_queue_share **find_share(const struct sl_batch_queue *q,
					  const struct sl_batch_item *item)
{
	uint32_t key = key_of(item), h = (key ^ q->salt) * 0x9e3779b1u;
	struct sl_queue_share **at = &q->buckets[(h >> 16 ^ h) & q->bucket_mask];

	while (*at && ((*at)->client != key || (*at)->unproven != item->unproven))
		at = &(*at)->next;
	return at;
}

static struct sl_queue_share *share_new(struct sl_batch_queue *q, const struct sl_batch_item *item)
{
	struct sl_queue_share *s = q->unused;

	if (s)
		q->unused = s->next;
	else
		s = &q->shares[q->shares_used++];
	*s = (struct sl_queue_share){.client = key_of(item), .unproven = item->unproven};
	sl_list_init(&s->items);
	sl_list_init(&s->by_cnt);
	return s;
}

static void set_cnt(struct sl_batch_queue *q, struct sl_queue_share *s, uint32_t cnt)
{
	q->active = q->active + (cnt != 0) - (s->cnt != 0);
	s->cnt = cnt;
	sl_list_del(&s->by_cnt);
	if (cnt)
		sl_list_add_tail(&q->by_cnt[cnt], &s->by_cnt);
	if (cnt > q->heaviest)
		q->heaviest = cnt;
	else if (q->heaviest && sl_list_empty(&q->by_cnt[q->heaviest]))
		q->heaviest--;
}

static struct sl_queue_share *insert_item(struct sl_batch_queue *q, struct sl_batch_item *item)
{
	struct sl_queue_share **at = find_share(q, item), *s = *at;
	struct sl_lane *l = &q->lanes[item->lane];

	if (!s)
		s = *at = share_new(q, item);
	item->queued = true;
	q->len++;
	l->len++;
	sift_up(l, item, l->len - 1);
	set_cnt(q, s, s->cnt + 1);
	return s;
}

void sl_queue_push(struct sl_batch_queue *q, struct sl_batch_item *item)
{
	struct sl_queue_share *s = insert_item(q, item);

	sl_list_add_tail(&s->items, &item->link);
	sl_list_add_tail(&q->lanes[item->lane].ages, &item->age);
}

void sl_queue_push_back(struct sl_batch_queue *q, struct sl_batch_item *item)
{
	struct sl_queue_share *s = insert_item(q, item);

	sl_list_add_head(&s->items, &item->link);
	sl_list_add_head(&q->lanes[item->lane].ages, &item->age);
}

void sl_queue_remove(struct sl_batch_queue *q, struct sl_batch_item *item)
{
	struct sl_queue_share **where = find_share(q, item), *s = *where;
	struct sl_lane *l = &q->lanes[item->lane];
	struct sl_batch_item *last = l->heap[--l->len];
	uint32_t at = item->heap_pos;

	if (last != item && at && is_before(last, l->heap[(at - 1) / 2]))
		sift_up(l, last, at);
	else if (last != item)
		sift_down(l, last, at);
	sl_list_del(&item->link);
	sl_list_del(&item->age);
	item->queued = false;
	set_cnt(q, s, s->cnt - 1);
	q->len--;
	if (s->cnt)
		return;
	*where = s->next;
	s->next = q->unused;
	q->unused = s;
}

void sl_queue_reorder(struct sl_batch_queue *q, unsigned lane)
{
	struct sl_lane *l = &q->lanes[lane];

	for (uint32_t at = l->len / 2; at-- > 0;)
		sift_down(l, l->heap[at], at);
}

uint32_t sl_queue_share_cnt(const struct sl_batch_queue *q, const struct sl_batch_item *item)
{
	const struct sl_queue_share *s = *find_share(q, item);

	return s ? s->cnt : 0;
}

struct sl_batch_item *sl_queue_heaviest(const struct sl_batch_queue *q)
{
	const struct sl_queue_share *s;

	if (!q->heaviest)
		return NULL;
	s = sl_list_first(&q->by_cnt[q->heaviest], struct sl_queue_share, by_cnt);
	return sl_list_last(&s->items, struct sl_batch_item, link);
}
