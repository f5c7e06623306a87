/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A look at the names in a file before libconfuse reads it. That one stops at the first name that
 * it does not know, and takes the end of the file for the end of all blocks. So each unknown name
 * is told here and overwritten with blanks, with all that belongs to it, and a block that is not
 * closed is told as well. Anything else that is out of order ends the scan: libconfuse says what it
 * is.
 */
#include <stdio.h>
#include <string.h>

#include "config/parse.h"

enum token { END, WORD, ASSIGN, OPEN, CLOSE, COMMA, OTHER };

struct scan {
	struct conf_parse *p;
	char *at;    /* behind the token */
	char *start; /* of the token */
	int line, start_line;
	bool stopped;
};

static void advance(struct scan *s, size_t len)
{
	for (const char *end = s->at + len; s->at < end; s->at++)
		s->line += *s->at == '\n';
}

/* Of a comment or blanks at the border between two tokens; 0: a token begins. */
static size_t gap_len(const char *at)
{
	const char *end;

	if (*at == '#' || (at[0] == '/' && at[1] == '/'))
		return strcspn(at, "\n");
	if (at[0] == '/' && at[1] == '*') {
		end = strstr(at + 2, "*/");
		return end ? (size_t)(end - at) + 2 : strlen(at);
	}
	return strspn(at, " \t\r\n");
}

static size_t quoted_len(const char *at)
{
	const char *end = at + 1;

	for (; *end && *end != *at; end++)
		end += end[0] == '\\' && end[1];
	return (size_t)(end - at) + (*end != 0);
}

static size_t word_len(const char *at)
{
	const char *end = at;

	if (*at == '"' || *at == '\'')
		return quoted_len(at);
	while (*end && !strchr(" \t\r\n\"'={}(),#", *end) && !(end[0] == '+' && end[1] == '=')) {
		if (end[0] == '$' && end[1] == '{') /* of the environment */
			end += strcspn(end, "}");
		end += *end != 0;
	}
	return (size_t)(end - at);
}

static void blank(char *from, const char *to)
{
	for (; from < to; from++)
		*from = *from == '\n' ? '\n' : ' ';
}

static enum token next(struct scan *s)
{
	static const struct {
		const char *text;
		enum token t;
	} signs[] = {{"+=", ASSIGN}, {"=", ASSIGN}, {"{", OPEN}, {"}", CLOSE}, {",", COMMA}};
	size_t len;

	while ((len = gap_len(s->at))) {
		if (s->at[0] == '/' && s->at[1] == '*') /* libconfuse counts a line too many */
			blank(s->at, s->at + len);
		advance(s, len);
	}
	s->start = s->at;
	s->start_line = s->line;
	if (!*s->at)
		return END;
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		len = strlen(signs[i].text);
		if (strncmp(s->at, signs[i].text, len) == 0) {
			advance(s, len);
			return signs[i].t;
		}
	}
	len = word_len(s->at);
	advance(s, len ? len : 1);
	return len ? WORD : OTHER;
}

/* To the end of what a { has opened. */
static void skip_braces(struct scan *s, int opened)
{
	unsigned depth = 1;

	while (depth) {
		enum token t = next(s);

		depth += t == OPEN;
		depth -= t == CLOSE;
		if (t == END) {
			conf_fail(s->p, opened, NULL,
				  "found { without its }; allowed: as many } as {");
			s->stopped = true;
			return;
		}
	}
}

static void list_names(enum conf_block b, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = 0;
	for (size_t i = 0; i < conf_key_cnt && at < len; i++) {
		if (conf_keys[i].block == b)
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "",
					       conf_keys[i].name);
	}
	for (int k = CONF_ROOT + 1; k < CONF_BLOCK_CNT && at < len; k++) {
		if (conf_block_parent((enum conf_block)k) == b)
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "",
					       conf_block_bare((enum conf_block)k));
	}
}

/* The block of that name in b, or CONF_ROOT: there is none. */
static enum conf_block child_of(enum conf_block b, const char *name)
{
	for (int k = CONF_ROOT + 1; k < CONF_BLOCK_CNT; k++) {
		if (conf_block_parent((enum conf_block)k) == b &&
		    strcmp(conf_block_bare((enum conf_block)k), name) == 0)
			return (enum conf_block)k;
	}
	return CONF_ROOT;
}

static void scan_block(struct scan *s, enum conf_block b, int opened);

/* NAME = VALUE, NAME { ... } or NAME TITLE { ... }, where the name has been read. */
static void scan_statement(struct scan *s, enum conf_block b)
{
	char name[64], names[900], *start = s->start;
	const int line = s->start_line;
	enum conf_block child;
	bool known;
	enum token t, value = OTHER;

	snprintf(name, sizeof(name), "%.*s", (int)(s->at - start), start);
	child = child_of(b, name);
	known = child != CONF_ROOT || conf_key_find(b, name) >= 0;
	t = next(s);
	if (t == WORD)
		t = next(s) == OPEN ? OPEN : OTHER;
	else if (t == ASSIGN)
		value = next(s);
	if (t == OPEN && child != CONF_ROOT)
		scan_block(s, child, s->start_line);
	else if (t == OPEN || value == OPEN)
		skip_braces(s, s->start_line);
	else if (value != WORD)
		s->stopped = true;
	if (known || s->stopped)
		return;
	list_names(b, names, sizeof(names));
	conf_fail(s->p, line, NULL, "found unknown key \"%s\"; allowed: %s", name, names);
	blank(start, s->at);
}

static void scan_block(struct scan *s, enum conf_block b, int opened)
{
	while (!s->stopped) {
		enum token t = next(s);

		if (t == WORD) {
			scan_statement(s, b);
			continue;
		}
		if (t == END && b != CONF_ROOT) {
			conf_fail(s->p, opened, NULL,
				  "found { without its }; allowed: as many } as {");
			s->stopped = true;
		}
		if (t != END && !(t == CLOSE && b != CONF_ROOT))
			s->stopped = true;
		return;
	}
}

void conf_scan(struct conf_parse *p, char *text)
{
	struct scan s = {.p = p, .at = text, .line = 1};

	scan_block(&s, CONF_ROOT, 0);
}
