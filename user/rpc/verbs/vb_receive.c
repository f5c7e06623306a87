/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "rpc/verbs/verbs.h"

enum { REPOST_AT = 16, POLL = 16 };

static uint8_t *slot_at(const struct sl_verbs *v, uint32_t seq)
{
	return v->rx_slots + (size_t)(seq & v->mask) * SL_RPC_SLOT_SIZE;
}

int vb_post_receives(struct sl_verbs *v, uint32_t from, uint32_t to)
{
	while (from != to) {
		struct ibv_recv_wr wr[REPOST_AT], *bad;
		struct ibv_sge sge[REPOST_AT];
		unsigned n = 0;

		for (; from != to && n < REPOST_AT; n++, from++) {
			sge[n] = (struct ibv_sge){.addr = (uintptr_t)slot_at(v, from),
						  .length = SL_RPC_SLOT_SIZE,
						  .lkey = v->ring_mr->lkey};
			wr[n] = (struct ibv_recv_wr){.wr_id = from,
						     .next = &wr[n + 1],
						     .sg_list = &sge[n],
						     .num_sge = 1};
		}
		wr[n - 1].next = NULL;
		if (ibv_post_recv(v->id->qp, wr, &bad))
			return -EIO;
	}
	return 0;
}

/* Slots of messages before `upto` go back to the receive queue, and then count as consumed. */
static void consumed_upto(struct sl_verbs *v, uint32_t upto)
{
	struct sl_credits *c = &v->base.credits;

	if (upto == c->consumed)
		return;
	if (vb_post_receives(v, c->consumed, upto)) {
		v->gone = v->broken = true;
		return;
	}
	c->consumed = upto;
	c->bulk_consumed = v->rx_bulk_end[(upto - 1) & v->mask];
}

static int take_ack(struct sl_verbs *v, uint32_t consumed)
{
	struct sl_credits *c = &v->base.credits;
	int64_t fresh = sl_credits_ack(c, consumed);

	if (fresh < 0)
		return -EPROTO;
	if (fresh > 0) {
		c->bulk_acked = v->posted[(consumed - 1) & v->mask].bulk_end;
		/* What the peer has consumed has been sent, though our completion is yet to come.
		 */
		if (consumed - c->done <= c->sent - c->done)
			vb_complete(v, consumed);
	}
	return 0;
}

/* wc_len: what has really arrived in the slot. */
static int check_header(const struct sl_verbs *v, const struct sl_rpc_header *h, uint32_t wc_len)
{
	unsigned type = h->version_type & 15;
	uint32_t body = h->fragment_len;

	if (h->version_type >> 4 != SL_RPC_VERSION || type < SL_RPC_REQUEST || type > SL_RPC_HELLO)
		return -EPROTO;
	if (body > v->base.bulk_max || (type == SL_RPC_CREDIT && body))
		return -EPROTO;
	return wc_len == sizeof(*h) + (body > VB_BODY_MAX ? 0 : body) ? 0 : -EPROTO;
}

static int take(struct sl_verbs *v, const struct ibv_wc *wc, struct sl_message *m)
{
	const uint8_t *slot = slot_at(v, v->rx_next);
	uint32_t at;
	int rc;

	if (wc->byte_len < sizeof(m->header) || wc->opcode != IBV_WC_RECV)
		return -EPROTO;
	memcpy(&m->header, slot, sizeof(m->header));
	rc = check_header(v, &m->header, wc->byte_len);
	if (!rc)
		rc = take_ack(v, m->header.consumed);
	if (rc)
		return rc;
	m->body = slot + sizeof(m->header);
	if (m->header.fragment_len > VB_BODY_MAX) {
		/* A sender that has not waited for room overwrites its own bytes only. */
		v->rx_bulk_head = sl_credits_bulk_place(v->base.credits.bulk_len, v->rx_bulk_head,
							m->header.fragment_len, &at);
		m->body = v->rx_bulk + at;
	}
	m->token = v->rx_next;
	v->rx_bulk_end[v->rx_next & v->mask] = v->rx_bulk_head;
	v->rx_next++;
	return 0;
}

/* Completions, first the one that arm() has found; negative when there can be no more. */
static int completions(struct sl_verbs *v, struct ibv_wc *wc, unsigned max)
{
	int n;

	if (v->have_wc) {
		v->have_wc = false;
		wc[0] = v->wc;
		return 1;
	}
	n = ibv_poll_cq(v->rx_cq, (int)(max < POLL ? max : POLL), wc);
	if (n < 0)
		v->gone = v->broken = true;
	return n;
}

int vb_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct sl_verbs *v = vb_of(t);
	struct ibv_wc wc[POLL];
	unsigned n = 0;
	int got;

	if (v->error)
		return v->error;
	got = completions(v, wc, max);
	for (int i = 0; i < got; i++) {
		int rc;

		if (wc[i].status != IBV_WC_SUCCESS) {
			v->gone = v->broken = true;
			break;
		}
		rc = take(v, &wc[i], &msgs[n]);
		if (rc) {
			/* What came before it still counts; what comes after does not. */
			v->error = rc;
			v->gone = true;
			break;
		}
		if ((msgs[n].header.version_type & 15) != SL_RPC_CREDIT) {
			n++;
			v->lent++;
		} else if (!v->lent) {
			consumed_upto(v, v->rx_next);
		}
	}
	if (v->signalled)
		vb_progress(t);
	if (n == 0 && v->error)
		return v->error;
	if (n == 0 && v->gone && (got <= 0 || v->broken))
		return -ENOTCONN;
	return (int)n;
}

void vb_release(struct sl_transport *t, const struct sl_message *m)
{
	struct sl_verbs *v = vb_of(t);

	v->lent--;
	/* CREDITs behind the last lent message go with it. */
	if (!v->lent)
		consumed_upto(v, v->rx_next);
	else if (m->token + 1 - t->credits.consumed >= REPOST_AT)
		consumed_upto(v, m->token + 1);
}
