/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions about our own code, never about a peer's data. With SL_DEBUG they abort; otherwise
 * SL_CHECK does nothing. SL_ENSURE, for cheap conditions that protect others' data, counts and logs
 * in every build, and the caller skips the step.
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

/* Logs the condition and aborts. */
_Noreturn void sl_check_failed(const char *cond, const char *file, int line);

#define SL_ENSURE(cond)                                                                            \
	(__builtin_expect(!!(cond), 1) || (sl_check_broken(#cond, __FILE__, __LINE__), false))

/* Counts and logs the condition. Returns false; SL_DEBUG: aborts. Any thread. */
SL_COLD bool sl_check_broken(const char *cond, const char *file, int line);
/* Returns the count. Any thread. */
uint64_t sl_checks_broken(void);

#define SL_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " size")
#define SL_ASSERT_OFFSET(type, field, offset)                                                      \
	_Static_assert(__builtin_offsetof(type, field) == (offset), #type "." #field " offset")

#define SL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
