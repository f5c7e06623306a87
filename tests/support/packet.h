/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets for tests, byte by byte and with a checksum of its own, so that it agrees with the stack
 * only if both are right. A packet is built valid; a test then damages it and mends what it must.
 */
#ifndef SL_TESTS_PACKET_H
#define SL_TESTS_PACKET_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

enum { PKT_ICMP = 1, PKT_TCP = 6, PKT_UDP = 17, PKT_ICMP6 = 58 };

struct pkt {
	uint8_t b[4096];
	size_t len;
	size_t l3, l4; /* offsets */
	uint8_t family, protocol;
};

/* Contents of a packet; zeroes mean the defaults of pkt_build(). */
struct pkt_spec {
	uint8_t family; /* 4 (default) or 6 */
	uint8_t protocol;
	uint8_t vlan_cnt;
	bool from_us; /* the other direction: from the served address to the client */
	uint16_t sport, dport;
	const void *payload; /* behind the transport header; of ICMP: behind its first 4 bytes */
	size_t payload_len;
	uint32_t seq, ack;  /* TCP */
	uint8_t flags;      /* TCP; ACK if 0 */
	uint8_t type, code; /* ICMP */
};

static const uint8_t pkt_our_mac[6] = {2, 0, 0, 0, 0, 1};
static const uint8_t pkt_peer_mac[6] = {2, 0, 0, 0, 0, 0x77};
static const uint8_t pkt_our_ip4[16] = {192, 0, 2, 1};
static const uint8_t pkt_peer_ip4[16] = {198, 51, 100, 7};
static const uint8_t pkt_our_ip6[16] = {0x20, 1, 0xd, 0xb8, [15] = 1};
static const uint8_t pkt_peer_ip6[16] = {0x20, 1, 0xd, 0xb8, [6] = 0xff, [15] = 7};
enum { PKT_OUR_PORT = 80, PKT_PEER_PORT = 40001, PKT_VLAN_OUTER = 0x6064, PKT_VLAN_INNER = 200 };

