/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a file with libconfuse. Every value passes as text through take_value() while the parser
 * stands on its line, so an error names the line it is on. The struct of a block begins in
 * begin_block(): each block has a hidden function "@" whose default value libconfuse calls.
 */
#include "config/parse.h"

#include <confuse.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum { MAX_BLOCK_KEYS = 40, MAX_FILE = 4 << 20 };

/* libconfuse hands no user data to its callbacks. */
static _Thread_local struct conf_parse *now;

void conf_fail(struct conf_parse *p, int line, const char *fmt, ...)
{
	va_list ap;
	int at;

	if (p->failed)
		return;
	p->failed = true;
	at = snprintf(p->err, p->err_len, "%s:%d: ", p->cfg->file, line);
	if (at < 0 || (size_t)at >= p->err_len)
		return;
	va_start(ap, fmt);
	vsnprintf(p->err + at, p->err_len - (size_t)at, fmt, ap);
	va_end(ap);
	/* One line, whatever the file contained. */
	for (char *c = p->err; *c; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
}

/* Names of blocks as libconfuse knows them: without the block they lie in. */
static const char *bare_name(enum conf_block b)
{
	const char *name = conf_block_name(b);
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

static enum conf_block block_of(const char *name)
{
	for (int b = CONF_ROOT + 1; b < CONF_BLOCK_CNT; b++) {
		if (strcmp(bare_name((enum conf_block)b), name) == 0)
			return (enum conf_block)b;
	}
	return CONF_ROOT;
}

static bool is_named(enum conf_block b)
{
	return b == CONF_INTERFACE || b == CONF_LISTENER || b == CONF_POOL || b == CONF_BACKEND ||
	       b == CONF_ROUTE;
}

static enum conf_block parent_of(enum conf_block b)
{
	return b == CONF_BACKEND || b == CONF_BATCH ? CONF_POOL : CONF_ROOT;
}

static bool set_key(struct conf_parse *p, const struct conf_key *k, const char *text, int line)
{
	struct conf_value v = {
		.arena = p->arena,
		.obj = p->obj[k->block],
		.key = k,
		.text = text,
		.line = line,
	};
	char allowed[160];

	if (v.obj && k->type->set(&v))
		return true;
	conf_key_allowed(k, allowed, sizeof(allowed));
	conf_fail(p, line, "found %s = \"%.200s\"; allowed: %s", k->name, text, allowed);
	return false;
}

static void set_defaults(struct conf_parse *p, enum conf_block b, bool lists)
{
	for (size_t i = 0; i < conf_key_cnt; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->block == b && k->fallback && k->list == lists && !p->key_seen[i])
			set_key(p, k, k->fallback, p->line[b]);
	}
}

/* "pool score.backend a", for the list of settings. */
static const char *block_path(struct conf_parse *p, enum conf_block b)
{
	enum conf_block up = parent_of(b);

	if (b == CONF_ROOT)
		return "";
	return conf_arena_printf(p->arena, "%s%s%s%s.", up ? block_path(p, up) : "", bare_name(b),
				 is_named(b) ? " " : "", is_named(b) ? p->title[b] : "");
}

static void record(struct conf_parse *p, const char *text, bool restart)
{
	struct sl_config *c = p->cfg;

	if (!text)
		return;
	if (c->setting_cnt == p->setting_cap) {
		uint32_t cap = p->setting_cap ? 2 * p->setting_cap : 64;
		struct sl_cfg_setting *more = conf_arena_alloc(p->arena, cap * sizeof(*more));

		if (!more)
			return;
		if (c->setting_cnt)
			memcpy(more, c->settings, c->setting_cnt * sizeof(*more));
		c->settings = more;
		p->setting_cap = cap;
	}
	c->settings[c->setting_cnt++] = (struct sl_cfg_setting){text, restart};
}

static void record_setting(struct conf_parse *p, const struct conf_key *k, const char *text)
{
	const char *path = block_path(p, (enum conf_block)k->block);

	record(p, conf_arena_printf(p->arena, "%s%s = %s", path ? path : "", k->name, text),
	       k->restart);
}

static int take_value(cfg_t *sec, cfg_opt_t *opt, const char *text, void *result)
{
	struct conf_parse *p = now;
	int i = conf_key_find(block_of(sec->name), opt->name);
	const struct conf_key *k;

	*(const char **)result = text;
	if (i < 0 || p->failed)
		return -1;
	k = &conf_keys[i];
	/* libconfuse counts values of a list from one again when it is assigned anew. */
	if (p->key_seen[i] && (!k->list || opt->nvalues == 1)) {
		conf_fail(p, sec->line, "found a second %s; allowed: one%s", k->name,
			  k->list ? ", or += to add to it" : "");
		return -1;
	}
	p->key_seen[i] = 1;
	if (!set_key(p, k, text, sec->line))
		return -1;
	record_setting(p, k, text);
	if (k->block == CONF_ROUTE && strcmp(k->name, "pool") == 0)
		((struct conf_route_ref *)p->obj[CONF_ROUTE])->pool_line = sec->line;
	return 0;
}

/* Takes the next element of an array of the configuration; NULL when it is full. */
static void *next_of(void *array, size_t size, uint32_t *cnt, uint32_t max)
{
	return *cnt < max ? (char *)array + size * (*cnt)++ : NULL;
}

static void *new_interface(struct conf_parse *p, const char *title, int line)
{
	struct sl_config *c = p->cfg;
	struct sl_cfg_interface *i =
		next_of(c->interfaces, sizeof(*i), &c->interface_cnt, SL_CFG_MAX_INTERFACES);
	size_t len = strlen(title);

	if (!i)
		return NULL;
	if (!len || len >= sizeof(i->name) || strpbrk(title, "/ \t\n") || title[0] == '.') {
		conf_fail(p, line,
			  "found interface \"%.64s\"; allowed: a name of 1 to 15 characters",
			  title);
		return i;
	}
	memcpy(i->name, title, len);
	i->line = line;
	/* It counts also without a key in it. */
	record(p, conf_arena_printf(p->arena, "interface %s = served", title), true);
	return i;
}

static void *new_listener(struct conf_parse *p, const char *title, int line)
{
	struct sl_config *c = p->cfg;
	struct sl_cfg_listener *l =
		next_of(c->listeners, sizeof(*l), &c->listener_cnt, SL_MAX_LISTENERS);

	if (l) {
		l->name = title;
		l->line = line;
	}
	return l;
}

static void *new_pool(struct conf_parse *p, const char *title, int line)
{
	struct sl_config *c = p->cfg;
	struct sl_cfg_pool *pool = next_of(c->pools, sizeof(*pool), &c->pool_cnt, SL_MAX_SERVICES);

	if (!pool)
		return NULL;
	pool->name = title;
	pool->line = line;
	pool->backends = conf_arena_alloc(p->arena, SL_CFG_MAX_BACKENDS * sizeof(*pool->backends));
	/* A pool has a batch block, whether it is written or not. */
	p->obj[CONF_BATCH] = &pool->batch;
	p->line[CONF_BATCH] = 0;
	for (size_t i = 0; i < conf_key_cnt; i++)
		p->key_seen[i] = conf_keys[i].block == CONF_BATCH ? 0 : p->key_seen[i];
	set_defaults(p, CONF_BATCH, false);
	return pool->backends ? pool : NULL;
}

static void *new_backend(struct conf_parse *p, const char *title, int line)
{
	struct sl_cfg_pool *pool = p->obj[CONF_POOL];
	struct sl_cfg_backend *b =
		next_of(pool->backends, sizeof(*b), &pool->backend_cnt, SL_CFG_MAX_BACKENDS);

	if (b) {
		b->name = title;
		b->line = line;
	}
	return b;
}

static void *new_route(struct conf_parse *p, const char *title, int line)
{
	struct sl_config *c = p->cfg;
	struct conf_route_ref *r = next_of(p->routes, sizeof(*r), &c->route_cnt, SL_CFG_MAX_ROUTES);
	size_t len = strlen(title);

	if (!r)
		return NULL;
	r->route.prefix = title;
	r->route.prefix_len = (uint32_t)len;
	r->route.pool = -1;
	r->route.line = line;
	if (title[0] != '/' || len > 1024 || strpbrk(title, "?# \t\r\n"))
		conf_fail(p, line,
			  "found route \"%.64s\"; allowed: a path that begins with / and has no ?, "
			  "# or blank",
			  title);
	return r;
}

static void *new_object(struct conf_parse *p, enum conf_block b, const char *title, int line)
{
	switch (b) {
	case CONF_INTERFACE: return new_interface(p, title, line);
	case CONF_LISTENER: return new_listener(p, title, line);
	case CONF_POOL: return new_pool(p, title, line);
	case CONF_BACKEND: return new_backend(p, title, line);
	case CONF_ROUTE: return new_route(p, title, line);
	case CONF_BATCH: return p->obj[CONF_BATCH];
	default: return p->cfg;
	}
}

/* May not fail: libconfuse ends the process when a default value does. conf_fail keeps the error.
 */
static int begin_block(cfg_t *sec, cfg_opt_t *opt, int argc, const char **argv)
{
	struct conf_parse *p = now;
	enum conf_block b = block_of(sec->name);
	bool single = !is_named(b);

	(void)opt, (void)argc, (void)argv;
	if (p->failed)
		return 0;
	if (single && p->line[b]) {
		conf_fail(p, sec->line, "found a second %s block; allowed: one", bare_name(b));
		return 0;
	}
	p->line[b] = sec->line;
	p->title[b] =
		sec->title ? conf_arena_strndup(p->arena, sec->title, strlen(sec->title)) : NULL;
	if (!single && (!p->title[b] || !p->title[b][0])) {
		conf_fail(p, sec->line, "found %s \"\"; allowed: a name", bare_name(b));
		return 0;
	}
	p->obj[b] = new_object(p, b, p->title[b], sec->line);
	if (!p->obj[b]) {
		conf_fail(p, sec->line, "found one %s too many; allowed: %d", bare_name(b),
			  b == CONF_INTERFACE  ? SL_CFG_MAX_INTERFACES
			  : b == CONF_LISTENER ? SL_MAX_LISTENERS
			  : b == CONF_POOL     ? SL_MAX_SERVICES
			  : b == CONF_BACKEND  ? SL_CFG_MAX_BACKENDS
					       : SL_CFG_MAX_ROUTES);
		return 0;
	}
	if (single)
		return 0;
	for (size_t i = 0; i < conf_key_cnt; i++)
		p->key_seen[i] = conf_keys[i].block == b ? 0 : p->key_seen[i];
	set_defaults(p, b, false);
	return 0;
}

/* A key without which the block is none, and lists that were left out. */
static int end_block(cfg_t *parent, cfg_opt_t *opt)
{
	struct conf_parse *p = now;
	enum conf_block b = block_of(opt->name);

	(void)parent;
	for (size_t i = 0; i < conf_key_cnt; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->block == b && k->required && !p->key_seen[i])
			conf_fail(p, p->line[b],
				  "found %s \"%.64s\" without %s; allowed: %s %s { %s = ... }",
				  bare_name(b), p->title[b], k->name, bare_name(b), p->title[b],
				  k->name);
	}
	set_defaults(p, b, true);
	return p->failed ? -1 : 0;
}

