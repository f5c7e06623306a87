/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges a file and the files that it includes, and records where each line comes from.
 *
 * An included file has whole statements. Relative paths start at the folder of the including file.
 */
#ifndef SL_CONFIG_INCLUDE_H
#define SL_CONFIG_INCLUDE_H

#include "base/strbuf.h"
#include "config/file.h"
#include "config/parse.h"

/*
 * Appends `text` of the file `name` with its includes; changes text. Mistakes go to p, lines and
 * sources to p->cfg. id: NULL if the text is of no file.
 */
void conf_include(struct conf_parse *p, const char *name, const struct conf_file_id *id, char *text,
		  struct sl_strbuf *out);

#endif
