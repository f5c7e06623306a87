/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interface to packet I/O: a port is one queue of one interface. AF_XDP implements it (xsk_port.h),
 * and tests/support/fake_port.h. Only its worker calls it.
 */
#ifndef SL_XIO_PORT_H
#define SL_XIO_PORT_H

#include <stdint.h>
#include "xio/frame.h"

enum { SL_BURST = 64, SL_MAX_PORTS = 16 };

enum sl_port_mode { SL_PORT_ZEROCOPY, SL_PORT_COPY, SL_PORT_GENERIC, SL_PORT_FAKE };

struct sl_port;

struct sl_port_ops {
	/*
	 * Returns up to max received frames, which the caller owns: state RX, rx_ns and take_ns
	 * set.
	 */
	unsigned (*rx_burst)(struct sl_port *p, struct sl_frame **frames, unsigned max,
			     uint64_t now_ns);
	/* Queues frames (TX, or UNACKED with retain). Returns how many were taken, in order. */
	unsigned (*tx_burst)(struct sl_port *p, struct sl_frame **frames, unsigned cnt);
	/* Once per loop: completions, refill, wake-up of the kernel. */
	void (*flush)(struct sl_port *p);
	unsigned (*tx_pending)(const struct sl_port *p);
	void (*close)(struct sl_port *p);
};

struct sl_port_stats {
	uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes;
	uint64_t rx_wakeups, tx_wakeups;
	uint64_t rx_dropped, rx_ring_full, fill_empty,
		tx_invalid; /* from the kernel: sl_xsk_stats(); rx_dropped also from here */
};

struct sl_port {
	const struct sl_port_ops *ops;
	struct sl_umem *umem;
	uint8_t index; /* in its worker */
	uint8_t mode;  /* enum sl_port_mode */
	uint8_t mac[6];
	uint16_t mtu; /* largest IP packet */
	uint16_t queue;
	bool partial_csum; /* an L4 checksum may be the pseudo-header sum only */
	bool chains;       /* packets longer than a frame arrive, too */
	int fd;            /* readable when frames have arrived; -1: fake */
	int ifindex;
	char ifname[16];
	struct sl_port_stats stats;
};

/* Returns the mode's name for status and logs. */
const char *sl_port_mode_name(enum sl_port_mode mode);

#endif
