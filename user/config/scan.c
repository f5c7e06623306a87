/* SPDX-License-Identifier: Apache-2.0 */
#include "config/scan.h"

#include <stdio.h>
#include <string.h>

#include "config/aliases.h"
#include "config/names.h"

/*
 * A text without a closing quote ends at the next one's opening quote, as do all later ones. The
 * first is the mistake.
 */
static void note_span(struct conf_scan *s)
{
	const struct conf_lexer *l = &s->lex;

	if (l->line == l->start_line && !l->unclosed)
		return;
	if (!s->span.line || s->span.end != l->start_line) {
		s->span.line = l->start_line;
		s->span.statement = s->statement ? s->statement : l->start;
	}
	s->span.end = l->line;
	s->unclosed = s->unclosed || l->unclosed;
}

static void check_variable(struct conf_scan *s, const char *at)
{
	const int line = s->lex.start_line + s->shift;
	size_t len = conf_variable_len(at), value_len;

	if (len && conf_variable_value(at, &value_len))
		return;
	s->failed = true;
	if (len)
		conf_fail(s->p, line, NULL,
			  "found %.*s, which is not set in the environment; allowed: a variable "
			  "that is set, ${NAME:-DEFAULT}, or '${' in single quotes",
			  (int)(len < 100 ? len : 100), at);
	else
		conf_fail(s->p, line, NULL,
			  "found \"%.*s\" with an incomplete variable; allowed: ${NAME}, "
			  "${NAME:-DEFAULT}, or '${' in single quotes",
			  (int)strcspn(at, " \t\r\n\"") % 40, at);
}

static void check_variables(struct conf_scan *s)
{
	const bool quoted = *s->lex.start == '"';
	const char *at = s->lex.start, *end = s->lex.at;
	bool found = false;

	for (; at < end && *s->lex.start != '\''; at += at[0] == '\\' && quoted ? 2 : 1) {
		if (at[0] != '$' || at[1] != '{')
			continue;
		found = true;
		check_variable(s, at);
	}
	if (!found || quoted || s->failed ||
	    conf_variable_len(s->lex.start) == (size_t)(end - s->lex.start))
		return;
	s->failed = true;
	conf_fail(s->p, s->lex.start_line + s->shift, NULL,
		  "found %.*s without quotes; allowed: quotes around a text with a variable in it",
		  (int)(end - s->lex.start < 100 ? end - s->lex.start : 100), s->lex.start);
}

static enum conf_token next_token(struct conf_scan *s)
{
	enum conf_token t = conf_token_next(&s->lex);

	if (t != CONF_WORD)
		return t;
	if (strchr("\"'", *s->lex.start))
		note_span(s);
	check_variables(s);
	return t;
}

static bool blame_quote(struct conf_scan *s)
{
	bool found = s->span.line && *s->lex.start && s->lex.start_line == s->span.end;
	enum conf_token t = CONF_OTHER;

	while (!found && !s->unclosed && t != CONF_END) {
		t = conf_token_next(&s->lex);
		if (t == CONF_WORD && strchr("\"'", *s->lex.start))
			note_span(s);
	}
	if (!found && !s->unclosed)
		return false;
	s->cut = s->span.statement;
	conf_fail(s->p, s->span.line + s->shift, NULL,
		  "found a text without its closing quote; allowed: a quote at both ends, and \\ "
		  "before a quote in the text");
	return true;
}

static void stop_scan(struct conf_scan *s, int opened)
{
	s->stopped = s->p->stopped = true;
	if (!blame_quote(s) && opened)
		conf_fail(s->p, opened + s->shift, NULL,
			  "found { without its }; allowed: as many } as {");
}