/* The names that may stand in a block: "address, port, protocols". */
static void list_names(const cfg_t *sec, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = 0;
	for (const cfg_opt_t *o = sec->opts; o && o->name && at < len; o++) {
		if (o->name[0] != '@')
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "", o->name);
	}
}

/* Errors that libconfuse finds by itself, told as ours are. */
static void take_error(cfg_t *sec, const char *fmt, va_list ap)
{
	static const struct {
		const char *theirs, *ours;
	} told[] = {
		{"missing equal sign after option '%s'",
		 "found %s without a value; allowed: NAME = VALUE"},
		{"unexpected closing brace", "found } without its {; allowed: as many } as {"},
		{"premature end of file", "found the end of the file inside a block, a list or a "
					  "text; allowed: each {, \" and = complete"},
		{"missing title for section '%s'",
		 "found %s without a name; allowed: NAME before its {"},
		{"missing opening brace for section '%s'",
		 "found %s without {; allowed: { behind it"},
		{"found duplicate title '%s'", "found the name \"%s\" twice; allowed: each once"},
		{"attempt to append to non-list option '%s'", "found %s += ...; allowed: ="},
		{"unexpected token '%s'", "found \"%s\" where it has no meaning; allowed: NAME = "
					  "VALUE, or { VALUE, VALUE } for lists"},
	};
	struct conf_parse *p = now;
	char text[300], names[700];

	if (strcmp(fmt, "no such option '%s'") == 0) {
		list_names(sec, names, sizeof(names));
		vsnprintf(text, sizeof(text), "%.100s", ap);
		conf_fail(p, sec->line, "found unknown key \"%s\"; allowed: %s", text, names);
		return;
	}
	for (size_t i = 0; i < SL_ARRAY_LEN(told); i++) {
		if (strcmp(fmt, told[i].theirs) == 0) {
			vsnprintf(text, sizeof(text), told[i].ours, ap);
			conf_fail(p, sec->line, "%s", text);
			return;
		}
	}
	vsnprintf(text, sizeof(text), fmt, ap);
	conf_fail(p, sec->line,
		  "found: %s; allowed: blocks and keys as `sluice help config` lists them", text);
}

