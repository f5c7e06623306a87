/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>
#include "base/log.h"
#include "xio/netdev.h"
#include "xio/xdp/acl_map.h"
#include "xio/xdp/maps.h"
#include "xio/xdp/setup.h"

static int log_libbpf(enum libbpf_print_level level, const char *fmt, va_list args)
{
	char line[SL_LOG_LINE_MAX];

	(void)level;
	if (sl_log_on(SL_LOG_DEBUG)) {
		vsnprintf(line, sizeof(line), fmt, args);
		line[strcspn(line, "\n")] = '\0';
		sl_log_debug("%s", line);
	}
	return 0;
}

static int log_libxdp(enum libxdp_print_level level, const char *fmt, va_list args)
{
	(void)level;
	return log_libbpf(LIBBPF_DEBUG, fmt, args);
}

/* An abstract socket is unique in its network namespace, and ends with its process. */
static int lock_interface(struct sl_xdp_setup *s)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int len = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "sluice/%s", s->x->ifname);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return sl_fail(s->err, -errno, "cannot create a socket: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&addr,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) < 0) {
		int res = -errno;

		close(fd);
		if (res == -EADDRINUSE)
			return sl_fail(s->err, -EBUSY, "%s is served by another gateway",
				       s->x->ifname);
		return sl_fail(s->err, res, "cannot lock %s: %s", s->x->ifname, strerror(-res));
	}
	s->x->if_lock_fd = fd;
	return 0;
}

static int check_args(struct sl_xdp_setup *s, const char *ifname)
{
	const struct sl_xdp_options *o = s->o;
	const size_t name_len = strlen(ifname);
	char members[128];
	int res;

	if (name_len >= sizeof(s->x->ifname))
		return sl_fail(s->err, -ENODEV, "interface %.32s does not exist", ifname);
	memcpy(s->x->ifname, ifname, name_len + 1);
	if (o->worker_cnt < 1 || o->worker_cnt > SL_MAX_WORKERS || o->service_cnt > SL_MAX_SERVICES)
		return sl_fail(s->err, -EINVAL, "%u workers and %u services: at most %d and %d",
			       o->worker_cnt, o->service_cnt, SL_MAX_WORKERS, SL_MAX_SERVICES);
	s->x->worker_cnt = o->worker_cnt;
	s->x->service_cnt = o->service_cnt ? o->service_cnt : 1;
	res = sl_probe_nic(ifname, &s->nic);
	if (res == -ENODEV)
		return sl_fail(s->err, res, "interface %s does not exist", ifname);
	if (res)
		return sl_fail(s->err, res, "cannot query interface %s: %s", ifname,
			       strerror(-res));
	if (!s->nic.ethernet)
		return sl_fail(s->err, -EINVAL, "interface %s is not an Ethernet interface",
			       ifname);
	if (sl_probe_bond(&s->nic, ifname, members, sizeof(members)))
		return sl_fail(
			s->err, -EINVAL,
			"interface %s is a bond, on whose queues no packet arrives; serve its "
			"members instead: %s",
			ifname, members[0] ? members : "none yet");
	s->x->ifindex = s->nic.ifindex;
	s->tags = o->vlans && sl_probe_hides_tags(ifname) && sl_netdev_has_tags(s->nic.ifindex);
	s->x->mtu = s->nic.mtu;
	memcpy(s->x->mac, s->nic.mac, sizeof(s->x->mac));
	return 0;
}

/*
 * virtio_net adds receive queues for XDP, one per CPU. They are not used: their AF_XDP sockets
 * cannot send, and a program detached before the socket crashes the kernel at the next attach (seen
 * with 7.2).
 */
static int check_queues(struct sl_xdp_setup *s)
{
	struct sl_nic_info now;

	if (strcmp(s->nic.driver, "virtio_net") != 0 || s->x->attach == SL_XDP_ADOPTED ||
	    sl_probe_nic(s->x->ifname, &now) != 0 || now.queue_cnt <= s->nic.queue_cnt)
		return 0;
	return sl_fail(
		s->err, -EINVAL,
		"%s: virtio_net adds %u receive queues of its own for XDP, which AF_XDP cannot "
		"send "
		"from: run `ethtool -L %s combined %u` first",
		s->x->ifname, now.queue_cnt - s->nic.queue_cnt, s->x->ifname, s->nic.queue_max);
}

