/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans the names in a file before libconfuse reads it. The library stops at the first unknown
 * name, and closes all blocks at the end of the text. So the scan reports unknown names, unclosed
 * texts and blocks, and unset variables. It blanks statements with unknown names or variables. Any
 * other syntax error ends the scan and is reported by libconfuse.
 *
 *   conf_scan_begin -> conf_scan_run ... true: an include statement in `words`; false: the end
 *
 * Mistakes get the file's line plus `shift`, which the caller may change between two runs.
 */
#ifndef SL_CONFIG_SCAN_H
#define SL_CONFIG_SCAN_H

#include "config/parse.h"
#include "config/token.h"

enum { CONF_MAX_WORDS = 16 /* words of an include statement */ };

struct conf_word {
	const char *value; /* NULL: out of memory */
	int line;          /* line in the file */
};

struct conf_scan {
	struct conf_parse *p;
	struct conf_lexer lex;
	int shift;
	bool stopped; /* nothing behind lex.at was looked at */
	char *cut;    /* NULL, or where text begins that libconfuse must not see */
	struct conf_word words[CONF_MAX_WORDS];
	unsigned word_cnt;

	/* private */
	bool failed;     /* the statement has a variable that is not set */
	bool unclosed;   /* the end of the file has cut off a quoted text */
	char *statement; /* begin of the innermost statement */
	struct {
		int line, end; /* lines of adjoining quoted texts with line breaks */
		char *statement;
	} span;
};

/* Prepares a scan of the caller's text, which the scan changes. */
void conf_scan_begin(struct conf_scan *s, struct conf_parse *p, char *text, int shift);
bool conf_scan_run(struct conf_scan *s);

#endif
