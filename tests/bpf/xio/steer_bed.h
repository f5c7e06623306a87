/* SPDX-License-Identifier: Apache-2.0 */
/* The XDP program on a veth in a namespace of its own, and BPF_PROG_TEST_RUN of a packet. */
#ifndef SL_TESTS_STEER_BED_H
#define SL_TESTS_STEER_BED_H

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <linux/bpf.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include "base/check.h"
#include "base/err.h"
#include "xio/xdp/acl_map.h"
#include "xio/xdp/xdp.h"
#include "xio/xsk_port.h"
#include "netns.h"
#include "steer_cases.h"

enum { QUEUES = 2, SHED_SERVICE = 1 };

static const uint8_t case_mac[6] = {2, 0, 0, 0, 0, 1}; /* the destination in steer_cases.h */
static struct sl_xdp xdp;
static struct sl_umem umem;
static struct sl_port *port;
static int prog_fd;

static const char *verdict_name(unsigned v)
{
#define X(name, metric, help) metric,
	static const char *const names[] = {SL_RX_VERDICTS(X)};
#undef X
	return v < SL_RX_VERDICT_CNT ? names[v] : "none";
}

static unsigned action_of(enum sl_rx_verdict v)
{
	if (v == SL_RX_REDIRECT)
		return XDP_REDIRECT;
	if (v == SL_RX_SHED_CONNECTION || v == SL_RX_SHED_DATAGRAM || v == SL_RX_SHED_QUEUE ||
	    v == SL_RX_DENIED || v == SL_RX_NO_SOCKET || v == SL_RX_FRAGMENT || v == SL_RX_OFFENDER)
		return XDP_DROP;
	return XDP_PASS;
}

struct outcome {
	unsigned action;
	/* expected counter, raised by the number of runs; SL_RX_VERDICT_CNT: none */
	unsigned verdict;
	uint8_t out[1280];
	uint32_t out_len;
};

static void run_packet(const struct packet *p, size_t len, unsigned queue, struct outcome *o)
{
	uint64_t before[SL_RX_VERDICT_CNT], after[SL_RX_VERDICT_CNT], sum = 0;
	struct xdp_md ctx = {
		.data_end = (uint32_t)len,
		.ingress_ifindex = (uint32_t)xdp.ifindex,
		.rx_queue_index = queue,
	};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = p->bytes, .data_size_in = (uint32_t)len,
		    .data_out = o->out, .data_size_out = sizeof(o->out), .ctx_in = &ctx,
		    .ctx_size_in = sizeof(ctx), .repeat = 1);

	ck_assert_int_eq(sl_xdp_verdicts(&xdp, before), 0);
	ck_assert_int_eq(bpf_prog_test_run_opts(prog_fd, &opts), 0);
	ck_assert_int_eq(sl_xdp_verdicts(&xdp, after), 0);
	o->action = opts.retval;
	o->out_len = opts.data_size_out;
	o->verdict = SL_RX_VERDICT_CNT;
	for (unsigned v = 0; v < SL_RX_VERDICT_CNT; v++) {
		sum += after[v] - before[v];
		if (after[v] == before[v] + 1)
			o->verdict = v;
	}
	ck_assert_msg(sum == 1, "counted %lu times", (unsigned long)sum);
}

/* A test run puts nothing into the ring, so that the port never finds that there is room again. */
static void make_room(uint32_t cnt)
{
	xdp.queues[0].open_limit = xdp.queues[0].opens + cnt;
}

static void expect(const char *name, const struct packet *p, size_t len, enum sl_rx_verdict want,
		   struct outcome *o)
{
	run_packet(p, len, 0, o);
	ck_assert_msg(o->verdict == want, "%s, %zu of %zu bytes: counted as %s, not %s", name, len,
		      p->len, verdict_name(o->verdict), verdict_name(want));
	ck_assert_msg(o->action == action_of(want), "%s: action %u", name, o->action);
}

