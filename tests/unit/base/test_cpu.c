/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h, clock.h and check.h */
#include "base/cpu.h"

#include <errno.h>
#include <sched.h>

#include "base/check.h"
#include "base/clock.h"
#include "unit.h"
#include "suite.h"

TEST(a_thread_can_be_pinned_where_it_may_run)
{
	unsigned cnt = sl_cpu_count();
	int last = sl_cpu_nth(cnt - 1);

	ck_assert_uint_ge(cnt, 1);
	ck_assert_int_ge(last, (int)cnt - 1);
	ck_assert_int_eq(sl_cpu_nth(cnt), -ERANGE);
	ck_assert_int_eq(sl_cpu_pin((unsigned)last), 0);
	ck_assert_int_eq(sched_getcpu(), last);
	ck_assert_uint_eq(sl_cpu_count(), 1);
	ck_assert_int_lt(sl_cpu_pin(1u << 20), 0);
}

TEST(the_clock_is_the_monotonic_one)
{
	struct timespec ts;
	uint64_t before = sl_now_ns(), now, after;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	after = sl_now_ns();
	now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	ck_assert_uint_le(before, now);
	ck_assert_uint_le(now, after);
}

static int evaluated;

static void check_false(void *arg)
{
	(void)arg;
	SL_CHECK(evaluated++ > 0);
}

TEST(checks_abort_in_debug_builds_only)
{
#ifdef SL_DEBUG
	ck_assert(aborts(check_false, NULL));
#else
	check_false(NULL);
	ck_assert_int_eq(evaluated, 0);
#endif
}
