/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "config/parse.h"
#include "config/server.h"

enum { PORT_MIN = 1024, PORTS_PER_WORKER = 64 };

static bool parse_port(const char *text, size_t len, uint16_t *port)
{
	uint64_t n;

	if (sl_parse_u64_max(sl_span_of(text, len), 65535, &n) || n < PORT_MIN)
		return false;
	*port = (uint16_t)n;
	return true;
}

static bool set_port_range(struct conf_value *v)
{
	struct sl_cfg_limits *l = &((struct sl_config *)v->obj)->limits;
	const char *dash = strchr(v->text, '-');
	uint16_t first, last;

	if (!dash || !parse_port(v->text, (size_t)(dash - v->text), &first) ||
	    !parse_port(dash + 1, strlen(dash + 1), &last) || last < first)
		return false;
	l->port_first = first;
	l->port_last = last;
	return true;
}

const struct conf_type conf_port_range = {set_port_range, NULL};

bool sl_server_at(const struct sl_cfg_backend *b, struct sl_addr *at)
{
	struct sl_server_url url;
	uint8_t addr[16] = {0};
	uint8_t family;

	if (!b->endpoint || !sl_server_url_parse(b->endpoint, &url) || url.local || url.tls)
		return false;
	if (inet_pton(AF_INET, url.host, addr) == 1)
		family = 4;
	else if (inet_pton(AF_INET6, url.host, addr) == 1)
		family = 6;
	else
		return false;
	*at = sl_addr_of(family, addr, htobe16(url.port));
	return true;
}

uint32_t sl_config_server_ports(const struct sl_config *c)
{
	const struct sl_cfg_limits *l = &c->limits;

	return l->port_first ? (l->port_last - l->port_first + 1u) / c->worker_cnt : 0;
}

static void check_backend(struct conf_parse *p, const struct sl_cfg_backend *b)
{
	struct sl_addr at;

	if (!b->endpoint)
		return;
	if (!sl_server_at(b, &at))
		conf_fail(p, b->line, b,
			  "found via = \"stack\" with endpoint = \"%.100s\"; allowed: "
			  "http://ADDRESS:PORT or h2c://ADDRESS:PORT, without a name",
			  b->endpoint);
	else if (!p->cfg->limits.port_first)
		conf_fail(p, b->line, b,
			  "found via = \"stack\" without tcp.server_ports; allowed: both");
	else if (!sl_config_has_xdp(p->cfg))
		conf_fail(p, b->line, b,
			  "found via = \"stack\" without an interface that XDP serves; allowed: "
			  "via = \"agent\"");
}

static bool is_in_range(const struct sl_cfg_limits *l, uint16_t port)
{
	return port >= l->port_first && port <= l->port_last;
}

static void check_range(struct conf_parse *p)
{
	const struct sl_config *c = p->cfg;
	const struct sl_cfg_limits *l = &c->limits;
	uint32_t cnt = l->port_last - l->port_first + 1u, least = PORTS_PER_WORKER * c->worker_cnt;

	if (cnt < least)
		conf_fail(p, p->line[CONF_TCP], NULL,
			  "found server_ports with %u ports; allowed: at least %u, %d for each "
			  "worker",
			  cnt, least, PORTS_PER_WORKER);
	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *at = &c->listeners[i];

		if (!at->socket && is_in_range(l, be16toh(at->at.port_be)))
			conf_fail(p, at->line, at,
				  "found listener \"%.64s\" at port %u of tcp.server_ports; "
				  "allowed: another port",
				  at->name, be16toh(at->at.port_be));
	}
}

void conf_check_via(struct conf_parse *p)
{
	const struct sl_config *c = p->cfg;

	if (c->limits.port_first)
		check_range(p);
	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		struct sl_cfg_pool *pool = &c->pools[i];

		for (uint32_t b = 0; b < pool->backend_cnt; b++) {
			if (pool->backends[b].via != SL_VIA_STACK)
				continue;
			pool->backends[b].way = SL_VIA_STACK;
			check_backend(p, &pool->backends[b]);
		}
	}
}
