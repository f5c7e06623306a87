/* SPDX-License-Identifier: Apache-2.0 */
/* Endings: orderly, abortive, timed out; and attempts of others to end or disturb a connection. */
#include "tcp_bed.h"
#include "suite.h"

FIXTURE(setup, bed_end)

TEST(peer_closes_first)
{
	open_plain();
	in(.flags = F | A, .seq = 1, .ack = 1, .len = 10);
	out(.seq = 1, .ack = 12);
	ck_assert_uint_eq(bed.app.got, 10);
	ck_assert_uint_eq(bed.app.fins, 1);
	app_sends(1, 100); /* half-closed: our half is open */
	out(.seq = 1, .ack = 12, .len = 100);
	in(.seq = 12, .ack = 101);
	sl_tcp_close(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 101, .ack = 12);
	ck_assert_uint_eq(bed.app.closed, 0);
	in(.seq = 12, .ack = 102);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_CLOSED);
	ck_assert_uint_eq(stats().conns, 0);
	ck_assert_uint_eq(stats().closed, 1);
	ck_assert_uint_eq(stats().time_wait, 0);
}

/* The wait for the peer's FIN lasts a minute from our close, not from the peer's last segment. */
TEST(the_wait_for_their_fin_begins_when_we_close)
{
	open_plain();
	sl_tcp_shutdown(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 1);
	in(.seq = 1, .ack = 2);
	ck_assert_int_eq(bed.app.conn->state, SL_TCPS_FIN_WAIT_2);
	after(40 * SL_NS_PER_SEC);
	sl_tcp_close(bed.app.conn);
	after(40 * SL_NS_PER_SEC);
	ck_assert_uint_eq(stats().conns, 1);
	after(25 * SL_NS_PER_SEC);
	ck_assert_uint_eq(stats().conns, 0);
}

TEST(we_shut_down_first)
{
	open_plain();
	app_send(1, 100);
	sl_tcp_shutdown(bed.app.conn);
	ck_assert_uint_eq(app_send(101, 1), 0);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 102);
	ck_assert_int_eq(bed.app.conn->state, SL_TCPS_FIN_WAIT_2);
	in(.seq = 1, .ack = 102, .len = 50); /* their half is open */
	ck_assert_uint_eq(bed.app.got, 50);
	in(.flags = F | A, .seq = 51, .ack = 102);
	ck_assert_uint_eq(bed.app.fins, 1);
	ck_assert_uint_eq(bed.app.closed, 1);
	out(.seq = 102, .ack = 52);
	ck_assert_uint_eq(stats().time_wait, 1);
	ck_assert_uint_eq(stats().conns, 0);
}

TEST(both_sides_may_close_at_once)
{
	open_plain();
	sl_tcp_shutdown(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 1);
	in(.flags = F | A, .seq = 1, .ack = 1);
	ck_assert_int_eq(bed.app.conn->state, SL_TCPS_CLOSING);
	out(.seq = 2, .ack = 2);
	in(.seq = 2, .ack = 2);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_uint_eq(stats().time_wait, 1);
}

TEST(fin_with_the_ack_of_ours)
{
	open_plain();
	sl_tcp_close(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 1);
	in(.flags = F | A, .seq = 1, .ack = 2);
	out(.seq = 2, .ack = 2);
	ck_assert_uint_eq(bed.app.fins, 0); /* closed: no application is left */
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_uint_eq(stats().time_wait, 1);
}

TEST(close_throws_bytes_away)
{
	open_plain();
	bed.app.appetite = 0;
	in(.seq = 1, .ack = 1, .len = 100);
	sl_tcp_close(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 101);
	in(.seq = 101, .ack = 2, .len = 100);
	after(50 * MS);
	out(.seq = 2, .ack = 201);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CLOSED), 1);
	in(.flags = F | A, .seq = 201, .ack = 2);
	ck_assert_uint_eq(bed.app.closed, 1);
}

