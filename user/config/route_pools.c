/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "base/units.h"
#include "config/parse.h"
#include "http/method.h"

void *conf_new_match(struct conf_parse *p, const char *title, int line)
{
	struct conf_route_ref *r = p->obj[CONF_ROUTE];
	uint32_t cnt = r->pools.match_cnt;
	size_t len = strlen(title);
	struct conf_match_ref *all =
		cnt < SL_CFG_MAX_MATCHES
			? conf_arena_grow(p->arena, r->matches, cnt, sizeof(*r->matches))
			: NULL;

	if (!all)
		return NULL;
	r->matches = all;
	r->pools.match_cnt++;
	all[cnt] = (struct conf_match_ref){
		.match = {.text = title, .len = (uint32_t)len, .line = line}};
	if (len && title[len - 1] == '*') {
		all[cnt].match.prefix = true;
		all[cnt].match.len--;
	}
	return &all[cnt];
}

bool conf_match_is_taken(const struct conf_parse *p, const char *title)
{
	const struct conf_route_ref *r = p->obj[CONF_ROUTE];
	uint32_t i = 0;

	while (i < r->pools.match_cnt && strcmp(r->matches[i].match.text, title) != 0)
		i++;
	return i < r->pools.match_cnt;
}

static int compare_matches(const void *a, const void *b)
{
	const struct sl_cfg_match *x = a, *y = b;

	if (x->prefix != y->prefix)
		return x->prefix ? 1 : -1;
	return x->len != y->len ? (x->len < y->len ? 1 : -1) : x->line - y->line;
}

/* The head is encoded before the pool is known, so all pools must use one encoding. */
static bool is_alike(const struct sl_cfg_pool *a, const struct sl_cfg_pool *b)
{
	return conf_has_server(a) == conf_has_server(b) &&
	       conf_all_servers(a, false) == conf_all_servers(b, false) &&
	       conf_all_servers(a, true) == conf_all_servers(b, true);
}

static bool shares_alike(const struct sl_cfg_pool *a, const struct sl_cfg_pool *b)
{
	return a->fair == b->fair &&
	       (a->fair != SL_FAIR_HEADER || !a->fair_header || !b->fair_header ||
		strcmp(a->fair_header, b->fair_header) == 0);
}

static int32_t find_other(struct conf_parse *p, struct conf_route_ref *r, const char *name,
			  int line)
{
	const struct sl_config *c = p->cfg;
	const struct sl_cfg_pool *own = &c->pools[r->route.pool], *other;
	uint32_t at = name ? conf_find_pool(p, r, line, name) : c->pool_cnt;

	if (at == c->pool_cnt)
		return -1;
	other = &c->pools[at];
	if (!is_alike(own, other))
		conf_fail(p, line, r,
			  "found pools \"%.64s\" and \"%.64s\" in one route; allowed: pools of the "
			  "same kind: all backends http, all h2c, or all others",
			  own->name, other->name);
	else if (!shares_alike(own, other))
		conf_fail(p, line, r,
			  "found pools \"%.64s\" and \"%.64s\" in one route; allowed: pools with "
			  "the same fair_by and fair_header",
			  own->name, other->name);
	else if (own->max_body != other->max_body)
		conf_fail(p, line, r,
			  "found pools \"%.64s\" and \"%.64s\" in one route; allowed: pools with "
			  "the same max_body",
			  own->name, other->name);
	else if (r->route.policy >= 0 && other->batch.policy == SL_POLICY_DIRECT)
		conf_fail(p, line, r,
			  "found a policy on a route where that of pool \"%.64s\" is direct; "
			  "allowed: policy = direct in the batch block of the pool",
			  other->name);
	return (int32_t)at;
}

static void use_matches(struct conf_parse *p, struct conf_route_ref *r)
{
	uint32_t cnt = r->pools.match_cnt;
	struct sl_cfg_match *list = conf_arena_alloc(p->arena, cnt * sizeof(*list));

	for (uint32_t i = 0; list && i < cnt; i++) {
		list[i] = r->matches[i].match;
		list[i].pool = find_other(p, r, r->matches[i].pool, list[i].line);
	}
	if (list)
		qsort(list, cnt, sizeof(*list), compare_matches);
	r->pools.matches = list;
}

