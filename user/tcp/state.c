/* SPDX-License-Identifier: Apache-2.0 */
/* OPEN, CLOSE and ABORT of RFC 9293 3.10. */
#include <errno.h>
#include "tcp/internal.h"

enum {
	EPHEMERAL_FIRST = 32768,
	EPHEMERAL_CNT = 28232,
};

bool sl_tcp_try_finish(struct sl_tcp_conn *c)
{
	bool sent = (c->flags & SL_TCPF_FIN_QUEUED) && c->snd_una == c->snd_end;

	if (!sent || !(c->flags & SL_TCPF_FIN_RCVD))
		return true;
	if (c->rxq_head && !(c->flags & SL_TCPF_DISCARD))
		return true; /* the application has not read all yet */
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
	if (c->state <= SL_TCPS_SYN_RCVD) { /* nothing was promised to anybody yet */
		sl_tcp_conn_gone(c, SL_TCP_CLOSED);
		return;
	}
	c->flags |= SL_TCPF_DISCARD;
	sl_tcp_purge_rx(c);
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

void sl_tcp_set_handle(struct sl_tcp_conn *c, void *handle)
{
	c->handle = handle;
}

static bool path_to(struct sl_tcp *t, uint8_t port, const uint8_t *next_hop_mac,
		    const struct sl_tcp_addr *local, const struct sl_tcp_addr *remote,
		    struct sl_net_path *path)
{
	if (port >= t->net->port_cnt || local->family != remote->family ||
	    (local->family != 4 && local->family != 6))
		return false;
	*path = (struct sl_net_path){.family = local->family, .port = port};
	memcpy(path->local, local->addr, 16);
	memcpy(path->remote, remote->addr, 16);
	memcpy(path->local_mac, t->net->ports[port]->mac, 6);
	memcpy(path->mac, next_hop_mac, 6);
	return true;
}

static bool flow_exists(const struct sl_tcp *t, const struct sl_flow_key *key)
{
	return sl_flow_find(&t->flows, sl_flow_hash(&t->flows, key), key) != SL_FLOW_NONE;
}

/* Chooses the local port when it is 0, RFC 6056 3.3.1. Returns 0 when all are taken. */
static uint16_t choose_port(struct sl_tcp *t, struct sl_flow_key *key)
{
	for (unsigned i = 0; i < EPHEMERAL_CNT; i++) {
		if (!t->ephemeral)
			t->ephemeral = (uint16_t)sl_prng_below(&t->prng, EPHEMERAL_CNT);
		t->ephemeral = (uint16_t)((t->ephemeral + 1) % EPHEMERAL_CNT);
		key->local_port_be = htobe16((uint16_t)(EPHEMERAL_FIRST + t->ephemeral));
		if (!flow_exists(t, key))
			return key->local_port_be;
	}
	return 0;
}

struct sl_tcp_conn *sl_tcp_connect(struct sl_tcp *t, uint8_t port, const uint8_t *next_hop_mac,
				   const struct sl_tcp_addr *local,
				   const struct sl_tcp_addr *remote, void *handle)
{
	struct sl_net_path path;
	struct sl_flow_key key;
	struct sl_tcp_conn *c;

	if (!path_to(t, port, next_hop_mac, local, remote, &path)) {
		errno = EINVAL;
		return NULL;
	}
	sl_tcp_path_key(&path, local->port_be, remote->port_be, &key);
	if (local->port_be ? flow_exists(t, &key) : !choose_port(t, &key)) {
		errno = EADDRINUSE;
		return NULL;
	}
	c = sl_tcp_conn_new(t, &path, key.local_port_be, key.remote_port_be);
	if (!c) {
		errno = ENOBUFS;
		return NULL;
	}
	c->handle = handle;
	c->flags = SL_TCPF_ACTIVE | SL_TCPF_TOLD | SL_TCPF_SYN_NOW;
	c->state = SL_TCPS_SYN_SENT;
	c->ts_off = sl_tcp_ts_offset(t, &key);
	c->snd_una = sl_tcp_isn(t, &key);
	c->snd_nxt = c->snd_una + 1;
	c->snd_end = c->snd_nxt;
	c->progress_at = now_tick(t);
	sl_tcp_dirty(c);
	t->stats.active_opens++;
	return c;
}
