/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in and out: order, acknowledgements, segmentation, checksums. */
#include "bed.h"

START_TEST(bytes_in_order)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 1001, .ack = 1, .len = 1448);
	ck_assert_uint_eq(bed.app.got, 2448);
}
END_TEST

START_TEST(every_second_full_segment_is_acknowledged)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1000);
	out_none();
	in(.seq = 1001, .ack = 1, .len = 1000);
	out(.seq = 1, .ack = 2001);
	out_none();
}
END_TEST

START_TEST(lone_segment_is_acknowledged_in_time)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 10);
	after(39 * MS);
	out_none();
	after(2 * MS);
	out(.seq = 1, .ack = 11);
	after(SEC);
	out_none();
}
END_TEST

START_TEST(one_acknowledgement_per_burst)
{
	open_plain();
	for (uint32_t i = 0; i < 20; i++)
		in(.seq = 1 + i * 1000, .ack = 1, .len = 1000, .hold = i < 19);
	out(.seq = 1, .ack = 20001);
	out_none();
}
END_TEST

START_TEST(reply_carries_the_acknowledgement)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 10);
	app_sends(1, 20);
	out(.seq = 1, .ack = 11, .len = 20);
	after(100 * MS);
	out_none();
}
END_TEST

START_TEST(sends_of_a_burst_share_segments)
{
	open_plain();
	ck_assert_uint_eq(app_send(1, 300), 300);
	ck_assert_uint_eq(app_send(301, 301), 301); /* odd lengths: sums are joined */
	ck_assert_uint_eq(app_send(602, 500), 500);
	bed_collect();
	out(.seq = 1, .ack = 1, .len = 1000);
	out(.seq = 1001, .ack = 1, .len = 101);
	out_none();
}
END_TEST

START_TEST(head_goes_beyond_the_buffer)
{
	reconfigure(bed.cfg.snd_buf = 2000);
	open_plain();
	app_sends(1, 2000);
	ck_assert_uint_eq(sl_tcp_send_room(bed.app.conn), 0);
	ck_assert_uint_eq(app_send(2001, 1), 0);
	uint8_t head[500];

	for (uint32_t i = 0; i < 500; i++)
		head[i] = pattern(2001 + i);
	ck_assert(sl_tcp_send_head(bed.app.conn, head, 500));
	bed_collect();
	ck_assert_uint_eq(out_skip(), 2); /* the application has more to send: no small segment */
	in(.seq = 1, .ack = 2001);
	ck_assert_uint_eq(bed.app.writables, 1);
	out(.seq = 2001, .ack = 1, .len = 500);
	ck_assert_uint_eq(sl_tcp_send_room(bed.app.conn), 1500);
}
END_TEST

START_TEST(writable_when_there_is_room)
{
	reconfigure(bed.cfg.snd_buf = 3000);
	open_plain();
	ck_assert_uint_eq(app_send(1, 5000), 3000);
	bed_collect();
	ck_assert_uint_eq(out_skip(), 3);
	in(.seq = 1, .ack = 501);
	ck_assert_uint_eq(bed.app.writables, 0); /* not for a sixth */
	in(.seq = 1, .ack = 1001);
	ck_assert_uint_eq(bed.app.writables, 1);
	in(.seq = 1, .ack = 3001);
	ck_assert_uint_eq(bed.app.writables, 1);
}
END_TEST

START_TEST(sequence_numbers_wrap_both_ways)
{
	/* peer_isn is 16 below the wrap; ours is pushed over it by sending */
	open_plain();
	in(.seq = 1, .ack = 1, .len = 10);
	in(.seq = 11, .ack = 1, .len = 10);
	in(.seq = 31, .ack = 1, .len = 10); /* a hole over the wrap */
	in(.seq = 21, .ack = 1, .len = 10);
	ck_assert_uint_eq(bed.app.got, 40);
}
END_TEST

