/* SPDX-License-Identifier: Apache-2.0 */
/* The members of each worker, and those that it borrows. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/subset.h"
#include "suite.h"

enum { MANY = 1024, WORKERS_MAX = 16, RING = 16 };
#define MS UINT64_C(1000000)

static char texts[MANY + 1][16];
static const char *names[MANY + 1];
static uint16_t order[MANY + 1];
static bool uses[WORKERS_MAX][MANY + 1];
static uint64_t now_ns;

static void set_up(void)
{
	now_ns = 10000 * MS;
	for (unsigned i = 0; i <= MANY; i++) {
		snprintf(texts[i], sizeof(texts[i]), "b%u", i);
		names[i] = texts[i];
	}
}

FIXTURE(set_up, NULL)

/* Into `uses`, by the number that a member's name has. */
static void choose(unsigned cnt, unsigned workers, unsigned size)
{
	ck_assert_int_eq(sl_subset_order(names, cnt, order), 0);
	memset(uses, 0, sizeof(uses));
	for (unsigned w = 0; w < workers; w++) {
		unsigned start = sl_subset_start(w, workers, cnt);

		for (unsigned k = 0; k < size; k++)
			uses[w][atoi(names[order[(start + k) % cnt]] + 1)] = true;
	}
}

static unsigned differ(const bool *a, const bool *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i <= MANY; i++)
		n += a[i] != b[i];
	return n;
}

TEST(each_member_has_as_many_workers_as_any_other_or_one_more)
{
	for (unsigned cnt = 1; cnt <= 70; cnt++) {
		for (unsigned workers = 1; workers <= WORKERS_MAX; workers++) {
			for (unsigned wanted = 1; wanted <= cnt; wanted++) {
				unsigned size = sl_subset_size(wanted, cnt, workers);
				unsigned least = UINT32_MAX, most = 0;

				choose(cnt, workers, size);
				for (unsigned i = 0; i < cnt; i++) {
					unsigned n = 0;

					for (unsigned w = 0; w < workers; w++)
						n += uses[w][i];
					least = n < least ? n : least;
					most = n > most ? n : most;
				}
				ck_assert_msg(least >= 1 && most <= least + 1,
					      "%u members, %u workers, %u each: %u to %u", cnt,
					      workers, size, least, most);
			}
		}
	}
}

TEST(subset_size_covers_all_backends)
{
	ck_assert_uint_eq(sl_subset_size(0, 100, 4), 100);
	ck_assert_uint_eq(sl_subset_size(30, 100, 4), 30);
	ck_assert_uint_eq(sl_subset_size(30, 100, 2), 50);
	ck_assert_uint_eq(sl_subset_size(1, 100, 3), 34);
	ck_assert_uint_eq(sl_subset_size(200, 100, 3), 100);
}

TEST(the_order_in_the_file_does_not_count)
{
	bool before[WORKERS_MAX][MANY + 1];

	choose(MANY, WORKERS_MAX, 256);
	memcpy(before, uses, sizeof(uses));
	for (unsigned i = 0; i < MANY; i++) {
		unsigned k = (i * 677 + 13) % MANY;
		const char *other = names[k];

		names[k] = names[i];
		names[i] = other;
	}
	choose(MANY, WORKERS_MAX, 256);
	ck_assert_mem_eq(before, uses, sizeof(uses));
}

/* Neighbours in a rack, which fail together, would else be one worker's. */
TEST(names_that_are_alike_are_spread)
{
	unsigned beside = 0;

	choose(MANY, 1, MANY);
	for (unsigned k = 0; k + 1 < MANY; k++)
		beside += abs(order[k] - order[k + 1]) == 1;
	ck_assert_uint_lt(beside, MANY / 50);
}

/* Or, the other way round, one less. */
TEST(one_more_brings_two_at_most_to_a_worker)
{
	bool before[WORKERS_MAX][MANY + 1];
	unsigned all = 0;

	for (unsigned cnt = 64; cnt < 128; cnt++) {
		choose(cnt, WORKERS_MAX, 20);
		memcpy(before, uses, sizeof(uses));
		choose(cnt + 1, WORKERS_MAX, 20);
		for (unsigned w = 0; w < WORKERS_MAX; w++) {
			unsigned n = differ(before[w], uses[w]);

			ck_assert_uint_le(n, 4); /* as many go */
			all += n;
		}
	}
	ck_assert_uint_gt(all, 0);
	ck_assert_uint_lt(all, 64 * WORKERS_MAX * 3 / 2);
}

/* --- borrowing: of RING members, from where a worker begins --- */

static struct sl_subset s;
static uint8_t states[RING];

static void begin(unsigned own)
{
	memset(states, SL_SUBSET_OTHERS, sizeof(states));
	memset(states, SL_SUBSET_UP, own);
	sl_subset_begin(&s, own, RING, NULL, now_ns);
}

static unsigned look(unsigned after_ms)
{
	now_ns += after_ms * MS;
	sl_subset_look(&s, states, RING, now_ns);
	return s.width;
}