struct block_opts {
	cfg_opt_t opt[CONF_BLOCK_CNT][MAX_BLOCK_KEYS];
	unsigned cnt[CONF_BLOCK_CNT];
};

/* Several routes may have one prefix, for different methods: check.c looks at those. */
static cfg_flag_t title_flags(enum conf_block b)
{
	if (!is_named(b))
		return 0;
	return b == CONF_ROUTE ? CFGF_TITLE : CFGF_TITLE | CFGF_NO_TITLE_DUPES;
}

static void build_opts(struct block_opts *o)
{
	for (size_t i = 0; i < conf_key_cnt; i++) {
		const struct conf_key *k = &conf_keys[i];

		o->opt[k->block][o->cnt[k->block]++] = (cfg_opt_t){
			.name = k->name,
			.type = CFGT_STR,
			.flags = CFGF_NODEFAULT | (k->list ? CFGF_LIST : 0),
			.parsecb = take_value,
		};
	}
	/* From the innermost, so that a block is complete when it goes into the one around it. */
	for (int b = CONF_BLOCK_CNT - 1; b > CONF_ROOT; b--) {
		enum conf_block up = parent_of((enum conf_block)b);

		o->opt[b][o->cnt[b]++] = (cfg_opt_t){
			.name = "@",
			.type = CFGT_FUNC,
			.func = begin_block,
			.def = {.parsed = "@()"},
		};
		o->opt[up][o->cnt[up]++] = (cfg_opt_t){
			.name = bare_name((enum conf_block)b),
			.type = CFGT_SEC,
			.flags = CFGF_MULTI | title_flags((enum conf_block)b),
			.subopts = o->opt[b],
			.validcb = end_block,
		};
	}
}

