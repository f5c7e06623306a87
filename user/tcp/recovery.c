/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loss recovery: SACK scoreboard in the frames (RFC 6675), RACK-TLP (RFC 8985), PRR (RFC 6937).
 * NewReno (RFC 6582) without SACK. Eifel (RFC 3522): spurious recoveries.
 */
#include "tcp/internal.h"

/* RFC 8985 6.1 */
static bool sent_after(uint32_t us_a, uint32_t end_a, uint32_t us_b, uint32_t end_b)
{
	return sl_seq_gt(us_a, us_b) || (us_a == us_b && sl_seq_gt(end_a, end_b));
}

/* RFC 8985 6.2 step 2. A retransmitted segment counts only if it is this copy. */
void sl_tcp_rack_update(struct sl_tcp_conn *c, const struct sl_frame *f, uint32_t ts_ecr)
{
	uint32_t xmit = txf_us(f), end = txf_end(f), rtt = now_us(c->tcp) - xmit;

	if (f->xmit_cnt > 1) {
		uint32_t sent_ms = (uint32_t)(f->xmit_ns / SL_NS_PER_MS) + c->ts_off;

		if (ts_ecr && sl_seq_lt(ts_ecr, sent_ms))
			return;
		if (rtt < c->min_rtt_us)
			return;
	}
	if ((c->flags & SL_TCPF_RACK) && !sent_after(xmit, end, c->rack_xmit_us, c->rack_end_seq))
		return;
	c->flags |= SL_TCPF_RACK;
	c->rack_rtt_us = rtt;
	c->rack_xmit_us = xmit;
	c->rack_end_seq = end;
}

enum {
	WALKS_IN_VAIN = 128,
	WALK_ONE_IN = 64,
	WALKS_PER_NEWS = 4,
};

bool sl_tcp_may_walk(struct sl_tcp_conn *c)
{
	if (c->in_vain < WALKS_IN_VAIN)
		return true;
	if (++c->in_vain < WALKS_IN_VAIN + WALK_ONE_IN)
		return false;
	c->in_vain = WALKS_IN_VAIN;
	return true;
}

void sl_tcp_walked(struct sl_tcp_conn *c, const struct sl_tcp_acked *a)
{
	if (c->snd_una == c->snd_nxt)
		c->in_vain = 0;
	else if (a->sacked || a->whole)
		c->in_vain =
			(uint8_t)(c->in_vain > WALKS_PER_NEWS ? c->in_vain - WALKS_PER_NEWS : 0);
	else if (c->in_vain < WALKS_IN_VAIN)
		c->in_vain++;
}

static bool block_valid(const struct sl_tcp_conn *c, uint32_t start, uint32_t end)
{
	return sl_seq_lt(start, end) && sl_seq_geq(start, c->snd_una) &&
	       sl_seq_leq(end, c->snd_nxt);
}

static bool in_blocks(const struct sl_tcp_conn *c, const struct sl_tcp_opts *o,
		      const struct sl_frame *f)
{
	for (unsigned i = 0; i < o->sack_cnt; i++) {
		if (block_valid(c, o->sack[i].start, o->sack[i].end) &&
		    sl_seq_leq(o->sack[i].start, f->seq) && sl_seq_geq(o->sack[i].end, txf_end(f)))
			return true;
	}
	return false;
}

static uint32_t highest_end(const struct sl_tcp_conn *c, const struct sl_tcp_opts *o)
{
	uint32_t high = c->snd_una;

	for (unsigned i = 0; i < o->sack_cnt; i++) {
		if (block_valid(c, o->sack[i].start, o->sack[i].end))
			high = sl_seq_max(high, o->sack[i].end);
	}
	return high;
}