static void check_match(struct conf_parse *p, struct conf_route_ref *r)
{
	if (!r->pools.member != !r->pools.match_cnt)
		conf_fail(p, r->route.line, r, "found route \"%s\" with %s; allowed: both or none",
			  r->route.prefix,
			  r->pools.member ? "match_body but no match block"
					  : "match blocks but no match_body");
	if (r->pools.member && r->route.backend_continues)
		conf_fail(p, r->route.line, r,
			  "found match_body with continue = backend; allowed: continue = gateway, "
			  "because the backend is selected by the body");
	if (r->pools.match_cnt)
		use_matches(p, r);
}

void *conf_begin_route_part(struct conf_parse *p, enum conf_block b, int line)
{
	struct conf_route_ref *r = p->obj[CONF_ROUTE];

	*(b == CONF_AFFINITY ? &r->affinity_line
	  : b == CONF_SPLIT  ? &r->split_line
			     : &r->mirror_line) = line;
	return r;
}

static bool set_percent(struct conf_value *v)
{
	size_t len = strspn(v->text, "0123456789.");
	char *end;
	double d;

	if (!len || v->text[len])
		return false;
	d = strtod(v->text, &end) / 100;
	if (*end || !(d >= 0 && d <= 1))
		return false;
	memcpy(conf_field(v), &d, sizeof(d));
	return true;
}

const struct conf_type conf_percent = {set_percent, NULL};

static bool set_split_header(struct conf_value *v)
{
	struct sl_cfg_split *s = &((struct conf_route_ref *)v->obj)->pools.split;

	return conf_parse_field(v, &s->header, &s->value);
}

const struct conf_type conf_split_header = {set_split_header, NULL};

static void check_split(struct conf_parse *p, struct conf_route_ref *r)
{
	struct sl_cfg_split *s = &r->pools.split;

	s->pool = -1;
	if (!r->split_line)
		return;
	if (!r->split_pool || r->pools.no_default)
		conf_fail(p, r->split_line, r,
			  "found split with no %s; allowed: a pool in it, and another in the route",
			  r->split_pool ? "pool in its route" : "pool");
	else if (s->share == 0 && !s->header)
		conf_fail(p, r->split_line, r,
			  "found split with no percent and no header; allowed: one, or both");
	else
		s->pool = find_other(p, r, r->split_pool, r->split_line);
}

static void check_mirror(struct conf_parse *p, struct conf_route_ref *r)
{
	struct sl_cfg_mirror *m = &r->pools.mirror;

	m->pool = -1;
	if (!r->mirror_line)
		return;
	if (!r->mirror_pool)
		conf_fail(p, r->mirror_line, r,
			  "found mirror with no pool; allowed: mirror { pool = NAME }");
	else if (r->route.stream && !r->route.stream_auto)
		conf_fail(
			p, r->mirror_line, r,
			"found mirror on a route with stream = yes; allowed: stream = no or auto, "
			"because streams are not copied");
	else
		m->pool = find_other(p, r, r->mirror_pool, r->mirror_line);
}

bool sl_cfg_is_mirror_only(const struct sl_config *c, uint32_t pool)
{
	bool mirrors = false;

	for (uint32_t i = 0; i < c->route_cnt; i++) {
		if (sl_cfg_route_has_pool(&c->routes[i], (int32_t)pool))
			return false;
		mirrors |= sl_cfg_route_mirrors_to(&c->routes[i], (int32_t)pool);
	}
	return mirrors;
}

static bool set_hedge(struct conf_value *v)
{
	uint64_t ns = 0;

	((struct conf_route_ref *)v->obj)->hedge_line = v->line;
	if (strcmp(v->text, "p95") == 0)
		ns = SL_HEDGE_P95;
	else if (strcmp(v->text, "no") != 0 &&
		 (sl_parse_duration(sl_span_cstr(v->text), &ns) || !conf_in_range(v->key, ns)))
		return false;
	memcpy(conf_field(v), &ns, sizeof(ns));
	return true;
}

const struct conf_type conf_hedge = {set_hedge, NULL};

static uint32_t idempotent_methods(void)
{
	uint32_t bits = 0;

	for (unsigned m = 0; m < SL_METHOD_CNT; m++)
		bits |= (uint32_t)sl_method_idempotent((enum sl_method)m) << m;
	return bits;
}

static void check_hedge_pool(struct conf_parse *p, const struct conf_route_ref *r, int32_t at)
{
	const struct sl_cfg_pool *pool = &p->cfg->pools[at];
	uint32_t cnt =
		pool->subset && pool->subset < pool->backend_cnt ? pool->subset : pool->backend_cnt;

	if (cnt < 2)
		conf_fail(p, r->hedge_line, r,
			  "found hedge with pool \"%.64s\", of which a worker has %u backend%s; "
			  "allowed: a pool with at least 2, and a subset of at least 2",
			  pool->name, cnt, cnt == 1 ? "" : "s");
}