/* Up to a limit: so many may be on their way before their sender has read what it was told last. */
TEST(bytes_discarded_after_a_close_have_a_limit)
{
	reconfigure(bed.cfg.discard_max = 2500);
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1000);
	sl_tcp_close(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 1001);
	in(.seq = 1001, .ack = 2, .len = 1000);
	in(.seq = 2001, .ack = 2, .len = 1000);
	ck_assert_uint_eq(bed.app.closed, 0);
	out(.seq = 2, .ack = 3001);
	in(.seq = 3001, .ack = 2, .len = 500);
	ck_assert_uint_eq(bed.app.closed, 0);
	in(.seq = 3501, .ack = 2, .len = 1);
	out(.flags = R | A, .seq = 2, .ack = 3502);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_uint_eq(stats().linger_aborts, 1);
	ck_assert_uint_eq(stats().conns, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CLOSED), 4);
}

/* Bytes behind a hole count when it is filled; the last of them ends the connection. */
TEST(a_filled_hole_may_reach_that_limit)
{
	reconfigure(bed.cfg.discard_max = 2500);
	open_plain();
	sl_tcp_close(bed.app.conn);
	bed_collect();
	in(.seq = 1001, .ack = 2, .len = 1000);
	in(.seq = 2001, .ack = 2, .len = 1000);
	in(.flags = F | A, .seq = 3001, .ack = 2, .len = 10);
	ck_assert_uint_eq(bed.app.closed, 0);
	in(.seq = 1, .ack = 2, .len = 1000);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_uint_eq(stats().linger_aborts, 1);
	ck_assert_uint_eq(stats().conns, 0);
}

TEST(unread_bytes_outlive_the_fins)
{
	open_plain();
	bed.app.appetite = 0;
	sl_tcp_shutdown(bed.app.conn);
	bed_collect();
	in(.flags = F | A, .seq = 1, .ack = 2, .len = 100);
	ck_assert_uint_eq(bed.app.fins, 0);
	ck_assert_uint_eq(bed.app.closed, 0);
	bed.app.appetite = SIZE_MAX;
	sl_tcp_resume(bed.app.conn);
	ck_assert_uint_eq(bed.app.got, 100);
	ck_assert_uint_eq(bed.app.fins, 1);
	ck_assert_uint_eq(bed.app.closed, 1);
}

TEST(close_from_within_fin)
{
	open_plain();
	bed.app.close_on_fin = true;
	in(.flags = F | A, .seq = 1, .ack = 1);
	out(.flags = F | A, .seq = 1, .ack = 2);
	in(.seq = 2, .ack = 2);
	ck_assert_uint_eq(bed.app.closed, 1);
}

TEST(fin_behind_a_hole_waits)
{
	open_plain();
	in(.flags = F | A, .seq = 101, .ack = 1, .len = 10);
	ck_assert_uint_eq(bed.app.fins, 0);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 110);
	ck_assert_uint_eq(bed.app.fins, 1);
	out_skip();
	in(.flags = F | A, .seq = 111, .ack = 1);
	out(.seq = 1, .ack = 112);
}

TEST(fin_in_a_coalesced_frame)
{
	open_plain();
	in(.seq = 101, .ack = 1, .len = 10);
	in(.flags = F | A, .seq = 111, .ack = 1, .len = 10);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 120);
	ck_assert_uint_eq(bed.app.fins, 1);
}

TEST(fin_alone_before_its_data)
{
	open_sack();
	in(.flags = F | A, .seq = 101, .ack = 1);
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{101, 102}});
	ck_assert_uint_eq(bed.app.fins, 0);
	in(.flags = F | A, .seq = 101, .ack = 1); /* again */
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{101, 102}});
	in(.seq = 51, .ack = 1, .len = 50);
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{51, 102}});
	in(.seq = 1, .ack = 1, .len = 50);
	out(.seq = 1, .ack = 102);
	ck_assert_uint_eq(bed.app.got, 100);
	ck_assert_uint_eq(bed.app.fins, 1);
	ck_assert_int_eq(bed.app.conn->state, SL_TCPS_CLOSE_WAIT);
}

