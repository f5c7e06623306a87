/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"
#include "wire/csum.h"

bool sl_tcp_send_bare(struct sl_tcp *t, const struct sl_tcp_bare *b)
{
	struct sl_frame *f = sl_frame_get(t->umem, SL_FRAME_HELD, SL_FRAME_HEADROOM);
	struct sl_tcp_hdr *h;
	size_t opt_len = 0;

	if (!f) {
		sl_net_drop(t->net, SL_DROP_NO_FRAME);
		return false;
	}
	h = (struct sl_tcp_hdr *)f->data;
	if (b->opts && (b->flags & SL_TCP_SYN))
		opt_len = sl_tcp_opt_write_syn(f->data + sizeof(*h), b->opts);
	else if (b->opts)
		opt_len = sl_tcp_opt_write(f->data + sizeof(*h), b->opts);
	sl_tcp_write(h, b->local_port_be, b->remote_port_be, b->seq, b->ack, b->flags, b->wnd,
		     opt_len);
	f->len = (uint16_t)(sizeof(*h) + opt_len);
	h->csum_be = sl_net_l4_csum(b->path, SL_IP_PROTO_TCP, h, f->len);
	t->stats.segs_out++;
	if (!sl_net_send(t->net, f, b->path, SL_IP_PROTO_TCP))
		return false;
	if (sl_unlikely(b->unanswered))
		sl_net_copy_to_kernel(t->net, f, b->path);
	return true;
}

uint32_t sl_tcp_rcv_space(const struct sl_tcp_conn *c)
{
	bool narrow = (c->flags & SL_TCPF_NARROW) && c->tcp->cfg.rcv_buf > SL_TCP_NARROW;
	uint32_t max = narrow ? SL_TCP_NARROW : c->tcp->cfg.rcv_buf;
	uint32_t space = c->rcv_queued < max ? max - c->rcv_queued : 0;
	uint32_t told = c->rcv_adv - c->rcv_nxt;

	return sl_umem_low(c->tcp->umem) && space > told ? told : space;
}

/* RFC 9293 3.8.6.2.2 */
uint16_t sl_tcp_select_window(struct sl_tcp_conn *c)
{
	uint32_t told = c->rcv_adv - c->rcv_nxt, wnd = sl_tcp_rcv_space(c);
	uint32_t half = c->tcp->cfg.rcv_buf / 2, step = c->mss < half ? c->mss : half;
	uint32_t unit = 1u << c->rcv_wscale;

	if (wnd < told + step)
		wnd = told;
	wnd = (wnd + unit - 1) >> c->rcv_wscale;
	if (wnd > 0xffff)
		wnd = 0xffff;
	if (wnd == 0 && c->rcv_adv != c->last_ack_sent)
		c->tcp->stats.zero_windows++;
	c->rcv_adv = c->rcv_nxt + (wnd << c->rcv_wscale);
	return (uint16_t)wnd;
}

static void ack_is_out(struct sl_tcp_conn *c)
{
	c->last_ack_sent = c->rcv_nxt;
	c->flags &= ~(uint32_t)(SL_TCPF_ACK_NOW | SL_TCPF_ACK_DELAY);
	c->ack_at = 0;
}

/*
 * After two time-outs or probes the next hop may have failed. The answer to the kernel's copy shows
 * a new one.
 */
static bool is_unanswered(const struct sl_tcp_conn *c)
{
	return c->backoff >= 2 || c->probes >= 2;
}

static bool send_control(struct sl_tcp_conn *c, uint32_t seq, uint8_t flags,
			 const struct sl_tcp_opts *o)
{
	struct sl_tcp_bare b = {
		.path = &c->path,
		.local_port_be = c->local_port_be,
		.remote_port_be = c->remote_port_be,
		.seq = seq,
		.ack = flags & SL_TCP_ACK ? c->rcv_nxt : 0,
		.flags = flags,
		.wnd = flags & SL_TCP_SYN ? sl_tcp_syn_window(c->tcp) : sl_tcp_select_window(c),
		.opts = o,
		.unanswered = is_unanswered(c),
	};

	return sl_tcp_send_bare(c->tcp, &b);
}

static void fill_ts(const struct sl_tcp_conn *c, struct sl_tcp_opts *o)
{
	if (!(c->flags & SL_TCPF_TS))
		return;
	o->has_ts = true;
	o->ts_val = ts_clock(c->tcp, c->ts_off);
	o->ts_ecr = c->ts_recent;
}

static bool send_ack(struct sl_tcp_conn *c)
{
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;

	fill_ts(c, &o);
	if ((c->flags & SL_TCPF_SACK) && (c->ooo_head || (c->flags & SL_TCPF_DSACK)))
		o.sack_cnt = (uint8_t)sl_tcp_ooo_blocks(c, &o, o.has_ts ? 3 : 4);
	if (!send_control(c, c->snd_nxt, SL_TCP_ACK, &o))
		return false;
	c->flags &= ~(uint32_t)SL_TCPF_DSACK;
	ack_is_out(c);
	return true;
}

