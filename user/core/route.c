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

const struct sl_cfg_route *sl_route_find(const struct sl_config *cfg, struct sl_span path)
{
	/* Longest prefix first, so the first match is the most specific one. */
	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		if (prefix_matches(&cfg->routes[i], path))
			return &cfg->routes[i];
	}
	return NULL;
}
