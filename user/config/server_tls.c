/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/check.h"
#include "base/fnv.h"
#include "config/parse.h"
#include "config/server.h"

struct server_files {
	const char *paths[SL_CFG_MAX_SERVER_FILES];
	uint32_t cnt; /* one more: too many */
};

static void count_file(struct server_files *all, const char *path)
{
	for (uint32_t i = 0; path && i < all->cnt && i < SL_CFG_MAX_SERVER_FILES; i++) {
		if (strcmp(all->paths[i], path) == 0)
			return;
	}
	if (path && all->cnt < SL_CFG_MAX_SERVER_FILES)
		all->paths[all->cnt] = path;
	if (path && all->cnt <= SL_CFG_MAX_SERVER_FILES)
		all->cnt++;
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return text ? sl_fnv64(hash, text, strlen(text) + 1) : sl_fnv64(hash, "", 1);
}

static uint64_t hash_tls(uint64_t hash, const struct sl_cfg_server_tls *t)
{
	hash = hash_text(hash_text(hash, t->server_name), t->ca_file.path);
	hash = hash_text(hash_text(hash, t->certificate.path), t->key.path);
	return sl_fnv64(hash, &t->verify, sizeof(t->verify));
}

/* Agents get a list with a line per file. */
static void check_path(struct conf_parse *p, const struct sl_cfg_server_tls *t,
		       const struct sl_cfg_file *f)
{
	if (f->path && strpbrk(f->path, "\t\n"))
		conf_fail(p, f->line, t,
			  "found a path with a tab or line end in tls; allowed: none");
}

static void check_pool(struct conf_parse *p, struct sl_cfg_pool *pool, struct server_files *files)
{
	const struct sl_cfg_server_tls *t = &pool->tls;
	uint32_t servers = 0;

	for (uint32_t b = 0; b < pool->backend_cnt; b++) {
		if (!sl_server_has_tls(&pool->backends[b]))
			continue;
		servers++;
		pool->backends[b].server_hash = hash_tls(pool->backends[b].server_hash, t);
	}
	if (t->line && !servers)
		conf_fail(p, t->line, t,
			  "found tls in pool \"%s\" without an https or h2 server; allowed: with "
			  "endpoint = \"https://HOST:PORT\" or \"h2://HOST:PORT\"",
			  pool->name);
	if (!t->certificate.path != !t->key.path)
		conf_fail(p, t->line, t,
			  "found tls of pool \"%s\" with %s alone; allowed: certificate and key, "
			  "or none",
			  pool->name, t->key.path ? "key" : "certificate");
	check_path(p, t, &t->ca_file);
	check_path(p, t, &t->certificate);
	check_path(p, t, &t->key);
	if (!servers)
		return;
	count_file(files, t->verify ? t->ca_file.path : NULL);
	count_file(files, t->certificate.path);
	count_file(files, t->key.path);
}

void conf_check_server_tls(struct conf_parse *p)
{
	struct server_files files = {.cnt = 0};

	for (uint32_t i = 0; i < p->cfg->pool_cnt; i++) {
		struct sl_cfg_pool *pool = &p->cfg->pools[i];

		if (!conf_diags_has(&p->mistakes, pool) && pool->tls.ca_file.path)
			check_pool(p, pool, &files);
	}
	if (files.cnt > SL_CFG_MAX_SERVER_FILES)
		conf_fail(p, 0, NULL,
			  "found more than %d files in tls blocks of pools; allowed: %d",
			  SL_CFG_MAX_SERVER_FILES, SL_CFG_MAX_SERVER_FILES);
}
