/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retry_budget.h"

#include "suite.h"

static struct sl_retry_budget budget;
static uint64_t now_ns;

static void set_up(void)
{
	budget = (struct sl_retry_budget){0};
	now_ns = 1000 * SL_NS_PER_SEC;
}

static unsigned take_all(void)
{
	unsigned n = 0;

	while (n < 1000000 && sl_retry_take(&budget, now_ns))
		n++;
	return n;
}

/* So many requests in each second. */
static void live(unsigned seconds, unsigned rate)
{
	while (seconds--) {
		now_ns += SL_NS_PER_SEC;
		for (unsigned i = 0; i < rate; i++)
			sl_retry_earn(&budget, now_ns);
	}
}

FIXTURE(set_up, NULL)

TEST(pool_without_traffic_has_three_retries_a_second)
{
	unsigned n = 0;

	ck_assert_uint_eq(take_all(), 30);
	now_ns += 100 * SL_NS_PER_SEC;
	(void)take_all();
	for (unsigned i = 0; i < 100; i++) {
		now_ns += SL_NS_PER_SEC;
		n += take_all();
	}
	ck_assert_uint_ge(n, 290);
	ck_assert_uint_le(n, 310);
}

TEST(returned_retry_can_be_taken_again)
{
	ck_assert_uint_eq(take_all(), 30);
	sl_retry_return(&budget);
	sl_retry_return(&budget);
	ck_assert_uint_eq(take_all(), 2);
}

TEST(retries_are_a_fifth_of_the_requests)
{
	unsigned n = 0;

	live(100, 1000);
	(void)take_all();
	for (unsigned i = 0; i < 100; i++) {
		live(1, 1000);
		n += take_all();
	}
	ck_assert_uint_ge(n, 19000);
	ck_assert_uint_le(n, 21000);
}

/* Ten seconds of requests count, also after a pause without retries. */
TEST(old_requests_earn_nothing)
{
	unsigned n;

	live(1000, 100);
	n = take_all();
	ck_assert_uint_ge(n, 180);
	ck_assert_uint_le(n, 240);
	live(1000, 100);
	now_ns += 1000 * SL_NS_PER_SEC;
	n = take_all();
	ck_assert_uint_ge(n, 25);
	ck_assert_uint_le(n, 31);
}
