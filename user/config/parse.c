/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses a text with libconfuse. Each block has a hidden function "@" whose default value
 * libconfuse calls: begin_block().
 */
#include "config/parse.h"

#include <confuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "config/aliases.h"

enum { MAX_BLOCK_KEYS = 64 };

/* libconfuse passes no user data to callbacks. */
static _Thread_local struct conf_parse *now;

static enum conf_block block_of(const struct conf_parse *p, const char *name)
{
	enum conf_block b = conf_block_child(p->outer, name);

	return b != CONF_ROOT ? b : conf_block_child(CONF_ROOT, name);
}

static bool is_named(enum conf_block b)
{
	return b == CONF_INTERFACE || b == CONF_LISTENER || b == CONF_POOL || b == CONF_BACKEND ||
	       b == CONF_ROUTE || b == CONF_MATCH || b == CONF_QUOTA || b == CONF_KEYS;
}

const void *conf_owner(const struct conf_parse *p, enum conf_block b)
{
	/* A route can be judged only with them. */
	if (conf_block_parent(b) == CONF_ROUTE)
		return p->obj[CONF_ROUTE];
	return is_named(b) ? p->obj[b] : &p->line[b];
}

static void set_key(struct conf_parse *p, const struct conf_key *k, const char *name,
		    const char *text, int line)
{
	struct conf_value v = {
		.arena = p->arena,
		.obj = p->obj[k->block],
		.key = k,
		.text = text,
		.line = line,
		.offline = p->offline,
	};
	char allowed[CONF_ALLOWED_LEN];

	if (!v.obj || k->type->set(&v))
		return;
	conf_key_allowed(k, allowed, sizeof(allowed));
	conf_fail(p, line, conf_owner(p, (enum conf_block)k->block),
		  "found %s = \"%.200s\"; allowed: %s", name, text, allowed);
}

void conf_set_defaults(struct conf_parse *p, enum conf_block b, bool lists)
{
	for (size_t i = 0; i < conf_key_cnt; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->block == b && k->fallback && k->list == lists && !p->key_seen[i])
			set_key(p, k, k->name, k->fallback, p->line[b]);
	}
}

void conf_forget_keys(struct conf_parse *p, enum conf_block b)
{
	for (size_t i = 0; i < conf_key_cnt; i++)
		p->key_seen[i] = conf_keys[i].block == b ? 0 : p->key_seen[i];
}

static const char *block_path(struct conf_parse *p, enum conf_block b)
{
	if (b == CONF_ROOT)
		return "";
	return conf_arena_printf(p->arena, "%s%s%s%s.", block_path(p, conf_block_parent(b)),
				 conf_block_bare(b), is_named(b) ? " " : "",
				 is_named(b) ? p->title[b] : "");
}

void conf_record_setting(struct conf_parse *p, const char *text, bool restart)
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

enum { SEEN_BY_NAME = 1, SEEN_BY_ALIAS };

static bool note_key(struct conf_parse *p, int i, const struct conf_alias *alias, int nvalues,
		     int line)
{
	const struct conf_key *k = &conf_keys[i];
	const void *owner = conf_owner(p, (enum conf_block)k->block);
	uint8_t by = alias ? SEEN_BY_ALIAS : SEEN_BY_NAME, before = p->key_seen[i];

	p->key_seen[i] = by;
	/* libconfuse counts values of a list from one again when it is assigned anew. */
	if (!before || (k->list && nvalues > 1))
		return true;
	if (before == by)
		conf_fail(p, line, owner, "found a second %s; allowed: one%s",
			  alias ? alias->name : k->name, k->list ? ", or += to add to it" : "");
	else
		conf_fail(
			p, line, owner,
			"found both %s and its former name; allowed: %s alone (`sluice check --fix` "
			"replaces former names)",
			k->name, k->name);
	return false;
}

