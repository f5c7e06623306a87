/* SPDX-License-Identifier: Apache-2.0 */
/* LISTEN and CLOSED: RFC 9293 3.10.7.1 and 3.10.7.2. */
#include "tcp/internal.h"

static struct sl_tcp_conn *new_half_open(struct sl_tcp *t, const struct sl_tcp_seg *seg,
					 const struct sl_net_path *path,
					 const struct sl_flow_key *key, uint16_t listener)
{
	struct sl_tcp_conn *c;

	/* The rest is for existing connections. */
	if (t->umem->free_cnt <= t->umem->low_water / 2) {
		sl_net_drop(t->net, SL_DROP_NO_FRAME);
		return NULL;
	}
	c = sl_tcp_free_places(t) ? sl_tcp_conn_new(t, path, key, seg->f->flow_hash) : NULL;
	if (!c) {
		sl_net_drop(t->net, SL_DROP_TCP_CONN_LIMIT);
		return NULL;
	}
	c->listener = listener;
	c->ts_off = sl_tcp_ts_offset(t, key);
	c->state = SL_TCPS_SYN_RCVD;
	t->half_open++;
	return c;
}

static void passive_open(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
			 const struct sl_flow_key *key, uint16_t listener, uint32_t isn)
{
	struct sl_tcp_conn *c = new_half_open(t, seg, path, key, listener);

	if (!c)
		return;
	sl_tcp_take_syn(c, seg);
	c->snd_una = isn;
	c->snd_nxt = isn + 1;
	c->snd_end = c->snd_nxt;
	c->flags |= SL_TCPF_SYN_NOW;
	sl_tcp_dirty(c);
}

/* A new connection in SYN-RECEIVED processes the ACK. Returns true if the frame was taken. */
static bool rx_cookie(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_net_path *path,
		      const struct sl_flow_key *key, uint16_t listener)
{
	struct sl_tcp_seg syn = *seg;
	struct sl_tcp_conn *c;

	/* Another worker may have answered the SYN. */
	if (now_ns(t) > t->cookie_until_ns && now_ns(t) > sl_handover_cookies_until(t->net))
		return false;
	if (!sl_tcp_cookie_check(t, &syn, key)) {
		sl_net_drop(t->net, SL_DROP_TCP_SYN_COOKIE);
		return false;
	}
	c = new_half_open(t, seg, path, key, listener);
	if (!c)
		return false;
	syn.seq = seg->seq - 1;
	sl_tcp_take_syn(c, &syn);
	c->snd_una = seg->ack - 1;
	c->snd_nxt = seg->ack;
	c->snd_end = seg->ack;
	c->backoff = 1; /* prevents a round-trip sample */
	t->stats.syn_cookies_ok++;
	sl_tcp_rx_slow(c, seg);
	return true;
}

static bool in_port_range(const struct sl_tcp *t, uint16_t port_be)
{
	uint16_t port = be16toh(port_be);

	return t->cfg.port_first && port >= t->cfg.port_first && port <= t->cfg.port_last;
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
		if (in_port_range(t, key->local_port_be) ||
		    (t->cfg.rst_closed_ports && sl_net_serves(t->net, key->family, key->local)))
			sl_tcp_answer_rst(t, seg, &path, key->local_port_be, key->remote_port_be);
	} else if (seg->flags & SL_TCP_RST) {
		sl_net_drop(t->net, SL_DROP_TCP_NO_CONN);
	} else if (seg->flags & SL_TCP_ACK) {
		if (!(seg->flags & SL_TCP_SYN) && rx_cookie(t, seg, &path, key, (uint16_t)listener))
			return;
		sl_net_drop(t->net, SL_DROP_TCP_NO_CONN);
		sl_tcp_answer_rst(t, seg, &path, key->local_port_be, key->remote_port_be);
	} else if ((seg->flags & SL_TCP_SYN) && (seg->flags & SL_TCP_FIN)) {
		sl_net_drop(t->net, SL_DROP_TCP_FLAGS);
	} else if (seg->flags & SL_TCP_SYN) {
		if (t->half_open < t->cfg.max_half_open)
			passive_open(t, seg, &path, key, (uint16_t)listener,
				     isn ? *isn : sl_tcp_isn(t, key));
		else
			sl_tcp_cookie_send(t, seg, &path, key);
	} else {
		sl_net_drop(t->net, SL_DROP_TCP_NO_CONN);
	}
	sl_frame_put(t->umem, seg->f);
}