static int set_up_maps(struct sl_xdp_setup *s)
{
	const uint32_t wanted = s->o->service_least ? s->o->service_least : s->o->service_cnt;
	const uint32_t services = wanted ? wanted : 1;
	struct sl_xdp *x = s->x;
	int res = sl_xdp_find_maps(x, s->prog_fd, s->err);

	if (!res && (x->worker_cnt < s->o->worker_cnt || x->service_cnt < services))
		return sl_fail(s->err, -ENOSPC,
			       "%s: the adopted program has room for %u workers and %u services, "
			       "the configuration has %u and %u: detach it, and the gateway "
			       "attaches one that fits",
			       x->ifname, x->worker_cnt, x->service_cnt, s->o->worker_cnt,
			       services);
	if (!res)
		res = sl_xdp_map_memory(x, s->o->share, s->err);
	if (!res && x->attach == SL_XDP_ADOPTED)
		sl_xdp_reset_maps(x);
	if (!res) {
		res = sl_xdp_edge_mac(x, s->nic.mac);
		if (res)
			sl_err_set(s->err, "%s: cannot write map sl_edge: %s", x->ifname,
				   strerror(-res));
	}
	if (!res)
		res = sl_xdp_pin(x, s->o->pin_root, s->err);
	return res;
}

static void init_closed(struct sl_xdp *x)
{
	memset(x, 0, sizeof(*x));
	x->link_fd = x->if_lock_fd = x->pin_lock_fd = -1;
	for (int i = 0; i < SL_MAP_CNT; i++)
		x->map_fd[i] = -1;
}

int sl_xdp_open(struct sl_xdp *x, const char *ifname, const struct sl_xdp_options *o,
		struct sl_err *err)
{
	struct sl_xdp_setup s = {.x = x, .o = o, .prog_fd = -1, .err = err};
	struct bpf_prog_info info;
	int res;

	init_closed(x);
	libbpf_set_print(log_libbpf);
	libxdp_set_print(log_libxdp);
	res = check_args(&s, ifname);
	if (!res)
		res = lock_interface(&s);
	if (!res) {
		res = sl_xdp_look_for_ours(&s);
		if (res == -ENOENT)
			res = sl_xdp_put_on(&s);
	}
	if (!res)
		res = check_queues(&s);
	if (!res)
		res = set_up_maps(&s);
	if (!res && sl_xdp_prog_info(s.prog_fd, &info) == 0)
		x->prog_id = info.id;
	if (!res && bpf_xdp_query_id(x->ifindex, 0, &x->attached_id) < 0)
		x->attached_id = 0;
	if (x->attach == SL_XDP_ADOPTED && s.prog_fd >= 0)
		close(s.prog_fd);
	if (res)
		sl_xdp_close(x);
	return res;
}

int sl_xdp_status(const struct sl_xdp *x, struct sl_err *why)
{
	uint32_t id;

	if (!x->attached_id || bpf_xdp_query_id(x->ifindex, 0, &id) < 0 || id == x->attached_id)
		return 0;
	if (!id)
		return sl_fail(why, -ENOENT, "interface %s: the XDP program was detached",
			       x->ifname);
	return sl_fail(why, -ENOENT, "interface %s: the XDP program was replaced by program %u",
		       x->ifname, id);
}

void sl_xdp_close(struct sl_xdp *x)
{
	if (!x->ifindex)
		return;
	if (x->attach == SL_XDP_ADOPTED && x->map_fd[SL_MAP_LISTENERS] >= 0)
		sl_xdp_clear_listeners(x);
	sl_xdp_take_off(x);
	sl_xdp_unpin(x);
	sl_xdp_unmap_memory(x);
	for (int i = 0; i < SL_MAP_CNT; i++) {
		if (x->map_fd[i] >= 0)
			close(x->map_fd[i]);
	}
	if (x->if_lock_fd >= 0)
		close(x->if_lock_fd);
	init_closed(x);
}
