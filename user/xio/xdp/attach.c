/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/if_link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>
#include "xio/port.h"
#include "xio/xdp/detach_watchdog.h"
#include "xio/xdp/setup.h"

/* The generated code converts signs. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "sluice.skel.h"
#pragma GCC diagnostic pop

static int open_skel(struct sl_xdp_setup *s, bool generic, bool may_renew)
{
	struct sl_xdp *x = s->x;
	const uint32_t pairs = x->worker_cnt * x->service_cnt;
	const struct sl_xdp *share = s->o->share;
	int res = 0;

	sluice_bpf__destroy(x->skel);
	x->reads_tags = s->tags && !generic;
	x->skel = x->reads_tags ? sl_xdp_open_bound(x->ifindex) : sluice_bpf__open();
	if (!x->skel)
		return sl_fail(s->err, -errno, "cannot open the XDP program: %s", strerror(errno));
	x->skel->rodata->sl_config.service_cnt = x->service_cnt;
	x->skel->rodata->sl_config.by_gateway = 1;
	bpf_program__set_autoload(x->skel->progs.sluice_xdp2, may_renew);
	x->generic = generic;
	if (share) {
		if (bpf_map__reuse_fd(x->skel->maps.sl_svc_hist, share->map_fd[SL_MAP_SVC_HIST]) ||
		    bpf_map__reuse_fd(x->skel->maps.sl_svc_live, share->map_fd[SL_MAP_SVC_LIVE]) ||
		    bpf_map__reuse_fd(x->skel->maps.sl_stages, share->map_fd[SL_MAP_STAGES]) ||
		    bpf_map__reuse_fd(x->skel->maps.sl_svc_ctl, share->map_fd[SL_MAP_SVC_CTL]))
			res = -errno;
	} else {
		if (bpf_map__set_max_entries(x->skel->maps.sl_svc_hist, pairs * SL_STAGE_CNT) ||
		    bpf_map__set_max_entries(x->skel->maps.sl_svc_live, pairs) ||
		    bpf_map__set_max_entries(x->skel->maps.sl_svc_ctl, x->service_cnt))
			res = -errno;
	}
	return res ? sl_fail(s->err, res, "cannot size the BPF maps: %s", strerror(-res)) : 0;
}

/* veth gives an added queue no program. */
static bool is_veth(const struct sl_nic_info *nic)
{
	return strcmp(nic->driver, "veth") == 0;
}

void sl_xdp_renew(struct sl_xdp *x)
{
	int fd = x->renewed ? bpf_program__fd(x->skel->progs.sluice_xdp)
			    : bpf_program__fd(x->skel->progs.sluice_xdp2);

	if (x->attach != SL_XDP_LINK || fd < 0 || bpf_link_update(x->link_fd, fd, NULL) < 0)
		return;
	x->renewed = !x->renewed;
	if (bpf_xdp_query_id(x->ifindex, 0, &x->attached_id) < 0)
		x->attached_id = 0;
}

/* Linux 5.18. */
static void allow_frags(struct sluice_bpf *skel)
{
	struct bpf_program *p = NULL;

	while ((p = bpf_object__next_program(skel->obj, p)))
		bpf_program__set_flags(p, bpf_program__flags(p) | BPF_F_XDP_HAS_FRAGS);
}

static int attach_link(struct sl_xdp_setup *s, bool generic)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts,
		    .flags = generic ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);
	struct sl_xdp *x = s->x;
	int res = open_skel(s, generic, is_veth(&s->nic));

	if (res)
		return res;
	if (sl_port_wants_chains(generic, s->nic.mtu))
		allow_frags(x->skel);
	res = sluice_bpf__load(x->skel);
	if (res == -EINVAL && sl_port_wants_chains(generic, s->nic.mtu)) {
		res = open_skel(s, generic, is_veth(&s->nic));
		if (!res)
			res = sluice_bpf__load(x->skel);
	}
	if (res) {
		if (res == -EPERM || res == -EACCES)
			return sl_fail(
				s->err, res,
				"the kernel refuses to load the XDP program: run as root, or with CAP_BPF, "
				"CAP_NET_ADMIN and CAP_NET_RAW");
		return sl_fail(
			s->err, res,
			"the kernel refuses the XDP program (%s): see the log at level debug, and "
			"`sluice doctor`",
			strerror(-res));
	}
	s->prog_fd = bpf_program__fd(x->skel->progs.sluice_xdp);
	x->link_fd = bpf_link_create(s->prog_fd, x->ifindex, BPF_XDP, &opts);
	if (x->link_fd < 0)
		return sl_fail(s->err, -errno, "cannot attach to %s in %s mode: %s", x->ifname,
			       generic ? "generic" : "native", strerror(errno));
	x->attach = SL_XDP_LINK;
	return 0;
}

