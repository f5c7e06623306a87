/* SPDX-License-Identifier: Apache-2.0 */
#include "config/parse.h"

#include <string.h>

#include "http/method.h"

enum { NAME_LEN = 64, LIST_LEN = 1024, ORIGIN_LEN = 300 };

static bool is_origin(const char *text)
{
	static const char chars[] = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
	const char *host = strncmp(text, "https://", 8) == 0  ? text + 8
			   : strncmp(text, "http://", 7) == 0 ? text + 7
							      : "";

	return host[0] && !host[strspn(host, chars)] && strlen(text) <= ORIGIN_LEN;
}

static bool set_origins(struct conf_value *v)
{
	struct sl_cfg_cors *c = &((struct conf_route_ref *)v->obj)->route.cors;
	const bool any = strcmp(v->text, "*") == 0;
	const char *text = conf_arena_strndup(v->arena, v->text, strlen(v->text));

	if (!text || c->origin_cnt == SL_CFG_MAX_ORIGINS || (!any && !is_origin(text)) ||
	    (c->origin_cnt && (any || strcmp(c->origins[0], "*") == 0)))
		return false;
	if (!c->origins)
		c->origins = conf_arena_alloc(v->arena, SL_CFG_MAX_ORIGINS * sizeof(*c->origins));
	if (c->origins)
		c->origins[c->origin_cnt++] = text;
	return c->origins;
}

const struct conf_type conf_origins = {set_origins, NULL};

static bool append_element(struct conf_value *v)
{
	const char **list = conf_field(v);

	*list = *list ? conf_arena_printf(v->arena, "%s, %s", *list, v->text)
		      : conf_arena_strndup(v->arena, v->text, strlen(v->text));
	return *list && strlen(*list) <= LIST_LEN;
}

static bool set_methods(struct conf_value *v)
{
	return (1u << sl_method_parse(sl_span_cstr(v->text)) & SL_METHODS_SERVED) &&
	       append_element(v);
}

const struct conf_type conf_cors_methods = {set_methods, NULL};

static bool set_headers(struct conf_value *v)
{
	return conf_is_token(v->text, NAME_LEN) && strcmp(v->text, "*") != 0 && append_element(v);
}

const struct conf_type conf_cors_headers = {set_headers, NULL};

void *conf_new_cors(struct conf_parse *p, int line)
{
	struct conf_route_ref *r = p->obj[CONF_ROUTE];

	r->route.cors.line = line;
	return r;
}

void conf_check_cors(struct conf_parse *p, struct conf_route_ref *r)
{
	const struct sl_cfg_cors *c = &r->route.cors;

	if (!c->line || conf_diags_has(&p->mistakes, r))
		return;
	if (!c->origin_cnt)
		conf_fail(
			p, c->line, r,
			"found cors without origins; allowed: cors { origins = {\"https://HOST\"} }");
	else if (c->credentials && strcmp(c->origins[0], "*") == 0)
		conf_fail(p, c->line, r,
			  "found credentials with origins = {\"*\"}; allowed: names of origins");
}
