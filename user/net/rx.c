/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpu.h"
#include "net/flow_table.h"
#include "net/steps.h"
#include "wire/csum.h"
#include "wire/eth.h"
#include "wire/ip4.h"

enum { DROPPED = -1 };

static int drop(struct sl_net *n, struct sl_frame *f, enum sl_drop why)
{
	sl_net_drop_frame(n, f, why);
	return DROPPED;
}

/*
 * Replies go to the source MAC, so it must be another host's. TCP is never sent to a group, and
 * answers to datagrams for a group would multiply them (RFC 1122 3.2.2, 4.2.3.10).
 */
static bool addresses_ok(const struct sl_eth_hdr *h, const uint8_t *own_mac)
{
	static const uint8_t zero[SL_ETH_ALEN];

	return !sl_eth_is_multicast(h->dst) && !sl_eth_is_multicast(h->src) &&
	       memcmp(h->src, zero, SL_ETH_ALEN) != 0 && memcmp(h->src, own_mac, SL_ETH_ALEN) != 0;
}

static int eth_rx(struct sl_net *n, struct sl_frame *f)
{
	SL_UNINIT struct sl_eth_view v;
	int len = sl_eth_parse(f->data, f->len, &v);

	if (len < 0)
		return drop(n, f,
			    len == SL_WIRE_TRUNCATED ? SL_DROP_ETH_TRUNCATED : SL_DROP_ETH_TYPE);
	if (!addresses_ok(v.hdr, n->ports[f->port]->mac))
		return drop(n, f, SL_DROP_ETH_ADDRESS);
	if (v.type != SL_ETHERTYPE_IP4 && v.type != SL_ETHERTYPE_IP6)
		return drop(n, f, SL_DROP_ETH_TYPE);
	f->l2_off = (uint16_t)(f->data - sl_frame_base(n->umem, f));
	f->l3_off = (uint16_t)(f->l2_off + len);
	f->sender = sl_net_sender(v.hdr->src, f->port);
	if (sl_unlikely(v.vlan_cnt))
		sl_net_set_sender(n, f);
	f->data += len;
	f->len = (uint16_t)(f->len - len);
	return v.type;
}

static enum sl_drop drop_of(int verdict)
{
	switch (verdict) {
	case SL_WIRE_LENGTH: return SL_DROP_IP_LENGTH;
	case SL_WIRE_EXTENSION: return SL_DROP_IP6_EXTENSION;
	default: return SL_DROP_IP_HEADER;
	}
}

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
	/* A packet from its own destination would make the stack talk to itself. */
	if (sl_ip4_src_invalid(v.hdr->src_be) || v.hdr->src_be == v.hdr->dst_be)
		return drop(n, f, SL_DROP_IP_SOURCE);
	if (v.protocol != SL_IP_PROTO_TCP && v.protocol != SL_IP_PROTO_UDP &&
	    v.protocol != SL_IP_PROTO_ICMP)
		return drop(n, f, SL_DROP_IP_PROTOCOL);
	if (v.hdr_len > SL_IP4_HDR_MIN) {
		len = sl_ip4_check_options(&v);
		if (len)
			return drop(n, f,
				    len == SL_WIRE_TYPE ? SL_DROP_IP_SOURCE_ROUTE
							: SL_DROP_IP_HEADER);
	}
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

static const struct sl_l4 *l4_of(const struct sl_net *n, uint8_t protocol)
{
	if (protocol == SL_IP_PROTO_TCP)
		return &n->tcp;
	return protocol == SL_IP_PROTO_UDP ? &n->udp : NULL;
}

void sl_net_flow_key(const struct sl_net *n, const struct sl_frame *f, struct sl_flow_key *key)
{
	static const uint8_t no_ports[4];
	const uint8_t *ports = f->len >= sizeof(no_ports) ? f->data : no_ports;

	sl_net_addresses(n, f, key->local, key->remote);
	memcpy(&key->remote_port_be, ports, 2);
	memcpy(&key->local_port_be, ports + 2, 2);
	key->family = f->family;
	memset(key->pad, 0, sizeof(key->pad));
}

static void find_flows(const struct sl_net *n, struct sl_frame **frames, const uint8_t *protocols,
		       struct sl_flow_key *keys, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		const struct sl_l4 *to = l4_of(n, protocols[i]);

		if (!to || !to->flows)
			continue;
		sl_net_flow_key(n, frames[i], &keys[i]);
		frames[i]->flow_hash = sl_flow_hash(to->flows, &keys[i]);
		sl_flow_prefetch(to->flows, frames[i]->flow_hash);
	}
}

void sl_net_deliver(struct sl_net *n, struct sl_frame **frames, const uint8_t *protocols,
		    unsigned cnt)
{
	SL_UNINIT struct sl_flow_key keys[SL_BURST];

	SL_CHECK(cnt <= SL_BURST);
	find_flows(n, frames, protocols, keys, cnt);
	for (unsigned i = 0; i < cnt; i++) {
		const struct sl_l4 *to = l4_of(n, protocols[i]);

		if (!to)
			sl_net_icmp_rx(n, frames[i], protocols[i]);
		else if (to->input)
			to->input(to->ctx, frames[i], to->flows ? &keys[i] : NULL);
		else
			sl_net_drop_frame(n, frames[i], SL_DROP_NO_LISTENER);
	}
}

static unsigned classify(struct sl_net *n, struct sl_frame **frames, unsigned cnt,
			 struct sl_frame **kept, uint8_t *protocols)
{
	unsigned kept_cnt = 0;

	for (unsigned i = 0; i < cnt; i++) {
		struct sl_frame *f = frames[i];
		int type, protocol;

		f->flags = 0;
		type = eth_rx(n, f);
		if (type == DROPPED)
			continue;
		protocol = type == SL_ETHERTYPE_IP4 ? ip4_rx(n, f) : ip6_rx(n, f);
		if (protocol == DROPPED)
			continue;
		protocols[kept_cnt] = (uint8_t)protocol;
		kept[kept_cnt++] = f;
	}
	return kept_cnt;
}

void sl_net_input(struct sl_net *n, struct sl_frame **frames, unsigned cnt, uint64_t now_ns)
{
	SL_UNINIT struct sl_frame *kept[SL_BURST];
	SL_UNINIT uint8_t protocols[SL_BURST];

	n->now_ns = now_ns;
	while (cnt) {
		unsigned part = cnt < SL_BURST ? cnt : SL_BURST;

		for (unsigned i = 0; i < part; i++) {
			sl_prefetch(frames[i]->data);
			sl_prefetch(frames[i]->data + SL_CACHELINE);
		}
		sl_net_deliver(n, kept, protocols, classify(n, frames, part, kept, protocols));
		frames += part;
		cnt -= part;
	}
}
