/* SPDX-License-Identifier: Apache-2.0 */
#include "config/include.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "config/scan.h"

struct include_source {
	const char *file;
	const struct include_source *parent; /* NULL: the first file */
	struct conf_file_id id;
	unsigned depth;
};

struct include_merge {
	struct conf_parse *p;
	struct sl_strbuf *out;
	int line; /* next line of the merged text */
	unsigned cnt;
	bool stopped; /* the rest of the text is left out: cut off, or at a limit */
};

static void append_text(struct include_merge *m, const char *text, size_t len)
{
	sl_strbuf_add(m->out, text, len);
	for (size_t i = 0; i < len; i++)
		m->line += text[i] == '\n';
}

static void begin_piece(struct include_merge *m, const char *file, int line)
{
	struct sl_config *c = m->p->cfg;
	struct sl_cfg_segment *more =
		conf_arena_grow(m->p->arena, c->pieces, c->piece_cnt, sizeof(*more));

	if (!more)
		return;
	c->pieces = more;
	c->pieces[c->piece_cnt++] = (struct sl_cfg_segment){m->line, {file, line}};
}

static void add_source(struct include_merge *m, const char *path)
{
	struct sl_config *c = m->p->cfg;
	const char **more = conf_arena_grow(m->p->arena, c->sources, c->source_cnt, sizeof(*more));

	if (!more)
		return;
	c->sources = more;
	c->sources[c->source_cnt++] = path;
}

/* A reload in the sandbox must be able to read the target of a link, too. */
static void add_sources(struct include_merge *m, const char *path)
{
	char target[PATH_MAX];
	const char *copy = realpath(path, target)
				   ? conf_arena_strndup(m->p->arena, target, strlen(target))
				   : NULL;

	add_source(m, path);
	if (copy && strcmp(copy, path) != 0)
		add_source(m, copy);
}

static bool is_open(const struct include_source *s, const struct conf_file_id *id)
{
	for (; s; s = s->parent) {
		if (s->id.inode == id->inode && s->id.device == id->device)
			return true;
	}
	return false;
}

static void take_text(struct include_merge *m, const struct include_source *s, char *text);

static void include_file(struct include_merge *m, const struct include_source *parent, int line,
			 const char *path)
{
	struct include_source s = {.file = path, .parent = parent, .depth = parent->depth + 1};
	struct sl_err why = SL_ERR(300);
	char *text;

	if (s.depth > SL_CFG_INCLUDE_DEPTH || ++m->cnt > SL_CFG_MAX_INCLUDES) {
		m->stopped = true;
		conf_fail(m->p, line, NULL,
			  "found include of \"%.300s\" beyond %d %s; allowed: fewer", path,
			  s.depth > SL_CFG_INCLUDE_DEPTH ? SL_CFG_INCLUDE_DEPTH
							 : SL_CFG_MAX_INCLUDES,
			  s.depth > SL_CFG_INCLUDE_DEPTH ? "levels" : "files");
		return;
	}
	text = conf_file_read(path, SL_CFG_FILE_MAX, m->p->offline, &s.id, &why);
	if (!text) {
		conf_fail(m->p, line, NULL, "found include of \"%.300s\": %s", path, why.text);
		return;
	}
	add_sources(m, path);
	if (is_open(parent, &s.id))
		conf_fail(
			m->p, line, NULL,
			"found include of \"%.300s\" in itself; allowed: files that do not include "
			"each other",
			path);
	else
		take_text(m, &s, text);
	free(text);
}

static _Thread_local int glob_error;

