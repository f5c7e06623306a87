/* SPDX-License-Identifier: Apache-2.0 */
/* The send queue: strict control, shares by bytes, deadlines, slices and the cap. */
#include <stdlib.h>
#include "base/clock.h"
#include "rpc/sendq.h"
#include "suite.h"

enum { CNT = 2048 };
static struct sl_send sends[CNT];
static unsigned used;

static const struct sl_send_room wide = {
	.window = 1 << 20,
	.slot_body = 4064,
	.slice_max = 1 << 20,
	.rate_bps = UINT64_C(80000000000), /* 100 kB in 10 us */
	.urgent = SL_CLASS_CONTROL,        /* so all are cut */
};

static struct sl_send *push(struct sl_sendq *q, enum sl_rpc_class class, uint32_t total,
			    uint64_t deadline_ns)
{
	struct sl_send *s = &sends[used++];

	ck_assert_uint_le(used, CNT);
	*s = (struct sl_send){.total = total, .deadline_ns = deadline_ns};
	sl_sendq_push(q, s, class);
	return s;
}

static void setup(void)
{
	used = 0;
}

FIXTURE(setup, NULL)

/* 8 : 4 : 1 by bytes while all three have something to send, whatever the messages' sizes. */
TEST(classes_share_by_bytes_whatever_their_sizes)
{
	static const uint32_t size[] = {0, 3000, 20000, 300000};
	struct sl_sendq q;
	uint64_t bytes[SL_CLASS_CNT] = {0}, sum = 0;
	uint32_t len;

	sl_sendq_init(&q, false);
	for (unsigned c = SL_CLASS_LATENCY; c < SL_CLASS_CNT; c++) {
		for (unsigned i = 0; i < 4; i++)
			push(&q, c, size[c], UINT64_MAX);
	}
	while (sum < 13000000) {
		struct sl_send *s = sl_sendq_next(&q, &wide, &len);
		unsigned c;

		ck_assert_ptr_nonnull(s);
		c = s->header.priority;
		bytes[c] += len;
		sum += len;
		if (sl_sendq_posted(&q, s, len)) {
			*s = (struct sl_send){.total = size[c], .deadline_ns = UINT64_MAX};
			sl_sendq_push(&q, s, c);
		}
	}
	/* A slice or so of error. */
	ck_assert_uint_gt(bytes[SL_CLASS_LATENCY], sum * 8 / 13 * 97 / 100);
	ck_assert_uint_gt(bytes[SL_CLASS_NORMAL], sum * 4 / 13 * 97 / 100);
	ck_assert_uint_gt(bytes[SL_CLASS_BULK], sum / 13 * 97 / 100);
}

TEST(control_goes_first_whatever_the_cap)
{
	struct sl_sendq q;
	struct sl_send_room full = wide;
	struct sl_send *c;
	uint32_t len;

	sl_sendq_init(&q, false);
	push(&q, SL_CLASS_LATENCY, 100, UINT64_MAX);
	c = push(&q, SL_CLASS_CONTROL, 100, UINT64_MAX);
	full.posted = full.own = UINT32_MAX; /* the cap does not hold control back */
	ck_assert_ptr_eq(sl_sendq_next(&q, &full, &len), c);
	ck_assert_uint_eq(len, 100);
	ck_assert(sl_sendq_posted(&q, c, len));
	ck_assert_ptr_null(sl_sendq_next(&q, &full, &len));
}

TEST(within_a_class_the_nearest_deadline_goes_first)
{
	static const uint64_t deadline[] = {50, UINT64_MAX, 10, 30, UINT64_MAX, 10};
	static const unsigned order[] = {2, 5, 3, 0, 1, 4};
	struct sl_sendq q;
	uint32_t len;

	sl_sendq_init(&q, false);
	for (unsigned i = 0; i < 6; i++)
		push(&q, SL_CLASS_NORMAL, 8, deadline[i]);
	for (unsigned i = 0; i < 6; i++) {
		struct sl_send *s = sl_sendq_next(&q, &wide, &len);

		ck_assert_ptr_eq(s, &sends[order[i]]);
		ck_assert(sl_sendq_posted(&q, s, len));
	}
	ck_assert_ptr_null(sl_sendq_next(&q, &wide, &len));
	ck_assert_uint_eq(q.bytes, 0);
}

