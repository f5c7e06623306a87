/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/if_xdp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include "base/clock.h"
#include "base/log.h"
#include "xio/probe.h"
#include "xio/xsk.h"

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif
#ifndef SO_BUSY_POLL_BUDGET
#define SO_BUSY_POLL_BUDGET 70
#endif
#ifndef XDP_MAX_TX_SKB_BUDGET
#define XDP_MAX_TX_SKB_BUDGET 9 /* Linux 6.17 */
#endif

enum {
	DEFAULT_RING = 2048,
	SEND_BUFFER = 32 << 20,
	BIND_TRIES = 100,
};

static int create_umem(struct xsk_port *x)
{
	const struct sl_xsk_options *o = &x->opt;
	const struct xsk_umem_config umem_cfg = {
		.fill_size = o->fill_size ? o->fill_size : DEFAULT_RING,
		.comp_size = o->comp_size ? o->comp_size : (o->tx_size ? o->tx_size : DEFAULT_RING),
		.frame_size = x->port.umem->frame_size,
	};
	int err = xsk_umem__create(&x->xsk_umem, x->port.umem->area, x->port.umem->area_len,
				   &x->fill, &x->comp, &umem_cfg);

	if (err)
		x->xsk_umem = NULL;
	return err;
}

static int bind_socket(struct xsk_port *x, uint16_t mode_flag)
{
	const struct sl_xsk_options *o = &x->opt;
	const struct xsk_socket_config cfg = {
		.rx_size = o->rx_size ? o->rx_size : DEFAULT_RING,
		.tx_size = o->tx_size ? o->tx_size : DEFAULT_RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = (uint16_t)(XDP_USE_NEED_WAKEUP | mode_flag),
	};
	int err = xsk_socket__create_shared(&x->xsk, x->port.ifname, x->port.queue, x->xsk_umem,
					    &x->rx, &x->tx, &x->fill, &x->comp, &cfg);

	if (err)
		x->xsk = NULL;
	return err;
}

/* A failed bind cannot be repeated on the same socket. */
static int try_bind(struct xsk_port *x, uint16_t mode_flag)
{
	int err = create_umem(x);

	if (!err)
		err = bind_socket(x, mode_flag);
	if (err)
		sl_xsk_delete_socket(x);
	return err;
}

/* The kernel frees a queue some time after the close. */
static int bind_patiently(struct xsk_port *x, uint16_t mode_flag)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	int err = try_bind(x, mode_flag);

	for (int i = 0; i < BIND_TRIES && err == -EBUSY; i++) {
		nanosleep(&pause, NULL);
		err = try_bind(x, mode_flag);
	}
	return err;
}

/* Without XDP_USE_SG if the kernel or driver lacks it. */
static int bind_mode(struct xsk_port *x, uint16_t mode_flag, bool chains)
{
	int err = -EINVAL;

	if (chains)
		err = bind_patiently(x, mode_flag | XDP_USE_SG);
	x->port.chains = !err;
	if (err && err != -EBUSY && err != -EPERM)
		err = bind_patiently(x, mode_flag);
	return err;
}

/* Zero-copy needs native XDP. */
static int bind_best(struct xsk_port *x, bool generic, uint32_t mtu)
{
	const bool chains = sl_port_wants_chains(generic, mtu);
	int err = -EOPNOTSUPP;

	if (!generic && x->opt.wish != SL_XSK_COPY_ONLY) {
		err = bind_mode(x, XDP_ZEROCOPY, chains);
		if (!err)
			x->port.mode = SL_PORT_ZEROCOPY;
		if (!err || err == -EBUSY || err == -EPERM)
			return err;
	}
	if (x->opt.wish == SL_XSK_ZEROCOPY_ONLY)
		return err;
	err = bind_mode(x, XDP_COPY, chains);
	if (!err)
		x->port.mode = generic ? SL_PORT_GENERIC : SL_PORT_COPY;
	return err;
}

