/* SPDX-License-Identifier: Apache-2.0 */
#include "net/steps.h"
#include "wire/eth.h"

/*
 * Replies go to the source MAC, so it must be one of somebody else. Nothing that is sent to a group
 * is for TCP, and answering datagrams to a group would multiply them (RFC 1122 3.2.2, 4.2.3.10).
 */
static bool addresses_ok(const struct sl_eth_hdr *h, const uint8_t *own_mac)
{
	static const uint8_t zero[SL_ETH_ALEN];

	return !sl_eth_is_multicast(h->dst) && !sl_eth_is_multicast(h->src) &&
	       memcmp(h->src, zero, SL_ETH_ALEN) != 0 && memcmp(h->src, own_mac, SL_ETH_ALEN) != 0;
}

int sl_net_eth_rx(struct sl_net *n, struct sl_frame *f)
{
	struct sl_eth_view v;
	int len = sl_eth_parse(f->data, f->len, &v);

	if (len < 0) {
		sl_net_drop_frame(
			n, f, len == SL_WIRE_TRUNCATED ? SL_DROP_ETH_TRUNCATED : SL_DROP_ETH_TYPE);
		return SL_NET_DROPPED;
	}
	if (!addresses_ok(v.hdr, n->ports[f->port]->mac)) {
		sl_net_drop_frame(n, f, SL_DROP_ETH_ADDRESS);
		return SL_NET_DROPPED;
	}
	if (v.type != SL_ETHERTYPE_IP4 && v.type != SL_ETHERTYPE_IP6) {
		sl_net_drop_frame(n, f, SL_DROP_ETH_TYPE);
		return SL_NET_DROPPED;
	}
	f->l2_off = (uint16_t)(f->data - sl_frame_base(n->umem, f));
	f->l3_off = (uint16_t)(f->l2_off + len);
	f->data += len;
	f->len = (uint16_t)(f->len - len);
	return v.type;
}
