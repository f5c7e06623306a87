/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue.h"

void agent_queue_init(struct agent_queue *q)
{
	for (unsigned i = 0; i < SL_CLASS_CNT; i++)
		sl_list_init(&q->of[i]);
	q->cnt = q->taken = 0;
}

void agent_queue_add(struct agent_queue *q, struct sl_list *node, enum sl_rpc_class class)
{
	sl_list_add_tail(&q->of[class], node);
	q->cnt++;
}

void agent_queue_again(struct agent_queue *q, struct sl_list *node, enum sl_rpc_class class)
{
	sl_list_add_head(&q->of[class], node);
	q->cnt++;
}

struct sl_list *agent_queue_next(const struct agent_queue *q)
{
	bool least = (q->taken + 1) % AGENT_QUEUE_TURN_OF_LEAST == 0;
	struct sl_list *next = NULL;

	for (unsigned i = 0; i < SL_CLASS_CNT && (least || !next); i++) {
		if (!sl_list_empty(&q->of[i]))
			next = q->of[i].next;
	}
	return next;
}

void agent_queue_take(struct agent_queue *q, struct sl_list *node)
{
	q->taken++;
	agent_queue_remove(q, node);
}

void agent_queue_remove(struct agent_queue *q, struct sl_list *node)
{
	sl_list_del(node);
	q->cnt--;
}
