/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h>

#include "tcp/internal.h"

void sl_tcp_path_key(const struct sl_net_path *path, uint16_t local_port_be,
		     uint16_t remote_port_be, struct sl_flow_key *key)
{
	*key = (struct sl_flow_key){
		.local_port_be = local_port_be,
		.remote_port_be = remote_port_be,
		.family = path->family,
	};
	memcpy(key->local, path->local, sizeof(key->local));
	memcpy(key->remote, path->remote, sizeof(key->remote));
}

void sl_tcp_conn_key(const struct sl_tcp_conn *c, struct sl_flow_key *key)
{
	sl_tcp_path_key(&c->path, c->local_port_be, c->remote_port_be, key);
}

int sl_tcp_listener(const struct sl_tcp_conn *c)
{
	struct sl_flow_key key;

	sl_tcp_conn_key(c, &key);
	return sl_net_find_listener(c->tcp->net, key.family, key.local, key.local_port_be,
				    IPPROTO_TCP);
}

struct sl_tcp_conn *sl_tcp_conn_new(struct sl_tcp *t, const struct sl_net_path *path,
				    const struct sl_flow_key *key, uint64_t hash)
{
	struct sl_tcp_conn *c = sl_mempool_get(&t->conns);

	if (!c)
		return NULL;
	*c = (struct sl_tcp_conn){
		.tcp = t,
		.path = *path,
		.local_port_be = key->local_port_be,
		.remote_port_be = key->remote_port_be,
		.ssthresh = UINT32_MAX / 2,
		.rcv_wscale = t->rcv_wscale,
		.reo_mult = 1,
		.heard_at = now_tick(t),
		.challenged_at = sl_tcp_never_challenged(t),
	};
	if (sl_flow_insert(&t->flows, hash, conn_link(c) - 1)) {
		sl_mempool_put(&t->conns, c);
		return NULL;
	}
	if (t->net->handover)
		sl_handover_claim(t->net, key);
	t->conn_cnt++;
	return c;
}

void sl_tcp_left_half_open(struct sl_tcp_conn *c)
{
	if (c->state == SL_TCPS_SYN_RCVD && !(c->flags & SL_TCPF_ACTIVE))
		c->tcp->half_open--;
}

static uint32_t mss_of(const struct sl_tcp *t, const struct sl_net_path *path, uint32_t mtu)
{
	const uint32_t mss = mtu - (path->family == 4 ? 20u : 40u) - SL_TCP_HDR_MIN;

	return t->cfg.mss_clamp && t->cfg.mss_clamp < mss ? t->cfg.mss_clamp : mss;
}

uint16_t sl_tcp_our_mss(const struct sl_tcp *t, const struct sl_net_path *path)
{
	return (uint16_t)mss_of(t, path, sl_net_rx_mtu(t->net, path));
}

void sl_tcp_set_mss(struct sl_tcp_conn *c, uint32_t peer_mss)
{
	const uint32_t room = c->tcp->umem->frame_size - SL_FRAME_HEADROOM;
	uint32_t mss = mss_of(c->tcp, &c->path, sl_net_mtu(c->tcp->net, &c->path));

	if (peer_mss < SL_TCP_MIN_MSS)
		peer_mss = SL_TCP_MIN_MSS;
	if (peer_mss < mss)
		mss = peer_mss;
	if (room < mss)
		mss = room;
	if (c->flags & SL_TCPF_TS)
		mss -= SL_TCP_OPT_TS_LEN;
	c->mss = (uint16_t)mss;
}

static uint32_t rxq_frames(const struct sl_tcp_conn *c)
{
	uint32_t n = 0;

	for (const struct sl_frame *f = frame_of(c->tcp, c->rxq_head); f; f = f->next)
		n++;
	return n;
}

uint32_t sl_tcp_held_frames(const struct sl_tcp_conn *c)
{
	return c->txq_cnt + c->ooo_cnt + rxq_frames(c);
}

void sl_tcp_purge_rx(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;

	sl_tcp_count_frames(c, -(int32_t)rxq_frames(c));
	sl_frame_put_list(t->umem, frame_of(t, c->rxq_head));
	c->rxq_head = 0;
	c->rxq_tail = 0;
	c->rcv_queued = 0;
}

/* sl_tcp_output() frees a dirty one. */
void sl_tcp_conn_drop(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	struct sl_flow_key key;

	if (c->state == SL_TCPS_CLOSED)
		return;
	sl_tcp_left_half_open(c);
	sl_timer_cancel(&t->wheel, &c->timer);
	sl_tcp_txq_purge(c);
	sl_tcp_purge_rx(c);
	sl_tcp_ooo_purge(c);
	sl_tcp_conn_key(c, &key);
	if (sl_flow_remove(&t->flows, sl_flow_hash(&t->flows, &key), conn_link(c) - 1) &&
	    t->net->handover)
		sl_handover_release(t->net, &key);
	c->state = SL_TCPS_CLOSED;
	t->conn_cnt--;
	t->active_cnt -= (c->flags & SL_TCPF_ACTIVE) != 0;
	t->stats.closed++;
	if (c->flags & SL_TCPF_DIRTY)
		return;
	c->dirty_next = t->dead_head;
	t->dead_head = conn_link(c);
}

void sl_tcp_conn_gone(struct sl_tcp_conn *c, enum sl_tcp_close_reason why)
{
	bool told = c->state != SL_TCPS_CLOSED && (c->flags & SL_TCPF_TOLD);
	struct sl_tcp *t = c->tcp;

	if (why == SL_TCP_TIMEOUT)
		t->stats.timeouts++;
	sl_tcp_conn_drop(c);
	if (told)
		ops_of(c)->closed(c->handle, why);
}

uint32_t sl_tcp_free_places(const struct sl_tcp *t)
{
	uint32_t used = t->cfg.max_active ? t->conn_cnt - t->active_cnt : t->conn_cnt;
	uint32_t all = sl_mempool_capacity(&t->conns) - t->cfg.max_active;

	return all > used ? all - used : 0;
}

void sl_tcp_reap(struct sl_tcp *t)
{
	while (t->dead_head) {
		struct sl_tcp_conn *c = conn_of(t, t->dead_head);

		t->dead_head = c->dirty_next;
		sl_mempool_put(&t->conns, c);
	}
}
