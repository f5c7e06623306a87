/* SPDX-License-Identifier: Apache-2.0 */
#include "sock/reserve.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

enum {
	BACKLOG = 4096, /* net.core.somaxconn lowers it */
	/* EPOLLOUT while fewer bytes are unsent: bounds the kernel's memory. */
	NOTSENT_LOWAT = 128 << 10,
};

static void set_option(int fd, int level, int name, int value)
{
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static unsigned scope_of(const struct sl_addr *at)
{
	struct ifaddrs *all = NULL;
	unsigned scope = 0;

	if (getifaddrs(&all) != 0)
		return 0;
	for (const struct ifaddrs *i = all; i && !scope; i = i->ifa_next) {
		struct sl_addr a;

		if (!i->ifa_addr || !sl_addr_from_sockaddr(&a, i->ifa_addr))
			continue;
		if (a.family == 6 && memcmp(a.addr, at->addr, sizeof(a.addr)) == 0)
			scope = if_nametoindex(i->ifa_name);
	}
	freeifaddrs(all);
	return scope;
}

static int bind_to(int fd, const struct sl_addr *at)
{
	struct sockaddr_storage ss;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&ss;
	socklen_t len = sl_addr_to_sockaddr(at, &ss);

	if (at->family == 6 && IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr)) {
		v6->sin6_scope_id = scope_of(at);
		if (!v6->sin6_scope_id)
			return -EADDRNOTAVAIL;
	}
	return bind(fd, (struct sockaddr *)&ss, len) ? -errno : 0;
}

/* Drops datagrams before they are queued. */
static void discard_input(int fd)
{
	struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog prog = {.len = 1, .filter = &none};

	set_option(fd, SOL_SOCKET, SO_RCVBUF, 1);
	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/*
 * SO_REUSEADDR allows the bind beside connections in TIME-WAIT, but makes the port shareable until
 * listen().
 */
static int make_exclusive(int fd)
{
	int rc = listen(fd, 0) ? -errno : sl_sock_unlisten(fd);

	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 0);
	return rc;
}

int sl_sock_reserve(const struct sl_addr *at, uint8_t protocol)
{
	bool tcp = protocol == IPPROTO_TCP;
	int type = (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
	int fd = socket(at->family == 4 ? AF_INET : AF_INET6, type, 0);
	int rc;

	if (fd < 0)
		return -errno;
	set_option(fd, IPPROTO_IP, IP_FREEBIND, 1);
	if (at->family == 6) {
		set_option(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1);
		set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	}
	if (tcp)
		set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	else
		discard_input(fd);
	rc = bind_to(fd, at);
	if (!rc && tcp)
		rc = make_exclusive(fd);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* Accepted sockets inherit the options. IP_PKTINFO: for sl_sock_ingress(). */
int sl_sock_listen(int fd)
{
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
	set_option(fd, IPPROTO_IPV6, IPV6_2292PKTINFO, 1);
	set_option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT_LOWAT);
	return listen(fd, BACKLOG) ? -errno : 0;
}

int sl_sock_unlisten(int fd)
{
	if (shutdown(fd, SHUT_RD) != 0 && errno != ENOTCONN)
		return -errno;
	set_option(fd, SOL_SOCKET, SO_REUSEADDR, 0);
	return 0;
}

int sl_sock_ingress(int fd, uint8_t family)
{
	union {
		struct cmsghdr first;
		uint8_t room[256];
	} all;
	socklen_t len = sizeof(all);
	struct in_pktinfo v4;
	struct in6_pktinfo v6;
	bool known;

	if (family == 4) {
		known = getsockopt(fd, IPPROTO_IP, IP_PKTOPTIONS, &all, &len) == 0 &&
			len >= CMSG_LEN(sizeof(v4)) && all.first.cmsg_level == IPPROTO_IP &&
			all.first.cmsg_type == IP_PKTINFO;
		memcpy(&v4, CMSG_DATA(&all.first), sizeof(v4));
		return known ? v4.ipi_ifindex : 0;
	}
	known = getsockopt(fd, IPPROTO_IPV6, IPV6_2292PKTOPTIONS, &all, &len) == 0 &&
		len >= CMSG_LEN(sizeof(v6)) && all.first.cmsg_level == IPPROTO_IPV6 &&
		all.first.cmsg_type == IPV6_2292PKTINFO;
	memcpy(&v6, CMSG_DATA(&all.first), sizeof(v6));
	return known ? (int)v6.ipi6_ifindex : 0;
}
