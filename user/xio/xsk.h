/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of a port on AF_XDP. */
#ifndef SL_XIO_XSK_H
#define SL_XIO_XSK_H

#include <xdp/xsk.h>
#include "xio/rx_chain.h"
#include "xio/xsk_port.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4) /* Linux 6.6 */
#endif
#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

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
	struct sl_rx_chain chain;

	struct xsk_socket *xsk;
	struct xsk_umem *xsk_umem;
	const struct sl_xdp *xdp;
	bool registered;
	struct sl_xsk_options opt;
	int ctl_fd;         /* for ioctls in the interface's namespace */
	uint32_t queue_cnt; /* expected number of the interface's queues */
	uint32_t mtu;       /* the interface's, when opened */
};

/* Convert the port. */
static inline struct xsk_port *sl_xsk_self(struct sl_port *p)
{
	return (struct xsk_port *)p;
}
static inline const struct xsk_port *sl_xsk_self_const(const struct sl_port *p)
{
	return (const struct xsk_port *)p;
}

extern const struct sl_port_ops sl_xsk_ops;

/* Fills the fill ring from free frames. */
void sl_xsk_refill(struct xsk_port *x);
/* Publishes the SYN limit, if changed: the XDP program reads the cache line. */
void sl_xsk_renew_open_limit(struct xsk_port *x);
/* Deletes socket and UMEM; repeatable. Frames in rings keep their states. */
void sl_xsk_delete_socket(struct xsk_port *x);

#endif
