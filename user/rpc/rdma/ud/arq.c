/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/ud/arq.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/min.h"

static uint32_t slot_of(const struct ud_arq *arq, uint64_t number)
{
	return (uint32_t)number & (arq->window - 1);
}

/*
 * Returns the memory of a datagram in tx, from its beginning after each idle time: few bytes touch
 * few pages.
 */
static uint8_t *tx_at(const struct ud_arq *arq, uint64_t number)
{
	return arq->tx + (size_t)slot_of(arq, number - arq->tx_from) * arq->payload;
}

static uint64_t bit_of(uint64_t number, uint64_t from)
{
	return UINT64_C(1) << (number - from);
}

static uint64_t shift_bits(uint64_t bits, uint64_t by)
{
	return by < 64 ? bits >> by : 0;
}

static uint64_t unacked_of(const struct ud_arq *arq)
{
	uint64_t cnt = arq->sent - arq->una;

	return cnt ? UINT64_MAX >> (64 - cnt) : 0;
}

static uint32_t window_of(uint32_t payload)
{
	uint32_t window = SL_UD_WINDOW_MAX;

	while (window > 8 && window * payload > UD_TX_BYTES)
		window /= 2;
	return window;
}

int ud_arq_init(struct ud_arq *arq, uint32_t mtu)
{
	*arq = (struct ud_arq){.payload = mtu - (uint32_t)sizeof(struct sl_ud_header)};
	arq->window = window_of(arq->payload);
	arq->tx_edge = arq->advertised_edge = arq->window;
	arq->cwnd = arq->window < UD_CWND_FIRST ? arq->window : UD_CWND_FIRST;
	arq->rto_ns = UD_RTO_FIRST_NS;
	arq->ack_ns = UINT64_MAX;
	arq->silence_ns = UD_SILENCE_NS;
	return 0;
}

static bool alloc_buf(struct ud_arq *arq, uint8_t **buffer, size_t len)
{
	if (!*buffer)
		*buffer = arq->mem ? sl_capped_malloc(arq->mem, len) : malloc(len);
	return *buffer != NULL;
}

static void free_buf(struct ud_arq *arq, uint8_t **buffer)
{
	if (arq->mem)
		sl_capped_free(arq->mem, *buffer);
	else
		free(*buffer);
	*buffer = NULL;
}

void ud_arq_trim(struct ud_arq *arq)
{
	if (!arq->bytes)
		free_buf(arq, &arq->tx);
	if (!arq->ooo_bits)
		free_buf(arq, &arq->ooo_buf);
	if (arq->lent || arq->rx_head != arq->rx_tail)
		return;
	arq->rx_head = arq->rx_tail = 0;
	free_buf(arq, &arq->rx);
}

void ud_arq_fini(struct ud_arq *arq)
{
	free_buf(arq, &arq->tx);
	free_buf(arq, &arq->ooo_buf);
	free_buf(arq, &arq->rx);
}

uint32_t ud_arq_room(const struct ud_arq *arq)
{
	uint32_t unused = arq->window - (uint32_t)(arq->end - arq->una);

	return unused ? unused * arq->payload - arq->tx_len[slot_of(arq, arq->end)] : 0;
}

static void close_filled(struct ud_arq *arq)
{
	arq->pushed = false;
	arq->end++;
	if (arq->end - arq->una < arq->window)
		arq->tx_len[slot_of(arq, arq->end)] = 0;
}

static bool may_close(const struct ud_arq *arq)
{
	return arq->end - arq->una < arq->window / 2 && arq->tx_len[slot_of(arq, arq->end)];
}

bool ud_arq_write(struct ud_arq *arq, const void *bytes, uint32_t len)
{
	const uint8_t *from = bytes;

	if (!arq->tx)
		arq->tx_from = arq->end;
	if (!alloc_buf(arq, &arq->tx, (size_t)arq->window * arq->payload))
		return false;
	arq->bytes += len;
	while (len) {
		uint32_t slot = slot_of(arq, arq->end), filled = arq->tx_len[slot];
		uint32_t n = len < arq->payload - filled ? len : arq->payload - filled;

		memcpy(tx_at(arq, arq->end) + filled, from, n);
		arq->tx_len[slot] = (uint16_t)(filled + n);
		from += n;
		len -= n;
		if (filled + n == arq->payload)
			close_filled(arq);
	}
	return true;
}