TEST(long_messages_go_in_slices_up_to_the_cap)
{
	struct sl_sendq q;
	struct sl_send_room room = wide;
	struct sl_send *b;
	uint32_t len;

	sl_sendq_init(&q, false);
	b = push(&q, SL_CLASS_BULK, 8 << 20, UINT64_MAX);
	/* A quarter of 10 us, up to 10 us. */
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), b);
	ck_assert_uint_eq(len, 24576);
	room.posted = 99999;
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), b);
	room.posted = 100000;
	ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
	/* Unless that was learnt to be too little. */
	room.limit = 100001;
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), b);
	/* Or its messages cost too much. */
	room = wide;
	room.slice_min = 1 << 17;
	room.posted = (1 << 18) - 1;
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), b);
	ck_assert_uint_eq(len, 1 << 17);
	room.posted = 1 << 18;
	ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
}

/* Nothing is cut, or held back, for what is not about. */
TEST(a_message_is_cut_for_more_urgent_ones_only)
{
	struct sl_send_room room = wide;
	struct sl_sendq q;
	struct sl_send *bulk, *normal;
	uint32_t len;

	sl_sendq_init(&q, false);
	bulk = push(&q, SL_CLASS_BULK, 8 << 20, UINT64_MAX);
	room.slice_max = room.window = 4 << 20;
	for (room.urgent = SL_CLASS_BULK; room.urgent <= SL_CLASS_CNT; room.urgent++) {
		room.posted = (SL_SENDQ_WHOLES - 1) * SL_SENDQ_WHOLE;
		ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), bulk);
		ck_assert_uint_eq(len, SL_SENDQ_WHOLE);
		room.posted = SL_SENDQ_WHOLES * SL_SENDQ_WHOLE;
		ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
	}
	room.posted = 0;
	room.urgent = SL_CLASS_NORMAL;
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), bulk);
	ck_assert_uint_eq(len, 24576);
	room.posted = SL_SENDQ_WHOLE;
	ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
	/* Urgent messages are not cut for others. */
	normal = push(&q, SL_CLASS_NORMAL, 600000, UINT64_MAX);
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), normal);
	ck_assert_uint_eq(len, 600000);
	/* A small ring is not filled with one. */
	room = wide;
	room.urgent = SL_CLASS_CNT;
	room.slice_max = 64 << 10;
	ck_assert(sl_sendq_posted(&q, normal, 600000));
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), bulk);
	ck_assert_uint_eq(len, 64 << 10);
	room.posted = SL_SENDQ_WHOLES * (64 << 10);
	ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
}

/* A message a little longer than a slice is sent whole. */
TEST(a_message_a_little_longer_than_a_slice_goes_whole)
{
	struct sl_sendq q;
	uint32_t len;

	sl_sendq_init(&q, false);
	push(&q, SL_CLASS_BULK, 24576 + 6144, UINT64_MAX);
	push(&q, SL_CLASS_BULK, 24576 + 6145, UINT64_MAX);
	ck_assert_ptr_eq(sl_sendq_next(&q, &wide, &len), &sends[0]);
	ck_assert_uint_eq(len, 24576 + 6144);
	ck_assert(sl_sendq_posted(&q, &sends[0], len));
	ck_assert_ptr_eq(sl_sendq_next(&q, &wide, &len), &sends[1]);
	ck_assert_uint_eq(len, 24576);
}

/* A full bulk ring holds back what needs it, not what fits a slot, and nothing is chopped. */
TEST(a_full_ring_holds_back_long_messages_only)
{
	struct sl_sendq q;
	struct sl_send_room room = wide;
	uint32_t len;

	sl_sendq_init(&q, false);
	push(&q, SL_CLASS_BULK, 1 << 20, UINT64_MAX);
	room.window = room.slot_body;
	ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
	push(&q, SL_CLASS_NORMAL, 4000, UINT64_MAX);
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), &sends[1]);
	ck_assert_uint_eq(len, 4000);
	room.window = 0;
	ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
	room.window = 20000;
	sl_sendq_posted(&q, &sends[1], 4000);
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), &sends[0]);
	ck_assert_uint_eq(len, 20000);
}

/* However deadlines come, the peer needs no more than its readers. */
TEST(the_peer_needs_no_more_readers_than_it_has)
{
	struct sl_sendq q;
	unsigned started = 0;
	uint32_t len;

	sl_sendq_init(&q, false);
	for (unsigned i = 0; i < 40; i++) {
		struct sl_send *s;

		push(&q, SL_CLASS_NORMAL, 3 << 20, 1000 - i);
		s = sl_sendq_next(&q, &wide, &len);
		sl_sendq_posted(&q, s, len);
	}
	for (unsigned i = 0; i < 40; i++)
		started += sends[i].offset && sends[i].offset < sends[i].total;
	ck_assert_uint_le(started, SL_SENDQ_STARTED_MAX);
	ck_assert_uint_gt(started, 1);
	while (q.cnt) {
		struct sl_send *s = sl_sendq_next(&q, &wide, &len);

		ck_assert_ptr_nonnull(s);
		sl_sendq_posted(&q, s, len);
	}
	ck_assert_uint_eq(q.started[SL_CLASS_NORMAL], 0);
}

