/* SPDX-License-Identifier: Apache-2.0 */
/* The learnt limit of posted bytes: finds what keeps the other side busy, and no more. */
#include <check.h>
#include <stdlib.h>
#include "rpc/limit.h"

enum { LEAST = 100, MAX = 10000 };

/*
 * A sender that looks once per turn and posts up to the limit; the other side takes up to `fast`
 * bytes per turn. Bytes taken in all.
 */
static uint64_t turns(struct sl_limit *l, uint32_t fast, unsigned cnt)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < cnt; i++) {
		uint32_t posted = l->bytes, taken = posted < fast ? posted : fast;

		sum += taken;
		sl_limit_look(l, posted - taken);
	}
	return sum;
}

START_TEST(test_grows_until_busy)
{
	struct sl_limit l;

	sl_limit_init(&l, LEAST, MAX);
	turns(&l, 3000, 20);
	ck_assert_uint_gt(l.bytes, 3000);
	ck_assert_uint_lt(l.bytes, 3000 * 5 / 4 + 1);
	/* And the other side is hardly ever idle from then on. */
	ck_assert_uint_gt(turns(&l, 3000, 1000), UINT64_C(3000) * 1000 * 97 / 100);
}
END_TEST

START_TEST(test_shrinks_when_spare)
{
	struct sl_limit l;

	sl_limit_init(&l, LEAST, MAX);
	turns(&l, 3000, 20);
	turns(&l, 500, 2000);
	ck_assert_uint_gt(l.bytes, 500);
	ck_assert_uint_lt(l.bytes, 500 * 5 / 4 + 1);
}
END_TEST

START_TEST(test_bounds)
{
	struct sl_limit l;

	sl_limit_init(&l, LEAST, MAX);
	ck_assert_uint_eq(l.bytes, LEAST);
	turns(&l, UINT32_MAX, 100);
	ck_assert_uint_eq(l.bytes, MAX);
	turns(&l, 1, 10000);
	ck_assert_uint_eq(l.bytes, LEAST);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("limit");
	TCase *tc = tcase_create("limit");
	SRunner *sr;
	int failed;

	tcase_add_test(tc, test_grows_until_busy);
	tcase_add_test(tc, test_shrinks_when_spare);
	tcase_add_test(tc, test_bounds);
	suite_add_tcase(s, tc);
	sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