static void check_hedge(struct conf_parse *p, struct conf_route_ref *r)
{
	const struct sl_cfg_route *rt = &r->route;

	if (rt->stream && !rt->stream_auto)
		conf_fail(p, r->hedge_line, r,
			  "found hedge on a route with stream = yes; allowed: stream = no or auto, "
			  "because streams are not copied");
	else if (!rt->idempotent ||
		 (rt->idempotent < 0 && rt->methods && !(rt->methods & idempotent_methods())))
		conf_fail(p, r->hedge_line, r,
			  "found hedge on route \"%s\", whose requests may not be sent again; "
			  "allowed: with idempotent = yes, or idempotent = auto and a method "
			  "such as GET",
			  rt->prefix);
	for (int32_t i = 0; i < (int32_t)p->cfg->pool_cnt; i++) {
		bool matches = false;

		for (uint32_t m = 0; r->pools.matches && m < r->pools.match_cnt; m++)
			matches |= r->pools.matches[m].pool == i;
		if (matches || rt->pool == i || r->pools.split.pool == i)
			check_hedge_pool(p, r, i);
	}
}

static bool set_depth(struct conf_value *v)
{
	struct sl_cfg_affinity *a = &((struct conf_route_ref *)v->obj)->pools.affinity;
	uint32_t before = a->depth_cnt ? a->depths[a->depth_cnt - 1] : 0;
	uint64_t n;

	if (a->depth_cnt == SL_ARRAY_LEN(a->depths) || sl_parse_size(sl_span_cstr(v->text), &n) ||
	    n > 1 << 20 || n % 64 || n <= before)
		return false;
	a->depths[a->depth_cnt++] = (uint32_t)n;
	return true;
}

const struct conf_type conf_depths = {set_depth, NULL};

static void check_affinity(struct conf_parse *p, struct conf_route_ref *r)
{
	static const uint32_t depths[] = {1 << 10, 4 << 10, 16 << 10, 64 << 10};
	struct sl_cfg_affinity *a = &r->pools.affinity;
	bool named = a->by == SL_AFFINITY_BY_HEADER || a->by == SL_AFFINITY_BY_COOKIE;
	bool prefix = a->by == SL_AFFINITY_BY_PREFIX;

	if (!a->by)
		conf_fail(p, r->affinity_line, r,
			  "found affinity without by; allowed: affinity { by = ... }");
	else if (named != (a->name != NULL))
		conf_fail(p, r->affinity_line, r,
			  "found affinity with %s; allowed: name with header, metadata and cookie",
			  named ? "no name" : "name");
	else if (!prefix && a->depth_cnt)
		conf_fail(p, r->affinity_line, r,
			  "found affinity with depths; allowed: with by = prefix");
	else if (prefix && r->route.backend_continues)
		conf_fail(p, r->affinity_line, r,
			  "found by = prefix with continue = backend; allowed: continue = gateway, "
			  "because the backend is selected by the body");
	if (!a->depth_cnt) {
		memcpy(a->depths, depths, sizeof(depths));
		a->depth_cnt = SL_ARRAY_LEN(depths);
	}
}

void conf_check_route_pools(struct conf_parse *p, struct conf_route_ref *r)
{
	int part = r->affinity_line    ? r->affinity_line
		   : r->split_line     ? r->split_line
		   : r->mirror_line    ? r->mirror_line
		   : r->pools.hedge_ns ? r->hedge_line
				       : 0;

	if (part && r->route.pool < 0 && !r->pool)
		conf_fail(
			p, part, r,
			"found affinity, split, mirror or hedge on route \"%s\" without a pool; allowed: "
			"with a pool",
			r->route.prefix);
	if (r->route.pool < 0)
		return;
	check_match(p, r);
	if (r->affinity_line)
		check_affinity(p, r);
	check_split(p, r);
	check_mirror(p, r);
	if (r->pools.hedge_ns)
		check_hedge(p, r);
	if (!r->pools.match_cnt && !part)
		return;
	r->route.pools = conf_arena_alloc(p->arena, sizeof(*r->route.pools));
	if (!r->route.pools || (r->pools.match_cnt && !r->pools.matches)) {
		conf_fail(p, 0, NULL, "found too little memory");
		return;
	}
	*r->route.pools = r->pools;
}
