/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program by BPF_PROG_TEST_RUN: for each packet the verdict, its one counter, and the
 * stamp; and every packet that is redirected again at each shorter length.
 */
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
#include "xio/xdp_load.h"
#include "xio/xsk_port.h"
#include "../../support/netns.h"
#include "steer_cases.h"

enum { QUEUES = 2, SHED_SERVICE = 1 };

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
	if (v == SL_RX_SHED_CONNECTION || v == SL_RX_SHED_DATAGRAM || v == SL_RX_SHED_QUEUE)
		return XDP_DROP;
	return XDP_PASS;
}

struct outcome {
	unsigned action;
	unsigned verdict; /* whose counter went up by the number of runs; SL_RX_VERDICT_CNT: none */
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

static void expect_stamp(const char *name, const struct packet *p, size_t len,
			 const struct outcome *o, uint16_t listener)
{
	struct sl_rx_meta meta;

	ck_assert_msg(o->out_len == len + sizeof(meta), "%s: %u bytes out", name, o->out_len);
	memcpy(&meta, o->out, sizeof(meta));
	ck_assert_uint_eq(meta.magic, SL_RX_META_MAGIC);
	ck_assert_uint_eq(meta.queue, 0);
	ck_assert_msg(meta.listener == listener, "%s: listener %u, not %u", name, meta.listener,
		      listener);
	ck_assert_uint_gt(meta.rx_ns, 0);
	ck_assert_mem_eq(o->out + sizeof(meta), p->bytes, len);
}

START_TEST(verdict_and_counter)
{
	const struct steer_case *c = &cases[_i];
	struct packet p = {0};
	struct outcome o;

	c->build(&p);
	expect(c->name, &p, p.len, c->verdict, &o);
	if (c->verdict == SL_RX_REDIRECT)
		expect_stamp(c->name, &p, p.len, &o, c->listener);
	else
		ck_assert_uint_eq(o.out_len, p.len);
}
END_TEST

/* The kernel runs no program on less than an Ethernet header. */
START_TEST(truncated_at_each_byte)
{
	const struct steer_case *c = &cases[_i];
	struct packet p = {0};
	struct outcome o;

	c->build(&p);
	if (c->verdict != SL_RX_REDIRECT)
		return;
	for (size_t len = ETH_HLEN; len < p.need; len++)
		expect(c->name, &p, len, SL_RX_PASS_TRUNCATED, &o);
	for (size_t len = p.need; len < p.len; len++)
		expect(c->name, &p, len, SL_RX_REDIRECT, &o);
}
END_TEST

START_TEST(queue_without_socket)
{
	struct packet p = {0};
	struct outcome o;

	build_tcp4_exact(&p);
	run_packet(&p, p.len, 1, &o);
	ck_assert_uint_eq(o.verdict, SL_RX_PASS_NO_SOCKET);
	ck_assert_uint_eq(o.action, XDP_PASS);
	ck_assert_uint_eq(o.out_len, p.len);
}
END_TEST

START_TEST(unlistened)
{
	const struct sl_listener_key key = {.port = htons(8080), .family = 4, .protocol = 6};
	struct packet p = {0};
	struct outcome o;

	build_tcp4_any(&p);
	expect("before", &p, p.len, SL_RX_REDIRECT, &o);
	ck_assert_int_eq(sl_xdp_unlisten(&xdp, &key), 0);
	expect("after", &p, p.len, SL_RX_PASS_NO_LISTENER, &o);
	ck_assert_int_eq(sl_xdp_unlisten(&xdp, &key), -ENOENT);
}
END_TEST

/* ---- admission ---- */

static void build_syn(struct packet *p)
{
	eth(p, ETH_P_IP);
	ip4(p, 6, "10.0.0.3");
	tcp(p, 1, 7000, SYN);
}

static void build_segment(struct packet *p)
{
	eth(p, ETH_P_IP);
	ip4(p, 6, "10.0.0.3");
	tcp(p, 1, 7000, ACK);
}

static void build_datagram(struct packet *p)
{
	eth(p, ETH_P_IP);
	ip4(p, 17, "10.0.0.3");
	udp(p, 7000);
}

static void set_level(uint32_t worker, uint32_t level)
{
	sl_xdp_live(&xdp, worker, SHED_SERVICE)->shed_level = level;
}

START_TEST(shed_everything_new)
{
	struct packet syn = {0}, datagram = {0};
	struct outcome o;

	build_syn(&syn);
	build_datagram(&datagram);
	expect("level 0", &syn, syn.len, SL_RX_REDIRECT, &o);
	set_level(0, 65536);
	for (int i = 0; i < 200; i++) {
		expect("syn", &syn, syn.len, SL_RX_SHED_CONNECTION, &o);
		expect("datagram", &datagram, datagram.len, SL_RX_SHED_DATAGRAM, &o);
	}
	set_level(0, 0);
	expect("syn", &syn, syn.len, SL_RX_REDIRECT, &o);
	expect("datagram", &datagram, datagram.len, SL_RX_REDIRECT, &o);
}
END_TEST

START_TEST(shed_nothing_that_exists)
{
	static const uint8_t flags[] = {ACK, SYN | ACK, FIN | ACK, RST, 0};
	struct outcome o;

	set_level(0, 65536);
	for (size_t i = 0; i < SL_ARRAY_LEN(flags); i++) {
		struct packet p = {0};

		eth(&p, ETH_P_IP);
		ip4(&p, 6, "10.0.0.3");
		tcp(&p, 1, 7000, flags[i]);
		expect("segment", &p, p.len, SL_RX_REDIRECT, &o);
	}
	for (int i = 0; i < 2; i++) {
		struct packet p = {0};

		eth(&p, ETH_P_IP);
		ip4(&p, 1, "10.0.0.3");
		icmp(&p, 3, 4);
		ip4_opts(&p, i ? 17 : 6, "10.0.0.3", "10.9.9.9", 0, 5);
		quote(&p, 7000);
		expect("icmp error", &p, p.len, SL_RX_REDIRECT, &o);
	}
}
END_TEST

START_TEST(shed_only_this_service)
{
	struct packet p = {0};
	struct outcome o;

	for (uint32_t service = 0; service < xdp.service_cnt; service++) {
		if (service != SHED_SERVICE)
			sl_xdp_live(&xdp, 0, service)->shed_level = 65536;
	}
	build_syn(&p);
	expect("other services shed", &p, p.len, SL_RX_REDIRECT, &o);
	set_level(0, 65536);
	memset(&p, 0, sizeof(p));
	build_tcp4_exact(&p);
	expect("listener without service", &p, p.len, SL_RX_REDIRECT, &o);
}
END_TEST

START_TEST(shed_by_the_worker_of_the_queue)
{
	struct packet p = {0};
	struct outcome o;

	build_syn(&p);
	set_level(1, 65536);
	expect("other worker sheds", &p, p.len, SL_RX_REDIRECT, &o);
	ck_assert_int_eq(sl_xdp_set_socket(&xdp, 0, 1, port->fd), 0);
	expect("own worker sheds", &p, p.len, SL_RX_SHED_CONNECTION, &o);
}
END_TEST

/* As many as there is room for; then one in 16, while what exists goes on as before. */
START_TEST(shed_what_has_no_room)
{
	enum { ROOM = 5, RUNS = 1600, SHARE = RUNS / 16, SLACK = 60 }; /* six standard deviations */
	struct packet p[3] = {0};
	struct outcome o;
	int let_in = 0;

	build_syn(&p[0]);
	build_datagram(&p[1]);
	build_segment(&p[2]);
	xdp.queues[0].opens = UINT32_MAX - 1; /* across the wrap */
	make_room(ROOM);
	for (int i = 0; i < ROOM; i++)
		expect("room", &p[i % 2], p[i % 2].len, SL_RX_REDIRECT, &o);
	for (int i = 0; i < RUNS; i++) {
		const struct packet *new = &p[i % 2];

		run_packet(new, new->len, 0, &o);
		if (o.verdict == SL_RX_REDIRECT)
			let_in++;
		else
			ck_assert_uint_eq(o.verdict, SL_RX_SHED_QUEUE);
		ck_assert_uint_eq(o.action, action_of(o.verdict));
		expect("segment", &p[2], p[2].len, SL_RX_REDIRECT, &o);
	}
	ck_assert_int_gt(let_in, SHARE - SLACK);
	ck_assert_int_lt(let_in, SHARE + SLACK);
	make_room(1);
	expect("room again", &p[0], p[0].len, SL_RX_REDIRECT, &o);
}
END_TEST

START_TEST(shed_a_share)
{
	enum { RUNS = 4000, SLACK = 320 }; /* ten standard deviations of the binomial */
	const uint32_t level = 65536u * (uint32_t)_i / 4;
	struct packet p = {0};
	struct outcome o;
	int refused = 0;

	build_syn(&p);
	set_level(0, level);
	for (int i = 0; i < RUNS; i++) {
		run_packet(&p, p.len, 0, &o);
		ck_assert_uint_eq(o.action, action_of(o.verdict));
		refused += o.verdict == SL_RX_SHED_CONNECTION;
	}
	ck_assert_int_gt(refused, RUNS * _i / 4 - SLACK);
	ck_assert_int_lt(refused, RUNS * _i / 4 + SLACK);
}
END_TEST

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

