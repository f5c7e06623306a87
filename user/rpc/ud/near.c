/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: ud_is_near -> find_hop, knows_hop -> ask. */
#include "rpc/ud/near.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "rpc/verbs/verbs.h"

enum {
	ANSWER_LEN = 1024,
	ATTRS_LEN = 64, /* two addresses and an interface */
	/* What of a neighbour's states packets to it do not wait in. */
	KNOWN = NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE,
};

struct question {
	struct nlmsghdr h;
	union {
		struct rtmsg route;
		struct ndmsg neighbour;
	};
	uint8_t attrs[ATTRS_LEN];
};
_Static_assert(sizeof(struct rtmsg) == sizeof(struct ndmsg), "attributes follow either of them");

union answer {
	struct nlmsghdr h;
	uint8_t bytes[ANSWER_LEN];
};

struct address {
	uint8_t family, len;
	uint8_t bytes[16];
};

struct hop {
	unsigned ifindex;
	struct address address;
};

static struct address address_of(const uint8_t gid[16])
{
	bool is_ipv4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid);
	struct address a = {.family = is_ipv4 ? AF_INET : AF_INET6, .len = is_ipv4 ? 4 : 16};

	memcpy(a.bytes, gid + 16 - a.len, a.len);
	return a;
}

static void add(struct question *q, unsigned short type, const void *bytes, unsigned short len)
{
	struct rtattr a = {.rta_type = type, .rta_len = (unsigned short)RTA_LENGTH(len)};
	uint8_t *to = (uint8_t *)q + q->h.nlmsg_len;

	memcpy(to, &a, sizeof(a));
	memcpy(to + sizeof(a), bytes, len);
	q->h.nlmsg_len += RTA_ALIGN(a.rta_len);
}

static struct question question_of(unsigned short type)
{
	return (struct question){.h = {.nlmsg_type = type,
				       .nlmsg_flags = NLM_F_REQUEST,
				       .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg))}};
}

/* The kernel has answered when the question has been sent. */
static bool ask(int fd, const struct question *q, unsigned short type, union answer *a)
{
	ssize_t len;

	if (send(fd, q, q->h.nlmsg_len, 0) < 0)
		return false;
	len = recv(fd, a, sizeof(*a), MSG_DONTWAIT);
	return len > 0 && NLMSG_OK(&a->h, (size_t)len) && a->h.nlmsg_type == type &&
	       a->h.nlmsg_len >= NLMSG_LENGTH(sizeof(struct rtmsg));
}

/* Where what goes `to` there is sent next. */
static void take_hop(const struct rtattr *at, size_t left, struct hop *to)
{
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		if (at->rta_type == RTA_OIF && RTA_PAYLOAD(at) == sizeof(to->ifindex))
			memcpy(&to->ifindex, RTA_DATA(at), sizeof(to->ifindex));
		if (at->rta_type == RTA_GATEWAY && RTA_PAYLOAD(at) == to->address.len)
			memcpy(to->address.bytes, RTA_DATA(at), to->address.len);
		/* By a host of the other family. */
		if (at->rta_type == RTA_VIA)
			to->ifindex = 0;
	}
}

/* The type of the route there; RTN_UNSPEC: there is none. */
static uint8_t find_hop(int fd, unsigned ifindex, const struct address *from, struct hop *to)
{
	struct question q = question_of(RTM_GETROUTE);
	union answer a;
	const struct rtmsg *route = NLMSG_DATA(&a.h);

	q.route.rtm_family = to->address.family;
	q.route.rtm_dst_len = q.route.rtm_src_len = (uint8_t)(8 * to->address.len);
	add(&q, RTA_DST, to->address.bytes, to->address.len);
	add(&q, RTA_SRC, from->bytes, from->len);
	add(&q, RTA_OIF, &ifindex, sizeof(ifindex));
	if (!ask(fd, &q, RTM_NEWROUTE, &a))
		return RTN_UNSPEC;
	take_hop(RTM_RTA(route), RTM_PAYLOAD(&a.h), to);
	return route->rtm_type;
}

static bool knows_hop(int fd, const struct hop *hop)
{
	struct question q = question_of(RTM_GETNEIGH);
	union answer a;
	const struct ndmsg *neighbour = NLMSG_DATA(&a.h);

	q.neighbour.ndm_family = hop->address.family;
	q.neighbour.ndm_ifindex = (int)hop->ifindex;
	add(&q, NDA_DST, hop->address.bytes, hop->address.len);
	return ask(fd, &q, RTM_NEWNEIGH, &a) && neighbour->ndm_state & KNOWN;
}

bool ud_is_near_by(unsigned ifindex, const uint8_t from[16], const uint8_t to[16])
{
	const struct address here = address_of(from);
	struct hop hop = {.address = address_of(to)};
	bool is_near = false;
	int fd;

	if (!ifindex || here.family != hop.address.family)
		return false;
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return false;
	switch (find_hop(fd, ifindex, &here, &hop)) {
	case RTN_LOCAL: is_near = true; break;
	case RTN_UNICAST: is_near = hop.ifindex && knows_hop(fd, &hop); break;
	default: break;
	}
	close(fd);
	return is_near;
}

bool ud_is_near(const struct ud_local *l, const uint8_t gid[16])
{
	const struct ibv_pd *pd = l->device;
	struct ibv_gid_entry here = {.ndev_ifindex = 0};

	return ibv_query_gid_ex(pd->context, l->port, l->gid_index, &here, 0) == 0 &&
	       ud_is_near_by(here.ndev_ifindex, here.gid.raw, gid);
}
