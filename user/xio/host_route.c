/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/host_route.h"

#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "base/check.h"
#include "base/rtattr.h"
#include "xio/netdev.h"

enum {
	EVENTS_PER_POLL = 1024,
	ANSWER_LEN = 32768, /* largest part of a dump */
	ANSWERS_MAX = 1024, /* per dump */
	ATTR_MAX = 31,
	LIST_STEP = 64,
};

struct list {
	void *items;
	size_t size;
	uint32_t cnt, room, max;
};

struct dump {
	struct list rules, routes, hops, neighbours;
};

struct attrs {
	const struct rtattr *at[ATTR_MAX + 1];
	bool unknown; /* a type above ATTR_MAX */
};

static void *add_item(struct list *l)
{
	if (l->cnt == l->max) {
		errno = E2BIG;
		return NULL;
	}
	if (l->cnt == l->room) {
		uint32_t room = l->room ? 2 * l->room : LIST_STEP;
		void *items = realloc(l->items, room * l->size);

		if (!items)
			return NULL;
		l->items = items;
		l->room = room;
	}
	return memset((char *)l->items + l->cnt++ * l->size, 0, l->size);
}

static void read_attrs(struct attrs *a, const void *first, size_t len)
{
	const struct rtattr *rta;

	memset(a, 0, sizeof(*a));
	for (rta = sl_rtattr_first(first, len); rta; rta = sl_rtattr_next(rta, &len)) {
		const unsigned type = rta->rta_type & (unsigned)NLA_TYPE_MASK;

		if (type <= ATTR_MAX)
			a->at[type] = rta;
		else
			a->unknown = true;
	}
}

static bool attr_u32(const struct attrs *a, unsigned type, uint32_t *value)
{
	const struct rtattr *rta = a->at[type];

	if (!rta || RTA_PAYLOAD(rta) < sizeof(*value))
		return false;
	memcpy(value, RTA_DATA(rta), sizeof(*value));
	return true;
}

static size_t addr_len(uint8_t family)
{
	return family == 4 ? 4 : 16;
}

static bool attr_addr(const struct attrs *a, unsigned type, uint8_t family, uint8_t *out)
{
	const struct rtattr *rta = a->at[type];

	if (!rta || RTA_PAYLOAD(rta) != addr_len(family))
		return false;
	memcpy(out, RTA_DATA(rta), addr_len(family));
	return true;
}

static uint8_t family_of(int af)
{
	return af == AF_INET ? 4 : af == AF_INET6 ? 6 : 0;
}

static bool is_prefix_len(uint8_t family, unsigned len)
{
	return len <= 8 * addr_len(family);
}

/* Rules on properties that packets of the gateway lack. */
static bool never_matches(const struct attrs *a)
{
	const char *iif = a->at[FRA_IIFNAME] ? RTA_DATA(a->at[FRA_IIFNAME]) : NULL;
	uint32_t mark = 0, mask = UINT32_MAX;

	attr_u32(a, FRA_FWMARK, &mark);
	attr_u32(a, FRA_FWMASK, &mask);
	if (iif && (RTA_PAYLOAD(a->at[FRA_IIFNAME]) != 3 || memcmp(iif, "lo", 3) != 0))
		return true;
	return mark & mask || a->at[FRA_OIFNAME] || a->at[FRA_TUN_ID] || a->at[FRA_L3MDEV];
}

static int add_rule(struct dump *d, const struct nlmsghdr *nh)
{
	const struct fib_rule_hdr *frh = NLMSG_DATA(nh);
	const uint8_t family =
		nh->nlmsg_len < NLMSG_LENGTH(sizeof(*frh)) ? 0 : family_of(frh->family);
	struct sl_host_rule *r;
	struct attrs a;
	uint32_t suppress;

	if (!family || !is_prefix_len(family, frh->src_len) || !is_prefix_len(family, frh->dst_len))
		return 0;
	read_attrs(&a, (const char *)frh + NLMSG_ALIGN(sizeof(*frh)),
		   nh->nlmsg_len - NLMSG_LENGTH(sizeof(*frh)));
	if (never_matches(&a) || frh->tos || frh->action == FR_ACT_NOP)
		return 0;
	r = add_item(&d->rules);
	if (!r)
		return -errno;
	r->family = family;
	r->src_len = frh->src_len;
	r->dst_len = frh->dst_len;
	attr_addr(&a, FRA_SRC, family, r->src);
	attr_addr(&a, FRA_DST, family, r->dst);
	attr_u32(&a, FRA_PRIORITY, &r->priority);
	r->suppress = attr_u32(&a, FRA_SUPPRESS_PREFIXLEN, &suppress) ? (int32_t)suppress : -1;
	r->table = frh->table;
	attr_u32(&a, FRA_TABLE, &r->table);
	if (a.unknown || frh->action != FR_ACT_TO_TBL || frh->flags & FIB_RULE_INVERT ||
	    a.at[FRA_IP_PROTO] || a.at[FRA_SPORT_RANGE] || a.at[FRA_DPORT_RANGE])
		r->table = 0;
	return 0;
}

