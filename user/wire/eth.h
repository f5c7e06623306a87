/* SPDX-License-Identifier: Apache-2.0 */
/* Ethernet II with up to two VLAN tags (802.1Q, 802.1ad). */
#ifndef SL_WIRE_ETH_H
#define SL_WIRE_ETH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "wire/verdict.h"

enum {
	SL_ETH_ALEN = 6,
	SL_ETH_VLAN_MAX = 2,
	SL_ETH_HDR_MAX = 22,

	SL_ETHERTYPE_IP4 = 0x0800,
	SL_ETHERTYPE_ARP = 0x0806,
	SL_ETHERTYPE_VLAN = 0x8100,
	SL_ETHERTYPE_IP6 = 0x86dd,
	SL_ETHERTYPE_QINQ = 0x88a8,
};

struct sl_eth_hdr {
	uint8_t dst[SL_ETH_ALEN];
	uint8_t src[SL_ETH_ALEN];
	uint16_t type_be;
} __attribute__((packed));
SL_ASSERT_SIZE(struct sl_eth_hdr, 14);

struct sl_vlan_tag {
	uint16_t tpid_be; /* SL_ETHERTYPE_VLAN or SL_ETHERTYPE_QINQ */
	uint16_t tci_be;  /* priority:3, drop eligible:1, VLAN id:12 */
} __attribute__((packed));
SL_ASSERT_SIZE(struct sl_vlan_tag, 4);

struct sl_eth_view {
	const struct sl_eth_hdr *hdr;
	uint16_t type; /* behind the tags, host order */
	uint8_t vlan_cnt;
	struct sl_vlan_tag vlan[SL_ETH_VLAN_MAX]; /* outer first */
};

/* Returns true for the type of a tag. */
static inline bool sl_ethertype_is_vlan(uint16_t type)
{
	return type == SL_ETHERTYPE_VLAN || type == SL_ETHERTYPE_QINQ;
}

/* Returns true also for broadcast. */
static inline bool sl_eth_is_multicast(const uint8_t mac[SL_ETH_ALEN])
{
	return mac[0] & 1;
}

/* Parses a frame. Returns the header's length, SL_WIRE_TRUNCATED or SL_WIRE_TYPE (a third tag). */
static inline int sl_eth_parse(const uint8_t *p, size_t len, struct sl_eth_view *v)
{
	size_t off = sizeof(struct sl_eth_hdr);

	if (len < off)
		return SL_WIRE_TRUNCATED;
	v->hdr = (const struct sl_eth_hdr *)p;
	v->type = sl_get_be16(p + 12);
	v->vlan_cnt = 0;
	while (sl_ethertype_is_vlan(v->type)) {
		if (v->vlan_cnt == SL_ETH_VLAN_MAX)
			return SL_WIRE_TYPE;
		if (len < off + sizeof(struct sl_vlan_tag))
			return SL_WIRE_TRUNCATED;
		memcpy(&v->vlan[v->vlan_cnt++], p + off - 2, sizeof(struct sl_vlan_tag));
		v->type = sl_get_be16(p + off + 2);
		off += sizeof(struct sl_vlan_tag);
	}
	return (int)off;
}

/* Returns the length with tags. */
static inline size_t sl_eth_hdr_len(unsigned vlan_cnt)
{
	return sizeof(struct sl_eth_hdr) + vlan_cnt * sizeof(struct sl_vlan_tag);
}

/* Writes at most SL_ETH_HDR_MAX bytes; vlan_cnt <= SL_ETH_VLAN_MAX. Returns the length. */
static inline size_t sl_eth_write(uint8_t *p, const uint8_t dst[SL_ETH_ALEN],
				  const uint8_t src[SL_ETH_ALEN], const struct sl_vlan_tag *vlan,
				  unsigned vlan_cnt, uint16_t type)
{
	size_t off = 2 * SL_ETH_ALEN;

	SL_CHECK(vlan_cnt <= SL_ETH_VLAN_MAX);
	memcpy(p, dst, SL_ETH_ALEN);
	memcpy(p + SL_ETH_ALEN, src, SL_ETH_ALEN);
	for (unsigned i = 0; i < vlan_cnt; i++, off += sizeof(*vlan))
		memcpy(p + off, &vlan[i], sizeof(*vlan));
	sl_put_be16(p + off, type);
	return off + 2;
}

#endif
