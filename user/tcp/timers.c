/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"

static bool gave_up(const struct sl_tcp_conn *c)
{
	const struct sl_tcp *t = c->tcp;
	uint32_t since = c->progress_at;

	/* RFC 9293 3.8.6.1 */
	if (c->rtx_kind == SL_RTX_PERSIST && !(c->flags & SL_TCPF_DISCARD) &&
	    (int32_t)(c->heard_at - since) > 0)
		since = c->heard_at;
	return t->cfg.user_timeout_ns && ticks_ns(now_tick(t) - since) >= t->cfg.user_timeout_ns;
}

static void syn_timeout(struct sl_tcp_conn *c)
{
	if (c->backoff >= SL_TCP_SYN_RETRIES) {
		sl_tcp_conn_gone(c, SL_TCP_TIMEOUT);
		return;
	}
	c->backoff++;
	c->flags |= SL_TCPF_SYN_NOW;
	c->tcp->stats.retransmits++;
	sl_tcp_dirty(c);
}

static void rto_timeout(struct sl_tcp_conn *c)
{
	if (c->state < SL_TCPS_ESTABLISHED) {
		syn_timeout(c);
		return;
	}
	if (gave_up(c)) {
		sl_tcp_conn_gone(c, SL_TCP_TIMEOUT);
		return;
	}
	c->tcp->stats.rto_fired++;
	sl_tcp_enter_loss(c);
	if (c->backoff < 15)
		c->backoff++;
	sl_tcp_rearm_rtx(c);
	sl_tcp_dirty(c);
}

static void persist_timeout(struct sl_tcp_conn *c)
{
	if (gave_up(c)) {
		sl_tcp_conn_gone(c, SL_TCP_TIMEOUT);
		return;
	}
	c->flags |= SL_TCPF_PROBE_NOW;
	if (c->backoff < 15)
		c->backoff++;
	sl_tcp_set_rtx(c, SL_RTX_PERSIST, (uint64_t)sl_tcp_rto_us(c) * SL_NS_PER_US);
	sl_tcp_dirty(c);
}

static void rtx_timeout(struct sl_tcp_conn *c)
{
	enum sl_tcp_rtx kind = c->rtx_kind;

	c->rtx_kind = SL_RTX_NONE;
	c->rtx_at = 0;
	switch (kind) {
	case SL_RTX_NONE: break;
	case SL_RTX_RTO: rto_timeout(c); break;
	case SL_RTX_TLP:
		/* Sent by sl_tcp_output(): the last frame may be in use by sl_tcp_lay(). */
		c->flags |= SL_TCPF_TLP_NOW;
		sl_tcp_dirty(c);
		break;
	case SL_RTX_REORDER: sl_tcp_reorder_timeout(c); break;
	case SL_RTX_PERSIST:
		c->rtx_kind = SL_RTX_PERSIST;
		persist_timeout(c);
		break;
	case SL_RTX_NO_FRAME:
		sl_tcp_dirty(c);
		(void)sl_tcp_tell_writable(c);
		break;
	}
}

static void idle_timeout(struct sl_tcp_conn *c)
{
	const struct sl_tcp_config *cfg = &c->tcp->cfg;
	uint64_t idle = ticks_ns(now_tick(c->tcp) - c->heard_at);
	uint64_t gap =
		cfg->keepalive_ns < SL_TCP_KEEPALIVE_GAP ? cfg->keepalive_ns : SL_TCP_KEEPALIVE_GAP;

	c->idle_at = 0;
	if (c->state == SL_TCPS_FIN_WAIT_2) {
		sl_tcp_conn_gone(c, SL_TCP_TIMEOUT);
		return;
	}
	if (c->state != SL_TCPS_ESTABLISHED && c->state != SL_TCPS_CLOSE_WAIT)
		return;
	/* Keep-alive: RFC 9293 3.8.4 */
	if (idle < cfg->keepalive_ns) {
		c->probes = 0;
		sl_tcp_set_idle(c, cfg->keepalive_ns - idle);
		return;
	}
	if (c->probes >= SL_TCP_KEEPALIVE_MAX) {
		sl_tcp_send_rst(c);
		sl_tcp_conn_gone(c, SL_TCP_TIMEOUT);
		return;
	}
	if (c->snd_una == c->snd_nxt) { /* otherwise retransmissions probe */
		c->probes++;
		c->flags |= SL_TCPF_PROBE_NOW;
		sl_tcp_dirty(c);
	}
	sl_tcp_set_idle(c, gap);
}

static void timer_cb(void *arg, struct sl_timer *timer)
{
	struct sl_tcp_conn *c = sl_container_of(timer, struct sl_tcp_conn, timer);
	struct sl_tcp *t = arg;

	if (tick_due(t, c->ack_at)) {
		c->ack_at = 0;
		c->flags = (c->flags & ~(uint32_t)SL_TCPF_ACK_DELAY) | SL_TCPF_ACK_NOW;
		sl_tcp_dirty(c);
	}
	if (tick_due(t, c->rtx_at))
		rtx_timeout(c);
	if (c->state != SL_TCPS_CLOSED && tick_due(t, c->idle_at))
		idle_timeout(c);
	if (c->state != SL_TCPS_CLOSED)
		sl_tcp_arm(c);
}

void sl_tcp_timer(struct sl_tcp *t)
{
	if (t->dead_head)
		sl_tcp_reap(t);
	sl_tcp_tw_expire(t);
	(void)sl_wheel_advance(&t->wheel, now_ns(t), timer_cb, t, SL_TCP_TIMER_BURST);
}

uint64_t sl_tcp_next_ns(const struct sl_tcp *t)
{
	uint64_t wheel = sl_wheel_next_ns(&t->wheel), tw = sl_tcp_tw_next_ns(t);

	if (t->later.head)
		return now_ns(t);
	return wheel < tw ? wheel : tw;
}
