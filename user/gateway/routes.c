/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "gateway/internal.h"
#include "net/route.h"

static struct sl_routes *make_table(const struct sl_gateway *g, int *rc)
{
	struct sl_routes *r = NULL;

	*rc = 0;
	if (g->routes.too_many) {
		sl_log_warn("the host has more than %d routes: replies go back the way that "
			    "requests came",
			    SL_HOST_ROUTES_MAX);
		return NULL;
	}
	r = sl_routes_new(&g->routes);
	*rc = r ? 0 : -ENOMEM;
	return r;
}

int sl_routes_open(struct sl_gateway *g, struct sl_err *err)
{
	int rc = sl_host_routes_open(&g->routes, err);
	struct sl_routes *r;

	if (rc)
		return rc;
	r = make_table(g, &rc);
	for (unsigned i = 0; r && i < g->worker_cnt; i++)
		sl_net_set_routes(&g->workers[i].net, sl_routes_get(r));
	sl_routes_put(r);
	return rc ? sl_fail(err, rc, "routes: %s", strerror(-rc)) : 0;
}

void sl_routes_follow_host(struct sl_gateway *g, uint64_t now_ns)
{
	struct sl_routes *r;
	int rc = 0;

	if (!sl_host_routes_poll(&g->routes, now_ns))
		return;
	r = make_table(g, &rc);
	for (unsigned i = 0; !rc && i < g->worker_cnt; i++) {
		const struct sl_worker_msg msg = {
			.verb = SL_WORKER_ROUTES,
			.routes = r ? sl_routes_get(r) : NULL,
		};

		rc = sl_worker_tell(&g->workers[i], &msg);
		if (rc)
			sl_routes_put(msg.routes);
	}
	sl_routes_put(r);
	if (rc)
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR, "cannot follow the host's routes: %s",
			     strerror(-rc));
}
