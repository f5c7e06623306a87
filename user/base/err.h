/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong, told to a person: what was expected, what was found, and what to do.
 *
 *   struct sl_err err = SL_ERR(256);
 *
 *   if (sl_thing_open(&t, &err) < 0)
 *           sl_log_err("%s", err.text);
 *
 * The memory is the caller's, who decides how much there is to say: a line, or one for each mistake
 * of a file. Whoever fails fills it and returns; what it called has filled it already. A later text
 * takes the place of an earlier one, and a longer one is cut. Without an error the text means
 * nothing. NULL in place of an sl_err: nobody wants to know.
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

/* Initialiser of one with that many bytes, which live as long as the block it stands in. */
#define SL_ERR(bytes)                                                                              \
	{                                                                                          \
		.text = (char[bytes]){""}, .size = (bytes)                                         \
	}

void sl_err_set(struct sl_err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Appends lines to those that are there; text must be initialised. Returns false, so that a list of
 * checks can note that one has failed.
 */
bool sl_err_add(struct sl_err *e, const char *lines);

/* Like sl_err_set(); returns res, so that a step can fail in one statement. */
SL_COLD int sl_fail(struct sl_err *e, int res, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