static int on_glob_error(const char *path, int error)
{
	(void)path;
	if (error == ENOENT || error == ENOTDIR)
		return 0;
	glob_error = error;
	return 1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *folder_of(struct include_merge *m, const char *file, bool escaped)
{
	const char *slash = strrchr(file, '/');
	size_t len = slash ? (size_t)(slash - file) + 1 : 0;
	char *folder = conf_arena_alloc(m->p->arena, 2 * len + 1), *to = folder;

	for (size_t i = 0; folder && i < len; i++) {
		if (escaped && strchr("*?[\\", file[i]))
			*to++ = '\\';
		*to++ = file[i];
	}
	return folder;
}

static void include_pattern(struct include_merge *m, const struct include_source *s, int line,
			    const char *pattern)
{
	glob_t found = {0};
	int rc;

	glob_error = 0;
	rc = glob(pattern, GLOB_NOSORT, on_glob_error, &found);
	if (rc && rc != GLOB_NOMATCH)
		conf_fail(m->p, line, NULL,
			  "found include of \"%.300s\" (%s); allowed: a folder that can be listed",
			  pattern, strerror(glob_error ? glob_error : ENOMEM));
	if (!rc)
		qsort(found.gl_pathv, found.gl_pathc, sizeof(*found.gl_pathv), by_name);
	for (size_t i = 0; !rc && i < found.gl_pathc && !m->stopped; i++) {
		const char *path = conf_arena_strndup(m->p->arena, found.gl_pathv[i],
						      strlen(found.gl_pathv[i]));

		if (path)
			include_file(m, s, line, path);
	}
	globfree(&found);
}

static void include_word(struct include_merge *m, const struct include_source *s, int line,
			 const char *value)
{
	const char *folder, *path;
	const size_t plain = value ? strcspn(value, "*?[") : 0;
	const bool pattern = value && value[plain];

	folder = !value ? NULL : value[0] == '/' ? "" : folder_of(m, s->file, pattern);
	path = folder ? conf_arena_printf(m->p->arena, "%s%s", folder, value) : NULL;
	if (!path) {
		conf_fail(m->p, line, NULL, "found too little memory");
	} else if (!value[0]) {
		conf_fail(m->p, line, NULL,
			  "found include = \"\"; allowed: the path of a file, or a "
			  "pattern such as conf.d/*.conf");
	} else if (!pattern) {
		include_file(m, s, line, path);
	} else {
		/* A reload may find files in a folder that is empty now. */
		const char *first = conf_arena_printf(
			m->p->arena, "%s%.*s", value[0] == '/' ? "" : folder_of(m, s->file, false),
			(int)plain, value);

		if (first)
			add_source(m, first);
		include_pattern(m, s, line, path);
	}
}

static void take_text(struct include_merge *m, const struct include_source *s, char *text)
{
	struct conf_scan scan;
	char *from = text;

	begin_piece(m, s->file, 1);
	conf_scan_begin(&scan, m->p, text, m->line - 1);
	while (!m->stopped && conf_scan_run(&scan)) {
		append_text(m, from, (size_t)(scan.lex.at - from));
		append_text(m, "\n", 1);
		from = scan.lex.at;
		for (unsigned i = 0; i < scan.word_cnt && !m->stopped; i++)
			include_word(m, s, scan.words[i].line + scan.shift, scan.words[i].value);
		begin_piece(m, s->file, scan.lex.line);
		scan.shift = m->line - scan.lex.line;
	}
	if (m->stopped)
		return;
	append_text(m, from,
		    scan.cut ? (size_t)(scan.cut > from ? scan.cut - from : 0) : strlen(from));
	append_text(m, "\n", s->parent ? 1 : 0);
	m->stopped = scan.stopped;
}

void conf_include(struct conf_parse *p, const char *name, const struct conf_file_id *id, char *text,
		  struct sl_strbuf *out)
{
	const struct include_source s = {.file = name, .id = id ? *id : (struct conf_file_id){0}};
	struct include_merge m = {.p = p, .out = out, .line = 1};

	take_text(&m, &s, text);
	if (out->err)
		conf_fail(p, 0, NULL, "found %s; allowed: at most 4 MiB in all",
			  out->err == -ENOSPC ? "larger files" : "too little memory");
}