static int bind_failed(const struct xsk_port *x, int res, struct sl_err *err)
{
	const char *ifname = x->port.ifname;
	const unsigned queue = x->port.queue;

	switch (res) {
	case -EBUSY:
		sl_err_set(err, "%s queue %u already has an AF_XDP socket of another program",
			   ifname, queue);
		break;
	case -EPERM: sl_err_set(err, "%s: AF_XDP needs root or CAP_NET_RAW", ifname); break;
	case -ENOBUFS:
		sl_err_set(
			err,
			"%s: cannot lock %zu bytes of frames in memory: raise `ulimit -l`, or give "
			"CAP_IPC_LOCK",
			ifname, x->port.umem->area_len);
		break;
	case -EINVAL:
		sl_err_set(err, "%s has no queue %u for an AF_XDP socket", ifname, queue);
		break;
	case -ENETDOWN:
		sl_err_set(err, "%s is down: bring it up with `ip link set dev %s up`", ifname,
			   ifname);
		break;
	default: sl_err_set(err, "%s queue %u: AF_XDP socket: %s", ifname, queue, strerror(-res));
	}
	return res;
}

static int describe_port(struct xsk_port *x, const char *ifname, bool generic, struct sl_err *err)
{
	struct sl_port *p = &x->port;
	struct sl_nic_info nic;
	int res = sl_probe_nic(ifname, &nic);

	if (res)
		return sl_fail(err, res, "interface %.32s: %s", ifname, strerror(-res));
	snprintf(p->ifname, sizeof(p->ifname), "%s", ifname);
	p->ifindex = nic.ifindex;
	x->mtu = nic.mtu;
	x->queue_cnt = nic.queue_cnt;
	memcpy(p->mac, nic.mac, sizeof(p->mac));
	p->partial_csum = sl_probe_partial_csum(&nic, generic);
	x->chain.partial_csum = p->partial_csum;
	return 0;
}

static void tune_socket(struct xsk_port *x)
{
	const struct sl_xsk_options *o = &x->opt;
	const int fd = x->port.fd, on = 1, send_buffer = SEND_BUFFER;
	const int us = (int)o->busy_poll_us;
	const int budget = o->busy_poll_budget ? (int)o->busy_poll_budget : SL_BURST;
	const uint32_t tx_budget = o->tx_size ? o->tx_size : DEFAULT_RING;

	/* Copy mode charges packets to the socket, but the tx ring must be the limit. */
	setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &send_buffer, sizeof(send_buffer));
	setsockopt(fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &tx_budget, sizeof(tx_budget));
	if (!us)
		return;
	if (setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof(on)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget, sizeof(budget)) == 0)
		x->busy_poll = true;
	else
		SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_WARN,
			     "interface %s, queue %u: busy_poll refused: %s; using interrupts",
			     x->port.ifname, x->port.queue, strerror(errno));
}

static struct xsk_port *new_port(struct sl_umem *u, uint16_t queue, const struct sl_xsk_options *o)
{
	const size_t len = (sizeof(struct xsk_port) + 63) & ~(size_t)63;
	struct xsk_port *x = aligned_alloc(64, len);

	if (!x)
		return NULL;
	memset(x, 0, len);
	x->port.ops = &sl_xsk_ops;
	x->port.umem = u;
	x->port.queue = queue;
	x->port.index = o->port_index;
	x->opt = *o;
	x->ctl_fd = -1;
	return x;
}

static void lift_memlock(void)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	setrlimit(RLIMIT_MEMLOCK, &none);
}

static int create_port(struct xsk_port **out, struct sl_umem *u, const struct sl_xdp *xdp,
		       uint16_t queue, const struct sl_xsk_options *o, struct sl_err *err)
{
	struct xsk_port *x = new_port(u, queue, o);
	int res;

	*out = x;
	if (!x)
		return sl_fail(err, -ENOMEM, "out of memory");
	if (queue >= SL_MAX_QUEUES)
		return sl_fail(err, -E2BIG, "%s queue %u: queues from 0 to %d are supported",
			       xdp->ifname, queue, SL_MAX_QUEUES - 1);
	res = describe_port(x, xdp->ifname, xdp->generic, err);
	if (res)
		return res;
	x->xdp = xdp;
	x->ctl_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	lift_memlock();
	return 0;
}

