/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rdma/service_thread.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	SLICE_PACKETS = 24,
	BIND_TIMEOUT_MS = 100,
	HOP_LIMIT = 64,
	ACK_TIMEOUT = 17, /* 4 us << 17, seven tries: a dead peer is noticed in four seconds */
};

static bool is_power_of_two(uint32_t n)
{
	return n && !(n & (n - 1));
}

bool rc_ring_sizes_ok(const struct rc_ring_sizes *g)
{
	return is_power_of_two(g->slots) && g->slots >= SL_RPC_MIN_SLOTS &&
	       g->slots <= SL_RPC_MAX_SLOTS && is_power_of_two(g->bulk_len) &&
	       g->bulk_len >= SL_RPC_MIN_BULK && g->bulk_len <= SL_RPC_MAX_BULK;
}

struct rc_conn *rc_conn_new(void)
{
	struct rc_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->base.ops = &rc_transport_ops;
	conn->base.copies = true;
	conn->base.slot_len = SL_RPC_SLOT_SIZE;
	sl_list_init(&conn->closing);
	sl_list_init(&conn->base.ready_node);
	if (rc_wake_open(conn) || service_thread_start()) {
		rc_wake_close(conn);
		free(conn);
		return NULL;
	}
	return conn;
}

static int negative_errno(void)
{
	int e = errno;

	return e > 0 ? -e : -ENOMEM;
}

size_t rc_rings_len(const struct rc_ring_sizes *g)
{
	return (size_t)g->slots * SL_RPC_SLOT_SIZE + 2 * (size_t)g->bulk_len;
}

/* The ring ends the buffer: nothing lies behind it. Its address is known before the grant. */
static int alloc_ring_buf(struct rc_conn *conn, const struct rc_ring_sizes *g)
{
	errno = 0;
	conn->ring_buf = mr_pool_get(rc_iface_mr_pool(conn->iface), rc_rings_len(g));
	if (!conn->ring_buf)
		return negative_errno();
	conn->bulk_len = g->bulk_len;
	conn->rx_bulk = conn->ring_buf->mem + conn->ring_buf->len - g->bulk_len;
	conn->rkey = ibv_inc_rkey(conn->qp.mw->rkey);
	return 0;
}

int rc_conn_register_rings(struct rc_conn *conn)
{
	int rc = mr_pool_register(rc_iface_mr_pool(conn->iface), conn->ring_buf);

	conn->ring_mr = conn->ring_buf->mr;
	return rc;
}

static int open_qp(struct rc_conn *conn, unsigned group, uint32_t slots)
{
	struct rc_qp_pool *qp_pool = rc_iface_qp_pool(conn->iface);
	int rc;

	rc_qp_pool_request(qp_pool, slots);
	rc = rc_qp_pool_get(qp_pool, slots, &conn->qp);
	if (rc)
		return rc;
	conn->qp.qp->qp_context = conn->qp.tx_cq->cq_context = conn;
	conn->unsignaled_max = slots / 4 < RC_SIGNAL_MAX ? slots / 4 : RC_SIGNAL_MAX;
	conn->rx_fifo.size = 2 * slots;
	rx_window_init(conn);
	conn->rx_fifo.comps = calloc(conn->rx_fifo.size, sizeof(*conn->rx_fifo.comps));
	if (!conn->rx_fifo.comps)
		return -ENOMEM;
	conn->is_inbound = group >= RDMA_GROUP_BACKEND;
	rc_rx_cq_add(rc_iface_rx_cq(conn->iface), conn);
	return 0;
}

int rc_conn_open(struct rc_conn *conn, const struct rc_path *path, unsigned group,
		 const struct rc_ring_sizes *g)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = path->local.port,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int rc;

	conn->path = *path;
	conn->pid = getpid();
	conn->device = ((struct ibv_pd *)path->local.device)->context;
	rc = rc_iface_join(conn->device, group, &conn->iface);
	if (rc)
		return rc;
	conn->window = SL_RPC_MIN_SLOTS;
	errno = 0;
	rc = open_qp(conn, group, g->slots);
	if (!rc &&
	    ibv_modify_qp(conn->qp.qp, &init,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		rc = -EIO;
	if (!rc)
		rc = rc_conn_events_open(conn);
	return rc ? rc : alloc_ring_buf(conn, g);
}

static struct ibv_ah_attr ah_attr_of(const struct rc_path *path, int gid_index)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .sl = path->sl,
				   .port_num = path->local.port,
				   .grh = {.sgid_index = (uint8_t)gid_index,
					   .hop_limit = HOP_LIMIT,
					   .traffic_class = path->tos}};

	memcpy(attr.grh.dgid.raw, path->gid, sizeof(path->gid));
	return attr;
}

static enum ibv_mtu mtu_code(uint32_t bytes)
{
	enum ibv_mtu code = IBV_MTU_4096;

	while (code > IBV_MTU_256 && 128u << code > bytes)
		code--;
	return code;
}

