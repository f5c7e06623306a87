/* SPDX-License-Identifier: Apache-2.0 */
#include "load/route.h"

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

enum { TRIES = 50, TRY_US = 20000, DISCARD_PORT = 9, DUMP_LEN = 32768 };

static socklen_t sockaddr_of(struct sockaddr_storage *s, uint8_t family, const uint8_t *addr)
{
	memset(s, 0, sizeof(*s));
	if (family == 4) {
		struct sockaddr_in *a = (struct sockaddr_in *)s;

		a->sin_family = AF_INET;
		a->sin_port = htons(DISCARD_PORT);
		memcpy(&a->sin_addr, addr, 4);
		return sizeof(*a);
	}
	struct sockaddr_in6 *a = (struct sockaddr_in6 *)s;

	a->sin6_family = AF_INET6;
	a->sin6_port = htons(DISCARD_PORT);
	memcpy(&a->sin6_addr, addr, 16);
	return sizeof(*a);
}

/* A datagram to nobody: makes the kernel choose our address and resolve the neighbour. */
static int knock(struct sl_load_route *r, uint8_t family, const uint8_t *addr)
{
	struct sockaddr_storage to, own;
	socklen_t len = sockaddr_of(&to, family, addr), own_len = sizeof(own);
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
	memset(r->local, 0, sizeof(r->local));
	if (family == 4)
		memcpy(r->local, &((struct sockaddr_in *)&own)->sin_addr, 4);
	else
		memcpy(r->local, &((struct sockaddr_in6 *)&own)->sin6_addr, 16);
	return 0;
}

/* Whether a neighbour entry is the one that we look for; takes its MAC. */
static bool take_neighbour(const struct nlmsghdr *n, int ifindex, const uint8_t *addr,
			   size_t addr_len, uint8_t mac[6])
{
	const struct ndmsg *nd = NLMSG_DATA(n);
	const struct rtattr *a = (const void *)((const uint8_t *)nd + NLMSG_ALIGN(sizeof(*nd)));
	unsigned left = n->nlmsg_len - (unsigned)NLMSG_LENGTH(sizeof(*nd));
	bool match = false, have_mac = false;

	if (nd->ndm_ifindex != ifindex ||
	    !(nd->ndm_state & (NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT)))
		return false;
	for (; RTA_OK(a, left); a = RTA_NEXT(a, left)) {
		if (a->rta_type == NDA_DST && RTA_PAYLOAD(a) == addr_len)
			match = memcmp(RTA_DATA(a), addr, addr_len) == 0;
		if (a->rta_type == NDA_LLADDR && RTA_PAYLOAD(a) == 6) {
			memcpy(mac, RTA_DATA(a), 6);
			have_mac = true;
		}
	}
	return match && have_mac;
}

/* One pass over the kernel's neighbours: 1 found, 0 not there yet, -errno. */
static int look_up(int ifindex, uint8_t family, const uint8_t *addr, uint8_t mac[6])
{
	struct {
		struct nlmsghdr n;
		struct ndmsg nd;
	} rq = {.n = {.nlmsg_len = sizeof(rq),
		      .nlmsg_type = RTM_GETNEIGH,
		      .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
		.nd = {.ndm_family = family == 4 ? AF_INET : AF_INET6}};
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
			if (n->nlmsg_type == RTM_NEWNEIGH &&
			    take_neighbour(n, ifindex, addr, family == 4 ? 4 : 16, mac))
				found = 1;
		}
	}
	if (fd >= 0)
		close(fd);
	return found;
}

int sl_load_find_route(struct sl_load_route *r, const char *ifname, uint8_t family,
		       const uint8_t *addr, char *err, size_t err_len)
{
	int ifindex = (int)if_nametoindex(ifname), rc;

	if (!ifindex) {
		snprintf(err, err_len, "interface %s: found none of that name", ifname);
		return -ENODEV;
	}
	for (int i = 0; i < TRIES; i++) {
		rc = knock(r, family, addr);
		if (rc) {
			snprintf(err, err_len, "no route to the target: %s", strerror(-rc));
			return rc;
		}
		if (look_up(ifindex, family, addr, r->mac))
			return 0;
		usleep(TRY_US);
	}
	snprintf(err, err_len,
		 "no neighbour on %s has the target's address; it must be on that link", ifname);
	return -EHOSTUNREACH;
}
