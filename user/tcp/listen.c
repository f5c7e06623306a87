/* SPDX-License-Identifier: Apache-2.0 */
/* Segments for no connection: LISTEN and CLOSED of RFC 9293 3.10.7.1 and 3.10.7.2. */
#include "tcp/internal.h"

void sl_tcp_take_syn(struct sl_tcp_conn *c, const struct sl_tcp_seg *seg)
{
	const struct sl_tcp_opts *o = &seg->opts;
	uint32_t mss = c->path.family == 4 ? SL_TCP_DEFAULT_MSS4 : SL_TCP_DEFAULT_MSS6;

	c->rcv_nxt = seg->seq + 1;
	c->last_ack_sent = c->rcv_nxt;
	c->rcv_adv = c->rcv_nxt + sl_tcp_syn_window(c->tcp);
	c->flags &= ~(uint32_t)(SL_TCPF_TS | SL_TCPF_SACK | SL_TCPF_WSCALE);
	if (o->has_ts) {
		c->flags |= SL_TCPF_TS;
		c->ts_recent = o->ts_val;
	}
	if (o->sack_ok)
		c->flags |= SL_TCPF_SACK;
	if (o->wscale >= 0) {
		c->flags |= SL_TCPF_WSCALE;
		c->snd_wscale = (uint8_t)o->wscale;
	} else {
		c->rcv_wscale = 0; /* RFC 7323 2.2: both or neither */
	}
	if (o->mss)
		mss = o->mss;
	sl_tcp_set_mss(c, mss);
	c->snd_wnd = seg->wnd; /* never scaled in a SYN */
	c->max_snd_wnd = seg->wnd;
	c->snd_wl1 = seg->seq;
	c->snd_wl2 = seg->ack;
}

static void init_cwnd(struct sl_tcp_conn *c)
{
	uint32_t mss = c->mss;
	uint32_t iw = 2 * mss > 14600 ? 2 * mss : 14600; /* RFC 6928 2 */

	c->cwnd = SL_TCP_INIT_SEGS * mss < iw ? SL_TCP_INIT_SEGS * mss : iw;
	if (c->backoff) /* the SYN was lost: RFC 5681 3.1 */
		c->cwnd = mss;
	else
		sl_tcp_rtt_sample(c, now_us(c->tcp) - c->rack_xmit_us);
	c->backoff = 0;
	c->recover = c->snd_una - 1;
	c->fack = c->snd_una;
	c->tcp->cc->start(c);
}

static bool tell_accepted(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_tcp_addr local = {.port_be = c->local_port_be, .family = c->path.family};
	struct sl_tcp_addr remote = {.port_be = c->remote_port_be, .family = c->path.family};
	void *handle;

	memcpy(local.addr, c->path.local, 16);
	memcpy(remote.addr, c->path.remote, 16);
	t->stats.accepted++;
	c->flags |= SL_TCPF_TOLD;
	handle = t->ops.accepted(t->app, c, c->listener, &local, &remote);
	if (c->state == SL_TCPS_CLOSED)
		return false;
	if (!handle) {
		sl_net_drop(t->net, SL_DROP_TCP_REFUSED);
		c->flags &= ~(uint32_t)SL_TCPF_TOLD;
		sl_tcp_abort(c);
		return false;
	}
	c->handle = handle;
	return true;
}

bool sl_tcp_establish(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;

	sl_tcp_left_half_open(c);
	c->state = SL_TCPS_ESTABLISHED;
	c->rtx_at = 0;
	c->rtx_kind = SL_RTX_NONE;
	init_cwnd(c);
	if (t->cfg.keepalive_ns)
		sl_tcp_set_idle(c, t->cfg.keepalive_ns);
	if (!(c->flags & SL_TCPF_ACTIVE))
		return tell_accepted(c);
	t->ops.connected(c->handle, c);
	return c->state != SL_TCPS_CLOSED;
}

