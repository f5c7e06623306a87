/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"

static void append(struct sl_tcp_queue *q, struct sl_tcp_conn *c)
{
	uint32_t link = conn_link(c);

	c->flags |= SL_TCPF_DIRTY;
	c->dirty_next = 0;
	if (q->tail)
		conn_of(c->tcp, q->tail)->dirty_next = link;
	else
		q->head = link;
	q->tail = link;
}

void sl_tcp_dirty(struct sl_tcp_conn *c)
{
	if (!(c->flags & SL_TCPF_DIRTY))
		append(&c->tcp->dirty, c);
}

void sl_tcp_later(struct sl_tcp_conn *c)
{
	SL_CHECK(!(c->flags & SL_TCPF_DIRTY));
	c->tcp->stats.sends_put_off++;
	append(&c->tcp->later, c);
}

struct sl_tcp_conn *sl_tcp_queue_pop(struct sl_tcp *t, struct sl_tcp_queue *q)
{
	struct sl_tcp_conn *c = conn_of(t, q->head);

	q->head = c->dirty_next;
	if (!q->head)
		q->tail = 0;
	c->flags &= ~(uint32_t)SL_TCPF_DIRTY;
	return c;
}

static uint32_t earlier(uint32_t a, uint32_t b)
{
	if (!a || !b)
		return a ? a : b;
	return (int32_t)(a - b) < 0 ? a : b;
}

void sl_tcp_arm(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	uint32_t at = earlier(earlier(c->rtx_at, c->ack_at), c->idle_at);
	int64_t delta;
	uint64_t tick;

	if (!at)
		return;
	delta = (int32_t)(at - now_tick(t));
	tick = (now_ns(t) >> SL_TCP_TICK_SHIFT) + (uint64_t)(delta > 0 ? delta : 0);
	if (!sl_timer_pending(&c->timer) || c->timer.tick > tick)
		sl_timer_set(&t->wheel, &c->timer, tick << SL_TCP_TICK_SHIFT);
}

void sl_tcp_set_idle(struct sl_tcp_conn *c, uint64_t delay_ns)
{
	c->idle_at = tick_after(c->tcp, delay_ns);
	sl_tcp_arm(c);
}

void sl_tcp_set_ack(struct sl_tcp_conn *c)
{
	if (c->flags & SL_TCPF_ACK_DELAY)
		return;
	c->flags |= SL_TCPF_ACK_DELAY;
	c->ack_at = tick_after(c->tcp, c->tcp->cfg.delayed_ack_ns);
	sl_tcp_arm(c);
}

void sl_tcp_set_rtx(struct sl_tcp_conn *c, enum sl_tcp_rtx kind, uint64_t delay_ns)
{
	c->rtx_kind = (uint8_t)kind;
	c->rtx_at = tick_after(c->tcp, delay_ns);
	sl_tcp_arm(c);
}
