/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/if_vlan.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/ports.h"

enum { STACKED_MAX = 8 };

static int below_vlan(int fd, const char *name)
{
	struct vlan_ioctl_args a = {.cmd = GET_VLAN_REALDEV_NAME_CMD};

	snprintf(a.device1, sizeof(a.device1), "%s", name);
	if (ioctl(fd, SIOCGIFVLAN, &a) != 0)
		return 0;
	a.u.device2[sizeof(a.u.device2) - 1] = 0;
	return (int)if_nametoindex(a.u.device2);
}

static bool is_excluded(const struct sl_ports *p, int ifindex)
{
	for (unsigned i = 0; i < p->excluded_cnt; i++) {
		if (p->excluded[i] == ifindex)
			return true;
	}
	return false;
}

static void exclude(struct sl_ports *p, int ifindex)
{
	if (is_excluded(p, ifindex))
		return;
	if (p->excluded_cnt < SL_SOCK_EXCLUDED_MAX)
		p->excluded[p->excluded_cnt++] = ifindex;
	else
		SL_LOG_EVERY(60 * SL_NS_PER_SEC, SL_LOG_ERR,
			     "more than %d interfaces and VLANs with XDP: kernel sockets serve the "
			     "others, too; allow and deny do not apply to them",
			     SL_SOCK_EXCLUDED_MAX);
}

static void exclude_vlans(struct sl_ports *p)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct if_nameindex *all = fd >= 0 ? if_nameindex() : NULL;
	unsigned before = 0;

	for (int round = 0; all && round < STACKED_MAX && before != p->excluded_cnt; round++) {
		before = p->excluded_cnt;
		for (const struct if_nameindex *i = all; i->if_index; i++) {
			if (is_excluded(p, below_vlan(fd, i->if_name)))
				exclude(p, (int)i->if_index);
		}
	}
	if (all)
		if_freenameindex(all);
	if (fd >= 0)
		close(fd);
}

void sl_ports_exclude(struct sl_ports *p, const int *ifindex, unsigned cnt)
{
	int before[SL_SOCK_EXCLUDED_MAX];
	unsigned before_cnt = p->excluded_cnt;

	memcpy(before, p->excluded, sizeof(before));
	p->excluded_cnt = 0;
	for (unsigned i = 0; i < cnt; i++)
		exclude(p, ifindex[i]);
	if (cnt)
		exclude_vlans(p);
	if (before_cnt != p->excluded_cnt ||
	    memcmp(before, p->excluded, p->excluded_cnt * sizeof(before[0])) != 0)
		p->changed = true;
}
