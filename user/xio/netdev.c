/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/genetlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/rtattr.h"
#include "xio/netdev.h"

int sl_netdev_events(uint32_t groups)
{
	const struct sockaddr_nl at = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	int rc;

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	rc = -errno;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* <linux/netdev.h>, which Debian 12 does not have */
enum {
	NETDEV_CMD_GET = 1,
	NETDEV_ATTR_IFINDEX = 1,
	NETDEV_ATTR_RX_METADATA = 5,
	NETDEV_RX_VLAN_TAG = 4,
};

struct netdev_request {
	struct nlmsghdr nl;
	struct genlmsghdr genl;
	struct nlattr attr;
	char value[8];
};

static uint64_t ask(int fd, uint16_t family, uint8_t command, uint16_t type, const void *value,
		    uint16_t len, uint16_t wanted)
{
	struct netdev_request req = {
		.nl = {.nlmsg_len = (uint32_t)(offsetof(struct netdev_request, value) +
					       (len + 3u) / 4 * 4),
		       .nlmsg_type = family,
		       .nlmsg_flags = NLM_F_REQUEST},
		.genl = {.cmd = command, .version = 1},
		.attr = {.nla_len = (uint16_t)(sizeof(struct nlattr) + len), .nla_type = type},
	};
	union {
		struct nlmsghdr nl;
		char bytes[8192];
	} answer;
	const struct rtattr *at;
	uint64_t res = 0;
	ssize_t got;
	size_t left;

	memcpy(req.value, value, len);
	if (send(fd, &req, req.nl.nlmsg_len, 0) < 0)
		return 0;
	got = recv(fd, &answer, sizeof(answer), 0);
	if (got < (ssize_t)(NLMSG_HDRLEN + GENL_HDRLEN) || answer.nl.nlmsg_type != family ||
	    answer.nl.nlmsg_len > (size_t)got || answer.nl.nlmsg_len < NLMSG_HDRLEN + GENL_HDRLEN)
		return 0;
	left = answer.nl.nlmsg_len - NLMSG_HDRLEN - GENL_HDRLEN;
	for (at = sl_rtattr_first(answer.bytes + NLMSG_HDRLEN + GENL_HDRLEN, left); at;
	     at = sl_rtattr_next(at, &left)) {
		if (at->rta_type == wanted && RTA_PAYLOAD(at) <= sizeof(res))
			memcpy(&res, RTA_DATA(at), RTA_PAYLOAD(at));
	}
	return res;
}

bool sl_netdev_has_tags(int ifindex)
{
	const struct timeval limit = {.tv_sec = 1};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_GENERIC);
	uint64_t family, features = 0;

	if (fd < 0)
		return false;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	family = ask(fd, GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_NAME, "netdev",
		     sizeof("netdev"), CTRL_ATTR_FAMILY_ID);
	if (family)
		features = ask(fd, (uint16_t)family, NETDEV_CMD_GET, NETDEV_ATTR_IFINDEX, &ifindex,
			       sizeof(ifindex), NETDEV_ATTR_RX_METADATA);
	close(fd);
	return features & NETDEV_RX_VLAN_TAG;
}

struct route_request {
	struct nlmsghdr nl;
	struct rtmsg rt;
	struct rtattr attr;
	uint8_t to[16];
};

static int read_route(const struct nlmsghdr *nl, size_t got, int *ifindex, bool *local)
{
	const struct rtmsg *rt = NLMSG_DATA(nl);
	const struct nlmsgerr *error = NLMSG_DATA(nl);
	const struct rtattr *at;
	size_t left;

	if (got >= NLMSG_LENGTH(sizeof(*error)) && nl->nlmsg_type == NLMSG_ERROR)
		return error->error < 0 ? error->error : -EPROTO;
	if (got < NLMSG_LENGTH(sizeof(*rt)) || nl->nlmsg_type != RTM_NEWROUTE ||
	    nl->nlmsg_len > got || nl->nlmsg_len < NLMSG_LENGTH(sizeof(*rt)))
		return -EPROTO;
	*local = rt->rtm_type == RTN_LOCAL;
	if (rt->rtm_type != RTN_LOCAL && rt->rtm_type != RTN_UNICAST)
		return -ENETUNREACH;
	left = nl->nlmsg_len - NLMSG_LENGTH(sizeof(*rt));
	for (at = sl_rtattr_first(rt + 1, left); at; at = sl_rtattr_next(at, &left)) {
		if (at->rta_type == RTA_OIF && RTA_PAYLOAD(at) == sizeof(*ifindex)) {
			memcpy(ifindex, RTA_DATA(at), sizeof(*ifindex));
			return 0;
		}
	}
	return -ENETUNREACH;
}

int sl_netdev_route(const struct sl_addr *to, int *ifindex, bool *local)
{
	const uint16_t len = to->family == 4 ? 4 : 16;
	struct route_request req = {
		.nl = {.nlmsg_len = (uint32_t)offsetof(struct route_request, to) + len,
		       .nlmsg_type = RTM_GETROUTE,
		       .nlmsg_flags = NLM_F_REQUEST},
		.rt = {.rtm_family = to->family == 4 ? AF_INET : AF_INET6,
		       .rtm_dst_len = (uint8_t)(8 * len)},
		.attr = {.rta_len = (uint16_t)RTA_LENGTH(len), .rta_type = RTA_DST},
	};
	const struct timeval limit = {.tv_sec = 1};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), rc;
	union {
		struct nlmsghdr nl;
		char bytes[8192];
	} answer;
	ssize_t got = -1;

	if (fd < 0)
		return -errno;
	memcpy(req.to, to->addr, len);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (send(fd, &req, req.nl.nlmsg_len, 0) >= 0)
		got = recv(fd, &answer, sizeof(answer), 0);
	rc = got < 0 ? -errno : read_route(&answer.nl, (size_t)got, ifindex, local);
	close(fd);
	return rc;
}
