/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A test program is a list of sentences: each TEST() registers itself, suite.c has the main().
 *
 *   #include "suite.h"
 *
 *   FIXTURE(set_up, tear_down)     around each test below it, in the test's process; NULL: nothing
 *   TEST(a_closed_window_is_probed) { ... }
 *   TEST_EACH(every_case_is_refused, SL_ARRAY_LEN(cases)) { ... cases[_i] ... }
 *
 * Tests run in the order of the file. Each test, and each case of TEST_EACH, is a process of its
 * own. Its limit is CK_DEFAULT_TIMEOUT seconds (default 120), or the SUITE_TIMEOUT above it.
 * SUITE_ONLY=name runs that test only.
 */
#ifndef SL_TESTS_SUITE_H
#define SL_TESTS_SUITE_H

#include <check.h>
#include <stdbool.h>

/* A fixture, a group and a timeout are those of the tests that are added after them. */
void suite_add_test(const TTest *test, int cnt);
void suite_set_fixture(SFun set_up, SFun tear_down, bool once);
void suite_set_group(const char *name);
void suite_set_timeout(double seconds);

#define SUITE_PASTE_(a, b) a##b
#define SUITE_PASTE(a, b)  SUITE_PASTE_(a, b)
/* A function that runs before main(); those of a file run in its order. */
#define SUITE_BEFORE_MAIN                                                                          \
	__attribute__((constructor)) static void SUITE_PASTE(suite_, __COUNTER__)(void)

#define TEST(name) TEST_EACH(name, 1)

/* Once for each _i from 0 to cnt - 1. */
#define TEST_EACH(name, cnt)                                                                       \
	static void name##_fn(int _i);                                                             \
	SUITE_BEFORE_MAIN                                                                          \
	{                                                                                          \
		static const TTest test = {#name, name##_fn, __FILE__, __LINE__};                  \
		suite_add_test(&test, (int)(cnt));                                                 \
	}                                                                                          \
	static void name##_fn(int _i __attribute__((unused)))

#define FIXTURE(set_up, tear_down)                                                                 \
	SUITE_BEFORE_MAIN                                                                          \
	{                                                                                          \
		suite_set_fixture(set_up, tear_down, false);                                       \
	}

/* Once for all tests below it, in the process that starts theirs: for what they only read. */
#define FIXTURE_ONCE(set_up, tear_down)                                                            \
	SUITE_BEFORE_MAIN                                                                          \
	{                                                                                          \
		suite_set_fixture(set_up, tear_down, true);                                        \
	}

/* The tests below it are those that CK_RUN_CASE=name selects. */
#define GROUP(name)                                                                                \
	SUITE_BEFORE_MAIN                                                                          \
	{                                                                                          \
		suite_set_group(#name);                                                            \
	}

#define SUITE_TIMEOUT(seconds)                                                                     \
	SUITE_BEFORE_MAIN                                                                          \
	{                                                                                          \
		suite_set_timeout(seconds);                                                        \
	}

#endif
