/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port on AF_XDP:
 *
 *   free frames --flush--> fill ring --kernel--> rx ring --rx_burst--> caller
 *   caller --tx_burst--> tx ring --kernel--> completion ring --flush--> free, or UNACKED
 *
 * A worker may sleep in epoll on `fd` if rx_burst returned nothing after a flush. Completions wake
 * no thread. In copy mode the kernel sends inside flush(); unsent frames (sl_xsk_tx_unsent()) need
 * another flush soon.
 */
#ifndef SL_XIO_XSK_PORT_H
#define SL_XIO_XSK_PORT_H

#include <stddef.h>
#include "base/err.h"
#include "xio/port.h"
#include "xio/xdp/xdp.h"

enum sl_xsk_wish { SL_XSK_BEST, SL_XSK_ZEROCOPY_ONLY, SL_XSK_COPY_ONLY };

struct sl_xsk_options {
	uint32_t rx_size, tx_size;     /* ring entries, powers of two; 0: 2048 */
	uint32_t fill_size, comp_size; /* 0: 2048; tx_size */
	enum sl_xsk_wish wish;
	uint8_t port_index;        /* sl_frame.port */
	uint32_t worker;           /* written to sl_queues */
	uint32_t busy_poll_us;     /* 0: off; else with SO_PREFER_BUSY_POLL */
	uint32_t busy_poll_budget; /* packets per poll; 0: 64 */
};

/*
 * Binds, puts at most a quarter of the UMEM into the fill ring, and registers with the XDP program.
 * Returns 0, or -errno and NULL. ops->close() frees *out.
 */
int sl_xsk_open(struct sl_port **out, struct sl_umem *u, const struct sl_xdp *x, uint16_t queue,
		const struct sl_xsk_options *o, struct sl_err *err);

/*
 * The same in steps, for a future queue. Only sl_xsk_prepare() needs capabilities. sl_xsk_bind()
 * binds in the mode of `like`, a port of the interface; NULL: copy mode. Then the worker
 * sets port->index, adds the port and registers it. After a failed bind it can only be closed.
 */
int sl_xsk_prepare(struct sl_port **out, struct sl_umem *u, const struct sl_xdp *x, uint16_t queue,
		   const struct sl_xsk_options *o, struct sl_err *err);
int sl_xsk_bind(struct sl_port *p, const struct sl_port *like, struct sl_err *err);
int sl_xsk_register(struct sl_port *p, struct sl_err *err);

/* Sets the number for sl_xsk_status(); initially that at the open. */
void sl_xsk_expect_queues(struct sl_port *p, uint32_t cnt);

/* Copies the counters, with the kernel's by a system call. Any thread. */
void sl_xsk_stats(const struct sl_port *p, struct sl_port_stats *out);

/* Returns 0, or -ENETDOWN, -ENODEV or -ENOTSUP (unserved queues) and a line in why. Any thread. */
int sl_xsk_status(const struct sl_port *p, struct sl_err *why);

/* Returns how many frames the kernel has not seen. */
unsigned sl_xsk_tx_unsent(const struct sl_port *p);

/*
 * Binds without an XDP program and closes. `mtu`: of the interface. Returns enum sl_port_mode, with
 * whether longer packets than a frame arrive in *chains, or -errno.
 */
int sl_xsk_trial(const char *ifname, uint16_t queue, bool generic, uint32_t mtu, struct sl_umem *u,
		 bool *chains);

#endif
