/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include "rpc/rdma/rc/compact.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	UNSIGNALED_BYTES_MAX = 8 << 10,
	POLL_BATCH = 16,
};

void rc_complete_tx(struct rc_conn *conn, uint32_t upto)
{
	struct sl_credits *c = &conn->base.credits;

	for (; c->done != upto; c->done++)
		conn->base.posted_bytes -= conn->posted[c->done & conn->mask].body_len;
}

static void handle_completion(struct rc_conn *conn, const struct ibv_wc *wc)
{
	struct sl_credits *c = &conn->base.credits;
	uint32_t upto = (uint32_t)wc->wr_id;

	if (wc->status != IBV_WC_SUCCESS) {
		if (wc->status == IBV_WC_RNR_RETRY_EXC_ERR)
			conn->lost = -ENOBUFS;
		conn->broken = true;
		conn->gone = true;
		return;
	}
	if (wc->wr_id == RC_WR_BYE)
		conn->bye = RC_BYE_DONE;
	if (wc->wr_id == RC_WR_BIND)
		conn->bound = true;
	if (wc->wr_id & RC_WR_ACK)
		return;
	conn->signaled--;
	conn->base.silent_ns = 0;
	conn->wr_done += ((uint32_t)(wc->wr_id >> 32) - conn->wr_done) & RC_WR_CNT_MASK;
	if ((int32_t)(conn->zcopy_upto - upto) < 0)
		conn->zcopy_upto = upto;
	conn->reaped = upto;
	if (upto - c->done <= c->sent - c->done)
		rc_complete_tx(conn, upto);
}

void rc_progress(struct sl_transport *t)
{
	struct rc_conn *conn = rc_conn_of(t);
	SL_UNINIT struct ibv_wc wc[POLL_BATCH];
	int n;

	do {
		n = ibv_poll_cq(conn->qp.tx_cq, POLL_BATCH, wc);
		for (int i = 0; i < n; i++)
			handle_completion(conn, &wc[i]);
	} while (n == POLL_BATCH);
	if (n < 0)
		conn->gone = conn->broken = true;
}

static void request_signal(struct rc_conn *conn, struct ibv_send_wr *wr)
{
	wr->send_flags |= IBV_SEND_SIGNALED;
	conn->signaled++;
	conn->unsignaled = conn->unsignaled_bytes = 0;
	conn->unsignaled_zcopy = false;
}

/* Posts the chain of work requests. Signals the last one if zero copy needs its completion. */
static void ring_doorbell(struct rc_conn *conn)
{
	struct ibv_send_wr *last;

	if (!conn->chain_len)
		return;
	last = &conn->chain[conn->chain_len - 1];
	if (conn->unsignaled && (!conn->signaled || conn->unsignaled_zcopy ||
				 conn->unsignaled_bytes > UNSIGNALED_BYTES_MAX))
		request_signal(conn, last);
	for (uint32_t i = 0; i + 1 < conn->chain_len; i++)
		conn->chain[i].next = &conn->chain[i + 1];
	conn->chain_len = conn->sge_cnt = 0;
	conn->base.doorbells++;
	if (rdma_post_chain(conn->qp.qp, &conn->chain[0]))
		conn->gone = conn->broken = true;
}

static struct ibv_send_wr *new_wr(struct rc_conn *conn, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *wr = &conn->chain[conn->chain_len++];

	*wr = (struct ibv_send_wr){.opcode = opcode, .sg_list = &conn->sges[conn->sge_cnt]};
	conn->wr_sent++;
	return wr;
}

static void add_sge(struct rc_conn *conn, struct ibv_send_wr *wr, const uint8_t *bytes,
		    uint32_t len, const struct ibv_mr *mr)
{
	conn->sges[conn->sge_cnt++] =
		(struct ibv_sge){.addr = (uintptr_t)bytes, .length = len, .lkey = mr->lkey};
	wr->num_sge++;
}

static struct ibv_send_wr *new_write(struct rc_conn *conn, uint32_t at)
{
	struct ibv_send_wr *wr = new_wr(conn, IBV_WR_RDMA_WRITE);

	wr->wr.rdma.remote_addr = conn->peer_bulk + at;
	wr->wr.rdma.rkey = conn->peer_rkey;
	return wr;
}

