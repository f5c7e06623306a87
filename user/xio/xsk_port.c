/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/check.h"
#include "base/cpu.h"
#include "xio/probe.h"
#include "xio/xsk.h"

enum {
	REFILL_BATCH = 32,
	KICK_PORTION = 32, /* default of XDP_MAX_TX_SKB_BUDGET */
};

static struct sl_frame *take_frame(struct xsk_port *x, const struct xdp_desc *desc, uint64_t now_ns)
{
	struct sl_umem *u = x->port.umem;
	struct sl_frame *f = sl_frame_at(u, desc->addr);
	struct sl_rx_meta meta;

	sl_frame_to(u, f, SL_FRAME_RX);
	f->data = u->area + desc->addr;
	f->len = (uint16_t)desc->len;
	f->rx_ns = 0;
	/* Cleared, as a later packet may have none. */
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
 * SYNs and datagrams may occupy half of the frames: a flood never takes an existing connection's
 * last one.
 */
void sl_xsk_renew_open_limit(struct xsk_port *x)
{
	const uint32_t opens = __atomic_load_n(&x->queue->opens, __ATOMIC_RELAXED);
	uint32_t waiting;

	if (x->open_limit - opens == x->open_share)
		return;
	waiting = __atomic_load_n(x->rx.producer, __ATOMIC_RELAXED) - x->rx.cached_cons;
	x->open_limit = opens + (waiting < x->open_share ? x->open_share - waiting : 0);
	__atomic_store_n(&x->queue->open_limit, x->open_limit, __ATOMIC_RELAXED);
}

static void drop_part(struct xsk_port *x, struct sl_frame *f)
{
	x->port.stats.rx_dropped++;
	sl_frame_put(x->port.umem, f);
}

static uint32_t split_chains(struct xsk_port *x, struct sl_frame **frames, uint32_t idx,
			     uint32_t cnt)
{
	struct sl_frame *burst[SL_BURST];
	struct sl_rx_chain *c = &x->chain;
	uint32_t kept = 0;

	memcpy(burst, frames, cnt * sizeof(frames[0]));
	for (uint32_t i = 0; i < cnt; i++) {
		bool more = xsk_ring_cons__rx_desc(&x->rx, idx + i)->options & XDP_PKT_CONTD;
		enum sl_rx_chain_verdict verdict = sl_rx_chain_take(c, burst[i], more);

		if (verdict == SL_RX_CHAIN_WAIT)
			continue;
		for (uint32_t n = 0; n < c->frame_cnt; n++) {
			if (verdict == SL_RX_CHAIN_PASS)
				frames[kept++] = c->frames[n];
			else
				drop_part(x, c->frames[n]);
		}
		c->frame_cnt = 0;
	}
	return kept;
}

static unsigned xsk_rx_burst(struct sl_port *p, struct sl_frame **frames, unsigned max,
			     uint64_t now_ns)
{
	struct xsk_port *x = sl_xsk_self(p);
	uint32_t idx, kept, cnt = xsk_ring_cons__peek(&x->rx, max - x->chain.frame_cnt, &idx);

	if (cnt == 0)
		return 0;
	for (uint32_t i = 0; i < cnt; i++) {
		uint64_t addr = xsk_ring_cons__rx_desc(&x->rx, idx + i)->addr;

		__builtin_prefetch(p->umem->area + addr);
		__builtin_prefetch(sl_frame_at(p->umem, addr), 1);
	}
	for (uint32_t i = 0; i < cnt; i++)
		frames[i] = take_frame(x, xsk_ring_cons__rx_desc(&x->rx, idx + i), now_ns);
	kept = sl_unlikely(p->chains) ? split_chains(x, frames, idx, cnt) : cnt;
	xsk_ring_cons__release(&x->rx, cnt);
	sl_xsk_renew_open_limit(x);
	x->filled -= cnt;
	p->stats.rx_packets += cnt;
	return kept;
}

static unsigned xsk_tx_burst(struct sl_port *p, struct sl_frame **frames, unsigned cnt)
{
	struct xsk_port *x = sl_xsk_self(p);
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

void sl_xsk_refill(struct xsk_port *x)
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

/* Copy mode sends a portion per call; EAGAIN means more. */
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
	struct xsk_port *x = sl_xsk_self(p);

	reap_completions(x);
	sl_xsk_refill(x);
	kick_tx(x);
	if (!x->busy_poll && !xsk_ring_prod__needs_wakeup(&x->fill))
		return;
	x->port.stats.rx_wakeups++;
	recvfrom(x->port.fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static unsigned xsk_tx_pending(const struct sl_port *p)
{
	return sl_xsk_self_const(p)->tx_pending;
}

void sl_xsk_delete_socket(struct xsk_port *x)
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
	struct xsk_port *x = sl_xsk_self(p);
	struct sl_umem *u;

	if (x->registered)
		sl_xdp_clear_socket(x->xdp, p->queue);
	sl_xsk_delete_socket(x);
	u = p->umem;
	for (uint32_t i = 0; i < x->chain.frame_cnt; i++)
		sl_frame_put(u, x->chain.frames[i]);
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

const struct sl_port_ops sl_xsk_ops = {
	.rx_burst = xsk_rx_burst,
	.tx_burst = xsk_tx_burst,
	.flush = xsk_flush,
	.tx_pending = xsk_tx_pending,
	.close = xsk_close,
};

void sl_xsk_stats(const struct sl_port *p, struct sl_port_stats *out)
{
	struct xdp_statistics st = {0};
	socklen_t len = sizeof(st);

	*out = p->stats;
	if (getsockopt(p->fd, SOL_XDP, XDP_STATISTICS, &st, &len) < 0)
		return;
	out->rx_dropped += st.rx_dropped;
	out->rx_ring_full = st.rx_ring_full;
	out->fill_empty = st.rx_fill_ring_empty_descs;
	out->tx_invalid = st.tx_invalid_descs;
}

int sl_xsk_status(const struct sl_port *p, struct sl_err *why)
{
	struct ifreq ifr = {.ifr_ifindex = p->ifindex};
	const int fd = sl_xsk_self_const(p)->ctl_fd;
	uint32_t queues;

	if (ioctl(fd, SIOCGIFNAME, &ifr) < 0)
		return sl_fail(why, -ENODEV, "interface %s is gone", p->ifname);
	if (ioctl(fd, SIOCGIFFLAGS, &ifr) < 0 || !(ifr.ifr_flags & IFF_UP))
		return sl_fail(why, -ENETDOWN, "interface %s is down", p->ifname);
	queues = sl_probe_queues(p->ifname);
	if (queues > sl_xsk_self_const(p)->queue_cnt)
		return sl_fail(
			why, -ENOTSUP,
			"interface %s has %u receive queues, and %u can be served: packets of the "
			"others are dropped until a restart, or `ethtool -L %s` with %u again",
			p->ifname, queues, sl_xsk_self_const(p)->queue_cnt, p->ifname,
			sl_xsk_self_const(p)->queue_cnt);
	return 0;
}

unsigned sl_xsk_tx_unsent(const struct sl_port *p)
{
	return tx_unsent(sl_xsk_self_const(p));
}
