/* SPDX-License-Identifier: Apache-2.0 */
#include "config/fix.h"

#include <stdlib.h>
#include <string.h>

#include "config/aliases.h"
#include "config/config.h"
#include "config/file.h"
#include "config/token.h"

struct fix_edit {
	size_t at, len;
	const char *text;
};

struct fix_block {
	enum conf_block block;
	size_t begin, open, close;
	const char *moved;
	uint32_t first_edit;
	size_t respond_close;
};

struct fix {
	const char *text, *name;
	char *copy;
	struct conf_lexer lex;
	struct conf_arena *arena;
	struct fix_edit *edits;
	uint32_t edit_cnt;
	const char *moved[CONF_BLOCK_CNT];
	size_t close[CONF_BLOCK_CNT];
	size_t limits_begin, limits_open, limits_close;
	struct sl_err *err;
};

static enum conf_token next_token(struct fix *f)
{
	enum conf_token t = conf_token_next(&f->lex);

	return f->lex.unclosed ? CONF_OTHER : t;
}

static size_t offset_of(const struct fix *f, const char *at)
{
	return (size_t)(at - f->copy);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static int fail_memory(struct fix *f)
{
	return sl_fail(f->err, -1, "%s:0: found too little memory", f->name);
}

static int add_edit(struct fix *f, size_t at, size_t len, const char *text)
{
	struct fix_edit *more = conf_arena_grow(f->arena, f->edits, f->edit_cnt, sizeof(*more));

	if (!more || !text)
		return fail_memory(f);
	f->edits = more;
	more[f->edit_cnt++] = (struct fix_edit){at, len, text};
	return 0;
}

static struct fix_edit deletion_of(const struct fix *f, size_t begin, size_t end)
{
	size_t from = begin, to = end;

	while (from && is_blank(f->text[from - 1]))
		from--;
	while (is_blank(f->text[to]))
		to++;
	if (!from || f->text[from - 1] == '\n') {
		if (f->text[to] != '\n')
			from = begin;
		else
			to++;
	} else if (f->text[to] && f->text[to] != '\n') {
		to = end;
	}
	return (struct fix_edit){from, to - from, ""};
}

static int delete_statement(struct fix *f, size_t begin, size_t end)
{
	const struct fix_edit e = deletion_of(f, begin, end);

	return add_edit(f, e.at, e.len, e.text);
}

static int add_moved(struct fix *f, const char **moved, const char *name, const char *value)
{
	*moved = conf_arena_printf(f->arena, "%s%s%s = %s", *moved ? *moved : "", *moved ? " " : "",
				   name, value);
	return *moved ? 0 : fail_memory(f);
}

static const char *new_value(struct fix *f, const struct conf_alias *a, size_t at, size_t end)
{
	const char *old = conf_arena_strndup(f->arena, f->text + at, end - at), *value = NULL;
	char *word;

	if (!old) {
		fail_memory(f);
		return NULL;
	}
	if (!a->value)
		return old;
	word = conf_word_text(f->arena, old, strlen(old));
	if (word && !strstr(old, "${"))
		value = a->value(word);
	if (!value)
		sl_fail(f->err, -1, "%s:%d: found %s = %s; allowed: %s", f->name, f->lex.start_line,
			a->name, old, a->allowed);
	return value;
}

static int fix_alias(struct fix *f, struct fix_block *in, const struct conf_alias *a, size_t begin,
		     size_t value_at, size_t end)
{
	const char *value = new_value(f, a, value_at, end);

	if (!value)
		return -1;
	if (!value[0])
		return delete_statement(f, begin, end);
	if (a->new_block == a->block) {
		if (add_edit(f, begin, strlen(a->name), a->new_name))
			return -1;
		return a->value ? add_edit(f, value_at, end - value_at, value) : 0;
	}
	if (a->new_block != CONF_RESPOND)
		return add_moved(f, &f->moved[a->new_block], a->new_name, value) ||
				       delete_statement(f, begin, end)
			       ? -1
			       : 0;
	if (!in->moved) {
		in->first_edit = f->edit_cnt;
		return add_edit(f, begin, end - begin, "") ||
				       add_moved(f, &in->moved, a->new_name, value)
			       ? -1
			       : 0;
	}
	return add_moved(f, &in->moved, a->new_name, value) || delete_statement(f, begin, end) ? -1
											       : 0;
}

static const char *before_close(struct fix *f, size_t close, const char *moved)
{
	return conf_arena_printf(f->arena, "%s%s ", is_blank(f->text[close - 1]) ? "" : " ", moved);
}

static int end_route(struct fix *f, const struct fix_block *r)
{
	struct fix_edit *first;

	if (!r->moved)
		return 0;
	first = &f->edits[r->first_edit];
	if (r->respond_close) {
		*first = deletion_of(f, first->at, first->at + first->len);
		return add_edit(f, r->respond_close, 0,
				before_close(f, r->respond_close, r->moved));
	}
	first->text = conf_arena_printf(f->arena, "respond { %s }", r->moved);
	return first->text ? 0 : fail_memory(f);
}

static int end_block(struct fix *f, struct fix_block *in, const struct fix_block *b)
{
	switch (b->block) {
	case CONF_ROUTE: return end_route(f, b);
	case CONF_RESPOND: in->respond_close = b->close; return 0;
	case CONF_LIMITS:
		f->limits_begin = b->begin;
		f->limits_open = b->open;
		f->limits_close = b->close;
		return 0;
	default: f->close[b->block] = b->close; return 0;
	}
}

static int fail_syntax(struct fix *f)
{
	return sl_fail(
		f->err, -1,
		"%s:%d: found text that cannot be taken apart here; allowed: what `sluice check` "
		"accepts",
		f->name, f->lex.start_line);
}

static int skip_braces(struct fix *f)
{
	for (unsigned depth = 1; depth;) {
		enum conf_token t = next_token(f);

		if (t == CONF_END)
			return fail_syntax(f);
		depth += t == CONF_OPEN;
		depth -= t == CONF_CLOSE;
	}
	return 0;
}

static int fix_statements(struct fix *f, struct fix_block *in);

static int fix_statement(struct fix *f, struct fix_block *in)
{
	const size_t begin = offset_of(f, f->lex.start), len = offset_of(f, f->lex.at) - begin;
	const char *name = conf_arena_strndup(f->arena, f->text + begin, len);
	struct fix_block b = {.begin = begin};
	const struct conf_alias *a;
	enum conf_token t = next_token(f);
	size_t value_at;

	if (!name)
		return fail_memory(f);
	if (t == CONF_ASSIGN) {
		t = next_token(f);
		value_at = offset_of(f, f->lex.start);
		if (t == CONF_OPEN)
			return skip_braces(f);
		a = conf_alias_find(in->block, name);
		if (t != CONF_WORD)
			return fail_syntax(f);
		return a ? fix_alias(f, in, a, begin, value_at, offset_of(f, f->lex.at)) : 0;
	}
	if (t == CONF_WORD)
		t = next_token(f);
	if (t != CONF_OPEN)
		return fail_syntax(f);
	b.block = conf_block_child(in->block, name);
	if (b.block == CONF_ROOT)
		return skip_braces(f);
	b.open = offset_of(f, f->lex.at);
	if (fix_statements(f, &b))
		return -1;
	b.close = offset_of(f, f->lex.start);
	return end_block(f, in, &b);
}

static int fix_statements(struct fix *f, struct fix_block *in)
{
	for (;;) {
		enum conf_token t = next_token(f);

		if (t == (in->block == CONF_ROOT ? CONF_END : CONF_CLOSE))
			return 0;
		if (t != CONF_WORD)
			return fail_syntax(f);
		if (fix_statement(f, in))
			return -1;
	}
}

static bool limits_are_empty(const struct fix *f)
{
	for (size_t at = f->limits_open; at < f->limits_close; at++) {
		bool deleted = false;

		for (uint32_t i = 0; i < f->edit_cnt && !deleted; i++)
			deleted = at >= f->edits[i].at && at < f->edits[i].at + f->edits[i].len;
		if (!deleted && !is_blank(f->text[at]) && f->text[at] != '\n')
			return false;
	}
	return true;
}

static const char *new_blocks(struct fix *f, const char *separator)
{
	static const enum conf_block order[] = {CONF_TCP, CONF_MEMORY, CONF_ROOT};
	const char *all = "";

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && all; i++) {
		const char *moved = f->moved[order[i]], *sep = all[0] ? separator : "";

		if (!moved || f->close[order[i]])
			continue;
		if (order[i] == CONF_ROOT)
			all = conf_arena_printf(f->arena, "%s%s%s", all, sep, moved);
		else
			all = conf_arena_printf(f->arena, "%s%s%s { %s }", all, sep,
						conf_block_name(order[i]), moved);
	}
	return all;
}