static bool alloc_arrays(struct conf_parse *p)
{
	struct sl_config *c = p->cfg;

	c->interfaces = conf_arena_alloc(p->arena, SL_CFG_MAX_INTERFACES * sizeof(*c->interfaces));
	c->listeners = conf_arena_alloc(p->arena, SL_MAX_LISTENERS * sizeof(*c->listeners));
	c->pools = conf_arena_alloc(p->arena, SL_MAX_SERVICES * sizeof(*c->pools));
	p->routes = conf_arena_alloc(p->arena, SL_CFG_MAX_ROUTES * sizeof(*p->routes));
	return c->interfaces && c->listeners && c->pools && p->routes;
}

/* Where a comment or quoted text that starts at s ends; s if none does. */
static const char *skip_opaque(const char *s, bool token_start)
{
	const char *end;

	if (*s == '#' || (token_start && s[0] == '/' && s[1] == '/'))
		return s + strcspn(s, "\n");
	if (token_start && s[0] == '/' && s[1] == '*') {
		end = strstr(s, "*/");
		return end ? end + 2 : s + strlen(s);
	}
	if (*s != '"' && *s != '\'')
		return s;
	for (end = s + 1; *end && *end != *s; end++)
		end += end[0] == '\\' && end[1];
	return *end ? end + 1 : end;
}

