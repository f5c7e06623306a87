/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <xdp/xsk.h>
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "xio/probe.h"
#include "xio/xsk_port.h"

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
	REFILL_BATCH = 32,
	KICK_PORTION = 32, /* default of XDP_MAX_TX_SKB_BUDGET */
	SEND_BUFFER = 32 << 20,
	XDP_HEADROOM = 256,
	LINK_HEADER = 14 + 2 * 4,
	BIND_TRIES = 100,
};

struct xsk_port {
	struct sl_port port;

	struct xsk_ring_cons rx;
	struct xsk_ring_prod fill;
	struct xsk_ring_prod tx;
	struct xsk_ring_cons comp;
	uint32_t filled;
	uint32_t fill_target;
	uint32_t tx_pending;
	struct sl_queue *queue; /* shared with the XDP program */
	uint32_t open_limit;    /* as last written there */
	uint32_t open_share;
	bool busy_poll;

	struct xsk_socket *xsk;
	struct xsk_umem *xsk_umem;
	const struct sl_xdp *xdp;
	bool registered;
	int ctl_fd;         /* for ioctls in the interface's namespace */
	uint32_t queue_cnt; /* at the open */
};

static struct xsk_port *self(struct sl_port *p)
{
	return (struct xsk_port *)p;
}

static const struct xsk_port *self_const(const struct sl_port *p)
{
	return (const struct xsk_port *)p;
}

static struct sl_frame *take_frame(struct xsk_port *x, const struct xdp_desc *desc, uint64_t now_ns)
{
	struct sl_umem *u = x->port.umem;
	struct sl_frame *f = sl_frame_at(u, desc->addr);
	struct sl_rx_meta meta;

	sl_frame_to(u, f, SL_FRAME_RX);
	f->data = u->area + desc->addr;
	f->len = (uint16_t)desc->len;
	f->rx_ns = 0;
	/*
	 * The XDP program's timestamp precedes the packet. Cleared: a later packet may have none.
	 */
	memcpy(&meta, f->data - sizeof(meta), sizeof(meta));
	if (meta.magic == SL_RX_META_MAGIC) {
		memset(f->data - sizeof(meta), 0, sizeof(meta));
		f->rx_ns = meta.rx_ns <= now_ns ? meta.rx_ns : now_ns;
	}
	f->take_ns = now_ns;
	x->port.stats.rx_bytes += desc->len;
	return f;
}

/*
 * SYNs and datagrams may occupy half of the frames, so that a flood never takes the last frame of
 * an existing connection. Written only when it changes: the XDP program reads the cache line.
 */
static void renew_open_limit(struct xsk_port *x)
{
	const uint32_t opens = __atomic_load_n(&x->queue->opens, __ATOMIC_RELAXED);
	uint32_t waiting;

	if (x->open_limit - opens == x->open_share)
		return;
	waiting = __atomic_load_n(x->rx.producer, __ATOMIC_RELAXED) - x->rx.cached_cons;
	x->open_limit = opens + (waiting < x->open_share ? x->open_share - waiting : 0);
	__atomic_store_n(&x->queue->open_limit, x->open_limit, __ATOMIC_RELAXED);
}

static unsigned xsk_rx_burst(struct sl_port *p, struct sl_frame **frames, unsigned max,
			     uint64_t now_ns)
{
	struct xsk_port *x = self(p);
	uint32_t idx, cnt = xsk_ring_cons__peek(&x->rx, max, &idx);

	if (cnt == 0)
		return 0;
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t addr = xsk_ring_cons__rx_desc(&x->rx, idx + i)->addr;

		__builtin_prefetch(p->umem->area + addr);
		__builtin_prefetch(sl_frame_at(p->umem, addr), 1);
	}
	for (uint32_t i = 0; i < cnt; i++)
		frames[i] = take_frame(x, xsk_ring_cons__rx_desc(&x->rx, idx + i), now_ns);
	xsk_ring_cons__release(&x->rx, cnt);
	renew_open_limit(x);
	x->filled -= cnt;
	p->stats.rx_packets += cnt;
	return cnt;
}