START_TEST(out_of_order_is_kept_and_told)
{
	open_sack();
	in(.seq = 101, .ack = 1, .len = 100);
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{101, 201}});
	in(.seq = 301, .ack = 1, .len = 100);
	out(.seq = 1, .ack = 1, .sacks = 2, .sack = {{301, 401}, {101, 201}});
	in(.seq = 501, .ack = 1, .len = 100);
	in(.seq = 701, .ack = 1, .len = 100);
	in(.seq = 901, .ack = 1, .len = 100);
	ck_assert_uint_eq(out_skip(), 3);
	in(.seq = 401, .ack = 1,
	   .len = 50); /* the most recent first, then those below, then above */
	out(.seq = 1, .ack = 1, .sacks = 4,
	    .sack = {{301, 451}, {101, 201}, {501, 601}, {701, 801}});
	in(.seq = 1, .ack = 1, .len = 100);
	out(.seq = 1, .ack = 201, .sacks = 4,
	    .sack = {{301, 451}, {501, 601}, {701, 801}, {901, 1001}});
	in(.seq = 201, .ack = 1, .len = 800);
	out(.seq = 1, .ack = 1001);
	ck_assert_uint_eq(bed.app.got, 1000);
	ck_assert_uint_eq(bed.tcp->ooo_total, 0);
}
END_TEST

START_TEST(timestamps_leave_room_for_three_blocks)
{
	struct got g;

	open_full();
	for (uint32_t i = 0; i < 5; i++) {
		out_skip();
		in(.seq = 101 + i * 200, .ack = 1, .len = 100);
	}
	ck_assert(next_out(&g));
	ck_assert_uint_eq(g.o.sack_cnt, 3);
	ck_assert(g.o.has_ts);
	ck_assert_uint_eq(g.o.sack[0].start - bed.peer_isn, 901);
}
END_TEST

/* Every way in which two segments can overlap; the first copy of a byte counts. */
START_TEST(overlaps)
{
	open_sack();
	in(.seq = 201, .ack = 1, .len = 100); /* 201..300 */
	out_skip();
	in(.seq = 201, .ack = 1, .len = 100, .alter = true); /* the same */
	out(.seq = 1, .ack = 1, .sacks = 2, .sack = {{201, 301}, {201, 301}});
	in(.seq = 221, .ack = 1, .len = 20, .alter = true); /* within */
	out(.seq = 1, .ack = 1, .sacks = 2, .sack = {{221, 241}, {201, 301}});
	ck_assert_uint_eq(drops(SL_DROP_TCP_DUPLICATE), 2);
	in(.seq = 151, .ack = 1, .len = 100); /* over its front */
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{151, 301}});
	in(.seq = 251, .ack = 1, .len = 100); /* over its end */
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{151, 351}});
	in(.seq = 401, .ack = 1, .len = 10);
	in(.seq = 421, .ack = 1, .len = 10);
	in(.seq = 381, .ack = 1, .len = 70); /* over both of them */
	out_skip();
	ck_assert_uint_eq(bed.app.got, 0);
	in(.seq = 1, .ack = 1, .len = 500); /* over all, in order */
	ck_assert_uint_eq(bed.app.got, 500);
	ck_assert_uint_eq(bed.tcp->ooo_total, 0);
}
END_TEST

START_TEST(in_order_segment_that_covers_part_of_the_queue)
{
	open_sack();
	in(.seq = 51, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 150);
	in(.seq = 101, .ack = 1, .len = 100); /* half of it is old */
	ck_assert_uint_eq(bed.app.got, 200);
}
END_TEST

START_TEST(out_of_order_queue_is_bounded)
{
	uint32_t free_before;

	reconfigure(bed.cfg.max_ooo_frames = 10);
	open_sack();
	free_before = frames_free();
	for (uint32_t i = 0; i < 30; i++)
		in(.seq = 1001 + i * 2000, .ack = 1, .len = 1000);
	ck_assert_uint_eq(free_before - frames_free(), 10);
	ck_assert_uint_eq(drops(SL_DROP_TCP_OOO_LIMIT), 20);
}
END_TEST

START_TEST(out_of_order_total_is_bounded)
{
	reconfigure(bed.cfg.max_ooo_frames_total = 3);
	open_sack();
	for (uint32_t i = 0; i < 5; i++)
		in(.seq = 1001 + i * 2000, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.tcp->ooo_total, 3);
	in(.flags = R, .seq = 1);
	ck_assert_uint_eq(bed.tcp->ooo_total, 0);
}
END_TEST

START_TEST(out_of_order_bytes_share_frames)
{
	uint32_t free_before;

	open_sack();
	free_before = frames_free();
	for (uint32_t i = 0; i < 500; i++)
		in(.seq = 101 + i, .ack = 1, .len = 1);
	ck_assert_uint_eq(free_before - frames_free(), 1);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 600);
}
END_TEST

