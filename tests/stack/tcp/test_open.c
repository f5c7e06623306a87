/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes: listening, refusing, limits, SYN cookies, active and simultaneous open. */
#include "tcp_bed.h"
#include "suite.h"

FIXTURE(setup, bed_end)

TEST(handshake_gives_the_application_both_addresses)
{
	open_plain();
	ck_assert_uint_eq(bed.app.listener, 7);
	ck_assert_uint_eq(bed.app.local.family, 4);
	ck_assert_mem_eq(bed.app.local.addr, pkt_our_ip4, 16);
	ck_assert_mem_eq(bed.app.remote.addr, pkt_peer_ip4, 16);
	ck_assert_uint_eq(be16toh(bed.app.remote.port_be), PKT_PEER_PORT);
	ck_assert_uint_eq(stats().conns, 1);
	ck_assert_uint_eq(stats().half_open, 0);
}

TEST(ipv6_with_two_vlan_tags)
{
	struct got g;

	bed.family = 6;
	bed.vlan_cnt = 2;
	in(.flags = S, .mss = 1440);
	ck_assert(next_out(&g));
	ck_assert_mem_eq(g.eth, pkt_peer_mac, 6);
	ck_assert_mem_eq(g.eth + 6, pkt_our_mac, 6);
	ck_assert_uint_eq(sl_get_be16(g.eth + 12), 0x88a8);
	ck_assert_uint_eq(sl_get_be16(g.eth + 14), PKT_VLAN_OUTER);
	ck_assert_uint_eq(sl_get_be16(g.eth + 18), PKT_VLAN_INNER);
	ck_assert_uint_eq(g.o.mss, 1440);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 1);
	ck_assert_uint_eq(bed.app.listener, 8);
}

TEST(options_are_those_of_both)
{
	struct got g;

	in(.flags = S, .mss = 1400, .sack_ok = true, .ts = true, .ts_val = 77, .ws = 8);
	ck_assert(next_out(&g));
	ck_assert_uint_eq(g.o.mss, 1460);
	ck_assert(g.o.sack_ok);
	ck_assert(g.o.has_ts);
	ck_assert_uint_eq(g.o.ts_ecr, 77);
	ck_assert_int_eq(g.o.wscale, 3); /* 256 KiB */
	bed.ts = true;
	in(.seq = 1, .ack = 1, .wnd = 10);
	ck_assert_uint_eq(bed.app.conn->snd_wnd, 10 << 7);
	ck_assert_uint_eq(bed.app.conn->mss, 1400 - 12);
}

TEST(options_not_offered_are_not_answered)
{
	struct got g;

	in(.flags = S);
	ck_assert(next_out(&g));
	ck_assert(!g.o.sack_ok);
	ck_assert(!g.o.has_ts);
	ck_assert_int_eq(g.o.wscale, -1);
	in(.seq = 1, .ack = 1, .wnd = 10);
	ck_assert_uint_eq(bed.app.conn->snd_wnd, 10);
	ck_assert_uint_eq(bed.app.conn->mss, 536); /* RFC 9293 3.7.1 */
}

TEST(mss_is_clamped)
{
	struct got g;

	reconfigure(bed.cfg.mss_clamp = 900);
	in(.flags = S, .mss = 1460);
	ck_assert(next_out(&g));
	ck_assert_uint_eq(g.o.mss, 900);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.conn->mss, 900);
}

TEST_EACH(tiny_mss_is_not_obeyed, 2)
{
	in(.flags = S, .mss = _i ? 535 : 1);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.conn->mss, 536);
}

/* Our own interface is obeyed all the same. */
TEST(tiny_mtu_is_obeyed)
{
	bed.port.port.mtu = bed.port.port.rx_mtu = 400;
	in(.flags = S, .mss = 1460);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.conn->mss, 360);
}

TEST(malformed_options_end_the_list)
{
	static const uint8_t zero_len[4] = {0xfe, 0, 2, 4};
	static const uint8_t overlong[4] = {2, 40, 0, 0};
	static const uint8_t one[4] = {8, 1, 1, 1};
	const uint8_t *all[] = {zero_len, overlong, one};

	for (unsigned i = 0; i < 3; i++) {
		bed.know_isn = false;
		in(.flags = S, .sport = (uint16_t)(1000 + i), .raw_opt = all[i], .raw_opt_len = 4);
		out(.flags = S | A, .ack = 1);
	}
	in(.seq = 1, .ack = 1, .sport = 1002, .raw_opt = zero_len, .raw_opt_len = 4, .len = 10);
	ck_assert_uint_eq(bed.app.got, 10);
}