TEST(fin_alone_behind_kept_bytes)
{
	open_sack();
	in(.seq = 51, .ack = 1, .len = 50);
	out_skip();
	in(.flags = F | A, .seq = 101, .ack = 1);
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{51, 102}});
	ck_assert_uint_eq(bed.tcp->ooo_total, 1);
	in(.seq = 1, .ack = 1, .len = 50);
	out(.seq = 1, .ack = 102);
	ck_assert_uint_eq(bed.app.fins, 1);
}

/* Sent again in other pieces: neither forgets what the other has told. */
TEST(fin_survives_another_segmentation)
{
	open_plain();
	in(.flags = F | A, .seq = 101, .ack = 1, .len = 20);
	in(.seq = 81, .ack = 1, .len = 40); /* covers the bytes, without the FIN */
	in(.seq = 1, .ack = 1, .len = 80);
	out_skip();
	ck_assert_uint_eq(bed.app.got, 120);
	ck_assert_uint_eq(bed.app.fins, 1);
}

TEST(fin_that_comes_with_known_bytes)
{
	open_plain();
	in(.seq = 101, .ack = 1, .len = 20);
	in(.flags = F | A, .seq = 111, .ack = 1, .len = 10);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 120);
	ck_assert_uint_eq(bed.app.fins, 1);
}

/* A guessed number within the window cannot end the connection: later bytes refute it. */
TEST(bytes_refute_a_fin_alone)
{
	open_plain();
	in(.flags = F | A, .seq = 101, .ack = 1);
	in(.seq = 101, .ack = 1, .len = 50); /* where it was said to be */
	in(.flags = F | A, .seq = 201, .ack = 1);
	in(.seq = 151, .ack = 1, .len = 100); /* over it */
	in(.flags = F | A, .seq = 50, .ack = 1);
	in(.seq = 1, .ack = 1, .len = 100); /* in order, over it */
	in(.seq = 251, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 350);
	ck_assert_uint_eq(bed.app.fins, 0);
	ck_assert_uint_eq(bed.tcp->ooo_total, 0);
}

/* The FIN was cut off with the bytes that are known; it must not come back by coalescing. */
TEST(fin_that_was_cut_off_is_not_kept)
{
	open_plain();
	in(.seq = 151, .ack = 1, .len = 100);
	in(.seq = 101, .ack = 1, .len = 10);
	in(.flags = F | A, .seq = 111, .ack = 1, .len = 90); /* up to 200: joins the one before */
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 250);
	ck_assert_uint_eq(bed.app.fins, 0);
	ck_assert_uint_eq(bed.app.conn->rcv_nxt, bed.peer_isn + 251);
}

TEST(bytes_refute_a_fin_that_came_with_others)
{
	open_plain();
	in(.flags = F | A, .seq = 101, .ack = 1, .len = 20);
	in(.seq = 121, .ack = 1, .len = 20);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 140);
	ck_assert_uint_eq(bed.app.fins, 0);
}

TEST(fin_before_later_bytes_is_ignored)
{
	open_plain();
	in(.seq = 151, .ack = 1, .len = 100);
	in(.flags = F | A, .seq = 101, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 250);
	ck_assert_uint_eq(bed.app.fins, 0);
}

/* Bytes kept behind a hole are dropped if they turn out to lie behind the FIN. */
TEST(kept_bytes_behind_a_fin_are_dropped)
{
	open_plain();
	in(.seq = 2, .ack = 1, .len = 10);
	in(.flags = F | A, .seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.fins, 1);
	ck_assert_uint_eq(bed.app.got, 0);
	ck_assert_uint_eq(bed.tcp->ooo_total, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CLOSED), 1);
}

TEST(no_byte_is_delivered_after_a_kept_fin)
{
	open_plain();
	in(.flags = F | A, .seq = 101, .ack = 1, .len = 10);
	in(.seq = 112, .ack = 1, .len = 10);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.fins, 1);
	ck_assert_uint_eq(bed.app.got, 110);
	ck_assert_uint_eq(bed.app.conn->rcv_nxt, bed.peer_isn + 112);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CLOSED), 1);
}

