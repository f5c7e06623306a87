/* SPDX-License-Identifier: Apache-2.0 */
#include "config/server.h"
#include "config/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool conf_has_server(const struct sl_cfg_pool *pool)
{
	for (uint32_t i = 0; i < pool->backend_cnt; i++) {
		if (sl_server_is(&pool->backends[i]))
			return true;
	}
	return false;
}

bool conf_all_servers(const struct sl_cfg_pool *pool, bool http1)
{
	struct sl_server_url url;

	for (uint32_t i = 0; i < pool->backend_cnt; i++) {
		if (!sl_server_is(&pool->backends[i]) ||
		    (http1 && sl_server_url_parse(pool->backends[i].endpoint, &url) &&
		     url.proto != SL_SERVER_HTTP1))
			return false;
	}
	return pool->backend_cnt;
}

static const char *server_upgrades[] = {"websocket"};

_Static_assert(!offsetof(struct sl_cfg_pool, name) && !offsetof(struct sl_cfg_listener, name),
	       "looked for by one function");

static uint32_t find_name(struct conf_parse *p, const struct conf_route_ref *r, int line,
			  const char *key, const char *name, const void *all, size_t size,
			  uint32_t cnt)
{
	char names[300];
	size_t len = (size_t)snprintf(names, sizeof(names), "none, there is no %s block", key);

	for (uint32_t i = 0; i < cnt; i++) {
		const char *const *of = (const void *)((const char *)all + i * size);

		if (strcmp(*of, name) == 0)
			return i;
		len = i ? len : 0;
		if (len < sizeof(names))
			len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
						len ? ", " : "", *of);
	}
	conf_fail(p, line, r, "found %s = \"%.64s\"; allowed: %s", key, name, names);
	return cnt;
}

static void use_listeners(struct conf_parse *p, struct conf_route_ref *r)
{
	const struct sl_config *c = p->cfg;
	uint16_t *list = conf_arena_alloc(p->arena, (r->listener_cnt + 1) * sizeof(*list));

	if (!list) {
		conf_fail(p, 0, NULL, "found too little memory");
		return;
	}
	r->route.listeners = list;
	for (uint32_t i = 0; i < r->listener_cnt; i++) {
		uint32_t at = find_name(p, r, r->listener_line, "listener", r->listeners[i],
					c->listeners, sizeof(*c->listeners), c->listener_cnt);

		list[r->route.listener_cnt++] = (uint16_t)at;
	}
}

uint32_t conf_find_pool(struct conf_parse *p, const struct conf_route_ref *r, int line,
			const char *name)
{
	const struct sl_config *c = p->cfg;

	return find_name(p, r, line, "pool", name, c->pools, sizeof(*c->pools), c->pool_cnt);
}

static void use_pool(struct conf_parse *p, struct conf_route_ref *r)
{
	const struct sl_config *c = p->cfg;
	struct sl_cfg_route *route = &r->route;
	const struct sl_cfg_pool *pool;
	uint32_t at = conf_find_pool(p, r, r->pool_line, r->pool);

	if (at == c->pool_cnt)
		return;
	pool = &c->pools[at];
	route->pool = (int32_t)at;
	if (route->policy == SL_POLICY_DIRECT ||
	    (pool->batch.policy == SL_POLICY_DIRECT && route->policy >= 0))
		conf_fail(p, route->line, route,
			  "found a policy on a route where it or the pool's is direct; allowed: "
			  "policy = direct in the batch block of the pool");
	if (conf_has_server(pool)) {
		route->forward_all = true;
		route->strip_prefix = route->strip > 0;
	}
	route->stream_auto = route->streams < 0 && conf_all_servers(pool, false);
	route->stream |= route->stream_auto;
	if (conf_all_servers(pool, true) && route->stream && !route->upgrade_cnt &&
	    !route->upgrade_none) {
		route->upgrades = server_upgrades;
		route->upgrade_cnt = 1;
	}
}

static void check_stream(struct conf_parse *p, struct conf_route_ref *r)
{
	const struct sl_cfg_route *route = &r->route;

	if (route->upgrade_cnt && !route->stream)
		conf_fail(p, route->line, r,
			  "found upgrade on route \"%s\" without stream; allowed: with a pool and "
			  "stream = yes",
			  route->prefix);
	if (route->backend_continues && !route->stream)
		conf_fail(
			p, route->line, r,
			"found continue = backend on route \"%s\" without stream; allowed: with a "
			"pool and stream = yes",
			route->prefix);
}

