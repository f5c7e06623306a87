/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a shared receive queue. A connection that finds a place gets a window. Senders that
 * keep to their windows never find the queue empty, in any order of arrival, sending and leaving,
 * while windows move. Larger windows go to connections with demand, in no order.
 */
#include "base/rand.h"
#include "rpc/credits.h"
#include "rpc/rdma/rc/srq_credits.h"
#include "suite.h"

enum { TOTAL = 32768, MEMBERS = 1024 };

/* A connection: its sender's credits, and the receiver's side of them. */
struct member {
	uint32_t window; /* 0 none */
	struct sl_credits tx, rx;
	uint32_t arrived, reposted; /* messages; each holds a slot in between */
};

static struct member members[MEMBERS];
static uint32_t in_queue; /* slots that wait for messages */

static void come(struct srq_credits *b, struct member *m)
{
	ck_assert(srq_credits_join(b));
	*m = (struct member){.window = SL_RPC_MIN_SLOTS};
	sl_credits_init(&m->tx, m->window, SL_RPC_MAX_SLOTS, SL_RPC_MIN_BULK);
	sl_credits_init(&m->rx, m->window, SL_RPC_MAX_SLOTS, SL_RPC_MIN_BULK);
	/* The first message, in a spare slot, is taken at once. */
	ck_assert_uint_gt(in_queue, 0);
}

/* A larger one at once; a smaller one once nothing lies in what goes. */
static void move(struct srq_credits *b, struct member *m, uint32_t window)
{
	if (window > m->window) {
		window = srq_credits_raise(b, TOTAL, m->window, window);
		ck_assert_uint_ge(window, m->window);
		ck_assert_uint_eq(window & (window - 1), 0);
	} else if (m->tx.sent - m->rx.consumed <= window) {
		srq_credits_lower(b, m->window, window);
	} else {
		return;
	}
	m->window = m->tx.window = window;
}

static void go(struct srq_credits *b, struct member *m)
{
	in_queue += m->arrived - m->reposted;
	srq_credits_leave(b, m->window);
	m->window = 0;
}

static void send_all(struct member *m)
{
	while (sl_credits_room(&m->tx, SL_CREDIT_CREDIT)) {
		sl_credits_post(&m->tx);
		m->tx.done = m->tx.sent;
		ck_assert_uint_gt(in_queue, 0);
		in_queue--;
		m->arrived++;
	}
}

/* `late`: so many slots are told as free, and not yet put back. */
static void consume(struct member *m, uint32_t cnt, uint32_t late)
{
	uint32_t there = m->arrived - m->rx.consumed;

	cnt = cnt < there ? cnt : there;
	m->rx.consumed += cnt;
	for (; m->rx.consumed - m->reposted > late; m->reposted++)
		in_queue++;
	if (cnt)
		ck_assert_int_eq(sl_credits_ack(&m->tx, m->rx.consumed), cnt);
}

TEST_EACH(senders_within_their_windows_never_find_it_empty, 6)
{
	struct srq_credits b;
	struct sl_prng rng;
	unsigned here = 0, most = 0;

	sl_prng_seed(&rng, (uint64_t)_i + 1);
	srq_credits_init(&b, TOTAL, MEMBERS);
	in_queue = TOTAL;
	memset(members, 0, sizeof(members));
	for (unsigned step = 0; step < 80000; step++) {
		struct member *m = &members[sl_prng_below(&rng, MEMBERS)];
		/* Waves: times when more come than go, and the other way round. */
		bool filling = step / 10000 % 2 == 0;

		if (!m->window && sl_prng_below(&rng, 10) < (filling ? 9 : 2)) {
			come(&b, m);
			here++;
		} else if (m->window && sl_prng_below(&rng, 4) == 0) {
			move(&b, m, UINT32_C(16) << sl_prng_below(&rng, 9));
		} else if (m->window && sl_prng_below(&rng, 100) < (filling ? 2 : 20)) {
			go(&b, m);
			here--;
		} else if (m->window && sl_prng_below(&rng, 2)) {
			send_all(m);
		} else if (m->window) {
			consume(m, (uint32_t)sl_prng_below(&rng, m->window + 1),
				(uint32_t)sl_prng_below(&rng, SRQ_CREDITS_EARLY + 1));
		}
		most = here > most ? here : most;
		ck_assert_uint_eq(b.members, here);
	}
	ck_assert_uint_gt(most, MEMBERS / 2);
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (members[i].window)
			go(&b, &members[i]);
	}
	ck_assert_uint_eq(b.granted, 0);
	ck_assert_uint_eq(b.members, 0);
	ck_assert_uint_eq(in_queue, TOTAL);
}

