/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The XDP program by BPF_PROG_TEST_RUN: for each packet the verdict, its one counter, and the
 * stamp; and every packet that is redirected again at each shorter length.
 */
#include "steer_bed.h"
#include "suite.h"

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

FIXTURE_ONCE(set_up, tear_down)

TEST_EACH(verdict_and_counter, SL_ARRAY_LEN(cases))
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

/* The kernel runs no program on less than an Ethernet header. */
TEST_EACH(truncated_at_each_byte, SL_ARRAY_LEN(cases))
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

TEST(queue_without_socket)
{
	struct packet p = {0};
	struct outcome o;

	build_tcp4_exact(&p);
	run_packet(&p, p.len, 1, &o);
	ck_assert_uint_eq(o.verdict, SL_RX_NO_SOCKET);
	ck_assert_uint_eq(o.action, XDP_DROP);
	ck_assert_uint_eq(o.out_len, p.len);
}

FIXTURE(set_up, tear_down)

TEST(an_address_that_is_given_up_is_passed)
{
	const struct sl_listener_key key = {
		.addr = {10, 0, 0, 77}, .port = htons(8080), .family = 4, .protocol = 6};
	struct packet p = {0};
	struct outcome o;

	build_tcp4_any(&p);
	expect("before", &p, p.len, SL_RX_REDIRECT, &o);
	ck_assert_int_eq(sl_xdp_unlisten(&xdp, &key), 0);
	expect("after", &p, p.len, SL_RX_PASS_NO_LISTENER, &o);
	ck_assert_int_eq(sl_xdp_unlisten(&xdp, &key), -ENOENT);
}

/* Each byte of the destination MAC counts, also after the interface's MAC has changed. */
TEST(frames_for_another_mac_are_left_to_the_kernel)
{
	struct packet p = {0};
	struct outcome o;
	uint8_t mac[6];

	build_tcp4_exact(&p);
	for (unsigned i = 0; i < sizeof(mac); i++) {
		memcpy(mac, case_mac, sizeof(mac));
		mac[i] ^= 4;
		ck_assert_int_eq(sl_xdp_edge_mac(&xdp, mac), 0);
		expect("other MAC", &p, p.len, SL_RX_PASS_OTHER_HOST, &o);
		memcpy(p.bytes, mac, sizeof(mac));
		expect("new MAC", &p, p.len, SL_RX_REDIRECT, &o);
		memcpy(p.bytes, case_mac, sizeof(mac));
	}
}

/*
 * An entry with the first port stands for all ports of the range. Connections are opened from this
 * side, so a SYN is none of theirs.
 */
TEST(local_ports_of_own_connections_are_redirected)
{
	static const struct {
		unsigned port;
		unsigned flags;
		enum sl_rx_verdict want;
	} segments[] = {
		{19999, ACK, SL_RX_PASS_NO_LISTENER}, {20000, ACK, SL_RX_REDIRECT},
		{20007, ACK, SL_RX_REDIRECT},         {20007, SYN | ACK, SL_RX_REDIRECT},
		{20007, SYN, SL_RX_PASS_NO_LISTENER}, {20009, RST, SL_RX_REDIRECT},
		{20010, ACK, SL_RX_PASS_NO_LISTENER},
	};
	struct outcome o;

	listen_on(4, "10.0.0.2", 20000, IPPROTO_TCP, 0, SL_ANY_SERVICE);
	for (unsigned i = 0; i < SL_ARRAY_LEN(segments); i++) {
		struct packet p = {0};

		eth(&p, ETH_P_IP);
		ip4(&p, 6, "10.0.0.2");
		tcp(&p, 1, segments[i].port, segments[i].flags);
		ck_assert_int_eq(sl_xdp_edge_ports(&xdp, 20000, 20009), 0);
		expect("in the range", &p, p.len, segments[i].want, &o);
		ck_assert_int_eq(sl_xdp_edge_ports(&xdp, 0, 0), 0);
		expect("without a range", &p, p.len,
		       segments[i].port == 20000 ? SL_RX_REDIRECT : SL_RX_PASS_NO_LISTENER, &o);
	}
}

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

TEST(shed_everything_new)
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

TEST(shed_nothing_that_exists)
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

TEST(shed_only_this_service)
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

TEST(shed_by_the_worker_of_the_queue)
{
	struct packet p = {0};
	struct outcome o;

	build_syn(&p);
	set_level(1, 65536);
	expect("other worker sheds", &p, p.len, SL_RX_REDIRECT, &o);
	ck_assert_int_eq(sl_xdp_set_socket(&xdp, 0, 1, port->fd), 0);
	expect("own worker sheds", &p, p.len, SL_RX_SHED_CONNECTION, &o);
}

/* As many as there is room for; then one in 16, while what exists goes on as before. */
TEST(opens_beyond_the_limit_are_shed)
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

TEST_EACH(shed_a_share, 3)
{
	enum { RUNS = 4000, SLACK = 320 }; /* ten standard deviations of the binomial */
	const int quarters = _i + 1;
	const uint32_t level = 65536u * (uint32_t)quarters / 4;
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
	ck_assert_int_gt(refused, RUNS * quarters / 4 - SLACK);
	ck_assert_int_lt(refused, RUNS * quarters / 4 + SLACK);
}
