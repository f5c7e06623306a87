/* SPDX-License-Identifier: Apache-2.0 */
/* Waits, without a pause, for what other threads or the kernel bring about; fails if that takes too long. */
#ifndef TESTS_SUPPORT_UNTIL_H
#define TESTS_SUPPORT_UNTIL_H

#include "base/clock.h"
#include "suite.h"

/* Shorter than what libcheck and its runner allow a test: this one says what did not come. */
enum { UNTIL_S = 100 };

#define until(cond)                                                                                \
	do {                                                                                       \
		uint64_t until_ = sl_now_ns() + UNTIL_S * SL_NS_PER_SEC;                           \
		while (!(cond))                                                                    \
			ck_assert_msg(sl_now_ns() < until_, "no end: " #cond);                     \
	} while (0)

#endif
