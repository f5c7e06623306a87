/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes in and out: order, acknowledgements, segmentation, checksums. */
#include "tcp_bed.h"
#include "suite.h"

FIXTURE(setup, bed_end)

TEST(bytes_in_order)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 1001, .ack = 1, .len = 1448);
	ck_assert_uint_eq(bed.app.got, 2448);
}

TEST(every_second_full_segment_is_acknowledged)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 1000);
	out_none();
	in(.seq = 1001, .ack = 1, .len = 1000);
	out(.seq = 1, .ack = 2001);
	out_none();
}

TEST(lone_segment_is_acknowledged_in_time)
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

/* The first of them says when, however many follow. */
TEST(few_bytes_now_and_then_are_acknowledged_in_time)
{
	open_plain();
	for (uint32_t i = 0; i < 4; i++) {
		in(.seq = 1 + i * 10, .ack = 1, .len = 10);
		out_none();
		after(10 * MS);
	}
	after(2 * MS);
	out(.seq = 1, .ack = 41);
	out_none();
}

TEST(one_acknowledgement_per_burst)
{
	open_plain();
	for (uint32_t i = 0; i < 20; i++)
		in(.seq = 1 + i * 1000, .ack = 1, .len = 1000, .hold = i < 19);
	out(.seq = 1, .ack = 20001);
	out_none();
}

TEST(reply_carries_the_acknowledgement)
{
	open_plain();
	in(.seq = 1, .ack = 1, .len = 10);
	app_sends(1, 20);
	out(.seq = 1, .ack = 11, .len = 20);
	after(100 * MS);
	out_none();
}

TEST(sends_of_a_burst_share_segments)
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

TEST(segments_and_bytes_that_leave_are_counted)
{
	uint64_t segs, bytes;

	open_plain();
	segs = stats().segs_out;
	bytes = stats().bytes_out;
	app_sends(1, 1300);
	ck_assert_uint_eq(out_skip(), 2);
	ck_assert_uint_eq(stats().segs_out - segs, 2);
	ck_assert_uint_eq(stats().bytes_out - bytes, 1300);
}

TEST(head_goes_beyond_the_buffer)
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

TEST(writable_when_there_is_room)
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

/* Bytes beyond the peer's window stay with the sender, but for a few. */
TEST(little_is_queued_beyond_the_window)
{
	open_plain();
	in(.seq = 1, .ack = 1, .wnd = 4000);
	ck_assert_uint_eq(app_send(1, 100000), 4000 + (16 << 10));
	bed_collect();
	out_skip();
	in(.seq = 1, .ack = 4001, .wnd = ANY); /* it has stopped reading */
	ck_assert_uint_eq(sl_tcp_send_room(bed.app.conn), 0);
	ck_assert_uint_eq(bed.app.writables, 0);
	in(.seq = 1, .ack = 4001, .wnd = 20000);
	ck_assert_uint_eq(bed.app.writables, 1);
	ck_assert_uint_eq(app_send(4001 + (16 << 10), 100000), 20000);
}

TEST(sequence_numbers_wrap_both_ways)
{
	/* peer_isn is 16 below the wrap; ours is pushed over it by sending */
	open_plain();
	in(.seq = 1, .ack = 1, .len = 10);
	in(.seq = 11, .ack = 1, .len = 10);
	in(.seq = 31, .ack = 1, .len = 10); /* a hole over the wrap */
	in(.seq = 21, .ack = 1, .len = 10);
	ck_assert_uint_eq(bed.app.got, 40);
}

TEST(out_of_order_segments_are_kept_and_sacked)
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

TEST(timestamps_leave_room_for_three_blocks)
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

/* Every way in which two segments can overlap; the first copy of a byte counts. */
TEST(the_first_copy_of_a_byte_counts_in_any_overlap)
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

TEST(in_order_segment_that_covers_part_of_the_queue)
{
	open_sack();
	in(.seq = 51, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 150);
	in(.seq = 101, .ack = 1, .len = 100); /* half of it is old */
	ck_assert_uint_eq(bed.app.got, 200);
}

TEST(out_of_order_queue_is_bounded)
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

TEST(out_of_order_total_is_bounded)
{
	reconfigure(bed.cfg.max_ooo_frames_total = 10);
	open_sack();
	for (uint32_t i = 0; i < 30; i++)
		in(.seq = 1001 + i * 2000, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.tcp->ooo_total, 10);
	in(.flags = R, .seq = 1);
	ck_assert_uint_eq(bed.tcp->ooo_total, 0);
}

