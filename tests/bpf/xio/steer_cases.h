/* SPDX-License-Identifier: Apache-2.0 */
/* The packets of test_steer.c: how each is built, and what the XDP program has to say of it. */
#ifndef SL_TESTS_STEER_CASES_H
#define SL_TESTS_STEER_CASES_H

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <stdint.h>
#include <string.h>
#include "sluice/drop.h"

enum {
	L_EXACT4 = 10, /* listener numbers in the stamps */
	L_ANY4,
	L_EXACT6,
	L_ANY6,
	L_UDP4,
	L_UDP6,
	L_SHED_TCP,
	L_SHED_UDP,
};

enum { FIN = 1, SYN = 2, RST = 4, ACK = 16 };

struct packet {
	uint8_t bytes[1024];
	size_t len;
	size_t need; /* shorter than that is truncated */
};

static void put(struct packet *p, const void *bytes, size_t len)
{
	memcpy(p->bytes + p->len, bytes, len);
	p->len += len;
}

static void put8(struct packet *p, unsigned v)
{
	p->bytes[p->len++] = (uint8_t)v;
}

static void put16(struct packet *p, unsigned v)
{
	put8(p, v >> 8 & 0xff);
	put8(p, v & 0xff);
}

static void put_zero(struct packet *p, size_t len)
{
	memset(p->bytes + p->len, 0, len);
	p->len += len;
}

static void eth_to(struct packet *p, unsigned first_octet, unsigned type)
{
	put8(p, first_octet);
	put(p, "\0\0\0\0\1\2\0\0\0\0\2", 11);
	put16(p, type);
}

static void eth(struct packet *p, unsigned type)
{
	eth_to(p, 2, type);
}

static void vlan(struct packet *p, unsigned type)
{
	put16(p, 100);
	put16(p, type);
}

static void ip4_opts(struct packet *p, unsigned proto, const char *src, const char *dst,
		     unsigned frag, unsigned ihl)
{
	struct in_addr s, d;

	inet_pton(AF_INET, src, &s);
	inet_pton(AF_INET, dst, &d);
	put8(p, 0x40 | ihl);
	put8(p, 0);
	put16(p, 100);
	put16(p, 1);
	put16(p, frag);
	put8(p, 64);
	put8(p, proto);
	put16(p, 0);
	put(p, &s, 4);
	put(p, &d, 4);
	if (ihl > 5)
		put_zero(p, (ihl - 5) * 4);
}

static void ip4(struct packet *p, unsigned proto, const char *dst)
{
	ip4_opts(p, proto, "10.9.9.9", dst, 0, 5);
}

static void ip6_from(struct packet *p, unsigned next, const char *src, const char *dst)
{
	struct in6_addr s, d;

	inet_pton(AF_INET6, src, &s);
	inet_pton(AF_INET6, dst, &d);
	put8(p, 0x60);
	put_zero(p, 3);
	put16(p, 100);
	put8(p, next);
	put8(p, 64);
	put(p, &s, 16);
	put(p, &d, 16);
}

static void ip6(struct packet *p, unsigned next, const char *dst)
{
	ip6_from(p, next, "fd99::9", dst);
}

static void ext(struct packet *p, unsigned next, unsigned len)
{
	put8(p, next);
	put8(p, len);
	put_zero(p, 6 + len * 8);
}

static void tcp(struct packet *p, unsigned sport, unsigned dport, unsigned flags)
{
	put16(p, sport);
	put16(p, dport);
	put_zero(p, 8);
	put8(p, 0x50);
	put8(p, flags);
	put_zero(p, 6);
	p->need = p->len;
	put(p, "payload", 7);
}

static void udp(struct packet *p, unsigned dport)
{
	put16(p, 5555);
	put16(p, dport);
	put16(p, 12);
	put16(p, 0);
	p->need = p->len;
	put(p, "data", 4);
}

static void icmp(struct packet *p, unsigned type, unsigned code)
{
	put8(p, type);
	put8(p, code);
	put_zero(p, 6);
	p->need = p->len;
}

