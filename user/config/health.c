/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/fnv.h"
#include "config/parse.h"
#include "config/server.h"

static bool is_visible(const char *text)
{
	for (; *text; text++) {
		if (*text <= ' ' || *text > '~')
			return false;
	}
	return true;
}

static uint64_t hash_health(const struct sl_cfg_health *h)
{
	uint64_t hash = sl_fnv64(SL_FNV64, h->path, strlen(h->path) + 1);
	const uint64_t numbers[] = {h->interval_ns, h->timeout_ns, h->expect, h->failures};

	if (h->service)
		hash = sl_fnv64(hash, h->service, strlen(h->service) + 1);
	return sl_fnv64(hash, numbers, sizeof(numbers));
}

void conf_check_health(struct conf_parse *p, struct sl_cfg_pool *pool)
{
	struct sl_cfg_health *h = &pool->health;
	uint32_t servers = 0;

	if (!h->on || !h->path)
		return;
	for (uint32_t b = 0; b < pool->backend_cnt; b++) {
		if (!sl_server_is(&pool->backends[b]))
			continue;
		servers++;
		pool->backends[b].server_hash = hash_health(h);
	}
	if (!servers)
		conf_fail(p, h->line, h,
			  "found health in pool \"%s\" without an unmodified server; allowed: with "
			  "http, h2c, https, h2, http+unix and h2c+unix",
			  pool->name);
	if (h->path[0] != '/' || !is_visible(h->path))
		conf_fail(
			p, h->line, h,
			"found path = \"%.64s\" in health; allowed: a path that begins with / and "
			"has no blanks",
			h->path);
	if (h->service && !is_visible(h->service))
		conf_fail(
			p, h->line, h,
			"found service = \"%.64s\" in health; allowed: the name of a gRPC service",
			h->service);
	if (h->timeout_ns > h->interval_ns)
		conf_fail(p, h->line, h,
			  "found timeout above interval in health; allowed: at most the interval");
}
