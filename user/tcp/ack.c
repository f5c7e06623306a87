/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"

/* Karn: no RTT sample from retransmissions. */
static void sample_frame(struct sl_tcp_conn *c, const struct sl_frame *f, struct sl_tcp_acked *a)
{
	uint32_t rtt;

	if (f->xmit_cnt > 1) {
		a->retx_acked = true;
		return;
	}
	rtt = now_us(c->tcp) - txf_us(f);
	if (rtt == 0)
		rtt = 1;
	a->rtt_us = rtt;
	if (!a->first_us)
		a->first_us = rtt;
}

static void clean_queue(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f;
	bool rack = (c->flags & SL_TCPF_SACK) != 0;

	while ((f = frame_of(t, c->txq_head)) && frame_link(f) != c->txq_send &&
	       sl_seq_leq(txf_end(f), seg->ack)) {
		if (!(f->flags & SL_TXF_SACKED)) {
			sample_frame(c, f, a);
			if (f->xmit_cnt == 1 && sl_seq_lt(txf_end(f), c->fack))
				c->flags |= SL_TCPF_REORDER; /* RFC 8985 6.2 step 3 */
			if (rack)
				sl_tcp_rack_update(c, f, seg->has_ts ? seg->ts_ecr : 0);
		}
		sl_tcp_txq_pop(c);
		a->whole = true;
	}
	if (f && frame_link(f) != c->txq_send && sl_seq_lt(f->seq, seg->ack))
		sl_tcp_txq_trim_head(c, seg->ack);
	c->snd_una = seg->ack;
	if (sl_seq_lt(c->fack, seg->ack))
		c->fack = seg->ack;
}

/* RFC 7323 4.1 */
static uint32_t rtt_from_ts(const struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	uint32_t ms = ts_clock(c->tcp, c->ts_off) - seg->ts_ecr;

	if (!seg->has_ts || !seg->ts_ecr || ms > SL_TCP_RTO_MAX_US / 1000)
		return 0;
	return ms ? ms * 1000 : 1000;
}

static void update_rtt(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a)
{
	uint32_t rtt = a->first_us;

	if (!rtt && a->retx_acked && (c->flags & SL_TCPF_TS))
		rtt = rtt_from_ts(c, seg);
	if (!rtt)
		return;
	sl_tcp_rtt_sample(c, rtt);
	if (a->rtt_us && (!c->min_rtt_us || a->rtt_us < c->min_rtt_us))
		c->min_rtt_us = a->rtt_us;
	c->backoff = 0;
}

/*
 * Beyond the address's share of the turn: the timer looks for losses; the next acknowledgement
 * repeats the blocks.
 */
static void put_off(struct sl_tcp_conn *c, struct sl_tcp_acked *a)
{
	c->tcp->stats.acks_put_off++;
	a->put_off = true;
	if (a->whole && c->snd_una != c->snd_nxt)
		sl_tcp_set_rtx(c, SL_RTX_REORDER, SL_NS_PER_MS);
}

void sl_tcp_ack(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, bool window_changed)
{
	struct sl_tcp *t = c->tcp;
	struct sl_tcp_acked a = {
		.acked = seg->ack - c->snd_una,
		.prior_flight = in_flight(c),
	};
	/* RFC 5681 2 */
	bool duplicate = seg->ack == c->snd_una && seg->len == 0 && !window_changed &&
			 !(seg->flags & (SL_TCP_SYN | SL_TCP_FIN)) && c->snd_una != c->snd_nxt;
	bool recovering = c->recovery == SL_RECOVERY_FAST;
	struct sl_tcp_share *share;
	uint64_t before;
	bool walks, sacks = !seg->plain && seg->opts.sack_cnt && (c->flags & SL_TCPF_SACK);

	if (a.acked) {
		clean_queue(c, seg, &a);
		c->progress_at = now_tick(t);
	}
	walks = (c->flags & SL_TCPF_SACK) &&
		(sacks || duplicate || c->recovery != SL_RECOVERY_OPEN);
	if (walks && !a.whole && !sl_tcp_may_walk(c)) {
		t->stats.sack_scans_skipped++;
		if (window_changed)
			sl_tcp_dirty(c);
		return;
	}
	share = walks ? sl_tcp_share_of(t, &c->path) : NULL;
	if (share && sl_unlikely(share->walks >= SL_TCP_ADDR_WALKS)) {
		put_off(c, &a);
		if (!a.whole) {
			if (window_changed)
				sl_tcp_dirty(c);
			return;
		}
		sacks = false;
	}
	before = t->walked;
	if (sacks)
		sl_tcp_sack_mark(c, seg, &a);
	update_rtt(c, seg, &a);
	if (c->flags & SL_TCPF_TLP_OUT)
		sl_tcp_tlp_ack(c, seg, &a);
	if (c->recovery != SL_RECOVERY_OPEN || sacks || duplicate || has_dupacks(c))
		sl_tcp_recover(c, seg, &a, duplicate);
	if (share && !a.put_off) {
		share->walks += (uint32_t)(t->walked - before);
		sl_tcp_walked(c, &a);
	}
	recovering |= c->recovery == SL_RECOVERY_FAST;
	if (a.acked && !recovering && (c->flags & SL_TCPF_CWND_LIMITED))
		sl_tcp_cubic_acked(c, a.acked, a.rtt_us);
	if (a.acked || a.sacked)
		sl_tcp_rearm_rtx(c);
	if (c->txq_head)
		sl_tcp_dirty(c);
}

bool sl_tcp_tell_writable(struct sl_tcp_conn *c)
{
	if (!(c->flags & SL_TCPF_WANT_WRITE))
		return true;
	if (sl_tcp_send_room(c) < sl_tcp_send_most(c) / 3) {
		/* No acknowledgement will trigger another call. */
		if (c->snd_una == c->snd_end && c->rtx_kind == SL_RTX_NONE)
			sl_tcp_set_rtx(c, SL_RTX_NO_FRAME, SL_TCP_NO_FRAME_NS);
		return true;
	}
	c->flags &= ~(uint32_t)SL_TCPF_WANT_WRITE;
	ops_of(c)->writable(c->handle);
	return c->state != SL_TCPS_CLOSED;
}
