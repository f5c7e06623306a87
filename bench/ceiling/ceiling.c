/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit of this machine for packets in and out, with the gateway's socket settings and no stack
 * above them.
 *
 *   ceiling echo IFACE [options]           sends UDP packets back, headers swapped
 *   ceiling blast IFACE TARGET [options]   keeps a window of them in flight and counts
 *
 * Rows "name<TAB>value<TAB>unit". A packet of `packets` is one in or one out, as the echo sees it.
 * Both wait as their models do: echo as the gateway's worker, blast as the load generator.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/hist.h"
#include "base/wakeup_cost.h"
#include "tools/load/route.h"
#include "wire/csum.h"
#include "wire/eth.h"
#include "wire/ip4.h"
#include "wire/udp.h"
#include "xio/host_addr.h"
#include "xio/probe.h"
#include "xio/xsk_port.h"

enum {
	FRAME_SIZE = 2048, /* the gateway's, for an MTU of 1500 */
	FRAMES = 16384,
	ECHO_PORT = 7,
	BLAST_PORT = 40007,
	RING_SIZE = 2048,            /* the default of interface { ring_size } */
	LONGEST_SLEEP_NS = 20000000, /* then signals, the end and lost packets are looked for */
	TX_RETRY_NS = 50000,
	LOST_NS = 500000000, /* without any answer: longer than a busy host makes one wait */
	HEADERS = sizeof(struct sl_eth_hdr) + sizeof(struct sl_ip4_hdr) + sizeof(struct sl_udp_hdr),
	WINDOW_MAX = 1024,
};

struct stamp {
	uint64_t sent_ns;
	uint64_t round; /* packets of an earlier window, given up as lost, are told apart */
};

struct options {
	const char *ifname, *target;
	double seconds;
	unsigned window, size;
	int cpu;
};

struct arena {
	struct sl_umem umem;
	struct sl_xdp xdp;
	struct sl_port *port;
	bool umem_up, xdp_up;
};

struct blast {
	struct arena a;
	struct sl_load_route route;
	uint32_t target_be;
	unsigned window, payload, in_flight;
	uint64_t round, sent, received, lost, last_ns;
	struct sl_hist_fine rtt;
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	(void)sig;
	stopped = 1;
}

/* --- set-up, as gateway/gateway.c does it --- */

static void arena_close(struct arena *a)
{
	if (a->port)
		a->port->ops->close(a->port);
	if (a->xdp_up)
		sl_xdp_close(&a->xdp);
	if (a->umem_up)
		sl_umem_fini(&a->umem);
}

static int steer(const struct sl_xdp *xdp, const uint8_t *addr, uint16_t port, const char *ifname,
		 struct sl_err *err)
{
	struct sl_listener_key key = {.family = 4, .protocol = IPPROTO_UDP, .port = htons(port)};
	const struct sl_listener value = {.shed_service = SL_ANY_SERVICE};
	int rc;

	memcpy(key.addr, addr, 4);
	rc = sl_xdp_listen(xdp, &key, &value);
	return rc ? sl_fail(err, rc, "cannot steer packets on %s", ifname) : 0;
}

/* Steers packets to each IPv4 address of the host. */
static int steer_all(const struct sl_xdp *xdp, uint16_t port, const char *ifname,
		     struct sl_err *err)
{
	struct sl_host_addrs host;
	int rc = sl_host_addrs_open(&host, err);

	if (rc)
		return rc;
	for (uint32_t i = 0; i < host.addr_cnt && !rc; i++) {
		if (host.addrs[i].family == 4)
			rc = steer(xdp, host.addrs[i].addr, port, ifname, err);
	}
	sl_host_addrs_close(&host);
	return rc;
}

