/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits the caller's text into tokens, as libconfuse does. Comments are blanked: libconfuse
 * miscounts their lines.
 */
#ifndef SL_CONFIG_TOKEN_H
#define SL_CONFIG_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

struct conf_arena;

enum conf_token { CONF_END, CONF_WORD, CONF_ASSIGN, CONF_OPEN, CONF_CLOSE, CONF_COMMA, CONF_OTHER };

struct conf_lexer {
	char *at;
	char *start;
	int line, start_line;
	bool unclosed; /* the end of the text cuts off the quoted text */
};

/* Returns the next token; its text is from `start` to `at`. */
enum conf_token conf_token_next(struct conf_lexer *l);

/* Overwrites text with blanks, except line breaks. */
void conf_blank(char *from, const char *to);

/* Returns the length of a leading ${NAME} or ${NAME:-DEFAULT}, or 0. */
size_t conf_variable_len(const char *text);
/* Returns the value or default, not terminated; NULL: none. Needs a variable's text. */
const char *conf_variable_value(const char *text, size_t *len);

/* Returns the value of a word or quoted text as in libconfuse; NULL: no memory. */
char *conf_word_text(struct conf_arena *a, const char *start, size_t len);

#endif