void sl_tcp_sack_mark(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a)
{
	const struct sl_tcp_opts *o = &seg->opts;
	uint32_t high = highest_end(c, o), walked = 0;

	/* RFC 2883 4 */
	a->dsack = sl_seq_leq(o->sack[0].end, seg->ack) ||
		   (o->sack_cnt > 1 && sl_seq_geq(o->sack[0].start, o->sack[1].start) &&
		    sl_seq_leq(o->sack[0].end, o->sack[1].end));
	for (struct sl_frame *f = frame_of(c->tcp, c->txq_head);
	     f && frame_link(f) != c->txq_send && sl_seq_lt(f->seq, high); f = f->next) {
		uint32_t len = txf_len(f);

		walked++;
		if (f->flags & SL_TXF_SACKED || !in_blocks(c, o, f))
			continue;
		sl_tcp_rack_update(c, f, seg->has_ts ? seg->ts_ecr : 0);
		if (f->xmit_cnt == 1) {
			uint32_t rtt = now_us(c->tcp) - txf_us(f);

			a->rtt_us = rtt ? rtt : 1;
			if (sl_seq_lt(txf_end(f), c->fack))
				c->flags |= SL_TCPF_REORDER; /* RFC 8985 6.2 step 3 */
		}
		if (f->flags & SL_TXF_LOST)
			c->lost_out -= len;
		if (f->flags & SL_TXF_RETX)
			c->retrans_out -= len;
		f->flags &= (uint8_t) ~(SL_TXF_LOST | SL_TXF_RETX);
		f->flags |= SL_TXF_SACKED;
		c->sacked_out += len;
		a->sacked += len;
	}
	c->tcp->walked += walked;
	c->fack = sl_seq_max(c->fack, high);
}

void sl_tcp_mark_lost(struct sl_tcp_conn *c, struct sl_frame *f)
{
	uint32_t len = txf_len(f);

	if (!(f->flags & SL_TXF_LOST))
		c->lost_out += len;
	if (f->flags & SL_TXF_RETX)
		c->retrans_out -= len;
	f->flags = (uint8_t)((f->flags | SL_TXF_LOST) & ~SL_TXF_RETX);
}

/* RFC 8985 6.2 step 4 */
static uint32_t reordering_window_us(const struct sl_tcp_conn *c)
{
	uint32_t wnd;

	if (!(c->flags & SL_TCPF_REORDER) &&
	    (c->recovery >= SL_RECOVERY_FAST ||
	     c->sacked_out >= (uint32_t)SL_TCP_DUP_THRESH * c->mss))
		return 0;
	wnd = c->min_rtt_us / 4 * c->reo_mult;
	return wnd < c->srtt_us ? wnd : c->srtt_us;
}

/* Step 5. */
void sl_tcp_rack_detect(struct sl_tcp_conn *c)
{
	uint32_t now = now_us(c->tcp), limit = c->rack_rtt_us + reordering_window_us(c);
	uint32_t wait = 0, walked = 0;

	if (c->rtx_kind == SL_RTX_REORDER)
		c->rtx_kind = SL_RTX_NONE;
	if (!(c->flags & SL_TCPF_RACK))
		return;
	for (struct sl_frame *f = frame_of(c->tcp, c->txq_head); f && frame_link(f) != c->txq_send;
	     f = f->next) {
		int32_t remaining;

		walked++;
		if ((f->flags & SL_TXF_SACKED) ||
		    (f->flags & (SL_TXF_LOST | SL_TXF_RETX)) == SL_TXF_LOST)
			continue;
		if (!sent_after(c->rack_xmit_us, c->rack_end_seq, txf_us(f), txf_end(f)))
			continue;
		remaining = (int32_t)(txf_us(f) + limit - now);
		if (remaining <= 0)
			sl_tcp_mark_lost(c, f);
		else if ((uint32_t)remaining > wait)
			wait = (uint32_t)remaining;
	}
	c->tcp->walked += walked;
	if (wait)
		sl_tcp_set_rtx(c, SL_RTX_REORDER, wait * SL_NS_PER_US);
}

static void save_undo(struct sl_tcp_conn *c)
{
	c->undo_cwnd = c->cwnd;
	c->undo_ssthresh = c->ssthresh;
	c->undo_ts = 0;
	c->flags |= SL_TCPF_UNDO;
}

static void enter_recovery(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	uint32_t flight = c->snd_nxt - c->snd_una;

	save_undo(c);
	c->ssthresh = sl_tcp_cubic_loss(c);
	c->recover = c->snd_nxt;
	c->recovery = SL_RECOVERY_FAST;
	c->cc.prr = (struct sl_tcp_prr){.flight = flight ? flight : 1};
	if (c->reo_persist)
		c->reo_persist--;
	if (!c->reo_persist)
		c->reo_mult = 1;
	t->stats.fast_retransmits++;
}

