/* SPDX-License-Identifier: Apache-2.0 */
#include "net/net.h"
#include "net/route.h"
#include "net/steps.h"
#include "wire/csum.h"
#include "wire/eth.h"
#include "wire/ip4.h"

static void push_pending(struct sl_net *n, unsigned port)
{
	struct sl_port *p = n->ports[port];
	struct sl_frame **frames = n->tx[port].frames;
	unsigned cnt = n->tx[port].cnt;
	unsigned taken = p->ops->tx_burst(p, frames, cnt);

	n->tx[port].cnt = cnt - taken;
	if (taken && taken < cnt)
		memmove(frames, frames + taken, (cnt - taken) * sizeof(struct sl_frame *));
}

static bool give_back(struct sl_net *n, struct sl_frame *f, enum sl_drop why)
{
	sl_net_drop(n, why);
	if (!f->retain)
		sl_frame_put(n->umem, f);
	else if (f->state != SL_FRAME_UNACKED)
		sl_frame_to(n->umem, f, SL_FRAME_UNACKED);
	return false;
}

bool sl_net_tx(struct sl_net *n, struct sl_frame *f)
{
	unsigned port = f->port;

	SL_CHECK(port < n->port_cnt);
	if (n->tx[port].cnt == SL_BURST)
		push_pending(n, port);
	if (n->tx[port].cnt == SL_BURST)
		return give_back(n, f, SL_DROP_TX_FULL);
	if (f->state != SL_FRAME_TX)
		sl_frame_to(n->umem, f, SL_FRAME_TX);
	n->tx[port].frames[n->tx[port].cnt++] = f;
	return true;
}

static void push_ip(struct sl_frame *f, const struct sl_net_path *path, uint8_t protocol)
{
	if (path->family == 4) {
		struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)(f->data - sizeof(*ip));
		uint32_t src_be, dst_be;

		memcpy(&src_be, path->local, 4);
		memcpy(&dst_be, path->remote, 4);
		/* Atomic datagram, RFC 6864 4.1. */
		sl_ip4_write(ip, src_be, dst_be, protocol, f->len, 0, true);
		sl_csum_ip4_fill(ip, sizeof(*ip));
		f->data -= sizeof(*ip);
		f->len = (uint16_t)(f->len + sizeof(*ip));
	} else {
		struct sl_ip6_hdr *ip = (struct sl_ip6_hdr *)(f->data - sizeof(*ip));

		sl_ip6_write(ip, path->local, path->remote, protocol, f->len);
		f->data -= sizeof(*ip);
		f->len = (uint16_t)(f->len + sizeof(*ip));
	}
}

static void push_eth(const struct sl_net *n, struct sl_frame *f, const struct sl_net_path *path)
{
	struct sl_vlan_tag tags[SL_ETH_VLAN_MAX];
	size_t len = sl_eth_hdr_len(path->vlan_cnt);

	for (unsigned i = 0; i < path->vlan_cnt; i++) {
		bool ad = i == 0 && path->vlan_ad;

		tags[i].tpid_be = htobe16(ad ? SL_ETHERTYPE_QINQ : SL_ETHERTYPE_VLAN);
		tags[i].tci_be = htobe16(path->vlan[i]);
	}
	f->data -= len;
	f->len = (uint16_t)(f->len + len);
	sl_eth_write(f->data, path->mac, n->ports[path->port]->mac, tags, path->vlan_cnt,
		     path->family == 4 ? SL_ETHERTYPE_IP4 : SL_ETHERTYPE_IP6);
}

/* The kernel gets a copy if it must resolve or verify the neighbour. */
static bool follow_route(struct sl_net *n, struct sl_frame *f, const struct sl_net_path *path)
{
	struct sl_eth_hdr *eth = (struct sl_eth_hdr *)f->data;
	static const uint8_t no_mac[6];
	struct sl_next_hop hop = {0};
	int out = -1;

	if (n->routes && sl_routes_find(n->routes, path->family, path->local, path->remote, &hop))
		out = sl_net_port_on(n, hop.ifindex);
	if (out >= 0 && (!hop.known || hop.stale))
		sl_net_copy_to_kernel(n, f, path);
	if (out < 0 || !hop.known)
		return memcmp(path->mac, no_mac, sizeof(no_mac)) != 0;
	memcpy(eth->dst, hop.mac, sizeof(eth->dst));
	memcpy(eth->src, n->ports[out]->mac, sizeof(eth->src));
	f->port = (uint8_t)out;
	return true;
}

bool sl_net_send(struct sl_net *n, struct sl_frame *f, const struct sl_net_path *path,
		 uint8_t protocol)
{
	SL_CHECK((size_t)(f->data - sl_frame_base(n->umem, f)) >= sl_net_header_len(path));
	SL_CHECK(path->vlan_cnt <= SL_ETH_VLAN_MAX);
	push_ip(f, path, protocol);
	push_eth(n, f, path);
	f->port = path->port;
	if (sl_unlikely(path->routed) && !follow_route(n, f, path))
		return give_back(n, f, SL_DROP_NO_NEIGHBOUR);
	return sl_net_tx(n, f);
}

void sl_net_flush(struct sl_net *n)
{
	for (unsigned i = 0; i < n->port_cnt; i++) {
		if (n->tx[i].cnt)
			push_pending(n, i);
		n->ports[i]->ops->flush(n->ports[i]);
	}
}