TEST(as_long_as_enough_are_connected_nothing_is_borrowed)
{
	begin(8);
	for (unsigned i = 0; i < 6; i++) {
		states[i] = SL_SUBSET_NONE;
		ck_assert_uint_eq(look(100), 8);
	}
	ck_assert(sl_subset_enough(&s, states));
	ck_assert_uint_eq(sl_subset_due_ns(&s, now_ns), UINT64_MAX);
}

TEST(worker_borrows_as_many_backends_as_it_lost)
{
	begin(8);
	look(0);
	memset(states, SL_SUBSET_NONE, 8);
	ck_assert_uint_eq(look(1), 10);
	ck_assert(!sl_subset_enough(&s, states));
	states[8] = states[9] = SL_SUBSET_UP;
	ck_assert_uint_eq(look(2000), 10);
	ck_assert(sl_subset_enough(&s, states));
}

TEST(a_small_subset_borrows_no_more_than_it_has)
{
	begin(1);
	look(0);
	states[0] = SL_SUBSET_NONE;
	ck_assert_uint_eq(look(1), 2);
}

TEST(of_a_large_one_an_eighth_is_enough)
{
	enum { LARGE = 1024 };
	static uint8_t many[LARGE];

	memset(many, SL_SUBSET_OTHERS, sizeof(many));
	memset(many, SL_SUBSET_UP, 256);
	sl_subset_begin(&s, 256, LARGE, NULL, now_ns);
	sl_subset_look(&s, many, LARGE, now_ns);
	memset(many, SL_SUBSET_NONE, 224);
	sl_subset_look(&s, many, LARGE, now_ns);
	ck_assert_uint_eq(s.width, 256);
	many[224] = SL_SUBSET_NONE;
	sl_subset_look(&s, many, LARGE, now_ns);
	ck_assert_uint_eq(s.width, 257);
}

TEST(unconnected_backend_is_not_borrowed)
{
	begin(4);
	look(0);
	memset(states, SL_SUBSET_NONE, 10);
	ck_assert_uint_eq(look(1), 12);
}

TEST(nothing_is_borrowed_where_there_is_nothing)
{
	begin(4);
	look(0);
	memset(states, SL_SUBSET_NONE, sizeof(states));
	ck_assert_uint_eq(look(1), 4);
	ck_assert_uint_eq(sl_subset_due_ns(&s, now_ns), UINT64_MAX);
	states[13] = SL_SUBSET_OTHERS; /* as soon as there is */
	ck_assert_uint_eq(look(1), 14);
}

TEST(borrowing_goes_past_backends_that_stay_down)
{
	unsigned update_cnt = 0;

	begin(4);
	look(0);
	memset(states, SL_SUBSET_NONE, 4);
	ck_assert_uint_eq(look(1), 6);
	ck_assert_uint_eq(look(1), 6);
	ck_assert_uint_eq(sl_subset_due_ns(&s, now_ns), now_ns - MS + SL_SUBSET_TRY_NS);
	ck_assert_uint_eq(look(300), 8);
	while (look(300) < RING)
		ck_assert_uint_lt(update_cnt++, RING);
	ck_assert_uint_eq(look(300), RING);
}

TEST(at_first_its_own_have_time_to_come_up)
{
	begin(4);
	memset(states, SL_SUBSET_NONE, 4);
	ck_assert_uint_eq(look(1000), 4);
	ck_assert_uint_eq(sl_subset_due_ns(&s, now_ns), now_ns + 500 * MS);
	ck_assert_uint_eq(look(500), 6);
}

TEST(borrowed_backends_are_returned_after_a_delay)
{
	begin(4);
	look(0);
	memset(states, SL_SUBSET_NONE, 4);
	look(1);
	states[4] = states[5] = SL_SUBSET_UP;
	states[0] = SL_SUBSET_UP;
	ck_assert_uint_eq(look(6000), 6); /* one is not enough */
	states[1] = SL_SUBSET_UP;
	ck_assert_uint_eq(look(0), 6);
	ck_assert_uint_eq(sl_subset_due_ns(&s, now_ns), now_ns + SL_SUBSET_BACK_NS);
	ck_assert_uint_eq(look(4999), 6);
	ck_assert_uint_eq(look(1), 4);
}

TEST(flapping_backend_keeps_the_borrowed_ones)
{
	begin(4);
	look(0);
	memset(states, SL_SUBSET_NONE, 4);
	look(1);
	states[4] = states[5] = SL_SUBSET_UP;
	for (unsigned i = 0; i < 20; i++) {
		states[0] = states[1] = i % 2 ? SL_SUBSET_UP : SL_SUBSET_NONE;
		ck_assert_uint_eq(look(4000), 6);
	}
}

TEST(new_ring_keeps_borrowed_backends)
{
	struct sl_subset next;

	begin(4);
	look(0);
	memset(states, SL_SUBSET_NONE, 4);
	look(1);
	sl_subset_begin(&next, 5, RING, &s, now_ns);
	ck_assert_uint_eq(next.width, 7);
	sl_subset_begin(&next, 5, 6, &s, now_ns);
	ck_assert_uint_eq(next.width, 6);
}
