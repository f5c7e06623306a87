/* SPDX-License-Identifier: Apache-2.0 */
#include "config/parse.h"

#include <string.h>

#include "base/check.h"
#include "base/num.h"

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
		conf_fail(p, line, i,
			  "found interface \"%.64s\"; allowed: a name of 1 to 15 characters",
			  title);
		return i;
	}
	memcpy(i->name, title, len);
	i->line = line;
	conf_record_setting(p, conf_arena_printf(p->arena, "interface %s = served", title), true);
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
	p->obj[CONF_TLS] = NULL;
	p->line[CONF_TLS] = 0;
	conf_forget_keys(p, CONF_TLS);
	return l;
}

static void *new_tls(struct conf_parse *p, int line)
{
	struct sl_cfg_listener *l = p->obj[CONF_LISTENER];

	l->tls = conf_arena_alloc(p->arena, sizeof(*l->tls));
	if (!l->tls)
		return NULL;
	l->tls->line = line;
	p->obj[CONF_TLS] = l->tls;
	conf_set_defaults(p, CONF_TLS, false);
	return l->tls;
}

static void *new_pool(struct conf_parse *p, const char *title, int line)
{
	struct sl_config *c = p->cfg;
	struct sl_cfg_pool *pool = next_of(c->pools, sizeof(*pool), &c->pool_cnt, SL_MAX_SERVICES);

	if (!pool)
		return NULL;
	pool->name = title;
	pool->line = line;
	p->obj[CONF_BATCH] = &pool->batch;
	p->line[CONF_BATCH] = 0;
	conf_forget_keys(p, CONF_BATCH);
	conf_set_defaults(p, CONF_BATCH, false);
	p->obj[CONF_HEALTH] = &pool->health;
	p->line[CONF_HEALTH] = 0;
	conf_forget_keys(p, CONF_HEALTH);
	conf_set_defaults(p, CONF_HEALTH, false);
	p->obj[CONF_SERVER_TLS] = &pool->tls;
	p->line[CONF_SERVER_TLS] = 0;
	conf_forget_keys(p, CONF_SERVER_TLS);
	conf_set_defaults(p, CONF_SERVER_TLS, false);
	return pool;
}

static void *new_backend(struct conf_parse *p, const char *title, int line)
{
	struct sl_cfg_pool *pool = p->obj[CONF_POOL];
	struct sl_cfg_backend *b, *all = NULL;

	if (pool->backend_cnt < SL_CFG_MAX_BACKENDS)
		all = conf_arena_grow(p->arena, pool->backends, pool->backend_cnt, sizeof(*b));
	if (!all)
		return NULL;
	pool->backends = all;
	b = &all[pool->backend_cnt++];
	b->name = title;
	b->line = line;
	return b;
}

static bool decode_prefix(char *text)
{
	char *to = text;

	for (const char *p = text; *p; p++) {
		int high = *p == '%' ? sl_hex_digit((uint8_t)p[1]) : -1;
		int low = high >= 0 ? sl_hex_digit((uint8_t)p[2]) : -1;
		int c = low < 0 ? -1 : high << 4 | low;

		if (*p != '%' || c == '%') {
			*to++ = *p;
			continue;
		}
		if (c <= 0 || c == '/' || c == '\\')
			return false;
		*to++ = (char)c;
		p += 2;
	}
	*to = 0;
	return true;
}

static void *new_route(struct conf_parse *p, const char *title, int line)
{
	static const enum conf_block parts[] = {CONF_RESPOND, CONF_AFFINITY, CONF_CORS, CONF_SPLIT,
						CONF_MIRROR};
	struct sl_config *c = p->cfg;
	struct conf_route_ref *r = next_of(p->routes, sizeof(*r), &c->route_cnt, SL_CFG_MAX_ROUTES);
	char *prefix = conf_arena_strndup(p->arena, title, strlen(title));

	for (size_t i = 0; i < SL_ARRAY_LEN(parts); i++)
		p->obj[parts[i]] = NULL;
	if (!r || !prefix)
		return NULL;
	for (size_t i = 0; i < SL_ARRAY_LEN(parts); i++) {
		p->obj[parts[i]] = r;
		p->line[parts[i]] = 0;
		conf_forget_keys(p, parts[i]);
		conf_set_defaults(p, parts[i], false);
	}
	r->route.pool = -1;
	r->route.line = line;
	if ((title[0] != '/' && strcmp(title, "*") != 0) || strlen(title) > 1024 ||
	    strpbrk(title, "?# \t\r\n") || !decode_prefix(prefix))
		conf_fail(p, line, r,
			  "found route \"%.64s\"; allowed: a path that begins with / and has no ?, "
			  "#, blank, %%2F or %%5C, or \"*\"",
			  title);
	r->route.prefix = prefix;
	r->route.prefix_len = (uint32_t)strlen(prefix);
	return r;
}

static struct sl_cfg_health *new_health(struct sl_cfg_pool *pool, int line)
{
	pool->health.on = true;
	pool->health.line = line;
	return &pool->health;
}

static struct sl_cfg_server_tls *new_server_tls(struct sl_cfg_pool *pool, int line)
{
	pool->tls.line = line;
	return &pool->tls;
}

void *conf_new_object(struct conf_parse *p, enum conf_block b, const char *title, int line)
{
	switch (b) {
	case CONF_INTERFACE: return new_interface(p, title, line);
	case CONF_LISTENER: return new_listener(p, title, line);
	case CONF_POOL: return new_pool(p, title, line);
	case CONF_BACKEND: return new_backend(p, title, line);
	case CONF_ROUTE: return new_route(p, title, line);
	case CONF_MATCH: return conf_new_match(p, title, line);
	case CONF_RESPOND:
		((struct conf_route_ref *)p->obj[CONF_ROUTE])->responds = true;
		return p->obj[CONF_ROUTE];
	case CONF_AFFINITY:
	case CONF_SPLIT:
	case CONF_MIRROR: return conf_begin_route_part(p, b, line);
	case CONF_TLS: return new_tls(p, line);
	case CONF_CORS: return conf_new_cors(p, line);
	case CONF_QUOTA: return conf_new_quota(p, title, line);
	case CONF_KEYS: return conf_new_keys(p, title, line);
	case CONF_BATCH: return &((struct sl_cfg_pool *)p->obj[CONF_POOL])->batch;
	case CONF_HEALTH: return new_health(p->obj[CONF_POOL], line);
	case CONF_SERVER_TLS: return new_server_tls(p->obj[CONF_POOL], line);
	default: return p->cfg;
	}
}
