/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port on AF_XDP.
 *
 *   free frames --flush--> fill ring --kernel--> rx ring --rx_burst--> caller
 *   caller --tx_burst--> tx ring --kernel--> completion ring --flush--> free, or UNACKED
 *
 * A worker may sleep in epoll on `fd` if rx_burst returned nothing after a flush. Completions wake
 * no thread. In copy mode the kernel sends inside flush(); the rest (tx_unsent) needs another flush
 * soon.
 *
 * An interface that is down or gone makes rx_burst return nothing; sl_xsk_status() reports it.
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
	uint32_t fill_size, comp_size; /* 0: 2048, and the value of tx_size */
	enum sl_xsk_wish wish;
	uint8_t port_index;        /* sl_frame.port */
	uint32_t worker;           /* written to sl_queues */
	uint32_t busy_poll_us;     /* 0: off; else with SO_PREFER_BUSY_POLL */
	uint32_t busy_poll_budget; /* packets per poll; 0: 64 */
};

/*
 * Binds, fills the fill ring with at most a quarter of the UMEM, then registers with the XDP
 * program. Returns 0, or -errno and a line in err.
 */
int sl_xsk_open(struct sl_port **out, struct sl_umem *u, const struct sl_xdp *x, uint16_t queue,
		const struct sl_xsk_options *o, struct sl_err *err);

/*
 * The same in steps, for a queue that does not exist yet. The first needs the capabilities of
 * sl_xsk_open(), the others do not. The second binds the port as `like`, a port of the same
 * interface, is bound (NULL: in copy mode). Then the worker may add the port; it must set
 * port->index before. A port that could not be bound can only be closed.
 */
int sl_xsk_prepare(struct sl_port **out, struct sl_umem *u, const struct sl_xdp *x, uint16_t queue,
		   const struct sl_xsk_options *o, struct sl_err *err);
int sl_xsk_bind(struct sl_port *p, const struct sl_port *like, struct sl_err *err);
int sl_xsk_register(struct sl_port *p, struct sl_err *err);

/* Sets the number of queues that sl_xsk_status() expects; initially that of the open. */
void sl_xsk_expect_queues(struct sl_port *p, uint32_t cnt);

/* Returns the counters of the port and of its socket: a system call. Any thread. */
void sl_xsk_stats(const struct sl_port *p, struct sl_port_stats *out);

/* Returns 0, or -ENETDOWN or -ENODEV and a line in why. Any thread. */
int sl_xsk_status(const struct sl_port *p, struct sl_err *why);

/* Returns the frames that the kernel has not looked at. */
unsigned sl_xsk_tx_unsent(const struct sl_port *p);

/* Returns the bytes that a frame needs for that MTU. */
uint32_t sl_xsk_frame_need(uint32_t mtu);

/*
 * Binds without an XDP program and closes again. *chains: see sl_port. Returns enum sl_port_mode or
 * -errno.
 */
int sl_xsk_trial(const char *ifname, uint16_t queue, bool generic, struct sl_umem *u, bool *chains);

#endif
