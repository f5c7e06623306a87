/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP packets longer than a frame: of local senders with TSO, or an MTU above the frame. They
 * arrive as a chain of frames (Linux 6.6, XDP_USE_SG), which becomes a segment per frame.
 *
 * The headers are copied to each frame, with their own sequence number, lengths and checksums.
 * These are partial if the port allows it. Segments of a partial checksum leave at once. Others
 * wait until the last frame verifies the whole checksum.
 */
#ifndef SL_XIO_RX_CHAIN_H
#define SL_XIO_RX_CHAIN_H

#include <stdbool.h>
#include <stdint.h>
#include "xio/frame.h"

enum {
	SL_RX_CHAIN_HEADER_MAX = 160, /* as SL_FRAME_HEADROOM: 122 */
	SL_RX_CHAIN_FRAMES = 8,       /* 9,000 bytes in frames of 2 KiB: 6 */
};

enum sl_rx_chain_verdict { SL_RX_CHAIN_PASS, SL_RX_CHAIN_WAIT, SL_RX_CHAIN_DROP };

struct sl_rx_chain {
	bool open;
	bool drop;                    /* frames that follow are dropped */
	bool partial_csum;            /* the port's */
	bool whole;                   /* the checksum covers the payload */
	uint8_t family, flags;        /* of the last segment */
	uint16_t l3_off, l4_off, len; /* len: of the header */
	uint32_t seq;                 /* of the next segment */
	uint32_t left;                /* payload that follows */
	uint32_t summed;              /* bytes in sum */
	uint64_t sum;
	uint32_t frame_cnt;
	struct sl_frame *frames[SL_RX_CHAIN_FRAMES];
	uint8_t header[SL_RX_CHAIN_HEADER_MAX];
};

/*
 * Adds a frame with headroom for headers. `more`: the packet continues. The verdict is for all of
 * `frames`. Except after SL_RX_CHAIN_WAIT the caller takes them and sets frame_cnt to 0.
 */
enum sl_rx_chain_verdict sl_rx_chain_take(struct sl_rx_chain *c, struct sl_frame *f, bool more);

#endif
