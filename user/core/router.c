/* SPDX-License-Identifier: Apache-2.0 */
#include "core/router.h"

#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"

enum {
	PREFIX_MAX = 1024, /* checked by config */
	HOST_MAX = 253,    /* RFC 1035 */
	LABELS_MAX = 127,  /* bounds the suffixes looked up */
	NO_HOST = 0,
};
#define RULES (UINT32_C(1) << 31)

struct route_place {
	uint32_t scope; /* site_of() host and listener, or RULES + index of the rule */
	uint32_t hash;
	const char *prefix;
	uint32_t len;
	uint32_t first, cnt;
	uint32_t methods;
};

struct route_host {
	const char *name; /* "*.suffix" or name, lower case; NULL: unused */
	uint32_t number;
};

struct route_rule {
	uint32_t site;
	struct sl_span name, value;
};

struct sl_router {
	struct route_place *places; /* open addressing, [place_mask + 1]; cnt == 0: unused */
	uint32_t place_mask;
	struct route_host *hosts;
	uint32_t host_mask, host_cnt;
	struct route_rule *rules; /* ordered by site */
	uint32_t rule_cnt;
	bool by_listener;
	const struct sl_cfg_route **routes; /* ordered by scope and prefix */
	uint32_t *methods;                  /* HEAD added where GET answers it */
	const struct sl_cfg_route **services;
	uint32_t service_mask;
	uint32_t longest;                      /* prefix */
	uint64_t lengths[PREFIX_MAX / 64 + 1]; /* bit per prefix length */
};

static uint32_t site_of(uint32_t host, int32_t listener)
{
	return host * (SL_MAX_LISTENERS + 1) + (uint32_t)(listener + 1);
}

static uint32_t place_slot(const struct sl_router *r, uint32_t hash, uint32_t scope)
{
	uint32_t h = hash + scope * 0x9e3779b9u;

	return (h ^ h >> 15) & r->place_mask;
}

static struct route_place *probe_place(const struct sl_router *r, uint32_t scope, uint32_t hash,
				       const uint8_t *prefix, uint32_t len)
{
	uint32_t at = place_slot(r, hash, scope);

	for (;; at = (at + 1) & r->place_mask) {
		struct route_place *p = &r->places[at];

		if (!p->cnt || (p->hash == hash && p->scope == scope && p->len == len &&
				memcmp(p->prefix, prefix, len) == 0))
			return p;
	}
}

static const struct route_place *find_prefix(const struct sl_router *r, uint32_t scope,
					     struct sl_span path)
{
	uint32_t end = path.len < r->longest ? (uint32_t)path.len : r->longest;
	const struct route_place *best = NULL;
	uint32_t hash = SL_FNV32;

	for (uint32_t len = 1; len <= end; len++) {
		const struct route_place *p;

		hash = sl_fnv32_byte(hash, path.ptr[len - 1]);
		if (!(r->lengths[len / 64] & UINT64_C(1) << len % 64) ||
		    (len != path.len && path.ptr[len] != '/' && path.ptr[len - 1] != '/'))
			continue;
		p = probe_place(r, scope, hash, path.ptr, len);
		if (p->cnt)
			best = p;
	}
	return best;
}

static bool has_field(const struct sl_request *rq, const struct route_rule *rule)
{
	for (uint32_t i = 0; i < rq->header_cnt; i++) {
		if (sl_span_eq(rq->headers[i].value, rule->value) &&
		    sl_span_eq_nocase(rq->headers[i].name, rule->name))
			return true;
	}
	return false;
}

