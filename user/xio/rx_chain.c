/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/rx_chain.h"

#include <string.h>
#include "wire/csum.h"
#include "wire/eth.h"
#include "wire/ip4.h"
#include "wire/ip6.h"
#include "wire/tcp.h"

enum { LAST_ONLY = SL_TCP_FIN | SL_TCP_PSH };

static uint64_t pseudo_sum(const struct sl_rx_chain *c, uint32_t l4_len)
{
	const struct sl_ip4_hdr *v4 = (const struct sl_ip4_hdr *)(c->header + c->l3_off);
	const struct sl_ip6_hdr *v6 = (const struct sl_ip6_hdr *)(c->header + c->l3_off);

	return c->family == 4 ? sl_csum_pseudo4(v4->src_be, v4->dst_be, SL_IP_PROTO_TCP, l4_len)
			      : sl_csum_pseudo6(v6->src, v6->dst, SL_IP_PROTO_TCP, l4_len);
}

/* Length of the IP header, and in *l4_len of TCP; 0: no TCP. */
static uint16_t find_l4(struct sl_rx_chain *c, const uint8_t *ip, size_t room, uint16_t type,
			uint32_t *l4_len)
{
	const struct sl_ip4_hdr *v4 = (const struct sl_ip4_hdr *)ip;
	const struct sl_ip6_hdr *v6 = (const struct sl_ip6_hdr *)ip;
	unsigned len;

	if (type == SL_ETHERTYPE_IP4 && room >= sizeof(*v4)) {
		len = (v4->ver_ihl & 15u) * 4;
		if (v4->ver_ihl >> 4 != 4 || len < sizeof(*v4) || len > room ||
		    v4->protocol != SL_IP_PROTO_TCP ||
		    be16toh(v4->frag_be) & (SL_IP4_MF | SL_IP4_OFFSET_MASK) ||
		    be16toh(v4->total_len_be) < len)
			return 0;
		*l4_len = be16toh(v4->total_len_be) - len;
		c->family = 4;
		return (uint16_t)len;
	}
	if (type == SL_ETHERTYPE_IP6 && room >= sizeof(*v6) && ip[0] >> 4 == 6 &&
	    v6->next_header == SL_IP_PROTO_TCP) {
		*l4_len = be16toh(v6->payload_len_be);
		c->family = 6;
		return sizeof(*v6);
	}
	return 0;
}

static bool begin_chain(struct sl_rx_chain *c, const struct sl_frame *f)
{
	const struct sl_tcp_hdr *tcp;
	struct sl_eth_view eth;
	int l3 = sl_eth_parse(f->data, f->len, &eth), tcp_len;
	uint32_t l4_len = 0;
	uint16_t ip_len;

	if (l3 < 0)
		return false;
	ip_len = find_l4(c, f->data + l3, f->len - (size_t)l3, eth.type, &l4_len);
	c->l3_off = (uint16_t)l3;
	c->l4_off = (uint16_t)(l3 + ip_len);
	if (!ip_len)
		return false;
	tcp_len = sl_tcp_parse(f->data + c->l4_off, (size_t)f->len - c->l4_off, &tcp);
	if (tcp_len < 0 || c->l4_off + tcp_len > SL_RX_CHAIN_HEADER_MAX)
		return false;
	c->len = (uint16_t)(c->l4_off + tcp_len);
	memcpy(c->header, f->data, c->len);
	c->seq = be32toh(tcp->seq_be);
	c->flags = tcp->flags;
	if (l4_len < (uint32_t)tcp_len + (f->len - c->len) ||
	    tcp->flags & (SL_TCP_SYN | SL_TCP_RST | SL_TCP_URG))
		return false;
	c->left = l4_len - (uint32_t)tcp_len;
	c->sum = pseudo_sum(c, l4_len);
	c->summed = 0;
	c->whole = !c->partial_csum || !sl_csum_l4_partial(c->sum, tcp->csum_be);
	return true;
}

