/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the text of a configuration into tokens, as libconfuse does: words, quoted texts and signs.
 *
 * The text is the caller's. Comments in it are overwritten with blanks, because libconfuse counts
 * too many lines for them. The rest stays as it is.
 */
#ifndef SL_CONFIG_TOKEN_H
#define SL_CONFIG_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

struct conf_arena;

enum conf_token { CONF_END, CONF_WORD, CONF_ASSIGN, CONF_OPEN, CONF_CLOSE, CONF_COMMA, CONF_OTHER };

struct conf_lexer {
	char *at;    /* first byte behind the token */
	char *start; /* first byte of the token */
	int line, start_line;
	bool unclosed; /* the token is a quoted text that the text's end has cut off */
};

/* Moves to the next token and returns its kind. */
enum conf_token conf_token_next(struct conf_lexer *l);

/* Overwrites a piece of the text with blanks; its lines stay. */
void conf_blank(char *from, const char *to);

/*
 * A reference to the environment: ${NAME} or ${NAME:-DEFAULT}. Returns its length, or 0 if the text
 * does not begin with one.
 */
size_t conf_variable_len(const char *text);
/* Returns the value of a reference, or NULL if the environment has none; *len is the value's length. */
const char *conf_variable_value(const char *text, size_t *len);

/* Returns what a word or quoted text stands for, as libconfuse has it; NULL: out of memory. */
char *conf_word_text(struct conf_arena *a, const char *start, size_t len);

#endif