TEST(lost_syn_ack_comes_again)
{
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	after(900 * MS);
	out_none();
	after(200 * MS);
	out(.flags = S | A, .ack = 1);
	in(.flags = S, .mss = 1000); /* their repetition is answered at once */
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 1);
	ck_assert_uint_eq(bed.app.conn->cwnd, 1000); /* RFC 5681 3.1 */
}

TEST(half_open_gives_up)
{
	in(.flags = S);
	ck_assert_uint_eq(stats().half_open, 1);
	after(100 * SEC);
	ck_assert_uint_eq(out_skip(), 1 + SL_TCP_SYN_RETRIES);
	ck_assert_uint_eq(stats().half_open, 0);
	ck_assert_uint_eq(stats().conns, 0);
	ck_assert_uint_eq(bed.app.closed, 0);
}

TEST(rst_ends_half_open)
{
	in(.flags = S);
	out(.flags = S | A, .ack = 1);
	in(.flags = R, .seq = 1);
	ck_assert_uint_eq(stats().half_open, 0);
	out_none();
}

TEST(wrong_ack_of_half_open_gets_rst)
{
	in(.flags = S);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 2);
	out(.flags = R, .seq = 2);
	ck_assert_uint_eq(drops(SL_DROP_TCP_ACK), 1);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 1);
}

TEST(data_with_the_last_ack_is_not_lost)
{
	in(.flags = S);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1, .len = 50);
	ck_assert_uint_eq(bed.app.got, 50);
}

TEST(syn_with_fin_is_dropped)
{
	in(.flags = S | F);
	out_none();
	ck_assert_uint_eq(drops(SL_DROP_TCP_FLAGS), 1);
}

TEST(an_application_may_refuse_a_connection)
{
	bed.app.refuse = true;
	in(.flags = S);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1, .len = 10);
	out(.flags = R | A, .seq = 1, .ack = 1);
	ck_assert_uint_eq(drops(SL_DROP_TCP_REFUSED), 1);
	ck_assert_uint_eq(stats().conns, 0);
	ck_assert_uint_eq(bed.app.closed, 0);
}

TEST(stray_segments_get_rst)
{
	bed.know_isn = true;
	in(.seq = 5, .ack = 9);
	out(.flags = R, .seq = 9);
	in(.flags = S | A, .seq = 5, .ack = 9);
	out(.flags = R, .seq = 9);
	in(.flags = R, .seq = 5);
	in(.flags = R | A, .seq = 5, .ack = 9);
	out_none();
	in(.flags = F, .seq = 5); /* neither ACK nor SYN nor RST: RFC 9293 3.10.7.2 */
	out_none();
	ck_assert_uint_eq(drops(SL_DROP_TCP_NO_CONN), 5);
}

static void to_port(uint16_t port, uint8_t flags)
{
	struct pkt_spec spec = {.protocol = PKT_TCP, .dport = port, .flags = flags, .seq = 10};
	struct pkt p;

	pkt_build(&p, &spec);
	ck_assert(sl_fake_inject(&bed.port, p.b, p.len, 0));
	bed_burst();
}

TEST(closed_port_answers_as_configured)
{
	struct got g;

	bed.know_isn = true;
	reconfigure(bed.cfg.rst_closed_ports = true);
	to_port(81, S);
	ck_assert(next_out(&g));
	ck_assert_uint_eq(g.s.flags, R | A);
	ck_assert_uint_eq(g.s.seq, 0);
	ck_assert_uint_eq(g.s.ack + bed.peer_isn, 11);
	ck_assert_uint_eq(drops(SL_DROP_NO_LISTENER), 1);
	reconfigure(bed.cfg.rst_closed_ports = false);
	to_port(81, S);
	out_none();
}

TEST(rsts_are_limited)
{
	bed.know_isn = true;
	for (int i = 0; i < 3000; i++) {
		in(.seq = 5, .ack = 9);
		out_skip();
	}
	ck_assert_uint_gt(drops(SL_DROP_RST_LIMIT), 500);
	ck_assert_uint_gt(stats().resets_out, 500);
	after(SEC);
	in(.seq = 5, .ack = 9);
	out(.flags = R, .seq = 9);
}

/* A sender of forged segments cannot count the victim's by the RSTs that it gets. */
TEST(rsts_for_one_address_take_none_from_another)
{
	bed.know_isn = true;
	for (int i = 0; i < 3000; i++) {
		in(.seq = 5, .ack = 9, .peer = 7);
		out_skip();
	}
	for (int i = 0; i < 500; i++) {
		in(.seq = 5, .ack = 9, .peer = 9);
		ck_assert_uint_eq(out_skip(), 1);
	}
}

