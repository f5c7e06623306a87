/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP packets that are longer than a frame: a local sender with TSO leaves segmentation to the
 * device. Generic XDP delivers such a packet in a chain of frames (Linux 6.6, XDP_USE_SG):
 *
 *   [ headers | payload ] -> [ payload ] -> [ payload ]      becomes a segment per frame
 *
 * The first frame's headers are copied in front of the others, with their own sequence number,
 * lengths and checksums. Only packets with a partial checksum are accepted, because no router
 * forwards longer ones. One worker.
 */
#ifndef SL_XIO_RX_CHAIN_H
#define SL_XIO_RX_CHAIN_H

#include <stdbool.h>
#include <stdint.h>
#include "xio/frame.h"

enum { SL_RX_CHAIN_HEADER_MAX = 160 /* Ethernet, two tags, IPv6, TCP with options: 122 */ };

struct sl_rx_chain {
	bool open; /* frames follow */
	bool drop; /* and are dropped */
	uint8_t header[SL_RX_CHAIN_HEADER_MAX];
	uint16_t l3_off, l4_off, len; /* len: of the header */
	uint8_t family, flags;        /* of the last segment */
	uint32_t seq;                 /* of the next segment */
	uint32_t left;                /* payload that follows */
};

/*
 * Makes a segment of a received frame. `more`: the packet continues in the next frame. The frame
 * needs room for the headers in front of its data. Returns false if it must be dropped.
 */
bool sl_rx_chain_take(struct sl_rx_chain *c, struct sl_frame *f, bool more);

#endif