/* Checks the verdict for packets of a client, of a connection or not. */
static inline void client(const char *src, enum sl_rx_verdict want)
{
	for (int i = 0; i < 3; i++) {
		const bool v4 = !strchr(src, ':');
		struct packet p = {0};
		struct outcome o;

		eth(&p, v4 ? ETH_P_IP : ETH_P_IPV6);
		if (v4)
			ip4_opts(&p, i == 2 ? 17 : 6, src, "10.0.0.1", 0, 5);
		else
			ip6_from(&p, i == 2 ? 17 : 6, src, "fd99::1");
		if (i == 2)
			udp(&p, 53);
		else
			tcp(&p, 1, 80, i ? ACK : SYN);
		expect(src, &p, p.len, want, &o);
	}
}

/* ---- set-up: a veth in a namespace of its own, one for the table, and one for each test that
 * changes maps ---- */

static void listen_on(int family, const char *addr, unsigned dport, unsigned protocol,
		      unsigned listener, unsigned service)
{
	struct sl_listener_key key = {
		.port = htons((uint16_t)dport),
		.family = (uint8_t)family,
		.protocol = (uint8_t)protocol,
	};
	const struct sl_listener l = {
		.listener = (uint16_t)listener,
		.shed_service = (uint16_t)service,
	};

	inet_pton(family == 4 ? AF_INET : AF_INET6, addr, key.addr);
	ck_assert_int_eq(sl_xdp_listen(&xdp, &key, &l), 0);
}

static void set_up(void)
{
	const struct sl_xdp_options options = {.worker_cnt = 2, .service_cnt = 3};
	const struct sl_xsk_options xsk = {.worker = 0};
	struct sl_err err = SL_ERR(256);

	ck_assert_int_eq(test_netns_enter(), 0);
	ck_assert_int_eq(test_veth("sl0", "sl1", QUEUES), 0);
	ck_assert_msg(sl_xdp_open(&xdp, "sl0", &options, &err) == 0, "%s", err.text);
	ck_assert_int_eq(sl_umem_init(&umem, 2048, 256), 0);
	ck_assert_msg(sl_xsk_open(&port, &umem, &xdp, 0, &xsk, &err) == 0, "%s", err.text);
	ck_assert_int_eq(sl_xdp_edge_mac(&xdp, case_mac), 0);
	prog_fd = bpf_prog_get_fd_by_id(xdp.prog_id);
	ck_assert_int_ge(prog_fd, 0);
	listen_on(4, "10.0.0.1", 80, IPPROTO_TCP, L_EXACT4, SL_ANY_SERVICE);
	listen_on(4, "10.0.0.1", 443, IPPROTO_TCP, L_EXACT4, SL_ANY_SERVICE);
	listen_on(4, "10.0.0.1", 8080, IPPROTO_TCP, L_EXACT4, SL_ANY_SERVICE);
	listen_on(4, "10.0.0.77", 8080, IPPROTO_TCP, L_ANY4, SL_ANY_SERVICE);
	listen_on(4, "10.0.0.1", 53, IPPROTO_UDP, L_UDP4, SL_ANY_SERVICE);
	listen_on(6, "fd99::1", 80, IPPROTO_TCP, L_EXACT6, SL_ANY_SERVICE);
	listen_on(6, "fd99::77", 8080, IPPROTO_TCP, L_ANY6, SL_ANY_SERVICE);
	listen_on(6, "fd99::1", 53, IPPROTO_UDP, L_UDP6, SL_ANY_SERVICE);
	listen_on(4, "10.0.0.3", 7000, IPPROTO_TCP, L_SHED_TCP, SHED_SERVICE);
	listen_on(4, "10.0.0.3", 7000, IPPROTO_UDP, L_SHED_UDP, SHED_SERVICE);
	make_room(1000000);
}

static void tear_down(void)
{
	port->ops->close(port);
	close(prog_fd);
	sl_xdp_close(&xdp);
	sl_umem_fini(&umem);
}

#endif
