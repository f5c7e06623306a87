/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parser from the first byte of a frame to the key of a listener.
 *
 *   frame -> Ethernet, VLAN tags -> IPv4 | IPv6, extension headers -> TCP | UDP | ICMP error
 *
 * Each step checks bounds before it reads, and returns SL_RX_REDIRECT to continue, or a verdict.
 * User space validates lengths and checksums.
 */
#ifndef SL_PARSE_BPF_H
#define SL_PARSE_BPF_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include "sluice/abi.h"
#include "sluice/drop.h"

enum {
	SL_VLAN_MAX = 2,
	SL_VLAN_MASK = 0x0fff,
	SL_EXT_MAX = 8, /* equals SL_IP6_EXT_MAX of wire/ip6.h */
	SL_FRAG_ANY = 0x3fff,
	SL_FRAG_OFFSET = 0x1fff,
	SL_FRAG6_OFFSET = 0xfff8,
	SL_ICMP4_UNREACH = 3, /* includes "fragmentation needed" */
	SL_ICMP4_TIME_EXCEEDED = 11,
	SL_ICMP6_UNREACH = 1,
	SL_ICMP6_TOO_BIG = 2,
	SL_ICMP6_TIME_EXCEEDED = 3,
};

struct sl_vlan_tag {
	__be16 tci;
	__be16 proto;
};

struct sl_packet {
	/* words on the BPF stack must be aligned */
	struct sl_listener_key key __attribute__((aligned(8)));
	const void *pos;
	const void *end;
	union {
		struct sl_prefix4 from4;
		struct sl_prefix6 from6;
	};                           /* source address */
	__u16 vlan;                  /* 0: untagged; SL_VLAN_NONE: more than one tag */
	__u8 family;                 /* 4 or 6; 0: ICMP error about our packet */
	__u8 protocol;               /* protocol at pos */
	__u8 opens;                  /* SYN or datagram, which may be shed */
	__u8 fragment;               /* first of several: ports are known, the rest is not */
	struct sl_vlan_tag stripped; /* the NIC took it off; proto 0: none */
};

/* Common to both versions; <linux/icmp.h> would include <sys/socket.h>. */
struct sl_icmp_hdr {
	__u8 type;
	__u8 code;
	__be16 checksum;
	__be32 rest;
};

struct sl_ext_hdr {
	__u8 next;
	__u8 len; /* 8-byte units beyond the first */
	union {
		__u8 data[6];
		__be16 offset; /* fragment header */
	};
};

/* Returns TRUNCATED unless `len` bytes are at pos. */
#define SL_NEED(p, len)                                                                            \
	do {                                                                                       \
		if ((p)->pos + (len) > (p)->end)                                                   \
			return SL_RX_PASS_TRUNCATED;                                               \
	} while (0)

/* Skips Ethernet and VLAN tags; *proto: type of the next header. */
static __always_inline int parse_eth(struct sl_packet *p, __be16 *proto)
{
	const struct ethhdr *eth = p->pos;

	SL_NEED(p, sizeof(*eth));
	/* Group addresses are not served. */
	if (eth->h_dest[0] & 1)
		return SL_RX_PASS_NO_LISTENER;
	*proto = eth->h_proto;
	p->pos = eth + 1;
#pragma unroll
	for (int i = 0; i < SL_VLAN_MAX; i++) {
		const struct sl_vlan_tag *tag = p->pos;

		if (*proto != bpf_htons(ETH_P_8021Q) && *proto != bpf_htons(ETH_P_8021AD))
			break;
		SL_NEED(p, sizeof(*tag));
		*proto = tag->proto;
		p->vlan = i ? SL_VLAN_NONE : bpf_ntohs(tag->tci) & SL_VLAN_MASK;
		p->pos = tag + 1;
	}
	return SL_RX_REDIRECT;
}

/* Set the key's family and address. */
static __always_inline void set_addr4(struct sl_listener_key *key, __be32 addr)
{
	__u32 *words = (__u32 *)key->addr;

	key->family = 4;
	words[0] = addr;
	words[1] = words[2] = words[3] = 0;
}
static __always_inline void set_addr6(struct sl_listener_key *key, const struct in6_addr *addr)
{
	key->family = 6;
	__builtin_memcpy(key->addr, addr, sizeof(key->addr));
}

/* Set the source's family and address, with the full prefix length. */
static __always_inline void set_from4(struct sl_packet *p, __be32 addr)
{
	p->family = 4;
	p->from4.len = 32;
	__builtin_memcpy(p->from4.addr, &addr, sizeof(p->from4.addr));
}
static __always_inline void set_from6(struct sl_packet *p, const struct in6_addr *addr)
{
	p->family = 6;
	p->from6.len = 128;
	__builtin_memcpy(p->from6.addr, addr, sizeof(p->from6.addr));
}

/* Sets addresses and protocol. `quoted`: header within an ICMP error, whose source is ours. */
static __always_inline int parse_ip4(struct sl_packet *p, int quoted)
{
	const struct iphdr *ip = p->pos;
	__u32 hdr_len;

	SL_NEED(p, sizeof(*ip));
	hdr_len = ip->ihl * 4u;
	if (ip->version != 4 || hdr_len < sizeof(*ip))
		return SL_RX_PASS_OTHER;
	SL_NEED(p, hdr_len);
	/* A first fragment contains the ports, also if quoted. */
	if (ip->frag_off & bpf_htons(SL_FRAG_OFFSET))
		return SL_RX_PASS_FRAGMENT;
	if (!quoted && ip->frag_off & bpf_htons(SL_FRAG_ANY))
		p->fragment = 1;
	set_addr4(&p->key, quoted ? ip->saddr : ip->daddr);
	if (!quoted)
		set_from4(p, ip->saddr);
	p->protocol = ip->protocol;
	p->pos += hdr_len;
	return SL_RX_REDIRECT;
}