/* libconfuse takes the end of the file for the end of all blocks. */
static void check_braces(struct conf_parse *p, const char *text)
{
	int line = 1, opened[8] = {0};
	unsigned depth = 0;
	bool token_start = true;

	for (const char *s = text, *next; *s; s = next) {
		next = skip_opaque(s, token_start);
		next += next == s;
		if (*s == '{' && depth < SL_ARRAY_LEN(opened))
			opened[depth++] = line;
		else if (*s == '}' && depth)
			depth--;
		token_start = strchr(" \t\r\n{},=", *s) != NULL;
		for (; s < next; s++)
			line += *s == '\n';
	}
	if (depth)
		conf_fail(p, opened[depth - 1], "found { without its }; allowed: as many } as {");
}

static void run_parser(struct conf_parse *p, const char *text)
{
	static const enum conf_block always[] = {CONF_ROOT, CONF_WORKERS, CONF_LIMITS, CONF_ADMIN};
	struct block_opts *opts = calloc(1, sizeof(*opts));
	cfg_t *root = NULL;

	if (!opts || !alloc_arrays(p)) {
		conf_fail(p, 0, "found too little memory");
		free(opts);
		return;
	}
	for (size_t i = 0; i < SL_ARRAY_LEN(always); i++) {
		p->obj[always[i]] = p->cfg;
		set_defaults(p, always[i], false);
	}
	build_opts(opts);
	now = p;
	root = cfg_init(opts->opt[CONF_ROOT], CFGF_NONE);
	if (root) {
		cfg_set_error_function(root, take_error);
		if (cfg_parse_buf(root, text) != CFG_SUCCESS)
			conf_fail(p, root->line, "found what libconfuse does not take");
		check_braces(p, text);
		cfg_free(root);
	} else {
		conf_fail(p, 0, "found too little memory");
	}
	now = NULL;
	free(opts);
}

struct sl_config *sl_config_parse(const char *text, const char *name, char *err, size_t err_len)
{
	struct conf_parse p = {.err = err, .err_len = err_len};

	p.arena = conf_arena_create();
	p.cfg = p.arena ? conf_arena_alloc(p.arena, sizeof(*p.cfg)) : NULL;
	if (!p.cfg) {
		conf_arena_free(p.arena);
		snprintf(err, err_len, "%s:0: found too little memory", name);
		return NULL;
	}
	p.cfg->arena = p.arena;
	p.cfg->file = conf_arena_strndup(p.arena, name, strlen(name));
	memset(p.cfg->cpus, 0xff, sizeof(p.cfg->cpus));
	run_parser(&p, text);
	if (p.failed || !conf_check(&p)) {
		conf_arena_free(p.arena);
		return NULL;
	}
	return p.cfg;
}

static char *read_file(const char *file, char *err, size_t err_len)
{
	FILE *f = fopen(file, "re");
	char *text = f ? malloc(MAX_FILE + 1) : NULL;
	size_t len;

	if (!text) {
		snprintf(err, err_len,
			 "%s:0: found no readable file (%s); allowed: a configuration", file,
			 strerror(errno));
		if (f)
			fclose(f);
		return NULL;
	}
	len = fread(text, 1, MAX_FILE + 1, f);
	if (ferror(f) || len > MAX_FILE || memchr(text, 0, len)) {
		snprintf(err, err_len, "%s:0: found %s; allowed: a text of at most 4 MiB", file,
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

struct sl_config *sl_config_load(const char *file, char *err, size_t err_len)
{
	char *text = read_file(file, err, err_len);
	struct sl_config *c;
	const char *missing;

	if (!text)
		return NULL;
	c = sl_config_parse(text, file, err, err_len);
	free(text);
	if (!c)
		return NULL;
	missing = !c->interface_cnt  ? "interface"
		  : !c->listener_cnt ? "listener"
		  : !c->route_cnt    ? "route"
				     : NULL;
	if (missing) {
		snprintf(err, err_len, "%s:1: found no %s; allowed: at least one", file, missing);
		sl_config_free(c);
		return NULL;
	}
	return c;
}

void sl_config_free(struct sl_config *c)
{
	if (c)
		conf_arena_free(c->arena);
}
