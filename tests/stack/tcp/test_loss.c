/* SPDX-License-Identifier: Apache-2.0 */
/* Lost segments are retransmitted at the right time, once, and at the right pace. */
#include "tcp_bed.h"
#include "suite.h"

/* A round trip of 100 ms is measured and cwnd is large enough. */
static void warm_up(void)
{
	app_sends(1, 1000);
	out(.seq = 1, .ack = 1, .len = 1000);
	after(100 * MS);
	in(.seq = 1, .ack = 1001);
	bed.app.conn->cwnd = 100000;
	out_none();
}

/* Ten segments of 1000 from 1001 on are in flight. */
static void ten_in_flight(void)
{
	warm_up();
	app_sends(1001, 10000);
	ck_assert_uint_eq(out_skip(), 10);
}

FIXTURE(setup, bed_end)

TEST(round_trip_time_and_rto)
{
	open_plain();
	warm_up();
	/* the handshake took no time: 1 us, then 7/8 of it and 1/8 of 100 ms */
	ck_assert_uint_ge(bed.app.conn->srtt_us, 12000);
	ck_assert_uint_le(bed.app.conn->srtt_us, 13000);
	ck_assert_uint_ge(sl_tcp_rto_us(bed.app.conn), 200000);
	for (int i = 0; i < 30; i++) {
		app_sends(1001 + (uint32_t)i, 1);
		after(100 * MS);
		in(.seq = 1, .ack = 1002 + (uint32_t)i);
	}
	ck_assert_uint_ge(bed.app.conn->srtt_us, 97000);
	ck_assert_uint_le(bed.app.conn->srtt_us, 101000);
}

TEST(timeout_backs_off_and_is_forgiven)
{
	open_plain(); /* no SACK, no tail probe */
	app_sends(1, 100);
	out(.seq = 1, .ack = 1, .len = 100);
	after(300 * MS);
	out(.seq = 1, .ack = 1, .len = 100);
	after(200 * MS);
	out_none();
	after(200 * MS);
	out(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.conn->backoff, 2);
	in(.seq = 1, .ack = 101); /* Karn: the acknowledged transmission is unknown */
	ck_assert_uint_eq(bed.app.conn->backoff, 2);
	app_sends(101, 100);
	after(MS);
	in(.seq = 1, .ack = 201);
	ck_assert_uint_eq(bed.app.conn->backoff, 0);
	ck_assert_uint_eq(stats().rto_fired, 2);
}

TEST(timestamps_tell_which_transmission_was_acknowledged)
{
	open_full();
	app_sends(1, 100);
	out_skip();
	after(300 * MS);
	after(500 * MS);
	ck_assert_uint_ge(out_skip(), 2);
	in(.seq = 1, .ack = 101);
	ck_assert_uint_eq(bed.app.conn->backoff, 0);
}

TEST(timeout_sends_one_segment_then_slow_start)
{
	open_plain();
	ten_in_flight();
	after(2 * SEC);
	out(.seq = 1001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.app.conn->cwnd, 1000);
	out_skip();
	in(.seq = 1, .ack = 2001);
	out(.seq = 2001, .ack = 1, .len = 1000);
	out(.seq = 3001, .ack = 1, .len = 1000);
	out_none();
	in(.seq = 1, .ack = 4001);
	ck_assert_uint_ge(out_skip(), 3);
}

TEST(three_duplicates_without_sack)
{
	open_plain();
	ten_in_flight();
	for (int i = 0; i < 2; i++) {
		in(.seq = 1, .ack = 1001);
		out_none();
	}
	in(.seq = 1, .ack = 1001);
	out(.seq = 1001, .ack = 1, .len = 1000);
	out_none();
	ck_assert_uint_eq(stats().fast_retransmits, 1);
	in(.seq = 1, .ack = 3001); /* partial: the next one is lost too, RFC 6582 */
	out(.seq = 3001, .ack = 1, .len = 1000);
	in(.seq = 1, .ack = 11001);
	ck_assert_int_eq(bed.app.conn->recovery, SL_RECOVERY_OPEN);
	ck_assert_uint_eq(in_flight(bed.app.conn), 0);
	ck_assert_uint_eq(stats().retransmits, 2);
}

