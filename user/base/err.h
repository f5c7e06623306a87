/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages: what was found, what is allowed, what to do.
 *
 *   struct sl_err err = SL_ERR(256);
 *
 *   if (sl_thing_open(&t, &err) < 0)
 *           sl_log_err("%s", err.text);
 *
 * The caller owns the memory. The function that detects the error sets the text; its callers only
 * return. A later text replaces an earlier one; a long one is cut. The text is meaningless without
 * an error. NULL instead of an sl_err drops the text.
 */
#ifndef SL_BASE_ERR_H
#define SL_BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cpu.h"

struct sl_err {
	char *text; /* NUL-terminated, unless size is 0 */
	size_t size;
};

/* Valid until the end of the enclosing block. */
#define SL_ERR(bytes)                                                                              \
	{                                                                                          \
		.text = (char[bytes]){""}, .size = (bytes)                                         \
	}

/* Sets the text. */
void sl_err_set(struct sl_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends lines to an initialised text. Returns false. */
bool sl_err_add(struct sl_err *e, const char *lines);

/* Like sl_err_set(); returns res. */
SL_COLD int sl_fail(struct sl_err *e, int res, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