/* Returns -1, which ends libconfuse's reading, only if the rest is useless. */
static int take_value(cfg_t *sec, cfg_opt_t *opt, const char *text, void *result)
{
	struct conf_parse *p = now;
	enum conf_block b = block_of(now, sec->name);
	const struct conf_alias *alias = conf_alias_find(b, opt->name);
	const struct conf_key *k;
	const char *path;
	int i;

	*(const char **)result = text;
	if (alias && !alias->new_name) {
		conf_alias_take(p, alias, text, sec->line);
		return 0;
	}
	i = alias ? conf_key_find(alias->new_block, alias->new_name) : conf_key_find(b, opt->name);
	if (i < 0 || conf_diags_full(&p->mistakes))
		return -1;
	k = &conf_keys[i];
	if (!p->obj[b] || !p->obj[k->block])
		return 0;
	if (alias)
		text = conf_alias_take(p, alias, text, sec->line);
	if (!text || !note_key(p, i, alias, (int)opt->nvalues, sec->line))
		return 0;
	set_key(p, k, opt->name, text, sec->line);
	path = block_path(p, (enum conf_block)k->block);
	conf_record_setting(
		p, conf_arena_printf(p->arena, "%s%s = %s", path ? path : "", k->name, text),
		k->restart);
	if (k->block == CONF_ROUTE && strcmp(k->name, "pool") == 0)
		((struct conf_route_ref *)p->obj[CONF_ROUTE])->pool_line = sec->line;
	return 0;
}

static bool is_taken(const struct conf_parse *p, enum conf_block b, const char *name)
{
	const struct sl_config *c = p->cfg;
	const struct sl_cfg_pool *pool = p->obj[CONF_POOL];
	uint32_t i = 0;

	switch (b) {
	case CONF_MATCH: return conf_match_is_taken(p, name);
	case CONF_INTERFACE:
		while (i < c->interface_cnt && strcmp(c->interfaces[i].name, name) != 0)
			i++;
		return i < c->interface_cnt;
	case CONF_LISTENER:
		while (i < c->listener_cnt && strcmp(c->listeners[i].name, name) != 0)
			i++;
		return i < c->listener_cnt;
	case CONF_POOL:
		while (i < c->pool_cnt && strcmp(c->pools[i].name, name) != 0)
			i++;
		return i < c->pool_cnt;
	case CONF_BACKEND:
		while (i < pool->backend_cnt && strcmp(pool->backends[i].name, name) != 0)
			i++;
		return i < pool->backend_cnt;
	case CONF_QUOTA: return conf_find_quota(c, name) < c->quota_cnt;
	case CONF_KEYS: return conf_find_keys(c, name) < c->key_cnt;
	default: return false;
	}
}

static bool begin_named(struct conf_parse *p, enum conf_block b, const char *title, int line)
{
	static const int most[CONF_BLOCK_CNT] = {
		[CONF_INTERFACE] = SL_CFG_MAX_INTERFACES,
		[CONF_LISTENER] = SL_MAX_LISTENERS,
		[CONF_POOL] = SL_MAX_SERVICES,
		[CONF_BACKEND] = SL_CFG_MAX_BACKENDS,
		[CONF_ROUTE] = SL_CFG_MAX_ROUTES,
		[CONF_MATCH] = SL_CFG_MAX_MATCHES,
		[CONF_QUOTA] = SL_CFG_MAX_QUOTAS,
		[CONF_KEYS] = SL_CFG_MAX_KEYS,
	};
	bool taken;

	if (!title || !title[0]) {
		conf_fail(p, line, NULL, "found %s \"\"; allowed: a name", conf_block_bare(b));
		return false;
	}
	taken = is_taken(p, b, title);
	p->obj[b] = conf_new_object(p, b, title, line);
	if (!p->obj[b])
		conf_fail(p, line, NULL, "found one %s too many; allowed: %d", conf_block_bare(b),
			  most[b]);
	else if (taken)
		conf_fail(p, line, p->obj[b], "found the name \"%.64s\" twice; allowed: each once",
			  title);
	return p->obj[b];
}

