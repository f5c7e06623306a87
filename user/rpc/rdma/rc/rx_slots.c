/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/rc/srq_credits.h"
#include "rpc/rdma/rc/rc_conn.h"

uint8_t *rc_rx_slot_at(const struct rc_conn *conn, uint32_t seq)
{
	return rc_iface_slot(conn->iface, conn->rx_slot[seq & conn->slot_mask]);
}

void rc_repost(struct rc_conn *conn)
{
	uint32_t first = conn->reposted & conn->slot_mask, cnt = conn->released - conn->reposted;
	uint32_t until_wrap = conn->slot_mask + 1 - first;
	int rc;

	if (!cnt)
		return;
	rc = rc_iface_post(conn->iface, conn->rx_slot + first, cnt < until_wrap ? cnt : until_wrap);
	if (!rc && cnt > until_wrap)
		rc = rc_iface_post(conn->iface, conn->rx_slot, cnt - until_wrap);
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
	if (conn->released - conn->reposted > SRQ_CREDITS_EARLY)
		rc_repost(conn);
	if (conn->broken)
		return;
	c->consumed = conn->released;
	c->bulk_consumed = conn->rx_bulk_end[(c->consumed - 1) & conn->mask];
}

void rc_repost_slot(struct rc_conn *conn, const struct rc_rx_comp *a)
{
	(void)rc_iface_post(conn->iface, &a->slot, 1);
}
