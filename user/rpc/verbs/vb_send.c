/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "rpc/verbs/verbs.h"

enum { QUIET_BYTES_MAX = 8 << 10, REAP = 16 };

static enum sl_credit_kind kind_of(const struct sl_rpc_header *h)
{
	switch (h->version_type & 15) {
	case SL_RPC_REQUEST:
	case SL_RPC_RESPONSE: return SL_CREDIT_DATA;
	case SL_RPC_CREDIT: return SL_CREDIT_CREDIT;
	default: return SL_CREDIT_CONTROL;
	}
}

/* Copies at most `room` bytes, whatever the spans say. */
static void gather(uint8_t *to, size_t room, const struct sl_span *spans, unsigned span_cnt)
{
	for (unsigned i = 0; i < span_cnt; i++) {
		size_t len = spans[i].len < room ? spans[i].len : room;

		if (len) /* an empty span may have no address */
			memcpy(to, spans[i].ptr, len);
		to += len;
		room -= len;
	}
}

void vb_complete(struct sl_verbs *v, uint32_t upto)
{
	struct sl_credits *c = &v->base.credits;

	for (; c->done != upto; c->done++)
		v->base.posted_bytes -= v->posted[c->done & v->mask].body_len;
}

/* wr_id of a signalled SEND: messages posted with it in the low half, work requests in the high. */
static void take_completion(struct sl_verbs *v, const struct ibv_wc *wc)
{
	struct sl_credits *c = &v->base.credits;
	uint32_t upto = (uint32_t)wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS) {
		v->broken = true;
		v->gone = true;
		return;
	}
	if (wc->wr_id == VB_ID_KEYS)
		return;
	v->signalled--;
	v->wr_done = (uint32_t)(wc->wr_id >> 32);
	/* The peer's acknowledgement may have been faster. */
	if (upto - c->done <= c->sent - c->done)
		vb_complete(v, upto);
}

void vb_progress(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);
	struct ibv_wc wc[REAP];
	int n;

	do {
		n = ibv_poll_cq(v->tx_cq, REAP, wc);
		for (int i = 0; i < n; i++)
			take_completion(v, &wc[i]);
	} while (n == REAP);
	if (n < 0)
		v->gone = v->broken = true;
}

/* One doorbell for the chain. Its last SEND wakes a sleeping peer. */
static void ring(struct sl_verbs *v)
{
	struct ibv_send_wr *bad, *last;

	if (!v->chain_len)
		return;
	last = &v->chain[v->chain_len - 1].wr;
	last->send_flags |= IBV_SEND_SOLICITED;
	if (v->quiet && (!v->signalled || v->quiet_bytes > QUIET_BYTES_MAX)) {
		last->send_flags |= IBV_SEND_SIGNALED;
		v->signalled++;
		v->quiet = v->quiet_bytes = 0;
	}
	for (uint32_t i = 0; i + 1 < v->chain_len; i++)
		v->chain[i].wr.next = &v->chain[i + 1].wr;
	v->chain_len = 0;
	v->base.doorbells++;
	if (ibv_post_send(v->id->qp, &v->chain[0].wr, &bad))
		v->gone = v->broken = true;
}

static struct vb_work *work(struct sl_verbs *v, const uint8_t *bytes, uint32_t len)
{
	struct vb_work *w = &v->chain[v->chain_len++];

	*w = (struct vb_work){
		.sge = {.addr = (uintptr_t)bytes, .length = len, .lkey = v->ring_mr->lkey},
		.wr = {.sg_list = &w->sge, .num_sge = 1}};
	v->wr_sent++;
	return w;
}

static void write_bulk(struct sl_verbs *v, uint32_t at, uint32_t len)
{
	struct vb_work *w = work(v, v->tx_bulk + at, len);

	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.wr.rdma.remote_addr = v->peer_bulk + at;
	w->wr.wr.rdma.rkey = v->peer_rkey;
}