/* All places taken, all windows full, and every receiver as late as it may be. */
TEST(late_receivers_leave_no_connection_without_slots)
{
	enum { FEW = 64 };
	struct srq_credits b;

	srq_credits_init(&b, 4 * FEW * SRQ_CREDITS_MIN, FEW);
	in_queue = FEW * SRQ_CREDITS_MIN; /* posted, of those */
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < FEW; i++) {
			if (round == 0)
				come(&b, &members[i]);
			send_all(&members[i]);
			consume(&members[i], members[i].window, SRQ_CREDITS_EARLY);
			send_all(&members[i]);
		}
	}
	ck_assert_uint_eq(b.members, FEW);
	/* A first message and a last one of each still find a slot. */
	ck_assert_uint_ge(in_queue, 2 * FEW);
}

TEST(all_get_something_and_one_more_gets_nothing)
{
	struct srq_credits b;

	srq_credits_init(&b, TOTAL, MEMBERS);
	for (unsigned i = 0; i < MEMBERS; i++) {
		ck_assert(srq_credits_join(&b));
		/* The first cannot take what is kept for those that may still come. */
		if (i == 0)
			(void)srq_credits_raise(&b, TOTAL, SL_RPC_MIN_SLOTS, TOTAL);
	}
	ck_assert_uint_le(b.granted, TOTAL);
	ck_assert(!srq_credits_join(&b));
	srq_credits_leave(&b, SL_RPC_MIN_SLOTS);
	ck_assert(srq_credits_join(&b));
}

/* Registered and posted slots are a limit, too. */
TEST(no_window_has_a_slot_that_is_not_posted)
{
	enum { POSTED = 512 };
	struct srq_credits b;

	srq_credits_init(&b, TOTAL, MEMBERS);
	ck_assert(srq_credits_join(&b));
	ck_assert(srq_credits_join(&b));
	ck_assert_uint_eq(srq_credits_raise(&b, POSTED, 16, 512), 256);
	ck_assert_uint_eq(srq_credits_raise(&b, POSTED, 16, 256), 128);
	ck_assert_uint_eq(srq_credits_raise(&b, POSTED, 128, 256), 128);
	ck_assert_uint_le(b.granted, POSTED);
	ck_assert_uint_eq(srq_credits_raise(&b, TOTAL, 128, 256), 256);
}

static uint32_t level_of(unsigned few, uint32_t large, unsigned many, uint32_t small)
{
	struct srq_demand w = {.cnt = {0}};
	struct srq_credits b;
	uint32_t level;

	srq_credits_init(&b, TOTAL, MEMBERS);
	for (unsigned i = 0; i < few + many; i++) {
		ck_assert(srq_credits_join(&b));
		srq_demand_add(&w, i < few ? large : small);
	}
	level = srq_credits_level(&b, &w);
	ck_assert_uint_le(
		srq_credits_need(&b, &w, level) + (MEMBERS - few - many) * SRQ_CREDITS_MIN, TOTAL);
	ck_assert(level == SL_RPC_MAX_SLOTS ||
		  srq_credits_need(&b, &w, 2 * level) + (MEMBERS - few - many) * SRQ_CREDITS_MIN >
			  TOTAL);
	return level;
}

/* The level is the highest for which there is enough, and what many do not want is the others'. */
TEST(all_may_have_as_much_as_there_is)
{
	ck_assert_uint_eq(level_of(3, 4096, 0, 0), 4096);
	ck_assert_uint_eq(level_of(16, 4096, 0, 0), 512);
	ck_assert_uint_eq(level_of(16, 4096, 900, 16), 512);
	ck_assert_uint_eq(level_of(100, 256, 0, 0), 128);
	ck_assert_uint_eq(level_of(100, 256, 900, 16), 128);
	ck_assert_uint_eq(level_of(512, 256, 512, 16), 32);
	ck_assert_uint_eq(level_of(1024, 256, 0, 0), 16);
}

TEST(a_small_device_has_fewer_members)
{
	struct srq_credits b;

	srq_credits_init(&b, 256, MEMBERS);
	ck_assert_uint_eq(b.members_max, 192 / SRQ_CREDITS_MIN);
	for (unsigned i = 0; i < b.members_max; i++) {
		ck_assert(srq_credits_join(&b));
		(void)srq_credits_raise(&b, 256, SL_RPC_MIN_SLOTS, 4096);
	}
	ck_assert_uint_le(b.granted, 256);
	ck_assert(!srq_credits_join(&b));
}