/* The minimum that an ICMP error quotes: 8 bytes beyond the IP header. */
static void quote(struct packet *p, unsigned sport)
{
	put16(p, sport);
	put16(p, 40000);
	put_zero(p, 4);
	p->need = p->len;
}

/* X(name, verdict, listener in the stamp, steps that build the packet p) */
#define CASES(X)                                                                                   \
	X(tcp4_exact, RX_REDIRECT, L_EXACT4, {                                                     \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(tcp4_established, RX_REDIRECT, L_EXACT4, {                                               \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 80, ACK);                                                                \
	})                                                                                         \
	X(tcp4_any, RX_REDIRECT, L_ANY4, {                                                         \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.77");                                                            \
		tcp(p, 1, 8080, SYN);                                                              \
	})                                                                                         \
	X(tcp4_exact_before_any, RX_REDIRECT, L_EXACT4, {                                          \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 8080, SYN);                                                              \
	})                                                                                         \
	X(tcp4_other_address, RX_PASS_NO_LISTENER, 0, {                                            \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.2");                                                             \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(tcp4_other_port, RX_PASS_NO_LISTENER, 0, {                                               \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 80, 81, SYN);                                                               \
	})                                                                                         \
	X(udp4_on_tcp_port, RX_PASS_NO_LISTENER, 0, {                                              \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 17, "10.0.0.1");                                                            \
		udp(p, 80);                                                                        \
	})                                                                                         \
	X(tcp4_on_udp_port, RX_PASS_NO_LISTENER, 0, {                                              \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 53, SYN);                                                                \
	})                                                                                         \
	X(udp4, RX_REDIRECT, L_UDP4, {                                                             \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 17, "10.0.0.1");                                                            \
		udp(p, 53);                                                                        \
	})                                                                                         \
	X(vlan4, RX_REDIRECT, L_EXACT4, {                                                          \
		eth(p, ETH_P_8021Q);                                                               \
		vlan(p, ETH_P_IP);                                                                 \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(qinq4, RX_REDIRECT, L_EXACT4, {                                                          \
		eth(p, ETH_P_8021AD);                                                              \
		vlan(p, ETH_P_8021Q);                                                              \
		vlan(p, ETH_P_IP);                                                                 \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(qinq6, RX_REDIRECT, L_UDP6, {                                                            \
		eth(p, ETH_P_8021AD);                                                              \
		vlan(p, ETH_P_8021Q);                                                              \
		vlan(p, ETH_P_IPV6);                                                               \
		ip6(p, 17, "fd99::1");                                                             \
		udp(p, 53);                                                                        \
	})                                                                                         \
	X(three_tags, RX_PASS_OTHER, 0, {                                                          \
		eth(p, ETH_P_8021AD);                                                              \
		vlan(p, ETH_P_8021Q);                                                              \
		vlan(p, ETH_P_8021Q);                                                              \
		vlan(p, ETH_P_IP);                                                                 \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(options4, RX_REDIRECT, L_EXACT4, {                                                       \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 6, "10.9.9.9", "10.0.0.1", 0, 7);                                      \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(options4_most, RX_REDIRECT, L_UDP4, {                                                    \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 17, "10.9.9.9", "10.0.0.1", 0, 15);                                    \
		udp(p, 53);                                                                        \
	})                                                                                         \
	X(ihl_too_small, RX_PASS_OTHER, 0, {                                                       \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 6, "10.9.9.9", "10.0.0.1", 0, 4);                                      \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(version_not_4, RX_PASS_OTHER, 0, {                                                       \
		eth(p, ETH_P_IP);                                                                  \
		ip6(p, 6, "fd99::1");                                                              \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(version_not_6, RX_PASS_OTHER, 0, {                                                       \
		eth(p, ETH_P_IPV6);                                                                \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 80, SYN);                                                                \
		put_zero(p, 40);                                                                   \
	})                                                                                         \
	X(dont_fragment, RX_REDIRECT, L_EXACT4, {                                                  \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 6, "10.9.9.9", "10.0.0.1", 0x4000, 5);                                 \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(first_fragment, RX_FRAGMENT, 0, {                                                        \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 6, "10.9.9.9", "10.0.0.1", 0x2000, 5);                                 \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(first_fragment_of_other_port, RX_PASS_NO_LISTENER, 0, {                                  \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 6, "10.9.9.9", "10.0.0.1", 0x2000, 5);                                 \
		tcp(p, 1, 81, SYN);                                                                \
	})                                                                                         \
	X(last_fragment, RX_PASS_FRAGMENT, 0, {                                                    \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 6, "10.9.9.9", "10.0.0.1", 0x0001, 5);                                 \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(far_fragment, RX_PASS_FRAGMENT, 0, {                                                     \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 17, "10.9.9.9", "10.0.0.1", 0x1000, 5);                                \
		udp(p, 53);                                                                        \
	})                                                                                         \
	X(tcp6_exact, RX_REDIRECT, L_EXACT6, {                                                     \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 6, "fd99::1");                                                              \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(tcp6_any, RX_REDIRECT, L_ANY6, {                                                         \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 6, "fd99::77");                                                             \
		tcp(p, 1, 8080, SYN);                                                              \
	})                                                                                         \
	X(tcp6_other_address, RX_PASS_NO_LISTENER, 0, {                                            \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 6, "fd99::2");                                                              \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(tcp6_on_port_of_4, RX_PASS_NO_LISTENER, 0, {                                             \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 6, "::a00:1");                                                              \
		tcp(p, 1, 443, SYN);                                                               \
	})                                                                                         \
	X(hop_by_hop, RX_REDIRECT, L_EXACT6, {                                                     \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 0, "fd99::1");                                                              \
		ext(p, 6, 0);                                                                      \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(three_extensions, RX_REDIRECT, L_UDP6, {                                                 \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 0, "fd99::1");                                                              \
		ext(p, 43, 1);                                                                     \
		ext(p, 60, 2);                                                                     \
		ext(p, 17, 3);                                                                     \
		udp(p, 53);                                                                        \
	})                                                                                         \
	X(eight_extensions, RX_REDIRECT, L_EXACT6, {                                               \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 60, "fd99::1");                                                             \
		for (int i = 0; i < 7; i++)                                                        \
			ext(p, 60, 0);                                                             \
		ext(p, 6, 0);                                                                      \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(nine_extensions, RX_PASS_OTHER, 0, {                                                     \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 60, "fd99::1");                                                             \
		for (int i = 0; i < 8; i++)                                                        \
			ext(p, 60, 0);                                                             \
		ext(p, 6, 0);                                                                      \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(segments_left, RX_PASS_OTHER, 0, {                                                       \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 43, "fd99::1");                                                             \
		ext(p, 6, 0);                                                                      \
		p->bytes[p->len - 5] = 1;                                                          \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(fragment6, RX_FRAGMENT, 0, {                                                             \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 44, "fd99::1");                                                             \
		ext(p, 6, 0);                                                                      \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(later_fragment6, RX_PASS_FRAGMENT, 0, {                                                  \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 44, "fd99::1");                                                             \
		ext(p, 6, 0);                                                                      \
		p->bytes[p->len - 5] = 8;                                                          \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(fragment6_behind, RX_FRAGMENT, 0, {                                                      \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 0, "fd99::1");                                                              \
		ext(p, 44, 0);                                                                     \
		ext(p, 6, 0);                                                                      \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(no_next_header, RX_PASS_OTHER, 0, {                                                      \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 59, "fd99::1");                                                             \
		put_zero(p, 20);                                                                   \
	})                                                                                         \
	X(esp6, RX_PASS_OTHER, 0, {                                                                \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 50, "fd99::1");                                                             \
		put_zero(p, 20);                                                                   \
	})                                                                                         \
	X(extension_over_end, RX_PASS_TRUNCATED, 0, {                                              \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 0, "fd99::1");                                                              \
		ext(p, 6, 0);                                                                      \
		p->bytes[p->len - 7] = 255;                                                        \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(arp, RX_PASS_OTHER, 0, {                                                                 \
		eth(p, ETH_P_ARP);                                                                 \
		put_zero(p, 28);                                                                   \
	})                                                                                         \
	X(llc, RX_PASS_OTHER, 0, {                                                                 \
		eth(p, 40);                                                                        \
		put_zero(p, 40);                                                                   \
	})                                                                                         \
	X(other_mac_first_byte, RX_PASS_OTHER_HOST, 0, {                                           \
		eth_to(p, 6, ETH_P_IP);                                                            \
		ip4(p, 6, "10.0.0.1");                                                             \
		tcp(p, 1, 80, SYN);                                                                \
	})                                                                                         \
	X(broadcast_ip_in_own_mac, RX_PASS_NO_LISTENER, 0, {                                       \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 6, "10.0.0.255");                                                           \
		tcp(p, 1, 8080, SYN);                                                              \
	})                                                                                         \
	X(multicast_mac, RX_PASS_NO_LISTENER, 0, {                                                 \
		eth_to(p, 1, ETH_P_IP);                                                            \
		ip4(p, 17, "224.0.0.251");                                                         \
		udp(p, 53);                                                                        \
	})                                                                                         \
	X(gre, RX_PASS_OTHER, 0, {                                                                 \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 47, "10.0.0.1");                                                            \
		put_zero(p, 40);                                                                   \
	})                                                                                         \
	X(ping, RX_PASS_OTHER, 0, {                                                                \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 8, 0);                                                                     \
		put_zero(p, 60);                                                                   \
	})                                                                                         \
	X(ping6, RX_PASS_OTHER, 0, {                                                               \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 58, "fd99::1");                                                             \
		icmp(p, 128, 0);                                                                   \
		put_zero(p, 60);                                                                   \
	})                                                                                         \
	X(neighbour6, RX_PASS_OTHER, 0, {                                                          \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 58, "fd99::1");                                                             \
		icmp(p, 135, 0);                                                                   \
		put_zero(p, 60);                                                                   \
	})                                                                                         \
	X(icmp6_in_4, RX_PASS_OTHER, 0, {                                                          \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 58, "10.0.0.1");                                                            \
		icmp(p, 1, 0);                                                                     \
		put_zero(p, 60);                                                                   \
	})                                                                                         \
	X(icmp_unreachable, RX_REDIRECT, L_EXACT4, {                                               \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 3, 1);                                                                     \
		ip4_opts(p, 6, "10.0.0.1", "10.9.9.9", 0x4000, 5);                                 \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp_frag_needed, RX_REDIRECT, L_EXACT4, {                                               \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 3, 4);                                                                     \
		ip4_opts(p, 6, "10.0.0.1", "10.9.9.9", 0x4000, 6);                                 \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp_time_exceeded, RX_REDIRECT, L_UDP4, {                                               \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 11, 0);                                                                    \
		ip4_opts(p, 17, "10.0.0.1", "10.9.9.9", 0, 5);                                     \
		quote(p, 53);                                                                      \
	})                                                                                         \
	X(icmp_quotes_first_fragment, RX_REDIRECT, L_UDP4, {                                       \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 3, 4);                                                                     \
		ip4_opts(p, 17, "10.0.0.1", "10.9.9.9", 0x2000, 5);                                \
		quote(p, 53);                                                                      \
	})                                                                                         \
	X(icmp_quotes_later_fragment, RX_PASS_FRAGMENT, 0, {                                       \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 3, 4);                                                                     \
		ip4_opts(p, 17, "10.0.0.1", "10.9.9.9", 100, 5);                                   \
		quote(p, 53);                                                                      \
	})                                                                                         \
	X(icmp_quotes_other_port, RX_PASS_NO_LISTENER, 0, {                                        \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 3, 1);                                                                     \
		ip4_opts(p, 6, "10.0.0.1", "10.9.9.9", 0, 5);                                      \
		quote(p, 22);                                                                      \
	})                                                                                         \
	X(icmp_quotes_other_sender, RX_PASS_NO_LISTENER, 0, {                                      \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 3, 1);                                                                     \
		ip4_opts(p, 6, "10.9.9.9", "10.0.0.1", 0, 5);                                      \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp_quotes_icmp, RX_PASS_OTHER, 0, {                                                    \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 3, 1);                                                                     \
		ip4_opts(p, 1, "10.0.0.1", "10.9.9.9", 0, 5);                                      \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp_in_fragment, RX_PASS_FRAGMENT, 0, {                                                 \
		eth(p, ETH_P_IP);                                                                  \
		ip4_opts(p, 1, "10.9.9.9", "10.0.0.1", 0x2000, 5);                                 \
		icmp(p, 3, 1);                                                                     \
		ip4_opts(p, 6, "10.0.0.1", "10.9.9.9", 0, 5);                                      \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp_redirect, RX_PASS_OTHER, 0, {                                                       \
		eth(p, ETH_P_IP);                                                                  \
		ip4(p, 1, "10.0.0.1");                                                             \
		icmp(p, 5, 1);                                                                     \
		ip4_opts(p, 6, "10.0.0.1", "10.9.9.9", 0, 5);                                      \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp6_unreachable, RX_REDIRECT, L_UDP6, {                                                \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 58, "fd99::1");                                                             \
		icmp(p, 1, 4);                                                                     \
		ip6_from(p, 17, "fd99::1", "fd99::9");                                             \
		quote(p, 53);                                                                      \
	})                                                                                         \
	X(icmp6_too_big, RX_REDIRECT, L_EXACT6, {                                                  \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 58, "fd99::1");                                                             \
		icmp(p, 2, 0);                                                                     \
		ip6_from(p, 6, "fd99::1", "fd99::9");                                              \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp6_time_exceeded, RX_REDIRECT, L_ANY6, {                                              \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 58, "fd99::1");                                                             \
		icmp(p, 3, 0);                                                                     \
		ip6_from(p, 0, "fd99::77", "fd99::9");                                             \
		ext(p, 6, 1);                                                                      \
		quote(p, 8080);                                                                    \
	})                                                                                         \
	X(icmp6_behind_extension, RX_REDIRECT, L_EXACT6, {                                         \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 60, "fd99::1");                                                             \
		ext(p, 58, 0);                                                                     \
		icmp(p, 2, 0);                                                                     \
		ip6_from(p, 6, "fd99::1", "fd99::9");                                              \
		quote(p, 80);                                                                      \
	})                                                                                         \
	X(icmp6_quotes_other_port, RX_PASS_NO_LISTENER, 0, {                                       \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 58, "fd99::1");                                                             \
		icmp(p, 2, 0);                                                                     \
		ip6_from(p, 6, "fd99::1", "fd99::9");                                              \
		quote(p, 22);                                                                      \
	})                                                                                         \
	X(icmp6_in_quote_version_4, RX_PASS_OTHER, 0, {                                            \
		eth(p, ETH_P_IPV6);                                                                \
		ip6(p, 58, "fd99::1");                                                             \
		icmp(p, 2, 0);                                                                     \
		ip4_opts(p, 6, "10.0.0.1", "10.9.9.9", 0, 15);                                     \
		quote(p, 80);                                                                      \
	})

#define X(name, verdict, listener, steps) static void build_##name(struct packet *p) steps
CASES(X)
#undef X

static const struct steer_case {
	const char *name;
	void (*build)(struct packet *p);
	enum sl_rx_verdict verdict;
	uint16_t listener;
} cases[] = {
#define X(name, verdict, listener, steps) {#name, build_##name, SL_##verdict, listener},
	CASES(X)
#undef X
};

#endif
