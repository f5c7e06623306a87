/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/queue.h"

#include "base/mempool.h"
#include "origin/origin.h"

void origin_queue_init(struct origin_queue *q, struct sl_mempool *clients)
{
	*q = (struct origin_queue){.clients = clients};
	for (unsigned i = 0; i < SL_CLASS_CNT; i++)
		sl_list_init(&q->turns[i]);
	for (unsigned i = 0; i < ORIGIN_QUEUE_BUCKETS; i++)
		sl_list_init(&q->buckets[i]);
}

static struct origin_client *find_client(const struct origin_queue *q, uint32_t key)
{
	const struct sl_list *bucket = &q->buckets[key % ORIGIN_QUEUE_BUCKETS];
	struct sl_list *l;

	sl_list_for_each (l, bucket) {
		struct origin_client *c = sl_container_of(l, struct origin_client, link);

		if (c->key == key)
			return c;
	}
	return NULL;
}

static struct origin_client *new_client(struct origin_queue *q, uint32_t key)
{
	struct origin_client *c = sl_mempool_get(q->clients);

	if (!c)
		return NULL;
	*c = (struct origin_client){.key = key};
	sl_list_init(&c->link);
	for (unsigned i = 0; i < SL_CLASS_CNT; i++) {
		sl_list_init(&c->of[i].turn);
		sl_list_init(&c->of[i].calls);
	}
	sl_list_add_head(&q->buckets[key % ORIGIN_QUEUE_BUCKETS], &c->link);
	return c;
}

bool origin_queue_enter(struct origin_queue *q, struct origin_call *call, uint32_t key)
{
	call->client = find_client(q, key);
	if (!call->client)
		call->client = new_client(q, key);
	if (!call->client)
		return false;
	call->client->calls++;
	return true;
}

void origin_queue_leave(struct origin_queue *q, struct origin_call *call)
{
	struct origin_client *c = call->client;

	if (--c->calls)
		return;
	if (q->heaviest == c)
		q->heaviest = NULL;
	sl_list_del(&c->link);
	sl_mempool_put(q->clients, c);
}

static struct origin_line *line_of(const struct origin_call *call)
{
	return &call->client->of[call->rq->priority];
}

void origin_queue_add(struct origin_queue *q, struct origin_call *call)
{
	struct origin_line *line = line_of(call);

	if (sl_list_empty(&line->calls))
		sl_list_add_tail(&q->turns[call->rq->priority], &line->turn);
	sl_list_add_tail(&line->calls, &call->link);
	q->cnt++;
}

void origin_queue_again(struct origin_queue *q, struct origin_call *call)
{
	struct origin_line *line = line_of(call);

	sl_list_del(&line->turn);
	sl_list_add_head(&q->turns[call->rq->priority], &line->turn);
	sl_list_add_head(&line->calls, &call->link);
	q->cnt++;
}

static bool has_stream(const struct origin_client *c, const struct origin_call *call,
		       const struct origin_shares *s)
{
	return !call->body.on || !c->key || c->streams_cnt < s->streams;
}

static uint32_t half_of(const struct origin_shares *s)
{
	return s->places > 1 ? s->places / 2 : 1;
}

/* True: a place is free, or one address has so many that the limit may be exceeded. */
static bool is_open(const struct origin_queue *q, const struct origin_shares *s)
{
	uint32_t half = half_of(s);

	if (s->busy < s->places)
		return true;
	return !s->exact && q->heaviest && q->heaviest->held > half &&
	       s->busy - s->places < q->heaviest->held - half;
}

/*
 * Skips clients with half of the places, at most two because `held` adds up to `busy`, and clients
 * with `streams` streams each.
 */
static struct origin_call *first_of(const struct origin_queue *q, unsigned class,
				    const struct origin_shares *s)
{
	const struct sl_list *turns = &q->turns[class];
	struct origin_call *heavy = NULL;
	struct sl_list *l;

	sl_list_for_each (l, turns) {
		struct origin_client *c = sl_container_of(l, struct origin_client, of[class].turn);
		struct origin_call *call =
			sl_list_first(&c->of[class].calls, struct origin_call, link);

		if (!has_stream(c, call, s))
			continue;
		if (c->held < half_of(s))
			return call;
		if (!heavy && s->busy < s->places)
			heavy = call;
	}
	return heavy;
}

struct origin_call *origin_queue_next(const struct origin_queue *q, const struct origin_shares *s)
{
	bool least = (q->taken + 1) % ORIGIN_QUEUE_TURN_OF_LEAST == 0;
	struct origin_call *next = NULL, *call;

	if (!is_open(q, s))
		return NULL;
	for (unsigned i = 0; i < SL_CLASS_CNT && (least || !next); i++) {
		call = first_of(q, i, s);
		next = call ? call : next;
	}
	return next;
}

struct origin_call *origin_queue_any(const struct origin_queue *q)
{
	for (unsigned i = 0; i < SL_CLASS_CNT; i++) {
		struct origin_client *c;

		if (sl_list_empty(&q->turns[i]))
			continue;
		c = sl_container_of(q->turns[i].next, struct origin_client, of[i].turn);
		return sl_list_first(&c->of[i].calls, struct origin_call, link);
	}
	return NULL;
}

void origin_queue_take(struct origin_queue *q, struct origin_call *call)
{
	struct origin_line *line = line_of(call);

	q->taken++;
	origin_queue_remove(q, call);
	if (sl_list_empty(&line->calls))
		return;
	sl_list_del(&line->turn);
	sl_list_add_tail(&q->turns[call->rq->priority], &line->turn);
}

void origin_queue_remove(struct origin_queue *q, struct origin_call *call)
{
	struct origin_line *line = line_of(call);

	sl_list_del(&call->link);
	q->cnt--;
	if (sl_list_empty(&line->calls))
		sl_list_del(&line->turn);
}

void origin_queue_hold(struct origin_queue *q, struct origin_call *call)
{
	struct origin_client *c = call->client;

	c->held++;
	if (!q->heaviest || c->held >= q->heaviest->held)
		q->heaviest = c;
}

void origin_queue_release(struct origin_queue *q, struct origin_call *call)
{
	(void)q;
	call->client->held--;
}