static uint32_t first_rule(const struct sl_router *r, uint32_t site)
{
	uint32_t low = 0, high = r->rule_cnt;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (r->rules[middle].site < site)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool goes_first(const struct sl_router *r, const struct route_place *a,
		       const struct route_place *b)
{
	return a->len != b->len ? a->len > b->len
				: r->routes[a->first]->line < r->routes[b->first]->line;
}

static __attribute__((noinline)) const struct route_place *
find_by_header(const struct sl_router *r, uint32_t site, const struct sl_request *rq)
{
	const struct route_place *best = NULL;

	for (uint32_t i = first_rule(r, site); i < r->rule_cnt && r->rules[i].site == site; i++) {
		const struct route_place *p =
			has_field(rq, &r->rules[i]) ? find_prefix(r, RULES + i, rq->path) : NULL;

		if (p && (!best || goes_first(r, p, best)))
			best = p;
	}
	return best;
}

static const struct route_place *find_at_site(const struct sl_router *r, uint32_t site,
					      const struct sl_request *rq)
{
	const struct route_place *p = r->rule_cnt ? find_by_header(r, site, rq) : NULL;

	return p ? p : find_prefix(r, site, rq->path);
}

static const struct route_place *find_at_host(const struct sl_router *r, uint32_t host,
					      uint16_t listener, const struct sl_request *rq)
{
	const struct route_place *p = r->by_listener && listener < SL_MAX_LISTENERS
					      ? find_at_site(r, site_of(host, listener), rq)
					      : NULL;

	return p ? p : find_at_site(r, site_of(host, -1), rq);
}

static uint32_t hash_host(struct sl_span name, bool wildcard)
{
	uint32_t h = wildcard ? sl_fnv32_byte(SL_FNV32, '*') : SL_FNV32;

	for (size_t i = 0; i < name.len; i++)
		h = sl_fnv32_byte(h, sl_ascii_lower(name.ptr[i]));
	return h ^ h >> 15;
}

static struct route_host *probe_host(const struct sl_router *r, struct sl_span name, bool wildcard)
{
	uint32_t at = hash_host(name, wildcard) & r->host_mask;

	for (;; at = (at + 1) & r->host_mask) {
		struct route_host *h = &r->hosts[at];
		bool star = h->name && h->name[0] == '*';

		if (!h->name || (star == wildcard &&
				 sl_span_eq_nocase(sl_span_cstr(h->name + (star ? 1 : 0)), name)))
			return h;
	}
}

/* Finds the route by "*.example.com", which matches one label or more. */
static const struct route_place *find_wildcard(const struct sl_router *r, struct sl_span host,
					       uint16_t listener, const struct sl_request *rq)
{
	unsigned labels = 0;

	for (size_t i = 1; i < host.len && labels < LABELS_MAX; i++) {
		const struct route_host *h;
		const struct route_place *p;

		if (host.ptr[i] != '.')
			continue;
		labels++;
		h = probe_host(r, sl_span_skip(host, i), true);
		p = h->name ? find_at_host(r, h->number, listener, rq) : NULL;
		if (p)
			return p;
	}
	return NULL;
}

static const struct route_place *find_by_host(const struct sl_router *r, uint16_t listener,
					      const struct sl_request *rq)
{
	struct sl_span name = sl_router_host(rq->authority);
	const struct route_place *p;
	const struct route_host *h;

	/* HOST_MAX bounds quadratic hashing of suffixes. */
	if (name.len > HOST_MAX)
		return NULL;
	h = probe_host(r, name, false);
	p = h->name ? find_at_host(r, h->number, listener, rq) : NULL;
	return p ? p : find_wildcard(r, name, listener, rq);
}

static const struct route_place *find_place(const struct sl_router *r, uint16_t listener,
					    const struct sl_request *rq)
{
	const struct route_place *p = r->host_cnt ? find_by_host(r, listener, rq) : NULL;

	return p ? p : find_at_host(r, NO_HOST, listener, rq);
}

struct sl_span sl_router_host(struct sl_span authority)
{
	struct sl_span host = authority;
	const uint8_t *at;

	if (host.len && host.ptr[0] == '[') { /* IPv6 literal */
		const uint8_t *close = memchr(host.ptr, ']', host.len);

		return close ? sl_span_first(host, (size_t)(close - host.ptr) + 1) : host;
	}
	at = host.len ? memchr(host.ptr, ':', host.len) : NULL;
	if (at)
		host.len = (size_t)(at - host.ptr);
	if (host.len > 1 && host.ptr[host.len - 1] == '.')
		host.len--;
	return host;
}

struct sl_route_match sl_router_find(const struct sl_router *r, uint16_t listener,
				     const struct sl_request *rq)
{
	const struct route_place *p = find_place(r, listener, rq);
	struct sl_route_match m = {0};

	if (!p)
		return m;
	m.route = r->routes[p->first];
	m.methods = p->methods;
	for (uint32_t i = p->first; i < p->first + p->cnt && !m.method_ok; i++) {
		m.method_ok = !r->methods[i] || (r->methods[i] & 1u << rq->method);
		if (m.method_ok)
			m.route = r->routes[i];
	}
	return m;
}

static uint32_t service_slot(const struct sl_router *r, uint16_t service)
{
	uint32_t at = service * 0x9e3779b9u >> 16 & r->service_mask;

	while (r->services[at] && r->services[at]->datagram_service != service)
		at = (at + 1) & r->service_mask;
	return at;
}

const struct sl_cfg_route *sl_router_find_service(const struct sl_router *r, uint16_t listener,
						  uint16_t service)
{
	const struct sl_cfg_route *route = service ? r->services[service_slot(r, service)] : NULL;

	if (!route || !route->listener_cnt)
		return route;
	for (uint32_t i = 0; i < route->listener_cnt; i++) {
		if (route->listeners[i] == listener)
			return route;
	}
	return NULL;
}

struct route_entry {
	const struct sl_cfg_route *route;
	const char *host;
	int32_t listener; /* -1: none */
};

static int compare_texts(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) : !!a - !!b;
}