/* A receiver cannot have more out of order than there is behind the first. */
TEST(duplicates_beyond_the_flight_mean_nothing)
{
	open_plain();
	ten_in_flight();
	for (int i = 0; i < 40; i++)
		in(.seq = 1, .ack = 1001);
	ck_assert_uint_le(bed.app.conn->sacked_out + bed.app.conn->lost_out, 9000);
	ck_assert_uint_eq(stats().fast_retransmits, 1);
}

TEST(segments_with_data_are_no_duplicates)
{
	open_plain();
	ten_in_flight();
	in(.seq = 1, .ack = 1001); /* one real duplicate */
	for (uint32_t i = 0; i < 5; i++)
		in(.seq = 1 + i * 10, .ack = 1001, .len = 10);
	for (int i = 0; i < 5; i++) /* window updates neither */
		in(.seq = 51, .ack = 1001, .wnd = 20000 + i);
	ck_assert_uint_eq(stats().retransmits, 0);
}

TEST(sack_shows_two_holes)
{
	open_sack();
	ten_in_flight();
	after(100 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{2001, 3001}});
	out_none();
	in(.seq = 1, .ack = 1001, .sacks = 2, .sack = {{4001, 5001}, {2001, 3001}});
	out_none();
	in(.seq = 1, .ack = 1001, .sacks = 2, .sack = {{4001, 6001}, {2001, 3001}});
	out(.seq = 1001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.app.conn->cc.prr.out, 1000);
	in(.seq = 1, .ack = 1001, .sacks = 2, .sack = {{4001, 7001}, {2001, 3001}});
	in(.seq = 1, .ack = 1001, .sacks = 2, .sack = {{4001, 8001}, {2001, 3001}});
	out(.seq = 3001, .ack = 1, .len = 1000);
	out_none();
	in(.seq = 1, .ack = 11001);
	ck_assert_uint_eq(stats().retransmits, 2);
	ck_assert_uint_eq(bed.app.conn->sacked_out, 0);
	ck_assert_uint_eq(bed.app.conn->lost_out, 0);
	ck_assert_uint_eq(bed.app.conn->retrans_out, 0);
	ck_assert_int_eq(bed.app.conn->recovery, SL_RECOVERY_OPEN);
}

TEST(invalid_blocks_change_nothing)
{
	open_sack();
	ten_in_flight();
	in(.seq = 1, .ack = 1001, .sacks = 3,
	   .sack = {{5001, 4001}, {9001, 20001}, {(uint32_t)-5000, 3001}});
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{1500, 1900}}); /* no whole segment */
	ck_assert_uint_eq(bed.app.conn->sacked_out, 0);
	out_none();
}

TEST(lost_repetition_is_sent_again)
{
	open_sack();
	ten_in_flight();
	after(100 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{2001, 5001}});
	out(.seq = 1001, .ack = 1, .len = 1000);
	after(100 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{2001, 9001}});
	out_skip();
	app_sends(11001, 2000); /* sent after the repetition */
	ck_assert_uint_ge(out_skip(), 1);
	after(150 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{2001, 12001}});
	out(.seq = 1001, .ack = 1, .len = 1000);
}

TEST(reordering_is_waited_for)
{
	open_sack();
	ten_in_flight();
	bed.app.conn->flags |= SL_TCPF_REORDER;
	bed.app.conn->min_rtt_us = 100000;
	bed.app.conn->srtt_us = 100000;
	after(100 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{4001, 9001}});
	out_none(); /* a quarter of the round trip: RFC 8985 */
	after(20 * MS);
	out_none();
	after(10 * MS);
	out(.seq = 1001, .ack = 1, .len = 1000);
}

TEST(late_segment_is_noticed_as_reordering)
{
	open_sack();
	ten_in_flight();
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{3001, 4001}});
	ck_assert(!(bed.app.conn->flags & SL_TCPF_REORDER));
	in(.seq = 1, .ack = 4001); /* the original came, nothing was repeated */
	ck_assert(bed.app.conn->flags & SL_TCPF_REORDER);
	ck_assert_uint_eq(stats().retransmits, 0);
	ck_assert_int_eq(bed.app.conn->recovery, SL_RECOVERY_OPEN);
}

TEST(tail_loss_is_probed)
{
	open_sack();
	warm_up();
	bed.app.conn->srtt_us = 20000;
	bed.app.conn->min_rtt_us = 20000;
	app_sends(1001, 3000);
	out_skip();
	after(30 * MS);
	out_none();
	after(20 * MS); /* twice the round trip: the last segment again */
	out(.seq = 3001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(stats().tlp_probes, 1);
	ck_assert_uint_eq(stats().rto_fired, 0);
	after(20 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{3001, 4001}});
	after(30 * MS);
	out(.seq = 1001, .ack = 1, .len = 1000); /* tells which others are lost */
	out_none();
	in(.seq = 1, .ack = 2001, .sacks = 1, .sack = {{3001, 4001}});
	out(.seq = 2001, .ack = 1, .len = 1000);
}

