/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wakeup_cost.h"

#include <sched.h>
#include <string.h>

#include "base/cpu.h"
#include "unit.h"
#include "suite.h"

TEST(a_wake_up_costs_something_bounded)
{
	uint64_t cost = sl_wakeup_cost_ns(sl_cpu_nth(0));

	ck_assert_uint_ge(cost, SL_WAKEUP_MIN_NS);
	ck_assert_uint_le(cost, SL_WAKEUP_MAX_NS);
	cost = sl_wakeup_cost_ns(-1);
	ck_assert_uint_ge(cost, SL_WAKEUP_MIN_NS);
	ck_assert_uint_le(cost, SL_WAKEUP_MAX_NS);
}

TEST(the_caller_stays_where_it_was)
{
	cpu_set_t before, after;

	ck_assert_int_eq(sl_cpu_pin((unsigned)sl_cpu_nth(0)), 0);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(before), &before), 0);
	sl_wakeup_cost_ns(sl_cpu_nth(0));
	ck_assert_int_eq(sched_getaffinity(0, sizeof(after), &after), 0);
	ck_assert(CPU_EQUAL(&before, &after));
}

TEST(a_processor_that_is_not_there_is_no_error)
{
	ck_assert_uint_ge(sl_wakeup_cost_ns(1 << 20), SL_WAKEUP_MIN_NS);
}