static void send_slot(struct sl_verbs *v, const uint8_t *slot, uint32_t len, uint32_t body_len)
{
	struct sl_credits *c = &v->base.credits;
	struct vb_work *w = work(v, slot, len);

	w->wr.opcode = IBV_WR_SEND;
	w->wr.wr_id = (uint64_t)v->wr_sent << 32 | c->sent;
	if (len <= v->inline_max)
		w->wr.send_flags = IBV_SEND_INLINE;
	v->quiet++;
	v->quiet_bytes += body_len;
	if (v->quiet >= v->quiet_max) {
		w->wr.send_flags |= IBV_SEND_SIGNALED;
		v->signalled++;
		v->quiet = v->quiet_bytes = 0;
	}
}

/* Room in the send queue itself, for entries that completions have not given back yet. */
static bool has_room(struct sl_verbs *v, enum sl_credit_kind kind)
{
	if (sl_credits_room(&v->base.credits, kind) &&
	    v->wr_sent - v->wr_done + VB_PER_MESSAGE <= v->wr_max)
		return true;
	vb_progress(&v->base);
	return sl_credits_room(&v->base.credits, kind) &&
	       v->wr_sent - v->wr_done + VB_PER_MESSAGE <= v->wr_max;
}

int vb_post(struct sl_transport *t, const struct sl_rpc_header *header, const struct sl_span *spans,
	    unsigned span_cnt, uint64_t cookie)
{
	struct sl_verbs *v = vb_of(t);
	struct sl_credits *c = &t->credits;
	uint32_t len = header->fragment_len, seq = c->sent, at, in_slot = sizeof(*header);
	uint8_t *slot = v->tx_slots + (size_t)(seq & v->mask) * SL_RPC_SLOT_SIZE;
	struct sl_rpc_header h = *header;

	(void)cookie; /* copied when this returns */
	if (v->gone)
		return -ENOTCONN;
	if (!has_room(v, kind_of(header)))
		return -EAGAIN;
	if (len > VB_BODY_MAX && (len > t->bulk_max || len > sl_credits_bulk_room(c)))
		return -EAGAIN;
	if (v->chain_len + VB_PER_MESSAGE > VB_CHAIN_MAX)
		ring(v);
	if (len > VB_BODY_MAX) {
		c->bulk_sent = sl_credits_bulk_place(c->bulk_len, c->bulk_sent, len, &at);
		gather(v->tx_bulk + at, len, spans, span_cnt);
		write_bulk(v, at, len);
	} else {
		gather(slot + sizeof(h), len, spans, span_cnt);
		in_slot += len;
	}
	h.consumed = sl_credits_post(c);
	memcpy(slot, &h, sizeof(h));
	v->posted[seq & v->mask] = (struct vb_posted){.bulk_end = c->bulk_sent, .body_len = len};
	t->posted_bytes += len;
	send_slot(v, slot, in_slot, len);
	return 0;
}

static void send_credit(struct sl_verbs *v)
{
	struct sl_rpc_header h = {
		.version_type = SL_RPC_VERSION << 4 | SL_RPC_CREDIT,
		.flags = SL_RPC_FIRST | SL_RPC_LAST,
		.priority = SL_CLASS_CONTROL,
	};

	/* Without room it stays due; the peer's own CREDIT makes room. */
	(void)vb_post(&v->base, &h, NULL, 0, 0);
}

void vb_flush(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);

	if (sl_credits_due(&t->credits))
		send_credit(v);
	ring(v);
}

unsigned vb_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	(void)t, (void)cookies, (void)max;
	return 0;
}

uint32_t vb_window(const struct sl_transport *t)
{
	uint32_t bulk;

	if (!sl_credits_room(&t->credits, SL_CREDIT_DATA))
		return 0;
	bulk = sl_credits_bulk_room(&t->credits);
	if (bulk > t->bulk_max)
		bulk = t->bulk_max;
	return bulk > VB_BODY_MAX ? bulk : VB_BODY_MAX;
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
	.close = vb_close,
};