/*
 * Bytes that are made in place, as TLS does, may be laid before the timer of the probe fires and
 * committed after it: the probe must not take their frame for one that was sent.
 */
TEST_EACH(a_probe_leaves_a_frame_that_is_being_written_alone, 2)
{
	size_t room;
	uint8_t *p;

	open_sack();
	warm_up();
	bed.app.conn->srtt_us = 20000;
	bed.app.conn->min_rtt_us = 20000;
	app_sends(1001, 2000);
	out_skip();
	if (_i) { /* the frame has bytes already, which wait for more */
		bed.app.conn->cwnd = 2000;
		app_sends(3001, 100);
		out_none();
	}
	sl_net_set_now(&bed.net, bed.net.now_ns + 60 * MS);
	p = sl_tcp_lay(bed.app.conn, 100, true, &room);
	ck_assert_ptr_nonnull(p);
	sl_tcp_timer(bed.tcp);
	for (uint32_t i = 0; i < 100; i++)
		p[i] = pattern(3001 + (_i ? 100u : 0u) + i);
	sl_tcp_commit(bed.app.conn, 100);
	bed_collect();
	out(.seq = 3001, .ack = 1, .len = _i ? 200 : 100);
	ck_assert_uint_eq(stats().tlp_probes, 1);
	in(.seq = 1, .ack = 3001 + (_i ? 200 : 100));
	ck_assert_uint_eq(bed.app.conn->txq_head, 0);
	out_none();
}

TEST(probe_prefers_new_data)
{
	open_sack();
	warm_up();
	bed.app.conn->srtt_us = 20000;
	bed.app.conn->cwnd = 2000;
	app_sends(1001, 3000);
	ck_assert_uint_eq(out_skip(), 2);
	after(50 * MS);
	out(.seq = 3001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.app.conn->snd_nxt, bed.app.conn->snd_end);
}

TEST(probe_that_repaired_a_loss_slows_down)
{
	uint32_t cwnd;

	open_sack();
	warm_up();
	bed.app.conn->srtt_us = 20000;
	app_sends(1001, 3000);
	out_skip();
	cwnd = bed.app.conn->cwnd;
	after(50 * MS);
	out(.seq = 3001, .ack = 1, .len = 1000);
	app_sends(4001, 1000);
	out_skip();
	in(.seq = 1, .ack = 5001);
	ck_assert_uint_lt(bed.app.conn->cwnd, cwnd);
}

TEST(needless_probe_does_not)
{
	uint32_t cwnd;

	open_sack();
	warm_up();
	bed.app.conn->srtt_us = 20000;
	app_sends(1001, 3000);
	out_skip();
	cwnd = bed.app.conn->cwnd;
	after(50 * MS);
	out(.seq = 3001, .ack = 1, .len = 1000);
	in(.seq = 1, .ack = 4001, .sacks = 1, .sack = {{3001, 4001}}); /* it came twice */
	ck_assert_uint_ge(bed.app.conn->cwnd, cwnd);
	ck_assert_uint_gt(bed.app.conn->reo_mult, 1);
	ck_assert(!(bed.app.conn->flags & SL_TCPF_TLP_OUT)); /* the next tail may be probed */
}

/* One segment that is repeated for want of an answer; RACK knows the one before. */
static uint32_t repeat_one(uint32_t mss)
{
	uint32_t echo, before;

	app_sends(1, mss);
	out_skip();
	after(100 * MS);
	in(.seq = 1, .ack = 1 + mss);
	app_sends(1 + mss, mss);
	out_skip();
	echo = bed.last_ts;
	before = bed.app.conn->rack_xmit_us;
	after(600 * MS);
	ck_assert_uint_ge(out_skip(), 1);
	bed.last_ts = echo;
	return before;
}

/* RFC 8985 6.2 step 2: an acknowledgement of the original says nothing of when it was repeated. */
TEST(echo_of_the_original_is_no_news_for_rack)
{
	uint32_t before;

	open_full();
	before = repeat_one(1448);
	after(200 * MS);
	in(.seq = 1, .ack = 1 + 2 * 1448, .ts = true, .ts_ecr = bed.last_ts);
	ck_assert_uint_eq(bed.app.conn->rack_xmit_us, before);
}

