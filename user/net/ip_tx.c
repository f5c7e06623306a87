/* SPDX-License-Identifier: Apache-2.0 */
#include "net/flow_table.h"
#include "net/net.h"
#include "wire/csum.h"
#include "wire/eth.h"

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
	uint64_t pseudo;

	if (path->family == 4) {
		uint32_t src_be, dst_be;

		memcpy(&src_be, path->local, 4);
		memcpy(&dst_be, path->remote, 4);
		pseudo = sl_csum_pseudo4(src_be, dst_be, protocol, (uint32_t)len);
	} else {
		pseudo = sl_csum_pseudo6(path->local, path->remote, protocol, (uint32_t)len);
	}
	return sl_csum_finish(sl_csum_add(l4, len, pseudo));
}

/* Local and remote as seen from here: the destination and the source of what was received. */
static void addresses_of(const struct sl_net *n, const struct sl_frame *f, uint8_t *local,
			 uint8_t *remote)
{
	const uint8_t *l3 = sl_net_l3(n, f);

	if (f->family == 4) {
		const struct sl_ip4_hdr *ip = (const struct sl_ip4_hdr *)l3;

		memset(local, 0, 16);
		memset(remote, 0, 16);
		memcpy(local, &ip->dst_be, 4);
		memcpy(remote, &ip->src_be, 4);
		return;
	}
	const struct sl_ip6_hdr *ip = (const struct sl_ip6_hdr *)l3;

	memcpy(local, ip->dst, 16);
	memcpy(remote, ip->src, 16);
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
	addresses_of(n, f, path->local, path->remote);
	memcpy(path->local_mac, eth->dst, SL_ETH_ALEN);
	memcpy(path->mac, eth->src, SL_ETH_ALEN);
	for (unsigned i = 0; i < path->vlan_cnt; i++)
		path->vlan[i] = sl_get_be16(l2 + sizeof(*eth) + i * sizeof(struct sl_vlan_tag));
}

void sl_net_flow_key(const struct sl_net *n, const struct sl_frame *f, struct sl_flow_key *key)
{
	addresses_of(n, f, key->local, key->remote);
	memcpy(&key->remote_port_be, f->data, 2);
	memcpy(&key->local_port_be, f->data + 2, 2);
	key->family = f->family;
	memset(key->pad, 0, sizeof(key->pad));
}

static void push_ip(struct sl_frame *f, const struct sl_net_path *path, uint8_t protocol)
{
	if (path->family == 4) {
		struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)(f->data - sizeof(*ip));
		uint32_t src_be, dst_be;

		memcpy(&src_be, path->local, 4);
		memcpy(&dst_be, path->remote, 4);
		/* Atomic datagrams: DF, and an ID that means nothing (RFC 6864 4.1). */
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

static void push_eth(struct sl_frame *f, const struct sl_net_path *path)
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
	sl_eth_write(f->data, path->mac, path->local_mac, tags, path->vlan_cnt,
		     path->family == 4 ? SL_ETHERTYPE_IP4 : SL_ETHERTYPE_IP6);
}

bool sl_net_send(struct sl_net *n, struct sl_frame *f, const struct sl_net_path *path,
		 uint8_t protocol)
{
	SL_CHECK((size_t)(f->data - sl_frame_base(n->umem, f)) >= sl_net_header_len(path));
	SL_CHECK(path->vlan_cnt <= SL_ETH_VLAN_MAX);
	push_ip(f, path, protocol);
	push_eth(f, path);
	f->port = path->port;
	return sl_net_tx(n, f);
}