void sl_tcp_send_probe(struct sl_tcp_conn *c)
{
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;

	fill_ts(c, &o);
	(void)send_control(c, c->snd_una - 1, SL_TCP_ACK, &o);
}

void sl_tcp_send_rst(struct sl_tcp_conn *c)
{
	if (send_control(c, c->snd_nxt, SL_TCP_RST | SL_TCP_ACK, NULL))
		c->tcp->stats.resets_out++;
}

void sl_tcp_answer_rst(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
		       uint16_t local_port_be, uint16_t remote_port_be)
{
	struct sl_tcp_bare b = {
		.path = path,
		.local_port_be = local_port_be,
		.remote_port_be = remote_port_be,
	};
	uint32_t end = seg->seq + seg->len;

	if (seg->flags & SL_TCP_RST)
		return;
	if (!sl_tcp_may_rst(t, path)) {
		sl_net_drop(t->net, SL_DROP_RST_LIMIT);
		return;
	}
	end += (seg->flags & SL_TCP_SYN) ? 1u : 0u;
	end += (seg->flags & SL_TCP_FIN) ? 1u : 0u;
	b.flags = SL_TCP_RST;
	if (seg->flags & SL_TCP_ACK) {
		b.seq = seg->ack;
	} else {
		b.ack = end;
		b.flags |= SL_TCP_ACK;
	}
	if (sl_tcp_send_bare(t, &b))
		t->stats.resets_out++;
}

static void send_syn(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	bool first = c->state == SL_TCPS_SYN_SENT;
	uint32_t offer = first ? UINT32_MAX : c->flags;
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;

	o.mss = sl_tcp_our_mss(t, &c->path);
	o.sack_ok = offer & SL_TCPF_SACK;
	if (offer & SL_TCPF_WSCALE)
		o.wscale = (int8_t)c->rcv_wscale;
	if (offer & SL_TCPF_TS) {
		o.has_ts = true;
		o.ts_val = ts_clock(t, c->ts_off);
		o.ts_ecr = c->ts_recent;
	}
	c->flags &= ~(uint32_t)SL_TCPF_SYN_NOW;
	(void)send_control(c, c->snd_una, first ? SL_TCP_SYN : SL_TCP_SYN | SL_TCP_ACK, &o);
	c->rack_xmit_us = now_us(t);
	sl_tcp_set_rtx(c, SL_RTX_RTO, (uint64_t)SL_TCP_RTO_INIT_US * SL_NS_PER_US << c->backoff);
}

bool sl_tcp_send_frame(struct sl_tcp_conn *c, struct sl_frame *f)
{
	struct sl_tcp *t = c->tcp;
	size_t opt_len = c->flags & SL_TCPF_TS ? SL_TCP_OPT_TS_LEN : 0;
	uint8_t *payload = f->data + f->payload_off;
	struct sl_tcp_hdr *h = (struct sl_tcp_hdr *)(payload - sizeof(*h) - opt_len);
	uint8_t flags = SL_TCP_ACK;
	uint64_t pseudo;
	bool sent;

	if (f->state == SL_FRAME_TX)
		return false;
	if (!f->next || (f->flags & SL_TXF_FIN))
		flags |= SL_TCP_PSH;
	if (f->flags & SL_TXF_FIN)
		flags |= SL_TCP_FIN;
	f->data = (uint8_t *)h;
	f->len = (uint16_t)(sizeof(*h) + opt_len + f->payload_len);
	sl_tcp_write(h, c->local_port_be, c->remote_port_be, f->seq, c->rcv_nxt, flags,
		     sl_tcp_select_window(c), opt_len);
	if (opt_len)
		sl_tcp_opt_write_ts(f->data + sizeof(*h), ts_clock(t, c->ts_off), c->ts_recent);
	pseudo = sl_net_pseudo_sum(&c->path, SL_IP_PROTO_TCP, f->len);
	h->csum_be = sl_csum_finish(sl_csum_add(h, sizeof(*h) + opt_len, pseudo + f->payload_sum));
	sent = sl_net_send(t->net, f, &c->path, SL_IP_PROTO_TCP);
	f->payload_off = (uint16_t)(payload - f->data);
	if (!sent)
		return false;
	if (sl_unlikely(is_unanswered(c)))
		sl_net_copy_to_kernel(t->net, f, &c->path);
	f->xmit_ns = now_ns(t);
	if (f->xmit_cnt < UINT8_MAX)
		f->xmit_cnt++;
	t->stats.segs_out++;
	t->stats.bytes_out += f->payload_len;
	if (!c->ooo_head && !(c->flags & SL_TCPF_DSACK))
		ack_is_out(c);
	return true;
}