/* Cutting a segment at the window's edge also cuts off its FIN. */
TEST(fin_beyond_the_window_is_not_kept)
{
	reconfigure(bed.cfg.rcv_buf = 2000);
	open_plain();
	in(.flags = F | A, .seq = 1501, .ack = 1, .len = 1000);
	ck_assert_uint_eq(drops(SL_DROP_TCP_WINDOW), 1);
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 1001, .ack = 1, .len = 500);
	ck_assert_uint_eq(bed.app.got, 2000);
	ck_assert_uint_eq(bed.app.fins, 0);
}

TEST(fin_behind_a_filled_window)
{
	reconfigure(bed.cfg.rcv_buf = 2000);
	open_plain();
	bed.app.appetite = 0;
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.flags = F | A, .seq = 1001, .ack = 1, .len = 1000);
	out(.seq = 1, .ack = 2002, .wnd = ANY);
}

TEST(bytes_after_their_fin)
{
	open_plain();
	in(.flags = F | A, .seq = 1, .ack = 1);
	out_skip();
	in(.seq = 2, .ack = 1, .len = 10);
	ck_assert_uint_eq(bed.app.got, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CLOSED), 1);
	out(.seq = 1, .ack = 2);
}

TEST(lost_fin_comes_again)
{
	open_plain();
	sl_tcp_close(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 1);
	after(1500 * MS);
	out(.flags = F | A, .seq = 1, .ack = 1);
	in(.flags = F | A, .seq = 1, .ack = 2);
	ck_assert_uint_eq(bed.app.closed, 1);
}

TEST(fin_wait_2_ends)
{
	open_plain();
	sl_tcp_close(bed.app.conn);
	bed_collect();
	in(.seq = 1, .ack = 2);
	after(59 * SEC);
	in(.seq = 1, .ack = 2, .len = 1); /* bytes do not prolong it */
	ck_assert_uint_eq(bed.app.closed, 0);
	after(2 * SEC);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_TIMEOUT);
}

static void into_time_wait(void)
{
	sl_tcp_close(bed.app.conn);
	bed_collect();
	in(.flags = F | A, .seq = 1, .ack = 2);
	ck_assert_uint_eq(stats().time_wait, 1);
	out_skip();
}

/* Half-closed, it lasts as long as the peer still has something to say. */
TEST(fin_wait_2_lasts_while_bytes_come)
{
	open_plain();
	sl_tcp_shutdown(bed.app.conn);
	bed_collect();
	for (uint32_t i = 0; i < 5; i++) {
		in(.seq = 1 + i, .ack = 2, .len = 1);
		after(40 * SEC);
	}
	ck_assert_uint_eq(bed.app.got, 5);
	ck_assert_uint_eq(bed.app.closed, 0);
	after(30 * SEC);
	ck_assert_uint_eq(bed.app.closed, 1);
}

TEST(time_wait_answers_and_ends)
{
	open_plain();
	into_time_wait();
	in(.seq = 2, .ack = 2);
	out_none();
	after(59 * SEC);
	in(.flags = F | A, .seq = 1, .ack = 2); /* our ACK was lost: wait again */
	out(.seq = 2, .ack = 2);
	in(.flags = R, .seq = 3); /* RFC 5961 3.2: not the next number */
	in(.flags = R, .seq = 1);
	ck_assert_uint_eq(drops(SL_DROP_TCP_RST), 2);
	after(59 * SEC);
	ck_assert_uint_eq(stats().time_wait, 1);
	after(2 * SEC);
	ck_assert_uint_eq(stats().time_wait, 0);
}

/*
 * RFC 9293 3.10.7.4: a client that opens the same port again answers our acknowledgement with this
 * RST, and its next SYN opens the connection.
 */
TEST(exact_rst_ends_time_wait)
{
	open_full();
	into_time_wait();
	in(.flags = S, .seq = (uint32_t)-500000,
	   .no_ts = true); /* neither number nor time is newer */
	out_skip();
	ck_assert_uint_eq(stats().time_wait, 1);
	in(.flags = R, .seq = 2, .no_ts = true);
	ck_assert_uint_eq(stats().time_wait, 0);
	bed.peer_isn -= 500000;
	bed.know_isn = false;
	in(.flags = S, .no_ts = true);
	out(.flags = S | A, .ack = 1);
}

