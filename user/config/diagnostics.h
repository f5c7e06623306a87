/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is wrong with a file: a line for each mistake, "FILE:LINE: what was found; what is allowed",
 * told together in the order of the file.
 *
 *   conf_diag_add() ... -> conf_diags_print() -> conf_diags_free()
 *
 * The number is bounded: a file with more is not looked at any further.
 */
#ifndef SL_CONFIG_DIAGNOSTICS_H
#define SL_CONFIG_DIAGNOSTICS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { CONF_DIAGS_MAX = 100, CONF_DIAG_LEN = 1200 };

struct sl_config;

struct conf_diag {
	int line;
	const void *of; /* the object whose block it is in; NULL: of none */
	char *text;     /* NULL: no memory was left for it */
};

struct conf_diags {
	const char *file;
	const struct sl_config *cfg; /* tells the file of a line; NULL: all are of `file` */
	struct conf_diag list[CONF_DIAGS_MAX];
	uint32_t cnt;
};

void conf_diag_add(struct conf_diags *m, int line, const void *of, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));
static inline bool conf_diags_full(const struct conf_diags *m)
{
	return m->cnt == CONF_DIAGS_MAX;
}
/* Whether something in its block is wrong, so that what follows from it need not be told. */
bool conf_diags_has(const struct conf_diags *m, const void *of);
/* Whether there is one of no object in these lines. */
bool conf_diags_within(const struct conf_diags *m, int first, int last);
/* Lines with '\n' between them. What has no room is counted in a last line. */
void conf_diags_print(struct conf_diags *m, struct sl_err *err);
void conf_diags_free(struct conf_diags *m);

#endif