static bool is_zcopy(const struct rc_conn *conn, const struct sl_span *span)
{
	uintptr_t from = (uintptr_t)span->ptr - (uintptr_t)conn->mem;

	return span->len >= RC_ZCOPY_MIN && conn->mem && from < conn->mem_len &&
	       span->len <= conn->mem_len - from;
}

static uint32_t count_sges(const struct rc_conn *conn, const struct sl_span *spans,
			   unsigned span_cnt)
{
	uint32_t sges = 1, zcopy = 0;
	bool copied = true;

	for (unsigned i = 0; i < span_cnt; i++) {
		bool d = is_zcopy(conn, &spans[i]);

		sges += d || !copied;
		zcopy += d;
		copied = !d;
	}
	return zcopy ? sges : 0;
}

static struct ibv_send_wr *write_sge(struct rc_conn *conn, struct ibv_send_wr *wr, uint32_t at,
				     const uint8_t *bytes, uint32_t len, const struct ibv_mr *mr)
{
	if ((uint32_t)wr->num_sge == conn->qp.sge_max)
		wr = new_write(conn, at);
	add_sge(conn, wr, bytes, len, mr);
	return wr;
}

static struct ibv_send_wr *write_zcopy(struct rc_conn *conn, uint32_t at,
				       const struct sl_span *spans, unsigned span_cnt)
{
	struct ibv_send_wr *wr = new_write(conn, at);
	uint32_t staged = sizeof(struct sl_rpc_header);

	at += staged;
	for (unsigned i = 0; i < span_cnt; i++) {
		uint32_t len = (uint32_t)spans[i].len;

		if (!is_zcopy(conn, &spans[i])) {
			sl_message_gather(conn->tx_bulk + at, len, &spans[i], 1);
			staged += len;
			at += len;
			continue;
		}
		if (staged)
			wr = write_sge(conn, wr, at - staged, conn->tx_bulk + at - staged, staged,
				       conn->ring_mr);
		wr = write_sge(conn, wr, at, spans[i].ptr, len, conn->mem_mr);
		conn->zcopy_upto = conn->base.credits.sent;
		conn->unsignaled_zcopy = true;
		staged = 0;
		at += len;
	}
	if (staged)
		wr = write_sge(conn, wr, at - staged, conn->tx_bulk + at - staged, staged,
			       conn->ring_mr);
	return wr;
}

static struct ibv_send_wr *write_bulk(struct rc_conn *conn, uint32_t at,
				      const struct sl_rpc_header *h, const struct sl_span *spans,
				      unsigned span_cnt)
{
	uint32_t sges = conn->mem ? count_sges(conn, spans, span_cnt) : 0;
	struct ibv_send_wr *wr;

	memcpy(conn->tx_bulk + at, h, sizeof(*h));
	if (sges && sges <= conn->qp.sge_max * RC_WRITES_MAX) {
		if (conn->sge_cnt + sges > RC_SGES_MAX)
			ring_doorbell(conn);
		wr = write_zcopy(conn, at, spans, span_cnt);
	} else {
		sl_message_gather(conn->tx_bulk + at + sizeof(*h), h->fragment_len, spans,
				  span_cnt);
		wr = new_write(conn, at);
		add_sge(conn, wr, conn->tx_bulk + at, (uint32_t)sizeof(*h) + h->fragment_len,
			conn->ring_mr);
	}
	wr->opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr->imm_data = htonl((uint32_t)sizeof(*h) + h->fragment_len);
	return wr;
}

static struct ibv_send_wr *send_slot(struct rc_conn *conn, uint8_t *slot,
				     const struct sl_rpc_header *h, const struct sl_span *spans,
				     unsigned span_cnt)
{
	uint32_t len = rc_compact_write(slot, h, spans, span_cnt);
	struct ibv_send_wr *wr = new_wr(conn, IBV_WR_SEND);

	if (!len) {
		len = (uint32_t)sizeof(*h) + h->fragment_len;
		memcpy(slot, h, sizeof(*h));
		sl_message_gather(slot + sizeof(*h), h->fragment_len, spans, span_cnt);
	}
	add_sge(conn, wr, slot, len, conn->ring_mr);
	if (len <= conn->qp.inline_max)
		wr->send_flags = IBV_SEND_INLINE;
	return wr;
}

static void finish_message(struct rc_conn *conn, struct ibv_send_wr *wr, uint32_t body_len)
{
	wr->wr_id = (uint64_t)(conn->wr_sent & RC_WR_CNT_MASK) << 32 | conn->base.credits.sent;
	conn->unsignaled++;
	conn->unsignaled_bytes += body_len;
	if (conn->unsignaled >= conn->unsignaled_max)
		request_signal(conn, wr);
}

