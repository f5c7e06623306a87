/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one text of a file and the files that it includes, and remembers which line is of which
 * file:
 *
 *   main.conf    user = www                  merged   1  main.conf:1     user = www
 *                include = "conf.d/a.conf"            2  main.conf:2
 *                log_level = warn                     3  conf.d/a.conf:1 route / { ... }
 *   a.conf       route / { ... }                      4  main.conf:2
 *                                                     5  main.conf:3     log_level = warn
 *
 * An included file is a sequence of whole statements. Its path is relative to the folder of the file
 * that includes it. Each file is scanned (scan.h) before it becomes part of the text.
 */
#ifndef SL_CONFIG_INCLUDE_H
#define SL_CONFIG_INCLUDE_H

#include "base/strbuf.h"
#include "config/file.h"
#include "config/parse.h"

/*
 * Appends `text` of the file `name` and all that it includes; changes text. Mistakes go to p, lines
 * and sources to p->cfg. id: NULL if the text is of no file.
 */
void conf_include(struct conf_parse *p, const char *name, const struct conf_file_id *id, char *text,
		  struct sl_strbuf *out);

#endif
