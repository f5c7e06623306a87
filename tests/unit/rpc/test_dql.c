/* SPDX-License-Identifier: Apache-2.0 */
/* The learnt limit of posted bytes: finds what keeps the other side busy, and no more. */
#include "rpc/dql.h"
#include "suite.h"

enum { LEAST = 100, MAX = 10000 };

/*
 * A sender that looks once per turn and posts up to the limit; the other side takes up to `fast`
 * bytes per turn. Bytes taken in all.
 */
static uint64_t turns(struct sl_dql *l, uint32_t fast, unsigned cnt)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < cnt; i++) {
		uint32_t posted = l->limit, taken = posted < fast ? posted : fast;

		sum += taken;
		sl_dql_sample(l, posted - taken);
	}
	return sum;
}

TEST(the_limit_grows_until_the_other_side_is_busy)
{
	struct sl_dql l;

	sl_dql_init(&l, LEAST, MAX);
	turns(&l, 3000, 20);
	ck_assert_uint_gt(l.limit, 3000);
	ck_assert_uint_lt(l.limit, 3000 * 5 / 4 + 1);
	/* And the other side is hardly ever idle from then on. */
	ck_assert_uint_gt(turns(&l, 3000, 1000), UINT64_C(3000) * 1000 * 97 / 100);
}

TEST(the_limit_shrinks_when_there_is_to_spare)
{
	struct sl_dql l;

	sl_dql_init(&l, LEAST, MAX);
	turns(&l, 3000, 20);
	turns(&l, 500, 2000);
	ck_assert_uint_gt(l.limit, 500);
	ck_assert_uint_lt(l.limit, 500 * 5 / 4 + 1);
}

TEST(the_limit_stays_within_its_bounds)
{
	struct sl_dql l;

	sl_dql_init(&l, LEAST, MAX);
	ck_assert_uint_eq(l.limit, LEAST);
	turns(&l, UINT32_MAX, 100);
	ck_assert_uint_eq(l.limit, MAX);
	turns(&l, 1, 10000);
	ck_assert_uint_eq(l.limit, LEAST);
}
