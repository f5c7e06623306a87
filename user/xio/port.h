/* SPDX-License-Identifier: Apache-2.0 */
/* Packet I/O: a port is a queue of an interface. Called only by its worker. */
#ifndef SL_XIO_PORT_H
#define SL_XIO_PORT_H

#include <stdint.h>
#include "xio/frame.h"

enum { SL_BURST = 64, SL_MAX_PORTS = 16, SL_MTU_MAX = 9000, SL_FRAME_SIZE_MAX = 4096 };

enum sl_port_mode { SL_PORT_ZEROCOPY, SL_PORT_COPY, SL_PORT_GENERIC, SL_PORT_FAKE };

struct sl_port;

struct sl_port_ops {
	/* Returns up to max received frames, which the caller owns, with rx_ns and take_ns. */
	unsigned (*rx_burst)(struct sl_port *p, struct sl_frame **frames, unsigned max,
			     uint64_t now_ns);
	/* Queues frames (TX, or UNACKED with retain). Returns how many were taken. */
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
		tx_invalid; /* by the kernel: sl_xsk_stats(); rx_dropped also by the port */
};

struct sl_port {
	const struct sl_port_ops *ops;
	struct sl_umem *umem;
	uint8_t index; /* in its worker */
	uint8_t mode;  /* enum sl_port_mode */
	uint8_t mac[6];
	uint16_t mtu;    /* largest IP packet that a frame holds */
	uint16_t rx_mtu; /* largest one received: in several frames, if `chains` */
	uint16_t queue;
	bool partial_csum; /* an L4 checksum may be the pseudo-header sum only */
	bool chains;       /* packets longer than a frame arrive, too */
	int fd;            /* readable when frames have arrived; -1: fake */
	int ifindex;
	char ifname[16];
	struct sl_port_stats stats;
};

/* Returns the largest IP packet in a received frame of that size. */
uint32_t sl_port_frame_mtu(uint32_t frame_size);

/*
 * Returns true if packets longer than a frame may arrive: by the MTU, or from senders on
 * this host in generic mode. The XDP program and the socket then accept fragments.
 */
bool sl_port_wants_chains(bool generic, uint32_t mtu);

/* Sets mtu and rx_mtu by the interface's. */
void sl_port_set_mtu(struct sl_port *p, uint32_t mtu);

/* Returns a static name. */
const char *sl_port_mode_name(enum sl_port_mode mode);

#endif
