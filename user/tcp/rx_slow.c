/* SPDX-License-Identifier: Apache-2.0 */
/* In the order of RFC 9293 3.10.7.4. */
#include "tcp/internal.h"

enum verdict {
	GO_ON,
	DONE, /* segment consumed, connection alive */
	GONE,
};

static void ack_now(struct sl_tcp_conn *c)
{
	c->flags |= SL_TCPF_ACK_NOW;
	sl_tcp_dirty(c);
}

static void challenge(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;

	if (c->flags & SL_TCPF_ACK_NOW)
		return; /* an ACK is sent anyway */
	if (!sl_tcp_may_challenge(t, &c->challenged_at)) {
		sl_net_drop(t->net, SL_DROP_CHALLENGE_LIMIT);
		return;
	}
	t->stats.challenge_acks++;
	c->flags |= SL_TCPF_ACK_NOW;
	sl_tcp_dirty(c);
}

static uint32_t seg_space(const struct sl_tcp_seg *seg)
{
	return seg->len + ((seg->flags & SL_TCP_SYN) ? 1u : 0u) +
	       ((seg->flags & SL_TCP_FIN) ? 1u : 0u);
}

/*
 * RFC 7323 5. After 24 days without segments the peer's clock may have wrapped. Segments without a
 * timestamp pass, as in Linux.
 */
static bool fails_paws(const struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	if (!(c->flags & SL_TCPF_TS) || !seg->has_ts || (seg->flags & SL_TCP_RST))
		return false;
	return sl_seq_lt(seg->ts_val, c->ts_recent) &&
	       now_tick(c->tcp) - c->heard_at < SL_TCP_PAWS_IDLE_TICK;
}

/*
 * First. An empty segment may be from our last acknowledgement to the window's right edge,
 * inclusive: data can overtake it or fill the window.
 */
static bool sequence_ok(const struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	uint32_t space = seg_space(seg);

	if (space == 0)
		return sl_seq_geq(seg->seq, c->last_ack_sent) &&
		       sl_seq_leq(seg->seq, sl_seq_max(c->rcv_adv, c->rcv_nxt));
	return sl_seq_lt(seg->seq, c->rcv_adv) && sl_seq_gt(seg->seq + space, c->rcv_nxt);
}

static void note_old_bytes(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	uint32_t len = seg->len < 0xffff ? seg->len : 0xffff;

	if (!len || sl_seq_gt(seg->seq + len, c->rcv_nxt))
		return;
	c->dsack_seq = seg->seq;
	c->dsack_len = (uint16_t)len;
	c->flags |= SL_TCPF_DSACK;
}

/*
 * Another router or interface now leads to the peer. Segments above a new MTU are cut and resent.
 */
static void follow_next_hop(struct sl_tcp_conn *c, const struct sl_frame *f)
{
	struct sl_net *n = c->tcp->net;
	uint32_t mtu = sl_net_mtu(n, &c->path);

	if (!sl_net_follow_next_hop(n, f, &c->path))
		return;
	if (sl_net_mtu(n, &c->path) < mtu)
		sl_tcp_lower_mss(c, sl_net_mtu(n, &c->path));
}

/* Repeated bytes or a probe: the sender got no acknowledgement; the next hop may have failed. */
static bool repeats_recent_bytes(const struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	uint32_t old = c->rcv_nxt - seg->seq;

	return (seg->flags & (SL_TCP_ACK | SL_TCP_SYN | SL_TCP_RST)) == SL_TCP_ACK && old &&
	       old <= c->tcp->cfg.rcv_buf && seg->len <= old && sl_seq_leq(seg->ack, c->snd_nxt) &&
	       sl_seq_geq(seg->ack, c->snd_una - c->max_snd_wnd);
}

