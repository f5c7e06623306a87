/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "rpc/rdma/rc/compact.h"
#include "rpc/rdma/rc/rc_conn.h"

enum { REPOST_AT = 16 };

static int handle_ack(struct rc_conn *conn, uint32_t consumed)
{
	struct sl_credits *c = &conn->base.credits;
	int64_t acked = sl_credits_ack(c, consumed);

	if (acked < 0)
		return -EPROTO;
	if (acked > 0) {
		const struct rc_posted *last = &conn->posted[(consumed - 1) & conn->mask];

		c->bulk_acked = last->bulk_end;
		conn->peer_read = last->consumed;
		if (consumed - c->done <= c->sent - c->done)
			rc_complete_tx(conn, consumed);
	}
	return 0;
}

static uint8_t *locate_message(struct rc_conn *conn, const struct rc_rx_comp *a, uint32_t seq)
{
	uint32_t at;

	if (a->op == RC_RX_SEND)
		return a->len < sizeof(struct sl_rpc_compact) ? NULL : rc_rx_slot_at(conn, seq);
	if (a->op != RC_RX_WRITE || a->len <= SL_RPC_SLOT_SIZE ||
	    a->len - sizeof(struct sl_rpc_header) > conn->base.bulk_max)
		return NULL;
	conn->rx_bulk_head =
		sl_credits_bulk_place(conn->base.credits.bulk_len, conn->rx_bulk_head, a->len, &at);
	return conn->rx_bulk + at;
}

static int parse_message(const struct rc_conn *conn, const struct rc_rx_comp *a, uint8_t *at,
			 struct sl_message *m)
{
	struct sl_rpc_header *h = &m->header;

	m->body = at;
	if (a->op == RC_RX_SEND && rc_is_compact(at))
		return rc_compact_read(at, a->len, conn->base.peer_epoch, h)
			       ? -EPROTO
			       : sl_message_check(h, conn->base.bulk_max);
	if (a->len < sizeof(*h))
		return -EPROTO;
	memcpy(h, at, sizeof(*h));
	m->body += sizeof(*h);
	if (h->fragment_len != a->len - sizeof(*h) ||
	    (a->len > SL_RPC_SLOT_SIZE && (h->version_type & 15) > SL_RPC_RESPONSE))
		return -EPROTO;
	return sl_message_check(h, conn->base.bulk_max);
}

static int accept_message(struct rc_conn *conn, const struct rc_rx_comp *a, struct sl_message *m)
{
	uint8_t *at;
	uint32_t seq = conn->rx_next;
	int rc;

	if (seq - conn->base.credits.consumed >= conn->enforced || rx_window_overdue(conn)) {
		rc_repost_slot(conn, a); /* beyond the window */
		return -EPROTO;
	}
	/* The message owns the slot from here on, valid or not. */
	conn->rx_slot[seq & conn->slot_mask] = a->slot;
	conn->rx_next++;
	at = locate_message(conn, a, seq);
	if (!at)
		return -EPROTO;
	rc = parse_message(conn, a, at, m);
	if (!rc)
		rc = handle_ack(conn, m->header.consumed);
	if (!rc && (m->header.version_type & 15) == SL_RPC_CREDIT)
		rc = rx_window_handle_credit(conn, &m->header);
	if (rc)
		return rc;
	if (sl_unlikely(m->header.flags & SL_RPC_SPENT))
		rx_window_spent(conn);
	m->token = seq;
	conn->rx_bulk_end[seq & conn->mask] = conn->rx_bulk_head;
	return 0;
}

void rc_poll_rx(struct rc_conn *conn)
{
	if (conn->rx_cq)
		rc_rx_cq_poll_for(conn->rx_cq, conn);
}

int rc_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct rc_conn *conn = rc_conn_of(t);
	struct rc_rx_comp a;
	unsigned n = 0, got = 0;

	if (sl_unlikely(conn->flooded) && !conn->error) {
		conn->error = -EPROTO;
		conn->gone = true;
	}
	if (conn->error)
		return conn->error;
	if (!conn->attached || conn->gone)
		rc_poll_rx(conn);
	/*
	 * Other completions count against `max`, too: a peer could keep the owner busy with them.
	 */
	for (; got < max && rc_rx_fifo_pop(&conn->rx_fifo, &a); got++) {
		int rc;

		if (conn->error || conn->broken || a.op == RC_RX_FAILED) {
			conn->gone = conn->broken = true;
			rc_repost_slot(conn, &a);
			continue;
		}
		if (rc_is_bye(&a)) {
			conn->broken |= conn->bye_received; /* nothing may follow a BYE */
			conn->gone = conn->bye_received = true;
			rc_repost_slot(conn, &a);
			continue;
		}
		rc = accept_message(conn, &a, &msgs[n]);
		if (rc) {
			conn->error = rc;
			conn->gone = true;
			continue;
		}
		if ((msgs[n].header.version_type & 15) != SL_RPC_CREDIT) {
			n++;
			conn->lent++;
		} else if (!conn->lent) {
			conn->released = conn->rx_next;
		}
	}
	if (conn->signaled)
		rc_progress(t);
	if (n == 0 && conn->error)
		return conn->error;
	if (n == 0 && conn->gone && (!got || conn->broken))
		return conn->lost ? conn->lost : -ENOTCONN;
	return (int)n;
}

void rc_release(struct sl_transport *t, const struct sl_message *m)
{
	struct rc_conn *conn = rc_conn_of(t);

	conn->lent--;
	conn->released = conn->lent ? m->token + 1 : conn->rx_next;
	if (conn->released - conn->reposted >= REPOST_AT) {
		rc_repost(conn);
		rc_consume(conn);
	}
}
