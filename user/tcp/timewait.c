/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"

struct sl_tcp_tw {
	uint64_t expires_ns;
	struct sl_net_path path;
	uint16_t local_port_be;
	uint16_t remote_port_be;
	uint32_t snd_nxt;
	uint32_t rcv_nxt;
	uint32_t ts_recent;
	uint32_t ts_off;
	uint32_t next, prev;
	uint16_t wnd;
	uint16_t challenged_at;
	bool ts;
};
SL_ASSERT_SIZE(struct sl_tcp_tw, 96);

#define REUSE_NS SL_NS_PER_SEC /* timestamps have advanced: RFC 7323 appendix B */

int sl_tcp_tw_init(struct sl_tcp *t)
{
	return sl_mempool_init(&t->tw, sizeof(struct sl_tcp_tw), 0, t->cfg.max_conns);
}

void sl_tcp_tw_fini(struct sl_tcp *t)
{
	sl_mempool_fini(&t->tw);
}

static struct sl_tcp_tw *tw_of(const struct sl_tcp *t, uint32_t link)
{
	return sl_mempool_at(&t->tw, link - 1);
}

static uint32_t tw_link(const struct sl_tcp *t, const struct sl_tcp_tw *w)
{
	return sl_mempool_index(&t->tw, w) + 1;
}

bool sl_tcp_tw_match(const struct sl_tcp *t, uint32_t value, const struct sl_flow_key *key)
{
	const struct sl_tcp_tw *w = sl_mempool_at(&t->tw, value - SL_TCP_TW_BASE);
	struct sl_flow_key mine;

	sl_tcp_path_key(&w->path, w->local_port_be, w->remote_port_be, &mine);
	return !memcmp(&mine, key, sizeof(mine));
}

static void list_append(struct sl_tcp *t, struct sl_tcp_tw *w)
{
	uint32_t link = tw_link(t, w);

	w->next = 0;
	w->prev = t->tw_tail;
	if (t->tw_tail)
		tw_of(t, t->tw_tail)->next = link;
	else
		t->tw_head = link;
	t->tw_tail = link;
}

static void list_remove(struct sl_tcp *t, struct sl_tcp_tw *w)
{
	if (w->prev)
		tw_of(t, w->prev)->next = w->next;
	else
		t->tw_head = w->next;
	if (w->next)
		tw_of(t, w->next)->prev = w->prev;
	else
		t->tw_tail = w->prev;
}

static void tw_free(struct sl_tcp *t, struct sl_tcp_tw *w)
{
	struct sl_flow_key key;

	sl_tcp_path_key(&w->path, w->local_port_be, w->remote_port_be, &key);
	if (sl_flow_remove(&t->flows, sl_flow_hash(&t->flows, &key),
			   SL_TCP_TW_BASE + tw_link(t, w) - 1) &&
	    t->net->handover)
		sl_handover_release(t->net, &key);
	list_remove(t, w);
	sl_mempool_put(&t->tw, w);
}

static void tw_ack(struct sl_tcp *t, const struct sl_tcp_tw *w)
{
	struct sl_tcp_opts o = SL_TCP_OPTS_NONE;
	struct sl_tcp_bare b = {
		.path = &w->path,
		.local_port_be = w->local_port_be,
		.remote_port_be = w->remote_port_be,
		.seq = w->snd_nxt,
		.ack = w->rcv_nxt,
		.flags = SL_TCP_ACK,
		.wnd = w->wnd,
		.opts = &o,
	};

	if (w->ts) {
		o.has_ts = true;
		o.ts_val = ts_clock(t, w->ts_off);
		o.ts_ecr = w->ts_recent;
	}
	(void)sl_tcp_send_bare(t, &b);
}

static struct sl_tcp_tw *tw_new(struct sl_tcp *t, const struct sl_tcp_conn *c)
{
	struct sl_tcp_tw *w = sl_mempool_get(&t->tw);

	if (!w && t->tw_head) {
		tw_free(t, tw_of(t, t->tw_head));
		w = sl_mempool_get(&t->tw);
	}
	if (!w)
		return NULL;
	*w = (struct sl_tcp_tw){
		.expires_ns = now_ns(t) + t->cfg.time_wait_ns,
		.path = c->path,
		.local_port_be = c->local_port_be,
		.remote_port_be = c->remote_port_be,
		.snd_nxt = c->snd_nxt,
		.rcv_nxt = c->rcv_nxt,
		.ts_recent = c->ts_recent,
		.ts_off = c->ts_off,
		.wnd = (uint16_t)((c->rcv_adv - c->rcv_nxt) >> c->rcv_wscale),
		.challenged_at = sl_tcp_never_challenged(t),
		.ts = c->flags & SL_TCPF_TS,
	};
	list_append(t, w);
	return w;
}

