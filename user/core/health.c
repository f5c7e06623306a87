/* SPDX-License-Identifier: Apache-2.0 */
#include "core/client.h"
#include "core/pool.h"
#include "core/router.h"
#include "rpc/rpc.h"

static enum sl_serving pool_serves(const struct sl_core *c, uint32_t pool)
{
	for (uint32_t b = 0; b < c->cfg->pools[pool].backend_cnt && !c->draining; b++) {
		if (sl_backend_ref_state(c->wcfg->pools[pool].backends[b]) == SL_BACKEND_UP)
			return SL_SERVING_YES;
	}
	return SL_SERVING_NO;
}

enum sl_serving sl_core_serving(void *arg, enum sl_asked what, struct sl_span name)
{
	enum sl_serving found = SL_SERVING_UNKNOWN;
	const struct sl_core *c = arg;

	if (what == SL_ASKED_ALL)
		found = c->draining ? SL_SERVING_NO : SL_SERVING_YES;
	for (uint32_t i = 0; found == SL_SERVING_YES && i < c->cfg->pool_cnt; i++)
		found = sl_cfg_is_mirror_only(c->cfg, i) ? found : pool_serves(c, i);
	for (uint32_t i = 0; what == SL_ASKED_POOL && i < c->cfg->pool_cnt; i++) {
		if (sl_span_eq(sl_span_cstr(c->cfg->pools[i].name), name))
			found = pool_serves(c, i);
	}
	for (uint32_t i = 0; what == SL_ASKED_ROUTE && i < c->cfg->route_cnt; i++) {
		const struct sl_cfg_route *r = &c->cfg->routes[i];

		if (r->pool >= 0 && sl_span_eq(sl_span_of(r->prefix, r->prefix_len), name))
			found = pool_serves(c, (uint32_t)r->pool);
	}
	return found;
}

bool sl_core_routed(void *conn, const struct sl_request *rq, struct sl_span service)
{
	const struct sl_client *cl = conn;
	const struct sl_cfg_route *r =
		sl_router_find(cl->core->wcfg->router, sl_client_listener(cl), rq).route;

	return r && r->prefix_len >= service.len;
}
