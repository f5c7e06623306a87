/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exchange.h"

#include <string.h>

/* A prefix matches whole path segments: "/a" matches "/a" and "/a/b", not "/ab". */
static bool prefix_matches(const struct sl_cfg_route *r, struct sl_span path)
{
	if (path.len < r->prefix_len || memcmp(path.ptr, r->prefix, r->prefix_len) != 0)
		return false;
	return path.len == r->prefix_len || r->prefix[r->prefix_len - 1] == '/' ||
	       path.ptr[r->prefix_len] == '/';
}

/* Of the routes of one prefix, which stand together, that with the method; else the first. */
static const struct sl_cfg_route *with_method(const struct sl_config *cfg, uint32_t first,
					      enum sl_method m)
{
	const struct sl_cfg_route *r = &cfg->routes[first], *end = cfg->routes + cfg->route_cnt;

	for (const struct sl_cfg_route *at = r; at < end && at->prefix_len == r->prefix_len &&
						memcmp(at->prefix, r->prefix, r->prefix_len) == 0;
	     at++) {
		if (sl_route_allows(at, m))
			return at;
	}
	return r;
}

const struct sl_cfg_route *sl_route_find(const struct sl_config *cfg, struct sl_span path,
					 enum sl_method m)
{
	/* Longest prefix first, so the first match is the most specific one. */
	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		if (prefix_matches(&cfg->routes[i], path))
			return with_method(cfg, i, m);
	}
	return NULL;
}