START_TEST(duplicates_are_acknowledged_and_reported)
{
	open_sack();
	in(.seq = 1, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 1, .len = 100);
	out(.seq = 1, .ack = 101, .sacks = 1, .sack = {{1, 101}}); /* RFC 2883 */
	ck_assert_uint_eq(drops(SL_DROP_TCP_DUPLICATE), 1);
	ck_assert_uint_eq(bed.app.got, 100);
}
END_TEST

START_TEST(small_unread_segments_share_frames)
{
	uint32_t free_before;

	open_plain();
	free_before = frames_free();
	bed.app.appetite = 0;
	for (uint32_t i = 0; i < 1000; i++)
		in(.seq = 1 + i, .ack = 1, .len = 1);
	ck_assert_uint_eq(free_before - frames_free(), 1);
	bed.app.appetite = 300;
	sl_tcp_resume(bed.app.conn);
	ck_assert_uint_eq(bed.app.got, 300);
	in(.seq = 1001, .ack = 1, .len = 1);
	bed.app.appetite = SIZE_MAX;
	sl_tcp_resume(bed.app.conn);
	ck_assert_uint_eq(bed.app.got, 1001);
	ck_assert_uint_eq(frames_free(), free_before);
}
END_TEST

START_TEST(application_takes_frames)
{
	open_plain();
	bed.app.take_frames = true;
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 2001, .ack = 1, .len = 1000);
	in(.seq = 1001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.app.got, 3000);
}
END_TEST

START_TEST(application_aborts_within_data)
{
	open_plain();
	bed.app.abort_on_data = true;
	in(.seq = 101, .ack = 1, .len = 100);
	out_skip();
	in(.seq = 1, .ack = 1, .len = 100);
	out(.flags = R | A, .seq = 1, .ack = 101);
	ck_assert_uint_eq(bed.app.got, 100);
	ck_assert_uint_eq(bed.app.closed, 0);
	ck_assert_uint_eq(stats().conns, 0);
}
END_TEST

START_TEST(application_closes_within_data)
{
	open_plain();
	bed.app.close_on_data = true;
	bed.app.appetite = 50;
	in(.seq = 101, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 50);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CLOSED), 1);
}
END_TEST

START_TEST(segmentation_respects_the_mss)
{
	struct got g;

	open_full();
	app_sends(1, 5000);
	for (uint32_t i = 0; i < 3; i++) {
		ck_assert(next_out(&g));
		ck_assert_uint_eq(g.s.len, 1448);
		ck_assert(g.o.has_ts);
		ck_assert_uint_eq(g.o.ts_ecr, 1000);
		ck_assert_uint_eq(g.l4 + 32 + g.s.len, 1514);
	}
	out(.seq = 4345, .ack = 1, .len = 656);
}
END_TEST

START_TEST(wrong_checksum)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 10, .bad_csum = true);
	in(.seq = 1, .ack = 1, .len = 10, .partial_csum = true);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CHECKSUM), 2);
	bed.port.port.partial_csum = true; /* veth */
	in(.seq = 1, .ack = 1, .len = 10, .bad_csum = true);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CHECKSUM), 3);
	in(.seq = 1, .ack = 1, .len = 10, .partial_csum = true);
	ck_assert_uint_eq(bed.app.got, 10);
}
END_TEST

START_TEST(malformed_header)
{
	struct pkt p;

	build(&p, &(struct seg){.flags = S});
	p.b[p.l4 + 12] = 4 << 4; /* shorter than a header */
	pkt_fix_l4(&p);
	ck_assert(sl_fake_inject(&bed.port, p.b, p.len, 0));
	p.b[p.l4 + 12] = 15 << 4; /* longer than the segment */
	pkt_fix_l4(&p);
	ck_assert(sl_fake_inject(&bed.port, p.b, p.len, 0));
	p.len = p.l4 + 19;
	pkt_fix_ip(&p);
	ck_assert(sl_fake_inject(&bed.port, p.b, p.len, 0));
	bed_burst();
	ck_assert_uint_eq(drops(SL_DROP_TCP_HEADER), 3);
	out_none();
}
END_TEST

START_TEST(urgent_pointer_means_nothing)
{
	open_plain();
	in(.flags = A | SL_TCP_URG, .seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 100);
}
END_TEST

START_TEST(segment_without_ack_is_dropped)
{
	open_plain();
	in(.flags = P, .seq = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_FLAGS), 1);
}
END_TEST