static void add_sum(struct sl_rx_chain *c, const uint8_t *bytes, uint32_t len)
{
	c->sum = sl_csum_join(c->sum, sl_csum_add(bytes, len, 0), c->summed);
	c->summed += len;
}

static void write_header(struct sl_rx_chain *c, struct sl_frame *f, bool last)
{
	struct sl_ip4_hdr *v4 = (struct sl_ip4_hdr *)(f->data + c->l3_off);
	struct sl_ip6_hdr *v6 = (struct sl_ip6_hdr *)(f->data + c->l3_off);
	struct sl_tcp_hdr *tcp = (struct sl_tcp_hdr *)(f->data + c->l4_off);
	const uint16_t l4_len = (uint16_t)(f->len - c->l4_off);
	const uint16_t ip_len = (uint16_t)(c->l4_off - c->l3_off);

	memcpy(f->data, c->header, c->len);
	tcp->seq_be = htobe32(c->seq);
	tcp->flags = last ? c->flags : (uint8_t)(c->flags & ~LAST_ONLY);
	tcp->csum_be = 0;
	tcp->csum_be = c->partial_csum
			       ? sl_csum_fold(pseudo_sum(c, l4_len))
			       : sl_csum_finish(sl_csum_add(tcp, l4_len, pseudo_sum(c, l4_len)));
	if (c->family == 4) {
		v4->total_len_be = htobe16((uint16_t)(ip_len + l4_len));
		v4->csum_be = 0;
		sl_csum_ip4_fill(v4, ip_len);
	} else {
		v6->payload_len_be = htobe16(l4_len);
	}
}

static void make_segment(struct sl_rx_chain *c, struct sl_frame *f, bool first, bool last)
{
	if (!first) {
		f->data -= c->len;
		f->len = (uint16_t)(f->len + c->len);
	}
	write_header(c, f, last);
	c->seq += (uint32_t)(f->len - c->len);
}

static bool is_wrong(const struct sl_rx_chain *c, uint32_t payload, bool last)
{
	return payload > c->left || (last && payload != c->left);
}

/* Also drops a frame after which the chain cannot be right. */
static enum sl_rx_chain_verdict add_frame(struct sl_rx_chain *c, struct sl_frame *f, bool first,
					  bool last)
{
	const uint32_t headers = first ? (uint32_t)(c->len - c->l4_off) : 0;
	const uint32_t payload = f->len - (first ? c->len : 0u);

	if (is_wrong(c, payload, last))
		return SL_RX_CHAIN_DROP;
	c->left -= payload;
	if (!c->whole) {
		make_segment(c, f, first, last);
		return SL_RX_CHAIN_PASS;
	}
	add_sum(c, first ? f->data + c->l4_off : f->data, headers + payload);
	if (!last)
		return c->frame_cnt < SL_RX_CHAIN_FRAMES ? SL_RX_CHAIN_WAIT : SL_RX_CHAIN_DROP;
	if (sl_csum_fold(c->sum) != 0xffff)
		return SL_RX_CHAIN_DROP;
	for (uint32_t i = 0; i < c->frame_cnt; i++)
		make_segment(c, c->frames[i], i == 0, i + 1 == c->frame_cnt);
	return SL_RX_CHAIN_PASS;
}

enum sl_rx_chain_verdict sl_rx_chain_take(struct sl_rx_chain *c, struct sl_frame *f, bool more)
{
	const bool first = !c->open;
	enum sl_rx_chain_verdict verdict = SL_RX_CHAIN_DROP;

	c->open = more;
	c->frames[c->frame_cnt++] = f;
	if (!first)
		f->rx_ns = 0; /* the program stamps the first frame only */
	if (first && !more)
		return SL_RX_CHAIN_PASS;
	if (first)
		c->drop = !begin_chain(c, f);
	if (!c->drop)
		verdict = add_frame(c, f, first, !more);
	if (verdict == SL_RX_CHAIN_DROP)
		c->drop = true;
	return verdict;
}
