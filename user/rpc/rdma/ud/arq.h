/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selective-repeat ARQ: one end of reliable byte streams over datagrams. No I/O, no clock, no keys:
 * the caller has authenticated each datagram.
 *
 *   out:  write -> [una .. sent) under way | [sent .. end) waiting | `end` is being filled
 *         next: lost datagrams, then new ones, then an acknowledgement
 *   in:   input -> ooo_buf (out of order, or no room in rx) -> rx: bytes in order, lent in place
 *
 * Numbers have 64 bits here and 32 on the wire. A peer can make this end store at most `window`
 * datagrams and rx.
 *
 * Loss detection: UD_REORDER later datagrams were acknowledged, or the retransmission time-out (RFC
 * 6298) expires. Either halves the congestion window.
 */
#ifndef SL_RPC_RDMA_ARQ_H
#define SL_RPC_RDMA_ARQ_H

#include <stdbool.h>
#include <stdint.h>
#include "rpc/capped_alloc.h"
#include "wire/rpc_wire.h"

enum {
	UD_TX_BYTES = 64 << 10,
	UD_RX_BYTES = 96 << 10,
	UD_REORDER = 3,
	UD_CWND_FIRST = 16,
	UD_RTO_MIN_NS = 10000000, /* the peer's process may not be scheduled */
	UD_RTO_FIRST_NS = 50000000,
	UD_RTO_MAX_NS = 200000000,
	UD_ACK_DELAY_NS = 1000000,
};
#define UD_SILENCE_NS UINT64_C(3000000000)
/* Used if the peer may be computing: the owner probes it. */
#define UD_DEAD_AFTER_NS UINT64_C(60000000000)

struct ud_arq {
	uint32_t payload;            /* without header */
	uint32_t window;             /* datagrams, a power of two */
	struct sl_capped_alloc *mem; /* NULL: malloc */
	uint64_t una, sent, end;     /* oldest unacknowledged; next new; being filled */
	uint64_t tx_edge;            /* end of the peer's window */
	uint64_t recover;            /* earlier losses have halved cwnd */
	uint64_t sacked, lost;       /* bit n: datagram una + n */
	uint32_t cwnd, grown;        /* datagrams; acknowledged since it grew */
	uint32_t bytes;              /* unacknowledged */
	uint64_t heard_ns;           /* last datagram with a current ack, or start of the wait */
	uint64_t silence_ns;         /* initially UD_SILENCE_NS */
	uint64_t srtt_ns, rttvar_ns, rto_ns;
	unsigned backoff;
	uint64_t tx_from; /* first datagram in tx */
	uint8_t *tx;
	uint16_t tx_len[SL_UD_WINDOW_MAX];
	uint64_t tx_ns[SL_UD_WINDOW_MAX];
	uint64_t rexmit_bits; /* bit n: una + n was retransmitted */
	uint64_t next, base;  /* next to arrive; next to be moved to rx */
	uint64_t ooo_bits;
	uint64_t advertised_edge; /* end of our window, as told to the peer */
	uint64_t ack_ns;          /* acknowledgement due; UINT64_MAX: never */
	uint32_t unacked;
	uint8_t *ooo_buf; /* NULL: empty */
	uint16_t ooo_len[SL_UD_WINDOW_MAX];
	uint8_t *rx; /* NULL: empty */
	uint32_t rx_head, rx_tail;
	bool pushed; /* the partial datagram may be sent */
	bool lent;   /* rx must not move */
	bool bye;
	uint64_t retransmitted, duplicates, dropped;
};

/* header.len bytes; the header has no address or MAC. */
struct ud_arq_out {
	struct sl_ud_header header;
	uint64_t number;
	const uint8_t *bytes;
};

/* Makes an idle stream. `mtu` includes the header. Returns 0. The caller may set `mem` then. */
int ud_arq_init(struct ud_arq *arq, uint32_t mtu);
/* Frees the buffers. */
void ud_arq_fini(struct ud_arq *arq);

/* Returns how many bytes ud_arq_write() may take. */
uint32_t ud_arq_room(const struct ud_arq *arq);
/* Queues at most ud_arq_room() bytes. False: no memory, only if nothing is unacknowledged. */
bool ud_arq_write(struct ud_arq *arq, const void *bytes, uint32_t len);
/* Lets a partial datagram be sent, at once or when less than half of the window is in use. */
void ud_arq_push(struct ud_arq *arq);
/*
 * Fills in the next datagram: retransmission, new data or a due acknowledgement. False: none is
 * due.
 */
bool ud_arq_next(struct ud_arq *arq, uint64_t now_ns, struct ud_arq_out *out);
/* Makes an acknowledgement of `kind`, due or not. */
void ud_arq_ack(struct ud_arq *arq, enum sl_ud_kind kind, struct ud_arq_out *out);

/* Returns the 64-bit number of a `seq`. */
uint64_t ud_arq_number(const struct ud_arq *arq, uint32_t seq);
/*
 * Takes a datagram of h->len bytes. Returns 0, or -EPROTO if invalid. Duplicates and datagrams
 * beyond the window are only acknowledged.
 */
int ud_arq_input(struct ud_arq *arq, const struct sl_ud_header *h, const uint8_t *bytes,
		 uint64_t now_ns);
/* Moves bytes in order to rx while they fit. */
void ud_arq_deliver(struct ud_arq *arq);
/* Frees empty buffers. */
void ud_arq_trim(struct ud_arq *arq);

/*
 * Called when sending is possible again. Restarts the silence, and marks all unacknowledged
 * datagrams as lost.
 */
void ud_arq_resume(struct ud_arq *arq, uint64_t now_ns);
/*
 * At a time-out marks all unacknowledged datagrams lost, and shrinks cwnd. Returns 0, or -ETIMEDOUT
 * after `silence_ns`.
 */
int ud_arq_tick(struct ud_arq *arq, uint64_t now_ns);
/* Returns when ud_arq_next() or _tick() is due; 0: now, UINT64_MAX: never. */
uint64_t ud_arq_next_ns(const struct ud_arq *arq);

/* Returns true if all sent bytes are acknowledged. */
static inline bool ud_arq_idle(const struct ud_arq *arq)
{
	return !arq->bytes;
}

#endif