static int place_moved(struct fix *f)
{
	const size_t begin = f->limits_begin, end = f->limits_close + 1;
	size_t line = begin, indent;
	const char *separator, *blocks;
	struct fix_edit gone;

	for (int b = CONF_ROOT + 1; b < CONF_BLOCK_CNT; b++) {
		if (f->moved[b] && f->close[b] &&
		    add_edit(f, f->close[b], 0, before_close(f, f->close[b], f->moved[b])))
			return -1;
	}
	if (!f->moved[CONF_ROOT] && !f->moved[CONF_TCP] && !f->moved[CONF_MEMORY])
		return 0;
	while (line && f->text[line - 1] != '\n')
		line--;
	for (indent = 0; is_blank(f->text[line + indent]);)
		indent++;
	separator = conf_arena_printf(f->arena, "\n%.*s", (int)indent, f->text + line);
	blocks = separator ? new_blocks(f, separator) : NULL;
	if (!blocks)
		return fail_memory(f);
	if (!limits_are_empty(f))
		return blocks[0] ? add_edit(f, end, 0,
					    conf_arena_printf(f->arena, "%s%s", separator, blocks))
				 : 0;
	gone = blocks[0] ? (struct fix_edit){begin, end - begin, blocks}
			 : deletion_of(f, begin, end);
	for (uint32_t i = 0; i < f->edit_cnt; i++) {
		if (f->edits[i].at > begin && f->edits[i].at < end)
			f->edits[i] = (struct fix_edit){begin, 0, ""};
	}
	return add_edit(f, gone.at, gone.len, gone.text);
}

