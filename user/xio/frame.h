/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames: a worker's only memory of packets and payload.
 *
 * A worker's UMEM has frames of 2 KiB (4 KiB for an MTU above 1500), registered with AF_XDP and
 * RDMA devices. Each has a struct sl_frame, a cache line, and exactly one owner:
 *
 *        +--------------------------- sl_frame_put ------------------------------+
 *        v                                                                       |
 *      FREE -> FILL -> RX --+--> (processed) ------------------------------------+
 *        |                  +--> HELD  by a connection's receive queue or an exchange's body
 *        +-> HELD ----------|
 *        +-> TX <-> UNACKED    built by tcp or udp; TX: in the tx ring, the kernel reads it
 *
 * A completion makes a TX frame UNACKED if `retain` is set, else FREE. An earlier acknowledgement
 * clears retain.
 */
#ifndef SL_XIO_FRAME_H
#define SL_XIO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "base/check.h"

enum sl_frame_state {
	SL_FRAME_FREE,
	SL_FRAME_FILL,
	SL_FRAME_RX,
	SL_FRAME_HELD,
	SL_FRAME_TX,
	SL_FRAME_UNACKED,
	SL_FRAME_STATE_CNT,
};

enum {
	SL_FRAME_HEADROOM = 128, /* Ethernet + 2 VLAN + IPv6 + TCP with options: 122 */
};

struct sl_frame {
	struct sl_frame *next;
	uint8_t *data;
	uint32_t index; /* constant */
	uint16_t len;
	uint8_t state;   /* enum sl_frame_state */
	uint8_t port;    /* receives (rx) or sends (tx) the frame */
	uint8_t retain;  /* tx: keep after completion */
	uint8_t flags;   /* owner's; rx: enum sl_net_flags */
	uint16_t l3_off; /* rx: IP header, from the frame's start */
	uint32_t seq;    /* tcp: of the first payload byte */
	uint64_t rx_ns;  /* rx: stamped by XDP, 0: unknown */
	union {
		uint64_t xmit_ns; /* tcp tx: last transmission */
		uint64_t take_ns; /* rx: taken by user space */
	};
	union {
		struct {
			uint16_t payload_off; /* tcp tx: from data */
			uint16_t payload_len;
		};
		uint32_t sender; /* rx, by net: sl_net_sender() */
	};
	uint8_t xmit_cnt;
	uint8_t family;  /* rx, by net: 4 or 6 */
	uint16_t l2_off; /* rx, by net: Ethernet header, as l3_off */
	union {
		uint64_t flow_hash;   /* rx, by net: sl_flow_hash() */
		uint64_t payload_sum; /* tcp tx: of the payload, partial */
		struct {
			uint32_t holder_prev, holder_next;
		};
	};
};
_Static_assert(sizeof(struct sl_frame) == 64, "one cache line per frame");

struct sl_umem {
	uint8_t *area;
	size_t area_len;
	uint32_t frame_size;
	uint32_t frame_shift;
	uint32_t frame_cnt;
	struct sl_frame *frames;
	struct sl_frame **free; /* stack */
	uint32_t free_cnt;
	uint32_t low_water; /* below: no new bodies; below half: no new connections */
	uint16_t *lent;     /* SL_DEBUG: sends that refer to the frame */
};

/* frame_size: a power of two from 2048 to 65536. Returns 0, -EINVAL or -ENOMEM. */
int sl_umem_init(struct sl_umem *u, uint32_t frame_size, uint32_t frame_cnt);
/* Frees the memory. All frames must be free or forgotten, all ports closed. */
void sl_umem_fini(struct sl_umem *u);

/* Counts frames per state, out[SL_FRAME_STATE_CNT], for tests. */
void sl_umem_census(const struct sl_umem *u, uint32_t *out);