static void reject_sequence(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	struct sl_tcp *t = c->tcp;

	sl_net_drop(t->net, seg->len && sl_seq_leq(seg->seq + seg->len, c->rcv_nxt)
				    ? SL_DROP_TCP_DUPLICATE
			    : seg->len && sl_seq_geq(seg->seq, c->rcv_adv) ? SL_DROP_TCP_WINDOW
									   : SL_DROP_TCP_SEQUENCE);
	if (seg->flags & SL_TCP_RST)
		return;
	/* The SYN-ACK was lost. */
	if (c->state == SL_TCPS_SYN_RCVD && (seg->flags & SL_TCP_SYN) &&
	    seg->seq == c->rcv_nxt - 1) {
		if (!sl_net_from_next_hop(seg->f, &c->path))
			sl_net_follow_next_hop(t->net, seg->f, &c->path);
		c->flags |= SL_TCPF_SYN_NOW;
		sl_tcp_dirty(c);
		return;
	}
	if (seg->flags & SL_TCP_SYN) { /* RFC 5961 4 */
		sl_net_drop(t->net, SL_DROP_TCP_SYN_IN_CONN);
		challenge(c);
		return;
	}
	if (repeats_recent_bytes(c, seg) && !sl_net_from_next_hop(seg->f, &c->path))
		follow_next_hop(c, seg->f);
	note_old_bytes(c, seg);
	/* Keep-alives, probes and retransmitted bytes are always answered. */
	if (seg->len || (seg->flags & SL_TCP_FIN) || seg->seq == c->rcv_nxt - 1)
		ack_now(c);
	else
		challenge(c);
}

static enum verdict check_sequence(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	struct sl_tcp *t = c->tcp;

	if (fails_paws(c, seg)) {
		sl_net_drop(t->net, SL_DROP_TCP_PAWS);
		note_old_bytes(c, seg);
		/* An empty segment may answer our answer: it needs a budget. */
		if (seg_space(seg))
			ack_now(c);
		else
			challenge(c);
		return DONE;
	}
	if (!sequence_ok(c, seg)) {
		reject_sequence(c, seg);
		return DONE;
	}
	c->heard_at = now_tick(t);
	if (c->state >= SL_TCPS_ESTABLISHED)
		c->probes = 0;
	/* RFC 7323 4.3 */
	if ((c->flags & SL_TCPF_TS) && seg->has_ts && !(seg->flags & SL_TCP_RST) &&
	    sl_seq_leq(seg->seq, c->last_ack_sent) && sl_seq_geq(seg->ts_val, c->ts_recent))
		c->ts_recent = seg->ts_val;
	return GO_ON;
}

/* Second. RFC 5961 3.2 */
static enum verdict check_rst(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	if (!(seg->flags & SL_TCP_RST))
		return GO_ON;
	if (seg->seq != c->rcv_nxt) {
		sl_net_drop(c->tcp->net, SL_DROP_TCP_RST);
		challenge(c);
		return DONE;
	}
	c->tcp->stats.resets_in++;
	sl_tcp_conn_gone(c, (c->flags & SL_TCPF_ACTIVE) && c->state == SL_TCPS_SYN_RCVD
				    ? SL_TCP_UNREACHABLE
				    : SL_TCP_RESET);
	return GONE;
}

/* Fourth. RFC 5961 4.2 */
static enum verdict check_syn(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	if (!(seg->flags & SL_TCP_SYN))
		return GO_ON;
	sl_net_drop(c->tcp->net, SL_DROP_TCP_SYN_IN_CONN);
	challenge(c);
	return DONE;
}

static enum verdict ack_in_syn_rcvd(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	if (sl_seq_leq(seg->ack, c->snd_una) || sl_seq_gt(seg->ack, c->snd_nxt)) {
		sl_net_drop(c->tcp->net, SL_DROP_TCP_ACK);
		sl_tcp_answer_rst(c->tcp, seg, &c->path, c->local_port_be, c->remote_port_be);
		return DONE;
	}
	c->snd_una = seg->ack;
	c->snd_wnd = (uint32_t)seg->wnd << c->snd_wscale;
	c->max_snd_wnd = c->snd_wnd;
	c->snd_wl1 = seg->seq;
	c->snd_wl2 = seg->ack;
	return sl_tcp_establish(c) ? GO_ON : GONE;
}

static bool fin_acked(struct sl_tcp_conn *c)
{
	if (c->state == SL_TCPS_FIN_WAIT_1 || c->state == SL_TCPS_CLOSING) {
		c->state = SL_TCPS_FIN_WAIT_2;
		sl_tcp_set_idle(c, c->tcp->cfg.fin_wait2_ns);
	}
	return sl_tcp_try_finish(c);
}

