/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes out. vb_post puts a message into the chain, by write_bulk if it is large, else by
 * send_slot; vb_flush -> ring: one doorbell for the chain. vb_progress takes completions,
 * vb_sent says by them which lent bytes are free. sl_verbs_ops at the bottom is the transport.
 */
#include <arpa/inet.h>
#include <errno.h>
#include "base/clock.h"
#include "rpc/verbs/short.h"
#include "rpc/verbs/verbs.h"

enum {
	QUIET_BYTES_MAX = 8 << 10,
	REAP = 16,
	ANSWER_MS = 1000, /* in which a question that gets lost is sent again */
	DYING_MS = 250,   /* in which what a process leaves behind may answer */
};

void vb_complete(struct sl_verbs *v, uint32_t upto)
{
	struct sl_credits *c = &v->base.credits;

	for (; c->done != upto; c->done++)
		v->base.posted_bytes -= v->posted[c->done & v->mask].body_len;
}

static void take_completion(struct sl_verbs *v, const struct ibv_wc *wc)
{
	struct sl_credits *c = &v->base.credits;
	uint32_t upto = (uint32_t)wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
			v->lost = -ENOBUFS;
		v->broken = true;
		v->gone = true;
		return;
	}
	if (wc->wr_id == VB_ID_BYE)
		v->bye = VB_BYE_DONE;
	if (wc->wr_id == VB_ID_BOUND)
		v->bound = true;
	if (wc->wr_id == VB_ID_ALIVE)
		v->doubt = v->asked_ns - v->doubted_ns < DYING_MS * SL_NS_PER_MS ? VB_DOUBTED
										 : VB_SURE;
	if (wc->wr_id & VB_ID_KEYS)
		return;
	v->signalled--;
	v->wr_done += ((uint32_t)(wc->wr_id >> 32) - v->wr_done) & VB_ID_WR_MASK;
	/* Counts wrap: an old one must not come to lie ahead. */
	if ((int32_t)(v->lent_to - upto) < 0)
		v->lent_to = upto;
	v->reaped = upto;
	/* The peer's acknowledgement may have been faster. */
	if (upto - c->done <= c->sent - c->done)
		vb_complete(v, upto);
}

void vb_progress(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);
	SL_UNINIT struct ibv_wc wc[REAP];
	int n;

	do {
		n = ibv_poll_cq(v->end.tx_cq, REAP, wc);
		for (int i = 0; i < n; i++)
			take_completion(v, &wc[i]);
	} while (n == REAP);
	if (n < 0)
		v->gone = v->broken = true;
}

/* The next completion speaks for all messages so far. */
static void ask_completion(struct sl_verbs *v, struct ibv_send_wr *wr)
{
	wr->send_flags |= IBV_SEND_SIGNALED;
	v->signalled++;
	v->quiet = v->quiet_bytes = 0;
	v->quiet_lent = false;
}

/*
 * One doorbell for the chain. Behind lent bytes there may be no other message for long, and nobody but
 * the device tells when they are done with.
 */
static void ring(struct sl_verbs *v)
{
	struct ibv_send_wr *last;

	if (!v->chain_len)
		return;
	last = &v->chain[v->chain_len - 1];
	if (v->quiet && (!v->signalled || v->quiet_lent || v->quiet_bytes > QUIET_BYTES_MAX))
		ask_completion(v, last);
	for (uint32_t i = 0; i + 1 < v->chain_len; i++)
		v->chain[i].next = &v->chain[i + 1];
	v->chain_len = v->piece_cnt = 0;
	v->base.doorbells++;
	if (vb_post_chain(v->end.qp, &v->chain[0]))
		v->gone = v->broken = true;
}

static struct ibv_send_wr *work(struct sl_verbs *v, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *wr = &v->chain[v->chain_len++];

	*wr = (struct ibv_send_wr){.opcode = opcode, .sg_list = &v->pieces[v->piece_cnt]};
	v->wr_sent++;
	return wr;
}

static void add_piece(struct sl_verbs *v, struct ibv_send_wr *wr, const uint8_t *bytes,
		      uint32_t len, const struct ibv_mr *mr)
{
	v->pieces[v->piece_cnt++] =
		(struct ibv_sge){.addr = (uintptr_t)bytes, .length = len, .lkey = mr->lkey};
	wr->num_sge++;
}

static struct ibv_send_wr *write_to(struct sl_verbs *v, uint32_t at)
{
	struct ibv_send_wr *wr = work(v, IBV_WR_RDMA_WRITE);

	wr->wr.rdma.remote_addr = v->peer_bulk + at;
	wr->wr.rdma.rkey = v->peer_rkey;
	return wr;
}

/* Whether the device can read the span where it lies, and that is worth a piece of its own. */
static bool is_direct(const struct sl_verbs *v, const struct sl_span *span)
{
	uintptr_t from = (uintptr_t)span->ptr - (uintptr_t)v->mem;

	return span->len >= VB_DIRECT_MIN && v->mem && from < v->mem_len &&
	       span->len <= v->mem_len - from;
}