static void check_route(struct conf_parse *p, struct conf_route_ref *r)
{
	struct sl_cfg_route *route = &r->route;

	if (!r->pool && r->pools.match_cnt) {
		r->pool = r->matches[0].pool;
		r->pool_line = r->matches[0].match.line;
		r->pools.no_default = true;
	}
	if (route->redirect && !route->reply_status)
		route->reply_status = 308; /* keeps the method; permanent */
	if (route->redirect && (route->reply_status < 301 || route->reply_status > 308 ||
				(route->reply_status > 303 && route->reply_status < 307)))
		conf_fail(p, route->line, r,
			  "found redirect with status = \"%u\"; allowed: 301, 302, 303, 307 or 308",
			  route->reply_status);
	if (r->responds && !route->redirect && !route->reply_status)
		route->reply_status = 200;
	if (!r->pool == !route->reply_status) {
		conf_fail(p, route->line, r,
			  "found route \"%s\" with %s; allowed: one of pool, respond and redirect",
			  route->prefix,
			  !r->pool          ? "neither pool nor respond"
			  : route->redirect ? "pool and redirect"
					    : "pool and respond");
		return;
	}
	if (route->reply_body && r->pool)
		conf_fail(
			p, route->line, r,
			"found route \"%s\" with pool and body; allowed: a body in respond, without pool",
			route->prefix);
	if (route->reply_body_len && (route->reply_status == 204 || route->reply_status == 304))
		conf_fail(p, route->line, r, "found a body for status = \"%u\"; allowed: none",
			  route->reply_status);
	route->stream = r->pool && route->streams > 0;
	route->strip_prefix = route->strip != 0;
	if (r->pool)
		use_pool(p, r);
	conf_check_route_pools(p, r);
	check_stream(p, r);
	if (route->prefix[0] == '*')
		route->strip_prefix = false;
}

static int longest_first(const void *a, const void *b)
{
	const struct sl_cfg_route *x = a, *y = b;

	if (x->prefix_len != y->prefix_len)
		return x->prefix_len < y->prefix_len ? 1 : -1;
	if (strcmp(x->prefix, y->prefix) != 0)
		return strcmp(x->prefix, y->prefix);
	return !x->methods - !y->methods;
}

/* A listener of any family, and each of TCP and UDP, counts once more in the XDP program. */
static void check_listener_cnt(struct conf_parse *p)
{
	const struct sl_config *c = p->cfg;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];

		cnt += ((uint32_t)l->http + l->datagram) * (l->at.family ? 1 : 2);
		if (cnt <= SL_MAX_LISTENERS)
			continue;
		conf_fail(
			p, l->line, l,
			"found listener \"%.64s\" beyond %d addresses and protocols; allowed: that "
			"many, of which address = \"*\" takes two for each protocol",
			l->name, SL_MAX_LISTENERS);
		return;
	}
}

static bool share_host(const struct sl_cfg_route *a, const struct sl_cfg_route *b)
{
	for (uint32_t i = 0; i < a->host_cnt; i++) {
		for (uint32_t j = 0; j < b->host_cnt; j++) {
			if (strcmp(a->hosts[i], b->hosts[j]) == 0)
				return true;
		}
	}
	return !a->host_cnt && !b->host_cnt;
}

static bool share_listener(const struct sl_cfg_route *a, const struct sl_cfg_route *b)
{
	for (uint32_t i = 0; i < a->listener_cnt; i++) {
		for (uint32_t j = 0; j < b->listener_cnt; j++) {
			if (a->listeners[i] == b->listeners[j])
				return true;
		}
	}
	return !a->listener_cnt && !b->listener_cnt;
}

static bool same_header(const struct sl_cfg_route *a, const struct sl_cfg_route *b)
{
	return a->header && b->header ? strcmp(a->header, b->header) == 0 &&
						strcmp(a->header_value, b->header_value) == 0
				      : a->header == b->header;
}

