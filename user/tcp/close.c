/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"

bool sl_tcp_try_finish(struct sl_tcp_conn *c)
{
	bool sent = (c->flags & SL_TCPF_FIN_QUEUED) && c->snd_una == c->snd_end;

	if (!sent || !(c->flags & SL_TCPF_FIN_RCVD))
		return true;
	if (c->rxq_head && !(c->flags & SL_TCPF_DISCARD))
		return true; /* unread bytes */
	if (c->state == SL_TCPS_LAST_ACK)
		sl_tcp_conn_gone(c, SL_TCP_CLOSED);
	else
		sl_tcp_tw_enter(c);
	return false;
}

void sl_tcp_shutdown(struct sl_tcp_conn *c)
{
	if (c->flags & SL_TCPF_FIN_WANTED)
		return;
	switch (c->state) {
	case SL_TCPS_ESTABLISHED: c->state = SL_TCPS_FIN_WAIT_1; break;
	case SL_TCPS_CLOSE_WAIT: c->state = SL_TCPS_LAST_ACK; break;
	default: return;
	}
	c->flags |= SL_TCPF_FIN_WANTED;
	c->flags &= ~(uint32_t)SL_TCPF_WANT_WRITE;
	c->idle_at = 0;
	sl_tcp_queue_fin(c);
	sl_tcp_dirty(c);
}

void sl_tcp_close(struct sl_tcp_conn *c)
{
	if (c->state == SL_TCPS_CLOSED)
		return;
	if (c->state <= SL_TCPS_SYN_RCVD) {
		sl_tcp_conn_gone(c, SL_TCP_CLOSED);
		return;
	}
	if (!(c->flags & SL_TCPF_DISCARD)) {
		c->flags |= SL_TCPF_DISCARD;
		sl_tcp_purge_rx(c);
		c->discard_end = c->rcv_nxt + c->tcp->cfg.discard_max;
	}
	sl_tcp_shutdown(c);
	if (c->state == SL_TCPS_FIN_WAIT_2)
		sl_tcp_set_idle(c, c->tcp->cfg.fin_wait2_ns);
	(void)sl_tcp_try_finish(c);
}

void sl_tcp_abort(struct sl_tcp_conn *c)
{
	if (c->state == SL_TCPS_CLOSED)
		return;
	if (c->state != SL_TCPS_SYN_SENT)
		sl_tcp_send_rst(c);
	sl_tcp_conn_drop(c);
}