/* Must not fail: libconfuse would end the process. */
static int begin_block(cfg_t *sec, cfg_opt_t *opt, int argc, const char **argv)
{
	struct conf_parse *p = now;
	enum conf_block b = block_of(now, sec->name);
	bool again = !is_named(b) && p->line[b];

	(void)opt, (void)argc, (void)argv;
	if (conf_block_parent(b) == CONF_ROOT)
		p->outer = b;
	p->line[b] = sec->line;
	p->title[b] =
		sec->title ? conf_arena_strndup(p->arena, sec->title, strlen(sec->title)) : NULL;
	p->obj[b] = NULL;
	if (!p->obj[conf_block_parent(b)])
		return 0;
	if (again) {
		conf_fail(p, sec->line, NULL, "found a second %s block; allowed: one",
			  conf_block_bare(b));
		return 0;
	}
	if (!is_named(b)) {
		p->obj[b] = conf_new_object(p, b, "", sec->line);
		return 0;
	}
	if (!begin_named(p, b, p->title[b], sec->line))
		return 0;
	conf_forget_keys(p, b);
	conf_set_defaults(p, b, false);
	return 0;
}

static bool has_socket(const struct conf_parse *p, enum conf_block b)
{
	return b == CONF_LISTENER && p->key_seen[conf_key_find(CONF_LISTENER, "socket")];
}

static int end_block(cfg_t *parent, cfg_opt_t *opt)
{
	struct conf_parse *p = now;
	enum conf_block b = block_of(now, opt->name);
	bool typo = conf_diags_within(&p->mistakes, p->line[b], parent->line);

	for (size_t i = 0; i < conf_key_cnt && p->obj[b] && !typo && !p->stopped; i++) {
		const struct conf_key *k = &conf_keys[i];

		if (k->block == b && k->required && !p->key_seen[i] && !has_socket(p, b))
			conf_fail(p, p->line[b], p->obj[b],
				  "found %s \"%.64s\" without %s; allowed: %s %s { %s = ... }",
				  conf_block_bare(b), p->title[b], k->name, conf_block_bare(b),
				  p->title[b], k->name);
	}
	conf_set_defaults(p, b, true);
	if (b == p->outer)
		p->outer = CONF_ROOT;
	return 0;
}

static void take_error(cfg_t *sec, const char *fmt, va_list ap)
{
	static const struct {
		const char *theirs, *ours;
	} told[] = {
		{"missing equal sign after option '%s'",
		 "found %s without a value; allowed: NAME = VALUE"},
		{"unexpected closing brace", "found } without its {; allowed: as many } as {"},
		{"premature end of file", "found the end of the file inside a block or a list; "
					  "allowed: each { and = complete"},
		{"missing title for section '%s'",
		 "found %s without a name; allowed: NAME before its {"},
		{"missing opening brace for section '%s'",
		 "found %s without {; allowed: { behind it"},
		{"no such option '%s'",
		 "found unknown key \"%s\"; allowed: keys as `sluice help config` lists them"},
		{"attempt to append to non-list option '%s'", "found %s += ...; allowed: ="},
		{"unexpected token '%s'", "found \"%s\" where it has no meaning; allowed: NAME = "
					  "VALUE, or { VALUE, VALUE } for lists"},
	};
	struct conf_parse *p = now;
	char text[300];

	p->stopped = true;
	for (size_t i = 0; i < SL_ARRAY_LEN(told); i++) {
		if (strcmp(fmt, told[i].theirs) == 0) {
			vsnprintf(text, sizeof(text), told[i].ours, ap);
			conf_fail(p, sec->line, NULL, "%s", text);
			return;
		}
	}
	vsnprintf(text, sizeof(text), fmt, ap);
	conf_fail(p, sec->line, NULL,
		  "found: %s; allowed: blocks and keys as `sluice help config` lists them", text);
}

struct block_opts {
	cfg_opt_t opt[CONF_BLOCK_CNT][MAX_BLOCK_KEYS];
	unsigned cnt[CONF_BLOCK_CNT];
};

static void add_opt(struct block_opts *o, enum conf_block b, const char *name, bool list)
{
	o->opt[b][o->cnt[b]++] = (cfg_opt_t){
		.name = name,
		.type = CFGT_STR,
		.flags = CFGF_NODEFAULT | (list ? CFGF_LIST : 0),
		.parsecb = take_value,
	};
}

