/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions about our own code, never about what a peer sent: with SL_DEBUG they print and abort,
 * without they compile to nothing (the condition is not evaluated, but must compile).
 */
#ifndef SL_BASE_CHECK_H
#define SL_BASE_CHECK_H

#ifdef SL_DEBUG
#define SL_CHECK(cond) ((cond) ? (void)0 : sl_check_failed(#cond, __FILE__, __LINE__))
#else
#define SL_CHECK(cond) ((void)sizeof(!(cond)))
#endif

_Noreturn void sl_check_failed(const char *cond, const char *file, int line);

#define SL_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type " size")
#define SL_ASSERT_OFFSET(type, field, offset)                                                      \
	_Static_assert(__builtin_offsetof(type, field) == (offset), #type "." #field " offset")

#define SL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