static void check_overlap(struct conf_parse *p, const struct sl_cfg_route *route,
			  const struct sl_cfg_route *before)
{
	char other[CONF_LINE_NAME];

	if (route->prefix_len != before->prefix_len ||
	    memcmp(route->prefix, before->prefix, route->prefix_len) != 0 ||
	    !share_host(route, before) || !share_listener(route, before) ||
	    !same_header(route, before))
		return;
	if (!route->methods && !before->methods)
		conf_fail(p, route->line, NULL,
			  "found a second route \"%.64s\" without methods; allowed: one, and "
			  "others with methods, or another host, listener or header",
			  route->prefix);
	else if (route->methods & before->methods)
		conf_fail(p, route->line, NULL,
			  "found a second route \"%.64s\" with a method of that on %s; "
			  "allowed: each method in one of them, or another host, listener or "
			  "header",
			  route->prefix, conf_line_name(p, before->line, route->line, other));
}

static void check_routes(struct conf_parse *p)
{
	struct sl_config *c = p->cfg;

	c->routes = conf_arena_alloc(p->arena, (c->route_cnt + 1) * sizeof(*c->routes));
	if (!c->routes) {
		conf_fail(p, 0, NULL, "found too little memory");
		return;
	}
	for (uint32_t i = 0; i < c->route_cnt; i++) {
		uint16_t id = p->routes[i].route.datagram_service;

		if (!conf_diags_has(&p->mistakes, &p->routes[i]))
			check_route(p, &p->routes[i]);
		if (p->routes[i].listener_cnt)
			use_listeners(p, &p->routes[i]);
		conf_use_keys(p, &p->routes[i]);
		conf_check_cors(p, &p->routes[i]);
		conf_use_quotas(p, &p->routes[i]);
		for (uint32_t j = 0; j < i && id; j++) {
			if (p->routes[j].route.datagram_service == id)
				conf_fail(p, p->routes[i].route.line, NULL,
					  "found datagram_service = \"%u\" in two routes; allowed: "
					  "each number once",
					  id);
		}
		for (uint32_t j = 0; j < i; j++) {
			if (!conf_diags_has(&p->mistakes, &p->routes[i]) &&
			    !conf_diags_has(&p->mistakes, &p->routes[j]))
				check_overlap(p, &p->routes[i].route, &p->routes[j].route);
		}
		c->routes[i] = p->routes[i].route;
	}
	if (c->route_cnt)
		qsort(c->routes, c->route_cnt, sizeof(*c->routes), longest_first);
}

static void check_prefix(struct conf_parse *p, const struct sl_cfg_interface *f, uint32_t at)
{
	const struct sl_cfg_prefix *of = &f->prefixes.list[at], *before = f->prefixes.list;
	char other[CONF_LINE_NAME];

	while (before != of && memcmp(&before->of, &of->of, sizeof(of->of)) != 0)
		before++;
	if (before != of)
		conf_fail(p, of->line, f,
			  "found a prefix of interface \"%s\" that %s has; allowed: each once, "
			  "in allow or deny",
			  f->name, conf_line_name(p, before->line, of->line, other));
}

static void check_interfaces(struct conf_parse *p)
{
	for (uint32_t i = 0; i < p->cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *f = &p->cfg->interfaces[i];

		for (uint32_t k = 0; k < f->prefixes.cnt; k++)
			check_prefix(p, f, k);
	}
}

static void check_reachable(struct conf_parse *p, const struct sl_cfg_listener *l)
{
	if (conf_diags_has(&p->mistakes, l))
		return;
	if (l->at.port_be && l->socket)
		conf_fail(p, l->line, l,
			  "found port and socket in listener \"%.64s\"; allowed: one of them",
			  l->name);
	if (l->socket && (l->datagram || !l->http || l->at.family))
		conf_fail(p, l->line, l,
			  "found datagram or an address beside socket in listener \"%.64s\"; "
			  "allowed: protocols = {http}, no address",
			  l->name);
	if (l->socket)
		return;
	if (sl_config_has_xdp(p->cfg))
		return;
	if (!l->local)
		conf_fail(p, l->line, l,
			  "found local = no in listener \"%.64s\" without an interface that XDP "
			  "serves; allowed: local = yes",
			  l->name);
	if (l->datagram)
		conf_fail(p, l->line, l,
			  "found datagram in listener \"%.64s\" without an interface that XDP "
			  "serves; allowed: protocols = {http}",
			  l->name);
}