static unsigned xsk_tx_burst(struct sl_port *p, struct sl_frame **frames, unsigned cnt)
{
	struct xsk_port *x = self(p);
	uint32_t idx, room = xsk_prod_nb_free(&x->tx, cnt);

	if (cnt > room)
		cnt = room;
	if (xsk_ring_prod__reserve(&x->tx, cnt, &idx) == 0)
		return 0;
	for (uint32_t i = 0; i < cnt; i++) {
		struct xdp_desc *desc = xsk_ring_prod__tx_desc(&x->tx, idx + i);
		struct sl_frame *f = frames[i];

		if (f->state != SL_FRAME_TX)
			sl_frame_to(p->umem, f, SL_FRAME_TX);
		f->port = p->index;
		desc->addr = (uint64_t)(f->data - p->umem->area);
		desc->len = f->len;
		desc->options = 0;
		p->stats.tx_bytes += f->len;
	}
	xsk_ring_prod__submit(&x->tx, cnt);
	x->tx_pending += cnt;
	p->stats.tx_packets += cnt;
	return cnt;
}

static void reap_completions(struct xsk_port *x)
{
	struct sl_umem *u = x->port.umem;
	uint32_t idx, cnt;

	if (x->tx_pending == 0)
		return;
	cnt = xsk_ring_cons__peek(&x->comp, x->tx_pending, &idx);
	if (cnt == 0)
		return;
	for (uint32_t i = 0; i < cnt; i++)
		sl_frame_tx_done(u, sl_frame_at(u, *xsk_ring_cons__comp_addr(&x->comp, idx + i)));
	xsk_ring_cons__release(&x->comp, cnt);
	x->tx_pending -= cnt;
}

static void refill_ring(struct xsk_port *x)
{
	struct sl_umem *u = x->port.umem;
	uint32_t idx, cnt = x->fill_target - x->filled;

	if (cnt < REFILL_BATCH && x->filled > x->fill_target / 2)
		return;
	if (cnt > u->free_cnt)
		cnt = u->free_cnt;
	if (cnt == 0 || xsk_ring_prod__reserve(&x->fill, cnt, &idx) == 0)
		return;
	for (uint32_t i = 0; i < cnt; i++) {
		struct sl_frame *f = sl_frame_get(u, SL_FRAME_FILL, 0);

		f->port = x->port.index;
		*xsk_ring_prod__fill_addr(&x->fill, idx + i) = (uint64_t)f->index << u->frame_shift;
	}
	xsk_ring_prod__submit(&x->fill, cnt);
	x->filled += cnt;
}

static uint32_t tx_unsent(const struct xsk_port *x)
{
	return x->tx.cached_prod - __atomic_load_n(x->tx.consumer, __ATOMIC_ACQUIRE);
}

/*
 * Copy mode sends inside the call, a portion at a time, and returns EAGAIN if there is more. Older
 * kernels move the ring's consumer only at its end, so the number of portions bounds the calls.
 * Other errors are left to the next flush.
 */
static void kick_tx(struct xsk_port *x)
{
	uint32_t left;

	if (x->tx_pending == 0)
		return;
	left = tx_unsent(x);
	if (left == 0)
		return;
	/*
	 * The flag must be read after the descriptors are visible, or a driver that goes idle is
	 * missed.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!xsk_ring_prod__needs_wakeup(&x->tx))
		return;
	for (uint32_t calls = left / KICK_PORTION + 1; calls > 0; calls--) {
		x->port.stats.tx_wakeups++;
		if (sendto(x->port.fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0 || errno != EAGAIN)
			return;
	}
}

static void xsk_flush(struct sl_port *p)
{
	struct xsk_port *x = self(p);

	reap_completions(x);
	refill_ring(x);
	kick_tx(x);
	if (!x->busy_poll && !xsk_ring_prod__needs_wakeup(&x->fill))
		return;
	x->port.stats.rx_wakeups++;
	recvfrom(x->port.fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static unsigned xsk_tx_pending(const struct sl_port *p)
{
	return self_const(p)->tx_pending;
}

static void delete_socket(struct xsk_port *x)
{
	if (x->xsk)
		xsk_socket__delete(x->xsk);
	x->xsk = NULL;
	if (x->xsk_umem)
		xsk_umem__delete(x->xsk_umem);
	x->xsk_umem = NULL;
}

static void xsk_close(struct sl_port *p)
{
	struct xsk_port *x = self(p);
	struct sl_umem *u;

	if (x->registered)
		sl_xdp_clear_socket(x->xdp, p->queue);
	delete_socket(x);
	u = p->umem;
	for (uint32_t i = 0; i < u->frame_cnt; i++) {
		struct sl_frame *f = &u->frames[i];

		if (f->port != p->index)
			continue;
		if (f->state == SL_FRAME_FILL)
			sl_frame_put(u, f);
		else if (f->state == SL_FRAME_TX)
			sl_frame_tx_done(u, f);
	}
	if (x->ctl_fd >= 0)
		close(x->ctl_fd);
	free(x);
}

static const struct sl_port_ops xsk_ops = {
	.rx_burst = xsk_rx_burst,
	.tx_burst = xsk_tx_burst,
	.flush = xsk_flush,
	.tx_pending = xsk_tx_pending,
	.close = xsk_close,
};

/* A socket cannot be bound again after a failed bind. */
static int try_bind(struct xsk_port *x, const struct sl_xsk_options *o, uint16_t mode_flag)
{
	const struct xsk_umem_config umem_cfg = {
		.fill_size = o->fill_size ? o->fill_size : DEFAULT_RING,
		.comp_size = o->comp_size ? o->comp_size : (o->tx_size ? o->tx_size : DEFAULT_RING),
		.frame_size = x->port.umem->frame_size,
	};
	const struct xsk_socket_config cfg = {
		.rx_size = o->rx_size ? o->rx_size : DEFAULT_RING,
		.tx_size = o->tx_size ? o->tx_size : DEFAULT_RING,
		.libxdp_flags = XSK_LIBXDP_FLAGS__INHIBIT_PROG_LOAD,
		.bind_flags = (uint16_t)(XDP_USE_NEED_WAKEUP | mode_flag),
	};
	int err = xsk_umem__create(&x->xsk_umem, x->port.umem->area, x->port.umem->area_len,
				   &x->fill, &x->comp, &umem_cfg);

	if (err) {
		x->xsk_umem = NULL;
		return err;
	}
	err = xsk_socket__create_shared(&x->xsk, x->port.ifname, x->port.queue, x->xsk_umem, &x->rx,
					&x->tx, &x->fill, &x->comp, &cfg);
	if (err) {
		x->xsk = NULL;
		delete_socket(x);
	}
	return err;
}

/* The kernel frees a queue some time after the close. */
static int bind_patiently(struct xsk_port *x, const struct sl_xsk_options *o, uint16_t mode_flag)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	int err = try_bind(x, o, mode_flag);

	for (int i = 0; i < BIND_TRIES && err == -EBUSY; i++) {
		nanosleep(&pause, NULL);
		err = try_bind(x, o, mode_flag);
	}
	return err;
}

