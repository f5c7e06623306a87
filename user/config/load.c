/* SPDX-License-Identifier: Apache-2.0 */
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "config/include.h"

static void check_complete(struct conf_parse *p)
{
	if (!p->cfg->listener_cnt)
		conf_fail(p, 1, NULL, "found no listener; allowed: at least one");
	if (!p->cfg->route_cnt)
		conf_fail(p, 1, NULL, "found no route; allowed: at least one");
}

static struct sl_config *finish_load(struct conf_parse *p, struct sl_err *err)
{
	if (!p->mistakes.cnt)
		return p->cfg;
	conf_diags_print(&p->mistakes, err);
	conf_diags_free(&p->mistakes);
	conf_arena_free(p->arena);
	return NULL;
}

static bool begin_load(struct conf_parse *p, const char *name, struct sl_err *err)
{
	static _Atomic uint64_t number;

	p->arena = conf_arena_create();
	p->cfg = p->arena ? conf_arena_alloc(p->arena, sizeof(*p->cfg)) : NULL;
	if (!p->cfg) {
		conf_arena_free(p->arena);
		sl_err_set(err, "%s:0: found too little memory", name);
		return false;
	}
	p->mistakes.cfg = p->cfg;
	p->cfg->arena = p->arena;
	p->cfg->number = ++number;
	p->cfg->file = conf_arena_strndup(p->arena, name, strlen(name));
	memset(p->cfg->cpus, 0xff, sizeof(p->cfg->cpus));
	return true;
}

static void parse_text(struct conf_parse *p, const struct conf_file_id *id, char *text)
{
	struct sl_strbuf all;

	sl_strbuf_grow(&all, SL_CFG_FILE_MAX + 1);
	conf_include(p, p->mistakes.file, id, text, &all);
	if (!all.err)
		conf_parse_text(p, sl_strbuf_cstr(&all));
	sl_strbuf_fini(&all);
	if (!p->stopped)
		conf_check(p);
	conf_parse_settle(p);
}

struct sl_config *sl_config_parse(const char *text, const char *name, struct sl_err *err)
{
	struct conf_parse p = {.mistakes = {.file = name}};
	char *own = strdup(text);

	if (!own || !begin_load(&p, name, err)) {
		free(own);
		return NULL;
	}
	parse_text(&p, NULL, own);
	free(own);
	return finish_load(&p, err);
}

static bool read_file(struct conf_parse *p, const char *file, struct sl_err *err)
{
	struct sl_err why = SL_ERR(300);
	struct conf_file_id id;
	char *text = conf_file_read(file, SL_CFG_FILE_MAX, p->offline, &id, &why);

	if (!text) {
		sl_err_set(err, "%s:0: found %s", file, why.text);
		return false;
	}
	if (!begin_load(p, file, err)) {
		free(text);
		return false;
	}
	parse_text(p, &id, text);
	free(text);
	return true;
}

/* Without XDP the gateway needs no privileges: it keeps its account unless that is root. */
static void use_own_account(struct sl_config *c)
{
	const struct passwd *pw;

	if (geteuid() == 0 || c->user_line || sl_config_has_xdp(c))
		return;
	pw = getpwuid(geteuid());
	c->user = pw ? conf_arena_strndup(c->arena, pw->pw_name, strlen(pw->pw_name)) : "";
}

static struct sl_config *load_file(const char *file, bool offline, struct sl_err *err)
{
	struct conf_parse p = {.mistakes = {.file = file}, .offline = offline};

	if (!read_file(&p, file, err))
		return NULL;
	if (!p.mistakes.cnt)
		check_complete(&p);
	if (!offline)
		use_own_account(p.cfg);
	if (p.mistakes.cnt && !p.stopped && !offline)
		conf_check_system(p.cfg, &p.mistakes);
	return finish_load(&p, err);
}

struct sl_config *sl_config_load(const char *file, struct sl_err *err)
{
	return load_file(file, false, err);
}

struct sl_config *sl_config_load_offline(const char *file, struct sl_err *err)
{
	return load_file(file, true, err);
}

bool sl_config_lacks_interface(const char *file)
{
	struct conf_parse p = {.mistakes = {.file = file}};
	struct sl_err err = SL_ERR(300);
	bool lacks;

	if (!read_file(&p, file, &err))
		return false;
	lacks = !p.mistakes.cnt && !p.cfg->interface_cnt;
	conf_diags_free(&p.mistakes);
	sl_config_free(p.cfg);
	return lacks;
}

void sl_config_on_free(struct sl_config *c, void (*fn)(struct sl_config *c))
{
	size_t i = 0;

	while (i < SL_ARRAY_LEN(c->release) && c->release[i] && c->release[i] != fn)
		i++;
	if (SL_ENSURE(i < SL_ARRAY_LEN(c->release)))
		c->release[i] = fn;
}

void sl_config_free(struct sl_config *c)
{
	for (size_t i = 0; c && i < SL_ARRAY_LEN(c->release); i++) {
		if (c->release[i])
			c->release[i](c);
	}
	if (c)
		conf_arena_free(c->arena);
}
