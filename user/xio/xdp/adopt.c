/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <xdp/libxdp.h>
#include "base/log.h"
#include "xio/xdp/detach_watchdog.h"
#include "xio/xdp/maps.h"
#include "xio/xdp/setup.h"

int sl_xdp_prog_info(int fd, struct bpf_prog_info *info)
{
	uint32_t len = sizeof(*info);

	memset(info, 0, sizeof(*info));
	return bpf_obj_get_info_by_fd(fd, info, &len) < 0 ? -errno : 0;
}

static int use_adopted(struct sl_xdp_setup *s, int fd, bool generic, bool dispatched)
{
	struct sl_xdp *x = s->x;
	struct sl_prog_config cfg;
	struct bpf_prog_info info;

	if (sl_xdp_prog_info(fd, &info) || sl_xdp_read_config(fd, &cfg) ||
	    cfg.version != SL_ABI_VERSION)
		return sl_fail(
			s->err, -EINVAL,
			"%s: the attached sluice_xdp is of another version of sluice: detach it "
			"(`ip link set dev %s xdp off` or `xdp-loader unload %s --all`)",
			x->ifname, x->ifname, x->ifname);
	if (s->o->share)
		return sl_fail(s->err, -EINVAL,
			       "%s: a program attached by hand cannot share statistics with other "
			       "interfaces: detach it",
			       x->ifname);
	x->prog_id = info.id;
	x->attach = SL_XDP_ADOPTED;
	x->generic = generic;
	s->prog_fd = fd;
	snprintf(x->mode, sizeof(x->mode), "%s, adopted program %u%s",
		 generic ? "generic" : "native", info.id,
		 dispatched ? " in libxdp's dispatcher" : "");
	return 0;
}

static int take_ours(struct sl_xdp_setup *s, const struct xdp_multiprog *mp, struct xdp_program *p)
{
	const bool dispatched = !xdp_multiprog__is_legacy(mp);
	const bool generic = xdp_multiprog__attach_mode(mp) == XDP_MODE_SKB;
	struct sl_prog_config cfg;
	int fd, res;

	if (dispatched && sl_xdp_read_config(xdp_program__fd(p), &cfg) == 0 && cfg.by_gateway) {
		sl_log_info("%s: removing program %u, left by a gateway that was killed",
			    s->x->ifname, xdp_program__id(p));
		sl_xdp_undispatch(s->x->ifindex, xdp_program__id(p));
		return -ENOENT;
	}
	/* The kernel will remove the link of a gateway that ends. */
	if (!dispatched && sl_xdp_read_config(xdp_program__fd(p), &cfg) == 0 && cfg.by_gateway)
		return sl_fail(s->err, -EAGAIN,
			       "%s: program %u belongs to a gateway in another namespace",
			       s->x->ifname, xdp_program__id(p));
	fd = dup(xdp_program__fd(p));
	if (fd < 0)
		return sl_fail(s->err, -errno, "%s: %s", s->x->ifname, strerror(errno));
	res = use_adopted(s, fd, generic, dispatched);
	if (res)
		close(fd);
	return res;
}

static bool is_ours(struct xdp_program *p)
{
	return p && strcmp(xdp_program__name(p), SL_XDP_PROG) == 0;
}

static int look_for_program(struct sl_xdp_setup *s)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(s->nic.ifindex);
	struct xdp_program *p = NULL;
	int res = -ENOENT;

	if (libxdp_get_error(mp))
		return -ENOENT;
	if (xdp_multiprog__is_legacy(mp)) {
		p = xdp_multiprog__main_prog(mp);
		if (is_ours(p))
			res = take_ours(s, mp, p);
		else if (p)
			res = sl_fail(
				s->err, -EBUSY,
				"%s already has the XDP program %s (id %u), which does not share "
				"the interface: detach it with `ip link set dev %s xdp off`",
				s->x->ifname, xdp_program__name(p), xdp_program__id(p),
				s->x->ifname);
	} else {
		while ((p = xdp_multiprog__next_prog(p, mp)) && !is_ours(p))
			;
		if (p)
			res = take_ours(s, mp, p);
	}
	xdp_multiprog__close(mp);
	return res;
}

/* A killed gateway briefly holds its link. */
int sl_xdp_look_for_ours(struct sl_xdp_setup *s)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	int res = look_for_program(s);

	for (int i = 0; i < 100 && res == -EAGAIN; i++) {
		nanosleep(&pause, NULL);
		res = look_for_program(s);
	}
	return res;
}