TEST(connection_table_full)
{
	for (uint16_t i = 0; i < 66; i++)
		in(.flags = S, .sport = (uint16_t)(100 + i));
	ck_assert_uint_eq(out_skip(), 64);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CONN_LIMIT), 2);
}

TEST(few_frames_refuse_connections)
{
	bed.umem.low_water = 2 * (BED_FRAMES + 1);
	in(.flags = S);
	out_none();
	ck_assert_uint_eq(drops(SL_DROP_NO_FRAME), 1);
}

static void cookie_from(uint16_t sport, const struct seg *syn)
{
	struct seg s = *syn;

	s.flags = S;
	s.sport = sport;
	bed.know_isn = false;
	bed_in(&s);
}

TEST(cookies_when_half_open_is_full)
{
	struct got g;

	reconfigure(bed.cfg.max_half_open = 1);
	cookie_from(100, &(struct seg){0});
	out(.flags = S | A, .ack = 1);
	cookie_from(101, &(struct seg){.mss = 1300, .sack_ok = true, .ts = true, .ws = 8});
	ck_assert(next_out(&g));
	ck_assert_uint_eq(g.s.flags, S | A);
	ck_assert_uint_eq(stats().conns, 1); /* nothing is kept of it */
	ck_assert_uint_eq(stats().syn_cookies_sent, 1);
	bed.ts = true;
	after(66 * SEC); /* into the next of the secret's periods */
	out_skip();
	bed.last_ts = g.o.ts_val;
	in(.seq = 1, .ack = 1, .sport = 101, .len = 20, .wnd = 100);
	ck_assert_uint_eq(bed.app.accepted, 1);
	ck_assert_uint_eq(bed.app.got, 20);
	ck_assert_uint_eq(bed.app.conn->mss, 1220 - 12); /* the table's next lower value */
	ck_assert_uint_eq(bed.app.conn->snd_wscale, 7);
	ck_assert(bed.app.conn->flags & SL_TCPF_SACK);
	ck_assert_uint_eq(bed.app.conn->srtt_us, 0); /* the time of the cookie is unknown */
	ck_assert_uint_eq(stats().syn_cookies_ok, 1);
}

TEST(forged_and_old_cookies)
{
	reconfigure(bed.cfg.max_half_open = 0);
	cookie_from(100, &(struct seg){.mss = 1460});
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 5, .sport = 100);
	out(.flags = R, .seq = 5);
	ck_assert_uint_eq(drops(SL_DROP_TCP_SYN_COOKIE), 1);
	in(.seq = 2, .ack = 1, .sport = 100); /* other ISN of theirs */
	in(.seq = 1, .ack = 1, .sport = 101); /* other port */
	ck_assert_uint_eq(drops(SL_DROP_TCP_SYN_COOKIE), 3);
	out_skip();
	after(200 * SEC);
	in(.seq = 1, .ack = 1, .sport = 100);
	ck_assert_uint_eq(bed.app.accepted, 0);
	out(.flags = R, .seq = 1);
	ck_assert_uint_eq(drops(SL_DROP_TCP_SYN_COOKIE), 3); /* none are out: not even looked at */
}

TEST(timestamps_of_cookies_are_not_ahead)
{
	struct sl_flow_key key = {.family = 4, .local_port_be = htobe16(PKT_OUR_PORT)};
	uint32_t clock;
	struct got g;

	reconfigure(bed.cfg.max_half_open = 0);
	memcpy(key.local, pkt_our_ip4, 16);
	memcpy(key.remote, pkt_peer_ip4, 16);
	for (int i = 0; i < 64; i++) {
		after(MS);
		cookie_from(100, &(struct seg){.ts = true, .sack_ok = true, .ws = 1 + i % 15});
		ck_assert(next_out(&g));
		clock = ts_clock(bed.tcp, sl_tcp_ts_offset(bed.tcp, &key));
		ck_assert(sl_seq_leq(g.o.ts_val, clock));
		ck_assert_uint_lt(clock - g.o.ts_val, 64);
	}
}

TEST(flood_keeps_memory_and_lets_clients_in)
{
	uint32_t free_before;

	reconfigure(bed.cfg.max_half_open = 8);
	free_before = frames_free();
	for (unsigned i = 0; i < 3000; i++) {
		in(.flags = S, .sport = (uint16_t)(1000 + i), .mss = 1460);
		out_skip();
	}
	ck_assert_uint_eq(stats().conns, 8);
	ck_assert_uint_eq(frames_free(), free_before);
	cookie_from(999, &(struct seg){.mss = 1460});
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1, .sport = 999, .len = 5);
	ck_assert_uint_eq(bed.app.got, 5);
}

