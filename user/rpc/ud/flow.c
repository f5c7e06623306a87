/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/ud/flow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/min.h"

static uint32_t slot_of(const struct ud_flow *f, uint64_t number)
{
	return (uint32_t)number & (f->window - 1);
}

/* The first one after a rest is at the beginning: few bytes are few pages. */
static uint8_t *tx_at(const struct ud_flow *f, uint64_t number)
{
	return f->tx + (size_t)slot_of(f, number - f->tx_from) * f->payload;
}

static uint64_t bit_of(uint64_t number, uint64_t from)
{
	return UINT64_C(1) << (number - from);
}

static uint64_t shifted(uint64_t bits, uint64_t by)
{
	return by < 64 ? bits >> by : 0;
}

/* Bits of the datagrams that were sent and are not acknowledged. */
static uint64_t unacked_of(const struct ud_flow *f)
{
	uint64_t cnt = f->sent - f->una;

	return cnt ? UINT64_MAX >> (64 - cnt) : 0;
}

static uint32_t window_of(uint32_t payload)
{
	uint32_t window = SL_UD_WINDOW_MAX;

	while (window > 8 && window * payload > UD_STREAM)
		window /= 2;
	return window;
}

int ud_flow_init(struct ud_flow *f, uint32_t mtu)
{
	*f = (struct ud_flow){.payload = mtu - (uint32_t)sizeof(struct sl_ud_header)};
	f->window = window_of(f->payload);
	f->edge = f->told = f->window;
	f->cwnd = f->window < UD_CWND_FIRST ? f->window : UD_CWND_FIRST;
	f->rto_ns = UD_RTO_FIRST_NS;
	f->ack_ns = UINT64_MAX;
	f->silence_ns = UD_SILENCE_NS;
	return 0;
}

/* False: there is no memory. */
static bool have(struct ud_flow *f, uint8_t **buffer, size_t len)
{
	if (!*buffer)
		*buffer = f->mem ? sl_mem_alloc(f->mem, len) : malloc(len);
	return *buffer != NULL;
}

static void give_back(struct ud_flow *f, uint8_t **buffer)
{
	if (f->mem)
		sl_mem_free(f->mem, *buffer);
	else
		free(*buffer);
	*buffer = NULL;
}

void ud_flow_rest(struct ud_flow *f)
{
	if (!f->bytes)
		give_back(f, &f->tx);
	if (!f->held)
		give_back(f, &f->hold);
	if (f->lent || f->rx_head != f->rx_tail)
		return;
	f->rx_head = f->rx_tail = 0;
	give_back(f, &f->rx);
}

void ud_flow_fini(struct ud_flow *f)
{
	give_back(f, &f->tx);
	give_back(f, &f->hold);
	give_back(f, &f->rx);
}

/* --- out --- */

uint32_t ud_flow_room(const struct ud_flow *f)
{
	uint32_t unused = f->window - (uint32_t)(f->end - f->una);

	return unused ? unused * f->payload - f->tx_len[slot_of(f, f->end)] : 0;
}

/* The one that is being filled is as it will be sent. */
static void close_filled(struct ud_flow *f)
{
	f->pushed = false;
	f->end++;
	if (f->end - f->una < f->window)
		f->tx_len[slot_of(f, f->end)] = 0;
}

static bool may_close(const struct ud_flow *f)
{
	return f->end - f->una < f->window / 2 && f->tx_len[slot_of(f, f->end)];
}

bool ud_flow_put(struct ud_flow *f, const void *bytes, uint32_t len)
{
	const uint8_t *from = bytes;

	if (!f->tx)
		f->tx_from = f->end;
	if (!have(f, &f->tx, (size_t)f->window * f->payload))
		return false;
	f->bytes += len;
	while (len) {
		uint32_t slot = slot_of(f, f->end), filled = f->tx_len[slot];
		uint32_t n = len < f->payload - filled ? len : f->payload - filled;

		memcpy(tx_at(f, f->end) + filled, from, n);
		f->tx_len[slot] = (uint16_t)(filled + n);
		from += n;
		len -= n;
		if (filled + n == f->payload)
			close_filled(f);
	}
	return true;
}

