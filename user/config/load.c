/* SPDX-License-Identifier: Apache-2.0 */
/* From a file or a text to a configuration that is checked, or to a line for each mistake. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/parse.h"

enum { MAX_FILE = 4 << 20 };

static struct sl_config *parse(const char *text, const char *name, bool complete,
			       struct sl_err *err)
{
	struct conf_parse p = {.mistakes = {.file = name}};

	p.arena = conf_arena_create();
	p.cfg = p.arena ? conf_arena_alloc(p.arena, sizeof(*p.cfg)) : NULL;
	if (!p.cfg) {
		conf_arena_free(p.arena);
		sl_err_set(err, "%s:0: found too little memory", name);
		return NULL;
	}
	p.cfg->arena = p.arena;
	p.cfg->file = conf_arena_strndup(p.arena, name, strlen(name));
	memset(p.cfg->cpus, 0xff, sizeof(p.cfg->cpus));
	conf_parse_text(&p, text);
	/* Of half a file nothing can be said that goes beyond one block. */
	if (!p.stopped)
		conf_check(&p);
	/* What no file that is run may be without. */
	if (complete && !p.stopped) {
		if (!p.cfg->interface_cnt)
			conf_fail(&p, 1, NULL, "found no interface; allowed: at least one");
		if (!p.cfg->listener_cnt)
			conf_fail(&p, 1, NULL, "found no listener; allowed: at least one");
		if (!p.cfg->route_cnt)
			conf_fail(&p, 1, NULL, "found no route; allowed: at least one");
	}
	if (!p.mistakes.cnt)
		return p.cfg;
	conf_mistakes_print(&p.mistakes, err);
	conf_mistakes_free(&p.mistakes);
	conf_arena_free(p.arena);
	return NULL;
}

struct sl_config *sl_config_parse(const char *text, const char *name, struct sl_err *err)
{
	return parse(text, name, false, err);
}

static char *read_file(const char *file, struct sl_err *err)
{
	FILE *f = fopen(file, "re");
	char *text = f ? malloc(MAX_FILE + 1) : NULL;
	size_t len;

	if (!text) {
		sl_err_set(err, "%s:0: found no readable file (%s); allowed: a configuration", file,
			   strerror(errno));
		if (f)
			fclose(f);
		return NULL;
	}
	len = fread(text, 1, MAX_FILE + 1, f);
	if (ferror(f) || len > MAX_FILE || memchr(text, 0, len)) {
		sl_err_set(err, "%s:0: found %s; allowed: a text of at most 4 MiB", file,
			   ferror(f)        ? strerror(errno)
			   : len > MAX_FILE ? "a larger file"
					    : "a NUL byte");
		free(text);
		text = NULL;
	} else {
		text[len] = 0;
	}
	fclose(f);
	return text;
}

struct sl_config *sl_config_load(const char *file, struct sl_err *err)
{
	char *text = read_file(file, err);
	struct sl_config *c = text ? parse(text, file, true, err) : NULL;

	free(text);
	return c;
}

void sl_config_free(struct sl_config *c)
{
	if (c && c->release)
		c->release(c);
	if (c)
		conf_arena_free(c->arena);
}