/* However many take all that they can get, a newcomer gets his part. */
TEST(out_of_order_memory_is_shared_fairly)
{
	enum { GREEDY = 40, TOTAL = 400, EACH = 30 };
	struct sl_tcp_conn *first = NULL;

	reconfigure(bed.cfg.max_ooo_frames_total = TOTAL);
	for (uint16_t n = 0; n <= GREEDY; n++) {
		uint16_t port = (uint16_t)(100 + n);

		bed.know_isn = false;
		in(.flags = S, .mss = 1000, .sport = port);
		out(.flags = S | A, .ack = 1);
		in(.seq = 1, .ack = 1, .sport = port);
		first = first ? first : bed.app.conn;
		for (uint32_t i = 0; i < EACH; i++)
			in(.seq = 1001 + i * 2000, .ack = 1, .len = 100, .sport = port);
		out_skip();
		ck_assert_uint_le(bed.tcp->ooo_total, TOTAL);
		ck_assert_uint_ge(bed.app.conn->ooo_cnt, TOTAL / GREEDY / 2);
	}
	ck_assert_uint_lt(first->ooo_cnt, EACH);
	ck_assert_uint_gt(first->ooo_cnt, 0);
}

/* Bytes that were taken back are sent again, as if they had been lost. */
TEST(bytes_given_up_are_not_missed)
{
	reconfigure(bed.cfg.max_ooo_frames_total = 4);
	open_sack();
	for (uint32_t i = 0; i < 4; i++)
		in(.seq = 101 + i * 200, .ack = 1, .len = 100);
	out_skip();
	bed.know_isn = false;
	struct sl_tcp_conn *victim = bed.app.conn;
	uint32_t isn = bed.our_isn;

	in(.flags = S, .mss = 1000, .sport = 99);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1, .sport = 99);
	in(.seq = 101, .ack = 1, .len = 100, .sport = 99);
	out_skip();
	ck_assert_uint_eq(victim->ooo_cnt, 2);
	ck_assert_uint_eq(drops(SL_DROP_TCP_OOO_LIMIT), 2);
	bed.our_isn = isn;
	in(.seq = 201, .ack = 1, .len = 100);
	out(.seq = 1, .ack = 1, .sacks = 1, .sack = {{101, 401}});
	in(.seq = 1, .ack = 1, .len = 100);
	out(.seq = 1, .ack = 401);
	in(.seq = 401, .ack = 1, .len = 400);
	ck_assert_uint_eq(bed.app.got, 800);
}

TEST(out_of_order_bytes_share_frames)
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

TEST(duplicates_are_acknowledged_and_reported)
{
	open_sack();
	in(.seq = 1, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 1, .len = 100);
	out(.seq = 1, .ack = 101, .sacks = 1, .sack = {{1, 101}}); /* RFC 2883 */
	ck_assert_uint_eq(drops(SL_DROP_TCP_DUPLICATE), 1);
	ck_assert_uint_eq(bed.app.got, 100);
}

TEST(small_unread_segments_share_frames)
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

TEST(application_takes_frames)
{
	open_plain();
	bed.app.take_frames = true;
	in(.seq = 1, .ack = 1, .len = 1000);
	in(.seq = 2001, .ack = 1, .len = 1000);
	in(.seq = 1001, .ack = 1, .len = 1000);
	ck_assert_uint_eq(bed.app.got, 3000);
}

TEST(application_aborts_within_data)
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

TEST(application_closes_within_data)
{
	open_plain();
	bed.app.close_on_data = true;
	bed.app.appetite = 50;
	in(.seq = 101, .ack = 1, .len = 100);
	in(.seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 50);
	ck_assert_uint_eq(drops(SL_DROP_TCP_CLOSED), 1);
}

/* The application takes a part of the first frame; the rest and the next frame are dropped. */
TEST_EACH(application_ends_the_connection_within_queued_bytes, 2)
{
	open_plain();
	bed.app.appetite = 0;
	in(.seq = 1, .ack = 1, .len = 1400);
	in(.seq = 1401, .ack = 1, .len = 1400);
	ck_assert_uint_eq(sl_tcp_held_frames(bed.app.conn), 2);
	bed.app.appetite = 50;
	bed.app.abort_on_data = _i;
	bed.app.close_on_data = !_i;
	sl_tcp_resume(bed.app.conn);
	ck_assert_uint_eq(bed.app.got, 50);
	ck_assert_uint_eq(stats().conns, !_i);
}

TEST(segmentation_respects_the_mss)
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