static int compare_edits(const void *a, const void *b)
{
	const struct fix_edit *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return (x->len > y->len) - (x->len < y->len);
}

static void write_text(struct fix *f, struct sl_strbuf *out)
{
	size_t at = 0;

	if (f->edit_cnt)
		qsort(f->edits, f->edit_cnt, sizeof(*f->edits), compare_edits);
	for (uint32_t i = 0; i < f->edit_cnt; i++) {
		const struct fix_edit *e = &f->edits[i];

		if (e->at > at)
			sl_strbuf_add(out, f->text + at, e->at - at);
		sl_strbuf_str(out, e->text);
		if (e->at + e->len > at)
			at = e->at + e->len;
	}
	sl_strbuf_str(out, f->text + at);
}

int sl_config_fix(const char *text, const char *name, struct sl_strbuf *out, struct sl_err *err)
{
	struct fix f = {.text = text, .name = name, .err = err, .arena = conf_arena_create()};
	struct fix_block root = {.block = CONF_ROOT};
	int rc = -1;

	f.copy = strdup(text);
	f.lex = (struct conf_lexer){.at = f.copy, .line = 1};
	if (!f.arena || !f.copy)
		fail_memory(&f);
	else if (fix_statements(&f, &root) == 0 && place_moved(&f) == 0)
		rc = 0;
	if (!rc)
		write_text(&f, out);
	if (!rc && out->err)
		rc = fail_memory(&f);
	free(f.copy);
	conf_arena_free(f.arena);
	return rc;
}

int sl_config_fix_file(const char *file, struct sl_strbuf *out, struct sl_err *err)
{
	struct sl_err why = SL_ERR(300);
	struct conf_file_id id;
	char *text = conf_file_read(file, SL_CFG_FILE_MAX, true, &id, &why);
	int rc;

	if (!text)
		return sl_fail(err, -1, "%s:0: found %s", file, why.text);
	rc = sl_config_fix(text, file, out, err);
	free(text);
	return rc;
}
