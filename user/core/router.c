/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: sl_router_find -> find_prefix -> probe; sl_router_create -> add_route -> add_place. */
#include "core/router.h"

#include <stdlib.h>
#include <string.h>

enum {
	PREFIX_MAX = 1024, /* bytes, as config checks */
	HOST_MAX = 253,    /* bytes of a host name, RFC 1035, and of any that a route has */
	LABELS_MAX = 127,  /* of it: so many suffixes can be asked for at most */
	NO_HOST = 0,       /* of places of routes that have none */
};

/* Routes of one host and one prefix, next to each other in `routes`. */
struct place {
	uint32_t host; /* number of the host; NO_HOST */
	uint32_t hash;
	const char *prefix;
	uint32_t len;
	uint32_t first, cnt;
	uint32_t methods;
};

struct host {
	const char *name; /* "*.suffix" or a name, in lower case; NULL: vacant */
	uint32_t number;
};

struct sl_router {
	struct place *places; /* open addressing, [place_mask + 1]; cnt == 0: vacant */
	uint32_t place_mask;
	struct host *hosts; /* the same; hosts[host_mask + 1] */
	uint32_t host_mask, host_cnt;
	const struct sl_cfg_route **routes; /* in order of host and prefix */
	uint32_t *methods;                  /* of each of them, HEAD added where GET answers it */
	const struct sl_cfg_route **services;
	uint32_t service_mask;
	uint32_t longest;                      /* prefix */
	uint64_t lengths[PREFIX_MAX / 64 + 1]; /* bit per length that some prefix has */
};

/* FNV-1a. The tables are filled by the operator, so nobody can make them collide. */
static uint32_t hash_byte(uint32_t h, uint8_t c)
{
	return (h ^ c) * 16777619u;
}

#define HASH_START 2166136261u

static uint32_t place_slot(const struct sl_router *r, uint32_t hash, uint32_t host)
{
	uint32_t h = hash + host * 0x9e3779b9u;

	return (h ^ h >> 15) & r->place_mask;
}

/* The place of that host and prefix, or the vacant one where it belongs. */
static struct place *probe(const struct sl_router *r, uint32_t host, uint32_t hash,
			   const uint8_t *prefix, uint32_t len)
{
	uint32_t at = place_slot(r, hash, host);

	for (;; at = (at + 1) & r->place_mask) {
		struct place *p = &r->places[at];

		if (!p->cnt || (p->hash == hash && p->host == host && p->len == len &&
				memcmp(p->prefix, prefix, len) == 0))
			return p;
	}
}

/* --- look-up --- */

static const struct place *find_prefix(const struct sl_router *r, uint32_t host,
				       struct sl_span path)
{
	uint32_t end = path.len < r->longest ? (uint32_t)path.len : r->longest;
	const struct place *best = NULL;
	uint32_t hash = HASH_START;

	for (uint32_t len = 1; len <= end; len++) {
		const struct place *p;

		hash = hash_byte(hash, path.ptr[len - 1]);
		/* A prefix may end in front of a '/', behind one, or with the path. */
		if (!(r->lengths[len / 64] & UINT64_C(1) << len % 64) ||
		    (len != path.len && path.ptr[len] != '/' && path.ptr[len - 1] != '/'))
			continue;
		p = probe(r, host, hash, path.ptr, len);
		if (p->cnt)
			best = p;
	}
	return best;
}

static uint32_t hash_host(struct sl_span name, bool wildcard)
{
	uint32_t h = wildcard ? hash_byte(HASH_START, '*') : HASH_START;

	for (size_t i = 0; i < name.len; i++)
		h = hash_byte(h, sl_ascii_lower(name.ptr[i]));
	return h ^ h >> 15;
}

static struct host *probe_host(const struct sl_router *r, struct sl_span name, bool wildcard)
{
	uint32_t at = hash_host(name, wildcard) & r->host_mask;

	for (;; at = (at + 1) & r->host_mask) {
		struct host *h = &r->hosts[at];
		bool star = h->name && h->name[0] == '*';

		if (!h->name || (star == wildcard &&
				 sl_span_eq_nocase(sl_span_cstr(h->name + (star ? 1 : 0)), name)))
			return h;
	}
}

/* "*.example.com" stands for one label or more in front of ".example.com". */
static const struct place *find_wildcard(const struct sl_router *r, struct sl_span host,
					 struct sl_span path)
{
	unsigned labels = 0;

	for (size_t i = 1; i < host.len && labels < LABELS_MAX; i++) {
		const struct host *h;
		const struct place *p;

		if (host.ptr[i] != '.')
			continue;
		labels++;
		h = probe_host(r, sl_span_skip(host, i), true);
		p = h->name ? find_prefix(r, h->number, path) : NULL;
		if (p)
			return p;
	}
	return NULL;
}

static const struct place *find_place(const struct sl_router *r, const struct sl_request *rq)
{
	struct sl_span name = sl_router_host(rq->authority);
	const struct place *p = NULL;

	/* Each suffix is hashed to its end: what is no name would cost the square of its length. */
	if (r->host_cnt && name.len <= HOST_MAX) {
		const struct host *h = probe_host(r, name, false);

		p = h->name ? find_prefix(r, h->number, rq->path) : NULL;
		if (!p)
			p = find_wildcard(r, name, rq->path);
	}
	return p ? p : find_prefix(r, NO_HOST, rq->path);
}