void ud_flow_push(struct ud_flow *f)
{
	f->pushed = f->end - f->una < f->window && f->tx_len[slot_of(f, f->end)];
	if (may_close(f))
		close_filled(f);
}

static uint32_t under_way(const struct ud_flow *f)
{
	return (uint32_t)(f->sent - f->una) - (uint32_t)__builtin_popcountll(f->sacked | f->lost);
}

static void fill_header(struct ud_flow *f, enum sl_ud_kind kind, uint64_t number,
			struct ud_out *out)
{
	uint64_t ahead = shifted(f->held, f->next - f->base);

	out->number = number;
	out->header = (struct sl_ud_header){
		.magic = SL_UD_MAGIC,
		.version = SL_UD_VERSION,
		.kind = (uint8_t)kind,
		.seq = (uint32_t)number,
		.ack = (uint32_t)f->next,
		.sacked = (uint32_t)(ahead >> 1),
		.window = (uint16_t)(f->base + f->window - f->next),
	};
	f->told = f->base + f->window;
	f->unacked = 0;
	f->ack_ns = UINT64_MAX;
}

void ud_flow_ack(struct ud_flow *f, enum sl_ud_kind kind, struct ud_out *out)
{
	fill_header(f, kind, f->sent, out);
	out->bytes = NULL;
}

static void send_number(struct ud_flow *f, uint64_t number, uint64_t now_ns, struct ud_out *out)
{
	uint32_t slot = slot_of(f, number);

	fill_header(f, SL_UD_DATA, number, out);
	out->header.len = f->tx_len[slot];
	out->bytes = tx_at(f, number);
	if (f->una == f->sent)
		f->heard_ns = now_ns; /* from now on something is waited for */
	f->tx_ns[slot] = now_ns;
}

static bool next_lost(struct ud_flow *f, uint64_t now_ns, struct ud_out *out)
{
	uint64_t number;

	if (!f->lost || under_way(f) >= f->cwnd)
		return false;
	number = f->una + (uint64_t)__builtin_ctzll(f->lost);
	f->lost &= f->lost - 1;
	f->again |= bit_of(number, f->una);
	f->resent++;
	send_number(f, number, now_ns, out);
	return true;
}

/* Without room at the peer one goes all the same when nothing else would make it answer. */
static bool may_send_new(const struct ud_flow *f)
{
	return f->sent < f->end && under_way(f) < f->cwnd &&
	       (f->sent < f->edge || f->sent == f->una);
}

bool ud_flow_next(struct ud_flow *f, uint64_t now_ns, struct ud_out *out)
{
	if (next_lost(f, now_ns, out))
		return true;
	if (f->pushed && f->sent == f->end && may_close(f))
		close_filled(f);
	if (may_send_new(f)) {
		send_number(f, f->sent, now_ns, out);
		f->sent++;
		return true;
	}
	if (f->ack_ns > now_ns)
		return false;
	ud_flow_ack(f, SL_UD_ACK, out);
	return true;
}

/* --- what the peer has --- */

/*
 * RFC 6298. Until there is a sample the time-out stays doubled: a peer that has become slower than
 * it would otherwise be sent everything twice, and never be measured.
 */
static void learn_rtt(struct ud_flow *f, uint64_t rtt_ns)
{
	uint64_t off = rtt_ns > f->srtt_ns ? rtt_ns - f->srtt_ns : f->srtt_ns - rtt_ns;

	f->backoff = 0;
	if (!f->srtt_ns) {
		f->srtt_ns = rtt_ns;
		f->rttvar_ns = rtt_ns / 2;
	} else {
		f->rttvar_ns = (3 * f->rttvar_ns + off) / 4;
		f->srtt_ns = (7 * f->srtt_ns + rtt_ns) / 8;
	}
	f->rto_ns = f->srtt_ns + 4 * f->rttvar_ns;
	/* The peer may keep its word back for a while. */
	f->rto_ns += UD_ACK_DELAY_NS;
	if (f->rto_ns < UD_RTO_MIN_NS)
		f->rto_ns = UD_RTO_MIN_NS;
	f->rto_ns = sl_min_ns(f->rto_ns, UD_RTO_MAX_NS);
}

static void grow(struct ud_flow *f, uint32_t acked)
{
	f->grown += acked;
	if (f->cwnd < f->window && f->grown >= f->cwnd) {
		f->cwnd++;
		f->grown = 0;
	}
}

