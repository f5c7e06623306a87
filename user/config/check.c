/* SPDX-License-Identifier: Apache-2.0 */
/* Rules between keys, once the whole file is read. */
#include "config/parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find_pool(const struct sl_config *c, const char *name)
{
	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		if (strcmp(c->pools[i].name, name) == 0)
			return (int)i;
	}
	return -1;
}

static void list_pools(const struct sl_config *c, char *buf, size_t len)
{
	size_t at = 0;

	snprintf(buf, len, "none, there is no pool block");
	for (uint32_t i = 0; i < c->pool_cnt && at < len; i++)
		at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "",
				       c->pools[i].name);
}

static void check_route(struct conf_parse *p, struct conf_route_ref *r)
{
	struct sl_cfg_route *route = &r->route;
	char pools[300];

	if (!r->pool == !route->reply_status) {
		conf_fail(p, route->line,
			  "found route \"%s\" with %s; allowed: one of pool and reply",
			  route->prefix, r->pool ? "pool and reply" : "neither pool nor reply");
		return;
	}
	if (route->reply_body && r->pool)
		conf_fail(p, route->line,
			  "found route \"%s\" with pool and body; allowed: body with reply",
			  route->prefix);
	if (route->reply_body_len && (route->reply_status == 204 || route->reply_status == 304))
		conf_fail(p, route->line, "found a body for reply = \"%u\"; allowed: none",
			  route->reply_status);
	if (!r->pool)
		return;
	route->pool = find_pool(p->cfg, r->pool);
	if (route->pool < 0) {
		list_pools(p->cfg, pools, sizeof(pools));
		conf_fail(p, r->pool_line, "found pool = \"%.64s\"; allowed: %s", r->pool, pools);
	}
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

static bool same_prefix(const struct sl_cfg_route *a, const struct sl_cfg_route *b)
{
	return a->prefix_len == b->prefix_len && strcmp(a->prefix, b->prefix) == 0;
}

/* Which of two routes of one prefix answers is told by the method alone. */
static void check_overlap(struct conf_parse *p, const struct sl_cfg_route *route,
			  const struct sl_cfg_route *before)
{
	if (!same_prefix(route, before))
		return;
	if (!route->methods && !before->methods)
		conf_fail(p, route->line,
			  "found a second route \"%.64s\" without methods; allowed: one, and "
			  "others with methods",
			  route->prefix);
	else if (route->methods & before->methods)
		conf_fail(p, route->line,
			  "found a second route \"%.64s\" with a method of that on line %d; "
			  "allowed: each method in one of them",
			  route->prefix, before->line);
}

/*
 * What the routes of one prefix have in common, `first` being the first of cnt. As RFC 9110 9.1
 * wants it, who answers GET answers HEAD, unless another route does.
 */
static void join_methods(struct sl_cfg_route *first, uint32_t cnt)
{
	enum { GET = 1u << 1, HEAD = 1u << 2 }; /* as enum sl_method of front.h numbers them */
	bool any = !first[cnt - 1].methods;
	uint32_t all = 0;

	for (uint32_t i = 0; i < cnt; i++)
		all |= first[i].methods;
	for (uint32_t i = 0; i < cnt && !any && !(all & HEAD); i++) {
		if (first[i].methods & GET)
			first[i].methods |= HEAD;
	}
	if (all & GET)
		all |= HEAD;
	for (uint32_t i = 0; i < cnt; i++)
		first[i].prefix_methods = any ? 0 : all;
}

static void sort_routes(struct sl_config *c)
{
	uint32_t cnt;

	if (c->route_cnt)
		qsort(c->routes, c->route_cnt, sizeof(*c->routes), longest_first);
	for (uint32_t i = 0; i < c->route_cnt; i += cnt) {
		cnt = 1;
		while (i + cnt < c->route_cnt && same_prefix(&c->routes[i], &c->routes[i + cnt]))
			cnt++;
		join_methods(&c->routes[i], cnt);
	}
}

static void check_routes(struct conf_parse *p)
{
	struct sl_config *c = p->cfg;

	c->routes = conf_arena_alloc(p->arena, (c->route_cnt + 1) * sizeof(*c->routes));
	if (!c->routes) {
		conf_fail(p, 0, "found too little memory");
		return;
	}
	for (uint32_t i = 0; i < c->route_cnt; i++) {
		uint16_t id = p->routes[i].route.datagram_service;

		check_route(p, &p->routes[i]);
		for (uint32_t j = 0; j < i && id; j++) {
			if (p->routes[j].route.datagram_service == id)
				conf_fail(p, p->routes[i].route.line,
					  "found datagram_service = \"%u\" in two routes; allowed: "
					  "each number once",
					  id);
		}
		for (uint32_t j = 0; j < i; j++)
			check_overlap(p, &p->routes[i].route, &p->routes[j].route);
		c->routes[i] = p->routes[i].route;
	}
	sort_routes(c);
}

static bool same_place(const struct sl_cfg_listener *a, const struct sl_cfg_listener *b)
{
	return a->port == b->port && a->family == b->family && memcmp(a->addr, b->addr, 16) == 0 &&
	       ((a->http && b->http) || (a->datagram && b->datagram));
}

static void check_listeners(struct conf_parse *p)
{
	const struct sl_config *c = p->cfg;

	for (uint32_t i = 0; i < c->listener_cnt; i++) {
		for (uint32_t j = 0; j < i; j++) {
			if (same_place(&c->listeners[i], &c->listeners[j]))
				conf_fail(p, c->listeners[i].line,
					  "found listener \"%s\" at the address, port and protocol "
					  "of \"%s\"; allowed: one",
					  c->listeners[i].name, c->listeners[j].name);
		}
	}
}

static void check_pools(struct conf_parse *p)
{
	const struct sl_config *c = p->cfg;

	for (uint32_t i = 0; i < c->pool_cnt; i++) {
		const struct sl_cfg_pool *pool = &c->pools[i];

		if (!pool->backend_cnt)
			conf_fail(p, pool->line,
				  "found pool \"%s\" without a backend; allowed: backend NAME { "
				  "endpoint = ... }",
				  pool->name);
		if ((pool->fair == SL_FAIR_HEADER) != (pool->fair_header != NULL))
			conf_fail(p, pool->line, "found pool \"%s\" with %s; allowed: both or none",
				  pool->name,
				  pool->fair_header ? "fair_header but not fair = header"
						    : "fair = header but no fair_header");
	}
}

static void check_workers(struct conf_parse *p)
{
	struct sl_config *c = p->cfg;
	int count = conf_key_find(CONF_WORKERS, "count");
	uint32_t cpus = 0;

	while (cpus < SL_MAX_WORKERS && c->cpus[cpus] >= 0)
		cpus++;
	if (!cpus)
		return;
	if (!p->key_seen[count])
		c->worker_cnt = cpus;
	else if (cpus != c->worker_cnt)
		conf_fail(p, p->line[CONF_WORKERS],
			  "found %u cpus for count = \"%u\"; allowed: as many", cpus,
			  c->worker_cnt);
}

static void check_limits(struct conf_parse *p)
{
	const struct sl_cfg_limits *l = &p->cfg->limits;
	int line = p->line[CONF_LIMITS];

	if (l->max_target > l->max_head)
		conf_fail(p, line, "found max_target above max_head; allowed: at most max_head");
	if (l->max_body > l->frame_memory / 2)
		conf_fail(p, line,
			  "found max_body above half of frame_memory; allowed: at most that");
}

bool conf_check(struct conf_parse *p)
{
	check_workers(p);
	check_limits(p);
	check_listeners(p);
	check_pools(p);
	check_routes(p);
	return !p->failed;
}