struct sl_span sl_router_host(struct sl_span authority)
{
	struct sl_span host = authority;
	const uint8_t *at;

	if (host.len && host.ptr[0] == '[') { /* IPv6 literal: up to the bracket */
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

struct sl_route_match sl_router_find(const struct sl_router *r, const struct sl_request *rq)
{
	const struct place *p = find_place(r, rq);
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

const struct sl_cfg_route *sl_router_find_service(const struct sl_router *r, uint16_t service)
{
	return service ? r->services[service_slot(r, service)] : NULL;
}

/* --- building --- */

/* A route at one of its hosts; the table is filled from these, sorted. */
struct entry {
	const struct sl_cfg_route *route;
	const char *host; /* NULL: none */
};

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int order = strcmp(x->host ? x->host : "", y->host ? y->host : "");

	if (!order)
		order = strcmp(x->route->prefix, y->route->prefix);
	return order ? order : !x->route->methods - !y->route->methods; /* without methods: last */
}

static bool same_place(const struct entry *a, const struct entry *b)
{
	return strcmp(a->host ? a->host : "", b->host ? b->host : "") == 0 &&
	       strcmp(a->route->prefix, b->route->prefix) == 0;
}

static uint32_t host_number(struct sl_router *r, const char *name)
{
	bool wildcard = name && name[0] == '*';
	struct host *h;

	if (!name)
		return NO_HOST;
	h = probe_host(r, sl_span_cstr(name + (wildcard ? 1 : 0)), wildcard);
	if (!h->name)
		*h = (struct host){.name = name, .number = ++r->host_cnt};
	return h->number;
}

/* RFC 9110 9.1: who answers GET answers HEAD, unless another route of the place does. */
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

static void add_place(struct sl_router *r, const struct entry *e, uint32_t first, uint32_t cnt)
{
	const char *prefix = e[0].route->prefix;
	uint32_t len = (uint32_t)strlen(prefix);
	uint32_t hash = HASH_START;
	uint32_t host = host_number(r, e[0].host);
	struct place *p;

	for (uint32_t i = 0; i < len; i++)
		hash = hash_byte(hash, (uint8_t)prefix[i]);
	for (uint32_t i = 0; i < cnt; i++) {
		r->routes[first + i] = e[i].route;
		r->methods[first + i] = e[i].route->methods;
	}
	p = probe(r, host, hash, (const uint8_t *)prefix, len);
	*p = (struct place){host, hash, prefix, len, first, cnt, 0};
	p->methods = join_methods(r, first, cnt);
	r->lengths[len / 64] |= UINT64_C(1) << len % 64;
	if (len > r->longest)
		r->longest = len;
}

static uint32_t list_entries(const struct sl_config *cfg, struct entry *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < cfg->route_cnt; i++) {
		const struct sl_cfg_route *route = &cfg->routes[i];

		if (!route->host_cnt)
			out[n++] = (struct entry){.route = route};
		for (uint32_t h = 0; h < route->host_cnt; h++)
			out[n++] = (struct entry){route, route->hosts[h]};
	}
	return n;
}

/* A power of two, at most half of it in use. */
static uint32_t table_mask(uint32_t cnt)
{
	uint32_t size = 2;

	while (size < 2 * cnt)
		size *= 2;
	return size - 1;
}

static bool allocate(struct sl_router *r, uint32_t entries, uint32_t routes)
{
	r->place_mask = table_mask(entries);
	r->host_mask = table_mask(entries);
	r->service_mask = table_mask(routes);
	r->places = calloc((size_t)r->place_mask + 1, sizeof(*r->places));
	r->hosts = calloc((size_t)r->host_mask + 1, sizeof(*r->hosts));
	r->services = calloc((size_t)r->service_mask + 1, sizeof(struct sl_cfg_route *));
	r->routes = calloc((size_t)entries + 1, sizeof(struct sl_cfg_route *));
	r->methods = calloc((size_t)entries + 1, sizeof(*r->methods));
	return r->places && r->hosts && r->services && r->routes && r->methods;
}

static void fill(struct sl_router *r, const struct sl_config *cfg, struct entry *e, uint32_t n)
{
	uint32_t cnt;

	if (n)
		qsort(e, n, sizeof(*e), compare);
	for (uint32_t i = 0; i < n; i += cnt) {
		for (cnt = 1; i + cnt < n && same_place(&e[i], &e[i + cnt]); cnt++)
			;
		add_place(r, &e[i], i, cnt);
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
	struct entry *entries;
	uint32_t cnt = 0;

	for (uint32_t i = 0; i < cfg->route_cnt; i++)
		cnt += cfg->routes[i].host_cnt ? cfg->routes[i].host_cnt : 1;
	entries = calloc((size_t)cnt + 1, sizeof(*entries));
	if (!r || !entries || !allocate(r, cnt, cfg->route_cnt)) {
		sl_router_destroy(r);
		r = NULL;
	} else {
		fill(r, cfg, entries, list_entries(cfg, entries));
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
	free(r->routes);
	free(r->methods);
	free(r);
}
