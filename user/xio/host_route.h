/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules, routes and neighbours of the host.
 *
 * Neighbours are read at most ten times a second, rules and routes once a second, or once a minute
 * beyond SL_HOST_ROUTES_MAX. One thread.
 */
#ifndef SL_XIO_HOST_ROUTE_H
#define SL_XIO_HOST_ROUTE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/err.h"

enum {
	SL_HOST_RULES_MAX = 256,
	SL_HOST_ROUTES_MAX = 16384,
	SL_HOST_HOPS_MAX = 2 * SL_HOST_ROUTES_MAX,
	SL_HOST_NEIGHBOURS_MAX = 8192, /* others count as unresolved */
	SL_HOST_MULTIPATH_MAX = 16,
};

#define SL_HOST_THROW UINT32_MAX

#define SL_HOST_NEIGHBOURS_PERIOD_NS UINT64_C(100000000)
#define SL_HOST_ROUTES_PERIOD_NS     UINT64_C(1000000000)
#define SL_HOST_ROUTES_BACKOFF_NS    UINT64_C(60000000000)

/* IPv4 addresses: the first four bytes, the rest zero. The structs have no padding. */
struct sl_host_rule {
	uint8_t src[16], dst[16];
	uint32_t priority;
	uint32_t table;   /* 0: no route, as "unreachable" or an unknown rule */
	int32_t suppress; /* ignores routes with prefixes up to this length; -1: none */
	uint8_t family, src_len, dst_len, pad;
};

struct sl_host_hop {
	uint8_t gateway[16];
	int32_t ifindex;
	uint8_t family; /* of the gateway; 0: on-link */
	uint8_t pad[3];
};

struct sl_host_route {
	uint8_t dst[16];
	uint32_t table, metric;
	uint32_t hop;     /* first of hop_cnt; SL_HOST_THROW: ends the search in this table */
	uint16_t hop_cnt; /* 0: unreachable, blackhole or prohibit */
	uint8_t family, len;
};

struct sl_host_neighbour {
	uint8_t addr[16];
	int32_t ifindex;
	uint8_t mac[6];
	uint8_t family;
	bool stale; /* kernel verifies it at the next packet */
};

struct sl_host_routes {
	struct sl_host_rule *rules; /* by priority */
	struct sl_host_route *routes;
	struct sl_host_hop *hops;
	struct sl_host_neighbour *neighbours;
	uint32_t rule_cnt, route_cnt, hop_cnt, neighbour_cnt;
	bool too_many; /* beyond SL_HOST_ROUTES_MAX: no rules and routes */

	/* private */
	int fd; /* netlink; -1: closed */
	bool routes_changed, neighbours_changed;
	uint64_t routes_ns, neighbours_ns; /* earliest reading */
};

/* Returns 0, or -errno and a line in err; *h is then closed. */
int sl_host_routes_open(struct sl_host_routes *h, struct sl_err *err);
/* Frees the lists. Idempotent; *h may also be zero with fd -1. */
void sl_host_routes_close(struct sl_host_routes *h);

/* Returns true if a list has changed since the last call. A failed reading is repeated later. */
bool sl_host_routes_poll(struct sl_host_routes *h, uint64_t now_ns);

#endif