static bool update_window(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	uint32_t wnd = (uint32_t)seg->wnd << c->snd_wscale;
	bool changed = wnd != c->snd_wnd;

	if (!(sl_seq_lt(c->snd_wl1, seg->seq) ||
	      (c->snd_wl1 == seg->seq && sl_seq_leq(c->snd_wl2, seg->ack)) ||
	      (seg->ack == c->snd_una && wnd > c->snd_wnd)))
		return false;
	c->snd_wnd = wnd;
	c->snd_wl1 = seg->seq;
	c->snd_wl2 = seg->ack;
	if (wnd > c->max_snd_wnd)
		c->max_snd_wnd = wnd;
	if (changed && c->rtx_kind == SL_RTX_PERSIST) {
		c->backoff = 0;
		c->rtx_kind = SL_RTX_NONE;
		c->rtx_at = 0;
	}
	if (c->txq_send)
		sl_tcp_dirty(c);
	return changed;
}

/* Fifth: ACK. */
static enum verdict check_ack(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	bool changed;

	if (!(seg->flags & SL_TCP_ACK)) {
		sl_net_drop(c->tcp->net, SL_DROP_TCP_FLAGS);
		return DONE;
	}
	if (c->state == SL_TCPS_SYN_RCVD) {
		enum verdict v = ack_in_syn_rcvd(c, seg);

		if (v != GO_ON)
			return v;
	}
	/* RFC 5961 5.2 */
	if (sl_seq_lt(seg->ack, c->snd_una - c->max_snd_wnd) || sl_seq_gt(seg->ack, c->snd_nxt)) {
		sl_net_drop(c->tcp->net, SL_DROP_TCP_ACK);
		challenge(c);
		return DONE;
	}
	if (sl_seq_lt(seg->ack, c->snd_una))
		return GO_ON; /* possibly with new bytes */
	changed = update_window(c, seg);
	sl_tcp_ack(c, seg, changed);
	if ((c->flags & SL_TCPF_FIN_QUEUED) && c->snd_una == c->snd_end && !fin_acked(c))
		return GONE;
	return sl_tcp_tell_writable(c) ? GO_ON : GONE;
}

/* A cut at the end removes the FIN. */
static void fit_to_window(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	struct sl_frame *f = seg->f;
	uint32_t old = c->rcv_nxt - f->seq;

	if ((int32_t)old > 0) {
		if (old > f->len)
			old = f->len;
		f->data += old;
		f->seq += old;
		f->len = (uint16_t)(f->len - old);
	}
	if (sl_seq_gt(f->seq + f->len, c->rcv_adv)) {
		uint32_t room = c->rcv_adv - f->seq;

		sl_net_drop(c->tcp->net, SL_DROP_TCP_WINDOW);
		ack_now(c);
		f->len = (uint16_t)((int32_t)room > 0 ? room : 0);
		seg->flags &= (uint8_t)~SL_TCP_FIN;
	}
}

static bool fin_behind_a_hole(const struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	return (seg->flags & SL_TCP_FIN) && sl_seq_gt(seg->f->seq, c->rcv_nxt) &&
	       !(c->flags & SL_TCPF_FIN_RCVD);
}

/* First: the application may reply to the FIN at once. */
static bool fin_arrived(struct sl_tcp_conn *c)
{
	if (c->flags & SL_TCPF_FIN_RCVD)
		return true;
	if (c->state == SL_TCPS_ESTABLISHED)
		c->state = SL_TCPS_CLOSE_WAIT;
	else if (c->state == SL_TCPS_FIN_WAIT_1)
		c->state = SL_TCPS_CLOSING;
	return sl_tcp_deliver_fin(c) && sl_tcp_try_finish(c);
}

static bool drain_ooo(struct sl_tcp_conn *c)
{
	struct sl_frame *f;
	bool fin;

	while ((f = sl_tcp_ooo_next(c, &fin))) {
		if (!f->len)
			sl_frame_put(c->tcp->umem, f);
		else if (!sl_tcp_deliver(c, f))
			return false;
		if (fin && !fin_arrived(c))
			return false;
	}
	return true;
}

