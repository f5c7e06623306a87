/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/outlier.h"

#include <string.h>

#include "base/rand.h"
#include "suite.h"

#define SEC UINT64_C(1000000000)

enum { LANES = 2, BACKENDS = 4 };

static const struct sl_outlier_rules rules = {.failures = 3, .time_ns = 5 * SEC};
static struct sl_health_lane lanes[BACKENDS][LANES];
static struct sl_health all[BACKENDS];
static const struct sl_health *others[BACKENDS];
static uint64_t now_ns;

static void set_up(void)
{
	memset(lanes, 0, sizeof(lanes));
	memset(all, 0, sizeof(all));
	now_ns = 1000 * SEC;
	for (unsigned i = 0; i < BACKENDS; i++) {
		all[i].lanes = lanes[i];
		all[i].lane_cnt = LANES;
		others[i] = &all[i];
	}
}

static void count_successes(unsigned backend, unsigned cnt)
{
	while (cnt--)
		(void)sl_health_ok(&all[backend], cnt % LANES, now_ns);
}

static void count_failures(unsigned backend, unsigned cnt)
{
	while (cnt--)
		sl_health_failed(&all[backend], cnt % LANES, now_ns);
}

/* Backend 0 is compared with the others. */
static bool is_outlier(void)
{
	return sl_health_is_outlier(&all[0], &rules, &others[1], BACKENDS - 1, now_ns);
}

static uint64_t eject(double unit)
{
	return sl_health_eject(&all[0], &rules, unit, now_ns);
}

FIXTURE(set_up, NULL)

TEST(failures_in_a_row_eject_a_backend_with_many_successes)
{
	count_successes(0, 100000);
	count_successes(1, 100000);
	count_failures(0, 2);
	ck_assert(!is_outlier());
	count_failures(0, 1);
	ck_assert(is_outlier());
}

TEST(a_success_ends_a_row_of_failures)
{
	count_successes(0, 100);
	for (unsigned i = 0; i < 20; i++) {
		count_failures(0, 2);
		count_successes(0, 3);
		ck_assert(!is_outlier());
	}
}

/* Failures of all workers count together. */
TEST(half_of_the_replies_eject_a_backend)
{
	count_failures(0, 2);
	count_successes(0, 3);
	ck_assert(!is_outlier());
	count_failures(0, 1);
	ck_assert(is_outlier());
	count_successes(0, 1);
	ck_assert(!is_outlier());
}

TEST(backends_that_fail_alike_stay)
{
	for (unsigned i = 0; i < BACKENDS; i++) {
		count_successes(i, 20);
		count_failures(i, 10);
	}
	ck_assert(!is_outlier());
	count_failures(0, 60);
	ck_assert(is_outlier());
}

TEST(old_failures_are_forgotten)
{
	count_failures(0, 2);
	now_ns += 5 * SL_OUTLIER_HALF_NS;
	ck_assert_uint_eq(sl_health_sum(&all[0], now_ns).failed, 0);
	count_successes(0, 1);
	count_failures(0, 2);
	ck_assert_uint_eq(sl_health_sum(&all[0], now_ns).failed, 2);
	ck_assert(!is_outlier());
}

TEST(back_off_doubles_while_trials_fail)
{
	for (unsigned n = 0; n < 10; n++) {
		unsigned level = n < SL_OUTLIER_DOUBLINGS ? n : SL_OUTLIER_DOUBLINGS;
		uint64_t time_ns = eject(0);

		ck_assert_uint_eq(time_ns, rules.time_ns << level);
		ck_assert_int_eq(sl_health_follow(&all[0], now_ns + time_ns - 1),
				 SL_HEALTH_EJECTED);
		now_ns += time_ns;
		ck_assert_int_eq(sl_health_follow(&all[0], now_ns), SL_HEALTH_TRIAL);
		count_failures(0, 1);
		ck_assert(is_outlier());
	}
	ck_assert_uint_eq(atomic_load(&all[0].ejections), 10);
}