/* addr NULL: any address of the host. */
static int arena_open(struct arena *a, const char *ifname, const uint8_t *addr, uint16_t port)
{
	struct sl_xdp_options xo = {.worker_cnt = 1, .pin_root = ""};
	struct sl_xsk_options so = {
		.rx_size = RING_SIZE, .tx_size = RING_SIZE, .fill_size = RING_SIZE};
	struct sl_err err = SL_ERR(256);
	int rc = sl_umem_init(&a->umem, FRAME_SIZE, FRAMES);

	if (rc)
		sl_err_set(&err, "no memory for frames");
	a->umem_up = rc == 0;
	if (!rc)
		rc = sl_xdp_open(&a->xdp, ifname, &xo, &err);
	a->xdp_up = a->umem_up && rc == 0;
	if (!rc && addr)
		rc = steer(&a->xdp, addr, port, ifname, &err);
	else if (!rc)
		rc = steer_all(&a->xdp, port, ifname, &err);
	if (!rc)
		rc = sl_xsk_open(&a->port, &a->umem, &a->xdp, 0, &so, &err);
	if (rc)
		fprintf(stderr, "ceiling: %s: %s\n", err.text, strerror(-rc));
	return rc;
}

static void sleep_on(const struct arena *a, uint64_t ns)
{
	struct pollfd p = {.fd = a->port->fd, .events = POLLIN};
	struct timespec ts = {.tv_nsec = (long)(sl_xsk_tx_unsent(a->port) ? TX_RETRY_NS : ns)};

	(void)ppoll(&p, 1, &ts, NULL);
}

static void send_frames(struct arena *a, struct sl_frame **frames, unsigned cnt)
{
	unsigned taken = cnt ? a->port->ops->tx_burst(a->port, frames, cnt) : 0;

	while (taken < cnt)
		sl_frame_put(&a->umem, frames[taken++]);
}

/* --- echo --- */

static bool is_udp4(const struct sl_frame *f)
{
	return f->len >= HEADERS && sl_get_be16(f->data + 12) == SL_ETHERTYPE_IP4 &&
	       f->data[sizeof(struct sl_eth_hdr)] == 0x45;
}

/* Sums stay right: what is swapped is in them anyway. */
static void turn_round(struct sl_frame *f)
{
	struct sl_eth_hdr *eth = (struct sl_eth_hdr *)f->data;
	struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)(eth + 1);
	struct sl_udp_hdr *udp = (struct sl_udp_hdr *)(ip + 1);
	uint8_t mac[SL_ETH_ALEN];
	uint32_t addr_be = ip->src_be;
	uint16_t port_be = udp->sport_be;

	memcpy(mac, eth->src, sizeof(mac));
	memcpy(eth->src, eth->dst, sizeof(mac));
	memcpy(eth->dst, mac, sizeof(mac));
	ip->src_be = ip->dst_be;
	ip->dst_be = addr_be;
	udp->sport_be = udp->dport_be;
	udp->dport_be = port_be;
}

static unsigned echo_burst(struct arena *a, uint64_t now_ns)
{
	struct sl_frame *frames[SL_BURST];
	unsigned n = a->port->ops->rx_burst(a->port, frames, SL_BURST, now_ns), keep = 0;

	for (unsigned i = 0; i < n; i++) {
		if (!is_udp4(frames[i])) {
			sl_frame_put(&a->umem, frames[i]);
			continue;
		}
		turn_round(frames[i]);
		frames[keep++] = frames[i];
	}
	send_frames(a, frames, keep);
	a->port->ops->flush(a->port);
	return n;
}

static int run_echo(const struct options *o)
{
	struct arena a = {.port = NULL};
	int rc = arena_open(&a, o->ifname, NULL, ECHO_PORT);

	if (!rc) {
		uint64_t now_ns = sl_now_ns(), busy_ns = now_ns;
		uint64_t end_ns = now_ns + (uint64_t)(o->seconds * 1e9);
		uint64_t spin_ns = sl_wakeup_cost_ns(sched_getcpu());

		fprintf(stderr, "ready\n");
		while (!stopped && now_ns < end_ns) {
			if (echo_burst(&a, now_ns))
				busy_ns = now_ns;
			else if (now_ns - busy_ns > spin_ns)
				sleep_on(&a, LONGEST_SLEEP_NS);
			now_ns = sl_now_ns();
		}
		struct sl_port_stats stats;

		sl_xsk_stats(a.port, &stats);
		printf("echo_received\t%llu\tpackets\n", (unsigned long long)stats.rx_packets);
		printf("echo_sent\t%llu\tpackets\n", (unsigned long long)stats.tx_packets);
		printf("echo_dropped\t%llu\tpackets\n",
		       (unsigned long long)stats.rx_dropped +
			       (unsigned long long)stats.rx_ring_full);
	}
	arena_close(&a);
	return rc ? 1 : 0;
}