static void tw_insert(struct sl_tcp *t, struct sl_tcp_tw *w)
{
	struct sl_flow_key key;

	sl_tcp_path_key(&w->path, w->local_port_be, w->remote_port_be, &key);
	if (sl_flow_insert(&t->flows, sl_flow_hash(&t->flows, &key),
			   SL_TCP_TW_BASE + tw_link(t, w) - 1)) {
		list_remove(t, w);
		sl_mempool_put(&t->tw, w);
		return;
	}
	if (t->net->handover)
		sl_handover_claim(t->net, &key);
}

void sl_tcp_tw_enter(struct sl_tcp_conn *c)
{
	struct sl_tcp *t = c->tcp;
	bool told = c->flags & SL_TCPF_TOLD;
	struct sl_tcp_tw *w = t->cfg.time_wait_ns ? tw_new(t, c) : NULL;

	if (w && (c->flags & (SL_TCPF_ACK_NOW | SL_TCPF_ACK_DELAY)))
		tw_ack(t, w);
	sl_tcp_conn_drop(c);
	if (w)
		tw_insert(t, w);
	if (told)
		ops_of(c)->closed(c->handle, SL_TCP_CLOSED);
}

/* RFC 9293 3.10.7.4, RFC 6191. */
static bool syn_is_newer(const struct sl_tcp_tw *w, const struct sl_tcp_seg *seg)
{
	if (w->ts && seg->has_ts && seg->ts_val != w->ts_recent)
		return sl_seq_gt(seg->ts_val, w->ts_recent);
	return sl_seq_gt(seg->seq, w->rcv_nxt);
}

bool sl_tcp_tw_input(struct sl_tcp *t, uint32_t value, struct sl_tcp_seg *seg, uint32_t *isn)
{
	struct sl_tcp_tw *w = sl_mempool_at(&t->tw, value - SL_TCP_TW_BASE);
	bool old_ts = w->ts && seg->has_ts && sl_seq_lt(seg->ts_val, w->ts_recent);

	if (seg->flags & SL_TCP_RST) {
		/* RFC 5961 3.2 */
		if (seg->seq == w->rcv_nxt) {
			tw_free(t, w);
			sl_frame_put(t->umem, seg->f);
		} else {
			sl_net_drop_frame(t->net, seg->f, SL_DROP_TCP_RST);
		}
		return false;
	}
	if ((seg->flags & (SL_TCP_SYN | SL_TCP_ACK)) == SL_TCP_SYN && syn_is_newer(w, seg)) {
		*isn = w->snd_nxt + 0x10000;
		tw_free(t, w);
		return true;
	}
	if ((seg->flags & SL_TCP_FIN) && !old_ts) {
		if (!sl_net_from_next_hop(seg->f, &w->path))
			sl_net_follow_next_hop(t->net, seg->f, &w->path);
		list_remove(t, w);
		w->expires_ns = now_ns(t) + t->cfg.time_wait_ns;
		list_append(t, w);
	}
	sl_net_drop(t->net, SL_DROP_TCP_CLOSED);
	if (seg->len || (seg->flags & (SL_TCP_SYN | SL_TCP_FIN))) {
		if (sl_tcp_may_challenge(t, &w->challenged_at))
			tw_ack(t, w);
		else
			sl_net_drop(t->net, SL_DROP_CHALLENGE_LIMIT);
	}
	sl_frame_put(t->umem, seg->f);
	return false;
}

bool sl_tcp_tw_reuse(struct sl_tcp *t, uint32_t value, uint32_t *isn)
{
	struct sl_tcp_tw *w = sl_mempool_at(&t->tw, value - SL_TCP_TW_BASE);

	if (!w->ts || now_ns(t) + t->cfg.time_wait_ns < w->expires_ns + REUSE_NS)
		return false;
	*isn = w->snd_nxt + 0x10000;
	tw_free(t, w);
	return true;
}

void sl_tcp_tw_expire(struct sl_tcp *t)
{
	while (t->tw_head) {
		struct sl_tcp_tw *w = tw_of(t, t->tw_head);

		if (w->expires_ns > now_ns(t))
			return;
		tw_free(t, w);
	}
}

uint64_t sl_tcp_tw_next_ns(const struct sl_tcp *t)
{
	return t->tw_head ? tw_of(t, t->tw_head)->expires_ns : UINT64_MAX;
}