void sl_tcp_enter_loss(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *head = frame_of(t, c->txq_head);
	bool reneged = head && (head->flags & SL_TXF_SACKED); /* RFC 6675 5.1 */

	/* Once per window of data: RFC 5681 3.1. */
	if (c->recovery < SL_RECOVERY_FAST || sl_seq_geq(c->snd_una, c->recover)) {
		save_undo(c);
		c->ssthresh = sl_tcp_cubic_loss(c);
	}
	for (struct sl_frame *f = head; f && frame_link(f) != c->txq_send; f = f->next) {
		if (reneged && (f->flags & SL_TXF_SACKED)) {
			f->flags &= (uint8_t)~SL_TXF_SACKED;
			c->sacked_out -= txf_len(f);
		}
		if (!(f->flags & SL_TXF_SACKED))
			sl_tcp_mark_lost(c, f);
	}
	if (!(c->flags & SL_TCPF_SACK)) {
		c->sacked_out = 0;
		c->dupacks = 0;
	}
	c->cwnd = c->mss;
	c->recover = c->snd_nxt;
	c->recovery = SL_RECOVERY_LOSS;
	c->flags &= ~(uint32_t)(SL_TCPF_TLP_OUT | SL_TCPF_RACK);
	c->flags |= SL_TCPF_CWND_LIMITED;
	c->reo_mult = 1;
	sl_tcp_slow_start_begin(c);
}

/* RFC 3522: the echo is from before the first retransmission. */
static bool undo(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	if (!(c->flags & SL_TCPF_UNDO) || !(c->flags & SL_TCPF_TS) || !c->undo_ts || !seg->has_ts ||
	    !sl_seq_lt(seg->ts_ecr, c->undo_ts))
		return false;
	for (struct sl_frame *f = frame_of(c->tcp, c->txq_head); f && frame_link(f) != c->txq_send;
	     f = f->next)
		f->flags &= (uint8_t) ~(SL_TXF_LOST | SL_TXF_RETX);
	c->lost_out = 0;
	c->retrans_out = 0;
	c->cwnd = c->undo_cwnd;
	c->ssthresh = c->undo_ssthresh;
	if (c->recovery == SL_RECOVERY_FAST)
		sl_tcp_slow_start_end(c);
	c->recovery = SL_RECOVERY_OPEN;
	c->flags &= ~(uint32_t)SL_TCPF_UNDO;
	c->flags |= SL_TCPF_REORDER;
	c->backoff = 0;
	if (!(c->flags & SL_TCPF_SACK))
		c->dupacks = 0;
	return true;
}

/* RFC 6582 */
static void newreno(struct sl_tcp_conn *c, const struct sl_tcp_acked *a, bool duplicate)
{
	struct sl_frame *head = frame_of(c->tcp, c->txq_head);
	uint32_t limit = c->snd_nxt - c->snd_una;

	if (a->acked) {
		uint32_t segs = (a->acked + c->mss - 1) / c->mss;

		c->dupacks = (uint8_t)(c->dupacks > segs ? c->dupacks - segs : 0);
		if (c->recovery < SL_RECOVERY_FAST)
			c->dupacks = 0;
	} else if (duplicate && c->dupacks < UINT8_MAX) {
		c->dupacks++;
	}
	limit = limit > c->mss ? limit - c->mss : 0;
	c->sacked_out = (uint32_t)c->dupacks * c->mss;
	if (c->sacked_out + c->lost_out > limit)
		c->sacked_out = limit > c->lost_out ? limit - c->lost_out : 0;
	if (!head || frame_link(head) == c->txq_send)
		return;
	if (c->recovery >= SL_RECOVERY_FAST) {
		if (a->acked && !(head->flags & SL_TXF_LOST))
			sl_tcp_mark_lost(c, head);
	} else if (c->dupacks >= SL_TCP_DUP_THRESH && sl_seq_gt(c->snd_una, c->recover)) {
		sl_tcp_mark_lost(c, head);
	}
}

