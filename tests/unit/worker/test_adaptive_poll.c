/* SPDX-License-Identifier: Apache-2.0 */
/* When a worker polls on, by what polling has found. */
#include "worker/adaptive_poll.h"
#include "suite.h"

enum { WAKE_NS = 20000, MOST_NS = SL_POLL_REPLY_SLEEPS * WAKE_NS };

static struct sl_adaptive_poll s;
static enum sl_adaptive_poll_for what;

static void set_up(void)
{
	sl_adaptive_poll_init(&s, WAKE_NS, false);
	what = SL_POLL_CLIENTS;
}

FIXTURE(set_up, NULL)

/* Polls of so many idle times, of which each nth finds something (0: none) after found_ns. */
static unsigned polls_until(unsigned times, unsigned nth, uint64_t found_ns)
{
	unsigned cnt = 0;

	for (unsigned i = 1; i <= times; i++) {
		bool found = nth && i % nth == 0;

		cnt += sl_adaptive_poll_begin(&s, what, 0);
		sl_adaptive_poll_end(&s, found, found ? found_ns : MOST_NS + 1);
	}
	return cnt;
}

static unsigned polls(unsigned times, unsigned nth)
{
	return polls_until(times, nth, 0);
}

TEST(it_polls_at_first)
{
	ck_assert(sl_adaptive_poll_begin(&s, what, WAKE_NS));
	ck_assert(sl_adaptive_poll_on(&s, WAKE_NS));
	ck_assert(!sl_adaptive_poll_on(&s, WAKE_NS + 1));
	ck_assert(!sl_adaptive_poll_begin(&s, what, WAKE_NS + 1)); /* it has done so already */
}

TEST(successful_polling_continues)
{
	ck_assert_uint_eq(polls(1000, 1), 1000);
	ck_assert_uint_eq(polls(1000, 3), 1000);
}

TEST(unsuccessful_polling_is_retried_rarely)
{
	polls(100, 0);
	ck_assert_uint_eq(polls(320 * SL_POLL_TRIAL, 0), 320);
}

TEST(polling_resumes_after_success)
{
	polls(1000, 0);
	polls(20 * SL_POLL_TRIAL, 1);
	ck_assert_uint_eq(polls(1000, 1), 1000);
}

/* Each kind of idle time is learnt separately. */
TEST(each_kind_is_learnt_apart)
{
	static const enum sl_adaptive_poll_for kinds[] = {SL_POLL_CLIENTS, SL_POLL_REPLIES,
							  SL_POLL_LOCAL_THREADS};

	for (unsigned k = 0; k < SL_POLL_KINDS; k++) {
		set_up();
		what = kinds[k];
		polls(1000, 0);
		for (unsigned other = 1; other < SL_POLL_KINDS; other++) {
			what = kinds[(k + other) % SL_POLL_KINDS];
			ck_assert_uint_eq(polls(1000, 1), 1000);
		}
		what = kinds[k];
		ck_assert_uint_eq(polls(10 * SL_POLL_TRIAL, 0), 10);
	}
}

/* A reply that takes longer than a wake-up is waited for all the same: it would come that much later. */
TEST(replies_are_polled_for_longer)
{
	what = SL_POLL_REPLIES;
	ck_assert(sl_adaptive_poll_begin(&s, what, MOST_NS));
	ck_assert(!sl_adaptive_poll_on(&s, MOST_NS + 1));
	sl_adaptive_poll_end(&s, false, MOST_NS + 1);
	ck_assert_uint_eq(polls_until(1000, 1, MOST_NS / 2), 1000);
}

static uint64_t longest_poll_ns(void)
{
	uint64_t idle_ns = 0;

	ck_assert(sl_adaptive_poll_begin(&s, what, 0));
	while (sl_adaptive_poll_on(&s, idle_ns))
		idle_ns += WAKE_NS / 8;
	sl_adaptive_poll_end(&s, true, 0);
	return idle_ns;
}

static void sleep_often(unsigned times, uint64_t beside_ns)
{
	for (unsigned i = 0; i < times; i++)
		sl_adaptive_poll_slept(&s, beside_ns);
}

/* Bells that a device has to be asked for, say, may take more than the wake-up. */
TEST(it_polls_for_all_that_sleeping_takes)
{
	sleep_often(200, 3 * WAKE_NS);
	ck_assert_uint_ge(longest_poll_ns(), 3 * WAKE_NS);
	ck_assert_uint_le(longest_poll_ns(), 5 * WAKE_NS);
	what = SL_POLL_REPLIES;
	ck_assert_uint_ge(longest_poll_ns(), 3 * MOST_NS);
	ck_assert_uint_le(longest_poll_ns(), 5 * MOST_NS);
	sleep_often(200, 0);
	ck_assert_uint_le(longest_poll_ns(), MOST_NS + WAKE_NS);
}

/* On a machine that takes the processor away again and again it is not polled for that too. */
TEST(busy_machine_does_not_count_as_wakeup_cost)
{
	sleep_often(1000, 1000 * WAKE_NS);
	ck_assert_uint_le(longest_poll_ns(), SL_WAKEUP_MAX_NS + SL_WAKEUP_MAX_NS / 8 + 2 * WAKE_NS);
}

/* As one from which its processor was taken. */
TEST(one_odd_sleep_changes_little)
{
	uint64_t before_ns;

	sleep_often(200, WAKE_NS);
	before_ns = longest_poll_ns();
	sleep_often(1, 1000 * WAKE_NS);
	ck_assert_uint_le(longest_poll_ns(), before_ns + before_ns / 4);
}

/* Polling costs what it takes, not how often it fails. */
TEST(longer_polls_have_to_find_more)
{
	ck_assert_uint_eq(polls(1000, 4), 1000);
	what = SL_POLL_REPLIES;
	ck_assert_uint_lt(polls(1000, 4), 200);
}

/* A polling thread may take the CPU that the awaited thread needs. */
TEST(polling_beside_local_threads_must_pay_more)
{
	what = SL_POLL_LOCAL_THREADS;
	ck_assert_uint_eq(polls(1000, 1), 1000);
	ck_assert_uint_lt(polls(1000, 3), 200);
}

/* Times that were not polled say nothing. */
TEST(only_polls_count)
{
	for (unsigned i = 0; i < 1000; i++) {
		ck_assert(!sl_adaptive_poll_begin(&s, what, WAKE_NS + 1));
		sl_adaptive_poll_end(&s, false, WAKE_NS + 1);
	}
	ck_assert(sl_adaptive_poll_begin(&s, what, 0));
}

TEST(an_operators_figure_is_obeyed)
{
	sl_adaptive_poll_init(&s, WAKE_NS, true);
	ck_assert_uint_eq(polls(1000, 0), 1000);
	sleep_often(200, 10 * WAKE_NS);
	what = SL_POLL_REPLIES;
	ck_assert(sl_adaptive_poll_begin(&s, what, WAKE_NS));
	ck_assert(!sl_adaptive_poll_on(&s, WAKE_NS + 1));
}