static void check_listeners(struct conf_parse *p)
{
	const struct sl_config *c = p->cfg;

	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		const struct sl_cfg_listener *l = &c->listeners[i];
		const struct sl_cfg_tls *t = l->tls;

		check_reachable(p, l);
		if (conf_diags_has(&p->mistakes, l) ||
		    conf_diags_has(&p->mistakes, &p->line[CONF_TLS]))
			t = NULL;
		if (t && (!t->certificate_cnt || t->certificate_cnt != t->key_cnt))
			conf_fail(p, t->line, l,
				  "found tls with %u certificates and %u keys; allowed: at least "
				  "one, and a key for each",
				  t->certificate_cnt, t->key_cnt);
		if (t && !l->http)
			conf_fail(p, t->line, l,
				  "found tls for listener \"%s\" without http; allowed: protocols "
				  "= {http}, as datagrams have no TLS",
				  l->name);
		for (uint32_t j = 0; j < i; j++) {
			const struct sl_cfg_listener *a = &c->listeners[i], *b = &c->listeners[j];

			if (sl_addr_equal(&a->at, &b->at) && !a->socket == !b->socket &&
			    (!a->socket || strcmp(a->socket, b->socket) == 0) &&
			    ((a->http && b->http) || (a->datagram && b->datagram)) &&
			    !conf_diags_has(&p->mistakes, a) && !conf_diags_has(&p->mistakes, b))
				conf_fail(p, c->listeners[i].line, &c->listeners[i],
					  "found listener \"%s\" at the address, port and protocol "
					  "of \"%s\"; allowed: one",
					  c->listeners[i].name, c->listeners[j].name);
		}
	}
}

static void check_host(struct conf_parse *p, const struct sl_cfg_backend *b)
{
	if (b->host && b->endpoint && !sl_server_is(b))
		conf_fail(p, b->line, b,
			  "found host = \"%.64s\" with endpoint = \"%.100s\"; allowed: with http, "
			  "h2c, https, h2, http+unix and h2c+unix",
			  b->host, b->endpoint);
}

static void check_servers(struct conf_parse *p)
{
	struct sl_config *c = p->cfg;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		struct sl_cfg_pool *pool = &c->pools[i];

		for (uint32_t b = 0; b < pool->backend_cnt; b++) {
			cnt += sl_server_is(&pool->backends[b]) &&
			       pool->backends[b].via != SL_VIA_STACK;
			check_host(p, &pool->backends[b]);
		}
		conf_check_health(p, pool);
		if (pool->batch.policy == SL_POLICY_CNT)
			pool->batch.policy =
				conf_has_server(pool) ? SL_POLICY_DIRECT : SL_POLICY_ADAPTIVE;
	}
	c->agents.server_cnt = cnt;
	if (cnt > SL_CFG_MAX_SERVERS)
		conf_fail(p, 0, NULL, "found %u backends that are servers; allowed: %d", cnt,
			  SL_CFG_MAX_SERVERS);
	if (c->agents.cpu_cnt && c->agents.cpu_cnt != c->agents.count)
		conf_fail(p, p->line[CONF_AGENTS], NULL,
			  "found %u cpus for count = \"%u\" in agents; allowed: as many",
			  c->agents.cpu_cnt, c->agents.count);
}

static void check_subset(struct conf_parse *p, struct sl_cfg_pool *pool)
{
	uint32_t least = (pool->backend_cnt + p->cfg->worker_cnt - 1) / p->cfg->worker_cnt;

	if (!pool->subset) {
		pool->subset = least > SL_CFG_SUBSET ? least : SL_CFG_SUBSET;
	} else if (pool->subset < least) {
		conf_fail(p, pool->line, pool,
			  "found pool \"%s\" with subset = \"%u\", too few for its %u backends and "
			  "%u workers; allowed: auto, or from %u on",
			  pool->name, pool->subset, pool->backend_cnt, p->cfg->worker_cnt, least);
	}
	if (pool->subset > pool->backend_cnt)
		pool->subset = pool->backend_cnt;
}

