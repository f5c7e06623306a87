/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scans a file before libconfuse, which stops at the first unknown name and closes open blocks
 * silently. Reports unknown names, unclosed texts and blocks, and unset variables; blanks
 * statements with unknown names or variables. Other syntax errors end the scan.
 *
 * Mistakes get the file's line plus `shift`, which the caller may change between two runs.
 */
#ifndef SL_CONFIG_SCAN_H
#define SL_CONFIG_SCAN_H

#include "config/parse.h"
#include "config/token.h"

enum { CONF_MAX_WORDS = 16 };

struct conf_word {
	const char *value;
	int line;
};

struct conf_scan {
	struct conf_parse *p;
	struct conf_lexer lex;
	int shift;
	bool stopped; /* the text behind lex.at was not scanned */
	char *cut;    /* text that libconfuse must not see, or NULL */
	struct conf_word words[CONF_MAX_WORDS];
	unsigned word_cnt;

	/* private */
	bool failed;     /* a variable of the statement is unset */
	bool unclosed;   /* the end of the file cuts off a quoted text */
	char *statement; /* begin of the innermost statement */
	struct {
		int line, end; /* lines of adjoining quoted texts with line breaks */
		char *statement;
	} span;
};

/* Begins a scan, which changes the caller's text. */
void conf_scan_begin(struct conf_scan *s, struct conf_parse *p, char *text, int shift);
/* Scans on. Returns true at an include statement; false: the end, or a mistake that stops. */
bool conf_scan_run(struct conf_scan *s);

#endif
