/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces former names of keys in a configuration. Statements of other blocks today move there.
 * Included files are not changed.
 */
#ifndef SL_CONFIG_FIX_H
#define SL_CONFIG_FIX_H

#include "base/err.h"
#include "base/strbuf.h"

/*
 * Appends the new text to `out`. Returns 0, or -1 after a syntax error or if a value has no
 * equivalent. `name`: the file's, in err.
 */
int sl_config_fix(const char *text, const char *name, struct sl_strbuf *out, struct sl_err *err);
/* The same for a file. */
int sl_config_fix_file(const char *file, struct sl_strbuf *out, struct sl_err *err);

#endif
