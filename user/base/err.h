/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages.
 *
 *   struct sl_err err = SL_ERR(256);
 *
 *   if (sl_thing_open(&t, &err) < 0)
 *           sl_log_err("%s", err.text);
 *
 * Functions that can fail return 0 or -errno, or a pointer or NULL, unless their comment differs.
 * Functions with an sl_err also set one line in it.
 *
 * The function that detects the error sets the text. A NULL sl_err drops the text.
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

/* Formats the text. */
void sl_err_set(struct sl_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends a newline, if not empty, and lines. Returns false. */
bool sl_err_add(struct sl_err *e, const char *lines);

/* Like sl_err_set(); returns res. */
SL_COLD int sl_fail(struct sl_err *e, int res, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