static void check_pools(struct conf_parse *p)
{
	const struct sl_config *c = p->cfg;

	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		struct sl_cfg_pool *pool = &c->pools[i];

		if (conf_diags_has(&p->mistakes, pool))
			continue;
		if (!conf_diags_has(&p->mistakes, &p->line[CONF_WORKERS]))
			check_subset(p, pool);
		if (!pool->backend_cnt)
			conf_fail(p, pool->line, pool,
				  "found pool \"%s\" without a backend; allowed: backend NAME { "
				  "endpoint = ... }",
				  pool->name);
		if ((pool->fair == SL_FAIR_HEADER) != (pool->fair_header != NULL))
			conf_fail(p, pool->line, pool,
				  "found pool \"%s\" with %s; allowed: both or none", pool->name,
				  pool->fair_header ? "fair_header but not fair_by = header"
						    : "fair_by = header but no fair_header");
	}
}

static void check_workers(struct conf_parse *p)
{
	struct sl_config *c = p->cfg;
	int count = conf_key_find(CONF_WORKERS, "count");
	uint32_t cpus = 0;

	while (cpus < SL_MAX_WORKERS && c->cpus[cpus] >= 0)
		cpus++;
	if (!cpus || conf_diags_has(&p->mistakes, &p->line[CONF_WORKERS]))
		return;
	if (!p->key_seen[count])
		c->worker_cnt = cpus;
	else if (cpus != c->worker_cnt)
		conf_fail(p, p->line[CONF_WORKERS], NULL,
			  "found %u cpus for count = \"%u\"; allowed: as many", cpus,
			  c->worker_cnt);
}

static bool is_loopback(const char *text)
{
	static const uint8_t one[16] = {[15] = 1};
	struct sl_addr a;

	return sl_addr_parse(&a, text) &&
	       (a.family == 4 ? a.addr[0] == 127 : memcmp(a.addr, one, sizeof(one)) == 0);
}

static void check_admin(struct conf_parse *p)
{
	struct sl_cfg_admin *a = &p->cfg->admin;

	a->line = p->line[CONF_ADMIN];
	if (conf_diags_has(&p->mistakes, &p->line[CONF_ADMIN]))
		return;
	if (a->port && !a->token_file && !is_loopback(a->address))
		conf_fail(p, a->line, NULL,
			  "found address = \"%s\" without token_file; allowed: a loopback address, "
			  "or any with admin { token_file = PATH }",
			  a->address);
	if (a->group_role == SL_ADMIN_OPERATE && !a->group)
		conf_fail(p, a->line, NULL,
			  "found group_role = \"operate\" without group; allowed: both or none");
}

void conf_check(struct conf_parse *p)
{
	const struct sl_cfg_limits *l = &p->cfg->limits;

	check_admin(p);
	if (p->line[CONF_ACCESS_LOG] && !p->cfg->access_log.file &&
	    !conf_diags_has(&p->mistakes, &p->line[CONF_ACCESS_LOG]))
		conf_fail(p, p->line[CONF_ACCESS_LOG], NULL,
			  "found access_log without file; allowed: access_log { file = ... }");
	if (p->line[CONF_TRACE] && !sl_cfg_traces(&p->cfg->trace) &&
	    !conf_diags_has(&p->mistakes, &p->line[CONF_TRACE]))
		conf_fail(p, p->line[CONF_TRACE], NULL,
			  "found trace without request_id and otlp; allowed: trace { request_id = "
			  "yes }, trace { otlp = URL }, or both");
	if (p->line[CONF_PENALTY] && !p->cfg->penalty.after &&
	    !conf_diags_has(&p->mistakes, &p->line[CONF_PENALTY]))
		conf_fail(p, p->line[CONF_PENALTY], NULL,
			  "found penalty without after; allowed: penalty { after = N }");
	check_interfaces(p);
	check_workers(p);
	check_listener_cnt(p);
	if (l->max_target > l->max_head)
		conf_fail(p, p->line[CONF_LIMITS], NULL,
			  "found max_target above max_head; allowed: at most max_head");
	if (l->max_body > l->frame_memory / 2)
		conf_fail(p, p->line[CONF_LIMITS], NULL,
			  "found max_body above half of memory.frames; allowed: at most that");
	check_listeners(p);
	check_pools(p);
	check_servers(p);
	conf_check_server_tls(p);
	conf_check_via(p);
	conf_check_quotas(p);
	conf_check_keys(p);
	check_routes(p);
}