TEST(back_off_has_jitter_of_at_most_a_quarter)
{
	uint64_t longest_ns = 0;
	struct sl_prng prng;

	sl_prng_seed(&prng, 7);
	for (unsigned n = 0; n < 1000; n++) {
		uint64_t time_ns;

		set_up();
		time_ns = eject(sl_prng_unit(&prng));
		ck_assert_uint_ge(time_ns, rules.time_ns);
		ck_assert_uint_le(time_ns, rules.time_ns + rules.time_ns / 4);
		longest_ns = time_ns > longest_ns ? time_ns : longest_ns;
	}
	ck_assert_uint_gt(longest_ns, rules.time_ns + rules.time_ns / 5);
}

TEST(a_long_time_up_makes_the_back_off_short_again)
{
	now_ns += eject(0);
	(void)sl_health_follow(&all[0], now_ns);
	ck_assert(sl_health_ok(&all[0], 0, now_ns));
	now_ns += SEC;
	ck_assert_uint_eq(eject(0), 2 * rules.time_ns);
	now_ns += 2 * rules.time_ns;
	(void)sl_health_follow(&all[0], now_ns);
	ck_assert(sl_health_ok(&all[0], 0, now_ns));
	now_ns += 60 * SEC;
	ck_assert_uint_eq(eject(0), rules.time_ns);
}

TEST(first_success_ends_the_trial)
{
	now_ns += eject(0);
	ck_assert(!sl_health_ok(&all[0], 0, now_ns)); /* a late reply */
	ck_assert_int_eq(sl_health_state(&all[0]), SL_HEALTH_EJECTED);
	ck_assert_int_eq(sl_health_follow(&all[0], now_ns), SL_HEALTH_TRIAL);
	ck_assert(sl_health_ok(&all[0], 1, now_ns));
	ck_assert_int_eq(sl_health_state(&all[0]), SL_HEALTH_UP);
	ck_assert(!sl_health_ok(&all[0], 1, now_ns));
	ck_assert_uint_eq(atomic_load(&all[0].up_ns), now_ns);
}

TEST(only_one_worker_ejects)
{
	ck_assert_uint_ne(eject(0), 0);
	ck_assert_uint_eq(eject(0), 0);
	ck_assert_uint_eq(atomic_load(&all[0].ejections), 1);
}

TEST(new_connection_ends_only_the_first_back_off)
{
	ck_assert(!sl_health_returned(&all[0]));
	(void)eject(0);
	ck_assert(sl_health_returned(&all[0]));
	ck_assert_int_eq(sl_health_follow(&all[0], now_ns), SL_HEALTH_TRIAL);
	(void)eject(0);
	ck_assert(!sl_health_returned(&all[0]));
	ck_assert_int_eq(sl_health_follow(&all[0], now_ns), SL_HEALTH_EJECTED);
}

TEST(at_most_half_of_a_pool_is_ejected)
{
	ck_assert(!sl_outlier_may_eject(1, 0));
	ck_assert(sl_outlier_may_eject(2, 0));
	ck_assert(!sl_outlier_may_eject(2, 1));
	ck_assert(!sl_outlier_may_eject(3, 1));
	ck_assert(sl_outlier_may_eject(1024, 511));
	ck_assert(!sl_outlier_may_eject(1024, 512));
}

TEST(ejections_are_ignored_below_a_third)
{
	ck_assert(!sl_outlier_panic(2, 1));
	ck_assert(!sl_outlier_panic(3, 2));
	ck_assert(sl_outlier_panic(4, 3));
	ck_assert(sl_outlier_panic(1, 1));
	ck_assert(!sl_outlier_panic(0, 0));
}

TEST(share_grows_from_a_tenth)
{
	ck_assert_uint_eq(sl_slow_start(0, 10 * SEC, now_ns), SL_WEIGHT_UNIT);
	ck_assert_uint_eq(sl_slow_start(now_ns, 10 * SEC, now_ns), SL_WEIGHT_FLOOR);
	ck_assert_uint_eq(sl_slow_start(now_ns, 10 * SEC, now_ns + 5 * SEC),
			  (SL_WEIGHT_FLOOR + SL_WEIGHT_UNIT) / 2);
	ck_assert_uint_eq(sl_slow_start(now_ns, 10 * SEC, now_ns + 10 * SEC), SL_WEIGHT_UNIT);
	ck_assert_uint_eq(sl_slow_start(now_ns, 0, now_ns), SL_WEIGHT_UNIT);
}