/* Seventh: text. Takes the frame. */
static enum verdict take_text(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f = seg->f;

	if (f->len == 0 && !fin_behind_a_hole(c, seg)) {
		sl_frame_put(t->umem, f);
		return GO_ON;
	}
	if (c->flags & SL_TCPF_FIN_RCVD) {
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_CLOSED);
		ack_now(c);
		return DONE;
	}
	fit_to_window(c, seg);
	if (f->len == 0 && !fin_behind_a_hole(c, seg)) {
		sl_frame_put(t->umem, f);
		ack_now(c);
		return GO_ON;
	}
	if (f->seq != c->rcv_nxt) {
		sl_tcp_ooo_add(c, f, seg->flags & SL_TCP_FIN);
		ack_now(c);
		return DONE;
	}
	if (!sl_tcp_deliver(c, f))
		return GONE;
	if (!drain_ooo(c))
		return GONE;
	if (c->state == SL_TCPS_FIN_WAIT_2 && !(c->flags & SL_TCPF_DISCARD))
		sl_tcp_set_idle(c, t->cfg.fin_wait2_ns);
	return GO_ON;
}

/* SYN-ACK of a simultaneous open: only its ACK is new. */
static void strip_known_syn(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	const uint8_t both = SL_TCP_SYN | SL_TCP_ACK;

	if (c->state != SL_TCPS_SYN_RCVD || (seg->flags & both) != both ||
	    seg->seq != c->rcv_nxt - 1)
		return;
	seg->flags &= (uint8_t)~SL_TCP_SYN;
	seg->seq++;
	seg->f->seq++;
	seg->wnd = (uint16_t)(seg->wnd >> c->snd_wscale);
}

void sl_tcp_rx_slow(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	enum verdict v;

	strip_known_syn(c, seg);
	v = check_sequence(c, seg);
	if (v == GO_ON)
		v = check_rst(c, seg);
	if (v == GO_ON)
		v = check_syn(c, seg);
	if (v == GO_ON)
		v = check_ack(c, seg);
	if (v != GO_ON) {
		sl_frame_put(c->tcp->umem, seg->f);
		return;
	}
	if (!sl_net_from_next_hop(seg->f, &c->path))
		follow_next_hop(c, seg->f);
	else if (c->path.routed) /* for the fast path */
		c->path.sender = seg->f->sender;
	/* Sixth. RFC 6093 6: bytes stay in line. */
	if (take_text(c, seg) != GO_ON || !(seg->flags & SL_TCP_FIN))
		return;
	/* Eighth: FIN. */
	if (seg->seq + seg->len == c->rcv_nxt)
		(void)fin_arrived(c);
	else
		ack_now(c);
}

/* RFC 9293 3.10.7.3. The payload is not used; the peer retransmits it. */
void sl_tcp_rx_syn_sent(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	struct sl_tcp *t = c->tcp;
	bool ack = seg->flags & SL_TCP_ACK;

	if (ack && seg->ack != c->snd_nxt) {
		sl_net_drop(t->net, SL_DROP_TCP_ACK);
		sl_tcp_answer_rst(t, seg, &c->path, c->local_port_be, c->remote_port_be);
		goto out;
	}
	if (seg->flags & SL_TCP_RST) {
		if (ack) {
			t->stats.resets_in++;
			sl_tcp_conn_gone(c, SL_TCP_UNREACHABLE);
		} else {
			sl_net_drop(t->net, SL_DROP_TCP_RST);
		}
		goto out;
	}
	if (!(seg->flags & SL_TCP_SYN)) {
		sl_net_drop(t->net, SL_DROP_TCP_FLAGS);
		goto out;
	}
	if (c->path.routed && !(seg->f->flags & SL_NET_PORT_UNKNOWN))
		sl_net_path_from_rx(t->net, seg->f, &c->path);
	sl_tcp_take_syn(c, seg);
	c->heard_at = now_tick(t);
	if (!ack) { /* simultaneous open, RFC 9293 3.5 */
		c->state = SL_TCPS_SYN_RCVD;
		c->flags |= SL_TCPF_SYN_NOW;
		sl_tcp_dirty(c);
		goto out;
	}
	c->snd_una = seg->ack;
	ack_now(c);
	(void)sl_tcp_establish(c);
out:
	sl_frame_put(t->umem, seg->f);
}