static void shrink(struct ud_flow *f)
{
	f->recover = f->sent;
	f->cwnd = f->cwnd > 4 ? f->cwnd / 2 : 2;
	f->grown = 0;
}

/* Lost is what UD_REORDER later ones have overtaken, since it was last sent. */
static void find_lost(struct ud_flow *f)
{
	uint64_t missing = unacked_of(f) & ~(f->sacked | f->lost | f->again);
	uint64_t overtaken = f->sacked >> UD_REORDER; /* whatever lies below its highest bit */

	for (; missing; missing &= missing - 1) {
		uint64_t bit = missing & -missing;

		if (bit > overtaken)
			break;
		f->lost |= bit;
		if (f->una + (uint64_t)__builtin_ctzll(bit) >= f->recover)
			shrink(f);
	}
}

static void acked_up_to(struct ud_flow *f, uint64_t ack, uint64_t now_ns)
{
	uint64_t cnt = ack - f->una;
	bool was_full = f->end - f->una == f->window;

	/* One that was there before, and waited for others, tells nothing. */
	if (!((f->again | f->sacked) & bit_of(ack - 1, f->una)))
		learn_rtt(f, now_ns - f->tx_ns[slot_of(f, ack - 1)]);
	for (uint64_t n = f->una; n < ack; n++)
		f->bytes -= f->tx_len[slot_of(f, n)];
	f->una = ack;
	f->sacked = shifted(f->sacked, cnt);
	f->lost = shifted(f->lost, cnt);
	f->again = shifted(f->again, cnt);
	if (was_full)
		f->tx_len[slot_of(f, f->end)] = 0;
	grow(f, (uint32_t)cnt);
}

static int take_ack(struct ud_flow *f, const struct sl_ud_header *h, uint64_t now_ns)
{
	/* Of datagrams that were sent: una - window .. sent. */
	int32_t ahead = (int32_t)(h->ack - (uint32_t)f->una);
	uint64_t ack = f->una + (uint64_t)(int64_t)ahead, edge = ack + h->window;
	uint64_t sacked;

	if (ahead > 0 && ack > f->sent)
		return -EPROTO;
	if (h->window > f->window)
		return -EPROTO;
	if (ahead < 0)
		return 0; /* overtaken by a later one */
	if (ack > f->una)
		acked_up_to(f, ack, now_ns);
	f->edge = edge > f->edge ? edge : f->edge;
	sacked = (uint64_t)h->sacked << 1;
	if (sacked & ~unacked_of(f))
		return -EPROTO;
	f->sacked |= sacked;
	f->lost &= ~sacked;
	find_lost(f);
	return 0;
}

/* --- in --- */

uint64_t ud_flow_number(const struct ud_flow *f, uint32_t seq)
{
	return f->next + (uint64_t)(int64_t)(int32_t)(seq - (uint32_t)f->next);
}

static bool fits_rx(struct ud_flow *f, uint32_t len)
{
	if (!have(f, &f->rx, UD_RX))
		return false;
	if (!f->lent && UD_RX - f->rx_tail < len && f->rx_head) {
		memmove(f->rx, f->rx + f->rx_head, f->rx_tail - f->rx_head);
		f->rx_tail -= f->rx_head;
		f->rx_head = 0;
	}
	return UD_RX - f->rx_tail >= len;
}

static void append(struct ud_flow *f, const uint8_t *bytes, uint32_t len)
{
	memcpy(f->rx + f->rx_tail, bytes, len);
	f->rx_tail += len;
	f->base++;
	f->held >>= 1;
}

void ud_flow_settle(struct ud_flow *f)
{
	while (f->held & 1) {
		uint32_t slot = slot_of(f, f->base);

		if (!fits_rx(f, f->hold_len[slot]))
			break;
		append(f, f->hold + (size_t)slot * f->payload, f->hold_len[slot]);
	}
	/* Half of the window has become free, and the peer may wait for that. */
	if (f->base + f->window - f->told >= f->window / 2)
		f->ack_ns = 0;
	ud_flow_rest(f);
}

