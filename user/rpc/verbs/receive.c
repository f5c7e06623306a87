/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes in: vb_poll -> inbox (desk.h) -> take, which holds the header, or the short form
 * (short.h), against the bytes that the device says have arrived. vb_release gives a message's slot
 * back: vb_consume tells the peer of it, vb_put_back posts it again; verbs.h says which comes first.
 */
#include <errno.h>
#include "rpc/verbs/budget.h"
#include "rpc/verbs/short.h"
#include "rpc/verbs/verbs.h"

enum { REPOST_AT = 16, POLL = 16 };

static uint8_t *slot_at(const struct sl_verbs *v, uint32_t seq)
{
	if (v->home)
		return vb_home_slot(v->home, v->rx_slot[seq & v->slot_mask]);
	return v->rx_slots + (size_t)(seq & v->mask) * SL_RPC_SLOT_SIZE;
}

int vb_post_receives(struct sl_verbs *v, uint32_t from, uint32_t to)
{
	while (from != to) {
		SL_UNINIT struct ibv_recv_wr wr[REPOST_AT];
		SL_UNINIT struct ibv_sge sge[REPOST_AT];
		struct ibv_recv_wr *bad;
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
		if (ibv_post_recv(v->end.qp, wr, &bad))
			return -EIO;
	}
	return 0;
}

void vb_put_back(struct sl_verbs *v)
{
	uint32_t first = v->put_back & v->slot_mask, cnt = v->released - v->put_back;
	uint32_t to_end = v->slot_mask + 1 - first;
	int rc;

	if (!cnt)
		return;
	if (!v->home) {
		rc = vb_post_receives(v, v->put_back, v->released);
	} else {
		rc = vb_home_post(v->home, v->rx_slot + first, cnt < to_end ? cnt : to_end);
		if (!rc && cnt > to_end)
			rc = vb_home_post(v->home, v->rx_slot, cnt - to_end);
	}
	if (rc)
		v->gone = v->broken = true;
	else
		v->put_back = v->released;
}

void vb_consume(struct sl_verbs *v)
{
	struct sl_credits *c = &v->base.credits;

	if (v->released == c->consumed)
		return;
	if (!v->home || v->released - v->put_back > VB_BUDGET_EARLY)
		vb_put_back(v);
	if (v->broken)
		return;
	c->consumed = v->released;
	c->bulk_consumed = v->rx_bulk_end[(c->consumed - 1) & v->mask];
}

static int take_ack(struct sl_verbs *v, uint32_t consumed)
{
	struct sl_credits *c = &v->base.credits;
	int64_t fresh = sl_credits_ack(c, consumed);

	if (fresh < 0)
		return -EPROTO;
	if (fresh > 0) {
		const struct vb_posted *last = &v->posted[(consumed - 1) & v->mask];

		c->bulk_acked = last->bulk_end;
		v->knows = last->told;
		/* Room in our own memory, though our completion is yet to come; lent bytes wait. */
		if (consumed - c->done <= c->sent - c->done)
			vb_complete(v, consumed);
	}
	return 0;
}

/* Where it lies: in its receive slot, or at the next place of the bulk ring. NULL: nowhere. */
static uint8_t *place_of(struct sl_verbs *v, const struct vb_arrival *a, uint32_t seq)
{
	uint32_t at;

	if (a->how == VB_BY_SEND)
		return a->len < sizeof(struct sl_rpc_short) ? NULL : slot_at(v, seq);
	if (a->how != VB_BY_WRITE || a->len <= SL_RPC_SLOT_SIZE ||
	    a->len - sizeof(struct sl_rpc_header) > v->base.bulk_max)
		return NULL;
	/* A sender that has not waited for room overwrites its own bytes only. */
	v->rx_bulk_head =
		sl_credits_bulk_place(v->base.credits.bulk_len, v->rx_bulk_head, a->len, &at);
	return v->rx_bulk + at;
}

/*
 * In either form, held against what the device, or the sender by it, says that has arrived. 0 or
 * -EPROTO.
 */
static int read_message(const struct sl_verbs *v, const struct vb_arrival *a, uint8_t *at,
			struct sl_message *m)
{
	struct sl_rpc_header *h = &m->header;

