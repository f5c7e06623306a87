/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/icmp.h"

#include "wire/ip4.h"
#include "wire/ip6.h"

enum { QUOTED_L4 = 8, QUOTE_MAX = 2048 };

/* Ports and sequence number lie in the 8 bytes that RFC 792 guarantees. */
static int quote_transport(const uint8_t *l4, size_t len, struct sl_icmp_quote *q)
{
	if (q->protocol != SL_IP_PROTO_TCP && q->protocol != SL_IP_PROTO_UDP)
		return SL_WIRE_TYPE;
	if (len < QUOTED_L4)
		return SL_WIRE_TRUNCATED;
	memcpy(&q->sport_be, l4, 2);
	memcpy(&q->dport_be, l4 + 2, 2);
	q->seq = q->protocol == SL_IP_PROTO_TCP ? sl_get_be32(l4 + 4) : 0;
	return 0;
}

int sl_icmp4_quote(const uint8_t *p, size_t len, struct sl_icmp_quote *q)
{
	const struct sl_ip4_hdr *ip = (const struct sl_ip4_hdr *)p;
	size_t hdr_len;

	if (len < sizeof(*ip))
		return SL_WIRE_TRUNCATED;
	if (ip->ver_ihl >> 4 != 4)
		return SL_WIRE_TYPE;
	hdr_len = (ip->ver_ihl & 15u) * 4;
	if (hdr_len < sizeof(*ip) || be16toh(ip->total_len_be) < hdr_len + QUOTED_L4 ||
	    (be16toh(ip->frag_be) & SL_IP4_OFFSET_MASK))
		return SL_WIRE_HEADER;
	if (len < hdr_len)
		return SL_WIRE_TRUNCATED;
	q->family = 4;
	q->protocol = ip->protocol;
	q->src = p + offsetof(struct sl_ip4_hdr, src_be);
	q->dst = p + offsetof(struct sl_ip4_hdr, dst_be);
	q->ip_len = be16toh(ip->total_len_be);
	return quote_transport(p + hdr_len, len - hdr_len, q);
}

int sl_icmp6_quote(const uint8_t *p, size_t len, struct sl_icmp_quote *q)
{
	const struct sl_ip6_hdr *ip = (const struct sl_ip6_hdr *)p;
	struct sl_ip6_view v = {.hdr = ip};
	int off;

	if (len < sizeof(*ip))
		return SL_WIRE_TRUNCATED;
	if (p[0] >> 4 != 6)
		return SL_WIRE_TYPE;
	if (len > QUOTE_MAX) /* minimum MTU: RFC 4443 2.4 (c) */
		len = QUOTE_MAX;
	v.protocol = ip->next_header;
	off = sl_ip6_walk(p, len, &v);
	if (off == SL_WIRE_LENGTH)
		return SL_WIRE_TRUNCATED;
	if (off < 0)
		return off;
	if (v.fragment || be16toh(ip->payload_len_be) + sizeof(*ip) < (size_t)off + QUOTED_L4)
		return SL_WIRE_HEADER;
	q->family = 6;
	q->protocol = v.protocol;
	q->src = ip->src;
	q->dst = ip->dst;
	q->ip_len = (uint16_t)(be16toh(ip->payload_len_be) + sizeof(*ip));
	return quote_transport(p + off, len - (size_t)off, q);
}
