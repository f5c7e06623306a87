/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue.h"

#include "agent/internal.h"

void agent_queue_init(struct agent_queue *q, struct sl_mempool *clients)
{
	*q = (struct agent_queue){.clients = clients};
	for (unsigned i = 0; i < SL_CLASS_CNT; i++)
		sl_list_init(&q->turns[i]);
	for (unsigned i = 0; i < AGENT_QUEUE_BUCKETS; i++)
		sl_list_init(&q->buckets[i]);
}

static struct agent_client *find_client(const struct agent_queue *q, uint32_t key)
{
	const struct sl_list *bucket = &q->buckets[key % AGENT_QUEUE_BUCKETS];
	struct sl_list *l;

	sl_list_for_each (l, bucket) {
		struct agent_client *c = sl_container_of(l, struct agent_client, link);

		if (c->key == key)
			return c;
	}
	return NULL;
}

static struct agent_client *new_client(struct agent_queue *q, uint32_t key)
{
	struct agent_client *c = sl_mempool_get(q->clients);

	if (!c)
		return NULL;
	*c = (struct agent_client){.key = key};
	sl_list_init(&c->link);
	for (unsigned i = 0; i < SL_CLASS_CNT; i++) {
		sl_list_init(&c->of[i].turn);
		sl_list_init(&c->of[i].calls);
	}
	sl_list_add_head(&q->buckets[key % AGENT_QUEUE_BUCKETS], &c->link);
	return c;
}

bool agent_queue_enter(struct agent_queue *q, struct agent_call *call, uint32_t key)
{
	call->client = find_client(q, key);
	if (!call->client)
		call->client = new_client(q, key);
	if (!call->client)
		return false;
	call->client->calls++;
	return true;
}

void agent_queue_leave(struct agent_queue *q, struct agent_call *call)
{
	struct agent_client *c = call->client;

	if (--c->calls)
		return;
	if (q->heaviest == c)
		q->heaviest = NULL;
	sl_list_del(&c->link);
	sl_mempool_put(q->clients, c);
}

static struct agent_line *line_of(const struct agent_call *call)
{
	return &call->client->of[call->rq->priority];
}

void agent_queue_add(struct agent_queue *q, struct agent_call *call)
{
	struct agent_line *line = line_of(call);

	if (sl_list_empty(&line->calls))
		sl_list_add_tail(&q->turns[call->rq->priority], &line->turn);
	sl_list_add_tail(&line->calls, &call->link);
	q->cnt++;
}

void agent_queue_again(struct agent_queue *q, struct agent_call *call)
{
	struct agent_line *line = line_of(call);

	sl_list_del(&line->turn);
	sl_list_add_head(&q->turns[call->rq->priority], &line->turn);
	sl_list_add_head(&line->calls, &call->link);
	q->cnt++;
}

static bool has_stream(const struct agent_client *c, const struct agent_call *call,
		       const struct agent_shares *s)
{
	return !call->body.on || !c->key || c->streams_cnt < s->streams;
}

static uint32_t half_of(const struct agent_shares *s)
{
	return s->places > 1 ? s->places / 2 : 1;
}

/* A place is free, or may be taken beyond the limit because an address has more than half. */
static bool is_open(const struct agent_queue *q, const struct agent_shares *s)
{
	uint32_t half = half_of(s);

	if (s->busy < s->places)
		return true;
	return !s->exact && q->heaviest && q->heaviest->held > half &&
	       s->busy - s->places < q->heaviest->held - half;
}

/* Skips clients with half of the places or streams; there are at most five. */
static struct agent_call *first_of(const struct agent_queue *q, unsigned class,
				   const struct agent_shares *s)
{
	const struct sl_list *turns = &q->turns[class];
	struct agent_call *heavy = NULL;
	struct sl_list *l;

	sl_list_for_each (l, turns) {
		struct agent_client *c = sl_container_of(l, struct agent_client, of[class].turn);
		struct agent_call *call =
			sl_list_first(&c->of[class].calls, struct agent_call, link);

		if (!has_stream(c, call, s))
			continue;
		if (c->held < half_of(s))
			return call;
		if (!heavy && s->busy < s->places)
			heavy = call;
	}
	return heavy;
}

struct agent_call *agent_queue_next(const struct agent_queue *q, const struct agent_shares *s)
{
	bool least = (q->taken + 1) % AGENT_QUEUE_TURN_OF_LEAST == 0;
	struct agent_call *next = NULL, *call;

	if (!is_open(q, s))
		return NULL;
	for (unsigned i = 0; i < SL_CLASS_CNT && (least || !next); i++) {
		call = first_of(q, i, s);
		next = call ? call : next;
	}
	return next;
}

struct agent_call *agent_queue_any(const struct agent_queue *q)
{
	for (unsigned i = 0; i < SL_CLASS_CNT; i++) {
		struct agent_client *c;

		if (sl_list_empty(&q->turns[i]))
			continue;
		c = sl_container_of(q->turns[i].next, struct agent_client, of[i].turn);
		return sl_list_first(&c->of[i].calls, struct agent_call, link);
	}
	return NULL;
}

void agent_queue_take(struct agent_queue *q, struct agent_call *call)
{
	struct agent_line *line = line_of(call);

	q->taken++;
	agent_queue_remove(q, call);
	if (sl_list_empty(&line->calls))
		return;
	sl_list_del(&line->turn);
	sl_list_add_tail(&q->turns[call->rq->priority], &line->turn);
}

void agent_queue_remove(struct agent_queue *q, struct agent_call *call)
{
	struct agent_line *line = line_of(call);

	sl_list_del(&call->link);
	q->cnt--;
	if (sl_list_empty(&line->calls))
		sl_list_del(&line->turn);
}

void agent_queue_hold(struct agent_queue *q, struct agent_call *call)
{
	struct agent_client *c = call->client;

	c->held++;
	if (!q->heaviest || c->held >= q->heaviest->held)
		q->heaviest = c;
}

void agent_queue_release(struct agent_queue *q, struct agent_call *call)
{
	(void)q;
	call->client->held--;
}