static void begin_port(struct xsk_port *x)
{
	const struct sl_umem *u = x->port.umem;
	const uint32_t room = sl_port_frame_mtu(u->frame_size);
	uint32_t parts;

	sl_port_set_mtu(&x->port, x->mtu);
	parts = (x->port.rx_mtu + room - 1) / room; /* frames of the longest packet */
	x->fill_target = x->fill.size < u->frame_cnt / 4 ? x->fill.size : u->frame_cnt / 4;
	x->queue = &x->xdp->queues[x->port.queue];
	x->open_share = (x->fill_target + 1) / 2 / (parts ? parts : 1);
	x->open_limit = x->queue->opens;
	sl_xsk_renew_open_limit(x);
}

int sl_xsk_register(struct sl_port *p, struct sl_err *err)
{
	struct xsk_port *x = sl_xsk_self(p);
	int res = sl_xdp_set_socket(x->xdp, p->queue, x->opt.worker, p->fd);

	if (res)
		return sl_fail(err, res, "%s queue %u: cannot enter the socket into sl_xsks: %s",
			       p->ifname, p->queue, strerror(-res));
	x->registered = true;
	return 0;
}

int sl_xsk_open(struct sl_port **out, struct sl_umem *u, const struct sl_xdp *xdp, uint16_t queue,
		const struct sl_xsk_options *o, struct sl_err *err)
{
	struct xsk_port *x;
	int res = create_port(&x, u, xdp, queue, o, err);

	*out = NULL;
	if (!res) {
		res = bind_best(x, xdp->generic, x->mtu);
		if (res)
			bind_failed(x, res, err);
	}
	if (!res) {
		x->port.fd = xsk_socket__fd(x->xsk);
		tune_socket(x);
		begin_port(x);
		sl_xsk_refill(x);
		res = sl_xsk_register(&x->port, err);
	}
	if (!res)
		*out = &x->port;
	else if (x)
		sl_xsk_ops.close(&x->port);
	return res;
}

int sl_xsk_prepare(struct sl_port **out, struct sl_umem *u, const struct sl_xdp *xdp,
		   uint16_t queue, const struct sl_xsk_options *o, struct sl_err *err)
{
	struct xsk_port *x;
	int res = create_port(&x, u, xdp, queue, o, err);

	*out = NULL;
	if (!res) {
		res = create_umem(x);
		if (res)
			bind_failed(x, res, err);
	}
	if (res) {
		if (x)
			sl_xsk_ops.close(&x->port);
		return res;
	}
	x->port.fd = xsk_umem__fd(x->xsk_umem);
	tune_socket(x);
	*out = &x->port;
	return 0;
}

int sl_xsk_bind(struct sl_port *p, const struct sl_port *like, struct sl_err *err)
{
	struct xsk_port *x = sl_xsk_self(p);
	const enum sl_port_mode mode = like ? (enum sl_port_mode)like->mode : SL_PORT_COPY;
	const uint16_t flags = mode == SL_PORT_ZEROCOPY ? XDP_ZEROCOPY : XDP_COPY;
	int res;

	p->chains = like && like->chains;
	res = bind_socket(x, p->chains ? flags | XDP_USE_SG : flags);
	if (res)
		return bind_failed(x, res, err);
	p->mode = (uint8_t)mode;
	x->mtu = x->xdp->mtu;
	memcpy(p->mac, x->xdp->mac, sizeof(p->mac));
	begin_port(x);
	return 0;
}

void sl_xsk_expect_queues(struct sl_port *p, uint32_t cnt)
{
	sl_xsk_self(p)->queue_cnt = cnt;
}

int sl_xsk_trial(const char *ifname, uint16_t queue, bool generic, uint32_t mtu, struct sl_umem *u,
		 bool *chains)
{
	const struct sl_xsk_options o = {.rx_size = 64, .tx_size = 64, .fill_size = 64};
	struct xsk_port *x = new_port(u, queue, &o);
	int res;

	if (!x)
		return -ENOMEM;
	snprintf(x->port.ifname, sizeof(x->port.ifname), "%.15s", ifname);
	lift_memlock();
	res = bind_best(x, generic, mtu);
	if (!res)
		res = x->port.mode;
	*chains = x->port.chains;
	sl_xsk_ops.close(&x->port);
	return res;
}