/* RTA_VIA: a gateway of the other family. */
static void set_gateway(struct sl_host_hop *hop, const struct attrs *a, uint8_t family)
{
	const struct rtattr *via = a->at[RTA_VIA];
	uint16_t af;

	if (attr_addr(a, RTA_GATEWAY, family, hop->gateway)) {
		hop->family = family;
	} else if (via && RTA_PAYLOAD(via) >= sizeof(af)) {
		memcpy(&af, RTA_DATA(via), sizeof(af));
		hop->family = family_of(af);
		if (hop->family && RTA_PAYLOAD(via) == sizeof(af) + addr_len(hop->family))
			memcpy(hop->gateway, (const char *)RTA_DATA(via) + sizeof(af),
			       addr_len(hop->family));
	}
}

static int add_hop(struct dump *d, struct sl_host_route *r, const struct attrs *a, int ifindex,
		   unsigned flags)
{
	struct sl_host_hop *hop;

	if (flags & (RTNH_F_DEAD | RTNH_F_LINKDOWN) || r->hop_cnt == SL_HOST_MULTIPATH_MAX)
		return 0;
	hop = add_item(&d->hops);
	if (!hop)
		return -errno;
	hop->ifindex = ifindex;
	set_gateway(hop, a, r->family);
	r->hop_cnt++;
	return 0;
}

static int add_hops(struct dump *d, struct sl_host_route *r, const struct attrs *a, unsigned flags)
{
	const struct rtattr *multi = a->at[RTA_MULTIPATH];
	uint32_t oif = 0;
	int rc = 0;

	r->hop = d->hops.cnt;
	if (attr_u32(a, RTA_OIF, &oif))
		return add_hop(d, r, a, (int)oif, flags);
	if (!multi)
		return 0;
	const struct rtnexthop *nh = RTA_DATA(multi);
	size_t len = RTA_PAYLOAD(multi);

	while (!rc && len >= sizeof(*nh) && nh->rtnh_len >= sizeof(*nh) && nh->rtnh_len <= len) {
		const size_t step =
			((size_t)nh->rtnh_len + RTNH_ALIGNTO - 1) & ~((size_t)RTNH_ALIGNTO - 1);
		struct attrs of_hop;

		read_attrs(&of_hop, nh + 1, nh->rtnh_len - sizeof(*nh));
		rc = add_hop(d, r, &of_hop, nh->rtnh_ifindex, nh->rtnh_flags);
		if (step >= len)
			break;
		len -= step;
		nh = (const struct rtnexthop *)((const char *)nh + step);
	}
	return rc;
}

static bool is_skipped(const struct rtmsg *rt)
{
	/* Peers are never local or group addresses. */
	if (rt->rtm_table == RT_TABLE_LOCAL || rt->rtm_flags & RTM_F_CLONED)
		return true;
	if (rt->rtm_tos || rt->rtm_src_len)
		return true;
	return rt->rtm_type == RTN_LOCAL || rt->rtm_type == RTN_BROADCAST ||
	       rt->rtm_type == RTN_MULTICAST || rt->rtm_type == RTN_ANYCAST;
}

static int add_route(struct dump *d, const struct nlmsghdr *nh)
{
	const struct rtmsg *rt = NLMSG_DATA(nh);
	const uint8_t family =
		nh->nlmsg_len < NLMSG_LENGTH(sizeof(*rt)) ? 0 : family_of(rt->rtm_family);
	struct sl_host_route *r;
	struct attrs a;

	if (!family || !is_prefix_len(family, rt->rtm_dst_len) || is_skipped(rt))
		return 0;
	r = add_item(&d->routes);
	if (!r)
		return -errno;
	read_attrs(&a, RTM_RTA(rt), RTM_PAYLOAD(nh));
	r->family = family;
	r->len = rt->rtm_dst_len;
	r->table = rt->rtm_table;
	attr_addr(&a, RTA_DST, family, r->dst);
	attr_u32(&a, RTA_TABLE, &r->table);
	attr_u32(&a, RTA_PRIORITY, &r->metric);
	if (rt->rtm_type == RTN_THROW)
		r->hop = SL_HOST_THROW;
	return rt->rtm_type == RTN_UNICAST ? add_hops(d, r, &a, rt->rtm_flags) : 0;
}