/* Bytes as big-endian 16-bit words, one after the other. */
static inline uint32_t pkt_sum(const uint8_t *p, size_t len, uint32_t sum)
{
	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	if (len & 1)
		sum += (uint32_t)p[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static inline uint32_t pkt_pseudo(const struct pkt *p)
{
	const uint8_t *ip = p->b + p->l3;
	uint32_t sum = (uint32_t)(p->len - p->l4);

	sum += p->protocol;
	return p->family == 4 ? pkt_sum(ip + 12, 8, sum) : pkt_sum(ip + 8, 32, sum);
}

static inline size_t pkt_csum_off(const struct pkt *p)
{
	return p->l4 + (p->protocol == PKT_TCP ? 16u : p->protocol == PKT_UDP ? 6u : 2u);
}

/* Writes the right transport checksum (no rule for zero: a test wants to see that). */
static inline void pkt_fix_l4(struct pkt *p)
{
	uint32_t sum = p->protocol == PKT_ICMP ? 0 : pkt_pseudo(p);

	sl_put_be16(p->b + pkt_csum_off(p), 0);
	sum = pkt_sum(p->b + p->l4, p->len - p->l4, sum);
	sl_put_be16(p->b + pkt_csum_off(p), (uint16_t)~sum);
}

/* Leaves the checksum as a local sender does, for its device to complete. */
static inline void pkt_partial_l4(struct pkt *p)
{
	sl_put_be16(p->b + pkt_csum_off(p), (uint16_t)pkt_pseudo(p));
}

/* Length and header checksum of IPv4, length of IPv6, from len. */
static inline void pkt_fix_ip(struct pkt *p)
{
	uint8_t *ip = p->b + p->l3;

	if (p->family == 6) {
		sl_put_be16(ip + 4, (uint16_t)(p->len - p->l3 - 40));
		return;
	}
	sl_put_be16(ip + 2, (uint16_t)(p->len - p->l3));
	sl_put_be16(ip + 10, 0);
	sl_put_be16(ip + 10, (uint16_t)~pkt_sum(ip, (ip[0] & 15u) * 4, 0));
}

/* Header checksum only. */
static inline void pkt_fix_ip4_csum(struct pkt *p)
{
	uint8_t *ip = p->b + p->l3;

	sl_put_be16(ip + 10, 0);
	sl_put_be16(ip + 10, (uint16_t)~pkt_sum(ip, (ip[0] & 15u) * 4, 0));
}

/* Puts bytes in front of `at`; lengths and checksums are the caller's. */
static inline void pkt_insert(struct pkt *p, size_t at, const void *bytes, size_t len)
{
	memmove(p->b + at + len, p->b + at, p->len - at);
	memcpy(p->b + at, bytes, len);
	p->len += len;
}

static inline void pkt_put(struct pkt *p, const void *bytes, size_t len)
{
	if (len)
		memcpy(p->b + p->len, bytes, len);
	p->len += len;
}

static inline void pkt_put16(struct pkt *p, uint16_t v)
{
	sl_put_be16(p->b + p->len, v);
	p->len += 2;
}

static inline void pkt_put32(struct pkt *p, uint32_t v)
{
	sl_put_be32(p->b + p->len, v);
	p->len += 4;
}

static inline void pkt_build_eth(struct pkt *p, const struct pkt_spec *s)
{
	pkt_put(p, s->from_us ? pkt_peer_mac : pkt_our_mac, 6);
	pkt_put(p, s->from_us ? pkt_our_mac : pkt_peer_mac, 6);
	if (s->vlan_cnt == 2) {
		pkt_put16(p, 0x88a8);
		pkt_put16(p, PKT_VLAN_OUTER);
	}
	if (s->vlan_cnt) {
		pkt_put16(p, 0x8100);
		pkt_put16(p, PKT_VLAN_INNER);
	}
	pkt_put16(p, p->family == 4 ? 0x0800 : 0x86dd);
	p->l3 = p->len;
}

static inline void pkt_build_ip(struct pkt *p, const struct pkt_spec *s)
{
	if (p->family == 4) {
		static const uint8_t head[8] = {0x45, 0, 0, 0, 0, 0, 0x40, 0};

		pkt_put(p, head, 8);
		pkt_put16(p, (uint16_t)(64 << 8 | p->protocol));
		pkt_put16(p, 0);
		pkt_put(p, s->from_us ? pkt_our_ip4 : pkt_peer_ip4, 4);
		pkt_put(p, s->from_us ? pkt_peer_ip4 : pkt_our_ip4, 4);
	} else {
		pkt_put32(p, 6u << 28);
		pkt_put16(p, 0);
		pkt_put16(p, (uint16_t)(p->protocol << 8 | 64));
		pkt_put(p, s->from_us ? pkt_our_ip6 : pkt_peer_ip6, 16);
		pkt_put(p, s->from_us ? pkt_peer_ip6 : pkt_our_ip6, 16);
	}
	p->l4 = p->len;
}

static inline void pkt_build(struct pkt *p, const struct pkt_spec *s)
{
	uint16_t client = s->sport, server = s->dport;

	memset(p, 0, sizeof(*p));
	p->family = s->family ? s->family : 4;
	p->protocol = s->protocol ? s->protocol : PKT_UDP;
	client = client ? client : PKT_PEER_PORT;
	server = server ? server : PKT_OUR_PORT;
	pkt_build_eth(p, s);
	pkt_build_ip(p, s);
	if (p->protocol == PKT_TCP || p->protocol == PKT_UDP) {
		pkt_put16(p, s->from_us ? server : client);
		pkt_put16(p, s->from_us ? client : server);
	}
	if (p->protocol == PKT_TCP) {
		pkt_put32(p, s->seq);
		pkt_put32(p, s->ack);
		pkt_put16(p, (uint16_t)(5 << 12 | (s->flags ? s->flags : 0x10)));
		pkt_put16(p, 65535);
		pkt_put32(p, 0);
	} else if (p->protocol == PKT_UDP) {
		pkt_put16(p, (uint16_t)(8 + s->payload_len));
		pkt_put16(p, 0);
	} else {
		pkt_put16(p, (uint16_t)(s->type << 8 | s->code));
		pkt_put16(p, 0);
	}
	pkt_put(p, s->payload, s->payload_len);
	pkt_fix_ip(p);
	pkt_fix_l4(p);
}

#endif