	if (addr)
		inet_pton(family == 4 ? AF_INET : AF_INET6, addr, key.addr);
	ck_assert_int_eq(sl_xdp_listen(&xdp, &key, &l), 0);
}

static void set_up(void)
{
	const struct sl_xdp_options options = {.worker_cnt = 2, .service_cnt = 3};
	const struct sl_xsk_options xsk = {.worker = 0};
	char err[256] = "";

	ck_assert_int_eq(test_netns_enter(), 0);
	ck_assert_int_eq(test_veth("sl0", "sl1", QUEUES), 0);
	ck_assert_msg(sl_xdp_open(&xdp, "sl0", &options, err, sizeof(err)) == 0, "%s", err);
	ck_assert_int_eq(sl_umem_init(&umem, 2048, 256), 0);
	ck_assert_msg(sl_xsk_open(&port, &umem, &xdp, 0, &xsk, err, sizeof(err)) == 0, "%s", err);
	prog_fd = bpf_prog_get_fd_by_id(xdp.prog_id);
	ck_assert_int_ge(prog_fd, 0);
	listen_on(4, "10.0.0.1", 80, IPPROTO_TCP, L_EXACT4, SL_ANY_SERVICE);
	listen_on(4, "10.0.0.1", 443, IPPROTO_TCP, L_EXACT4, SL_ANY_SERVICE);
	listen_on(4, "10.0.0.1", 8080, IPPROTO_TCP, L_EXACT4, SL_ANY_SERVICE);
	listen_on(4, NULL, 8080, IPPROTO_TCP, L_ANY4, SL_ANY_SERVICE);
	listen_on(4, NULL, 53, IPPROTO_UDP, L_UDP4, SL_ANY_SERVICE);
	listen_on(6, "fd99::1", 80, IPPROTO_TCP, L_EXACT6, SL_ANY_SERVICE);
	listen_on(6, NULL, 8080, IPPROTO_TCP, L_ANY6, SL_ANY_SERVICE);
	listen_on(6, NULL, 53, IPPROTO_UDP, L_UDP6, SL_ANY_SERVICE);
	listen_on(4, NULL, 7000, IPPROTO_TCP, L_SHED_TCP, SHED_SERVICE);
	listen_on(4, NULL, 7000, IPPROTO_UDP, L_SHED_UDP, SHED_SERVICE);
	make_room(1000000);
}

