/* SPDX-License-Identifier: Apache-2.0 */
#include "config/parse.h"

#include <string.h>

#include "base/check.h"

enum { NAME_LEN = 64 };

static bool set_route_keys(struct conf_value *v)
{
	((struct conf_route_ref *)v->obj)->keys_line = v->line;
	return v->text[0] && conf_store_text(v);
}

const struct conf_type conf_route_keys = {set_route_keys, NULL};

uint32_t conf_find_keys(const struct sl_config *c, const char *name)
{
	uint32_t i = 0;

	while (i < c->key_cnt && strcmp(c->keys[i].name, name) != 0)
		i++;
	return i;
}

void *conf_new_keys(struct conf_parse *p, const char *title, int line)
{
	struct sl_config *c = p->cfg;
	struct sl_cfg_keys *k;

	if (!c->keys)
		c->keys = conf_arena_alloc(p->arena, SL_CFG_MAX_KEYS * sizeof(*c->keys));
	if (!c->keys || c->key_cnt == SL_CFG_MAX_KEYS)
		return NULL;
	k = &c->keys[c->key_cnt++];
	k->name = title;
	k->line = line;
	if (!conf_is_token(title, NAME_LEN))
		conf_fail(p, line, k,
			  "found keys \"%.64s\"; allowed: a name of up to 64 letters, digits and "
			  "- _ .",
			  title);
	return k;
}

static bool can_hold_key(const char *header)
{
	static const char *const others[] = {"host",         "connection",        "content-length",
					     "content-type", "transfer-encoding", "te",
					     "trailer",      "upgrade",           "expect",
					     "forwarded",    "traceparent"};

	for (size_t i = 0; i < SL_ARRAY_LEN(others); i++) {
		if (strcmp(header, others[i]) == 0)
			return false;
	}
	return strncmp(header, "x-forwarded-", 12) != 0 &&
	       strncmp(header, "sluice-client-", 14) != 0;
}

void conf_check_keys(struct conf_parse *p)
{
	for (uint32_t i = 0; i < p->cfg->key_cnt; i++) {
		struct sl_cfg_keys *k = &p->cfg->keys[i];

		if (conf_diags_has(&p->mistakes, k))
			continue;
		k->bearer = strcmp(k->header, "authorization") == 0;
		if (!k->file)
			conf_fail(p, k->line, k,
				  "found keys \"%s\" without file; allowed: file = PATH", k->name);
		if (!can_hold_key(k->header))
			conf_fail(p, k->line, k,
				  "found header = \"%s\" for keys; allowed: one that is not about "
				  "a connection, a body or the client's address",
				  k->header);
	}
}

void conf_use_keys(struct conf_parse *p, struct conf_route_ref *r)
{
	const struct sl_config *c = p->cfg;
	const uint32_t at = r->keys ? conf_find_keys(c, r->keys) : 0;

	if (!r->keys || conf_diags_has(&p->mistakes, r))
		return;
	if (at < c->key_cnt)
		r->route.keys = &c->keys[at];
	else
		conf_fail(p, r->keys_line, r, "found keys = \"%.64s\"; allowed: %s", r->keys,
			  c->key_cnt ? "the name of a keys block" : "none, there is no keys block");
}
