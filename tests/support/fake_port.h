/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A port without a kernel, for tests and simulations: the test is the network and the clock.
 *
 *   test -- sl_fake_inject --> rx queue -- rx_burst --> stack under test
 *   test <-- sl_fake_sent  --   tx ring <-- tx_burst -- stack under test
 *           sl_fake_complete: the frames leave the ring, as after a completion of the kernel
 *
 * Frames in the tx ring are in state TX and belong to the "kernel" until the test completes them. A
 * test thus sees what a driver would read, and when. Two ports can be joined by a link
 * (fake_link.h).
 */
#ifndef SL_TESTS_FAKE_PORT_H
#define SL_TESTS_FAKE_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include "xio/port.h"

enum { SL_FAKE_RING = 4096 };

struct sl_fake_port {
	struct sl_port port; /* hand &fake->port to the stack */
	struct sl_frame *rx[SL_FAKE_RING];
	uint32_t rx_head, rx_tail; /* free-running; head is written by the test */
	struct sl_frame *tx[SL_FAKE_RING];
	uint32_t tx_head, tx_tail; /* tail moves by completion */
	uint32_t tx_seen;          /* frames that the link has read */
	uint32_t tx_room;          /* ring size that tx_burst pretends to have */
	bool auto_complete;        /* flush completes everything (default off) */
	uint32_t flush_cnt;
};

/* MAC 02:00:00:00:00:(index + 1), MTU 1500, tx_room SL_FAKE_RING. */
void sl_fake_port_init(struct sl_fake_port *p, struct sl_umem *umem, uint8_t index);

/* Copies a frame into the rx queue. False when there is no frame, no room, or len is too large. */
bool sl_fake_inject(struct sl_fake_port *p, const void *bytes, size_t len, uint64_t rx_ns);

/* Frames in the tx ring, and the i-th of them, oldest first. */
uint32_t sl_fake_sent_cnt(const struct sl_fake_port *p);
struct sl_frame *sl_fake_sent(const struct sl_fake_port *p, uint32_t i);

/* Completes the n oldest (or all there are). Returns how many. */
uint32_t sl_fake_complete(struct sl_fake_port *p, uint32_t n);

#endif
