/* SPDX-License-Identifier: Apache-2.0 */
#include "net/route.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/fnv.h"

#define NONE UINT32_MAX

struct hop {
	struct sl_next_hop next;
	bool on_link; /* next has only the interface */
};

struct route {
	uint8_t dst[16];
	uint32_t table;
	uint32_t parent; /* longest prefix that contains this one; NONE */
	uint32_t hop;
	uint16_t hop_cnt;
	uint8_t family, len;
	bool throws;
};

struct rule {
	struct sl_host_rule is;
	uint32_t first, cnt;
};

struct sl_routes {
	atomic_uint refs;
	uint32_t rule_cnt, route_cnt, hop_cnt, neighbour_cnt;
	struct rule *rules;
	struct route *routes; /* by family, table, dst, len */
	struct hop *hops;
	struct sl_host_neighbour *by_addr, *by_mac;
};

static bool has_prefix(const uint8_t *addr, const uint8_t *prefix, unsigned len)
{
	const unsigned bytes = len / 8, bits = len % 8;

	return memcmp(addr, prefix, bytes) == 0 &&
	       (!bits || !((addr[bytes] ^ prefix[bytes]) >> (8 - bits)));
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

static int compare_addr(const void *a, const void *b)
{
	const struct sl_host_neighbour *x = a, *y = b;
	int rc = compare_numbers((uint64_t)x->ifindex << 8 | x->family,
				 (uint64_t)y->ifindex << 8 | y->family);

	return rc ? rc : memcmp(x->addr, y->addr, sizeof(x->addr));
}

static int compare_mac(const void *a, const void *b)
{
	const struct sl_host_neighbour *x = a, *y = b;
	int rc = compare_numbers((uint64_t)x->ifindex << 8 | x->family,
				 (uint64_t)y->ifindex << 8 | y->family);

	return rc ? rc : memcmp(x->mac, y->mac, sizeof(x->mac));
}

static const struct sl_host_neighbour *find_neighbour(const struct sl_routes *r, int ifindex,
						      uint8_t family, const uint8_t *addr)
{
	struct sl_host_neighbour key = {.ifindex = ifindex, .family = family};

	memcpy(key.addr, addr, sizeof(key.addr));
	return r->neighbour_cnt
		       ? bsearch(&key, r->by_addr, r->neighbour_cnt, sizeof(key), compare_addr)
		       : NULL;
}

static bool is_neighbour_mac(const struct sl_routes *r, int ifindex, uint8_t family,
			     const uint8_t *mac)
{
	struct sl_host_neighbour key = {.ifindex = ifindex, .family = family};

	memcpy(key.mac, mac, sizeof(key.mac));
	return r->neighbour_cnt &&
	       bsearch(&key, r->by_mac, r->neighbour_cnt, sizeof(key), compare_mac);
}

static int compare_routes(const void *a, const void *b)
{
	const struct sl_host_route *x = a, *y = b;
	int rc = compare_numbers(x->family, y->family);

	rc = rc ? rc : compare_numbers(x->table, y->table);
	rc = rc ? rc : memcmp(x->dst, y->dst, sizeof(x->dst));
	rc = rc ? rc : compare_numbers(x->len, y->len);
	return rc ? rc : compare_numbers(x->metric, y->metric);
}

static bool same_table(const struct route *a, const struct route *b)
{
	return a->family == b->family && a->table == b->table;
}

/* Candidates are the route before `index` and those that contain it. */
static uint32_t find_parent(const struct sl_routes *r, uint32_t index)
{
	const struct route *of = &r->routes[index];
	uint32_t i = index ? index - 1 : NONE;

	if (i == NONE || !same_table(&r->routes[i], of))
		return NONE;
	while (i != NONE && !has_prefix(of->dst, r->routes[i].dst, r->routes[i].len))
		i = r->routes[i].parent;
	return i;
}

static void take_routes(struct sl_routes *r, struct sl_host_route *sorted, uint32_t cnt)
{
	qsort(sorted, cnt, sizeof(*sorted), compare_routes);
	for (uint32_t i = 0; i < cnt; i++) {
		const struct sl_host_route *from = &sorted[i];
		struct route *to = &r->routes[r->route_cnt];

		*to = (struct route){
			.table = from->table,
			.hop = from->hop,
			.hop_cnt = from->hop_cnt,
			.family = from->family,
			.len = from->len,
			.throws = from->hop == SL_HOST_THROW,
		};
		memcpy(to->dst, from->dst, sizeof(to->dst));
		if (from->len > (from->family == 4 ? 32 : 128) ||
		    (r->route_cnt && same_table(to - 1, to) && to[-1].len == to->len &&
		     memcmp(to[-1].dst, to->dst, sizeof(to->dst)) == 0))
			continue;
		to->parent = find_parent(r, r->route_cnt);
		r->route_cnt++;
	}
}

static void take_rules(struct sl_routes *r, const struct sl_host_routes *h)
{
	for (uint32_t i = 0; i < h->rule_cnt; i++) {
		struct rule *rule = &r->rules[r->rule_cnt++];
		uint32_t k = 0;

		*rule = (struct rule){.is = h->rules[i]};
		while (k < r->route_cnt && (r->routes[k].family != rule->is.family ||
					    r->routes[k].table != rule->is.table))
			k++;
		rule->first = k;
		while (k < r->route_cnt && r->routes[k].family == rule->is.family &&
		       r->routes[k].table == rule->is.table)
			k++;
		rule->cnt = k - rule->first;
	}
}

static void set_neighbour(struct sl_next_hop *next, const struct sl_host_neighbour *n)
{
	if (!n)
		return;
	next->known = true;
	next->stale = n->stale;
	memcpy(next->mac, n->mac, sizeof(next->mac));
}

static void take_hops(struct sl_routes *r, const struct sl_host_routes *h)
{
	for (uint32_t i = 0; i < h->hop_cnt; i++) {
		const struct sl_host_hop *from = &h->hops[i];
		struct hop *to = &r->hops[r->hop_cnt++];

		*to = (struct hop){.next.ifindex = from->ifindex, .on_link = !from->family};
		if (from->family)
			set_neighbour(&to->next, find_neighbour(r, from->ifindex, from->family,
								from->gateway));
	}
}

static void take_neighbours(struct sl_routes *r, const struct sl_host_routes *h)
{
	r->neighbour_cnt = h->neighbour_cnt;
	if (!h->neighbour_cnt)
		return;
	memcpy(r->by_addr, h->neighbours, h->neighbour_cnt * sizeof(*h->neighbours));
	memcpy(r->by_mac, h->neighbours, h->neighbour_cnt * sizeof(*h->neighbours));
	qsort(r->by_addr, r->neighbour_cnt, sizeof(*r->by_addr), compare_addr);
	qsort(r->by_mac, r->neighbour_cnt, sizeof(*r->by_mac), compare_mac);
}

struct sl_routes *sl_routes_new(const struct sl_host_routes *h)
{
	struct sl_routes *r = calloc(1, sizeof(*r));
	struct sl_host_route *sorted = calloc(h->route_cnt + 1, sizeof(*sorted));

	if (!r || !sorted)
		goto fail;
	atomic_init(&r->refs, 1);
	r->rules = calloc(h->rule_cnt + 1, sizeof(*r->rules));
	r->routes = calloc(h->route_cnt + 1, sizeof(*r->routes));
	r->hops = calloc(h->hop_cnt + 1, sizeof(*r->hops));
	r->by_addr = calloc(h->neighbour_cnt + 1, sizeof(*r->by_addr));
	r->by_mac = calloc(h->neighbour_cnt + 1, sizeof(*r->by_mac));
	if (!r->rules || !r->routes || !r->hops || !r->by_addr || !r->by_mac)
		goto fail;
	if (h->route_cnt)
		memcpy(sorted, h->routes, h->route_cnt * sizeof(*sorted));
	take_neighbours(r, h);
	take_hops(r, h);
	take_routes(r, sorted, h->route_cnt);
	take_rules(r, h);
	free(sorted);
	return r;
fail:
	free(sorted);
	sl_routes_put(r);
	return NULL;
}

struct sl_routes *sl_routes_get(struct sl_routes *r)
{
	atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
	return r;
}

void sl_routes_put(struct sl_routes *r)
{
	if (!r || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) > 1)
		return;
	free(r->rules);
	free(r->routes);
	free(r->hops);
	free(r->by_addr);
	free(r->by_mac);
	free(r);
}

