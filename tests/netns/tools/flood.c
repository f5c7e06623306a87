/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood INTERFACE MAC ADDRESS PORT SECONDS RATE: SYNs from ever new addresses of the network
 * (10.99.1.0 and up, or fd99::1:0:0:0 and up) and ports, RATE a second or as many as the
 * interface takes if that is less. They come from a MAC that nobody has, so that the answers end where they reach the other side.
 * Ends after that time or on SIGINT and prints "N SYNs, N per second".
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { BURST = 64, TCP_LEN = 40, FRAME_MAX = 128, COUNT_MAX = 50000000 };

static unsigned char frames[BURST][FRAME_MAX];
static struct in_addr dst4;
static struct in6_addr dst6;
static int is_v6;
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

/* MSS, SACK permitted, timestamps, window scale: as Linux opens. */
static void fill_tcp(unsigned char *p, uint16_t port_be, uint32_t pseudo)
{
	static const unsigned char options[20] = {2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 1,
						  2, 3, 0,    0,    0, 0, 1, 3,  3, 7};
	struct tcphdr th = {.dest = port_be, .doff = TCP_LEN / 4, .syn = 1, .window = 0xffff};
	uint64_t r = random64();

	th.source = htons((uint16_t)(1024 + r % 60000));
	th.seq = (uint32_t)(r >> 32);
	memcpy(p, &th, sizeof(th));
	memcpy(p + sizeof(th), options, sizeof(options));
	th.check = fold_be(add(pseudo + IPPROTO_TCP + TCP_LEN, p, TCP_LEN));
	memcpy(p, &th, sizeof(th));
}

static size_t fill_v4(unsigned char *p, uint16_t port_be)
{
	struct iphdr ih = {.version = 4,
			   .ihl = 5,
			   .ttl = 64,
			   .protocol = IPPROTO_TCP,
			   .tot_len = htons(20 + TCP_LEN),
			   .daddr = dst4.s_addr};

	ih.saddr = htonl(0x0a630100u + (uint32_t)(random64() % 0xfe00));
	ih.check = fold_be(add(0, &ih, sizeof(ih)));
	memcpy(p, &ih, sizeof(ih));
	fill_tcp(p + 20, port_be, add(0, &ih.saddr, 8));
	return 20 + TCP_LEN;
}

static size_t fill_v6(unsigned char *p, uint16_t port_be)
{
	struct ip6_hdr ih = {.ip6_flow = htonl(6u << 28),
			     .ip6_plen = htons(TCP_LEN),
			     .ip6_nxt = IPPROTO_TCP,
			     .ip6_hlim = 64,
			     .ip6_dst = dst6};
	uint64_t low = random64();

	ih.ip6_src = dst6;
	memcpy(&ih.ip6_src.s6_addr[8], &low, 8);
	ih.ip6_src.s6_addr[9] |= 1;
	memcpy(p, &ih, sizeof(ih));
	fill_tcp(p + 40, port_be, add(0, &ih.ip6_src, 32));
	return 40 + TCP_LEN;
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

int main(int argc, char **argv)
{
	struct mmsghdr msgs[BURST] = {0};
	struct iovec iov[BURST];
	unsigned long sent = 0;
	double from = now(), until, rate;
	uint16_t port_be;
	int fd;

	if (argc != 7)
		return 2;
	is_v6 = inet_pton(AF_INET, argv[3], &dst4) != 1;
	if (is_v6 && inet_pton(AF_INET6, argv[3], &dst6) != 1)
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
		int n;

		if ((double)sent > rate * (now() - from))
			continue;
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