/* --- blast --- */

static void build_packet(const struct blast *b, struct sl_frame *f, uint64_t now_ns)
{
	struct sl_eth_hdr *eth = (struct sl_eth_hdr *)f->data;
	struct sl_ip4_hdr *ip = (struct sl_ip4_hdr *)(eth + 1);
	struct sl_udp_hdr *udp = (struct sl_udp_hdr *)(ip + 1);
	struct stamp s = {.sent_ns = now_ns, .round = b->round};
	uint32_t local_be;

	memcpy(eth->dst, b->route.mac, SL_ETH_ALEN);
	memcpy(eth->src, b->a.port->mac, SL_ETH_ALEN);
	eth->type_be = htobe16(SL_ETHERTYPE_IP4);
	memcpy(&local_be, b->route.local.addr, sizeof(local_be));
	sl_ip4_write(ip, local_be, b->target_be, SL_IP_PROTO_UDP,
		     (uint16_t)(b->payload + sizeof(*udp)), 0, true);
	sl_csum_ip4_fill(ip, sizeof(*ip));
	sl_udp_write(udp, htobe16(BLAST_PORT), htobe16(ECHO_PORT), (uint16_t)b->payload);
	memset(udp + 1, 0, b->payload);
	memcpy(udp + 1, &s, sizeof(s));
	f->len = (uint16_t)(HEADERS + b->payload);
}

/* Up to the window; true if anything was sent. */
static bool fill_window(struct blast *b, uint64_t now_ns)
{
	struct sl_frame *frames[SL_BURST];
	unsigned n = 0, taken;

	while (n < SL_BURST && b->in_flight + n < b->window) {
		struct sl_frame *f = sl_frame_get(&b->a.umem, SL_FRAME_TX, SL_FRAME_HEADROOM);

		if (!f)
			break;
		build_packet(b, f, now_ns);
		frames[n++] = f;
	}
	taken = n ? b->a.port->ops->tx_burst(b->a.port, frames, n) : 0;
	for (unsigned i = taken; i < n; i++)
		sl_frame_put(&b->a.umem, frames[i]);
	b->in_flight += taken;
	b->sent += taken;
	return taken > 0;
}

static unsigned take_answers(struct blast *b, uint64_t now_ns)
{
	struct sl_frame *frames[SL_BURST];
	unsigned n = b->a.port->ops->rx_burst(b->a.port, frames, SL_BURST, now_ns);

	for (unsigned i = 0; i < n; i++) {
		struct stamp s = {.round = UINT64_MAX};

		if (is_udp4(frames[i]) && frames[i]->len >= HEADERS + sizeof(s))
			memcpy(&s, frames[i]->data + HEADERS, sizeof(s));
		sl_frame_put(&b->a.umem, frames[i]);
		if (s.round != b->round || b->in_flight == 0)
			continue;
		b->in_flight--;
		b->received++;
		b->last_ns = now_ns;
		sl_hist_fine_add(&b->rtt, now_ns - s.sent_ns);
	}
	return n;
}

static void give_up_lost(struct blast *b, uint64_t now_ns)
{
	if (!b->in_flight || now_ns - b->last_ns < LOST_NS)
		return;
	b->lost += b->in_flight;
	b->in_flight = 0;
	b->round++;
	b->last_ns = now_ns;
}

static void blast_for(struct blast *b, uint64_t ns)
{
	uint64_t now_ns = sl_now_ns(), end_ns = now_ns + ns;

	b->last_ns = now_ns;
	while (!stopped && now_ns < end_ns) {
		bool busy = take_answers(b, now_ns) > 0;

		busy |= fill_window(b, now_ns);
		b->a.port->ops->flush(b->a.port);
		if (!busy)
			sched_yield();
		give_up_lost(b, now_ns);
		now_ns = sl_now_ns();
	}
}

static void report(const struct blast *b, double seconds)
{
	printf("ceiling_round_trips\t%.0f\t1/s\n", (double)b->received / seconds);
	printf("ceiling_packets\t%.0f\tpackets/s\n", 2 * (double)b->received / seconds);
	printf("ceiling_lost\t%llu\tpackets\n", (unsigned long long)b->lost);
	printf("ceiling_p50\t%.2f\tus\n", (double)sl_hist_fine_quantile(&b->rtt, 0.5) / 1e3);
	printf("ceiling_p99\t%.2f\tus\n", (double)sl_hist_fine_quantile(&b->rtt, 0.99) / 1e3);
}