static void skip_braces(struct conf_scan *s, int opened)
{
	unsigned depth = 1;

	while (depth) {
		enum conf_token t = next_token(s);

		depth += t == CONF_OPEN;
		depth -= t == CONF_CLOSE;
		if (t == CONF_END) {
			stop_scan(s, opened);
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

static void report_unknown(struct conf_scan *s, enum conf_block b, const char *name, int line)
{
	char names[900], hint[100];

	list_names(b, names, sizeof(names));
	conf_names_hint(b, name, hint, sizeof(hint));
	conf_fail(s->p, line + s->shift, NULL, "found unknown key \"%s\"%s; allowed: %s", name,
		  hint, names);
}

static void scan_block(struct conf_scan *s, enum conf_block b, int opened);

static void scan_rest(struct conf_scan *s, enum conf_block child, bool *failed)
{
	enum conf_token t = next_token(s), value = CONF_OTHER;

	if (t == CONF_WORD)
		t = next_token(s) == CONF_OPEN ? CONF_OPEN : CONF_OTHER;
	else if (t == CONF_ASSIGN)
		value = next_token(s);
	*failed = s->failed;
	if (t == CONF_OPEN && child != CONF_ROOT) {
		scan_block(s, child, s->lex.start_line);
		return;
	}
	if (t == CONF_OPEN || value == CONF_OPEN)
		skip_braces(s, s->lex.start_line);
	else if (value != CONF_WORD)
		stop_scan(s, 0);
	*failed = s->failed;
}

static void scan_statement(struct conf_scan *s, enum conf_block b)
{
	char name[64], *start = s->lex.start;
	const int line = s->lex.start_line;
	enum conf_block child;
	bool known, failed, was_stopped = s->stopped;

	snprintf(name, sizeof(name), "%.*s", (int)(s->lex.at - start), start);
	child = conf_block_child(b, name);
	known = child != CONF_ROOT || conf_key_find(b, name) >= 0 || conf_alias_find(b, name);
	s->statement = start;
	scan_rest(s, child, &failed);
	if (s->stopped && !was_stopped && !known && !s->cut) {
		s->cut = start;
		report_unknown(s, b, name, line);
	} else if (!known && !s->stopped) {
		report_unknown(s, b, name, line);
	}
	if (!s->stopped && (!known || failed))
		conf_blank(start, s->lex.at);
}

static void scan_block(struct conf_scan *s, enum conf_block b, int opened)
{
	while (!s->stopped) {
		enum conf_token t;

		s->failed = false;
		t = next_token(s);
		if (t == CONF_WORD) {
			scan_statement(s, b);
			continue;
		}
		if (t != CONF_CLOSE)
			stop_scan(s, t == CONF_END ? opened : 0);
		return;
	}
}

static bool is_include(const struct conf_lexer *l)
{
	static const char word[] = "include";

	return (size_t)(l->at - l->start) == strlen(word) &&
	       memcmp(l->start, word, strlen(word)) == 0;
}

static void take_word(struct conf_scan *s)
{
	if (s->word_cnt < CONF_MAX_WORDS)
		s->words[s->word_cnt++] =
			(struct conf_word){conf_word_text(s->p->arena, s->lex.start,
							  (size_t)(s->lex.at - s->lex.start)),
					   s->lex.start_line};
	else
		conf_fail(s->p, s->lex.start_line + s->shift, NULL,
			  "found more than %d patterns in an include; allowed: a further include",
			  CONF_MAX_WORDS);
}

static bool scan_include(struct conf_scan *s)
{
	enum conf_token t;

	s->statement = s->lex.start;
	s->word_cnt = 0;
	t = next_token(s) == CONF_ASSIGN ? next_token(s) : CONF_OTHER;
	if (t == CONF_WORD)
		take_word(s);
	if (t == CONF_OPEN) {
		while ((t = next_token(s)) == CONF_WORD || t == CONF_COMMA) {
			if (t == CONF_WORD)
				take_word(s);
		}
		t = t == CONF_CLOSE ? CONF_WORD : CONF_OTHER;
	}
	if (t != CONF_WORD) {
		stop_scan(s, 0);
		return false;
	}
	conf_blank(s->statement, s->lex.at);
	return !s->failed;
}

void conf_scan_begin(struct conf_scan *s, struct conf_parse *p, char *text, int shift)
{
	*s = (struct conf_scan){.p = p, .shift = shift, .lex = {.at = text, .line = 1}};
}

bool conf_scan_run(struct conf_scan *s)
{
	while (!s->stopped) {
		enum conf_token t;

		s->failed = false;
		t = next_token(s);
		if (t == CONF_END && !s->unclosed)
			return false;
		if (t != CONF_WORD)
			stop_scan(s, 0);
		else if (!is_include(&s->lex))
			scan_statement(s, CONF_ROOT);
		else if (scan_include(s))
			return true;
	}
	return false;
}
