/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions about our own code, never about a peer's data. With SL_DEBUG they print and abort;
 * otherwise SL_CHECK does nothing. SL_ENSURE is for cheap conditions that protect the data of
 * others, and stays in every build: a false condition is counted and logged, and the caller skips
 * the step.
 */
#ifndef SL_BASE_CHECK_H
#define SL_BASE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

#ifdef SL_DEBUG
#define SL_CHECK(cond) ((cond) ? (void)0 : sl_check_failed(#cond, __FILE__, __LINE__))
#else
#define SL_CHECK(cond) ((void)sizeof(!(cond)))
#endif

/* Logs the failed condition and aborts. */
_Noreturn void sl_check_failed(const char *cond, const char *file, int line);

#define SL_ENSURE(cond)                                                                            \
	(__builtin_expect(!!(cond), 1) || (sl_check_broken(#cond, __FILE__, __LINE__), false))

/* Counts and logs. Returns false; aborts with SL_DEBUG. */
SL_COLD bool sl_check_broken(const char *cond, const char *file, int line);
uint64_t sl_checks_broken(void);

#define SL_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " size")
#define SL_ASSERT_OFFSET(type, field, offset)                                                      \
	_Static_assert(__builtin_offsetof(type, field) == (offset), #type "." #field " offset")

#define SL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
