/* SPDX-License-Identifier: Apache-2.0 */
/* A segment from net: header, checksum, whose it is. */
#include "tcp/internal.h"

/* RFC 9293 3.1. What cannot be a segment is dropped here; payload and options are bounded. */
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

/* From here on the frame is its payload. */
static void strip_header(struct sl_tcp_seg *seg)
{
	struct sl_frame *f = seg->f;

	f->data += f->len - seg->len;
	f->len = (uint16_t)seg->len;
	f->seq = seg->seq;
}

/* The slow path's view of the options: all of them. Malformed ones end the list, nothing more. */
void sl_tcp_parse_rest(struct sl_tcp_seg *seg)
{
	seg->opts = (struct sl_tcp_opts)SL_TCP_OPTS_NONE;
	(void)sl_tcp_opt_parse(seg->opt, seg->opt_len, &seg->opts);
	seg->has_ts = seg->opts.has_ts;
	seg->ts_val = seg->opts.ts_val;
	seg->ts_ecr = seg->opts.ts_ecr;
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
	if (!sl_tcp_may_rst(t)) {
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

static void rx_no_conn(struct sl_tcp *t, struct sl_tcp_seg *seg, const struct sl_flow_key *key)
{
	struct sl_frame *f = seg->f;

	if (!(seg->flags & SL_TCP_SYN) && t->net->handover && !(f->flags & SL_NET_HANDED_OVER) &&
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

void sl_tcp_input(struct sl_tcp *t, struct sl_frame *f)
{
	struct sl_tcp_seg seg;
	struct sl_flow_key key;
	uint32_t value;

	if (sl_unlikely(t->dead_head))
		sl_tcp_reap(t);
	t->stats.segs_in++;
	if (!parse_header(t, f, &seg))
		return;
	sl_net_flow_key(t->net, f, &key);
	if (!f->flow_hash)
		f->flow_hash = sl_flow_hash(&t->flows, &key);
	value = sl_flow_find(&t->flows, f->flow_hash, &key);
	if (sl_likely(value < SL_TCP_TW_BASE)) {
		rx_conn(sl_pool_at(&t->conns, value), &seg);
	} else if (value == SL_FLOW_NONE) {
		rx_no_conn(t, &seg, &key);
	} else {
		sl_tcp_parse_rest(&seg);
		strip_header(&seg);
		sl_tcp_tw_input(t, value, &seg, &key);
	}
}
