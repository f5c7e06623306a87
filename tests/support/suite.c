/* SPDX-License-Identifier: Apache-2.0 */
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static Suite *suite;
/* Tests that have the fixture, name and timeout below; NULL when one of those has changed since. */
static TCase *group;
static const char *group_name = "tests";
static SFun fixture[2];
static bool fixture_once;
static double timeout_s;

static TCase *make_group(void)
{
	TCase *tc = tcase_create(group_name);

	if (!suite)
		suite = suite_create("tests");
	suite_add_tcase(suite, tc);
	if (timeout_s > 0)
		tcase_set_timeout(tc, timeout_s);
	else if (!getenv("CK_DEFAULT_TIMEOUT"))
		tcase_set_timeout(tc, 120);
	if (fixture_once)
		tcase_add_unchecked_fixture(tc, fixture[0], fixture[1]);
	else
		tcase_add_checked_fixture(tc, fixture[0], fixture[1]);
	return tc;
}

void suite_add_test(const TTest *test, int cnt)
{
	const char *only = getenv("SUITE_ONLY");

	if (only && strcmp(only, test->name) != 0)
		return;
	if (!group)
		group = make_group();
	tcase_add_loop_test(group, test, 0, cnt);
}

void suite_set_fixture(SFun set_up, SFun tear_down, bool once)
{
	fixture[0] = set_up;
	fixture[1] = tear_down;
	fixture_once = once;
	group = NULL;
}

void suite_set_group(const char *name)
{
	group_name = name;
	group = NULL;
}

void suite_set_timeout(double seconds)
{
	timeout_s = seconds;
	group = NULL;
}

/* Programs that have a main() of their own replace this one. */
__attribute__((weak)) int main(void)
{
	SRunner *sr;
	int failed;

	if (!suite)
		return EXIT_FAILURE;
	sr = srunner_create(suite);
	srunner_run_all(sr, CK_NORMAL);
	failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