static void owe_ack(struct ud_flow *f, bool at_once, uint64_t now_ns)
{
	f->unacked++;
	if (at_once || f->unacked >= f->window / 4)
		f->ack_ns = 0;
	else
		f->ack_ns = sl_min_ns(f->ack_ns, now_ns + UD_ACK_DELAY_NS);
}

static void take_data(struct ud_flow *f, uint64_t number, const uint8_t *bytes, uint32_t len,
		      uint64_t now_ns)
{
	uint32_t slot = slot_of(f, number);
	bool beyond = number - f->base >= f->window; /* so is what lies before it */

	if (beyond || f->held & bit_of(number, f->base)) {
		*(beyond && number > f->base ? &f->refused : &f->doubled) += 1;
		/* The peer does not know that it is here, or that there is no room. */
		owe_ack(f, true, now_ns);
		return;
	}
	if (number == f->base && fits_rx(f, len)) {
		append(f, bytes, len);
	} else if (!have(f, &f->hold, (size_t)f->window * f->payload)) {
		f->refused++; /* as if it were lost */
		return;
	} else {
		memcpy(f->hold + (size_t)slot * f->payload, bytes, len);
		f->hold_len[slot] = (uint16_t)len;
		f->held |= bit_of(number, f->base);
	}
	owe_ack(f, number != f->next, now_ns);
	ud_flow_settle(f);
	f->next = f->base + (f->held == UINT64_MAX ? 64 : (uint64_t)__builtin_ctzll(~f->held));
}

int ud_flow_take(struct ud_flow *f, const struct sl_ud_header *h, const uint8_t *bytes,
		 uint64_t now_ns)
{
	int rc;

	if (h->kind < SL_UD_DATA || h->kind > SL_UD_BYE || h->len > f->payload ||
	    (h->kind == SL_UD_DATA) != (h->len != 0))
		return -EPROTO;
	rc = take_ack(f, h, now_ns);
	if (rc)
		return rc;
	f->heard_ns = now_ns;
	f->bye |= h->kind == SL_UD_BYE;
	if (h->kind == SL_UD_DATA)
		take_data(f, ud_flow_number(f, h->seq), bytes, h->len, now_ns);
	ud_flow_rest(f);
	return 0;
}

/* --- time --- */

static uint64_t timeout_ns(const struct ud_flow *f)
{
	return sl_min_ns(f->rto_ns << f->backoff, UD_RTO_MAX_NS);
}

/* When, of what is under way, that was sent which has waited longest. */
static uint64_t oldest_ns(const struct ud_flow *f)
{
	uint64_t bits = unacked_of(f) & ~(f->sacked | f->lost), oldest = UINT64_MAX;

	for (; bits; bits &= bits - 1) {
		uint64_t number = f->una + (uint64_t)__builtin_ctzll(bits);

		oldest = sl_min_ns(oldest, f->tx_ns[slot_of(f, number)]);
	}
	return oldest;
}

void ud_flow_resume(struct ud_flow *f, uint64_t now_ns)
{
	f->heard_ns = now_ns;
	f->backoff = 0;
	f->lost = unacked_of(f) & ~f->sacked;
}

int ud_flow_tick(struct ud_flow *f, uint64_t now_ns)
{
	uint64_t wait_ns = timeout_ns(f), oldest;

	if (f->una == f->sent)
		return 0;
	if (now_ns >= f->heard_ns + f->silence_ns)
		return -ETIMEDOUT;
	oldest = oldest_ns(f);
	if (oldest == UINT64_MAX || now_ns < oldest + wait_ns)
		return 0;
	/* What was sent a little later is not waited for once more. */
	f->lost = unacked_of(f) & ~f->sacked;
	f->backoff += f->backoff < 6;
	shrink(f);
	return 0;
}

uint64_t ud_flow_next_ns(const struct ud_flow *f)
{
	uint64_t next = f->ack_ns, oldest;

	if (may_send_new(f) || (f->pushed && f->sent == f->end && may_close(f)) ||
	    (f->lost && under_way(f) < f->cwnd))
		return 0;
	if (f->una == f->sent)
		return next;
	oldest = oldest_ns(f);
	if (oldest != UINT64_MAX)
		next = sl_min_ns(next, oldest + timeout_ns(f));
	return sl_min_ns(next, f->heard_ns + f->silence_ns);
}