TEST(time_wait_gives_way_to_a_newer_syn)
{
	uint32_t old_isn;

	open_plain();
	old_isn = bed.our_isn;
	into_time_wait();
	in(.flags = S, .seq = 1); /* not newer */
	out(.seq = 2, .ack = 2);
	bed.know_isn = false;
	bed.peer_isn += 1000;
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	ck_assert_uint_gt(bed.our_isn - old_isn, 0xffff); /* above all that was used */
	ck_assert_uint_eq(stats().time_wait, 0);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 2);
}

TEST(time_wait_reuse_by_timestamp)
{
	open_full();
	into_time_wait();
	in(.flags = S, .seq = (uint32_t)-500000, .ts = true, .ts_val = bed.peer_ts - 1);
	ck_assert_uint_eq(stats().time_wait, 1);
	out_skip();
	bed.peer_isn -= 500000; /* a lower number, but a later time: RFC 6191 */
	bed.know_isn = false;
	in(.flags = S, .ts = true, .ts_val = bed.peer_ts + 1);
	out(.flags = S | A, .ack = 1);
	ck_assert_uint_eq(stats().time_wait, 0);
}

TEST(time_wait_pool_is_bounded)
{
	reconfigure(bed.cfg.max_conns = 3);
	bed.app.check_off = true;
	for (uint16_t i = 0; i < 10; i++) {
		bed.know_isn = false;
		in(.flags = S, .sport = (uint16_t)(100 + i));
		out(.flags = S | A, .ack = 1);
		in(.seq = 1, .ack = 1, .sport = (uint16_t)(100 + i));
		sl_tcp_close(bed.app.conn);
		bed_collect();
		in(.flags = F | A, .seq = 1, .ack = 2, .sport = (uint16_t)(100 + i));
		out_skip();
	}
	ck_assert_uint_eq(bed.app.closed, 10);
	ck_assert_uint_eq(stats().time_wait, 3);
	in(.flags = F | A, .seq = 1, .ack = 2, .sport = 109); /* the oldest went */
	out(.seq = 2, .ack = 2);
	in(.flags = F | A, .seq = 1, .ack = 2, .sport = 106);
	out(.flags = R, .seq = 2);
	after(61 * SEC);
	ck_assert_uint_eq(stats().time_wait, 0);
}

TEST(abort_sends_rst)
{
	open_plain();
	app_sends(1, 100);
	out_skip();
	sl_tcp_abort(bed.app.conn);
	bed_collect();
	out(.flags = R | A, .seq = 101, .ack = 1);
	ck_assert_uint_eq(bed.app.closed, 0);
	ck_assert_uint_eq(stats().conns, 0);
}

TEST(rst_must_be_exact)
{
	open_plain();
	in(.flags = R, .seq = 2); /* in the window: RFC 5961 3 */
	out(.seq = 1, .ack = 1);
	ck_assert_uint_eq(stats().challenge_acks, 1);
	in(.flags = R, .seq = 100000); /* beyond it */
	out_none();
	ck_assert_uint_eq(bed.app.closed, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_RST), 1);
	ck_assert_uint_eq(drops(SL_DROP_TCP_SEQUENCE), 1);
	in(.flags = R, .seq = 1);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_RESET);
	ck_assert_uint_eq(stats().resets_in, 1);
}

TEST(syn_in_a_connection_is_challenged)
{
	open_plain();
	in(.flags = S, .seq = 1);
	out(.seq = 1, .ack = 1);
	after(SEC);
	in(.flags = S, .seq = 70000);
	out(.seq = 1, .ack = 1);
	after(SEC);
	in(.flags = S | A, .seq = 5, .ack = 1);
	out(.seq = 1, .ack = 1);
	ck_assert_uint_eq(drops(SL_DROP_TCP_SYN_IN_CONN), 3);
	ck_assert_uint_eq(bed.app.closed, 0);
}

