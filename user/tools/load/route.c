/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/load/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/rtattr.h"

enum { TRIES = 50, TRY_US = 20000, DISCARD_PORT = 9, DUMP_LEN = 32768 };

/* A datagram to the discard port resolves address and neighbour. */
static int send_probe(struct sl_load_route *r, const struct sl_addr *target)
{
	const struct sl_addr discard =
		sl_addr_of(target->family, target->addr, htons(DISCARD_PORT));
	struct sockaddr_storage to, own;
	socklen_t len = sl_addr_to_sockaddr(&discard, &to), own_len = sizeof(own);
	int fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, len) ||
	    getsockname(fd, (struct sockaddr *)&own, &own_len))
		rc = -errno;
	else
		(void)send(fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (fd >= 0)
		close(fd);
	if (rc)
		return rc;
	(void)sl_addr_from_sockaddr(&r->local, (const struct sockaddr *)&own);
	r->local.port_be = 0;
	return 0;
}

static bool take_neighbour(const struct nlmsghdr *n, int ifindex, const struct sl_addr *to,
			   uint8_t mac[6])
{
	const size_t addr_len = to->family == 4 ? 4 : 16;
	const struct ndmsg *nd = NLMSG_DATA(n);
	const struct rtattr *a;
	size_t left;
	bool match = false, have_mac = false;

	if (n->nlmsg_len < NLMSG_LENGTH(sizeof(*nd)) || nd->ndm_ifindex != ifindex ||
	    !(nd->ndm_state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)))
		return false;
	left = n->nlmsg_len - NLMSG_LENGTH(sizeof(*nd));
	a = sl_rtattr_first((const uint8_t *)nd + NLMSG_ALIGN(sizeof(*nd)), left);
	for (; a; a = sl_rtattr_next(a, &left)) {
		if (a->rta_type == NDA_DST && RTA_PAYLOAD(a) == addr_len)
			match = memcmp(RTA_DATA(a), to->addr, addr_len) == 0;
		if (a->rta_type == NDA_LLADDR && RTA_PAYLOAD(a) == 6) {
			memcpy(mac, RTA_DATA(a), 6);
			have_mac = true;
		}
	}
	return match && have_mac;
}

static int look_up(int ifindex, const struct sl_addr *to, uint8_t mac[6])
{
	struct {
		struct nlmsghdr n;
		struct ndmsg nd;
	} rq = {.n = {.nlmsg_len = sizeof(rq),
		      .nlmsg_type = RTM_GETNEIGH,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.nd = {.ndm_family = to->family == 4 ? AF_INET : AF_INET6}};
	char buf[DUMP_LEN] __attribute__((aligned(NLMSG_ALIGNTO)));
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), found = 0;
	bool done = false;

	if (fd < 0 || send(fd, &rq, sizeof(rq), 0) < 0)
		done = true;
	while (!done) {
		ssize_t len = recv(fd, buf, sizeof(buf), 0);

		if (len <= 0)
			break;
		for (struct nlmsghdr *n = (void *)buf; NLMSG_OK(n, len); n = NLMSG_NEXT(n, len)) {
			done |= n->nlmsg_type == NLMSG_DONE || n->nlmsg_type == NLMSG_ERROR;
			if (n->nlmsg_type == RTM_NEWNEIGH && take_neighbour(n, ifindex, to, mac))
				found = 1;
		}
	}
	if (fd >= 0)
		close(fd);
	return found;
}

int sl_load_find_route(struct sl_load_route *r, const char *ifname, const struct sl_addr *to,
		       struct sl_err *err)
{
	int ifindex = (int)if_nametoindex(ifname), rc;

	if (!ifindex)
		return sl_fail(err, -ENODEV, "interface %s: found none of that name", ifname);
	for (int i = 0; i < TRIES; i++) {
		rc = send_probe(r, to);
		if (rc)
			return sl_fail(err, rc, "no route to the target: %s", strerror(-rc));
		if (look_up(ifindex, to, r->mac))
			return 0;
		usleep(TRY_US);
	}
	return sl_fail(err, -EHOSTUNREACH,
		       "no neighbour on %s has the target's address; it must be on that link",
		       ifname);
}