void ud_arq_push(struct ud_arq *arq)
{
	arq->pushed = arq->end - arq->una < arq->window && arq->tx_len[slot_of(arq, arq->end)];
	if (may_close(arq))
		close_filled(arq);
}

static uint32_t under_way(const struct ud_arq *arq)
{
	return (uint32_t)(arq->sent - arq->una) -
	       (uint32_t)__builtin_popcountll(arq->sacked | arq->lost);
}

static void fill_header(struct ud_arq *arq, enum sl_ud_kind kind, uint64_t number,
			struct ud_arq_out *out)
{
	uint64_t ahead = shift_bits(arq->ooo_bits, arq->next - arq->base);

	out->number = number;
	out->header = (struct sl_ud_header){
		.magic = SL_UD_MAGIC,
		.version = SL_UD_VERSION,
		.kind = (uint8_t)kind,
		.seq = (uint32_t)number,
		.ack = (uint32_t)arq->next,
		.sacked = (uint32_t)(ahead >> 1),
		.window = (uint16_t)(arq->base + arq->window - arq->next),
	};
	arq->advertised_edge = arq->base + arq->window;
	arq->unacked = 0;
	arq->ack_ns = UINT64_MAX;
}

void ud_arq_ack(struct ud_arq *arq, enum sl_ud_kind kind, struct ud_arq_out *out)
{
	fill_header(arq, kind, arq->sent, out);
	out->bytes = NULL;
}

static void send_number(struct ud_arq *arq, uint64_t number, uint64_t now_ns,
			struct ud_arq_out *out)
{
	uint32_t slot = slot_of(arq, number);

	fill_header(arq, SL_UD_DATA, number, out);
	out->header.len = arq->tx_len[slot];
	out->bytes = tx_at(arq, number);
	if (arq->una == arq->sent)
		arq->heard_ns = now_ns;
	arq->tx_ns[slot] = now_ns;
}

static bool retransmit_next(struct ud_arq *arq, uint64_t now_ns, struct ud_arq_out *out)
{
	uint64_t number;

	if (!arq->lost || under_way(arq) >= arq->cwnd)
		return false;
	number = arq->una + (uint64_t)__builtin_ctzll(arq->lost);
	arq->lost &= arq->lost - 1;
	arq->rexmit_bits |= bit_of(number, arq->una);
	arq->retransmitted++;
	send_number(arq, number, now_ns, out);
	return true;
}

static bool may_send_new(const struct ud_arq *arq)
{
	return arq->sent < arq->end && under_way(arq) < arq->cwnd &&
	       (arq->sent < arq->tx_edge || arq->sent == arq->una);
}

bool ud_arq_next(struct ud_arq *arq, uint64_t now_ns, struct ud_arq_out *out)
{
	if (retransmit_next(arq, now_ns, out))
		return true;
	if (arq->pushed && arq->sent == arq->end && may_close(arq))
		close_filled(arq);
	if (may_send_new(arq)) {
		send_number(arq, arq->sent, now_ns, out);
		arq->sent++;
		return true;
	}
	if (arq->ack_ns > now_ns)
		return false;
	ud_arq_ack(arq, SL_UD_ACK, out);
	return true;
}

/*
 * Updates the RTO (RFC 6298). The backoff lasts until there is a sample, or a slower peer would
 * never yield one.
 */
static void learn_rtt(struct ud_arq *arq, uint64_t rtt_ns)
{
	uint64_t off = rtt_ns > arq->srtt_ns ? rtt_ns - arq->srtt_ns : arq->srtt_ns - rtt_ns;

	arq->backoff = 0;
	if (!arq->srtt_ns) {
		arq->srtt_ns = rtt_ns;
		arq->rttvar_ns = rtt_ns / 2;
	} else {
		arq->rttvar_ns = (3 * arq->rttvar_ns + off) / 4;
		arq->srtt_ns = (7 * arq->srtt_ns + rtt_ns) / 8;
	}
	arq->rto_ns = arq->srtt_ns + 4 * arq->rttvar_ns;
	arq->rto_ns += UD_ACK_DELAY_NS;
	if (arq->rto_ns < UD_RTO_MIN_NS)
		arq->rto_ns = UD_RTO_MIN_NS;
	arq->rto_ns = sl_min_ns(arq->rto_ns, UD_RTO_MAX_NS);
}

static void grow_cwnd(struct ud_arq *arq, uint32_t acked)
{
	arq->grown += acked;
	if (arq->cwnd < arq->window && arq->grown >= arq->cwnd) {
		arq->cwnd++;
		arq->grown = 0;
	}
}