static bool in_dispatcher(int ifindex)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(ifindex);
	bool res;

	if (libxdp_get_error(mp))
		return false;
	res = !xdp_multiprog__is_legacy(mp);
	xdp_multiprog__close(mp);
	return res;
}

static int attach_dispatcher(struct sl_xdp_setup *s, bool generic)
{
	const enum xdp_attach_mode mode = generic ? XDP_MODE_SKB : XDP_MODE_NATIVE;
	DECLARE_LIBXDP_OPTS(xdp_program_opts, opts, .prog_name = SL_XDP_PROG);
	struct sl_xdp *x = s->x;
	struct xdp_program *p;
	int res = open_skel(s, generic, false);

	if (res)
		return res;
	opts.obj = x->skel->obj;
	p = xdp_program__create(&opts);
	if (libxdp_get_error(p))
		return sl_fail(s->err, (int)libxdp_get_error(p), "libxdp refuses the program: %s",
			       strerror((int)-libxdp_get_error(p)));
	if (sl_port_wants_chains(generic, s->nic.mtu))
		xdp_program__set_xdp_frags_support(p, true);
	res = xdp_program__attach(p, x->ifindex, mode, 0);
	if (!res && !in_dispatcher(x->ifindex)) {
		/* libxdp fell back to a single program, which would outlive the gateway. */
		xdp_program__detach(p, x->ifindex, mode, 0);
		res = -EOPNOTSUPP;
	}
	if (res) {
		xdp_program__close(p);
		return sl_fail(s->err, res,
			       "cannot attach to %s through libxdp's dispatcher in %s mode: %s",
			       x->ifname, generic ? "generic" : "native", strerror(-res));
	}
	x->dispatched = p;
	x->attach = SL_XDP_DISPATCHER;
	s->prog_fd = xdp_program__fd(p);
	x->prog_id = xdp_program__id(p);
	res = sl_detach_watchdog_start(&x->watchdog, x->ifindex, x->prog_id);
	return res ? sl_fail(s->err, res, "cannot start the watchdog process: %s", strerror(-res))
		   : 0;
}

static int attach_one_way(struct sl_xdp_setup *s, bool dispatcher)
{
	int (*attach)(struct sl_xdp_setup *, bool) = dispatcher ? attach_dispatcher : attach_link;
	const char *how = dispatcher ? "libxdp dispatcher"
			  : s->tags  ? "single program, bound to the NIC for its VLAN tags"
				     : "single program";
	struct sl_xdp *x = s->x;
	int native = -EOPNOTSUPP, res;

	if (!s->o->generic) {
		native = attach(s, false);
		if (native && s->tags && native != -EPERM && native != -EBUSY) {
			/* the verifier or the driver refuses what it has announced */
			s->tags = false;
			how = "single program";
			native = attach(s, false);
		}
		if (!native) {
			snprintf(x->mode, sizeof(x->mode), "native, %s", how);
			return 0;
		}
		if (native == -EPERM || native == -EBUSY)
			return native;
	}
	res = attach(s, true);
	if (res)
		return res;
	if (s->o->generic)
		snprintf(x->mode, sizeof(x->mode), "generic (as configured), %s", how);
	else
		snprintf(x->mode, sizeof(x->mode), "generic (native refused: %s), %s",
			 strerror(-native), how);
	return 0;
}

/*
 * The functions of libxdp 1.3's dispatcher do not change packets. Since Linux 6.13 ours, which
 * writes a timestamp, cannot replace one (EINVAL): it is attached alone.
 */
int sl_xdp_put_on(struct sl_xdp_setup *s)
{
	const bool single = s->o->no_dispatcher || s->tags;
	int refused = single ? 0 : sl_bpffs_mount();
	int res;

	if (!single && !refused)
		refused = sl_probe_freplace();
	if (!single && !refused) {
		res = attach_one_way(s, true);
		if (!res || res == -EPERM || s->x->dispatched || in_dispatcher(s->x->ifindex))
			return res;
		refused = res;
	}
	res = attach_one_way(s, false);
	if (!res && refused) {
		size_t len = strlen(s->x->mode);

		snprintf(s->x->mode + len, sizeof(s->x->mode) - len, " (no dispatcher: %s)",
			 strerror(-refused));
	}
	return res;
}

void sl_xdp_take_off(struct sl_xdp *x)
{
	sluice_bpf__destroy(x->skel);
	x->skel = NULL;
	if (x->link_fd >= 0)
		close(x->link_fd);
	x->link_fd = -1;
	if (!x->dispatched)
		return;
	/* The watchdog was killed. */
	if (!sl_detach_watchdog_end(&x->watchdog))
		sl_xdp_undispatch(x->ifindex, x->prog_id);
	xdp_program__close(x->dispatched);
	x->dispatched = NULL;
}
