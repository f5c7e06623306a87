/* SPDX-License-Identifier: Apache-2.0 */
#include "net/steps.h"
#include "wire/csum.h"
#include "wire/eth.h"

static int drop(struct sl_net *n, struct sl_frame *f, enum sl_drop why)
{
	sl_net_drop_frame(n, f, why);
	return SL_NET_DROPPED;
}

static enum sl_drop drop_of(int verdict)
{
	switch (verdict) {
	case SL_WIRE_LENGTH: return SL_DROP_IP_LENGTH;
	case SL_WIRE_EXTENSION: return SL_DROP_IP6_EXTENSION;
	default: return SL_DROP_IP_HEADER;
	}
}

/* data and len: exactly the IP packet's payload, without options and without Ethernet padding. */
static void enter_l4(struct sl_frame *f, uint8_t family, uint16_t hdr_len, uint16_t payload_len)
{
	f->family = family;
	f->data += hdr_len;
	f->len = payload_len;
}

static int ip4_rx(struct sl_net *n, struct sl_frame *f)
{
	struct sl_ip4_view v;
	int len = sl_ip4_parse(f->data, f->len, &v);

	if (len < 0)
		return drop(n, f, drop_of(len));
	if (!sl_csum_ip4_ok(v.hdr, v.hdr_len))
		return drop(n, f, SL_DROP_IP_CHECKSUM);
	if (v.fragment)
		return drop(n, f, SL_DROP_IP_FRAGMENT);
	/* "ours": a packet from its own destination would make the stack talk to itself. */
	if (sl_ip4_src_invalid(v.hdr->src_be) || v.hdr->src_be == v.hdr->dst_be)
		return drop(n, f, SL_DROP_IP_SOURCE);
	if (v.protocol != SL_IP_PROTO_TCP && v.protocol != SL_IP_PROTO_UDP &&
	    v.protocol != SL_IP_PROTO_ICMP)
		return drop(n, f, SL_DROP_IP_PROTOCOL);
	enter_l4(f, 4, v.hdr_len, v.payload_len);
	return v.protocol;
}

static int ip6_rx(struct sl_net *n, struct sl_frame *f)
{
	struct sl_ip6_view v;
	int len = sl_ip6_parse(f->data, f->len, &v);

	if (len < 0)
		return drop(n, f, drop_of(len));
	if (v.fragment)
		return drop(n, f, SL_DROP_IP_FRAGMENT);
	if (sl_ip6_src_invalid(v.hdr->src) || memcmp(v.hdr->src, v.hdr->dst, 16) == 0)
		return drop(n, f, SL_DROP_IP_SOURCE);
	if (v.protocol != SL_IP_PROTO_TCP && v.protocol != SL_IP_PROTO_UDP &&
	    v.protocol != SL_IP_PROTO_ICMP6)
		return drop(n, f, SL_DROP_IP_PROTOCOL);
	enter_l4(f, 6, v.hdr_len, v.payload_len);
	return v.protocol;
}

int sl_net_ip_rx(struct sl_net *n, struct sl_frame *f, int ethertype)
{
	return ethertype == SL_ETHERTYPE_IP4 ? ip4_rx(n, f) : ip6_rx(n, f);
}