TEST(sequence_numbers_follow_clock_and_tuple)
{
	uint32_t first, second;

	in(.flags = S, .sport = 100);
	out(.flags = S | A, .ack = 1);
	first = bed.our_isn;
	in(.flags = R, .seq = 1, .sport = 100);
	after(8 * MS);
	bed.know_isn = false;
	in(.flags = S, .sport = 100);
	out(.flags = S | A, .ack = 1);
	second = bed.our_isn;
	ck_assert_uint_ge(second - first, 1900); /* RFC 6528: 250 per ms */
	ck_assert_uint_le(second - first, 2100);
	bed.know_isn = false;
	in(.flags = S, .sport = 101);
	out(.flags = S | A, .ack = 1);
	ck_assert_uint_gt(bed.our_isn - second, 2100);
}

static struct sl_tcp_conn *dial(void)
{
	struct sl_addr local = {.family = 4, .port_be = htobe16(PKT_OUR_PORT)};
	struct sl_addr remote = {.family = 4, .port_be = htobe16(PKT_PEER_PORT)};
	struct sl_tcp_conn *c;

	memcpy(local.addr, pkt_our_ip4, 16);
	memcpy(remote.addr, pkt_peer_ip4, 16);
	c = sl_tcp_connect(bed.tcp, 0, pkt_peer_mac, &local, &remote, &bed.app);
	ck_assert_ptr_nonnull(c);
	ck_assert_ptr_null(sl_tcp_connect(bed.tcp, 0, pkt_peer_mac, &local, &remote, &bed.app));
	bed_collect();
	return c;
}

TEST(a_connection_can_be_dialled)
{
	dial();
	out(.flags = S);
	in(.flags = S | A, .ack = 1, .mss = 1000, .ws = 3);
	out(.ack = 1, .seq = 1);
	ck_assert_uint_eq(bed.app.connected, 1);
	app_sends(1, 100);
	out(.seq = 1, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 101, .len = 7);
	ck_assert_uint_eq(bed.app.got, 7);
}

TEST(active_open_refused)
{
	dial();
	out(.flags = S);
	in(.flags = R | A, .ack = 2); /* not for our SYN */
	ck_assert_uint_eq(bed.app.closed, 0);
	in(.flags = R | A, .ack = 1);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_UNREACHABLE);
	ck_assert_uint_eq(stats().conns, 0);
}

TEST(active_open_times_out)
{
	dial();
	after(200 * SEC);
	ck_assert_uint_eq(out_skip(), 1 + SL_TCP_SYN_RETRIES);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_TIMEOUT);
}

TEST(active_open_wrong_ack_gets_rst)
{
	dial();
	out(.flags = S);
	in(.flags = S | A, .ack = 7);
	out(.flags = R, .seq = 7);
	ck_assert_uint_eq(bed.app.connected, 0);
}

TEST(both_sides_may_open_at_once)
{
	dial();
	out(.flags = S);
	in(.flags = S, .mss = 1000, .ws = 3);
	out(.flags = S | A, .ack = 1);
	in(.flags = S | A, .ack = 1, .wnd = 4000);
	ck_assert_uint_eq(bed.app.connected, 1);
	ck_assert_uint_eq(bed.app.conn->snd_wnd, 4000); /* in a SYN it is not scaled */
	in(.seq = 1, .ack = 1, .len = 9);
	ck_assert_uint_eq(bed.app.got, 9);
}

TEST(simultaneous_open_refused)
{
	dial();
	out(.flags = S);
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	in(.flags = R, .seq = 1);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_UNREACHABLE);
}

TEST(ephemeral_ports_differ)
{
	struct sl_addr local = {.family = 4}, remote = {.family = 4, .port_be = htobe16(9)};
	struct sl_tcp_conn *a, *b;

	memcpy(local.addr, pkt_our_ip4, 16);
	memcpy(remote.addr, pkt_peer_ip4, 16);
	a = sl_tcp_connect(bed.tcp, 0, pkt_peer_mac, &local, &remote, &bed.app);
	b = sl_tcp_connect(bed.tcp, 0, pkt_peer_mac, &local, &remote, &bed.app);
	ck_assert_ptr_nonnull(a);
	ck_assert_ptr_nonnull(b);
	ck_assert_uint_ne(a->local_port_be, b->local_port_be);
	ck_assert_uint_ge(be16toh(a->local_port_be), 32768);
	sl_tcp_close(a);
	ck_assert_uint_eq(bed.app.closed, 1);
}

TEST(idle_connection_fits)
{
	/* structure, timers, flow table entry, and 128 bytes of the application */
	ck_assert_uint_le(stats().conn_bytes + 128, 512);
	ck_assert_uint_ge(stats().conn_bytes, sizeof(struct sl_tcp_conn));
	printf("idle connection: %u bytes and 128 of the application\n", stats().conn_bytes);
}