TEST(too_early_for_the_repetition_is_no_news_for_rack)
{
	uint32_t before;

	open_sack();
	before = repeat_one(1000);
	after(1 * MS); /* the round trip takes 100 */
	in(.seq = 1, .ack = 2001);
	ck_assert_uint_eq(bed.app.conn->rack_xmit_us, before);
}

TEST(needless_timeout_is_taken_back)
{
	uint32_t cwnd, echo;

	open_full();
	app_sends(1, 1448);
	out_skip();
	after(10 * MS);
	in(.seq = 1, .ack = 1449);
	app_sends(1449, 2896);
	out_skip();
	cwnd = bed.app.conn->cwnd;
	echo = bed.last_ts;
	after(2 * SEC);
	ck_assert_uint_ge(out_skip(), 1);
	ck_assert_uint_ge(stats().rto_fired, 1);
	ck_assert_uint_lt(bed.app.conn->cwnd, cwnd);
	in(.seq = 1, .ack = 2897, .ts = true, .ts_ecr = echo); /* echo of the first transmission */
	ck_assert_uint_ge(bed.app.conn->cwnd, cwnd);
	ck_assert_int_eq(bed.app.conn->recovery, SL_RECOVERY_OPEN);
	ck_assert_uint_eq(bed.app.conn->lost_out, 0);
}

TEST(reneging_is_survived)
{
	open_sack();
	ten_in_flight();
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{1001, 3001}}); /* the head itself */
	after(3 * SEC);
	out(.seq = 1001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.app.conn->sacked_out, 0);
}

TEST(partly_acknowledged_segment)
{
	open_plain();
	warm_up();
	app_sends(1001, 1000);
	out_skip();
	in(.seq = 1, .ack = 1334);
	after(2 * SEC);
	out(.seq = 1334, .ack = 1, .len = 667);
	out_skip();
	in(.seq = 1, .ack = 2001);
	ck_assert_uint_eq(bed.app.conn->txq_cnt, 0);
}

TEST(the_initial_window_is_ten_segments)
{
	open_full();
	app_sends(1, 30000);
	ck_assert_uint_eq(out_skip(), 10); /* RFC 6928 */
}

static void lose_one(uint32_t cwnd)
{
	warm_up();
	bed.app.conn->cwnd = cwnd;
	app_sends(1001, cwnd);
	out_skip();
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{2001, 6001}});
	in(.seq = 1, .ack = 1001 + cwnd);
	out_skip();
	ck_assert_int_eq(bed.app.conn->recovery, SL_RECOVERY_OPEN);
}

TEST(cubic_reduces_and_grows)
{
	open_sack();
	lose_one(40000);
	ck_assert_uint_eq(bed.app.conn->cwnd, 28000); /* 0.7, RFC 9438 4.6 */
	ck_assert_float_eq_tol(bed.app.conn->w_max, 40.0f, 0.01f);
	bed.app.conn->srtt_us = 500000;
	uint32_t seq = 41001;

	for (int round = 0; round < 7; round++) { /* K = cbrt(12 / 0.4) = 3.1 s */
		uint32_t cwnd = bed.app.conn->cwnd, sent;

		app_sends(seq, cwnd + 1000);
		out_skip();
		after(500 * MS);
		sent = bed.app.conn->snd_nxt - bed.our_isn;
		for (uint32_t n = 10; n > 0; n--)
			in(.seq = 1, .ack = sent - (n - 1) * 1000);
		out_skip();
		in(.seq = 1, .ack = bed.app.conn->snd_nxt - bed.our_isn);
		seq += cwnd + 1000;
		if (round == 2) /* flat already, and Reno would be at 30 */
			ck_assert_uint_ge(bed.app.conn->cwnd, 34000);
	}
	ck_assert_uint_ge(bed.app.conn->cwnd, 38000);
	ck_assert_uint_le(bed.app.conn->cwnd, 42500);
}

TEST(slow_start_doubles)
{
	open_sack();
	ck_assert_uint_eq(bed.app.conn->cwnd, 10000);
	app_sends(1, 30000);
	ck_assert_uint_eq(out_skip(), 10);
	after(20 * MS);
	in(.seq = 1, .ack = 10001);
	ck_assert_uint_eq(bed.app.conn->cwnd, 20000);
	ck_assert_uint_eq(out_skip(), 20);
}