/* The peer acknowledges all that was sent until all of len is. Returns the frames that it took. */
static uint32_t deliver(uint32_t free_before, uint32_t len)
{
	struct sl_tcp_conn *c = bed.app.conn;
	uint32_t most = 0;

	for (int i = 0; i < 2000 && c->snd_una - bed.our_isn != len + 1; i++) {
		uint32_t used = free_before - frames_free();

		most = used > most ? used : most;
		out_skip(); /* each byte and checksum is compared */
		in(.seq = 1, .ack = c->snd_nxt - bed.our_isn);
	}
	ck_assert_uint_eq(c->snd_una - bed.our_isn, len + 1);
	ck_assert_uint_eq(frames_free(), free_before);
	return most;
}

/* As after a long transfer. */
static void open_the_congestion_window(void)
{
	bed.app.conn->cwnd = 1 << 20;
	bed.app.conn->progress_at = now_tick(bed.tcp);
}

static void open_small(void)
{
	in(.flags = S, .mss = 536, .ws = 8);
	out(.flags = S | A, .ack = 1);
	in(.seq = 1, .ack = 1);
}

/* Small segments cost a frame each only while they are in flight. */
TEST(unsent_segments_share_frames)
{
	uint32_t free_before;

	open_small();
	free_before = frames_free();
	app_sends(1, 20001);
	ck_assert_uint_eq(bed.app.conn->snd_nxt - bed.our_isn, 1 + 10 * 536);
	for (uint32_t i = 0; i < 10; i++)
		out(.seq = 1 + i * 536, .ack = 1, .len = 536);
	ck_assert_uint_le(free_before - frames_free(), 10 + 10); /* three to a frame */
	deliver(free_before, 20001);
}

TEST(frames_of_a_connection_are_bounded_whatever_the_mss)
{
	uint32_t free_before;

	reconfigure(bed.cfg.snd_buf = 256 << 10);
	open_small();
	open_the_congestion_window();
	free_before = frames_free();
	app_sends(1, 256 << 10); /* 490 segments */
	ck_assert_uint_ge(bed.app.conn->snd_nxt - bed.app.conn->snd_una, 150 * 536);
	ck_assert_uint_le(deliver(free_before, 256 << 10), 256 + 16);
}

TEST(frames_of_small_writes_are_bounded)
{
	uint32_t free_before, len = 0;

	reconfigure(bed.cfg.snd_buf = 64 << 10);
	open_full();
	open_the_congestion_window();
	free_before = frames_free();
	while (app_send(1 + len, 10) == 10) { /* each leaves at once */
		len += 10;
		bed_collect();
	}
	ck_assert_uint_eq(free_before - frames_free(), 64 + 16);
	deliver(free_before, len);
	ck_assert_uint_eq(bed.app.writables, 1);
}

/* The head of the queue is cut even if all places are taken by lost segments. */
TEST(a_full_queue_is_cut_when_the_path_narrows)
{
	struct sl_tcp_conn *c;
	uint32_t free_before;
	bool cut = false;
	struct got g;

	reconfigure(bed.cfg.snd_buf = 64 << 10);
	open_full();
	c = bed.app.conn;
	open_the_congestion_window();
	free_before = frames_free();
	for (uint32_t i = 0; i < 34; i++) /* a full and a small one each */
		app_sends(1 + i * 1458, 1458);
	for (uint32_t len = 34 * 1458; c->txq_cnt < 64 + 16; len++)
		app_sends(1 + len, 1);
	ck_assert_uint_eq(free_before - frames_free(), 64 + 16);
	out_skip();
	c->mss = 500;
	after(SEC);
	while (next_out(&g))
		cut |= g.s.seq == 1 && g.s.len == 500;
	ck_assert(cut);
	deliver(free_before, c->snd_end - bed.our_isn - 1);
}

TEST(a_wrong_checksum_is_dropped)
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

TEST(a_malformed_header_is_dropped)
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

TEST(urgent_pointer_means_nothing)
{
	open_plain();
	in(.flags = A | SL_TCP_URG, .seq = 1, .ack = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 100);
}

TEST(segment_without_ack_is_dropped)
{
	open_plain();
	in(.flags = P, .seq = 1, .len = 100);
	ck_assert_uint_eq(bed.app.got, 0);
	ck_assert_uint_eq(drops(SL_DROP_TCP_FLAGS), 1);
}

TEST(full_ring_delays_but_loses_nothing)
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

TEST(no_frames_then_writable)
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

TEST(writable_after_a_drought)
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