/* Same for IPv6, past its extension headers. */
static __always_inline int parse_ip6(struct sl_packet *p, int quoted)
{
	const struct ipv6hdr *ip = p->pos;

	SL_NEED(p, sizeof(*ip));
	if (ip->version != 6)
		return SL_RX_PASS_OTHER;
	set_addr6(&p->key, quoted ? &ip->saddr : &ip->daddr);
	if (!quoted)
		set_from6(p, &ip->saddr);
	p->protocol = ip->nexthdr;
	p->pos = ip + 1;
	for (int i = 0; i <= SL_EXT_MAX; i++) {
		const struct sl_ext_hdr *ext = p->pos;

		if (p->protocol == IPPROTO_FRAGMENT) {
			SL_NEED(p, sizeof(*ext));
			if (quoted || ext->offset & bpf_htons(SL_FRAG6_OFFSET))
				return SL_RX_PASS_FRAGMENT;
			p->fragment = 1;
			p->protocol = ext->next;
			p->pos += sizeof(*ext);
			continue;
		}
		if (p->protocol != IPPROTO_HOPOPTS && p->protocol != IPPROTO_ROUTING &&
		    p->protocol != IPPROTO_DSTOPTS)
			return SL_RX_REDIRECT;
		SL_NEED(p, sizeof(*ext));
		/* Segments left: not the final destination. */
		if (p->protocol == IPPROTO_ROUTING && ext->data[1])
			return SL_RX_PASS_OTHER;
		p->protocol = ext->next;
		p->pos += ext->len * 8u + sizeof(*ext);
	}
	return SL_RX_PASS_OTHER;
}

/* Set the key's port and protocol; `opens` for a SYN and for each datagram. */
static __always_inline int parse_tcp(struct sl_packet *p)
{
	const struct tcphdr *tcp = p->pos;

	SL_NEED(p, sizeof(*tcp));
	p->key.port = tcp->dest;
	p->key.protocol = IPPROTO_TCP;
	p->opens = tcp->syn && !tcp->ack;
	return SL_RX_REDIRECT;
}
static __always_inline int parse_udp(struct sl_packet *p)
{
	const struct udphdr *udp = p->pos;

	SL_NEED(p, sizeof(*udp));
	p->key.port = udp->dest;
	p->key.protocol = IPPROTO_UDP;
	p->opens = 1;
	return SL_RX_REDIRECT;
}

/* Returns true for errors that quote a packet. */
static __always_inline int is_icmp_error(const struct sl_icmp_hdr *icmp, int family)
{
	if (family == 4)
		return icmp->type == SL_ICMP4_UNREACH || icmp->type == SL_ICMP4_TIME_EXCEEDED;
	return icmp->type == SL_ICMP6_UNREACH || icmp->type == SL_ICMP6_TOO_BIG ||
	       icmp->type == SL_ICMP6_TIME_EXCEEDED;
}

/* Sets the key from the packet that an ICMP error quotes: its source is the listener. */
static __always_inline int parse_icmp(struct sl_packet *p, int family)
{
	const struct sl_icmp_hdr *icmp = p->pos;
	const __be16 *ports;
	int verdict;

	SL_NEED(p, sizeof(*icmp));
	if (!is_icmp_error(icmp, family))
		return SL_RX_PASS_OTHER;
	p->pos = icmp + 1;
	verdict = family == 4 ? parse_ip4(p, 1) : parse_ip6(p, 1);
	if (verdict != SL_RX_REDIRECT)
		return verdict;
	if (p->protocol != IPPROTO_TCP && p->protocol != IPPROTO_UDP)
		return SL_RX_PASS_OTHER;
	ports = p->pos;
	/* RFC 792: 8 bytes of the quoted payload, i.e. ports and TCP sequence number. */
	SL_NEED(p, 8);
	p->key.port = ports[0];
	p->key.protocol = p->protocol;
	p->family = 0;
	return SL_RX_REDIRECT;
}

/* Parses TCP, UDP or an ICMP error. */
static __always_inline int parse_upper(struct sl_packet *p, int family)
{
	if (p->protocol == IPPROTO_TCP)
		return parse_tcp(p);
	if (p->protocol == IPPROTO_UDP)
		return parse_udp(p);
	if (p->fragment)
		return SL_RX_PASS_FRAGMENT;
	if (p->protocol == (family == 4 ? IPPROTO_ICMP : IPPROTO_ICMPV6))
		return parse_icmp(p, family);
	return SL_RX_PASS_OTHER;
}

/* Parses the whole frame, from p->pos on. */
static __always_inline int parse_packet(struct sl_packet *p)
{
	__be16 proto = 0;
	int verdict = parse_eth(p, &proto);

	if (verdict != SL_RX_REDIRECT)
		return verdict;
	if (proto == bpf_htons(ETH_P_IP)) {
		verdict = parse_ip4(p, 0);
		return verdict == SL_RX_REDIRECT ? parse_upper(p, 4) : verdict;
	}
	if (proto == bpf_htons(ETH_P_IPV6)) {
		verdict = parse_ip6(p, 0);
		return verdict == SL_RX_REDIRECT ? parse_upper(p, 6) : verdict;
	}
	return SL_RX_PASS_OTHER;
}

#endif