static int compare_scopes(const struct route_entry *a, const struct route_entry *b)
{
	int order = compare_texts(a->host, b->host);

	if (!order)
		order = a->listener - b->listener;
	if (!order)
		order = compare_texts(a->route->header, b->route->header);
	return order ? order : compare_texts(a->route->header_value, b->route->header_value);
}

static int compare_places(const struct route_entry *a, const struct route_entry *b)
{
	int order = compare_scopes(a, b);

	return order ? order : strcmp(a->route->prefix, b->route->prefix);
}

static int compare_entries(const void *a, const void *b)
{
	const struct route_entry *x = a, *y = b;
	int order = compare_places(x, y);

	return order ? order : !x->route->methods - !y->route->methods;
}

static uint32_t host_number(struct sl_router *r, const char *name)
{
	bool wildcard = name && name[0] == '*';
	struct route_host *h;

	if (!name)
		return NO_HOST;
	h = probe_host(r, sl_span_cstr(name + (wildcard ? 1 : 0)), wildcard);
	if (!h->name)
		*h = (struct route_host){.name = name, .number = ++r->host_cnt};
	return h->number;
}

static uint32_t join_methods(struct sl_router *r, uint32_t first, uint32_t cnt)
{
	enum { GET = 1u << SL_METHOD_GET, HEAD = 1u << SL_METHOD_HEAD };
	bool any = !r->methods[first + cnt - 1];
	uint32_t all = 0;

	for (uint32_t i = first; i < first + cnt; i++)
		all |= r->methods[i];
	for (uint32_t i = first; i < first + cnt && !any && !(all & HEAD); i++) {
		if (r->methods[i] & GET)
			r->methods[i] |= HEAD;
	}
	if (any)
		return 0;
	return all & GET ? all | HEAD : all;
}

static uint32_t scope_of(struct sl_router *r, const struct route_entry *e, bool begins)
{
	uint32_t site = site_of(host_number(r, e->host), e->listener);

	r->by_listener |= e->listener >= 0;
	if (!e->route->header)
		return site;
	if (begins)
		r->rules[r->rule_cnt++] = (struct route_rule){site, sl_span_cstr(e->route->header),
							      sl_span_cstr(e->route->header_value)};
	return RULES + r->rule_cnt - 1;
}