static bool resend(struct sl_tcp_conn *c, struct sl_frame *f)
{
	uint32_t len = txf_len(f);

	if (!sl_tcp_send_frame(c, f))
		return false;
	if (!c->undo_ts)
		c->undo_ts = ts_clock(c->tcp, c->ts_off);
	f->flags |= SL_TXF_RETX;
	c->retrans_out += len;
	if (c->recovery == SL_RECOVERY_FAST)
		c->cc.prr.out += len;
	c->tcp->stats.retransmits++;
	return true;
}

static bool send_lost(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	bool any = false;

	for (struct sl_frame *f = frame_of(t, c->txq_head); f && frame_link(f) != c->txq_send;
	     f = f->next) {
		if ((f->flags & (SL_TXF_LOST | SL_TXF_RETX)) != SL_TXF_LOST)
			continue;
		if (!t->segs_left)
			break;
		f = sl_tcp_txq_sendable(c, f);
		if (!f || (f->payload_len > c->mss && !sl_tcp_txq_split(c, f, c->mss)))
			break;
		if (in_flight(c) && in_flight(c) + f->payload_len > c->cwnd)
			break;
		if (sl_seq_gt(txf_end(f), c->snd_una + c->snd_wnd) && frame_link(f) != c->txq_head)
			break;
		if (!resend(c, f))
			break;
		t->segs_left--;
		any = true;
	}
	return any;
}

enum blocked { BY_NOTHING, BY_CWND, BY_WINDOW, BY_RING, BY_WAITING, BY_SHARE };

/* RFC 9293 3.8.6.2.1 */
static uint32_t fitting_part(const struct sl_tcp_conn *c, const struct sl_frame *f)
{
	uint32_t usable = c->snd_una + c->snd_wnd - f->seq;

	if ((int32_t)usable <= 0)
		return 0;
	if (usable < c->mss && usable < c->max_snd_wnd / 2)
		return 0;
	return usable < f->payload_len ? usable : f->payload_len;
}

static enum blocked may_send(struct sl_tcp_conn *c, struct sl_frame *f)
{
	uint32_t flight = in_flight(c);

	if (sl_unlikely(f->payload_len > c->mss)) {
		if (flight && flight + c->mss > c->cwnd)
			return BY_CWND;
		if (!sl_tcp_txq_split(c, f, c->mss))
			return BY_RING;
	}
	if (flight && flight + f->payload_len > c->cwnd)
		return BY_CWND;
	if (sl_seq_gt(txf_end(f), c->snd_una + c->snd_wnd)) {
		uint32_t part = fitting_part(c, f);

		if (part == 0 || part == f->payload_len) /* only the FIN exceeds the window */
			return BY_WINDOW;
		return sl_tcp_txq_split(c, f, part) ? BY_NOTHING : BY_RING;
	}
	if (!f->next && flight && (c->flags & SL_TCPF_WANT_WRITE) && f->payload_len < c->mss)
		return BY_WAITING;
	return BY_NOTHING;
}

static enum blocked send_new(struct sl_tcp_conn *c, bool *any)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f;

	while ((f = frame_of(t, c->txq_send))) {
		enum blocked why;

		if (sl_unlikely(!t->segs_left))
			return BY_SHARE;
		why = may_send(c, f);
		if (why != BY_NOTHING)
			return why;
		if (!sl_tcp_send_frame(c, f))
			return BY_RING;
		t->segs_left--;
		c->txq_send = frame_link(f->next);
		c->snd_nxt = txf_end(f);
		if (c->recovery == SL_RECOVERY_FAST)
			c->cc.prr.out += txf_len(f);
		*any = true;
	}
	return BY_NOTHING;
}

static bool send_data(struct sl_tcp_conn *c)
{
	enum blocked why = BY_NOTHING;
	bool any = false;

	if ((c->flags & (SL_TCPF_FIN_WANTED | SL_TCPF_FIN_QUEUED)) == SL_TCPF_FIN_WANTED)
		sl_tcp_queue_fin(c);
	if (c->lost_out > c->retrans_out)
		any = send_lost(c);
	if (c->txq_send)
		why = send_new(c, &any);
	/* Not limited by cwnd, it does not grow: RFC 9293 3.8.2, RFC 7661. */
	if (why == BY_CWND || (c->cwnd < c->ssthresh && 2 * in_flight(c) >= c->cwnd))
		c->flags |= SL_TCPF_CWND_LIMITED;
	else if (why != BY_SHARE && (in_flight(c) == 0 || why != BY_NOTHING))
		c->flags &= ~(uint32_t)SL_TCPF_CWND_LIMITED;
	if (any || (c->rtx_kind == SL_RTX_NONE && c->snd_una != c->snd_nxt)) {
		sl_tcp_rearm_rtx(c);
	} else if (why == BY_WINDOW && c->snd_una == c->snd_nxt && c->rtx_kind == SL_RTX_NONE) {
		sl_tcp_set_rtx(c, SL_RTX_PERSIST, (uint64_t)sl_tcp_rto_us(c) * SL_NS_PER_US);
	}
	if (why == BY_RING && c->rtx_kind == SL_RTX_NONE)
		sl_tcp_set_rtx(c, SL_RTX_NO_FRAME, SL_TCP_NO_FRAME_NS);
	return !c->tcp->segs_left && (why == BY_SHARE || c->lost_out > c->retrans_out);
}