/* Behind the most urgent class there is none that others' bytes could delay. */
TEST(the_latency_class_waits_for_its_own_links_bytes_only)
{
	struct sl_sendq q;
	struct sl_send_room room = wide;
	struct sl_send *s;
	uint32_t len;

	sl_sendq_init(&q, false);
	push(&q, SL_CLASS_NORMAL, 64, UINT64_MAX);
	s = push(&q, SL_CLASS_LATENCY, 64, UINT64_MAX);
	room.posted = UINT32_MAX;
	ck_assert_ptr_eq(sl_sendq_next(&q, &room, &len), s);
	room.own = UINT32_MAX;
	ck_assert_ptr_null(sl_sendq_next(&q, &room, &len));
}

TEST(with_one_class_nothing_overtakes)
{
	struct sl_sendq q;
	struct sl_send_room room = wide;
	uint32_t len;

	sl_sendq_init(&q, true);
	room.posted = UINT32_MAX;
	push(&q, SL_CLASS_BULK, 2 << 20, UINT64_MAX);
	push(&q, SL_CLASS_LATENCY, 64, 1);
	for (unsigned i = 0; i < 3; i++) {
		struct sl_send *s = sl_sendq_next(&q, &room, &len);

		ck_assert_ptr_eq(s, &sends[i == 2]);
		ck_assert_int_eq(sl_sendq_posted(&q, s, len), i > 0);
	}
	ck_assert_ptr_null(sl_sendq_pop(&q));
}

/* --- however many wait --- */

enum { MANY = 50000, FEW = 50, ROUNDS = 500 };
static struct sl_send many[MANY];

/*
 * Insertion patterns: parts of streams; deadlines that clients choose; the same, ahead of begun
 * messages.
 */
enum crowd { UNTIMED, EVER_LATER, EVER_EARLIER, ANYHOW, BEFORE_BEGUN, CROWDS };

static uint64_t deadline_in(enum crowd of, unsigned i)
{
	switch (of) {
	case UNTIMED: return UINT64_MAX;
	case EVER_LATER: return 1000 + i;
	case EVER_EARLIER: return 1000000 - i;
	case ANYHOW: return 1000 + i * UINT64_C(7919) % MANY;
	default: return 1000;
	}
}

/*
 * Returns the cost of one insertion and one choice behind so many messages: the minimum of some
 * tries.
 */
static uint64_t ns_behind(enum crowd of, unsigned cnt)
{
	struct sl_send_room full = wide;
	struct sl_sendq q;
	uint64_t best = UINT64_MAX;
	uint32_t len;

	sl_sendq_init(&q, false);
	used = 0;
	for (unsigned i = 0; of == BEFORE_BEGUN && i < SL_SENDQ_STARTED_MAX; i++) {
		struct sl_send *s = push(&q, SL_CLASS_NORMAL, 1 << 20, 2000 - i);

		ck_assert_ptr_eq(sl_sendq_next(&q, &wide, &len), s);
		ck_assert(!sl_sendq_posted(&q, s, len));
	}
	for (unsigned i = 0; i < cnt; i++) {
		many[i] = (struct sl_send){.total = 64, .deadline_ns = deadline_in(of, i)};
		sl_sendq_push(&q, &many[i], SL_CLASS_NORMAL);
	}
	for (unsigned t = 0; t < 7; t++) {
		uint64_t at = sl_now_ns(), ns;

		for (unsigned i = 0; i < ROUNDS; i++) {
			struct sl_send s = {.total = 64, .deadline_ns = 1000 + i * 97 % cnt};

			sl_sendq_push(&q, &s, SL_CLASS_NORMAL);
			ck_assert_ptr_nonnull(sl_sendq_next(&q, &full, &len));
			sl_sendq_remove(&q, &s);
		}
		ns = (sl_now_ns() - at) / ROUNDS;
		best = ns < best ? ns : best;
	}
	return best;
}

TEST_EACH(a_crowd_costs_no_time, CROWDS)
{
	uint64_t few = ns_behind((enum crowd)_i, FEW), ns = ns_behind((enum crowd)_i, MANY);

	/* A walk over MANY takes 50 us at least. */
	ck_assert_msg(ns < 5 * few + 20000, "%lu ns, behind few %lu ns", ns, few);
}