	m->body = at;
	if (a->how == VB_BY_SEND && vb_is_short(at))
		return vb_short_read(at, a->len, v->base.peer_epoch, h)
			       ? -EPROTO
			       : sl_message_check(h, v->base.bulk_max);
	if (a->len < sizeof(*h))
		return -EPROTO;
	memcpy(h, at, sizeof(*h));
	m->body += sizeof(*h);
	if (h->fragment_len != a->len - sizeof(*h) ||
	    (a->len > SL_RPC_SLOT_SIZE && (h->version_type & 15) > SL_RPC_RESPONSE))
		return -EPROTO;
	return sl_message_check(h, v->base.bulk_max);
}

void vb_give_back(struct sl_verbs *v, const struct vb_arrival *a)
{
	if (v->home)
		(void)vb_home_post(v->home, &a->slot, 1);
}

static int take(struct sl_verbs *v, const struct vb_arrival *a, struct sl_message *m)
{
	uint8_t *at;
	uint32_t seq = v->rx_next;
	int rc;

	if (seq - v->base.credits.consumed >= v->held || vb_window_deaf(v)) {
		vb_give_back(v, a); /* beyond its window */
		return -EPROTO;
	}
	/* From here the slot is the message's, whatever is wrong with that. */
	v->rx_slot[seq & v->slot_mask] = a->slot;
	v->rx_next++;
	at = place_of(v, a, seq);
	if (!at)
		return -EPROTO;
	rc = read_message(v, a, at, m);
	if (!rc)
		rc = take_ack(v, m->header.consumed);
	if (!rc && (m->header.version_type & 15) == SL_RPC_CREDIT)
		rc = vb_window_heard(v, &m->header);
	if (rc)
		return rc;
	if (sl_unlikely(m->header.flags & SL_RPC_SPENT))
		vb_window_spent(v);
	m->token = seq;
	v->rx_bulk_end[seq & v->mask] = v->rx_bulk_head;
	return 0;
}

/* Of a queue of its own: no more than there is room for. */
static void pull_own(struct sl_verbs *v)
{
	SL_UNINIT struct ibv_wc wc[POLL];
	uint32_t room = v->inbox.limit - (v->inbox.in - v->inbox.out);
	int n = ibv_poll_cq(v->end.rx_cq, room < POLL ? (int)room : POLL, wc);

	for (int i = 0; i < n; i++)
		(void)vb_inbox_put(&v->inbox, &wc[i]);
	if (n < 0)
		v->gone = v->broken = true;
}

void vb_pull(struct sl_verbs *v)
{
	if (v->desk)
		vb_desk_pull(v->desk, v);
	else if (!v->home && v->end.rx_cq)
		pull_own(v);
}

int vb_poll(struct sl_transport *t, struct sl_message *msgs, unsigned max)
{
	struct sl_verbs *v = vb_of(t);
	struct vb_arrival a;
	unsigned n = 0, got = 0;

	if (sl_unlikely(v->flooded) && !v->error) {
		v->error = -EPROTO;
		v->gone = true;
	}
	if (v->error)
		return v->error;
	/* What has come before the end counts, though the owner has not taken it yet. */
	if (!v->attached || v->gone)
		vb_pull(v);
	/* Of what is no message neither more: who sends enough of that would keep its owner. */
	for (; got < max && vb_inbox_next(&v->inbox, &a); got++) {
		int rc;

		if (v->error || v->broken || a.how == VB_FAILED) {
			v->gone = v->broken = true;
			vb_give_back(v, &a);
			continue;
		}
		if (vb_is_bye(&a)) {
			v->broken |= v->bye_heard; /* behind it nothing comes */
			v->gone = v->bye_heard = true;
			vb_give_back(v, &a);
			continue;
		}
		rc = take(v, &a, &msgs[n]);
		if (rc) {
			/* What came before it still counts; what comes after does not. */
			v->error = rc;
			v->gone = true;
			continue;
		}
		if ((msgs[n].header.version_type & 15) != SL_RPC_CREDIT) {
			n++;
			v->lent++;
		} else if (!v->lent) {
			v->released = v->rx_next;
		}
	}
	if (v->signalled)
		vb_progress(t);
	if (sl_unlikely(v->doubt) && !v->gone)
		vb_look_after(v);
	if (n == 0 && v->error)
		return v->error;
	if (n == 0 && v->gone && (!got || v->broken))
		return v->lost ? v->lost : -ENOTCONN;
	return (int)n;
}

void vb_release(struct sl_transport *t, const struct sl_message *m)
{
	struct sl_verbs *v = vb_of(t);

	v->lent--;
	/* CREDITs behind the last lent message go with it. */
	v->released = v->lent ? m->token + 1 : v->rx_next;
	if (v->released - v->put_back >= REPOST_AT) {
		vb_put_back(v);
		vb_consume(v);
	}
}