/* RFC 6937 3 */
static void proportional_rate(struct sl_tcp_conn *c, const struct sl_tcp_acked *a, bool progress)
{
	struct sl_tcp_prr *p = &c->cc.prr;
	uint32_t delivered = a->acked + a->sacked, pipe = in_flight(c);
	int64_t room;

	p->delivered += delivered;
	if (pipe > c->ssthresh) {
		room = (int64_t)(((uint64_t)p->delivered * c->ssthresh + p->flight - 1) /
				 p->flight) -
		       p->out;
	} else {
		int64_t owed = (int64_t)p->delivered - p->out;

		if (owed < (int64_t)delivered)
			owed = delivered;
		room = progress ? owed + c->mss : owed;
		if (room > (int64_t)c->ssthresh - pipe)
			room = (int64_t)c->ssthresh - pipe;
	}
	if (p->out == 0 && room < c->mss) /* the fast retransmission itself */
		room = c->mss;
	c->cwnd = pipe + (room > 0 ? (uint32_t)room : 0);
	if (!c->cwnd) /* everything is lost */
		c->cwnd = c->mss;
}

void sl_tcp_recover(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg, struct sl_tcp_acked *a,
		    bool duplicate)
{
	uint32_t lost_before = c->lost_out;

	if (a->dsack) {
		if (c->reo_mult < 20)
			c->reo_mult++;
		c->reo_persist = 16;
	}
	if (a->acked && c->recovery >= SL_RECOVERY_FAST && undo(c, seg))
		return;
	if (c->recovery >= SL_RECOVERY_FAST && sl_seq_geq(c->snd_una, c->recover)) {
		if (c->recovery == SL_RECOVERY_FAST) {
			c->cwnd = c->ssthresh;
			sl_tcp_slow_start_end(c);
		}
		c->recovery = SL_RECOVERY_OPEN;
		c->flags &= ~(uint32_t)SL_TCPF_UNDO;
		if (!(c->flags & SL_TCPF_SACK)) {
			c->dupacks = 0;
			c->sacked_out = 0;
		}
	}
	if (!(c->flags & SL_TCPF_SACK))
		newreno(c, a, duplicate);
	else if (!a->put_off)
		sl_tcp_rack_detect(c);
	if (c->recovery < SL_RECOVERY_FAST && c->lost_out)
		enter_recovery(c);
	if (c->recovery == SL_RECOVERY_FAST)
		proportional_rate(c, a, a->acked && c->lost_out <= lost_before);
	if (c->recovery < SL_RECOVERY_FAST)
		c->recovery =
			c->sacked_out || has_dupacks(c) ? SL_RECOVERY_DISORDER : SL_RECOVERY_OPEN;
}

void sl_tcp_reorder_timeout(struct sl_tcp_conn *c)
{
	struct sl_tcp_acked none = {0};

	sl_tcp_rack_detect(c);
	if (c->lost_out && c->recovery < SL_RECOVERY_FAST)
		enter_recovery(c);
	if (c->recovery == SL_RECOVERY_FAST)
		proportional_rate(c, &none, false);
	sl_tcp_rearm_rtx(c);
	sl_tcp_dirty(c);
}

/* RFC 8985 7.4 */
void sl_tcp_tlp_ack(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg,
		    const struct sl_tcp_acked *a)
{
	if (sl_seq_lt(seg->ack, c->tlp_end_seq))
		return;
	if (!(c->flags & SL_TCPF_TLP_RETX) || a->dsack) {
		c->flags &= ~(uint32_t)SL_TCPF_TLP_OUT;
	} else if (a->acked) {
		/* One copy arrived; another ACK without DSACK means a repaired loss. */
		if (sl_seq_leq(seg->ack, c->tlp_end_seq))
			return;
		c->flags &= ~(uint32_t)SL_TCPF_TLP_OUT;
		if (c->recovery >= SL_RECOVERY_FAST)
			return;
		c->ssthresh = sl_tcp_cubic_loss(c);
		c->cwnd = c->ssthresh;
		sl_tcp_slow_start_end(c);
	} else if (!a->sacked && seg->len == 0) {
		c->flags &= ~(uint32_t)SL_TCPF_TLP_OUT;
	}
}