/* 600 in 3 s: one at once, and one in each half second. */
static void forged_syns_for_three_seconds(uint16_t sport)
{
	for (int i = 0; i < 600; i++) {
		in(.flags = S, .seq = 1, .sport = sport);
		after(5 * MS);
	}
}

TEST_EACH(challenges_are_limited, 2)
{
	reconfigure(bed.family = _i ? 6 : 4);
	open_plain();
	forged_syns_for_three_seconds(0);
	ck_assert_uint_eq(stats().challenge_acks, 6);
	ck_assert_uint_eq(out_skip(), 6);
	ck_assert_uint_eq(drops(SL_DROP_CHALLENGE_LIMIT), 594);
}

/* CVE-2016-5696: the count of one connection's challenge ACKs reveals nothing about another's. */
TEST(challenges_of_one_connection_take_none_from_others)
{
	for (uint16_t i = 0; i < 40; i++) {
		bed.know_isn = false;
		in(.flags = S, .mss = 1000, .sport = (uint16_t)(100 + i));
		out(.flags = S | A, .ack = 1);
		in(.seq = 1, .ack = 1, .sport = (uint16_t)(100 + i));
	}
	forged_syns_for_three_seconds(100);
	for (uint16_t i = 1; i < 40; i++)
		in(.flags = S, .seq = 1, .sport = (uint16_t)(100 + i));
	ck_assert_uint_eq(stats().challenge_acks, 6 + 39);
}

TEST(challenges_in_time_wait_are_limited)
{
	open_plain();
	into_time_wait();
	for (int i = 0; i < 600; i++) {
		in(.flags = S, .seq = 1); /* not newer */
		after(5 * MS);
	}
	ck_assert_uint_eq(out_skip(), 6);
	ck_assert_uint_eq(drops(SL_DROP_CHALLENGE_LIMIT), 594);
}

TEST(ack_of_unsent_bytes)
{
	open_plain();
	in(.seq = 1, .ack = 500, .len = 10);
	out(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.got, 0);
	after(SEC);
	in(.seq = 1, .ack = (uint32_t)-70000, .len = 10); /* too old: RFC 5961 5 */
	out(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.got, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_ACK), 2);
	in(.seq = 1, .ack = 0, .len = 10); /* old, within the largest window: bytes count */
	ck_assert_uint_eq(bed.app.got, 10);
}

TEST(an_old_timestamp_is_refused)
{
	bed.peer_ts = 0x90000000; /* from where 0 looks newer */
	open_full();
	in(.seq = 1, .ack = 1, .len = 10);
	in(.seq = 11, .ack = 1, .len = 10, .ts = true, .ts_val = bed.peer_ts - 1);
	ck_assert_uint_eq(drops(SL_DROP_TCP_PAWS), 1);
	out(.seq = 1, .ack = 11);
	ck_assert_uint_eq(bed.app.got, 10);
	in(.flags = R, .seq = 11, .no_ts = true);
	ck_assert_uint_eq(bed.app.closed, 1);
}

/* RFC 7323 3.2 lets them be dropped; Linux accepts them, as some peers and middleboxes send them. */
TEST(segments_without_the_agreed_timestamp_are_accepted)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 10, .no_ts = true);
	ck_assert_uint_eq(bed.app.got, 10);
	in(.flags = F | A, .seq = 11, .ack = 1, .no_ts = true);
	out(.seq = 1, .ack = 12);
	ck_assert_uint_eq(drops(SL_DROP_TCP_PAWS), 0);
}

/* Two ends that find each other's acknowledgements old must not answer each other for ever. */
TEST(old_acknowledgements_are_answered_within_limits)
{
	bed.peer_ts = 0x90000000;
	open_full();
	for (int i = 0; i < 1500; i++)
		in(.seq = 1, .ack = 1, .ts = true, .ts_val = bed.peer_ts - 1);
	ck_assert_uint_eq(drops(SL_DROP_TCP_PAWS), 1500);
	ck_assert_uint_eq(drops(SL_DROP_CHALLENGE_LIMIT), 1499);
	ck_assert_uint_eq(stats().challenge_acks, 1);
}