/* NULL with the reason counted when the limits say no. */
static struct sl_tcp_conn *new_half_open(struct sl_tcp *t, const struct sl_net_path *path,
					 const struct sl_flow_key *key, uint16_t listener)
{
	struct sl_tcp_conn *c;

	if (sl_umem_low(t->umem)) {
		sl_net_drop(t->net, SL_DROP_NO_FRAME);
		return NULL;
	}
	if (!sl_tcp_addr_inc(t, path)) {
		sl_net_drop(t->net, SL_DROP_TCP_ADDR_LIMIT);
		return NULL;
	}
	c = sl_tcp_conn_new(t, path, key->local_port_be, key->remote_port_be);
	if (!c) {
		sl_tcp_addr_dec(t, path);
		sl_net_drop(t->net, SL_DROP_TCP_CONN_LIMIT);
		return NULL;
	}
	if (t->addrs)
		c->flags |= SL_TCPF_COUNTED;
	c->listener = listener;
	c->ts_off = sl_tcp_ts_offset(t, key);
	c->state = SL_TCPS_SYN_RCVD;
	t->half_open++;
	return c;
}

static void passive_open(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
			 const struct sl_flow_key *key, uint16_t listener, uint32_t isn)
{
	struct sl_tcp_conn *c = new_half_open(t, path, key, listener);

	if (!c)
		return;
	sl_tcp_take_syn(c, seg);
	c->snd_una = isn;
	c->snd_nxt = isn + 1;
	c->snd_end = c->snd_nxt;
	c->flags |= SL_TCPF_SYN_NOW;
	sl_tcp_dirty(c);
}

static void rx_syn(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
		   const struct sl_flow_key *key, uint16_t listener, const uint32_t *isn)
{
	if (seg->flags & SL_TCP_FIN) {
		sl_net_drop(t->net, SL_DROP_TCP_FLAGS);
		return;
	}
	if (t->half_open < t->cfg.max_half_open)
		passive_open(t, seg, path, key, listener, isn ? *isn : sl_tcp_isn(t, key));
	else
		sl_tcp_cookie_send(t, seg, path, key);
}

/*
 * The last step of a handshake of which nothing was kept. The connection is made as SYN-RECEIVED
 * and the segment then takes the usual way. True when it took the frame.
 */
static bool rx_cookie(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
		      const struct sl_flow_key *key, uint16_t listener)
{
	struct sl_tcp_seg syn = *seg;
	struct sl_tcp_conn *c;

	/* The SYN may have been answered by another worker, if the queues changed since. */
	if (now_ns(t) > t->cookie_until_ns && now_ns(t) > sl_handover_cookies_until(t->net))
		return false;
	if (!sl_tcp_cookie_check(t, &syn, key)) {
		sl_net_drop(t->net, SL_DROP_TCP_SYN_COOKIE);
		return false;
	}
	c = new_half_open(t, path, key, listener);
	if (!c)
		return false;
	syn.seq = seg->seq - 1;
	sl_tcp_take_syn(c, &syn);
	c->snd_una = seg->ack - 1;
	c->snd_nxt = seg->ack;
	c->snd_end = seg->ack;
	c->backoff = 1; /* no round-trip sample */
	t->stats.syn_cookies_ok++;
	sl_tcp_rx_slow(c, seg);
	return true;
}

static void rx_stray(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
		     const struct sl_flow_key *key)
{
	sl_net_drop(t->net, SL_DROP_TCP_NO_CONN);
	sl_tcp_answer_rst(t, seg, path, key->local_port_be, key->remote_port_be);
}

void sl_tcp_listen(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_flow_key *key,
		   const uint32_t *isn)
{
	struct sl_net_path path;
	int listener;

	sl_net_path_from_rx(t->net, seg->f, &path);
	listener = sl_net_find_listener(t->net, key->family, key->local, key->local_port_be,
					SL_IP_PROTO_TCP);
	if (listener < 0) {
		sl_net_drop(t->net, SL_DROP_NO_LISTENER);
		if (t->cfg.rst_closed_ports && sl_net_serves(t->net, key->family, key->local))
			sl_tcp_answer_rst(t, seg, &path, key->local_port_be, key->remote_port_be);
	} else if (seg->flags & SL_TCP_RST) {
		sl_net_drop(t->net, SL_DROP_TCP_NO_CONN);
	} else if (seg->flags & SL_TCP_ACK) {
		if (!(seg->flags & SL_TCP_SYN) && rx_cookie(t, seg, &path, key, (uint16_t)listener))
			return;
		rx_stray(t, seg, &path, key);
	} else if (seg->flags & SL_TCP_SYN) {
		rx_syn(t, seg, &path, key, (uint16_t)listener, isn);
	} else {
		sl_net_drop(t->net, SL_DROP_TCP_NO_CONN);
	}
	sl_frame_put(t->umem, seg->f);
}
