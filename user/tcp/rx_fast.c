/* SPDX-License-Identifier: Apache-2.0 */
/* Header prediction. */
#include "tcp/internal.h"

static inline bool needs_slow_path(const struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	uint32_t acked = seg->ack - c->snd_una;
	bool ts = c->flags & SL_TCPF_TS;
	bool slow;

	slow = c->state != SL_TCPS_ESTABLISHED;
	slow |= (seg->flags & ~SL_TCP_PSH) != SL_TCP_ACK;
	/* Another sender, also on a routed path. */
	slow |= ((seg->seq ^ c->rcv_nxt) | (seg->f->sender ^ c->path.sender)) != 0;
	slow |= !seg->plain; /* SACK blocks or unknown options */
	slow |= seg->has_ts != ts;
	slow |= ts & (sl_seq_lt(seg->ts_val, c->ts_recent));
	slow |= acked > c->snd_nxt - c->snd_una;
	slow |= seg->wnd == 0;
	slow |= c->recovery != SL_RECOVERY_OPEN;
	slow |= c->ooo_head != 0;
	slow |= seg->len > c->rcv_adv - c->rcv_nxt;
	slow |= (c->flags & (SL_TCPF_FIN_WANTED | SL_TCPF_TLP_OUT | SL_TCPF_DISCARD)) != 0;
	slow |= (c->rtx_kind == SL_RTX_PERSIST) | (c->probes != 0);
	slow |= (acked | seg->len) == 0; /* duplicate, keep-alive or window update */
	return slow;
}

static inline void take_window(struct sl_tcp_conn *c, uint32_t wnd)
{
	if (wnd == c->snd_wnd)
		return;
	c->snd_wnd = wnd;
	if (wnd > c->max_snd_wnd)
		c->max_snd_wnd = wnd;
	if (c->txq_send)
		sl_tcp_dirty(c);
}

bool sl_tcp_rx_fast(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	struct sl_tcp *t = c->tcp;

	if (needs_slow_path(c, seg))
		return false;
	c->heard_at = now_tick(t);
	if (seg->has_ts && sl_seq_leq(seg->seq, c->last_ack_sent)) /* RFC 7323 4.3 */
		c->ts_recent = seg->ts_val;
	c->snd_wl1 = seg->seq;
	c->snd_wl2 = seg->ack;
	take_window(c, (uint32_t)seg->wnd << c->snd_wscale);
	if (seg->ack != c->snd_una) {
		sl_tcp_ack(c, seg, false);
		if (!sl_tcp_tell_writable(c)) {
			sl_frame_put(t->umem, seg->f);
			return true;
		}
	}
	if (seg->len == 0) {
		sl_frame_put(t->umem, seg->f);
		return true;
	}
	(void)sl_tcp_deliver(c, seg->f);
	return true;
}
