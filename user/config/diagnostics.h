/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects a file's mistakes and prints them in order: "FILE:LINE: found X; allowed: Y". Parsing
 * stops at CONF_DIAGS_MAX mistakes.
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
	const void *of; /* NULL: none */
	char *text;
};

struct conf_diags {
	const char *file;
	const struct sl_config *cfg; /* NULL: all lines are of `file` */
	struct conf_diag list[CONF_DIAGS_MAX];
	uint32_t cnt;
};

/* Copies a mistake unless the list is full. `of`: its object, for conf_diags_has(). */
void conf_diag_add(struct conf_diags *m, int line, const void *of, const char *fmt, va_list ap)
	__attribute__((format(printf, 4, 0)));
/* Returns true if no more fit. */
static inline bool conf_diags_full(const struct conf_diags *m)
{
	return m->cnt == CONF_DIAGS_MAX;
}
/* Returns true if the object's block has a mistake, which hides later ones. */
bool conf_diags_has(const struct conf_diags *m, const void *of);
/* Returns true if these lines have a mistake of no object. */
bool conf_diags_within(const struct conf_diags *m, int first, int last);
/* Sorts mistakes, and writes a line each; the last one counts mistakes without room. */
void conf_diags_print(struct conf_diags *m, struct sl_err *err);
/* Frees the texts. */
void conf_diags_free(struct conf_diags *m);

#endif