/* RFC 7323 4.3: what is echoed is the time of the segment that moved the acknowledgement. */
TEST(timestamp_behind_a_hole_is_not_echoed)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 10);
	out_skip();
	uint32_t echoed = bed.app.conn->ts_recent;

	in(.seq = 101, .ack = 1, .len = 10, .ts = true, .ts_val = bed.peer_ts + 500);
	ck_assert_uint_eq(bed.app.conn->ts_recent, echoed);
	in(.seq = 11, .ack = 1, .len = 90, .ts = true, .ts_val = bed.peer_ts + 400);
	ck_assert_uint_eq(bed.app.conn->ts_recent, bed.peer_ts + 400);
}

TEST(old_timestamp_after_24_days)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 10);
	after(25 * 86400 * SEC);
	in(.seq = 11, .ack = 1, .len = 10, .ts = true, .ts_val = 900);
	ck_assert_uint_eq(bed.app.got, 20);
}

TEST(timestamps_may_wrap)
{
	open_full();
	bed.peer_ts = 0x7fffff00;
	in(.seq = 1, .ack = 1, .len = 10);
	after(50 * MS); /* acknowledged bytes count: RFC 7323 4.3 */
	bed.peer_ts = 0xfffffe00;
	in(.seq = 11, .ack = 1, .len = 10);
	after(50 * MS);
	bed.peer_ts = 5;
	in(.seq = 21, .ack = 1, .len = 10);
	ck_assert_uint_eq(bed.app.got, 30);
}

TEST(keep_alive_closes_connections_of_dead_peers)
{
	reconfigure(bed.cfg.keepalive_ns = 600 * SEC);
	open_plain();
	after(599 * SEC);
	out_none();
	after(2 * SEC);
	out(.seq = 0, .ack = 1);
	in(.seq = 1, .ack = 1); /* alive */
	after(590 * SEC);
	out_none();
	after(20 * SEC);
	out(.seq = 0, .ack = 1);
	after(75 * 8 * SEC);
	ck_assert_uint_eq(out_skip(), 8);
	ck_assert_uint_eq(bed.app.closed, 0);
	after(80 * SEC);
	out(.flags = R | A, .seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_TIMEOUT);
}

TEST(their_keep_alive_is_answered)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 5);
	after(SEC);
	out_skip();
	in(.seq = 5, .ack = 1);
	out(.seq = 1, .ack = 6);
	in(.seq = 5, .ack = 1, .len = 1); /* FIN with the last byte, as some stacks send it */
	out(.seq = 1, .ack = 6);
	ck_assert_uint_eq(stats().challenge_acks, 0); /* they are not rationed */
}

TEST(user_timeout_ends_it)
{
	reconfigure(bed.cfg.user_timeout_ns = 10 * SEC);
	open_plain();
	app_sends(1, 100);
	after(9 * SEC);
	ck_assert_uint_eq(bed.app.closed, 0);
	after(10 * SEC);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_TIMEOUT);
	ck_assert_uint_eq(stats().timeouts, 1);
}

TEST(destroy_frees_open_connections)
{
	open_sack();
	bed.app.appetite = 0;
	app_sends(1, 50000);
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 2001, .ack = 1, .len = 1000);
	in(.flags = S, .sport = 5);
	/* bed_end() counts */
}

/*
 * The segment that acknowledges our FIN has bytes behind the peer's FIN: no connection takes them.
 */
TEST(bytes_behind_the_end_meet_no_connection)
{
	open_plain();
	in(.flags = F | A, .seq = 1, .ack = 1);
	out_skip();
	sl_tcp_shutdown(bed.app.conn);
	bed_collect();
	out(.flags = F | A, .seq = 1, .ack = 2);
	in(.seq = 2, .ack = 2, .len = 10);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_uint_eq(stats().conns, 0);
	out_none();
	bed.know_isn = false;
	bed.peer_isn += 1000;
	in(.flags = S, .mss = 1000);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1);
	ck_assert_uint_eq(bed.app.accepted, 2);
}
