/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "config/keys.h"

static const char *const block_names[CONF_BLOCK_CNT] = {
	[CONF_ROOT] = "",
	[CONF_INTERFACE] = "interface",
	[CONF_WORKERS] = "workers",
	[CONF_LISTENER] = "listener",
	[CONF_TLS] = "listener.tls",
	[CONF_POOL] = "pool",
	[CONF_BACKEND] = "pool.backend",
	[CONF_BATCH] = "pool.batch",
	[CONF_HEALTH] = "pool.health",
	[CONF_SERVER_TLS] = "pool.tls",
	[CONF_ROUTE] = "route",
	[CONF_RESPOND] = "route.respond",
	[CONF_MATCH] = "route.match",
	[CONF_AFFINITY] = "route.affinity",
	[CONF_CORS] = "route.cors",
	[CONF_SPLIT] = "route.split",
	[CONF_MIRROR] = "route.mirror",
	[CONF_LIMITS] = "limits",
	[CONF_TCP] = "tcp",
	[CONF_MEMORY] = "memory",
	[CONF_ADMIN] = "admin",
	[CONF_ACCESS_LOG] = "access_log",
	[CONF_AGENTS] = "agents",
	[CONF_TRACE] = "trace",
	[CONF_PENALTY] = "penalty",
	[CONF_QUOTA] = "quota",
	[CONF_KEYS] = "keys",
};

const char *conf_block_name(enum conf_block block)
{
	return block_names[block];
}

const char *conf_block_bare(enum conf_block block)
{
	const char *name = block_names[block];
	const char *dot = strrchr(name, '.');

	return dot ? dot + 1 : name;
}

enum conf_block conf_block_parent(enum conf_block block)
{
	if (block == CONF_ROOT)
		return CONF_BLOCK_CNT;
	if (block == CONF_TLS)
		return CONF_LISTENER;
	if (block >= CONF_RESPOND && block <= CONF_MIRROR)
		return CONF_ROUTE;
	if (block >= CONF_BACKEND && block <= CONF_SERVER_TLS)
		return CONF_POOL;
	return CONF_ROOT;
}

enum conf_block conf_block_child(enum conf_block b, const char *name)
{
	for (int k = CONF_ROOT + 1; k < CONF_BLOCK_CNT; k++) {
		if (conf_block_parent((enum conf_block)k) == b &&
		    strcmp(conf_block_bare((enum conf_block)k), name) == 0)
			return (enum conf_block)k;
	}
	return CONF_ROOT;
}

int conf_key_find(enum conf_block block, const char *name)
{
	for (size_t i = 0; i < conf_key_cnt; i++) {
		if (conf_keys[i].block == block && strcmp(conf_keys[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

void conf_key_allowed(const struct conf_key *k, char *buf, size_t len)
{
	if (k->what)
		snprintf(buf, len, "%s", k->what);
	else
		k->type->allowed(k, buf, len);
}

void sl_config_each_key(void (*fn)(void *arg, const struct sl_config_key *key), void *arg)
{
	for (size_t i = 0; i < conf_key_cnt; i++) {
		const struct conf_key *k = &conf_keys[i];
		struct sl_config_key doc = {
			.block = block_names[k->block],
			.name = k->name,
			.fallback = k->fallback,
			.list = k->list,
			.required = k->required,
			.restart = k->restart,
			.help = k->help,
		};

		conf_key_allowed(k, doc.allowed, sizeof(doc.allowed));
		fn(arg, &doc);
	}
}
