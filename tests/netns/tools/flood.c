/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood INTERFACE MAC ADDRESS PORT SECONDS RATE [SOURCE [SERVICE]]: sends SYNs from ever new
 * addresses of the network (10.99.1.0 and up, or fd99::1:0:0:0 and up) and ports. RATE is per
 * second; the interface may take less.
 *
 * SOURCE: all have this address (IPv6: any of its /64) and ports below 1024, which no real client
 * there uses. SERVICE: sends requests by datagram for it instead of SYNs. The source MAC is unused,
 * so answers end at the other end of the wire. Ends after SECONDS or on SIGINT and prints "N SYNs,
 * N per second".
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "sluice/datagram.h"

enum {
	BURST = 64,
	TCP_LEN = 40,
	UDP_LEN = 8 + SL_DATAGRAM_HEAD + 8,
	FRAME_MAX = 128,
	COUNT_MAX = 50000000
};

static unsigned char frames[BURST][FRAME_MAX];
static struct in_addr dst4, src4;
static struct in6_addr dst6, src6;
static int is_v6, forges, service;
static uint64_t state;
static volatile sig_atomic_t ended;

static void on_interrupt(int sig)
{
	(void)sig;
	ended = 1;
}

static uint64_t random64(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static uint32_t add(uint32_t sum, const void *bytes, size_t len)
{
	const unsigned char *p = bytes;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	return sum;
}

static uint16_t fold_be(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static uint16_t random_port_be(uint64_t r)
{
	return htons((uint16_t)(forges ? 100 + r % 924 : 1024 + r % 60000));
}

/* MSS, SACK permitted, timestamps, window scale: as Linux opens. */
static void fill_tcp(unsigned char *p, uint16_t port_be, uint32_t pseudo)
{
	static const unsigned char options[20] = {2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 1,
						  2, 3, 0,    0,    0, 0, 1, 3,  3, 7};
	struct tcphdr th = {.dest = port_be, .doff = TCP_LEN / 4, .syn = 1, .window = 0xffff};
	uint64_t r = random64();

	th.source = random_port_be(r);
	th.seq = (uint32_t)(r >> 32);
	memcpy(p, &th, sizeof(th));
	memcpy(p + sizeof(th), options, sizeof(options));
	th.check = fold_be(add(pseudo + IPPROTO_TCP + TCP_LEN, p, TCP_LEN));
	memcpy(p, &th, sizeof(th));
}

/* Each is another request, with eight bytes of payload. */
static void fill_udp(unsigned char *p, uint16_t port_be, uint32_t pseudo)
{
	struct udphdr uh = {.dest = port_be, .len = htons(UDP_LEN)};
	struct sl_datagram_request rq = {.magic = SL_DATAGRAM_MAGIC,
					 .version = SL_DATAGRAM_VERSION_1,
					 .type = SL_DATAGRAM_REQUEST,
					 .service = (uint16_t)service,
					 .id = random64(),
					 .payload_len = 8};

	uh.source = random_port_be(random64());
	memset(p, 0, UDP_LEN);
	memcpy(p + sizeof(uh), &rq, sizeof(rq));
	memcpy(p, &uh, sizeof(uh));
	uh.check = fold_be(add(pseudo + IPPROTO_UDP + UDP_LEN, p, UDP_LEN));
	memcpy(p, &uh, sizeof(uh));
}

static void fill_transport(unsigned char *p, uint16_t port_be, uint32_t pseudo)
{
	if (service)
		fill_udp(p, port_be, pseudo);
	else
		fill_tcp(p, port_be, pseudo);
}

static uint16_t transport_len(void)
{
	return service ? UDP_LEN : TCP_LEN;
}

static size_t fill_v4(unsigned char *p, uint16_t port_be)
{
	struct iphdr ih = {.version = 4,
			   .ihl = 5,
			   .ttl = 64,
			   .protocol = service ? IPPROTO_UDP : IPPROTO_TCP,
			   .tot_len = htons((uint16_t)(20 + transport_len())),
			   .daddr = dst4.s_addr};

	ih.saddr = forges ? src4.s_addr : htonl(0x0a630100u + (uint32_t)(random64() % 0xfe00));
	ih.check = fold_be(add(0, &ih, sizeof(ih)));
	memcpy(p, &ih, sizeof(ih));
	fill_transport(p + 20, port_be, add(0, &ih.saddr, 8));
	return 20u + transport_len();
}

static size_t fill_v6(unsigned char *p, uint16_t port_be)
{
	struct ip6_hdr ih = {.ip6_flow = htonl(6u << 28),
			     .ip6_plen = htons(transport_len()),
			     .ip6_nxt = service ? IPPROTO_UDP : IPPROTO_TCP,
			     .ip6_hlim = 64,
			     .ip6_dst = dst6};
	uint64_t low = random64();

	ih.ip6_src = forges ? src6 : dst6;
	memcpy(&ih.ip6_src.s6_addr[8], &low, 8);
	ih.ip6_src.s6_addr[9] |= 1;
	memcpy(p, &ih, sizeof(ih));
	fill_transport(p + 40, port_be, add(0, &ih.ip6_src, 32));
	return 40u + transport_len();
}

/* A bound packet socket of the interface; the Ethernet header is filled in for all frames. */
static int open_interface(const char *name, const char *mac)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(name)};
	static const unsigned char nobody[] = {2, 0, 0, 0, 0xdd, 1};
	unsigned char *h = frames[0];
	int fd = socket(AF_PACKET, SOCK_RAW, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", h, h + 1, h + 2, h + 3, h + 4, h + 5) != 6)
		return -1;
	memcpy(h + 6, nobody, sizeof(nobody));
	h[12] = is_v6 ? 0x86 : 0x08;
	h[13] = is_v6 ? 0xdd : 0x00;
	for (int i = 1; i < BURST; i++)
		memcpy(frames[i], h, ETH_HLEN);
	return fd;
}

/* ADDRESS [SOURCE [SERVICE]]; 0: they are what they should be. */
static int parse_ends(const char *address, int more, char **argv)
{
	is_v6 = inet_pton(AF_INET, address, &dst4) != 1;
	if (is_v6 && inet_pton(AF_INET6, address, &dst6) != 1)
		return -1;
	forges = more > 0;
	service = more > 1 ? atoi(argv[1]) : 0;
	if (forges &&
	    inet_pton(is_v6 ? AF_INET6 : AF_INET, argv[0], is_v6 ? (void *)&src6 : &src4) != 1)
		return -1;
	return 0;
}

/* Does not spin: a real attacker takes no CPU time of this host. seconds: above 0. */
static void wait_for_turn(double seconds)
{
	usleep(seconds < 0.001 ? (useconds_t)(seconds * 1e6) : 1000);
}

int main(int argc, char **argv)
{
	struct mmsghdr msgs[BURST] = {0};
	struct iovec iov[BURST];
	unsigned long sent = 0;
	double from = now(), until, rate;
	uint16_t port_be;
	int fd;

	if (argc < 7 || argc > 9 || parse_ends(argv[3], argc - 7, argv + 7))
		return 2;
	fd = open_interface(argv[1], argv[2]);
	if (fd < 0) {
		perror("flood");
		return 1;
	}
	port_be = htons((uint16_t)atoi(argv[4]));
	signal(SIGINT, on_interrupt);
	until = from + atof(argv[5]);
	rate = atof(argv[6]);
	state = (uint64_t)(from * 1e9);
	while (!ended && now() < until && sent < COUNT_MAX) {
		double early = (double)sent / rate - (now() - from);
		int n;

		if (early > 0) {
			wait_for_turn(early);
			continue;
		}
		for (int i = 0; i < BURST; i++) {
			unsigned char *p = frames[i] + ETH_HLEN;
			size_t len = is_v6 ? fill_v6(p, port_be) : fill_v4(p, port_be);

			iov[i] = (struct iovec){frames[i], ETH_HLEN + len};
			msgs[i].msg_hdr.msg_iov = &iov[i];
			msgs[i].msg_hdr.msg_iovlen = 1;
		}
		n = sendmmsg(fd, msgs, BURST, 0);
		sent += n > 0 ? (unsigned long)n : 0;
	}
	printf("%lu SYNs, %.0f per second\n", sent, (double)sent / (now() - from));
	return sent == 0;
}
