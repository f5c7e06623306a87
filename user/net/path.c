/* SPDX-License-Identifier: Apache-2.0 */
#include "net/net.h"
#include "base/clock.h"
#include "base/fnv.h"
#include "net/route.h"
#include "net/steps.h"
#include "wire/csum.h"
#include "wire/eth.h"
#include "xio/rss.h"

enum { VID_MASK = 0x0fff };

static uint64_t pseudo_of(const uint8_t *l3, uint8_t family, uint8_t protocol, uint32_t len)
{
	if (family == 4) {
		const struct sl_ip4_hdr *ip = (const struct sl_ip4_hdr *)l3;

		return sl_csum_pseudo4(ip->src_be, ip->dst_be, protocol, len);
	}
	const struct sl_ip6_hdr *ip = (const struct sl_ip6_hdr *)l3;

	return sl_csum_pseudo6(ip->src, ip->dst, protocol, len);
}

bool sl_net_l4_csum_ok(const struct sl_net *n, const struct sl_frame *f, uint8_t protocol,
		       uint16_t csum_off)
{
	uint64_t pseudo = pseudo_of(sl_net_l3(n, f), f->family, protocol, f->len);
	uint16_t csum_be;

	if (n->ports[f->port]->partial_csum) {
		memcpy(&csum_be, f->data + csum_off, sizeof(csum_be));
		if (sl_csum_l4_partial(pseudo, csum_be))
			return true;
	}
	return sl_csum_l4_ok(pseudo, f->data, f->len);
}

uint16_t sl_net_l4_csum(const struct sl_net_path *path, uint8_t protocol, const void *l4,
			size_t len)
{
	uint64_t pseudo = sl_net_pseudo_sum(path, protocol, (uint32_t)len);

	return sl_csum_finish(sl_csum_add(l4, len, pseudo));
}

int sl_net_port_on(const struct sl_net *n, int ifindex)
{
	for (int i = 0; i < n->port_cnt; i++) {
		if (n->ports[i]->ifindex == ifindex)
			return i;
	}
	return -1;
}

/* Tagged packets go back with their tags, and link-local peers have no route of their own. */
static bool is_routed(const struct sl_net *n, const struct sl_net_path *path)
{
	const bool link_local =
		path->family == 6 && path->remote[0] == 0xfe && (path->remote[1] & 0xc0) == 0x80;
	int out;

	return !path->vlan_cnt && !link_local &&
	       sl_routes_differ(n->routes, path->family, path->local, path->remote,
				n->ports[path->port]->ifindex, path->mac, &out) &&
	       sl_net_port_on(n, out) >= 0;
}

void sl_net_set_routes(struct sl_net *n, struct sl_routes *r)
{
	sl_routes_put(n->routes);
	n->routes = r;
}

void sl_net_set_rss(struct sl_net *n, struct sl_rss_list *l)
{
	sl_rss_list_put(n->rss);
	n->rss = l;
}

int sl_net_receives(const struct sl_net *n, const struct sl_net_path *path, uint16_t local_port_be,
		    uint16_t remote_port_be)
{
	const int ifindex = n->ports[path->port]->ifindex;
	const struct sl_rss *r = sl_rss_find(n->rss, ifindex);
	int queue = r ? sl_rss_queue(r, path->family, path->remote, remote_port_be, path->local,
				     local_port_be)
		      : -1;

	for (unsigned i = 0; queue >= 0 && i < n->port_cnt; i++) {
		if (n->ports[i]->ifindex == ifindex && n->ports[i]->queue == queue)
			return 1;
	}
	return queue < 0 ? -1 : 0;
}

static const struct sl_port *port_out(const struct sl_net *n, const struct sl_net_path *path)
{
	struct sl_next_hop hop;
	int out = -1;

	if (path->routed && n->routes &&
	    sl_routes_find(n->routes, path->family, path->local, path->remote, &hop))
		out = sl_net_port_on(n, hop.ifindex);
	return n->ports[out >= 0 ? (uint32_t)out : path->port];
}

