/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fair_share.h"

#include "unit.h"
#include "suite.h"

#define MS SL_NS_PER_MS

static struct sl_fair_share fresh(void)
{
	struct sl_fair_share s = {0};

	sl_fair_share_update(&s, 7000 * MS, 3 * MS);
	s.credit_ns = 0;
	return s;
}

TEST(a_tenth_of_the_time_is_earned)
{
	struct sl_fair_share s = fresh();

	unit_check(sl_fair_share_update(&s, s.now_ns + 100 * MS, s.used_ns));
	ck_assert_int_eq(s.credit_ns, 10 * MS);
	unit_check(!sl_fair_share_update(&s, s.now_ns, s.used_ns + 10 * MS));
	ck_assert_int_eq(s.credit_ns, 0);
}

TEST(credit_stays_at_a_tenth_of_the_processor)
{
	struct sl_fair_share s = fresh();

	s.credit_ns = 1;
	for (int i = 0; i < 1000; i++)
		unit_check(sl_fair_share_update(&s, s.now_ns + 10 * MS, s.used_ns + MS));
	ck_assert_int_eq(s.credit_ns, 1);
}

TEST(debt_from_an_idle_processor_is_bounded)
{
	struct sl_fair_share s = fresh();

	unit_check(!sl_fair_share_update(&s, s.now_ns + 60000 * MS, s.used_ns + 60000 * MS));
	ck_assert_int_eq(s.credit_ns, -SL_FAIR_SHARE_DEBT);
	unit_check(!sl_fair_share_update(&s, s.now_ns + 100 * MS, s.used_ns));
	unit_check(sl_fair_share_update(&s, s.now_ns + 1 * MS, s.used_ns));
}

TEST(savings_are_bounded_and_smaller_without_demand)
{
	struct sl_fair_share s = fresh();

	unit_check(sl_fair_share_update(&s, s.now_ns + 60000 * MS, s.used_ns));
	ck_assert_int_eq(s.credit_ns, SL_FAIR_SHARE_MOST);
	sl_fair_share_begin(&s, s.now_ns + 60000 * MS, s.used_ns);
	ck_assert_int_eq(s.credit_ns, SL_FAIR_SHARE_SAVED);
	unit_check(!sl_fair_share_update(&s, s.now_ns, s.used_ns + 20 * MS));
}