static void tear_down(void)
{
	port->ops->close(port);
	close(prog_fd);
	sl_xdp_close(&xdp);
	sl_umem_fini(&umem);
}

static Suite *make_suite(void)
{
	Suite *s = suite_create("steer");
	TCase *table = tcase_create("packets"), *maps = tcase_create("maps");

	tcase_add_unchecked_fixture(table, set_up, tear_down);
	tcase_add_loop_test(table, verdict_and_counter, 0, (int)SL_ARRAY_LEN(cases));
	tcase_add_loop_test(table, truncated_at_each_byte, 0, (int)SL_ARRAY_LEN(cases));
	tcase_add_test(table, queue_without_socket);
	suite_add_tcase(s, table);

	tcase_add_checked_fixture(maps, set_up, tear_down);
	tcase_add_test(maps, unlistened);
	tcase_add_test(maps, shed_everything_new);
	tcase_add_test(maps, shed_nothing_that_exists);
	tcase_add_test(maps, shed_only_this_service);
	tcase_add_test(maps, shed_by_the_worker_of_the_queue);
	tcase_add_test(maps, shed_what_has_no_room);
	tcase_add_loop_test(maps, shed_a_share, 1, 4);
	tcase_set_timeout(maps, 60);
	suite_add_tcase(s, maps);
	return s;
}

int main(void)
{
	SRunner *r = srunner_create(make_suite());
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
