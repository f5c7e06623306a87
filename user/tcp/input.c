/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp/internal.h"

/* RFC 9293 3.1 */
static bool parse_header(struct sl_tcp *t, struct sl_frame *f, struct sl_tcp_seg *seg)
{
	const struct sl_tcp_hdr *h;
	int hdr_len = sl_tcp_parse(f->data, f->len, &h);

	if (sl_unlikely(hdr_len < 0)) {
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_HEADER);
		return false;
	}
	if (sl_unlikely(!sl_net_l4_csum_ok(t->net, f, SL_IP_PROTO_TCP, SL_TCP_CSUM_OFF))) {
		sl_net_drop_frame(t->net, f, SL_DROP_TCP_CHECKSUM);
		return false;
	}
	seg->f = f;
	seg->seq = be32toh(h->seq_be);
	seg->ack = be32toh(h->ack_be);
	seg->wnd = be16toh(h->wnd_be);
	seg->flags = h->flags & 0x3f; /* ECN is not negotiated */
	seg->len = (uint32_t)(f->len - hdr_len);
	seg->opt = f->data + sizeof(*h);
	seg->opt_len = (size_t)hdr_len - sizeof(*h);
	seg->ts_val = 0;
	seg->ts_ecr = 0;
	seg->has_ts = sl_tcp_opt_fast_ts(seg->opt, seg->opt_len, &seg->ts_val, &seg->ts_ecr);
	seg->plain = seg->has_ts || seg->opt_len == 0;
	return true;
}

static void strip_header(struct sl_tcp_seg *seg)
{
	struct sl_frame *f = seg->f;

	f->data += f->len - seg->len;
	f->len = (uint16_t)seg->len;
	f->seq = seg->seq;
}

void sl_tcp_parse_rest(struct sl_tcp_seg *seg)
{
	seg->opts = (struct sl_tcp_opts)SL_TCP_OPTS_NONE;
	(void)sl_tcp_opt_parse(seg->opt, seg->opt_len, &seg->opts);
	seg->has_ts = seg->opts.has_ts;
	seg->ts_val = seg->opts.ts_val;
	seg->ts_ecr = seg->opts.ts_ecr;
}

static bool same_address(const uint8_t a[16], const uint8_t b[16])
{
	uint64_t x[2], y[2];

	memcpy(x, a, sizeof(x));
	memcpy(y, b, sizeof(y));
	return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

bool sl_tcp_flow_match(const void *ctx, uint32_t value, const struct sl_flow_key *key)
{
	const struct sl_tcp *t = ctx;
	const struct sl_tcp_conn *c;

	if (sl_unlikely(value >= SL_TCP_TW_BASE))
		return sl_tcp_tw_match(t, value, key);
	c = sl_mempool_at(&t->conns, value);
	return ((c->local_port_be ^ key->local_port_be) |
		(c->remote_port_be ^ key->remote_port_be) | (c->path.family ^ key->family)) == 0 &&
	       same_address(c->path.remote, key->remote) && same_address(c->path.local, key->local);
}

static void rx_no_conn(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_flow_key *key)
{
	struct sl_frame *f = seg->f;

	/* A SYN may be of an existing connection, too. */
	if (t->net->handover && !(f->flags & SL_NET_HANDED_OVER) &&
	    sl_handover_give(t->net, f, key, SL_IP_PROTO_TCP))
		return;
	sl_tcp_parse_rest(seg);
	strip_header(seg);
	sl_tcp_listen(t, seg, key, NULL);
}

static void rx_conn(struct sl_tcp_conn *c, struct sl_tcp_seg *seg)
{
	strip_header(seg);
	if (sl_likely(sl_tcp_rx_fast(c, seg)))
		return;
	sl_tcp_parse_rest(seg);
	if (c->state == SL_TCPS_SYN_SENT)
		sl_tcp_rx_syn_sent(c, seg);
	else
		sl_tcp_rx_slow(c, seg);
}

void sl_tcp_input(void *ctx, struct sl_frame *f, const struct sl_flow_key *key)
{
	struct sl_tcp *t = ctx;
	SL_UNINIT struct sl_tcp_seg seg;
	uint32_t value, isn;

	if (sl_unlikely(t->dead_head))
		sl_tcp_reap(t);
	t->stats.segs_in++;
	if (!parse_header(t, f, &seg))
		return;
	value = sl_flow_find_by(&t->flows, f->flow_hash, key, sl_tcp_flow_match);
	if (sl_likely(value < SL_TCP_TW_BASE)) {
		rx_conn(sl_mempool_at(&t->conns, value), &seg);
	} else if (value == SL_FLOW_NONE) {
		rx_no_conn(t, &seg, key);
	} else {
		sl_tcp_parse_rest(&seg);
		strip_header(&seg);
		if (sl_tcp_tw_input(t, value, &seg, &isn))
			sl_tcp_listen(t, &seg, key, &isn);
	}
}