static void shrink_cwnd(struct ud_arq *arq)
{
	arq->recover = arq->sent;
	arq->cwnd = arq->cwnd > 4 ? arq->cwnd / 2 : 2;
	arq->grown = 0;
}

static void mark_lost(struct ud_arq *arq)
{
	uint64_t missing = unacked_of(arq) & ~(arq->sacked | arq->lost | arq->rexmit_bits);
	uint64_t overtaken = arq->sacked >> UD_REORDER;

	for (; missing; missing &= missing - 1) {
		uint64_t bit = missing & -missing;

		if (bit > overtaken)
			break;
		arq->lost |= bit;
		if (arq->una + (uint64_t)__builtin_ctzll(bit) >= arq->recover)
			shrink_cwnd(arq);
	}
}

static void ack_upto(struct ud_arq *arq, uint64_t ack, uint64_t now_ns)
{
	uint64_t cnt = ack - arq->una;
	bool was_full = arq->end - arq->una == arq->window;

	/* A retransmitted datagram, or one that waited for others, gives no sample (Karn). */
	if (!((arq->rexmit_bits | arq->sacked) & bit_of(ack - 1, arq->una)))
		learn_rtt(arq, now_ns - arq->tx_ns[slot_of(arq, ack - 1)]);
	for (uint64_t n = arq->una; n < ack; n++)
		arq->bytes -= arq->tx_len[slot_of(arq, n)];
	arq->una = ack;
	arq->sacked = shift_bits(arq->sacked, cnt);
	arq->lost = shift_bits(arq->lost, cnt);
	arq->rexmit_bits = shift_bits(arq->rexmit_bits, cnt);
	if (was_full)
		arq->tx_len[slot_of(arq, arq->end)] = 0;
	grow_cwnd(arq, (uint32_t)cnt);
}

static int handle_ack(struct ud_arq *arq, const struct sl_ud_header *h, uint64_t now_ns)
{
	/* Must be in [una - window, sent]. */
	int32_t ahead = (int32_t)(h->ack - (uint32_t)arq->una);
	uint64_t ack = arq->una + (uint64_t)(int64_t)ahead, tx_edge = ack + h->window;
	uint64_t sacked;

	if (ahead > 0 && ack > arq->sent)
		return -EPROTO;
	if (h->window > arq->window)
		return -EPROTO;
	if (ahead < 0)
		return 0; /* an older acknowledgement, which may be replayed */
	arq->heard_ns = now_ns;
	if (ack > arq->una)
		ack_upto(arq, ack, now_ns);
	arq->tx_edge = tx_edge > arq->tx_edge ? tx_edge : arq->tx_edge;
	sacked = (uint64_t)h->sacked << 1;
	if (sacked & ~unacked_of(arq))
		return -EPROTO;
	arq->sacked |= sacked;
	arq->lost &= ~sacked;
	mark_lost(arq);
	return 0;
}

uint64_t ud_arq_number(const struct ud_arq *arq, uint32_t seq)
{
	return arq->next + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)arq->next);
}

static bool fits_rx(struct ud_arq *arq, uint32_t len)
{
	if (!alloc_buf(arq, &arq->rx, UD_RX_BYTES))
		return false;
	if (!arq->lent && UD_RX_BYTES - arq->rx_tail < len && arq->rx_head) {
		memmove(arq->rx, arq->rx + arq->rx_head, arq->rx_tail - arq->rx_head);
		arq->rx_tail -= arq->rx_head;
		arq->rx_head = 0;
	}
	return UD_RX_BYTES - arq->rx_tail >= len;
}

static void append_rx(struct ud_arq *arq, const uint8_t *bytes, uint32_t len)
{
	memcpy(arq->rx + arq->rx_tail, bytes, len);
	arq->rx_tail += len;
	arq->base++;
	arq->ooo_bits >>= 1;
}

void ud_arq_deliver(struct ud_arq *arq)
{
	while (arq->ooo_bits & 1) {
		uint32_t slot = slot_of(arq, arq->base);

		if (!fits_rx(arq, arq->ooo_len[slot]))
			break;
		append_rx(arq, arq->ooo_buf + (size_t)slot * arq->payload, arq->ooo_len[slot]);
	}
	/* Half of the window is free: the peer may wait. */
	if (arq->base + arq->window - arq->advertised_edge >= arq->window / 2)
		arq->ack_ns = 0;
	ud_arq_trim(arq);
}