/* Zero-copy needs native XDP. */
static int bind_best(struct xsk_port *x, const struct sl_xsk_options *o, bool generic)
{
	int err = -EOPNOTSUPP;

	if (!generic && o->wish != SL_XSK_COPY_ONLY) {
		err = bind_patiently(x, o, XDP_ZEROCOPY);
		if (!err) {
			x->port.mode = SL_PORT_ZEROCOPY;
			return 0;
		}
		if (err == -EBUSY || err == -EPERM)
			return err;
	}
	if (o->wish == SL_XSK_ZEROCOPY_ONLY)
		return err;
	err = bind_patiently(x, o, XDP_COPY);
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

uint32_t sl_xsk_frame_need(uint32_t mtu)
{
	return XDP_HEADROOM + LINK_HEADER + mtu;
}

static int describe_port(struct xsk_port *x, const char *ifname, bool generic, struct sl_err *err)
{
	struct sl_port *p = &x->port;
	struct sl_nic_info nic;
	int res = sl_probe_nic(ifname, &nic);

	if (res)
		return sl_fail(err, res, "interface %.32s: %s", ifname, strerror(-res));
	if (sl_xsk_frame_need(nic.mtu) > p->umem->frame_size)
		return sl_fail(
			err, -EMSGSIZE,
			"%s has an MTU of %u, which needs frames of %u bytes, but they have %u: "
			"lower "
			"the MTU to %u, or configure larger frames",
			ifname, nic.mtu, sl_xsk_frame_need(nic.mtu), p->umem->frame_size,
			p->umem->frame_size - sl_xsk_frame_need(0));
	snprintf(p->ifname, sizeof(p->ifname), "%s", ifname);
	p->ifindex = nic.ifindex;
	p->mtu = (uint16_t)nic.mtu;
	x->queue_cnt = nic.queue_cnt;
	memcpy(p->mac, nic.mac, sizeof(p->mac));
	p->partial_csum = sl_probe_partial_csum(&nic, generic);
	return 0;
}

/* Best effort. */
static void tune_socket(struct xsk_port *x, const struct sl_xsk_options *o)
{
	const int fd = x->port.fd, on = 1, send_buffer = SEND_BUFFER;
	const int us = (int)o->busy_poll_us;
	const int budget = o->busy_poll_budget ? (int)o->busy_poll_budget : SL_BURST;
	const uint32_t tx_budget = x->tx.size;

	/* Copy mode charges packets to the socket; the tx ring must be the limit. */
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

static struct xsk_port *new_port(struct sl_umem *u, uint16_t queue, uint8_t index)
{
	const size_t len = (sizeof(struct xsk_port) + 63) & ~(size_t)63;
	struct xsk_port *x = aligned_alloc(64, len);

	if (!x)
		return NULL;
	memset(x, 0, len);
	x->port.ops = &xsk_ops;
	x->port.umem = u;
	x->port.queue = queue;
	x->port.index = index;
	x->ctl_fd = -1;
	return x;
}

static void lift_memlock(void)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	setrlimit(RLIMIT_MEMLOCK, &none);
}

int sl_xsk_open(struct sl_port **out, struct sl_umem *u, const struct sl_xdp *xdp, uint16_t queue,
		const struct sl_xsk_options *o, struct sl_err *err)
{
	struct xsk_port *x = new_port(u, queue, o->port_index);
	int res;

	*out = NULL;
	if (!x)
		return sl_fail(err, -ENOMEM, "out of memory");
	if (queue >= SL_MAX_QUEUES) {
		sl_err_set(err, "%s queue %u: queues from 0 to %d are supported", xdp->ifname,
			   queue, SL_MAX_QUEUES - 1);
		res = -E2BIG;
		goto fail;
	}
	res = describe_port(x, xdp->ifname, xdp->generic, err);
	if (res)
		goto fail;
	lift_memlock();
	res = bind_best(x, o, xdp->generic);
	if (res) {
		bind_failed(x, res, err);
		goto fail;
	}
	x->port.fd = xsk_socket__fd(x->xsk);
	x->ctl_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	x->xdp = xdp;
	tune_socket(x, o);
	x->fill_target = x->fill.size < u->frame_cnt / 4 ? x->fill.size : u->frame_cnt / 4;
	refill_ring(x);
	x->queue = &xdp->queues[queue];
	x->open_share = (x->fill_target + 1) / 2;
	x->open_limit = x->queue->opens;
	renew_open_limit(x);
	res = sl_xdp_set_socket(xdp, queue, o->worker, x->port.fd);
	if (res) {
		sl_err_set(err, "%s queue %u: cannot enter the socket into sl_xsks: %s",
			   xdp->ifname, queue, strerror(-res));
		goto fail;
	}
	x->registered = true;
	*out = &x->port;
	return 0;
fail:
	xsk_close(&x->port);
	return res;
}

void sl_xsk_stats(const struct sl_port *p, struct sl_port_stats *out)
{
	struct xdp_statistics st = {0};
	socklen_t len = sizeof(st);

	*out = p->stats;
	if (getsockopt(p->fd, SOL_XDP, XDP_STATISTICS, &st, &len) < 0)
		return;
	out->rx_dropped = st.rx_dropped;
	out->rx_ring_full = st.rx_ring_full;
	out->fill_empty = st.rx_fill_ring_empty_descs;
	out->tx_invalid = st.tx_invalid_descs;
}

int sl_xsk_status(const struct sl_port *p, struct sl_err *why)
{
	struct ifreq ifr = {.ifr_ifindex = p->ifindex};
	const int fd = self_const(p)->ctl_fd;
	uint32_t queues;

	if (ioctl(fd, SIOCGIFNAME, &ifr) < 0)
		return sl_fail(why, -ENODEV, "interface %s is gone", p->ifname);
	if (ioctl(fd, SIOCGIFFLAGS, &ifr) < 0 || !(ifr.ifr_flags & IFF_UP))
		return sl_fail(why, -ENETDOWN, "interface %s is down", p->ifname);
	queues = sl_probe_queues(p->ifname);
	if (queues > self_const(p)->queue_cnt)
		return sl_fail(
			why, -ENOTSUP,
			"interface %s has %u receive queues, %u at the start: packets of the "
			"others are dropped until a restart, or `ethtool -L %s` with %u again",
			p->ifname, queues, self_const(p)->queue_cnt, p->ifname,
			self_const(p)->queue_cnt);
	return 0;
}

unsigned sl_xsk_tx_unsent(const struct sl_port *p)
{
	return tx_unsent(self_const(p));
}

int sl_xsk_trial(const char *ifname, uint16_t queue, bool generic, struct sl_umem *u)
{
	const struct sl_xsk_options o = {.rx_size = 64, .tx_size = 64, .fill_size = 64};
	struct xsk_port *x = new_port(u, queue, 0);
	int res;

	if (!x)
		return -ENOMEM;
	snprintf(x->port.ifname, sizeof(x->port.ifname), "%.15s", ifname);
	lift_memlock();
	res = bind_best(x, &o, generic);
	if (!res)
		res = x->port.mode;
	xsk_close(&x->port);
	return res;
}