int rc_conn_to_rts(struct rc_conn *conn, const struct rc_qp_end *a, uint32_t own_psn, uint32_t mtu)
{
	int index = rdma_gid_index(conn->device, conn->path.local.port, conn->path.local.gid);
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .ah_attr = ah_attr_of(&conn->path, index),
				  .path_mtu = mtu_code(mtu),
				  .dest_qp_num = a->qpn,
				  .rq_psn = a->psn & RDMA_PSN_MASK,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = RC_RNR_TIMER};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = ACK_TIMEOUT,
				  .retry_cnt = RC_RETRIES,
				  .rnr_retry = RC_RNR_RETRIES,
				  .sq_psn = own_psn & RDMA_PSN_MASK,
				  .max_rd_atomic = 1};

	if (index < 0)
		return index;
	if (ibv_modify_qp(conn->qp.qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(conn->qp.qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return -EIO;
	conn->ready = true;
	conn->peer_bulk = a->bulk;
	conn->peer_rkey = a->rkey;
	conn->packet_len = 128u << rtr.path_mtu;
	return rdma_path_query(&conn->path_info, &conn->path.local, conn->packet_len);
}

int rc_conn_open_rings(struct rc_conn *conn, const struct rc_ring_sizes *g)
{
	const struct rdma_path_info *path = &conn->path_info;
	int rc;

	conn->tx_slots = conn->ring_buf->mem;
	conn->tx_bulk = conn->tx_slots + (size_t)g->slots * SL_RPC_SLOT_SIZE;
	conn->mask = g->slots - 1;
	conn->slot_mask = 2 * g->slots - 1;
	rc = rc_conn_register_rings(conn);
	if (rc)
		return rc;
	conn->posted = calloc(g->slots, sizeof(*conn->posted));
	conn->rx_bulk_end = calloc(g->slots, sizeof(*conn->rx_bulk_end));
	conn->rx_slot = calloc(2 * (size_t)g->slots, sizeof(*conn->rx_slot));
	conn->zcopy_ops = calloc(g->slots, sizeof(*conn->zcopy_ops));
	if (!conn->posted || !conn->rx_bulk_end || !conn->rx_slot || !conn->zcopy_ops)
		return -ENOMEM;
	sl_credits_init(&conn->base.credits, SL_RPC_MIN_SLOTS, g->slots, g->bulk_len);
	conn->base.rate_bps = path->rate_bps;
	conn->base.port = (uintptr_t)conn->device + conn->path.local.port;
	conn->base.bulk_max = g->bulk_len / 4;
	conn->base.slice_min =
		SLICE_PACKETS * conn->packet_len - (uint32_t)sizeof(struct sl_rpc_header);
	if (conn->base.bulk_max > path->message_max)
		conn->base.bulk_max = path->message_max;
	return 0;
}

void rc_conn_set_info(struct rc_conn *conn, const char *what)
{
	snprintf(conn->base.info, sizeof(conn->base.info), "rdma %s, %u shared slots%s",
		 conn->path_info.text, conn->mask + 1, what);
}

void rc_conn_set_zcopy_mem(struct rc_conn *conn, void *mem, size_t len)
{
	conn->mem_mr = mr_pool_reg_shared(rc_iface_mr_pool(conn->iface), mem, len);
	if (!conn->mem_mr)
		return;
	conn->mem = mem;
	conn->mem_len = len;
	conn->base.copies = false;
	conn->base.spans_max = conn->qp.sge_max * RC_WRITES_MAX - 1; /* less the header */
}

static struct ibv_send_wr bind_wr_of(struct rc_conn *conn)
{
	return (struct ibv_send_wr){
		.wr_id = RC_WR_BIND,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = conn->qp.mw,
			    .rkey = conn->rkey,
			    .bind_info = {.mr = conn->ring_mr,
					  .addr = (uintptr_t)conn->rx_bulk,
					  .length = conn->base.credits.bulk_len,
					  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}},
	};
}

int rc_conn_bind_mw(struct rc_conn *conn)
{
	struct ibv_send_wr bind = bind_wr_of(conn);
	uint64_t until_ns = sl_now_ns() + BIND_TIMEOUT_MS * SL_NS_PER_MS;

	bind.send_flags = IBV_SEND_SIGNALED;
	if (rdma_post_chain(conn->qp.qp, &bind))
		return -EIO;
	do
		rc_progress(&conn->base);
	while (!conn->bound && !conn->gone && sl_now_ns() < until_ns);
	return conn->bound ? 0 : -EIO;
}

/* Uses the last message slot, which messages reach last. */
int rc_conn_send_ack(struct rc_conn *conn, const uint8_t proof[SL_PSK_MAC_LEN])
{
	uint8_t *slot = conn->tx_slots + (size_t)conn->mask * SL_RPC_SLOT_SIZE;
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot, .length = SL_PSK_MAC_LEN, .lkey = conn->ring_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = RC_WR_ACK,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr bind = bind_wr_of(conn);

	bind.next = &wr;
	memcpy(slot, proof, SL_PSK_MAC_LEN);
	return rdma_post_chain(conn->qp.qp, &bind) ? -EIO : 0;
}

int rc_conn_poll_ack(struct rc_conn *conn)
{
	struct rc_rx_comp a;

	rc_poll_rx(conn);
	if (!rc_rx_fifo_pop(&conn->rx_fifo, &a))
		return conn->gone || conn->flooded ? -ECONNRESET : 0;
	if (a.op == RC_RX_SEND)
		memcpy(conn->ack, rc_iface_slot(conn->iface, a.slot), sizeof(conn->ack));
	rc_repost_slot(conn, &a);
	conn->gone |= a.op == RC_RX_FAILED || rc_is_bye(&a);
	if (conn->gone)
		return -ECONNRESET;
	return a.op == RC_RX_SEND && a.len == sizeof(conn->ack) ? 1 : -EBADMSG;
}
