/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins two fake ports by a wire with a clock of its own: rate, delay, queue, and seeded damage.
 *
 *   a.tx ring -> queue (limit) -> rate -> delay (+ jitter) -> { lost, twice, damaged } -> b.rx
 *
 * The same seed and the same calls give the same packets. Frames are copied, as a real link does,
 * and the sender's are completed once they have entered its queue
 * (auto_complete must be off). Nothing is allocated after init.
 */
#ifndef SL_TESTS_FAKE_LINK_H
#define SL_TESTS_FAKE_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include "base/rand.h"
#include "fake_port.h"

struct sl_fake_link_config {
	uint64_t delay_ns;   /* one way */
	uint64_t jitter_ns;  /* uniform on top; reorders when larger than the gap of packets */
	uint64_t bits_per_s; /* 0: infinite */
	uint32_t queue_cnt;  /* packets waiting for the wire; 0: the size of the link's memory */
	double loss, duplicate, corrupt, reorder; /* probabilities per packet */
	double late;         /* share of steps in which frames that were sent stay in the ring */
	uint64_t reorder_ns; /* how much later a reordered packet arrives */
};

struct sl_fake_packet {
	uint64_t due_ns;
	uint64_t order; /* breaks ties, so that equal times stay in order */
	uint32_t len;
	uint32_t slot; /* slot of its bytes */
};

/* One direction. */
struct sl_fake_wire {
	struct sl_fake_link_config cfg;
	struct sl_prng prng;
	struct sl_fake_packet *heap; /* ordered by due_ns, order */
	uint32_t *free_slot;
	uint8_t *bytes;
	uint32_t cap, cnt, frame_len;
	uint64_t busy_until_ns;
	uint64_t order;
	uint64_t sent, lost, duplicated, corrupted, reordered, queue_full, delivered, rx_full;
};

struct sl_fake_link {
	struct sl_fake_port *port[2];
	struct sl_fake_wire wire[2]; /* wire[i] carries what port[i] sends */
};

/* cap: packets under way per direction. Returns 0 or -ENOMEM. */
int sl_fake_link_init(struct sl_fake_link *l, struct sl_fake_port *a, struct sl_fake_port *b,
		      const struct sl_fake_link_config *cfg, uint32_t cap, uint64_t seed);
void sl_fake_link_fini(struct sl_fake_link *l);

/* Takes what the ports have sent and delivers what is due at now_ns. Returns packets delivered. */
uint32_t sl_fake_link_step(struct sl_fake_link *l, uint64_t now_ns);

/* When the next packet is due, UINT64_MAX if none is under way. */
uint64_t sl_fake_link_next_ns(const struct sl_fake_link *l);

#endif