static const struct route *find_in_table(const struct sl_routes *r, const struct rule *rule,
					 const uint8_t *remote)
{
	uint32_t low = rule->first, high = rule->first + rule->cnt, i;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (memcmp(r->routes[mid].dst, remote, 16) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	i = low > rule->first ? low - 1 : NONE;
	while (i != NONE && !has_prefix(remote, r->routes[i].dst, r->routes[i].len))
		i = r->routes[i].parent;
	return i == NONE ? NULL : &r->routes[i];
}

static const struct route *find_route(const struct sl_routes *r, uint8_t family,
				      const uint8_t *local, const uint8_t *remote)
{
	for (uint32_t i = 0; i < r->rule_cnt; i++) {
		const struct sl_host_rule *is = &r->rules[i].is;
		const struct route *found;

		if (is->family != family || !has_prefix(local, is->src, is->src_len) ||
		    !has_prefix(remote, is->dst, is->dst_len))
			continue;
		if (!is->table)
			return NULL;
		found = find_in_table(r, &r->rules[i], remote);
		if (found && !found->throws && found->len > is->suppress)
			return found->hop_cnt ? found : NULL;
	}
	return NULL;
}

static const struct hop *choose_hop(const struct sl_routes *r, const struct route *route,
				    const uint8_t *remote)
{
	uint64_t hash = route->hop_cnt > 1 ? sl_fnv64(SL_FNV64, remote, 16) : 0;

	return &r->hops[route->hop + (uint32_t)(hash % route->hop_cnt)];
}

bool sl_routes_find(const struct sl_routes *r, uint8_t family, const uint8_t *local,
		    const uint8_t *remote, struct sl_next_hop *next)
{
	const struct route *route = find_route(r, family, local, remote);
	const struct hop *hop;

	if (!route)
		return false;
	hop = choose_hop(r, route, remote);
	*next = hop->next;
	if (hop->on_link)
		set_neighbour(next, find_neighbour(r, hop->next.ifindex, family, remote));
	return true;
}

static bool is_from_hop(const struct sl_routes *r, const struct hop *hop, uint8_t family,
			const uint8_t *remote, int ifindex, const uint8_t *from_mac)
{
	const struct sl_host_neighbour *n;

	if (hop->next.ifindex != ifindex)
		return false;
	if (!hop->on_link)
		return hop->next.known && memcmp(hop->next.mac, from_mac, 6) == 0;
	if (!is_neighbour_mac(r, ifindex, family, from_mac))
		return true;
	n = find_neighbour(r, ifindex, family, remote);
	return n && memcmp(n->mac, from_mac, sizeof(n->mac)) == 0;
}

bool sl_routes_differ(const struct sl_routes *r, uint8_t family, const uint8_t *local,
		      const uint8_t *remote, int ifindex, const uint8_t *from_mac, int *out)
{
	const struct route *route = find_route(r, family, local, remote);

	for (uint32_t i = 0; route && i < route->hop_cnt; i++) {
		if (is_from_hop(r, &r->hops[route->hop + i], family, remote, ifindex, from_mac))
			return false;
	}
	if (route)
		*out = choose_hop(r, route, remote)->next.ifindex;
	return route != NULL;
}
