/* SPDX-License-Identifier: Apache-2.0 */
/* Acknowledgements that have no news cost little, however many, and what is lost is repaired all the same. */
#include "tcp_bed.h"
#include "suite.h"

FIXTURE(setup, bed_end)

/* So many segments are in flight. */
enum { MANY = 350, SEG = 1448 };

static void many_in_flight(void)
{
	open_full();
	app_sends(1, SEG);
	out_skip();
	after(20 * MS);
	in(.seq = 1, .ack = 1 + SEG);
	bed.app.conn->cwnd = 2 * MANY * SEG;
	app_sends(1 + SEG, MANY * SEG);
	ck_assert_uint_eq(out_skip(), MANY);
	bed.tcp->walked = 0;
}

static uint32_t nth(uint32_t n)
{
	return 1 + SEG + n * SEG;
}

/* Endless repetitions: blocks, duplicates without any, and bytes acknowledged one by one. */
static void flood(int kind)
{
	in(.seq = 1, .ack = nth(0), .sacks = 1, .sack = {{nth(1), nth(MANY / 2)}});
	for (uint32_t i = 0; i < 10000; i++) {
		uint32_t back = i % (MANY / 2 - 2);

		after(SEC / 10000);
		if (kind == 0)
			in(.seq = 1, .ack = nth(0), .sacks = 1,
			   .sack = {{nth(1 + back), nth(2 + back)}});
		else if (kind == 1)
			in(.seq = 1, .ack = nth(0));
		else
			in(.seq = 1, .ack = nth(0) + i * SEG / 10000, .sacks = 1,
			   .sack = {{nth(1), nth(MANY / 2)}});
	}
	out_skip();
}

/* CVE-2019-11478's like: each of them would be compared with all that is in flight. */
TEST_EACH(a_flood_of_blocks_without_news_costs_little, 3)
{
	many_in_flight();
	flood(_i);
	ck_assert_uint_ge(stats().sack_scans_skipped, 9000);
	ck_assert_uint_le(bed.tcp->walked, (128 + 10000 / 64 + 100) * 2 * MANY);
	in(.seq = 1, .ack = nth(MANY));
	ck_assert_uint_eq(in_flight(bed.app.conn), 0);
	ck_assert_uint_eq(bed.app.conn->in_vain, 0);
}

/* A later segment of the peer repairs the loss, or else the timer. */
TEST_EACH(a_loss_is_repaired_even_behind_such_a_flood, 2)
{
	struct got g;
	bool again = false;

	many_in_flight();
	flood(0);
	for (int i = 0; _i == 0 && i < 64; i++)
		in(.seq = 1, .ack = nth(0), .sacks = 2,
		   .sack = {{nth(201), nth(MANY)}, {nth(1), nth(200)}});
	if (_i == 0)
		ck_assert_uint_eq(bed.app.conn->sacked_out, (MANY - 2) * SEG);
	in(.seq = 1, .ack = nth(200));
	for (int i = 0; i < 20 && _i; i++)
		after(100 * MS);
	while (next_out(&g))
		again |= g.s.seq == nth(200);
	ck_assert(again);
	in(.seq = 1, .ack = nth(MANY));
	ck_assert_int_eq(bed.app.conn->recovery, SL_RECOVERY_OPEN);
	ck_assert_uint_eq(bed.app.conn->sacked_out + bed.app.conn->lost_out, 0);
}

/* One acknowledgement for each segment, and some in the peer's own data: all of them are heard. */
TEST(an_honest_receiver_is_never_ignored)
{
	many_in_flight();
	for (uint32_t n = 2; n <= MANY; n++) {
		after(MS / 10);
		in(.seq = 1, .ack = nth(0), .sacks = 1, .sack = {{nth(1), nth(n)}});
	}
	for (uint32_t i = 0; i < 100; i++)
		in(.seq = 1 + 10 * i, .len = 10, .ack = nth(0), .sacks = 1,
		   .sack = {{nth(1), nth(MANY)}});
	ck_assert_uint_eq(stats().sack_scans_skipped, 0);
	ck_assert_uint_eq(bed.app.conn->sacked_out, (MANY - 1) * SEG);
	in(.seq = 1001, .ack = nth(MANY));
	out_skip();
}
