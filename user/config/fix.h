/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites former names of keys in the text of a configuration. Comments and layout stay. A statement
 * that belongs into another block today moves there:
 *
 *   limits { keepalive = 5s }         ->  tcp { keepalive = 5s }
 *   route "/" { reply = 204 }         ->  route "/" { respond { status = 204 } }
 *
 * The function changes nothing else. An included file is fixed by itself.
 */
#ifndef SL_CONFIG_FIX_H
#define SL_CONFIG_FIX_H

#include "base/err.h"
#include "base/strbuf.h"

/*
 * Appends the new text to `out`. Returns 0, or -1 and a line in err if the text has a syntax error
 * or a value has no equivalent. `name` is the file's name in that line.
 */
int sl_config_fix(const char *text, const char *name, struct sl_strbuf *out, struct sl_err *err);
/* Reads a file and does the same. */
int sl_config_fix_file(const char *file, struct sl_strbuf *out, struct sl_err *err);

#endif