static bool has_tx_room(struct rc_conn *conn, enum sl_credit_kind kind)
{
	if (rx_window_room(conn, kind) &&
	    conn->wr_sent - conn->wr_done + RC_WRITES_MAX <= conn->qp.wr_max)
		return true;
	rc_progress(&conn->base);
	return rx_window_room(conn, kind) &&
	       conn->wr_sent - conn->wr_done + RC_WRITES_MAX <= conn->qp.wr_max;
}

int rc_post(struct sl_transport *t, const struct sl_rpc_header *header, const struct sl_span *spans,
	    unsigned span_cnt, uint64_t cookie)
{
	struct rc_conn *conn = rc_conn_of(t);
	struct sl_credits *c = &t->credits;
	uint32_t len = header->fragment_len, seq = c->sent, at;
	struct sl_rpc_header h = *header;
	struct ibv_send_wr *wr;

	if (conn->gone)
		return conn->error ? conn->error : -ENOTCONN;
	if (conn->port_down)
		return -EAGAIN;
	if (!has_tx_room(conn, sl_message_kind(header)) ||
	    conn->zcopy_posted - conn->zcopy_done > conn->mask)
		return -EAGAIN;
	if (len > RC_BODY_MAX && (len > t->bulk_max || len + sizeof(h) > sl_credits_bulk_room(c)))
		return -EAGAIN;
	if (conn->chain_len + RC_WRITES_MAX > RC_CHAIN_MAX || conn->sge_cnt + 1 > RC_SGES_MAX)
		ring_doorbell(conn);
	/* Reports the request's slot with its reply; otherwise an idle channel would lack it. */
	rc_consume(conn);
	h.consumed = sl_credits_post(c);
	if (sl_unlikely(sl_credits_spent(c)))
		h.flags |= SL_RPC_SPENT;
	if (len > RC_BODY_MAX) {
		c->bulk_sent = sl_credits_bulk_place(c->bulk_len, c->bulk_sent,
						     len + (uint32_t)sizeof(h), &at);
		wr = write_bulk(conn, at, &h, spans, span_cnt);
	} else {
		wr = send_slot(conn, conn->tx_slots + (size_t)(seq & conn->mask) * SL_RPC_SLOT_SIZE,
			       &h, spans, span_cnt);
	}
	conn->posted[seq & conn->mask] = (struct rc_posted){
		.bulk_end = c->bulk_sent, .body_len = len, .consumed = h.consumed};
	t->posted_bytes += len;
	finish_message(conn, wr, len);
	/* All zero-copy messages so far must be complete. */
	if (cookie)
		conn->zcopy_ops[conn->zcopy_posted++ & conn->mask] =
			(struct rc_zcopy_op){.cookie = cookie, .seq = conn->zcopy_upto};
	return 0;
}

static void post_credit(struct rc_conn *conn)
{
	struct sl_rpc_header credit = rx_window_credit(conn);

	if (rc_post(&conn->base, &credit, NULL, 0, 0) == 0)
		rx_window_advertised(conn, credit.total_or_offset);
}

void rc_flush(struct sl_transport *t)
{
	struct rc_conn *conn = rc_conn_of(t);

	rc_consume(conn);
	if (rx_window_credit_due(conn))
		post_credit(conn);
	ring_doorbell(conn);
	rc_repost(conn);
}

unsigned rc_sent(struct sl_transport *t, uint64_t *cookies, unsigned max)
{
	struct rc_conn *conn = rc_conn_of(t);
	unsigned n = 0;

	while (n < max && conn->zcopy_done != conn->zcopy_posted) {
		const struct rc_zcopy_op *b = &conn->zcopy_ops[conn->zcopy_done & conn->mask];

		if ((int32_t)(conn->reaped - b->seq) < 0)
			break;
		cookies[n++] = b->cookie;
		conn->zcopy_done++;
	}
	return n;
}

uint32_t rc_tx_window(const struct sl_transport *t)
{
	const struct rc_conn *conn = (const struct rc_conn *)t;

	uint32_t with_header = conn->port_down ? 0 : sl_transport_window(t, SL_RPC_SLOT_SIZE);

	return with_header ? with_header - (uint32_t)sizeof(struct sl_rpc_header) : 0;
}
