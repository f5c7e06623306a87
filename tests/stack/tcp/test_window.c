/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of both sides: what we tell, what we obey, and what happens at zero. */
#include "tcp_bed.h"
#include "suite.h"

FIXTURE(setup, bed_end)

TEST(unread_bytes_close_the_window)
{
	reconfigure(bed.cfg.rcv_buf = 4000);
	open_plain();
	bed.app.appetite = 0;
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 1001, .ack = 1, .len = 1000);
	out(.seq = 1, .ack = 2001, .wnd = 2000);
	in(.seq = 2001, .ack = 1, .len = 1000);
	in(.seq = 3001, .ack = 1, .len = 1000);
	out(.seq = 1, .ack = 4001, .wnd = ANY);
	ck_assert_uint_eq(stats().zero_windows, 1);
	in(.seq = 4001, .ack = 1, .len = 1); /* a probe of theirs */
	out(.seq = 1, .ack = 4001, .wnd = ANY);
	ck_assert_uint_eq(drops(SL_DROP_TCP_WINDOW), 1);
	bed.app.appetite = 500; /* less than a segment: no silly window */
	sl_tcp_resume(bed.app.conn);
	bed_collect();
	out_none();
	in(.seq = 4001, .ack = 1, .len = 1); /* not even when asked */
	out(.seq = 1, .ack = 4001, .wnd = ANY);
	bed.app.appetite = SIZE_MAX;
	sl_tcp_resume(bed.app.conn);
	bed_collect();
	out(.seq = 1, .ack = 4001, .wnd = 4000);
	ck_assert_uint_eq(bed.app.got, 4000);
}

TEST(bytes_beyond_the_window_are_cut)
{
	reconfigure(bed.cfg.rcv_buf = 1500);
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1000, .hold = true);
	in(.flags = F | A, .seq = 1001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.app.got, 1500);
	ck_assert_uint_eq(bed.app.fins, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_WINDOW), 1);
	out(.seq = 1, .ack = 1501);
	in(.seq = 9000, .ack = 1, .len = 10);
	out(.seq = 1, .ack = 1501);
}

TEST(window_only_shrinks_when_frames_are_few)
{
	open_plain();
	bed.umem.low_water = BED_FRAMES + 1;
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 1001, .ack = 1, .len = 1000);
	out(.seq = 1, .ack = 2001, .wnd = SL_TCP_NARROW - 2000);
	ck_assert_uint_eq(bed.app.got, 2000);
}

TEST(peer_window_is_respected)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1, .wnd = 2500);
	app_sends(1, 5000);
	out(.seq = 1, .ack = 2, .len = 1000);
	out(.seq = 1001, .ack = 2, .len = 1000);
	out_none(); /* 500 bytes are no segment worth sending: RFC 9293 3.8.6.2.1 */
	in(.seq = 2, .ack = 2001, .wnd = 1000);
	out(.seq = 2001, .ack = 2, .len = 1000);
	in(.seq = 2, .ack = 3001, .wnd = 5000);
	out(.seq = 3001, .ack = 2, .len = 1000);
	out(.seq = 4001, .ack = 2, .len = 1000);
}

TEST(a_request_can_open_the_window)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1, .wnd = 1000);
	app_sends(1, 3000);
	out(.seq = 1, .ack = 2, .len = 1000);
	out_none();
	in(.seq = 2, .ack = 1, .len = 1, .wnd = 3000); /* acknowledges nothing */
	out(.seq = 1001, .ack = 3, .len = 1000);
	out(.seq = 2001, .ack = 3, .len = 1000);
}

/* Half of the largest window counts, wherever that was told. */
TEST(a_request_can_tell_the_largest_window)
{
	in(.flags = S, .mss = 1000, .wnd = 100);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1, .wnd = 100);
	in(.seq = 1, .ack = 1, .len = 1, .wnd = 4000);
	app_sends(1, 1000);
	out(.seq = 1, .ack = 2, .len = 1000);
	in(.seq = 2, .ack = 1001, .len = 1, .wnd = 300);
	app_sends(1001, 1000);
	out_none();
}

TEST(small_window_gets_half_of_it)
{
	in(.flags = S, .mss = 1000, .wnd = 600); /* never more than 600: half is a segment */
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1, .wnd = 600);
	app_sends(1, 1000);
	out(.seq = 1, .ack = 1, .len = 600);
	in(.seq = 1, .ack = 601, .wnd = 200);
	out_none();
	in(.seq = 1, .ack = 601, .wnd = 300);
	out(.seq = 601, .ack = 1, .len = 300);
}

TEST(zero_window_is_probed)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1, .wnd = ANY);
	after(100 * MS);
	out(.seq = 1, .ack = 2);
	app_sends(1, 100);
	out_none();
	after(1100 * MS);
	out(.seq = 0, .ack = 2); /* a number that they have acknowledged */
	in(.seq = 2, .ack = 1, .wnd = ANY);
	after(30 * SEC); /* the backoff */
	unsigned probes = out_skip();

	ck_assert_uint_ge(probes, 4);
	ck_assert_uint_le(probes, 8);
	for (int i = 0; i < 20; i++) { /* answered probes keep it alive beyond the user timeout */
		in(.seq = 2, .ack = 1, .wnd = ANY);
		after(60 * SEC);
		out_skip();
	}
	ck_assert_uint_eq(bed.app.closed, 0);
	in(.seq = 2, .ack = 1, .wnd = 1000);
	out(.seq = 1, .ack = 2, .len = 100);
	in(.seq = 2, .ack = 101);
	after(100 * SEC);
	out_none();
}

TEST(unanswered_probes_end_the_connection)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1, .wnd = ANY);
	app_sends(1, 100);
	after(300 * SEC);
	ck_assert_uint_eq(bed.app.closed, 1);
	ck_assert_int_eq(bed.app.why, SL_TCP_TIMEOUT);
}

TEST(old_segment_does_not_change_the_window)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 10, .wnd = 5000);
	in(.seq = 11, .ack = 1, .len = 10, .wnd = 4000);
	in(.seq = 5, .ack = 1, .wnd = 3000); /* sent before */
	ck_assert_uint_eq(bed.app.conn->snd_wnd, 4000);
}