/* Queued frames need a timer, or the connection stalls. */
static void check_armed(struct sl_tcp_conn *c)
{
	if (sl_likely(c->rtx_kind != SL_RTX_NONE || !c->txq_head))
		return;
	if (SL_ENSURE(c->rtx_kind != SL_RTX_NONE))
		return;
	if (!c->txq_send && c->snd_una == c->snd_nxt && c->snd_nxt != c->snd_end)
		c->txq_send = c->txq_head;
	sl_tcp_set_rtx(c, SL_RTX_NO_FRAME, SL_TCP_NO_FRAME_NS);
}

/* RFC 8985 7.3 */
static void send_probe(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_frame *f = frame_of(t, c->txq_send), *last = NULL;

	if (f && f->payload_len > c->mss && !sl_tcp_txq_split(c, f, c->mss))
		f = NULL;
	if (f && sl_seq_leq(txf_end(f), c->snd_una + c->snd_wnd)) {
		if (sl_tcp_send_frame(c, f)) {
			c->txq_send = frame_link(f->next);
			c->snd_nxt = txf_end(f);
			c->flags = (c->flags | SL_TCPF_TLP_OUT) & ~(uint32_t)SL_TCPF_TLP_RETX;
		}
	} else {
		for (f = frame_of(t, c->txq_head); f && frame_link(f) != c->txq_send; f = f->next)
			last = f;
		last = last ? sl_tcp_txq_sendable(c, last) : NULL;
		if (last && sl_tcp_send_frame(c, last))
			c->flags |= SL_TCPF_TLP_OUT | SL_TCPF_TLP_RETX;
	}
	if (c->flags & SL_TCPF_TLP_OUT) {
		c->tlp_end_seq = c->snd_nxt;
		t->stats.tlp_probes++;
	}
	sl_tcp_set_rtx(c, SL_RTX_RTO, (uint64_t)sl_tcp_rto_us(c) * SL_NS_PER_US);
}

static void output_conn(struct sl_tcp_conn *c)
{
	bool later = false;

	if (c->flags & SL_TCPF_SYN_NOW)
		send_syn(c);
	if (c->state < SL_TCPS_ESTABLISHED)
		return;
	if (c->flags & SL_TCPF_TLP_NOW) {
		c->flags &= ~(uint32_t)SL_TCPF_TLP_NOW;
		if (c->snd_una != c->snd_nxt && c->rtx_kind == SL_RTX_NONE)
			send_probe(c);
	}
	if (c->txq_head || (c->flags & SL_TCPF_FIN_WANTED))
		later = send_data(c);
	if (later)
		sl_tcp_later(c);
	else
		check_armed(c);
	if (c->flags & SL_TCPF_PROBE_NOW) {
		c->flags &= ~(uint32_t)SL_TCPF_PROBE_NOW;
		sl_tcp_send_probe(c);
	}
	if ((c->flags & SL_TCPF_ACK_NOW) && !send_ack(c))
		sl_tcp_set_ack(c);
}

static uint32_t output_first(struct sl_tcp *t, struct sl_tcp_queue *q, uint32_t segs)
{
	struct sl_tcp_conn *c = sl_tcp_queue_pop(t, q);

	t->segs_left = segs < SL_TCP_CONN_SEGS ? segs : SL_TCP_CONN_SEGS;
	segs = t->segs_left;
	if (sl_likely(c->state != SL_TCPS_CLOSED))
		output_conn(c);
	else
		sl_mempool_put(&t->conns, c);
	return segs - t->segs_left;
}

bool sl_tcp_output(struct sl_tcp *t)
{
	uint32_t left = SL_TCP_LATER_SEGS;

	if (t->dead_head)
		sl_tcp_reap(t);
	while (t->dirty.head) {
		struct sl_tcp_share *s = sl_tcp_share_of(t, &conn_of(t, t->dirty.head)->path);

		s->segs += output_first(t, &t->dirty, SL_TCP_ADDR_SEGS - s->segs);
	}
	while (sl_unlikely(t->later.head) && left) {
		uint32_t sent = output_first(t, &t->later, left);

		left -= sent ? sent : 1;
	}
	t->turn++;
	return t->later.head != 0;
}
