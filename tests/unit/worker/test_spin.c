/* SPDX-License-Identifier: Apache-2.0 */
/* When a worker polls on, by what polling has found. */
#include "worker/spin.h"
#include "suite.h"

enum { FOR_NS = 20000 };

static struct sl_spin s;
static bool housemates;

static void set_up(void)
{
	sl_spin_init(&s, FOR_NS, false);
	housemates = false;
}

FIXTURE(set_up, NULL)

/* Polls of so many idle times, of which each nth finds something (0: none). */
static unsigned polls(unsigned times, unsigned nth)
{
	unsigned cnt = 0;

	for (unsigned i = 1; i <= times; i++) {
		cnt += sl_spin_begin(&s, housemates, 0);
		sl_spin_end(&s, nth && i % nth == 0);
	}
	return cnt;
}

TEST(it_polls_at_first)
{
	ck_assert(sl_spin_begin(&s, housemates, FOR_NS));
	ck_assert(!sl_spin_begin(&s, housemates, FOR_NS + 1)); /* it has done so already */
}

TEST(what_finds_something_goes_on)
{
	ck_assert_uint_eq(polls(1000, 1), 1000);
	ck_assert_uint_eq(polls(1000, 3), 1000);
}

TEST(what_finds_nothing_is_tried_now_and_then)
{
	polls(100, 0);
	ck_assert_uint_eq(polls(320 * SL_SPIN_TRIAL, 0), 320);
}

TEST(what_finds_something_again_is_taken_up_again)
{
	polls(1000, 0);
	polls(20 * SL_SPIN_TRIAL, 1);
	ck_assert_uint_eq(polls(1000, 1), 1000);
}

TEST(waiting_for_housemates_says_nothing_of_waiting_for_clients)
{
	housemates = true;
	polls(1000, 0);
	housemates = false;
	ck_assert_uint_eq(polls(1000, 2), 1000);
	housemates = true;
	ck_assert_uint_eq(polls(10 * SL_SPIN_TRIAL, 0), 10);
}

/* Who polls may keep from its processor what it waits for. */
TEST(waiting_for_housemates_has_to_find_more)
{
	housemates = true;
	ck_assert_uint_eq(polls(1000, 1), 1000);
	ck_assert_uint_lt(polls(1000, 3), 200);
}

/* Times that were not polled say nothing. */
TEST(only_polls_count)
{
	for (unsigned i = 0; i < 1000; i++) {
		ck_assert(!sl_spin_begin(&s, housemates, FOR_NS + 1));
		sl_spin_end(&s, false);
	}
	ck_assert(sl_spin_begin(&s, housemates, 0));
}

TEST(an_operators_figure_is_obeyed)
{
	sl_spin_init(&s, FOR_NS, true);
	ck_assert_uint_eq(polls(1000, 0), 1000);
}