TEST(unused_window_does_not_grow)
{
	open_sack();
	for (uint32_t i = 0; i < 50; i++) {
		app_sends(1 + i * 1000, 1000);
		out_skip();
		in(.seq = 1, .ack = 1001 + i * 1000);
	}
	ck_assert_uint_le(bed.app.conn->cwnd, 10000);
}

TEST(idle_shrinks_the_window)
{
	open_sack();
	warm_up();
	after(10 * SEC);
	app_sends(1001, 50000);
	ck_assert_uint_eq(out_skip(), 10); /* RFC 5681 4.1 */
}

TEST(rate_is_proportional_in_recovery)
{
	unsigned cnt = 0;

	open_sack();
	warm_up();
	bed.app.conn->cwnd = 20000;
	app_sends(1001, 60000);
	ck_assert_uint_eq(out_skip(), 20);
	after(100 * MS);
	for (uint32_t i = 1; i < 20; i++) { /* the first is lost */
		in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{2001, 2001 + i * 1000}});
		cnt += out_skip();
	}
	/*
	 * 0.7 of what arrives goes out: RFC 6937; the early ones open no window (limited transmit)
	 */
	ck_assert_uint_eq(cnt, 14);
	ck_assert_uint_eq(bed.app.conn->ssthresh, 14000);
}

/* As a router says it of a segment with 1000 bytes at seq: RFC 1191 4 quotes 8 bytes behind the IP
 * header, RFC 4443 3.2 as much as fits 1280. */
static void icmp_too_big_quoting(uint16_t mtu, uint32_t seq, size_t quoted_len, bool rewritten)
{
	bool v4 = bed.family == 4;
	static uint8_t text[1400];
	uint8_t body[4 + 1280];
	struct pkt quote, p;
	struct pkt_spec q = {.family = bed.family,
			     .protocol = PKT_TCP,
			     .from_us = true,
			     .seq = bed.our_isn + seq,
			     .payload = text,
			     .payload_len = v4 ? 1000 : 1400};
	struct pkt_spec spec = {.family = bed.family,
				.protocol = v4 ? PKT_ICMP : PKT_ICMP6,
				.type = v4 ? 3 : 2,
				.code = v4 ? 4 : 0,
				.payload = body,
				.payload_len = 4 + quoted_len};

	pkt_build(&quote, &q);
	if (rewritten) { /* the quoted header as long as the quote */
		quote.len = quote.l3 + quoted_len;
		pkt_fix_ip(&quote);
	}
	sl_put_be32(body, mtu); /* IPv4: the upper half is unused */
	memcpy(body + 4, quote.b + quote.l3, quoted_len);
	pkt_build(&p, &spec);
	ck_assert(sl_fake_inject(&bed.port, p.b, p.len, 0));
	bed_burst();
}

static void icmp_too_big(uint16_t mtu, uint32_t seq)
{
	icmp_too_big_quoting(mtu, seq, bed.family == 4 ? 20 + 8 : 1280 - 40 - 8, false);
}

TEST(too_big_lowers_the_mss)
{
	open_plain();
	warm_up();
	app_sends(1001, 3000);
	ck_assert_uint_eq(out_skip(), 3);
	icmp_too_big(800, 50000); /* quotes what was never sent: RFC 5927 */
	ck_assert_uint_eq(drops(SL_DROP_ICMP_IGNORED), 1);
	ck_assert_uint_eq(bed.app.conn->mss, 1000);
	icmp_too_big(800, 1001);
	ck_assert_uint_eq(bed.app.conn->mss, 760);
	for (uint32_t i = 0; i < 3; i++) { /* cut and sent again, in order */
		out(.seq = 1001 + i * 1000, .ack = 1, .len = 760);
		out(.seq = 1761 + i * 1000, .ack = 1, .len = 240);
	}
	icmp_too_big(1400, 1001); /* no way up */
	ck_assert_uint_eq(drops(SL_DROP_ICMP_IGNORED), 2);
	icmp_too_big(68, 1001); /* nor to nothing */
	ck_assert_uint_eq(bed.app.conn->mss, 552 - 40);
	in(.seq = 1, .ack = 4001);
	ck_assert_uint_eq(bed.app.conn->txq_cnt, 0);
}

