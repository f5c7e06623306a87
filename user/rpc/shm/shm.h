/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm transport: a sealed memfd per channel, and the Unix socket that passed it.
 *
 *   memfd:  control page | slots to acceptor | slots to dialler | bulk to acceptor | to dialler
 *
 *   sender:    bytes into slot or bulk ring, then slot.seq = number of the message (release)
 *   receiver:  sees the next number (acquire), copies the header, checks the copy
 *
 * A hostile peer may write anywhere. Nothing in the memory is an index or a length of ours: offsets
 * follow from struct sl_credits. The size is sealed, so no access can fault.
 *
 * Sleeping: an end sets its `sleeping` bits, then looks once more. The other end publishes, checks
 * the bits behind a full fence, and sends a one-byte packet.
 */
#ifndef SL_RPC_SHM_SHM_H
#define SL_RPC_SHM_SHM_H

#include <stdatomic.h>
#include "base/cpu.h"
#include "base/err.h"
#include "rpc/transport.h"

enum {
	SL_SHM_SLOT_STRIDE = 4160, /* not 4096: all headers would share one cache set */
	SL_SHM_PAGE = 4096,
	SL_SHM_SLICE_MIN = 128 << 10,
};

/* Start value: a copy between two cores. */
#define SL_SHM_RATE_BPS (UINT64_C(128) * 1000 * 1000 * 1000)

struct sl_shm_slot {
	_Atomic uint32_t seq;
	uint32_t reserved;
	struct sl_rpc_header header;
	uint8_t body[SL_RPC_SLOT_SIZE - sizeof(struct sl_rpc_header)];
};
_Static_assert(sizeof(struct sl_shm_slot) <= SL_SHM_SLOT_STRIDE, "slot");

enum { SL_SHM_SLEEP_MESSAGE = 1, SL_SHM_SLEEP_ROOM = 2 };

/* One side sets `sleeping`; the peer that rings clears it. */
struct sl_shm_side {
	_Atomic uint32_t consumed SL_ALIGNED(SL_CACHELINE); /* hint for posted_bytes */
	_Atomic uint32_t sleeping SL_ALIGNED(SL_CACHELINE);
};

struct sl_shm_posted {
	uint64_t bulk_end;
	uint32_t body_len;
};

struct sl_shm {
	struct sl_transport base;
	struct sl_shm_side *mine, *peer;
	uint8_t *tx_slots, *tx_bulk;
	const uint8_t *rx_slots, *rx_bulk;
	uint32_t mask; /* slots - 1 */
	uint32_t rx_next;
	uint32_t lent;
	uint32_t published;
	uint64_t rx_bulk_head;
	uint64_t *rx_bulk_end;        /* per slot */
	struct sl_shm_posted *posted; /* per slot */
	/* SL_SHM_SLEEP_ bits not woken yet */
	uint32_t unflushed;
	bool armed, gone;
	void *map;
	size_t map_len;
};

struct sl_shm_geometry {
	uint32_t slots, bulk_len;
};

/* Returns true for powers of two within the limits. */
bool sl_shm_geometry_ok(const struct sl_shm_geometry *g);
/* Returns the size of the memfd. */
size_t sl_shm_len(const struct sl_shm_geometry *g);

/* Returns a sealed memfd, which the caller closes, or -errno. */
int sl_shm_memory_create(const struct sl_shm_geometry *g);

/* Maps the memfd. Owns the socket on success, never the memfd. NULL: errno; EBADMSG: bad memfd. */
struct sl_shm *sl_shm_new(int sock, int memfd, const struct sl_shm_geometry *g, bool acceptor);

/* Requests a packet for messages, and for room if wanted. False: some came. */
bool sl_shm_arm(struct sl_transport *t, bool want_room);
/* Ends that request. */
void sl_shm_disarm(struct sl_transport *t);
/* Reads the peer's wake-up packets. Returns 0, or -ENOTCONN: the peer has closed. */
int sl_shm_check(struct sl_transport *t);

extern const struct sl_transport_ops sl_shm_ops;
/* Sends a wake-up packet if the peer sleeps. */
void sl_shm_wake_peer(struct sl_shm *s);
/* Closes the socket, unmaps the memory and frees the transport. */
void sl_shm_close(struct sl_transport *t);

/* Returns the slot of message `seq`. */
static inline uint8_t *sl_shm_slot_at(const uint8_t *slots, uint32_t mask, uint32_t seq)
{
	return (uint8_t *)(uintptr_t)slots + (size_t)(seq & mask) * SL_SHM_SLOT_STRIDE;
}

/* Listens at a path. NULL: see err. */
struct sl_rpc_listener *sl_shm_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);
/* Connects to a socket of a trusted user; blocks. NULL: see err. */
struct sl_transport *sl_shm_dial(const struct sl_rpc_dial_options *opt, const char *address,
				 struct sl_err *err);

#endif
