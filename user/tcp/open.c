/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 9293 3.10.1, OPEN, and the end of handshakes. */
#include <errno.h>
#include "tcp/internal.h"

enum {
	EPHEMERAL_FIRST = 32768,
	EPHEMERAL_CNT = 28232,
	RSS_TRIES = 64,
};

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
	c->snd_wnd = seg->wnd; /* never scaled */
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
	sl_tcp_slow_start_begin(c);
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
	if (!(c->flags & SL_TCPF_ACTIVE)) {
		struct sl_addr local = sl_net_local(&c->path, c->local_port_be);
		struct sl_addr remote = sl_net_remote(&c->path, c->remote_port_be);
		void *handle;

		t->stats.accepted++;
		c->flags |= SL_TCPF_TOLD;
		handle = t->ops.accepted(t->app, c, (uint16_t)c->listener, &local, &remote);
		if (c->state == SL_TCPS_CLOSED)
			return false;
		if (!handle) {
			sl_net_drop(t->net, SL_DROP_TCP_REFUSED);
			c->flags &= ~(uint32_t)SL_TCPF_TOLD;
			sl_tcp_abort(c);
			return false;
		}
		c->handle = handle;
		sl_tcp_count_frames(c, (int32_t)sl_tcp_held_frames(c));
		return true;
	}
	ops_of(c)->connected(c->handle, c);
	return c->state != SL_TCPS_CLOSED;
}

static bool path_to(struct sl_tcp *t, uint8_t port, const uint8_t *next_hop_mac,
		    const struct sl_addr *local, const struct sl_addr *remote,
		    struct sl_net_path *path)
{
	if (port >= t->net->port_cnt || local->family != remote->family ||
	    (local->family != 4 && local->family != 6))
		return false;
	*path = (struct sl_net_path){.family = local->family, .port = port};
	memcpy(path->local, local->addr, 16);
	memcpy(path->remote, remote->addr, 16);
	memcpy(path->mac, next_hop_mac, 6);
	path->sender = sl_net_sender(path->mac, port);
	return true;
}

static uint16_t first_port(const struct sl_tcp *t)
{
	return t->cfg.port_first ? t->cfg.port_first : EPHEMERAL_FIRST;
}

struct open_place {
	struct sl_flow_key key;
	uint64_t hash;
	bool reused;  /* after TIME-WAIT */
	uint32_t isn; /* least initial number, if reused */
};

static bool is_free(struct sl_tcp *t, struct open_place *p)
{
	uint32_t value;

	p->hash = sl_flow_hash(&t->flows, &p->key);
	value = sl_flow_find(&t->flows, p->hash, &p->key);
	if (value == SL_FLOW_NONE)
		return true;
	p->reused = value >= SL_TCP_TW_BASE && sl_tcp_tw_reuse(t, value, &p->isn);
	return p->reused;
}

/* RSS may give all of a sequence to one queue. */
static bool choose_by_rss(struct sl_tcp *t, const struct sl_net_path *path, struct open_place *p,
			  uint32_t first, uint32_t cnt)
{
	for (unsigned i = 0; i < RSS_TRIES; i++) {
		int here;

		p->key.local_port_be = htobe16((uint16_t)(first + sl_prng_below(&t->prng, cnt)));
		here = sl_net_receives(t->net, path, p->key.local_port_be, p->key.remote_port_be);
		if (here < 0)
			return false;
		if (here && is_free(t, p))
			return true;
	}
	return false;
}

/* RFC 6056 3.3.1 */
static bool choose_port(struct sl_tcp *t, const struct sl_net_path *path, struct open_place *p)
{
	const struct sl_tcp_config *cfg = &t->cfg;
	uint32_t all = cfg->port_first ? cfg->port_last - cfg->port_first + 1u : EPHEMERAL_CNT;
	uint32_t parts = cfg->port_parts ? cfg->port_parts : 1, cnt = all / parts;
	uint32_t first = first_port(t) + cnt * cfg->port_part;

	if (choose_by_rss(t, path, p, first, cnt))
		return true;
	if (!t->ephemeral)
		t->ephemeral = (uint16_t)(1u + sl_prng_below(&t->prng, cnt));
	for (uint32_t i = 0; i < cnt; i++) {
		t->ephemeral = (uint16_t)(t->ephemeral % cnt + 1u);
		p->key.local_port_be = htobe16((uint16_t)(first + t->ephemeral - 1u));
		if (is_free(t, p))
			return true;
	}
	return false;
}

static void init_syn(struct sl_tcp_conn *c, const struct open_place *p, void *handle)
{
	struct sl_tcp *t = c->tcp;
	uint32_t isn = sl_tcp_isn(t, &p->key);

	c->handle = handle;
	c->flags = SL_TCPF_ACTIVE | SL_TCPF_TOLD | SL_TCPF_SYN_NOW;
	c->state = SL_TCPS_SYN_SENT;
	c->ts_off = sl_tcp_ts_offset(t, &p->key);
	c->snd_una = p->reused && sl_seq_lt(isn, p->isn) ? p->isn : isn;
	c->snd_nxt = c->snd_una + 1;
	c->snd_end = c->snd_nxt;
	c->progress_at = now_tick(t);
	sl_tcp_dirty(c);
}

static struct sl_tcp_conn *open_on(struct sl_tcp *t, const struct sl_net_path *path,
				   uint16_t local_port_be, uint16_t remote_port_be, void *handle)
{
	struct open_place p = {.reused = false};
	struct sl_tcp_conn *c;

	if (t->cfg.max_active && t->active_cnt >= t->cfg.max_active) {
		errno = ENOBUFS;
		return NULL;
	}
	sl_tcp_path_key(path, local_port_be, remote_port_be, &p.key);
	if (local_port_be ? !is_free(t, &p) : !choose_port(t, path, &p)) {
		errno = EADDRINUSE;
		return NULL;
	}
	c = sl_tcp_conn_new(t, path, &p.key, p.hash);
	if (!c) {
		errno = ENOBUFS;
		return NULL;
	}
	init_syn(c, &p, handle);
	t->stats.active_opens++;
	t->active_cnt++;
	return c;
}

struct sl_tcp_conn *sl_tcp_connect(struct sl_tcp *t, uint8_t port, const uint8_t *next_hop_mac,
				   const struct sl_addr *local, const struct sl_addr *remote,
				   void *handle)
{
	struct sl_net_path path;

	if (!path_to(t, port, next_hop_mac, local, remote, &path)) {
		errno = EINVAL;
		return NULL;
	}
	return open_on(t, &path, local->port_be, remote->port_be, handle);
}

struct sl_tcp_conn *sl_tcp_open(struct sl_tcp *t, const struct sl_addr *local,
				const struct sl_addr *remote, void *handle)
{
	struct sl_net_path path;

	if (local->family != remote->family ||
	    !sl_net_path_by_route(t->net, local, remote, &path)) {
		errno = EHOSTUNREACH;
		return NULL;
	}
	return open_on(t, &path, local->port_be, remote->port_be, handle);
}

uint32_t sl_tcp_active_cnt(const struct sl_tcp *t)
{
	return t->active_cnt;
}

void sl_tcp_set_active_ops(struct sl_tcp *t, const struct sl_tcp_ops *ops)
{
	t->active_ops = *ops;
}