TEST(lowered_mtu_of_the_port_cuts_segments)
{
	open_plain();
	warm_up();
	app_sends(1001, 3000);
	ck_assert_uint_eq(out_skip(), 3);
	bed.port.port.mtu = bed.port.port.rx_mtu = 800;
	sl_tcp_mtu_lowered(bed.tcp);
	bed_collect();
	ck_assert_uint_eq(bed.app.conn->mss, 760);
	for (uint32_t i = 0; i < 3; i++) {
		out(.seq = 1001 + i * 1000, .ack = 1, .len = 760);
		out(.seq = 1761 + i * 1000, .ack = 1, .len = 240);
	}
	bed.port.port.mtu = bed.port.port.rx_mtu = 400; /* below what an ICMP error can do */
	sl_tcp_mtu_lowered(bed.tcp);
	ck_assert_uint_eq(bed.app.conn->mss, 360);
	bed_collect();
	out_skip();
	in(.seq = 1, .ack = 4001);
	ck_assert_uint_eq(bed.app.conn->txq_cnt, 0);
}

/* RFC 8201: the segments in flight too, cut and sent again. */
TEST(too_big_lowers_the_mss_over_ipv6)
{
	struct sl_tcp_conn *c;

	reconfigure(bed.family = 6);
	open_full();
	c = bed.app.conn;
	ck_assert_uint_eq(c->mss, 1428);
	app_sends(1, 2856);
	ck_assert_uint_eq(out_skip(), 2);
	icmp_too_big(1300, 1429);
	ck_assert_uint_eq(c->mss, 1300 - 60 - 12);
	for (uint32_t i = 0; i < 2; i++) {
		out(.seq = 1 + i * 1428, .ack = 1, .len = 1228);
		out(.seq = 1229 + i * 1428, .ack = 1, .len = 200);
	}
	icmp_too_big(1279, 1); /* no IPv6 link has so little: RFC 8200 5 */
	ck_assert_uint_eq(c->mss, 1228);
	icmp_too_big(1280, 1);
	ck_assert_uint_eq(c->mss, 1208);
	out_skip();
	in(.seq = 1, .ack = 2857);
	app_sends(2857, 2416);
	out(.seq = 2857, .ack = 1, .len = 1208);
	out(.seq = 4065, .ack = 1, .len = 1208);
}

/* Some write the length of the quote into the header that they quote; we know what we sent. */
TEST_EACH(too_big_counts_whatever_length_it_quotes, 2)
{
	reconfigure(bed.family = _i ? 6 : 4);
	open_full();
	app_sends(1, 2800);
	ck_assert_uint_eq(out_skip(), 2);
	icmp_too_big_quoting(1300, 1, _i ? 40 + 8 : 20 + 8, true);
	ck_assert_uint_eq(bed.app.conn->mss, 1300 - (_i ? 60 : 40) - 12);
	ck_assert_uint_eq(out_skip(), 4);
}

/* Takes what was injected with `hold`, without a completion of what was sent. */
static void take_held(void)
{
	struct sl_frame *frames[4];
	unsigned cnt = bed.port.port.ops->rx_burst(&bed.port.port, frames, 4, bed.net.now_ns);

	sl_net_input(&bed.net, frames, cnt, bed.net.now_ns);
	sl_tcp_output(bed.tcp);
	sl_net_flush(&bed.net);
}

/*
 * A duplicate acknowledgement ends the wait for reordering while the lost frame is still in the ring:
 * nothing is sent, and the connection must not fall silent.
 */
TEST(a_loss_that_cannot_be_sent_yet_has_a_timer)
{
	struct sl_tcp_conn *c;

	open_sack();
	c = bed.app.conn;
	ck_assert_uint_eq(app_send(1, 10000), 10000);
	sl_tcp_output(bed.tcp);
	sl_net_flush(&bed.net);
	c->flags |= SL_TCPF_REORDER;
	c->min_rtt_us = c->srtt_us = 100000;
	sl_net_set_now(&bed.net, bed.net.now_ns + 100 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{4001, 9001}}, .hold = true);
	take_held();
	ck_assert_int_eq(c->rtx_kind, SL_RTX_REORDER);
	sl_net_set_now(&bed.net, bed.net.now_ns + 50 * MS);
	in(.seq = 1, .ack = 1001, .sacks = 1, .sack = {{4001, 9001}}, .hold = true);
	take_held();
	ck_assert_uint_gt(c->lost_out, 0);
	ck_assert_uint_eq(stats().retransmits, 0);
	ck_assert_int_ne(c->rtx_kind, SL_RTX_NONE);
	sl_fake_complete(&bed.port, UINT32_MAX);
	after(2 * SEC);
	ck_assert_uint_gt(stats().retransmits, 0);
	out_skip();
}

