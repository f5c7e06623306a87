/* SPDX-License-Identifier: Apache-2.0 */
#include "config/aliases.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "config/parse.h"

/* Drops the value of a key that has no effect any more. */
static const char *nothing_of(const char *text)
{
	(void)text;
	return "";
}

/* limits.max_per_address: 0 was no limit beside the share, and 1 is a share in the new key. */
static const char *address_connections_of(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (!digits || text[digits] || strcmp(text, "1") == 0)
		return NULL;
	return strspn(text, "0") == digits ? "" : text;
}

static const struct conf_alias aliases[] = {
	{CONF_WORKERS, "spin", CONF_WORKERS, "busy_poll", NULL, NULL},
	{CONF_TLS, "client", CONF_TLS, "verify_client", NULL, NULL},
	{CONF_POOL, "fair", CONF_POOL, "fair_by", NULL, NULL},
	{CONF_BACKEND, "first", CONF_BACKEND, "bootstrap", NULL, NULL},
	{CONF_BATCH, "bound", CONF_BATCH, "max_latency", NULL, NULL},
	{CONF_BATCH, "bound_mode", CONF_BATCH, "on_overload", NULL, NULL},
	{CONF_BATCH, "eta", CONF_BATCH, "slack_use", NULL, NULL},
	{CONF_ROUTE, "reply", CONF_RESPOND, "status", NULL, NULL},
	{CONF_ROUTE, "body", CONF_RESPOND, "body", NULL, NULL},
	{CONF_ROUTE, "type", CONF_RESPOND, "content_type", NULL, NULL},
	{CONF_ROUTE, "idle", CONF_ROUTE, "stream_idle_timeout", NULL, NULL},
	{CONF_ROUTE, "max_duration", CONF_ROUTE, "stream_timeout", NULL, NULL},
	{CONF_ROUTE, "path", CONF_ROUTE, "request_path", NULL, NULL},
	{CONF_LIMITS, "path", CONF_ROOT, "request_path", NULL, NULL},
	{CONF_LIMITS, "max_promoted", CONF_LIMITS, "max_rc_qps", NULL, NULL},
	{CONF_LIMITS, "max_per_address", CONF_LIMITS, "address_connections", address_connections_of,
	 "0, or a whole number from 2 to 4000000"},
	{CONF_LIMITS, "newreno", CONF_TCP, NULL, nothing_of, NULL},
	{CONF_TCP, "congestion", CONF_TCP, NULL, nothing_of, NULL},
	{CONF_LIMITS, "keepalive", CONF_TCP, "keepalive", NULL, NULL},
	{CONF_LIMITS, "rst_closed_ports", CONF_TCP, "rst_closed_ports", NULL, NULL},
	{CONF_LIMITS, "frame_memory", CONF_MEMORY, "frames", NULL, NULL},
	{CONF_LIMITS, "reorder_memory", CONF_MEMORY, "reorder", NULL, NULL},
};

const struct conf_alias *conf_alias_at(size_t i)
{
	return i < SL_ARRAY_LEN(aliases) ? &aliases[i] : NULL;
}

const struct conf_alias *conf_alias_find(enum conf_block block, const char *name)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(aliases); i++) {
		if (aliases[i].block == block && strcmp(aliases[i].name, name) == 0)
			return &aliases[i];
	}
	return NULL;
}

const char *conf_key_path(enum conf_block block, const char *name, char *buf, size_t len)
{
	const char *of = conf_block_name(block);

	snprintf(buf, len, "%s%s%s", of, *of ? "." : "", name);
	return buf;
}

static void note_alias(struct conf_parse *p, const struct conf_alias *a, int line)
{
	struct sl_config *c = p->cfg;
	char path[80];
	struct sl_cfg_former_key *more =
		conf_arena_grow(p->arena, c->former_keys, c->former_key_cnt, sizeof(*more));

	if (!more)
		return;
	c->former_keys = more;
	more[c->former_key_cnt++] = (struct sl_cfg_former_key){
		.line = line,
		.name = conf_arena_printf(p->arena, "%s",
					  conf_key_path(a->block, a->name, path, sizeof(path))),
		.now = a->new_name ? conf_arena_printf(p->arena, "%s",
						       conf_key_path(a->new_block, a->new_name,
								     path, sizeof(path)))
				   : NULL,
	};
}

const char *conf_alias_take(struct conf_parse *p, const struct conf_alias *a, const char *text,
			    int line)
{
	const char *value = a->value ? a->value(text) : text;

	note_alias(p, a, line);
	if (!value)
		conf_fail(p, line, conf_owner(p, a->new_block),
			  "found %s = \"%.200s\"; allowed: %s", a->name, text, a->allowed);
	return value && (value[0] || !a->value) ? value : NULL;
}