/* Pieces that the header and the spans make: neighbours that are copied make one. 0: none is direct. */
static uint32_t count_pieces(const struct sl_verbs *v, const struct sl_span *spans,
			     unsigned span_cnt)
{
	uint32_t pieces = 1, direct = 0;
	bool copied = true;

	for (unsigned i = 0; i < span_cnt; i++) {
		bool d = is_direct(v, &spans[i]);

		pieces += d || !copied;
		direct += d;
		copied = !d;
	}
	return direct ? pieces : 0;
}

/* A piece of the message, which goes to `at`: of this WRITE, or of another one. */
static struct ibv_send_wr *write_piece(struct sl_verbs *v, struct ibv_send_wr *wr, uint32_t at,
				       const uint8_t *bytes, uint32_t len, const struct ibv_mr *mr)
{
	if ((uint32_t)wr->num_sge == v->end.sge_max)
		wr = write_to(v, at);
	add_piece(v, wr, bytes, len, mr);
	return wr;
}

/* Behind the header, which is staged at `at` already. The last WRITE. */
static struct ibv_send_wr *write_pieces(struct sl_verbs *v, uint32_t at,
					const struct sl_span *spans, unsigned span_cnt)
{
	struct ibv_send_wr *wr = write_to(v, at);
	uint32_t staged = sizeof(struct sl_rpc_header);

	at += staged;
	for (unsigned i = 0; i < span_cnt; i++) {
		uint32_t len = (uint32_t)spans[i].len;

		if (!is_direct(v, &spans[i])) {
			sl_message_gather(v->tx_bulk + at, len, &spans[i], 1);
			staged += len;
			at += len;
			continue;
		}
		if (staged)
			wr = write_piece(v, wr, at - staged, v->tx_bulk + at - staged, staged,
					 v->ring_mr);
		wr = write_piece(v, wr, at, spans[i].ptr, len, v->mem_mr);
		v->lent_to = v->base.credits.sent;
		v->quiet_lent = true;
		staged = 0;
		at += len;
	}
	if (staged)
		wr = write_piece(v, wr, at - staged, v->tx_bulk + at - staged, staged, v->ring_mr);
	return wr;
}

/* A large message, header and body, to one place of the peer's bulk ring. The last WRITE tells of it. */
static struct ibv_send_wr *write_bulk(struct sl_verbs *v, uint32_t at,
				      const struct sl_rpc_header *h, const struct sl_span *spans,
				      unsigned span_cnt)
{
	uint32_t pieces = v->mem ? count_pieces(v, spans, span_cnt) : 0;
	struct ibv_send_wr *wr;

	memcpy(v->tx_bulk + at, h, sizeof(*h));
	if (pieces && pieces <= v->end.sge_max * VB_WRITES_MAX) {
		if (v->piece_cnt + pieces > VB_PIECES_MAX)
			ring(v);
		wr = write_pieces(v, at, spans, span_cnt);
	} else {
		sl_message_gather(v->tx_bulk + at + sizeof(*h), h->fragment_len, spans, span_cnt);
		wr = write_to(v, at);
		add_piece(v, wr, v->tx_bulk + at, (uint32_t)sizeof(*h) + h->fragment_len,
			  v->ring_mr);
	}
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl((uint32_t)sizeof(*h) + h->fragment_len);
	return wr;
}

static struct ibv_send_wr *send_slot(struct sl_verbs *v, uint8_t *slot,
				     const struct sl_rpc_header *h, const struct sl_span *spans,
				     unsigned span_cnt)
{
	uint32_t len = vb_short_write(slot, h, spans, span_cnt);
	struct ibv_send_wr *wr = work(v, IBV_WR_SEND);

	if (!len) {
		len = (uint32_t)sizeof(*h) + h->fragment_len;
		memcpy(slot, h, sizeof(*h));
		sl_message_gather(slot + sizeof(*h), h->fragment_len, spans, span_cnt);
	}
	add_piece(v, wr, slot, len, v->ring_mr);
	if (len <= v->end.inline_max)
		wr->send_flags = IBV_SEND_INLINE;
	return wr;
}

/* What the peer's receive queue learns of: the message's last work request. */
static void announce(struct sl_verbs *v, struct ibv_send_wr *wr, uint32_t body_len)
{
	wr->wr_id = (uint64_t)(v->wr_sent & VB_ID_WR_MASK) << 32 | v->base.credits.sent;
	v->quiet++;
	v->quiet_bytes += body_len;
	if (v->quiet >= v->quiet_max)
		ask_completion(v, wr);
}