/* A segment is sent, and stays in the ring. */
static struct sl_frame *send_into_stuck_ring(void)
{
	ck_assert_uint_eq(app_send(1, 100), 100);
	sl_tcp_output(bed.tcp);
	sl_net_flush(&bed.net); /* but not completed */
	return sl_fake_sent(&bed.port, sl_fake_sent_cnt(&bed.port) - 1);
}

static void wait_for_timer(uint64_t ns)
{
	sl_net_set_now(&bed.net, bed.net.now_ns + ns);
	sl_tcp_timer(bed.tcp);
	sl_tcp_output(bed.tcp);
	sl_net_flush(&bed.net);
}

TEST(frames_in_the_ring_are_not_touched)
{
	struct sl_frame *f;

	open_plain();
	f = send_into_stuck_ring();
	wait_for_timer(100 * MS);
	ck_assert_uint_eq(sl_fake_sent_cnt(&bed.port), 1);
	ck_assert_int_eq(f->state, SL_FRAME_TX);
	in(.seq = 1, .ack = 101, .hold = true);
	take_held();
	ck_assert_int_eq(f->state, SL_FRAME_TX); /* acknowledged while the kernel still reads it */
	ck_assert_uint_eq(f->retain, 0);
	sl_fake_complete(&bed.port, 1);
	ck_assert_int_eq(f->state, SL_FRAME_FREE);
}

static void check_queue(const struct sl_tcp_conn *c)
{
	uint32_t cnt = 0, seq = c->snd_una;
	const struct sl_frame *last = NULL;

	for (const struct sl_frame *f = frame_of(c->tcp, c->txq_head); f; f = f->next) {
		ck_assert_uint_eq(f->seq, seq);
		seq += f->payload_len;
		cnt++;
		last = f;
	}
	ck_assert_uint_eq(seq, c->snd_end);
	ck_assert_uint_eq(cnt, c->txq_cnt);
	ck_assert_ptr_eq(last, frame_of(c->tcp, c->txq_tail));
}

/* The ring of a link that is down keeps its frames. */
TEST(a_frame_that_its_ring_keeps_is_repeated_as_a_copy)
{
	struct sl_frame *f, *copy;
	uint8_t before[1514];

	open_plain();
	f = send_into_stuck_ring();
	memcpy(before, f->data, f->len);
	wait_for_timer(SEC);
	ck_assert_uint_eq(sl_fake_sent_cnt(&bed.port), 2);
	copy = sl_fake_sent(&bed.port, 1);
	ck_assert_uint_eq(copy->len, f->len);
	ck_assert_mem_eq(f->data, before, f->len);
	ck_assert_mem_eq(copy->data + copy->len - 100, f->data + f->len - 100, 100);
	ck_assert_uint_eq(stats().retransmits, 1);
	check_queue(bed.app.conn);
	in(.seq = 1, .ack = 101, .hold = true);
	take_held();
	sl_fake_complete(&bed.port, 2);
	ck_assert_int_eq(f->state, SL_FRAME_FREE);
	ck_assert_int_eq(copy->state, SL_FRAME_FREE);
}

TEST(copies_keep_the_order_of_the_queue)
{
	struct sl_tcp_conn *c;

	open_plain();
	c = bed.app.conn;
	ck_assert_uint_eq(app_send(1, 3000), 3000);
	sl_tcp_output(bed.tcp);
	sl_net_flush(&bed.net);
	ck_assert_uint_eq(sl_fake_sent_cnt(&bed.port), 3);
	in(.seq = 1, .ack = 1001, .hold = true);
	take_held();
	sl_tcp_lower_mss(c, 700);
	for (int i = 0; i < 3; i++) {
		wait_for_timer(2 * SEC);
		check_queue(c);
	}
	sl_fake_complete(&bed.port, UINT32_MAX);
	for (uint32_t ack = 1301; ack <= 3001; ack += 100) {
		in(.seq = 1, .ack = ack, .hold = true);
		take_held();
		wait_for_timer(2 * SEC);
		check_queue(c);
	}
	ck_assert_uint_eq(c->txq_cnt, 0);
}
