/* SPDX-License-Identifier: Apache-2.0 */
/* The law of how many requests a server gets at a time, against servers that are formulas. */
#include "origin/concurrency_limit.h"
#include "suite.h"

#define MS 1000000u

static struct origin_concurrency_limit l;

/* So many requests, always as many at a time as the limit says; a server of `cores`, `ms` each. */
static void serve(unsigned requests, unsigned cores, unsigned ms, unsigned offered)
{
	for (unsigned i = 0; i < requests; i++) {
		unsigned at_once = origin_concurrency_limit_now(&l) < offered
					   ? origin_concurrency_limit_now(&l)
					   : offered;
		uint64_t ns = (uint64_t)ms * MS;

		if (at_once > cores)
			ns = ns * at_once / cores;
		origin_concurrency_limit_sample(&l, ns, at_once);
	}
}

TEST(a_server_that_does_not_become_slower_gets_more)
{
	origin_concurrency_limit_init(&l, 0);
	serve(60000, 100000, 5, 100000);
	ck_assert_uint_eq(origin_concurrency_limit_now(&l), ORIGIN_CONCURRENCY_MAX);
}

TEST(an_unused_limit_is_not_raised)
{
	origin_concurrency_limit_init(&l, 0);
	serve(20000, 100000, 5, 3);
	ck_assert_uint_eq(origin_concurrency_limit_now(&l), ORIGIN_CONCURRENCY_START);
}

/* It settles above what keeps all cores busy, and far below the end of the scale. */
TEST(a_server_that_queues_gets_about_its_capacity)
{
	origin_concurrency_limit_init(&l, 0);
	serve(3000, 32, 5, 100000);
	ck_assert_uint_ge(origin_concurrency_limit_now(&l), 32);
	ck_assert_uint_le(origin_concurrency_limit_now(&l), 160);
}

TEST(a_slower_server_gets_less_and_later_more_again)
{
	unsigned before;

	origin_concurrency_limit_init(&l, 0);
	serve(3000, 200, 5, 100000);
	before = origin_concurrency_limit_now(&l);
	serve(600, 20, 5, 100000);
	ck_assert_uint_lt(origin_concurrency_limit_now(&l), before);
	serve(20000, 100000, 5, 100000);
	ck_assert_uint_gt(origin_concurrency_limit_now(&l), before);
}

TEST(a_number_stays)
{
	origin_concurrency_limit_init(&l, 7);
	serve(1000, 1, 100, 100);
	ck_assert_uint_eq(origin_concurrency_limit_now(&l), 7);
}
