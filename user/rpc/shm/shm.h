/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm transport: a sealed memfd per channel, and the Unix socket that passed it to the dialler.
 *
 *   memfd:  control page | slots to acceptor | slots to dialler | bulk to acceptor | to dialler
 *
 *   sender:    bytes into slot or bulk ring, then slot.seq = number of the message (release)
 *   receiver:  sees the next number (acquire), copies the header, checks the copy
 *
 * A hostile peer may write anywhere at any time. Nothing in the memory is an index or a length of
 * ours: offsets follow from struct sl_credits. The size is sealed, so no access can fault.
 *
 * Sleeping: an end sets its `sleeping` bits, then looks once more. The other end publishes, checks
 * the bits behind a full fence, and sends a one-byte packet with MSG_DONTWAIT. A write to the
 * peer's eventfd could block.
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
	/* a message costs a tenth at most */
	SL_SHM_SLICE_MIN = 128 << 10,
};

/* Start value: rate of a copy between two cores. */
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
	/* SL_SHM_SLEEP_ bits without a wake-up so far */
	uint32_t unflushed;
	bool armed, gone;
	void *map;
	size_t map_len;
};

struct sl_shm_geometry {
	uint32_t slots, bulk_len;
};

/* Returns true if the sizes are powers of two within the limits of the protocol. */
bool sl_shm_geometry_ok(const struct sl_shm_geometry *g);
size_t sl_shm_len(const struct sl_shm_geometry *g);

/* Returns a sealed memfd, or -errno. */
int sl_shm_memory_create(const struct sl_shm_geometry *g);

/*
 * Creates the transport. Owns the socket on success, never the memfd. Returns NULL and errno:
 * EBADMSG if the memfd is not as required.
 */
struct sl_shm *sl_shm_new(int sock, int memfd, const struct sl_shm_geometry *g, bool acceptor);

/* event.c, see struct sl_transport_ops */
bool sl_shm_arm(struct sl_transport *t, bool want_room);
void sl_shm_disarm(struct sl_transport *t);
int sl_shm_check(struct sl_transport *t);

/* slots.c */
extern const struct sl_transport_ops sl_shm_ops;
void sl_shm_wake_peer(struct sl_shm *s);
void sl_shm_close(struct sl_transport *t);

static inline uint8_t *sl_shm_slot_at(const uint8_t *slots, uint32_t mask, uint32_t seq)
{
	return (uint8_t *)(uintptr_t)slots + (size_t)(seq & mask) * SL_SHM_SLOT_STRIDE;
}

/* See struct sl_transport_scheme. */
struct sl_rpc_listener *sl_shm_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err);
struct sl_transport *sl_shm_dial(const struct sl_rpc_dial_options *opt, const char *address,
				 struct sl_err *err);

#endif