static void owe_ack(struct ud_arq *arq, bool at_once, uint64_t now_ns)
{
	arq->unacked++;
	if (at_once || arq->unacked >= arq->window / 4)
		arq->ack_ns = 0;
	else
		arq->ack_ns = sl_min_ns(arq->ack_ns, now_ns + UD_ACK_DELAY_NS);
}

static void handle_data(struct ud_arq *arq, uint64_t number, const uint8_t *bytes, uint32_t len,
			uint64_t now_ns)
{
	uint32_t slot = slot_of(arq, number);
	bool beyond = number - arq->base >= arq->window;

	if (beyond || arq->ooo_bits & bit_of(number, arq->base)) {
		*(beyond && number > arq->base ? &arq->dropped : &arq->duplicates) += 1;
		/* The peer does not know that it arrived, or that there is no room. */
		owe_ack(arq, true, now_ns);
		return;
	}
	if (number == arq->base && fits_rx(arq, len)) {
		append_rx(arq, bytes, len);
	} else if (!alloc_buf(arq, &arq->ooo_buf, (size_t)arq->window * arq->payload)) {
		arq->dropped++;
		return;
	} else {
		memcpy(arq->ooo_buf + (size_t)slot * arq->payload, bytes, len);
		arq->ooo_len[slot] = (uint16_t)len;
		arq->ooo_bits |= bit_of(number, arq->base);
	}
	owe_ack(arq, number != arq->next, now_ns);
	ud_arq_deliver(arq);
	arq->next = arq->base +
		    (arq->ooo_bits == UINT64_MAX ? 64 : (uint64_t)__builtin_ctzll(~arq->ooo_bits));
}

int ud_arq_input(struct ud_arq *arq, const struct sl_ud_header *h, const uint8_t *bytes,
		 uint64_t now_ns)
{
	int rc;

	if (h->kind < SL_UD_DATA || h->kind > SL_UD_BYE || h->len > arq->payload ||
	    (h->kind == SL_UD_DATA) != (h->len != 0))
		return -EPROTO;
	rc = handle_ack(arq, h, now_ns);
	if (rc)
		return rc;
	arq->bye |= h->kind == SL_UD_BYE;
	if (h->kind == SL_UD_DATA)
		handle_data(arq, ud_arq_number(arq, h->seq), bytes, h->len, now_ns);
	ud_arq_trim(arq);
	return 0;
}

static uint64_t rto_backoff_ns(const struct ud_arq *arq)
{
	return sl_min_ns(arq->rto_ns << arq->backoff, UD_RTO_MAX_NS);
}

static uint64_t oldest_sent_ns(const struct ud_arq *arq)
{
	uint64_t bits = unacked_of(arq) & ~(arq->sacked | arq->lost), oldest = UINT64_MAX;

	for (; bits; bits &= bits - 1) {
		uint64_t number = arq->una + (uint64_t)__builtin_ctzll(bits);

		oldest = sl_min_ns(oldest, arq->tx_ns[slot_of(arq, number)]);
	}
	return oldest;
}

void ud_arq_resume(struct ud_arq *arq, uint64_t now_ns)
{
	arq->heard_ns = now_ns;
	arq->backoff = 0;
	arq->lost = unacked_of(arq) & ~arq->sacked;
}

int ud_arq_tick(struct ud_arq *arq, uint64_t now_ns)
{
	uint64_t wait_ns = rto_backoff_ns(arq), oldest;

	if (arq->una == arq->sent)
		return 0;
	if (now_ns >= arq->heard_ns + arq->silence_ns)
		return -ETIMEDOUT;
	oldest = oldest_sent_ns(arq);
	if (oldest == UINT64_MAX || now_ns < oldest + wait_ns)
		return 0;
	arq->lost = unacked_of(arq) & ~arq->sacked;
	arq->backoff += arq->backoff < 6;
	shrink_cwnd(arq);
	return 0;
}

uint64_t ud_arq_next_ns(const struct ud_arq *arq)
{
	uint64_t next = arq->ack_ns, oldest;

	if (may_send_new(arq) || (arq->pushed && arq->sent == arq->end && may_close(arq)) ||
	    (arq->lost && under_way(arq) < arq->cwnd))
		return 0;
	if (arq->una == arq->sent)
		return next;
	oldest = oldest_sent_ns(arq);
	if (oldest != UINT64_MAX)
		next = sl_min_ns(next, oldest + rto_backoff_ns(arq));
	return sl_min_ns(next, arq->heard_ns + arq->silence_ns);
}