TEST(writable_when_the_drought_ends_after_the_last_ack)
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

/* --- next hop --- */

/* Returns the last byte of the destination MAC of the last frame that we sent. */
static uint8_t sent_to(void)
{
	return bed.outq[(bed.out_head - 1) % BED_OUT].b[5];
}

TEST(replies_follow_a_valid_segment_from_another_router)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 10);
	ck_assert_uint_eq(sent_to(), pkt_peer_mac[5]);
	in(.seq = 11, .ack = 1, .len = 10, .router = 0x99);
	after(SEC);
	ck_assert_uint_eq(sent_to(), 0x99);
	ck_assert_uint_eq(bed.app.got, 20);
	ck_assert_uint_eq(bed.net.nexthop_changes, 1);
	ck_assert_uint_eq(sl_tcp_send(bed.app.conn, "x", 1), 1);
	bed_collect();
	ck_assert_uint_eq(sent_to(), 0x99);
}

/* A client that downloads sends nothing but acknowledgements. */
TEST(replies_follow_a_pure_acknowledgement)
{
	open_full();
	ck_assert_uint_eq(sl_tcp_send(bed.app.conn, "x", 1), 1);
	bed_collect();
	in(.seq = 1, .ack = 2, .router = 0x99);
	ck_assert_uint_eq(sl_tcp_send(bed.app.conn, "x", 1), 1);
	bed_collect();
	ck_assert_uint_eq(sent_to(), 0x99);
}

/* The acknowledgement was lost on the way by the former router, so the client sends again. */
TEST(replies_follow_a_repetition_and_a_keep_alive)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 10);
	after(SEC);
	out_skip();
	in(.seq = 1, .ack = 1, .len = 10, .router = 0x99);
	ck_assert_uint_eq(sent_to(), 0x99);
	after(SEC);
	in(.seq = 10, .ack = 1, .router = 0x98); /* a keep-alive probe */
	ck_assert_uint_eq(sent_to(), 0x98);
	ck_assert_uint_eq(bed.net.nexthop_changes, 2);
}

TEST(forged_segments_do_not_change_the_next_hop)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 10);
	in(.seq = 500000, .ack = 1, .len = 10, .router = 0x99); /* beyond the window */
	in(.seq = 11, .ack = 70000, .len = 10, .router = 0x99); /* acknowledges too much */
	in(.flags = R, .seq = 12, .router = 0x99);
	in(.flags = S, .seq = 11, .router = 0x99);
	after(SEC);
	out_skip();
	in(.seq = 11, .ack = 1, .len = 10);
	ck_assert_uint_eq(sent_to(), pkt_peer_mac[5]);
	ck_assert_uint_eq(bed.net.nexthop_changes, 0);
}

TEST(next_hop_changes_at_most_ten_times_a_second)
{
	open_full();
	for (uint32_t i = 0; i < 1000; i++) {
		in(.seq = 1 + i, .ack = 1, .len = 1, .router = (uint8_t)(i % 2 ? 0x99 : 0x78));
		after(MS);
	}
	ck_assert_uint_eq(bed.app.got, 1000);
	ck_assert_uint_ge(bed.net.nexthop_changes, 10);
	ck_assert_uint_le(bed.net.nexthop_changes, 11);
}

TEST(replies_follow_into_another_vlan)
{
	open_full();
	in(.seq = 1, .ack = 1, .len = 10);
	out_skip();
	bed.vlan_cnt = 1;
	in(.seq = 11, .ack = 1, .len = 10);
	after(SEC);
	ck_assert_uint_eq(bed.outq[(bed.out_head - 1) % BED_OUT].b[12], 0x81);
	ck_assert_uint_eq(bed.net.nexthop_changes, 1);
}

TEST(replies_come_from_the_current_mac_of_the_interface)
{
	open_full();
	bed.port.port.mac[5] = 0x42;
	in(.seq = 1, .ack = 1, .len = 10);
	after(SEC);
	ck_assert_uint_eq(bed.outq[(bed.out_head - 1) % BED_OUT].b[11], 0x42);
	ck_assert_uint_eq(sent_to(), pkt_peer_mac[5]);
}

TEST(time_wait_answers_by_the_new_router)
{
	open_plain();
	sl_tcp_close(bed.app.conn);
	bed_collect();
	in(.flags = F | A, .seq = 1, .ack = 2);
	out_skip();
	after(SEC);
	in(.flags = F | A, .seq = 1, .ack = 2, .router = 0x99);
	ck_assert_uint_eq(sent_to(), 0x99);
}