static void build_opts(struct block_opts *o)
{
	const struct conf_alias *a;

	for (size_t i = 0; i < conf_key_cnt; i++)
		add_opt(o, (enum conf_block)conf_keys[i].block, conf_keys[i].name,
			conf_keys[i].list);
	for (size_t i = 0; (a = conf_alias_at(i)); i++)
		add_opt(o, a->block, a->name, false);
	/* Innermost first: a block must be complete before its parent includes it. */
	for (int b = CONF_BLOCK_CNT - 1; b > CONF_ROOT; b--) {
		enum conf_block up = conf_block_parent((enum conf_block)b);

		o->opt[b][o->cnt[b]++] = (cfg_opt_t){
			.name = "@",
			.type = CFGT_FUNC,
			.func = begin_block,
			.def = {.parsed = "@()"},
		};
		o->opt[up][o->cnt[up]++] = (cfg_opt_t){
			.name = conf_block_bare((enum conf_block)b),
			.type = CFGT_SEC,
			.flags = CFGF_MULTI | (is_named((enum conf_block)b) ? CFGF_TITLE : 0),
			.subopts = o->opt[b],
			.validcb = end_block,
		};
	}
}

static void run_libconfuse(struct conf_parse *p, struct block_opts *opts, const char *text)
{
	cfg_t *root;

	now = p;
	root = cfg_init(opts->opt[CONF_ROOT], CFGF_NONE);
	if (!root) {
		conf_fail(p, 0, NULL, "found too little memory");
		return;
	}
	cfg_set_error_function(root, take_error);
	if (cfg_parse_buf(root, text) != CFG_SUCCESS) {
		p->stopped = true;
		if (!p->mistakes.cnt)
			conf_fail(p, root->line, NULL, "found what libconfuse does not take");
	}
	cfg_free(root);
	now = NULL;
}

void conf_parse_text(struct conf_parse *p, const char *text)
{
	static const enum conf_block always[] = {
		CONF_ROOT,  CONF_WORKERS,    CONF_LIMITS, CONF_TCP,   CONF_MEMORY,
		CONF_ADMIN, CONF_ACCESS_LOG, CONF_AGENTS, CONF_TRACE, CONF_PENALTY};
	struct sl_config *c = p->cfg;
	struct block_opts *opts = calloc(1, sizeof(*opts));

	c->interfaces = calloc(SL_CFG_MAX_INTERFACES, sizeof(*c->interfaces));
	c->listeners = calloc(SL_MAX_LISTENERS, sizeof(*c->listeners));
	c->pools = calloc(SL_MAX_SERVICES, sizeof(*c->pools));
	p->routes = calloc(SL_CFG_MAX_ROUTES, sizeof(*p->routes));
	if (opts && c->interfaces && c->listeners && c->pools && p->routes) {
		for (size_t i = 0; i < SL_ARRAY_LEN(always); i++) {
			p->obj[always[i]] = c;
			conf_set_defaults(p, always[i], false);
		}
		build_opts(opts);
		run_libconfuse(p, opts, text);
	} else {
		conf_fail(p, 0, NULL, "found too little memory");
	}
	free(opts);
}

static void *shrink_array(struct conf_parse *p, void *array, uint32_t cnt, size_t size)
{
	void *copy = conf_arena_alloc(p->arena, (cnt + 1) * size);

	if (!copy)
		conf_fail(p, 0, NULL, "found too little memory");
	if (copy && array)
		memcpy(copy, array, cnt * size);
	free(array);
	return copy;
}

void conf_parse_settle(struct conf_parse *p)
{
	struct sl_config *c = p->cfg;

	c->interfaces = shrink_array(p, c->interfaces, c->interface_cnt, sizeof(*c->interfaces));
	c->listeners = shrink_array(p, c->listeners, c->listener_cnt, sizeof(*c->listeners));
	c->pools = shrink_array(p, c->pools, c->pool_cnt, sizeof(*c->pools));
	free(p->routes);
	p->routes = NULL;
}
