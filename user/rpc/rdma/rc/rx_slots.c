/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include "rpc/rdma/rc/srq_credits.h"
#include "rpc/rdma/rc/rc_conn.h"

enum { BATCH = 16 };

uint8_t *rc_rx_slot_at(const struct rc_conn *conn, uint32_t seq)
{
	if (conn->iface)
		return rc_iface_slot(conn->iface, conn->rx_slot[seq & conn->slot_mask]);
	return conn->rx_slots + (size_t)(seq & conn->mask) * SL_RPC_SLOT_SIZE;
}

int rc_post_receives(struct rc_conn *conn, uint32_t from, uint32_t to)
{
	while (from != to) {
		SL_UNINIT struct ibv_recv_wr wr[BATCH];
		SL_UNINIT struct ibv_sge sge[BATCH];
		struct ibv_recv_wr *bad;
		unsigned n = 0;

		for (; from != to && n < BATCH; n++, from++) {
			sge[n] = (struct ibv_sge){.addr = (uintptr_t)rc_rx_slot_at(conn, from),
						  .length = SL_RPC_SLOT_SIZE,
						  .lkey = conn->ring_mr->lkey};
			wr[n] = (struct ibv_recv_wr){.wr_id = from,
						     .next = &wr[n + 1],
						     .sg_list = &sge[n],
						     .num_sge = 1};
		}
		wr[n - 1].next = NULL;
		if (ibv_post_recv(conn->qp.qp, wr, &bad))
			return -EIO;
	}
	return 0;
}

void rc_repost(struct rc_conn *conn)
{
	uint32_t first = conn->reposted & conn->slot_mask, cnt = conn->released - conn->reposted;
	uint32_t until_wrap = conn->slot_mask + 1 - first;
	int rc;

	if (!cnt)
		return;
	if (!conn->iface) {
		rc = rc_post_receives(conn, conn->reposted, conn->released);
	} else {
		rc = rc_iface_post(conn->iface, conn->rx_slot + first,
				   cnt < until_wrap ? cnt : until_wrap);
		if (!rc && cnt > until_wrap)
			rc = rc_iface_post(conn->iface, conn->rx_slot, cnt - until_wrap);
	}
	if (rc)
		conn->gone = conn->broken = true;
	else
		conn->reposted = conn->released;
}

void rc_consume(struct rc_conn *conn)
{
	struct sl_credits *c = &conn->base.credits;

	if (conn->released == c->consumed)
		return;
	if (!conn->iface || conn->released - conn->reposted > SRQ_CREDITS_EARLY)
		rc_repost(conn);
	if (conn->broken)
		return;
	c->consumed = conn->released;
	c->bulk_consumed = conn->rx_bulk_end[(c->consumed - 1) & conn->mask];
}

void rc_repost_slot(struct rc_conn *conn, const struct rc_rx_comp *a)
{
	if (conn->iface)
		(void)rc_iface_post(conn->iface, &a->slot, 1);
}
