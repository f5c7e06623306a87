/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/internal.h"
#include "xio/rss.h"

static bool read_link(struct sl_gateway *g, struct sl_gateway_link *k)
{
	char was[sizeof(k->replies)];
	struct sl_err why = SL_ERR(80);
	struct sl_rss r;

	memcpy(was, k->replies, sizeof(was));
	if (sl_rss_read(&r, k->name, g->xdp[k->xdp].ifindex, &why))
		snprintf(k->replies, sizeof(k->replies), "handed over between workers: %s",
			 why.text);
	else
		snprintf(k->replies, sizeof(k->replies), "to the own queue by RSS%s",
			 !r.hashes6   ? ", IPv4 only"
			 : !r.hashes4 ? ", IPv6 only"
				      : "");
	if (strcmp(was, k->replies) != 0)
		sl_log_info("interface %s: replies of servers: %s", k->name, k->replies);
	if (sl_rss_equal(&g->rss[k->xdp], &r))
		return false;
	g->rss[k->xdp] = r;
	return true;
}

static void tell_workers(struct sl_gateway *g)
{
	struct sl_rss_list *l = sl_rss_list_new(g->rss, g->xdp_cnt);

	for (unsigned i = 0; l && i < g->worker_cnt; i++) {
		const struct sl_worker_msg msg = {.verb = SL_WORKER_RSS, .rss = sl_rss_list_get(l)};

		if (sl_worker_tell(&g->workers[i], &msg))
			sl_rss_list_put(l);
	}
	sl_rss_list_put(l);
}

void sl_rss_follow(struct sl_gateway *g, uint64_t now_ns)
{
	bool changed = false;

	if (!g->cfg->limits.port_first || g->worker_cnt < 2 || !g->xdp_cnt || now_ns < g->rss_ns)
		return;
	g->rss_ns = now_ns + SL_NS_PER_SEC;
	if (!g->rss)
		g->rss = calloc(g->xdp_cnt, sizeof(*g->rss));
	for (uint32_t i = 0; g->rss && i < g->link_cnt; i++) {
		if (!g->links[i].by_sockets)
			changed |= read_link(g, &g->links[i]);
	}
	if (changed)
		tell_workers(g);
}