static void add_place(struct sl_router *r, const struct route_entry *e, uint32_t first,
		      uint32_t cnt, bool begins)
{
	const char *prefix = e[0].route->prefix;
	uint32_t len = (uint32_t)strlen(prefix);
	uint32_t hash = sl_fnv32(SL_FNV32, prefix, len);
	uint32_t scope = scope_of(r, e, begins);
	struct route_place *p;

	for (uint32_t i = 0; i < cnt; i++) {
		r->routes[first + i] = e[i].route;
		r->methods[first + i] = e[i].route->methods;
	}
	p = probe_place(r, scope, hash, (const uint8_t *)prefix, len);
	*p = (struct route_place){scope, hash, prefix, len, first, cnt, 0};
	p->methods = join_methods(r, first, cnt);
	r->lengths[len / 64] |= UINT64_C(1) << len % 64;
	if (len > r->longest)
		r->longest = len;
}

static uint32_t at_least_one(uint32_t cnt)
{
	return cnt ? cnt : 1;
}

static uint32_t entries_of(const struct sl_cfg_route *route)
{
	return at_least_one(route->host_cnt) * at_least_one(route->listener_cnt);
}

static uint32_t list_entries(const struct sl_config *cfg, struct route_entry *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		const struct sl_cfg_route *route = &cfg->routes[i];
		uint32_t hosts = at_least_one(route->host_cnt);

		for (uint32_t k = 0; k < entries_of(route); k++) {
			out[n++] = (struct route_entry){
				.route = route,
				.host = route->host_cnt ? route->hosts[k % hosts] : NULL,
				.listener = route->listener_cnt ? route->listeners[k / hosts] : -1};
		}
	}
	return n;
}

/* Returns a hash table's mask: at most half full. */
static uint32_t table_mask(uint32_t cnt)
{
	uint32_t size = 2;

	while (size < 2 * cnt)
		size *= 2;
	return size - 1;
}

static bool allocate_tables(struct sl_router *r, uint32_t entries, uint32_t routes)
{
	r->place_mask = table_mask(entries);
	r->host_mask = table_mask(entries);
	r->service_mask = table_mask(routes);
	r->places = calloc((size_t)r->place_mask + 1, sizeof(*r->places));
	r->hosts = calloc((size_t)r->host_mask + 1, sizeof(*r->hosts));
	r->services = calloc((size_t)r->service_mask + 1, sizeof(struct sl_cfg_route *));
	r->rules = calloc((size_t)entries + 1, sizeof(*r->rules));
	r->routes = calloc((size_t)entries + 1, sizeof(struct sl_cfg_route *));
	r->methods = calloc((size_t)entries + 1, sizeof(*r->methods));
	return r->places && r->hosts && r->services && r->rules && r->routes && r->methods;
}

static void fill_tables(struct sl_router *r, const struct sl_config *cfg, struct route_entry *e,
			uint32_t n)
{
	uint32_t cnt;

	if (n)
		qsort(e, n, sizeof(*e), compare_entries);
	for (uint32_t i = 0; i < n; i += cnt) {
		for (cnt = 1; i + cnt < n && compare_places(&e[i], &e[i + cnt]) == 0; cnt++)
			;
		add_place(r, &e[i], i, cnt, !i || compare_scopes(&e[i - 1], &e[i]) != 0);
	}
	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		if (cfg->routes[i].datagram_service)
			r->services[service_slot(r, cfg->routes[i].datagram_service)] =
				&cfg->routes[i];
	}
}

struct sl_router *sl_router_create(const struct sl_config *cfg)
{
	struct sl_router *r = calloc(1, sizeof(*r));
	struct route_entry *entries;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < cfg->route_cnt; i++)
		cnt += entries_of(&cfg->routes[i]);
	entries = calloc((size_t)cnt + 1, sizeof(*entries));
	if (!r || !entries || !allocate_tables(r, cnt, cfg->route_cnt)) {
		sl_router_destroy(r);
		r = NULL;
	} else {
		fill_tables(r, cfg, entries, list_entries(cfg, entries));
	}
	free(entries);
	return r;
}

void sl_router_destroy(struct sl_router *r)
{
	if (!r)
		return;
	free(r->places);
	free(r->hosts);
	free(r->services);
	free(r->rules);
	free(r->routes);
	free(r->methods);
	free(r);
}
