/* SPDX-License-Identifier: Apache-2.0 */
#include "xio/host_addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include "xio/netdev.h"

enum { EVENTS_PER_POLL = 256 };

struct lists {
	struct sl_addr *addrs;
	struct sl_host_link *links;
	uint32_t addr_cnt, link_cnt;
};

static bool is_served(const struct sl_addr *a)
{
	static const uint8_t loopback6[16] = {[15] = 1};

	if (a->family == 4)
		return a->addr[0] != 0 && a->addr[0] != 127 && a->addr[0] < 224;
	return a->addr[0] != 0xff && memcmp(a->addr, loopback6, sizeof(loopback6)) != 0;
}

static int compare_addrs(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct sl_addr));
}

static int compare_links(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct sl_host_link));
}

static void sort_lists(struct lists *l)
{
	uint32_t kept = 0;

	qsort(l->addrs, l->addr_cnt, sizeof(*l->addrs), compare_addrs);
	qsort(l->links, l->link_cnt, sizeof(*l->links), compare_links);
	/* Several interfaces may have the same link-local address. */
	for (uint32_t i = 0; i < l->addr_cnt; i++) {
		if (!kept || !sl_addr_equal(&l->addrs[i], &l->addrs[kept - 1]))
			l->addrs[kept++] = l->addrs[i];
	}
	l->addr_cnt = kept;
}

static void add_entry(struct lists *l, const struct ifaddrs *i, int fd)
{
	const struct sockaddr_ll *ll = (const struct sockaddr_ll *)i->ifa_addr;
	struct sl_addr a;

	if (ll->sll_family == AF_PACKET) {
		struct sl_host_link *m = &l->links[l->link_cnt];
		struct ifreq ifr = {0};

		if (ll->sll_hatype != ARPHRD_ETHER || ll->sll_halen != sizeof(m->mac) ||
		    strlen(i->ifa_name) >= sizeof(m->ifname))
			return;
		memcpy(m->ifname, i->ifa_name, strlen(i->ifa_name));
		memcpy(m->mac, ll->sll_addr, sizeof(m->mac));
		memcpy(ifr.ifr_name, m->ifname, sizeof(ifr.ifr_name));
		if (ioctl(fd, SIOCGIFMTU, &ifr) == 0)
			m->mtu = (uint32_t)ifr.ifr_mtu;
		l->link_cnt++;
	} else if (sl_addr_from_sockaddr(&a, i->ifa_addr)) {
		a.port_be = 0;
		if (is_served(&a))
			l->addrs[l->addr_cnt++] = a;
	}
}

static int read_lists(struct lists *l, int fd)
{
	struct ifaddrs *all;
	uint32_t cnt = 0;
	int rc = 0;

	memset(l, 0, sizeof(*l));
	if (getifaddrs(&all) < 0)
		return -errno;
	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		cnt++;
	l->addrs = calloc(cnt + 1, sizeof(*l->addrs));
	l->links = calloc(cnt + 1, sizeof(*l->links));
	if (!l->addrs || !l->links) {
		free(l->addrs);
		free(l->links);
		rc = -ENOMEM;
	}
	for (const struct ifaddrs *i = all; i && !rc; i = i->ifa_next) {
		if (i->ifa_addr)
			add_entry(l, i, fd);
	}
	freeifaddrs(all);
	if (!rc)
		sort_lists(l);
	return rc;
}

static bool replace_lists(struct sl_host_addrs *h, const struct lists *l)
{
	bool same = h->addrs && l->addrs && h->links && l->links && h->addr_cnt == l->addr_cnt &&
		    h->link_cnt == l->link_cnt &&
		    memcmp(h->addrs, l->addrs, l->addr_cnt * sizeof(*l->addrs)) == 0 &&
		    memcmp(h->links, l->links, l->link_cnt * sizeof(*l->links)) == 0;

	free(h->addrs);
	free(h->links);
	h->addrs = l->addrs;
	h->addr_cnt = l->addr_cnt;
	h->links = l->links;
	h->link_cnt = l->link_cnt;
	return !same;
}

int sl_host_addrs_open(struct sl_host_addrs *h, struct sl_err *err)
{
	struct lists l;
	int rc;

	memset(h, 0, sizeof(*h));
	h->fd = sl_netdev_events(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR);
	rc = h->fd < 0 ? h->fd : 0;
	if (!rc)
		rc = read_lists(&l, h->fd);
	if (rc) {
		sl_host_addrs_close(h);
		return sl_fail(err, rc, "cannot read the host's addresses: %s", strerror(-rc));
	}
	replace_lists(h, &l);
	return 0;
}

void sl_host_addrs_close(struct sl_host_addrs *h)
{
	if (h->fd >= 0)
		close(h->fd);
	free(h->addrs);
	free(h->links);
	memset(h, 0, sizeof(*h));
	h->fd = -1;
}

static void drain_events(struct sl_host_addrs *h)
{
	char event[16];

	for (int i = 0; i < EVENTS_PER_POLL; i++) {
		ssize_t n = recv(h->fd, event, sizeof(event), 0);

		/* ENOBUFS: lost events */
		if (n < 0 && errno != ENOBUFS)
			return;
		h->changed = true;
	}
}

bool sl_host_addrs_poll(struct sl_host_addrs *h, uint64_t now_ns)
{
	struct lists l;

	if (h->fd < 0)
		return false;
	drain_events(h);
	if (!h->changed || now_ns < h->next_ns)
		return false;
	h->next_ns = now_ns + SL_HOST_ADDRS_PERIOD_NS;
	if (read_lists(&l, h->fd))
		return false;
	h->changed = false;
	return replace_lists(h, &l);
}

const struct sl_host_link *sl_host_addrs_link(const struct sl_host_addrs *h, const char *ifname)
{
	for (uint32_t i = 0; i < h->link_cnt; i++) {
		if (strcmp(h->links[i].ifname, ifname) == 0)
			return &h->links[i];
	}
	return NULL;
}