static int add_neighbour(struct dump *d, const struct nlmsghdr *nh)
{
	const struct ndmsg *nd = NLMSG_DATA(nh);
	const uint8_t family =
		nh->nlmsg_len < NLMSG_LENGTH(sizeof(*nd)) ? 0 : family_of(nd->ndm_family);
	struct sl_host_neighbour *n;
	struct attrs a;

	if (!family ||
	    !(nd->ndm_state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)))
		return 0;
	read_attrs(&a, (const char *)nd + NLMSG_ALIGN(sizeof(*nd)),
		   nh->nlmsg_len - NLMSG_LENGTH(sizeof(*nd)));
	if (!a.at[NDA_LLADDR] || RTA_PAYLOAD(a.at[NDA_LLADDR]) != sizeof(n->mac))
		return 0;
	n = add_item(&d->neighbours);
	if (!n)
		return -errno;
	n->family = family;
	n->ifindex = nd->ndm_ifindex;
	n->stale = nd->ndm_state == NUD_STALE;
	memcpy(n->mac, RTA_DATA(a.at[NDA_LLADDR]), sizeof(n->mac));
	attr_addr(&a, NDA_DST, family, n->addr);
	return 0;
}

static int add_message(struct dump *d, const struct nlmsghdr *nh)
{
	switch (nh->nlmsg_type) {
	case RTM_NEWRULE: return add_rule(d, nh);
	case RTM_NEWROUTE: return add_route(d, nh);
	case RTM_NEWNEIGH: return add_neighbour(d, nh);
	default: return 0;
	}
}

/* NLMSG_NEXT() would wrap around without padding. */
static const struct nlmsghdr *next_message(const struct nlmsghdr *nh, size_t *len)
{
	const size_t step = NLMSG_ALIGN((size_t)nh->nlmsg_len);

	*len = step < *len ? *len - step : 0;
	return (const struct nlmsghdr *)((const char *)nh + step);
}

static int read_answer(struct dump *d, const struct nlmsghdr *nh, size_t len, uint32_t seq)
{
	for (; NLMSG_OK(nh, len); nh = next_message(nh, &len)) {
		int rc;

		if (nh->nlmsg_seq != seq)
			continue;
		if (nh->nlmsg_flags & NLM_F_DUMP_INTR)
			return -EAGAIN;
		if (nh->nlmsg_type == NLMSG_DONE)
			return 1;
		if (nh->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *e = NLMSG_DATA(nh);

			return nh->nlmsg_len >= NLMSG_LENGTH(sizeof(*e)) && e->error < 0 ? e->error
											 : -EIO;
		}
		rc = add_message(d, nh);
		if (rc)
			return rc;
	}
	return 0;
}

static ssize_t receive_answer(int fd, void *answer)
{
	struct sockaddr_nl from = {0};
	socklen_t from_len = sizeof(from);
	ssize_t len =
		recvfrom(fd, answer, ANSWER_LEN, MSG_TRUNC, (struct sockaddr *)&from, &from_len);

	if (len < 0)
		return -errno;
	if (from_len != sizeof(from) || from.nl_pid)
		return 0;
	return len > ANSWER_LEN ? -EMSGSIZE : len;
}

/* -E2BIG: too many. */
static int dump_objects(struct dump *d, uint16_t type, int af)
{
	struct {
		struct nlmsghdr nh;
		struct rtmsg body; /* as long as ndmsg and fib_rule_hdr */
	} ask = {
		.nh = {.nlmsg_len = sizeof(ask),
		       .nlmsg_type = type,
		       .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		       .nlmsg_seq = 1},
		.body = {.rtm_family = (unsigned char)af},
	};
	const struct timeval patience = {.tv_sec = 1};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc = 0;
	void *answer = malloc(ANSWER_LEN);

	_Static_assert(sizeof(struct rtmsg) == sizeof(struct ndmsg) &&
			       sizeof(struct rtmsg) == sizeof(struct fib_rule_hdr),
		       "one request for all");
	if (!answer)
		rc = -ENOMEM;
	else if (fd < 0 ||
		 setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
		 send(fd, &ask, sizeof(ask), 0) < 0)
		rc = -errno;
	for (int i = 0; !rc; i++) {
		const ssize_t len = i < ANSWERS_MAX ? receive_answer(fd, answer) : -E2BIG;

		rc = len < 0 ? (int)len : read_answer(d, answer, (size_t)len, 1);
	}
	free(answer);
	if (fd >= 0)
		close(fd);
	return rc < 0 ? rc : 0;
}

static void free_dump(struct dump *d)
{
	free(d->rules.items);
	free(d->routes.items);
	free(d->hops.items);
	free(d->neighbours.items);
}

static int read_both(struct dump *d, uint16_t type)
{
	static const int families[] = {AF_INET, AF_INET6};
	int rc = 0;

	for (unsigned i = 0; i < SL_ARRAY_LEN(families) && !rc; i++) {
		rc = dump_objects(d, type, families[i]);
		if (rc == -EAFNOSUPPORT || rc == -EOPNOTSUPP)
			rc = 0; /* the host lacks the family */
	}
	return rc;
}

