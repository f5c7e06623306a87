/* SPDX-License-Identifier: Apache-2.0 */
#include "config/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "config/arena.h"

static void skip_bytes(struct conf_lexer *l, size_t len)
{
	for (const char *end = l->at + len; l->at < end; l->at++)
		l->line += *l->at == '\n';
}

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

static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_';
}

size_t conf_variable_len(const char *text)
{
	size_t len = 2;

	if (text[0] != '$' || text[1] != '{')
		return 0;
	while (is_name_byte(text[len]))
		len++;
	if (len == 2)
		return 0;
	if (text[len] == ':' && text[len + 1] == '-')
		len += strcspn(text + len, "}\n");
	return text[len] == '}' ? len + 1 : 0;
}

const char *conf_variable_value(const char *text, size_t *len)
{
	char name[128];
	const char *value = NULL;
	size_t name_len = 2;

	while (is_name_byte(text[name_len]))
		name_len++;
	if (name_len - 2 < sizeof(name)) {
		snprintf(name, sizeof(name), "%.*s", (int)name_len - 2, text + 2);
		value = getenv(name);
	}
	if (value) {
		*len = strlen(value);
	} else if (text[name_len] == ':') {
		value = text + name_len + 2;
		*len = strcspn(value, "}");
	}
	return value;
}

static size_t quoted_len(const char *at, bool *unclosed)
{
	const char *end = at + 1;

	while (*end && *end != *at) {
		size_t variable = *at == '"' ? conf_variable_len(end) : 0;

		if (end[0] == '\\' && end[1])
			end += 2;
		else
			end += variable ? variable : 1;
	}
	*unclosed = !*end;
	return (size_t)(end - at) + (*end != 0);
}

static size_t word_len(const char *at, bool *unclosed)
{
	const char *end = at;

	if (*at == '"' || *at == '\'')
		return quoted_len(at, unclosed);
	while (*end && (conf_variable_len(end) || !strchr(" \t\r\n\"'={}(),#", *end)) &&
	       !(end[0] == '+' && end[1] == '=')) {
		size_t variable = conf_variable_len(end);

		end += variable ? variable : 1;
	}
	return (size_t)(end - at);
}

void conf_blank(char *from, const char *to)
{
	for (; from < to; from++)
		*from = *from == '\n' ? '\n' : ' ';
}

enum conf_token conf_token_next(struct conf_lexer *l)
{
	static const struct {
		const char *text;
		enum conf_token t;
	} signs[] = {{"+=", CONF_ASSIGN},
		     {"=", CONF_ASSIGN},
		     {"{", CONF_OPEN},
		     {"}", CONF_CLOSE},
		     {",", CONF_COMMA}};
	size_t len;

	l->unclosed = false;
	while ((len = gap_len(l->at))) {
		conf_blank(l->at, l->at + len);
		skip_bytes(l, len);
	}
	l->start = l->at;
	l->start_line = l->line;
	if (!*l->at)
		return CONF_END;
	for (size_t i = 0; i < SL_ARRAY_LEN(signs); i++) {
		len = strlen(signs[i].text);
		if (strncmp(l->at, signs[i].text, len) == 0) {
			skip_bytes(l, len);
			return signs[i].t;
		}
	}
	len = word_len(l->at, &l->unclosed);
	skip_bytes(l, len ? len : 1);
	return len ? CONF_WORD : CONF_OTHER;
}

static size_t take_element(const char *at, char quote, char **out)
{
	size_t variable = quote == '\'' ? 0 : conf_variable_len(at), len;
	const char *value;

	if (variable) {
		value = conf_variable_value(at, &len);
		if (value)
			memcpy(*out, value, len);
		*out += value ? len : 0;
		return variable;
	}
	if (quote && at[0] == '\\' && at[1])
		at++;
	else
		quote = 0;
	*(*out)++ = *at;
	return quote ? 2 : 1;
}

char *conf_word_text(struct conf_arena *a, const char *start, size_t len)
{
	const char quote = *start == '"' || *start == '\'' ? *start : 0;
	const char *at = start + (quote != 0), *end = start + len - (quote != 0);
	size_t room = len + 1, value_len;
	char *text, *out;

	for (const char *v = at; v < end; v++) {
		if (conf_variable_len(v) && conf_variable_value(v, &value_len))
			room += value_len;
	}
	text = out = conf_arena_alloc(a, room);
	while (text && at < end)
		at += take_element(at, quote, &out);
	return text;
}
