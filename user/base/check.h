/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions about our own code, never about what a peer sent: with SL_DEBUG they print and abort.
 * Without, SL_CHECK compiles to nothing (the condition is not evaluated, but must compile).
 *
 * SL_ENSURE is for what costs next to nothing to ask, and others' data to get wrong: it stays in
 * every build, where it counts and says what is broken. It is false then, and the caller does
 * without the step: an object, an exchange or a connection is lost, the process is not.
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

_Noreturn void sl_check_failed(const char *cond, const char *file, int line);

#define SL_ENSURE(cond)                                                                            \
	(__builtin_expect(!!(cond), 1) || (sl_check_broken(#cond, __FILE__, __LINE__), false))

/* False; aborts with SL_DEBUG. */
SL_COLD bool sl_check_broken(const char *cond, const char *file, int line);
/* How often since the start. */
uint64_t sl_checks_broken(void);

#define SL_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " size")
#define SL_ASSERT_OFFSET(type, field, offset)                                                      \
	_Static_assert(__builtin_offsetof(type, field) == (offset), #type "." #field " offset")

#define SL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
