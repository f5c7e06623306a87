/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of libcheck. A ck_assert() that passes writes its place to a file, for the report of a
 * crash. Here each place is written once per test, because the system calls took longer than loops
 * of assertions.
 */
#ifndef SL_TESTS_CHECK_H
#define SL_TESTS_CHECK_H

#include_next <check.h>

#define _mark_point(file, line)                                                                    \
	({                                                                                         \
		static _Bool marked_;                                                              \
		if (!marked_) {                                                                    \
			marked_ = 1;                                                               \
			(_mark_point)(file, line);                                                 \
		}                                                                                  \
	})

#endif