/* Room in the send queue itself, for entries that completions have not given back yet. */
static bool has_room(struct sl_verbs *v, enum sl_credit_kind kind)
{
	if (vb_window_room(v, kind) && v->wr_sent - v->wr_done + VB_WRITES_MAX <= v->end.wr_max)
		return true;
	vb_progress(&v->base);
	return vb_window_room(v, kind) && v->wr_sent - v->wr_done + VB_WRITES_MAX <= v->end.wr_max;
}

int vb_post(struct sl_transport *t, const struct sl_rpc_header *header, const struct sl_span *spans,
	    unsigned span_cnt, uint64_t cookie)
{
	struct sl_verbs *v = vb_of(t);
	struct sl_credits *c = &t->credits;
	uint32_t len = header->fragment_len, seq = c->sent, at;
	struct sl_rpc_header h = *header;
	struct ibv_send_wr *wr;

	if (v->gone)
		return v->error ? v->error : -ENOTCONN;
	if (v->port_down)
		return -EAGAIN;
	if (!has_room(v, sl_message_kind(header)) || v->borrowed_cnt - v->returned_cnt > v->mask)
		return -EAGAIN;
	if (len > VB_BODY_MAX && (len > t->bulk_max || len + sizeof(h) > sl_credits_bulk_room(c)))
		return -EAGAIN;
	if (v->chain_len + VB_WRITES_MAX > VB_CHAIN_MAX || v->piece_cnt + 1 > VB_PIECES_MAX)
		ring(v);
	/* A reply tells that its request is done with: else an idle channel would lack a slot. */
	vb_consume(v);
	h.consumed = sl_credits_post(c);
	if (sl_unlikely(sl_credits_spent(c)))
		h.flags |= SL_RPC_SPENT;
	if (len > VB_BODY_MAX) {
		c->bulk_sent = sl_credits_bulk_place(c->bulk_len, c->bulk_sent,
						     len + (uint32_t)sizeof(h), &at);
		wr = write_bulk(v, at, &h, spans, span_cnt);
	} else {
		wr = send_slot(v, v->tx_slots + (size_t)(seq & v->mask) * SL_RPC_SLOT_SIZE, &h,
			       spans, span_cnt);
	}
	v->posted[seq & v->mask] =
		(struct vb_posted){.bulk_end = c->bulk_sent, .body_len = len, .told = h.consumed};
	t->posted_bytes += len;
	announce(v, wr, len);
	/*
	 * It is the last message of those that `cookie` stands for: its bytes are free once all that
	 * was lent so far is.
	 */
	if (cookie)
		v->borrowed[v->borrowed_cnt++ & v->mask] =
			(struct vb_borrowed){.cookie = cookie, .seq = v->lent_to};
	return 0;
}

void vb_flush(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);

	vb_consume(v);
	/* Without room it stays due; the peer's own CREDIT makes room. */
	if (vb_window_due(v))
		vb_window_tell(v);
	ring(v);
	vb_put_back(v);
}

void vb_look_after(struct sl_verbs *v)
{
	struct ibv_send_wr ask = {.wr_id = VB_ID_ALIVE,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = {.remote_addr = v->peer_bulk, .rkey = v->peer_rkey}};
	uint64_t now_ns = sl_now_ns();

	vb_progress(&v->base);
	if (v->doubt == VB_DOUBTED && !v->port_down) {
		v->asked_ns = now_ns;
		v->doubt = VB_ASKED;
		v->gone |= vb_post_chain(v->end.qp, &ask) != 0;
	}
	if (v->port_down || v->was_down)
		v->asked_ns = now_ns; /* an answer takes as long from then on */
	v->was_down = v->port_down;
	v->gone |= v->doubt == VB_ASKED && now_ns - v->asked_ns >= ANSWER_MS * SL_NS_PER_MS;
}

unsigned vb_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	struct sl_verbs *v = vb_of(t);
	unsigned n = 0;

	while (n < max && v->returned_cnt != v->borrowed_cnt) {
		const struct vb_borrowed *b = &v->borrowed[v->returned_cnt & v->mask];

		if ((int32_t)(v->reaped - b->seq) < 0)
			break;
		cookies[n++] = b->cookie;
		v->returned_cnt++;
	}
	return n;
}

uint32_t vb_window(const struct sl_transport *t)
{
	const struct sl_verbs *v = (const struct sl_verbs *)t;

	uint32_t with_header = v->port_down ? 0 : sl_transport_window(t, SL_RPC_SLOT_SIZE);

	return with_header ? with_header - (uint32_t)sizeof(struct sl_rpc_header) : 0;
}

const struct sl_transport_ops sl_verbs_ops = {
	.name = "verbs",
	.post = vb_post,
	.flush = vb_flush,
	.poll = vb_poll,
	.release = vb_release,
	.sent = vb_sent,
	.window = vb_window,
	.progress = vb_progress,
	.arm = vb_arm,
	.disarm = vb_disarm,
	.check = vb_check,
	.halt = vb_halt,
	.close = vb_close,
	.attach = vb_attach,
};