static int run_blast(const struct options *o)
{
	struct blast b = {.window = o->window, .payload = o->size};
	struct sl_err err = SL_ERR(256);
	struct sl_addr to;
	uint64_t began_ns;
	int rc = 1;

	if (!sl_addr_parse(&to, o->target) || to.family != 4) {
		fprintf(stderr, "ceiling: found %s; allowed: an IPv4 address\n", o->target);
		return 2;
	}
	memcpy(&b.target_be, to.addr, 4);
	if (sl_hist_fine_init(&b.rtt, 7) != 0)
		return 1;
	if (sl_load_find_route(&b.route, o->ifname, &to, &err)) {
		fprintf(stderr, "ceiling: %s\n", err.text);
	} else if (arena_open(&b.a, o->ifname, b.route.local.addr, BLAST_PORT) == 0) {
		blast_for(&b, (uint64_t)(o->seconds * 1e8)); /* warm-up: a tenth */
		b.sent = b.received = b.lost = 0;
		sl_hist_fine_reset(&b.rtt);
		began_ns = sl_now_ns();
		blast_for(&b, (uint64_t)(o->seconds * 1e9));
		report(&b, (double)(sl_now_ns() - began_ns) / 1e9);
		rc = b.received ? 0 : 1;
	}
	arena_close(&b.a);
	sl_hist_fine_fini(&b.rtt);
	return rc;
}

/* --- options --- */

static const char help[] = "Usage: ceiling echo IFACE [options]\n"
			   "       ceiling blast IFACE ADDRESS [options]\n"
			   "\n"
			   "  -t, --seconds N   how long at most (default 10)\n"
			   "  -w, --window N    packets in flight, 1 to 1024 (default 256)\n"
			   "  -s, --size N      bytes of UDP payload, 16 to 1400 (default 64)\n"
			   "  -c, --cpu N       pins to this processor\n";

static const struct option long_options[] = {
	{"seconds", required_argument, NULL, 't'}, {"window", required_argument, NULL, 'w'},
	{"size", required_argument, NULL, 's'},    {"cpu", required_argument, NULL, 'c'},
	{"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
};

static bool number(const char *s, double low, double high, double *out)
{
	char *end;

	*out = strtod(s, &end);
	return end != s && !*end && *out >= low && *out <= high;
}

static bool take_option(int opt, struct options *o)
{
	double v = 0;

	switch (opt) {
	case 't': return number(optarg, 0.1, 3600, &o->seconds);
	case 'w':
		if (!number(optarg, 1, WINDOW_MAX, &v))
			return false;
		o->window = (unsigned)v;
		return true;
	case 's':
		if (!number(optarg, sizeof(struct stamp), 1400, &v))
			return false;
		o->size = (unsigned)v;
		return true;
	case 'c':
		if (!number(optarg, 0, 1023, &v))
			return false;
		o->cpu = (int)v;
		return true;
	default: return false;
	}
}

int main(int argc, char **argv)
{
	struct options o = {.seconds = 10, .window = 256, .size = 64, .cpu = -1};
	struct sigaction sa = {.sa_handler = on_signal};
	int opt, left;
	bool ok = true, echo, blast;

	while (ok && (opt = getopt_long(argc, argv, "t:w:s:c:h", long_options, NULL)) != -1)
		ok = take_option(opt, &o);
	left = argc - optind;
	echo = ok && left == 2 && strcmp(argv[optind], "echo") == 0;
	blast = ok && left == 3 && strcmp(argv[optind], "blast") == 0;
	if (!echo && !blast) {
		fputs(help, stderr);
		return 2;
	}
	o.ifname = argv[optind + 1];
	o.target = blast ? argv[optind + 2] : NULL;
	if (o.cpu >= 0 && sl_cpu_pin((unsigned)o.cpu) != 0) {
		fprintf(stderr, "ceiling: cannot run on processor %d\n", o.cpu);
		return 1;
	}
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return echo ? run_echo(&o) : run_blast(&o);
}