/* Convert a frame to its memory, and an address in the UMEM to its frame. */
static inline uint8_t *sl_frame_base(const struct sl_umem *u, const struct sl_frame *f)
{
	return u->area + ((size_t)f->index << u->frame_shift);
}
static inline struct sl_frame *sl_frame_at(const struct sl_umem *u, uint64_t addr)
{
	return &u->frames[addr >> u->frame_shift];
}

/* Returns the free bytes behind the data. */
static inline size_t sl_frame_tailroom(const struct sl_umem *u, const struct sl_frame *f)
{
	return (size_t)(sl_frame_base(u, f) + u->frame_size - (f->data + f->len));
}

/* Debug builds: check the step, poison free frames. */
void sl_frame_check_get(struct sl_umem *u, struct sl_frame *f, enum sl_frame_state state);
void sl_frame_check_put(struct sl_umem *u, struct sl_frame *f);
void sl_frame_check_to(struct sl_umem *u, struct sl_frame *f, enum sl_frame_state state);
/* Same for bytes that a transport reads. step: 1: begins; -1: ended; 0: reads now. */
void sl_frame_check_lent(struct sl_umem *u, const void *bytes, int step);
#ifdef SL_DEBUG
#define SL_FRAME_CHECK(call) (call)
#else
#define SL_FRAME_CHECK(call) ((void)0)
#endif

/*
 * Takes a free frame into `state`, with data = base + headroom and other fields zero. Returns NULL
 * if none is left; the caller counts SL_DROP_NO_FRAME.
 */
static inline struct sl_frame *sl_frame_get(struct sl_umem *u, enum sl_frame_state state,
					    uint16_t headroom)
{
	if (u->free_cnt == 0)
		return NULL;
	struct sl_frame *f = u->free[--u->free_cnt];

	SL_FRAME_CHECK(sl_frame_check_get(u, f, state));
	*f = (struct sl_frame){
		.index = f->index,
		.state = (uint8_t)state,
		.data = sl_frame_base(u, f) + headroom,
	};
	return f;
}

/* Frees a frame, not in a ring. */
static inline void sl_frame_put(struct sl_umem *u, struct sl_frame *f)
{
	SL_FRAME_CHECK(sl_frame_check_put(u, f));
	f->state = SL_FRAME_FREE;
	u->free[u->free_cnt++] = f;
}

/* Changes the state; SL_FRAME_CHECK rejects wrong ones. */
static inline void sl_frame_to(struct sl_umem *u, struct sl_frame *f, enum sl_frame_state state)
{
	(void)u;
	SL_FRAME_CHECK(sl_frame_check_to(u, f, state));
	f->state = (uint8_t)state;
}

/* Frees a sent frame, or makes it UNACKED (retain). Called by ports. */
static inline void sl_frame_tx_done(struct sl_umem *u, struct sl_frame *f)
{
	if (f->retain)
		sl_frame_to(u, f, SL_FRAME_UNACKED);
	else
		sl_frame_put(u, f);
}

/* Frees a frame of tcp, at once or after transmission. */
static inline void sl_frame_acked(struct sl_umem *u, struct sl_frame *f)
{
	if (f->state == SL_FRAME_TX)
		f->retain = 0;
	else
		sl_frame_put(u, f);
}

/* Frees a list linked by `next`. */
static inline void sl_frame_put_list(struct sl_umem *u, struct sl_frame *head)
{
	while (head) {
		struct sl_frame *next = head->next;

		sl_frame_put(u, head);
		head = next;
	}
}

/* Returns true if few frames are free. */
static inline bool sl_umem_low(const struct sl_umem *u)
{
	return u->free_cnt < u->low_water;
}

/*
 * Bytes offered to the next layer. A layer that keeps all of them without a copy sets `frame` to
 * NULL and owns it in the state HELD.
 */
struct sl_chunk {
	const uint8_t *ptr;
	size_t len;
	struct sl_frame *frame; /* NULL: copy only */
	uint64_t rx_ns;
	uint64_t take_ns;
};

#endif