static bool replace_list(void *old, uint32_t *old_cnt, struct list *l)
{
	void **items = old;
	bool same =
		*old_cnt == l->cnt && (!l->cnt || memcmp(*items, l->items, l->cnt * l->size) == 0);

	free(*items);
	*items = l->items;
	*old_cnt = l->cnt;
	l->items = NULL;
	return !same;
}

static int read_routes(struct sl_host_routes *h, bool *changed)
{
	struct dump d = {
		.rules = {.size = sizeof(struct sl_host_rule), .max = SL_HOST_RULES_MAX},
		.routes = {.size = sizeof(struct sl_host_route), .max = SL_HOST_ROUTES_MAX},
		.hops = {.size = sizeof(struct sl_host_hop), .max = SL_HOST_HOPS_MAX},
	};
	int rc = read_both(&d, RTM_GETRULE);

	if (!rc)
		rc = read_both(&d, RTM_GETROUTE);
	if (rc == -E2BIG)
		d.rules.cnt = d.routes.cnt = d.hops.cnt = 0;
	if (!rc || rc == -E2BIG) {
		*changed |= h->too_many != (rc == -E2BIG);
		h->too_many = rc == -E2BIG;
		*changed |= replace_list(&h->rules, &h->rule_cnt, &d.rules);
		*changed |= replace_list(&h->routes, &h->route_cnt, &d.routes);
		*changed |= replace_list(&h->hops, &h->hop_cnt, &d.hops);
		rc = 0;
	}
	free_dump(&d);
	return rc;
}

static int read_neighbours(struct sl_host_routes *h, bool *changed)
{
	struct dump d = {
		.neighbours = {.size = sizeof(struct sl_host_neighbour),
			       .max = SL_HOST_NEIGHBOURS_MAX},
	};
	int rc = read_both(&d, RTM_GETNEIGH);

	if (rc == -E2BIG)
		rc = 0;
	if (!rc)
		*changed |= replace_list(&h->neighbours, &h->neighbour_cnt, &d.neighbours);
	free_dump(&d);
	return rc;
}

int sl_host_routes_open(struct sl_host_routes *h, struct sl_err *err)
{
	bool changed = false;
	int rc;

	memset(h, 0, sizeof(*h));
	h->fd = sl_netdev_events(RTMGRP_NEIGH | RTMGRP_LINK | RTMGRP_IPV4_ROUTE |
				 RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_RULE |
				 1U << (RTNLGRP_IPV6_RULE - 1));
	rc = h->fd < 0 ? h->fd : 0;
	if (!rc)
		rc = read_routes(h, &changed);
	if (!rc)
		rc = read_neighbours(h, &changed);
	h->routes_changed = h->neighbours_changed = rc == -EAGAIN;
	if (!rc || rc == -EAGAIN)
		return 0;
	sl_host_routes_close(h);
	return sl_fail(err, rc, "cannot read the host's routes: %s", strerror(-rc));
}

void sl_host_routes_close(struct sl_host_routes *h)
{
	if (h->fd >= 0)
		close(h->fd);
	free(h->rules);
	free(h->routes);
	free(h->hops);
	free(h->neighbours);
	memset(h, 0, sizeof(*h));
	h->fd = -1;
}

static void drain_events(struct sl_host_routes *h)
{
	struct nlmsghdr event; /* the rest is not read */

	for (int i = 0; i < EVENTS_PER_POLL; i++) {
		ssize_t len = recv(h->fd, &event, sizeof(event), 0);

		if (len < 0 && errno != ENOBUFS)
			return;
		if (len == sizeof(event) &&
		    (event.nlmsg_type == RTM_NEWNEIGH || event.nlmsg_type == RTM_DELNEIGH))
			h->neighbours_changed = true;
		else /* or lost events */
			h->routes_changed = h->neighbours_changed = true;
	}
}

bool sl_host_routes_poll(struct sl_host_routes *h, uint64_t now_ns)
{
	bool changed = false;

	if (h->fd < 0)
		return false;
	drain_events(h);
	if (h->neighbours_changed && now_ns >= h->neighbours_ns) {
		h->neighbours_ns = now_ns + SL_HOST_NEIGHBOURS_PERIOD_NS;
		h->neighbours_changed = read_neighbours(h, &changed) != 0;
	}
	if (h->routes_changed && now_ns >= h->routes_ns) {
		h->routes_changed = read_routes(h, &changed) != 0;
		h->routes_ns = now_ns +
			       (h->too_many ? SL_HOST_ROUTES_BACKOFF_NS : SL_HOST_ROUTES_PERIOD_NS);
	}
	return changed;
}
