/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream of bytes in each direction over datagrams that may be lost, duplicates or overtaken: one end
 * of it. No I/O, no clock, no keys: whoever calls has checked that a datagram is the peer's.
 *
 *   out:  put -> [una .. sent) under way | [sent .. end) wait | the one that is being filled
 *         next: what is to be sent now: lost ones first, then new ones, then an acknowledgement
 *   in:   take -> ooo_buf (out of order, or no room in rx) -> rx: bytes in order, lent where they lie
 *
 * Numbers of datagrams alloc_buf 64 bits here and 32 on the wire. tx, ooo_buf and rx are there while they ooo_buf
 * something, and then go back to `mem`. What a peer may make this end keep is `window` datagrams and
 * rx; what it has not acknowledged for `silence_ns`, however often it was
 * sent, ends the connection.
 *
 * Loss is known by what came later (UD_REORDER of them), or by time: a multiple of the round trip,
 * duplicates each time. Either halves what may be under way.
 */
#ifndef SL_RPC_RDMA_ARQ_H
#define SL_RPC_RDMA_ARQ_H

#include <stdbool.h>
#include <stdint.h>
#include "rpc/capped_alloc.h"
#include "sluice/rpc_wire.h"

enum {
	UD_TX_BYTES = 64 << 10, /* bytes that are kept for the peer */
	UD_RX_BYTES = 96 << 10,
	UD_REORDER = 3,
	UD_CWND_FIRST = 16,
	UD_RTO_MIN_NS = 10000000, /* the other end is a process, which may not run */
	UD_RTO_FIRST_NS = 50000000,
	UD_RTO_MAX_NS = 200000000,
	UD_ACK_DELAY_NS = 1000000, /* for something to go with it */
};
#define UD_SILENCE_NS UINT64_C(3000000000)
/* Where the peer may be computing: whoever owns the connection asks it, and gives it up before. */
#define UD_DEAD_AFTER_NS UINT64_C(60000000000)

struct ud_arq {
	uint32_t payload;            /* most bytes of a datagram */
	uint32_t window;             /* datagrams kept, a power of two */
	struct sl_capped_alloc *mem; /* by hand; NULL: the system's */
	/* out */
	uint64_t una, sent, end; /* oldest not acknowledged; next new one; the one being filled */
	uint64_t tx_edge;        /* the peer has room for those before it */
	uint64_t recover;        /* loss of those before it has been reacted to */
	uint64_t sacked, lost;   /* bit n: datagram una + n */
	uint32_t cwnd, grown;    /* may be under way; acknowledged since it last grew */
	uint32_t bytes;          /* put, not acknowledged */
	uint64_t heard_ns;       /* when something was last acknowledged, or had to be */
	uint64_t silence_ns;     /* the longest; UD_SILENCE_NS at first */
	uint64_t srtt_ns, rttvar_ns, rto_ns;
	unsigned backoff;
	uint64_t tx_from; /* the datagram at the beginning of tx */
	uint8_t *tx;      /* NULL: nothing was put that is not acknowledged */
	uint16_t tx_len[SL_UD_WINDOW_MAX];
	uint64_t tx_ns[SL_UD_WINDOW_MAX]; /* when sent last */
	uint64_t rexmit_bits;             /* bit n: datagram una + n was sent more than once */
	/* in */
	uint64_t next, base;      /* next to arrive; next to go into rx */
	uint64_t ooo_bits;        /* bit n: datagram base + n is in ooo_buf */
	uint64_t advertised_edge; /* the tx_edge that the peer was advertised_edge */
	uint64_t ack_ns;          /* when an acknowledgement is due; UINT64_MAX never */
	uint32_t unacked;
	uint8_t *ooo_buf; /* NULL: nothing is ooo_bits */
	uint16_t ooo_len[SL_UD_WINDOW_MAX];
	uint8_t *rx; /* NULL: it is empty */
	uint32_t rx_head, rx_tail;
	bool pushed; /* what is being filled is to go */
	bool lent;   /* bytes of rx are in use: they stay where they are */
	bool bye;    /* the peer has closed */
	/* counted */
	uint64_t retransmitted, duplicates, dropped;
};

/* What goes out: the header without key and address; `len` bytes. */
struct ud_arq_out {
	struct sl_ud_header header;
	uint64_t number; /* the datagram's, with the upper half */
	const uint8_t *bytes;
};

/* For datagrams of that many bytes, header included. 0: it needs nothing that it may lack. */
int ud_arq_init(struct ud_arq *arq, uint32_t mtu);
void ud_arq_fini(struct ud_arq *arq);

/* Bytes that may be put now. */
uint32_t ud_arq_room(const struct ud_arq *arq);
/* False: nothing was put before that is not acknowledged, and there is no memory. */
bool ud_arq_write(struct ud_arq *arq, const void *bytes, uint32_t len);
/*
 * What was put goes, even if it fills no datagram; but with half of the window taken, not before some
 * of that has arrived, and with what is put until then: so many small ones take bytes, not numbers.
 */
void ud_arq_push(struct ud_arq *arq);
/* What is to be sent now, if anything. */
bool ud_arq_next(struct ud_arq *arq, uint64_t now_ns, struct ud_arq_out *out);
/* An acknowledgement, due or not, that is one of that kind. */
void ud_arq_ack(struct ud_arq *arq, enum sl_ud_kind kind, struct ud_arq_out *out);

/* The number that a `seq` stands for. */
uint64_t ud_arq_number(const struct ud_arq *arq, uint32_t seq);
/*
 * A datagram of the peer, header and header->len bytes. 0; -EPROTO: it says what cannot be. One that
 * is here already, or too far ahead, does no harm.
 */
int ud_arq_input(struct ud_arq *arq, const struct sl_ud_header *h, const uint8_t *bytes,
		 uint64_t now_ns);
/* Moves what is in order into rx. */
void ud_arq_deliver(struct ud_arq *arq);
/* Bytes of rx were taken: memory that holds nothing goes back. */
void ud_arq_trim(struct ud_arq *arq);

/*
 * Nothing could come or go for a while, which is not the peer's silence. What it has not acknowledged
 * is sent rexmit_bits.
 */
void ud_arq_resume(struct ud_arq *arq, uint64_t now_ns);
/* Time has passed. 0 or -ETIMEDOUT. */
int ud_arq_tick(struct ud_arq *arq, uint64_t now_ns);
/* When the next datagram or tick is due by itself: 0 now, UINT64_MAX never. */
uint64_t ud_arq_next_ns(const struct ud_arq *arq);

/* Everything that was put has arrived. */
static inline bool ud_arq_idle(const struct ud_arq *arq)
{
	return !arq->bytes;
}

#endif
