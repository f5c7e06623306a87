/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The budget of a shared receive queue: whoever comes while there is a place gets a window, and
 * senders that keep to their windows never find the queue empty, however they come, send and go.
 */
#include "base/rand.h"
#include "rpc/credits.h"
#include "rpc/verbs/budget.h"
#include "suite.h"

enum { TOTAL = 8192, MEMBERS = 288 };

/* A connection: its sender's credits, and the receiver's side of them. */
struct member {
	uint32_t window; /* 0 none */
	struct sl_credits tx, rx;
	uint32_t arrived, put_back; /* messages; each holds a slot in between */
};

static struct member members[MEMBERS];
static uint32_t in_queue; /* slots that wait for messages */

static void come(struct vb_budget *b, struct member *m, uint32_t asked)
{
	uint32_t window = vb_budget_join(b, asked);

	ck_assert_uint_ge(window, SL_RPC_MIN_SLOTS);
	ck_assert_uint_le(window, asked);
	ck_assert_uint_eq(window & (window - 1), 0);
	*m = (struct member){.window = window};
	sl_credits_init(&m->tx, window, window, SL_RPC_MIN_BULK);
	sl_credits_init(&m->rx, window, window, SL_RPC_MIN_BULK);
	/* The first message, in a spare slot, is taken at once. */
	ck_assert_uint_gt(in_queue, 0);
}

static void go(struct vb_budget *b, struct member *m)
{
	in_queue += m->arrived - m->put_back;
	vb_budget_leave(b, m->window);
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
	for (; m->rx.consumed - m->put_back > late; m->put_back++)
		in_queue++;
	if (cnt)
		ck_assert_int_eq(sl_credits_ack(&m->tx, m->rx.consumed), cnt);
}

TEST_EACH(senders_within_their_windows_never_find_it_empty, 6)
{
	struct vb_budget b;
	struct sl_prng rng;
	unsigned here = 0, most = 0;

	sl_prng_seed(&rng, (uint64_t)_i + 1);
	vb_budget_init(&b, TOTAL, MEMBERS);
	in_queue = TOTAL;
	memset(members, 0, sizeof(members));
	for (unsigned step = 0; step < 40000; step++) {
		struct member *m = &members[sl_prng_below(&rng, MEMBERS)];
		/* Waves: times when more come than go, and the other way round. */
		bool filling = step / 5000 % 2 == 0;

		if (!m->window && sl_prng_below(&rng, 10) < (filling ? 9 : 2)) {
			come(&b, m, UINT32_C(16) << sl_prng_below(&rng, 9));
			here++;
		} else if (m->window && sl_prng_below(&rng, 100) < (filling ? 2 : 20)) {
			go(&b, m);
			here--;
		} else if (m->window && sl_prng_below(&rng, 2)) {
			send_all(m);
		} else if (m->window) {
			consume(m, (uint32_t)sl_prng_below(&rng, m->window + 1),
				(uint32_t)sl_prng_below(&rng, VB_BUDGET_EARLY + 1));
		}
		most = here > most ? here : most;
		ck_assert_uint_eq(b.members, here);
	}
	ck_assert_uint_gt(most, 200);
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (members[i].window)
			go(&b, &members[i]);
	}
	ck_assert_uint_eq(b.granted, 0);
	ck_assert_uint_eq(b.members, 0);
	ck_assert_uint_eq(in_queue, TOTAL);
}

/* All places taken, all windows full, and every receiver as late as it may be. */
TEST(late_receivers_leave_nobody_without_slots)
{
	enum { FEW = 64 };
	struct vb_budget b;

	vb_budget_init(&b, FEW * VB_BUDGET_LEAST, FEW);
	in_queue = FEW * VB_BUDGET_LEAST;
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < FEW; i++) {
			if (round == 0)
				come(&b, &members[i], SL_RPC_MIN_SLOTS);
			send_all(&members[i]);
			consume(&members[i], members[i].window, VB_BUDGET_EARLY);
			send_all(&members[i]);
		}
	}
	ck_assert_uint_eq(b.members, FEW);
	/* A first message and a last one of each still find a slot. */
	ck_assert_uint_ge(in_queue, 2 * FEW);
}

/* The first ones get what they ask for, all get something, one more than all nothing. */
TEST(all_get_something_and_one_more_gets_nothing)
{
	struct vb_budget b;
	uint32_t sum = 0;

	vb_budget_init(&b, TOTAL, MEMBERS);
	for (unsigned i = 0; i < MEMBERS; i++) {
		uint32_t window = vb_budget_join(&b, 256);

		if (i < 8)
			ck_assert_uint_eq(window, 256);
		ck_assert_uint_ge(window, SL_RPC_MIN_SLOTS);
		sum += window + VB_BUDGET_SPARE;
	}
	ck_assert_uint_eq(sum, b.granted);
	ck_assert_uint_le(sum, TOTAL);
	ck_assert_uint_eq(vb_budget_join(&b, 256), 0);
	vb_budget_leave(&b, SL_RPC_MIN_SLOTS);
	ck_assert_uint_eq(vb_budget_join(&b, 256), SL_RPC_MIN_SLOTS);
}

TEST(a_small_device_has_fewer_members)
{
	struct vb_budget b;

	vb_budget_init(&b, 256, MEMBERS);
	ck_assert_uint_eq(b.members_max, 256 / VB_BUDGET_LEAST);
	for (unsigned i = 0; i < b.members_max; i++)
		ck_assert_uint_ge(vb_budget_join(&b, 4096), SL_RPC_MIN_SLOTS);
	ck_assert_uint_le(b.granted, 256);
	ck_assert_uint_eq(vb_budget_join(&b, 16), 0);
	vb_budget_init(&b, TOTAL, MEMBERS);
	ck_assert_uint_eq(vb_budget_join(&b, SL_RPC_MIN_SLOTS / 2), 0);
	ck_assert_uint_eq(vb_budget_join(&b, 128), 128);
	vb_budget_lower(&b, 128, 32);
	ck_assert_uint_eq(b.granted, 32 + VB_BUDGET_SPARE);
	vb_budget_leave(&b, 32);
	ck_assert_uint_eq(b.granted, 0);
}
