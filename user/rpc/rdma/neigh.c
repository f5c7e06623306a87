/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/neigh.h"

#include <infiniband/verbs.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/rtattr.h"
#include "rpc/rdma/path.h"

enum {
	REPLY_LEN = 1024,
	ATTRS_LEN = 64, /* two addresses and an interface */
	NUD_USABLE = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE,
};

struct neigh_request {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
	};
	uint8_t attrs[ATTRS_LEN];
};
_Static_assert(sizeof(struct rtmsg) == sizeof(struct ndmsg), "attributes follow either of them");

union neigh_reply {
	struct nlmsghdr h;
	uint8_t bytes[REPLY_LEN];
};

struct neigh_addr {
	uint8_t family, len;
	uint8_t bytes[16];
};

struct neigh_hop {
	unsigned ifindex;
	struct neigh_addr address;
};

static struct neigh_addr addr_of_gid(const uint8_t gid[16])
{
	bool is_ipv4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid);
	struct neigh_addr a = {.family = is_ipv4 ? AF_INET : AF_INET6, .len = is_ipv4 ? 4 : 16};

	memcpy(a.bytes, gid + 16 - a.len, a.len);
	return a;
}

static void add_attr(struct neigh_request *q, unsigned short type, const void *bytes,
		     unsigned short len)
{
	struct rtattr a = {.rta_type = type, .rta_len = (unsigned short)RTA_LENGTH(len)};
	uint8_t *to = (uint8_t *)q + q->h.nlmsg_len;

	memcpy(to, &a, sizeof(a));
	memcpy(to + sizeof(a), bytes, len);
	q->h.nlmsg_len += RTA_ALIGN(a.rta_len);
}

static struct neigh_request request_of(unsigned short type)
{
	return (struct neigh_request){.h = {.nlmsg_type = type,
					    .nlmsg_flags = NLM_F_REQUEST,
					    .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg))}};
}

/* Sends a netlink request. The answer is there when send() returns. */
static bool query_kernel(int fd, const struct neigh_request *q, unsigned short type,
			 union neigh_reply *a)
{
	ssize_t len;

	if (send(fd, q, q->h.nlmsg_len, 0) < 0)
		return false;
	len = recv(fd, a, sizeof(*a), MSG_DONTWAIT);
	return len > 0 && NLMSG_OK(&a->h, (size_t)len) && a->h.nlmsg_type == type &&
	       a->h.nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg));
}

static void parse_hop(const void *attrs, size_t left, struct neigh_hop *to)
{
	const struct rtattr *at;

	for (at = sl_rtattr_first(attrs, left); at; at = sl_rtattr_next(at, &left)) {
		if (at->rta_type == RTA_OIF && RTA_PAYLOAD(at) == sizeof(to->ifindex))
			memcpy(&to->ifindex, RTA_DATA(at), sizeof(to->ifindex));
		if (at->rta_type == RTA_GATEWAY && RTA_PAYLOAD(at) == to->address.len)
			memcpy(to->address.bytes, RTA_DATA(at), to->address.len);
		if (at->rta_type == RTA_VIA)
			to->ifindex = 0;
	}
}

static uint8_t lookup_route(int fd, unsigned ifindex, const struct neigh_addr *from,
			    struct neigh_hop *to)
{
	struct neigh_request q = request_of(RTM_GETROUTE);
	union neigh_reply a;
	const struct rtmsg *route = NLMSG_DATA(&a.h);

	q.route.rtm_family = to->address.family;
	q.route.rtm_dst_len = q.route.rtm_src_len = (uint8_t)(8 * to->address.len);
	add_attr(&q, RTA_DST, to->address.bytes, to->address.len);
	add_attr(&q, RTA_SRC, from->bytes, from->len);
	add_attr(&q, RTA_OIF, &ifindex, sizeof(ifindex));
	if (!query_kernel(fd, &q, RTM_NEWROUTE, &a))
		return RTN_UNSPEC;
	parse_hop(RTM_RTA(route), RTM_PAYLOAD(&a.h), to);
	return route->rtm_type;
}

static bool is_hop_resolved(int fd, const struct neigh_hop *hop)
{
	struct neigh_request q = request_of(RTM_GETNEIGH);
	union neigh_reply a;
	const struct ndmsg *neighbour = NLMSG_DATA(&a.h);

	q.neighbour.ndm_family = hop->address.family;
	q.neighbour.ndm_ifindex = (int)hop->ifindex;
	add_attr(&q, NDA_DST, hop->address.bytes, hop->address.len);
	return query_kernel(fd, &q, RTM_NEWNEIGH, &a) && neighbour->ndm_state & NUD_USABLE;
}

bool neigh_resolved_on(unsigned ifindex, const uint8_t from[16], const uint8_t to[16])
{
	const struct neigh_addr here = addr_of_gid(from);
	struct neigh_hop hop = {.address = addr_of_gid(to)};
	bool resolved = false;
	int fd;

	if (!ifindex || here.family != hop.address.family)
		return false;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return false;
	switch (lookup_route(fd, ifindex, &here, &hop)) {
	case RTN_LOCAL: resolved = true; break;
	case RTN_UNICAST: resolved = hop.ifindex && is_hop_resolved(fd, &hop); break;
	default: break;
	}
	close(fd);
	return resolved;
}

bool neigh_resolved(const struct rdma_local *l, const uint8_t gid[16])
{
	const struct ibv_pd *pd = l->device;
	struct ibv_gid_entry here = {.ndev_ifindex = 0};
	int index = rdma_gid_index(pd->context, l->port, l->gid);

	return index >= 0 &&
	       ibv_query_gid_ex(pd->context, l->port, (uint32_t)index, &here, 0) == 0 &&
	       neigh_resolved_on(here.ndev_ifindex, here.gid.raw, gid);
}