START_TEST(full_ring_delays_but_loses_nothing)
{
	open_plain();
	bed.port.tx_room = 0;
	ck_assert_uint_eq(app_send(1, 80000), 80000);
	bed.app.conn->cwnd = 100000;
	bed_collect();
	out_none();
	bed.port.tx_room = SL_FAKE_RING;
	after(SEC);
	ck_assert_uint_ge(out_skip(), 65);
	in(.seq = 1, .ack = bed.app.conn->snd_nxt - bed.our_isn);
	after(SEC);
	ck_assert_uint_eq(bed.app.conn->snd_nxt, bed.app.conn->snd_end);
}
END_TEST

START_TEST(no_frames_then_writable)
{
	struct sl_frame *all[BED_FRAMES + 1]; /* the last is NULL */
	unsigned cnt = 0;

	open_plain();
	while ((all[cnt] = sl_frame_get(&bed.umem, SL_FRAME_HELD, 0)))
		cnt++;
	ck_assert_uint_eq(app_send(1, 100), 0);
	ck_assert(!sl_tcp_send_head(bed.app.conn, "x", 1));
	sl_tcp_shutdown(bed.app.conn); /* even the FIN has to wait */
	while (cnt)
		sl_frame_put(&bed.umem, all[--cnt]);
	after(SEC / 2);
	out(.flags = F | A, .seq = 1, .ack = 1);
}
END_TEST

START_TEST(writable_after_a_drought)
{
	struct sl_frame *all[BED_FRAMES + 1]; /* the last is NULL */
	unsigned cnt = 0;

	open_plain();
	while ((all[cnt] = sl_frame_get(&bed.umem, SL_FRAME_HELD, 0)))
		cnt++;
	ck_assert_uint_eq(app_send(1, 100), 0);
	after(100 * MS);
	ck_assert_uint_eq(bed.app.writables, 0);
	while (cnt)
		sl_frame_put(&bed.umem, all[--cnt]);
	after(100 * MS);
	ck_assert_uint_eq(bed.app.writables, 1);
}
END_TEST

START_TEST(writable_when_the_drought_ends_after_the_last_ack)
{
	reconfigure(bed.cfg.snd_buf = 10000);
	open_plain();
	app_sends(1, 5000);
	bed.umem.low_water = 3 * BED_FRAMES;
	ck_assert_uint_eq(app_send(5001, 5000), 0);
	bed_collect();
	in(.seq = 1, .ack = 5001);
	after(100 * MS);
	ck_assert_uint_eq(bed.app.writables, 0);
	bed.umem.low_water = 0;
	after(100 * MS);
	ck_assert_uint_eq(bed.app.writables, 1);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, bytes_in_order);
	tcase_add_test(tc, every_second_full_segment_is_acknowledged);
	tcase_add_test(tc, lone_segment_is_acknowledged_in_time);
	tcase_add_test(tc, one_acknowledgement_per_burst);
	tcase_add_test(tc, reply_carries_the_acknowledgement);
	tcase_add_test(tc, sends_of_a_burst_share_segments);
	tcase_add_test(tc, head_goes_beyond_the_buffer);
	tcase_add_test(tc, writable_when_there_is_room);
	tcase_add_test(tc, sequence_numbers_wrap_both_ways);
	tcase_add_test(tc, out_of_order_is_kept_and_told);
	tcase_add_test(tc, timestamps_leave_room_for_three_blocks);
	tcase_add_test(tc, overlaps);
	tcase_add_test(tc, in_order_segment_that_covers_part_of_the_queue);
	tcase_add_test(tc, out_of_order_queue_is_bounded);
	tcase_add_test(tc, out_of_order_total_is_bounded);
	tcase_add_test(tc, out_of_order_bytes_share_frames);
	tcase_add_test(tc, duplicates_are_acknowledged_and_reported);
	tcase_add_test(tc, small_unread_segments_share_frames);
	tcase_add_test(tc, application_takes_frames);
	tcase_add_test(tc, application_aborts_within_data);
	tcase_add_test(tc, application_closes_within_data);
	tcase_add_test(tc, segmentation_respects_the_mss);
	tcase_add_test(tc, wrong_checksum);
	tcase_add_test(tc, malformed_header);
	tcase_add_test(tc, urgent_pointer_means_nothing);
	tcase_add_test(tc, segment_without_ack_is_dropped);
	tcase_add_test(tc, full_ring_delays_but_loses_nothing);
	tcase_add_test(tc, no_frames_then_writable);
	tcase_add_test(tc, writable_after_a_drought);
	tcase_add_test(tc, writable_when_the_drought_ends_after_the_last_ack);
}

int main(void)
{
	return bed_main("tcp data", add);
}
