/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/ways.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "config/server.h"
#include "gateway/internal.h"
#include "xio/netdev.h"
#include "xio/probe.h"

enum link_kind { LINK_NONE, LINK_SOCKETS, LINK_XDP };

static enum link_kind kind_of_link(const struct sl_gateway *g, const struct sl_config *cfg,
				   const char *name)
{
	struct sl_nic_info nic;

	for (uint32_t i = 0; g && i < g->link_cnt; i++) {
		if (strcmp(g->links[i].name, name) == 0)
			return g->links[i].by_sockets ? LINK_SOCKETS : LINK_XDP;
	}
	for (uint32_t i = 0; !g && i < cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *ci = &cfg->interfaces[i];

		if (strcmp(ci->name, name) != 0)
			continue;
		if (ci->mode == SL_ATTACH_SOCKET || sl_probe_nic(name, &nic) || !nic.ethernet)
			return LINK_SOCKETS;
		return LINK_XDP;
	}
	return LINK_NONE;
}

static bool refuse_endpoint(const struct sl_cfg_backend *b, struct sl_addr *at, struct sl_err *why)
{
	struct sl_server_url url;

	if (sl_server_at(b, at))
		return false;
	if (!sl_server_url_parse(b->endpoint, &url) || url.local)
		sl_err_set(why, "the endpoint is a Unix socket");
	else if (url.tls)
		sl_err_set(why, "the endpoint has TLS");
	else
		sl_err_set(why, "%.60s is a name", url.host);
	return true;
}

static bool refuse_route(const struct sl_gateway *g, const struct sl_config *cfg,
			 const struct sl_addr *at, struct sl_err *why)
{
	char addr[SL_ADDR_TEXT], name[IF_NAMESIZE];
	enum link_kind kind;
	bool local;
	int ifindex;

	sl_addr_text(at, addr);
	if (sl_netdev_route(at, &ifindex, &local)) {
		sl_err_set(why, "no route to %s", addr);
		return true;
	}
	if (local) {
		sl_err_set(why, "%s is on this host", addr);
		return true;
	}
	if (!if_indextoname((unsigned)ifindex, name))
		snprintf(name, sizeof(name), "a removed one");
	kind = kind_of_link(g, cfg, name);
	if (kind == LINK_NONE)
		sl_err_set(why, "it is reached by %s, which is not configured", name);
	else if (kind == LINK_SOCKETS)
		sl_err_set(why, "it is reached by %s, which has no XDP", name);
	else
		sl_err_set(why, "it is reached by %s", name);
	return kind != LINK_XDP;
}

static void choose_way(const struct sl_gateway *g, const struct sl_config *cfg,
		       struct sl_cfg_backend *b)
{
	struct sl_err why = {b->way_why, sizeof(b->way_why)};
	bool ports = g ? g->workers[0].upstreams != NULL : cfg->limits.port_first != 0;
	struct sl_addr at;

	b->way = SL_VIA_AGENT;
	if (refuse_endpoint(b, &at, &why))
		return;
	if (!ports)
		sl_err_set(&why, "tcp.server_ports is not set");
	else if (!refuse_route(g, cfg, &at, &why))
		b->way = SL_VIA_STACK;
}

void sl_ways_choose(const struct sl_gateway *g, struct sl_config *cfg)
{
	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		for (uint32_t i = 0; i < cfg->pools[p].backend_cnt; i++) {
			struct sl_cfg_backend *b = &cfg->pools[p].backends[i];

			if (b->via != SL_VIA_AUTO || !sl_server_is(b))
				continue;
			choose_way(g, cfg, b);
			if (g)
				sl_log_info("server %s/%s: %s: %s", cfg->pools[p].name, b->name,
					    sl_cfg_way_name(b), b->way_why);
		}
	}
}