static uint32_t lower_of(uint32_t in, uint32_t out, uint8_t family)
{
	const uint32_t mtu = in < out ? in : out;

	return family == 6 && mtu < SL_NET_MIN_MTU6 ? SL_NET_MIN_MTU6 : mtu;
}

uint32_t sl_net_rx_mtu(const struct sl_net *n, const struct sl_net_path *path)
{
	return lower_of(n->ports[path->port]->rx_mtu, port_out(n, path)->rx_mtu, path->family);
}

uint32_t sl_net_mtu(const struct sl_net *n, const struct sl_net_path *path)
{
	return lower_of(n->ports[path->port]->mtu, port_out(n, path)->mtu, path->family);
}

static uint16_t tag_of(const uint8_t *l2, unsigned i)
{
	return sl_get_be16(l2 + sizeof(struct sl_eth_hdr) + i * sizeof(struct sl_vlan_tag));
}

void sl_net_set_sender(const struct sl_net *n, struct sl_frame *f)
{
	const uint8_t *l2 = sl_frame_base(n->umem, f) + f->l2_off;
	const unsigned cnt = (f->l3_off - f->l2_off - (unsigned)sizeof(struct sl_eth_hdr)) / 4;

	f->sender = sl_net_sender(l2 + SL_ETH_ALEN, f->port);
	for (unsigned i = 0; i < cnt && i < SL_ETH_VLAN_MAX; i++) {
		const uint16_t vid = tag_of(l2, i) & VID_MASK;

		f->sender = sl_fnv32(f->sender ^ SL_FNV32, &vid, sizeof(vid));
	}
}

void sl_net_path_from_rx(const struct sl_net *n, const struct sl_frame *f, struct sl_net_path *path)
{
	const uint8_t *l2 = sl_frame_base(n->umem, f) + f->l2_off;
	const struct sl_eth_hdr *eth = (const struct sl_eth_hdr *)l2;

	*path = (struct sl_net_path){
		.vlan_cnt = (uint8_t)((f->l3_off - f->l2_off - (int)sizeof(*eth)) / 4),
		.vlan_ad = be16toh(eth->type_be) == SL_ETHERTYPE_QINQ,
		.family = f->family,
		.port = f->port,
	};
	sl_net_addresses(n, f, path->local, path->remote);
	memcpy(path->mac, eth->src, SL_ETH_ALEN);
	for (unsigned i = 0; i < path->vlan_cnt; i++)
		path->vlan[i] = tag_of(l2, i);
	path->sender = f->sender;
	path->routed = n->routes && is_routed(n, path);
}

bool sl_net_path_by_route(const struct sl_net *n, const struct sl_addr *local,
			  const struct sl_addr *remote, struct sl_net_path *path)
{
	struct sl_next_hop hop;
	int out;

	if (!n->routes ||
	    !sl_routes_find(n->routes, remote->family, local->addr, remote->addr, &hop))
		return false;
	out = sl_net_port_on(n, hop.ifindex);
	if (out < 0)
		return false;
	*path = (struct sl_net_path){
		.family = remote->family, .port = (uint8_t)out, .routed = true};
	memcpy(path->local, local->addr, sizeof(path->local));
	memcpy(path->remote, remote->addr, sizeof(path->remote));
	return true;
}

bool sl_net_follow_next_hop(struct sl_net *n, const struct sl_frame *f, struct sl_net_path *path)
{
	unsigned now = (unsigned)(n->now_ns / (SL_NS_PER_SEC / 10)) & 63;
	struct sl_net_path to;

	if (now == path->changed_at)
		return false;
	sl_net_path_from_rx(n, f, &to);
	/* A failed router may be the host's route. */
	to.routed = false;
	to.changed_at = now & 63;
	*path = to;
	n->nexthop_changes++;
	return true;
}
