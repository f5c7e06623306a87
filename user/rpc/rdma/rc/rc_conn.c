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
	PAGE = 4096,
	SLICE_PACKETS = 24,
	BIND_TIMEOUT_MS = 100,
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
	conn->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (conn->base.fd < 0 || rc_wake_open() || service_thread_start()) {
		if (conn->base.fd >= 0)
			close(conn->base.fd);
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

static int post_keys_receive(struct rc_conn *conn)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	int mask;
	struct ibv_sge sge = {.addr = (uintptr_t)&conn->keys[1],
			      .length = sizeof(conn->keys[1]),
			      .lkey = conn->keys_mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = RC_WR_KEYS, .sg_list = &sge, .num_sge = 1}, *bad;

	if (rdma_init_qp_attr(conn->peer->id, &attr, &mask) ||
	    ibv_modify_qp(conn->qp.qp, &attr, mask))
		return negative_errno();
	return ibv_post_recv(conn->qp.qp, &wr, &bad) ? -EIO : 0;
}

size_t rc_rings_len(const struct rc_ring_sizes *g)
{
	return (size_t)g->slots * SL_RPC_SLOT_SIZE + 2 * (size_t)g->bulk_len;
}

/*
 * The ring ends the buffer: its place does not depend on other rings, and nothing lies behind it.
 */
uint8_t *rc_conn_rx_bulk(const struct rc_conn *conn, uint32_t bulk_len)
{
	return conn->ring_buf->mem + conn->ring_buf->len - bulk_len;
}

static int alloc_ring_buf(struct rc_conn *conn, const struct rc_ring_sizes *g)
{
	errno = 0;
	conn->ring_buf = mr_pool_get(rc_iface_mr_pool(conn->iface), rc_rings_len(g));
	if (!conn->ring_buf)
		return negative_errno();
	conn->map = conn->ring_buf->mem;
	conn->bulk_len = g->bulk_len;
	return 0;
}

int rc_conn_register_rings(struct rc_conn *conn)
{
	int rc = mr_pool_register(rc_iface_mr_pool(conn->iface), conn->ring_buf);

	conn->ring_mr = conn->bulk_mr = conn->ring_buf->mr;
	return rc;
}

static int open_qp(struct rc_conn *conn, unsigned group, uint32_t slots)
{
	int rc;

	if (conn->iface) {
		struct rc_qp_pool *qp_pool = rc_iface_qp_pool(conn->iface);

		conn->pd = rc_iface_pd(conn->iface);
		rc_qp_pool_request(qp_pool, slots);
		rc = rc_qp_pool_get(qp_pool, slots, &conn->qp);
	} else {
		struct rc_qp_attr attr = {.device = conn->device,
					  .vector = rdma_comp_vector(conn->device, group)};

		conn->pd = attr.pd = ibv_alloc_pd(conn->device);
		if (conn->pd)
			conn->keys_mr = ibv_reg_mr(conn->pd, conn->keys, sizeof(conn->keys),
						   IBV_ACCESS_LOCAL_WRITE);
		if (!conn->keys_mr)
			return negative_errno();
		rc = rc_qp_create(&conn->qp, &attr, slots);
	}
	if (rc)
		return rc;
	conn->qp.qp->qp_context = conn->qp.tx_cq->cq_context = conn;
	conn->unsignaled_max = slots / 4 < RC_SIGNAL_MAX ? slots / 4 : RC_SIGNAL_MAX;
	conn->rx_fifo.size = 2 * slots;
	rx_window_init(conn, slots);
	conn->rx_fifo.comps = calloc(conn->rx_fifo.size, sizeof(*conn->rx_fifo.comps));
	if (!conn->rx_fifo.comps)
		return -ENOMEM;
	conn->is_inbound = group >= RDMA_GROUP_BACKEND;
	memcpy(conn->host, conn->peer->id->route.addr.addr.ibaddr.dgid.raw, sizeof(conn->host));
	if (conn->iface)
		rc_rx_cq_add(rc_iface_rx_cq(conn->iface), conn);
	return 0;
}

int rc_conn_open(struct rc_conn *conn, struct rdma_cm_id *id, struct rdma_event_channel *cm,
		 unsigned group, struct rc_ring_sizes *g)
{
	uint8_t ack_timeout = ACK_TIMEOUT;
	int rc = rc_iface_join(id->verbs, group, &conn->iface);

	if (rc)
		return rc;
	conn->window = SL_RPC_MIN_SLOTS;
	/* A kernel without the option uses the path's default of many seconds. */
	(void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
			      sizeof(ack_timeout));
	conn->peer = rc_peer_new(id, cm);
	if (!conn->peer)
		return -ENOMEM;
	conn->device = id->verbs;
	conn->port_num = id->port_num;
	errno = 0;
	rc = open_qp(conn, group, g->slots);
	/* The CM changes the queue pair's states from now on. */
	id->qp = conn->qp.qp;
	if (!rc && !conn->iface)
		rc = post_keys_receive(conn);
	if (!rc)
		rc = rc_conn_events_open(conn);
	if (rc) {
		rc_conn_events_close(conn);
		rc_peer_drop(conn->peer); /* the caller still owns id and channel */
		conn->peer = NULL;
		id->qp = NULL;
	}
	return rc;
}

int rc_conn_open_to_peer(struct rc_conn *conn, struct rc_peer *peer, unsigned group,
			 struct rc_ring_sizes *g)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT,
				   .port_num = peer->id->port_num,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	int rc;

	conn->peer = peer;
	conn->device = peer->id->verbs;
	conn->port_num = peer->id->port_num;
	rc = rc_iface_join(conn->device, group, &conn->iface);
	if (rc)
		return rc;
	if (!conn->iface)
		return -EOPNOTSUPP;
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

int rc_conn_to_rts(struct rc_conn *conn, uint32_t qpn, uint32_t psn, uint32_t own_psn)
{
	const struct ibv_qp_attr *av = &conn->peer->addr.qp_attr;
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .ah_attr = av->ah_attr,
				  .path_mtu = av->path_mtu,
				  .dest_qp_num = qpn,
				  .rq_psn = psn,
				  .max_dest_rd_atomic = 1,
				  .min_rnr_timer = RC_RNR_TIMER};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = ACK_TIMEOUT,
				  .retry_cnt = RC_RETRIES,
				  .rnr_retry = RC_RNR_RETRIES,
				  .sq_psn = own_psn,
				  .max_rd_atomic = 1};

	if (ibv_modify_qp(conn->qp.qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER) ||
	    ibv_modify_qp(conn->qp.qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		return -EIO;
	conn->ready = true;
	return 0;
}

static void set_ring_pointers(struct rc_conn *conn, const struct rc_ring_sizes *g)
{
	size_t slots_len = (size_t)g->slots * SL_RPC_SLOT_SIZE;

	conn->bulk_len = g->bulk_len;
	conn->tx_slots = conn->map;
	conn->tx_bulk = conn->tx_slots + slots_len;
	conn->rx_slots = conn->tx_bulk + g->bulk_len;
	conn->rx_bulk =
		conn->iface ? rc_conn_rx_bulk(conn, g->bulk_len) : conn->rx_slots + slots_len;
	conn->mask = g->slots - 1;
	conn->slot_mask = 2 * g->slots - 1;
}

/* In a shared domain, a memory window opens the ring to one queue pair. */
static int make_own_rings(struct rc_conn *conn, const struct rc_ring_sizes *g)
{
	size_t len = 2 * ((size_t)g->slots * SL_RPC_SLOT_SIZE + g->bulk_len);

	conn->map = mr_map(len, rdma_numa_node(conn->device), &conn->map_len);
	if (!conn->map)
		return -ENOMEM;
	set_ring_pointers(conn, g);
	conn->ring_mr = ibv_reg_mr(conn->pd, conn->map, len - g->bulk_len, IBV_ACCESS_LOCAL_WRITE);
	if (conn->ring_mr)
		conn->bulk_mr = ibv_reg_mr(conn->pd, conn->rx_bulk, g->bulk_len,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	return conn->bulk_mr ? 0 : negative_errno();
}

static int make_shared_rings(struct rc_conn *conn, const struct rc_ring_sizes *g)
{
	int rc = conn->ring_buf ? 0 : alloc_ring_buf(conn, g);

	if (rc)
		return rc;
	set_ring_pointers(conn, g);
	return rc_conn_register_rings(conn);
}

int rc_conn_open_rings(struct rc_conn *conn, const struct rc_ring_sizes *g)
{
	struct rdma_path_info *path = &conn->peer->path_info;
	int rc;

	errno = 0;
	rc = conn->iface ? make_shared_rings(conn, g) : make_own_rings(conn, g);
	if (rc)
		return rc;
	conn->posted = calloc(g->slots, sizeof(*conn->posted));
	conn->rx_bulk_end = calloc(g->slots, sizeof(*conn->rx_bulk_end));
	conn->rx_slot = calloc(2 * (size_t)g->slots, sizeof(*conn->rx_slot));
	conn->zcopy_ops = calloc(g->slots, sizeof(*conn->zcopy_ops));
	if (!conn->posted || !conn->rx_bulk_end || !conn->rx_slot || !conn->zcopy_ops)
		return -ENOMEM;
	conn->keys[0] = (struct rc_keys){
		.magic = CM_MAGIC,
		.rkey = conn->iface ? ibv_inc_rkey(conn->qp.mw->rkey) : conn->bulk_mr->rkey,
		.bulk = (uintptr_t)conn->rx_bulk,
	};
	rc = path->packet_len ? 0 : rdma_path_query(path, conn->peer->id, conn->qp.qp);
	if (rc)
		return rc;
	sl_credits_init(&conn->base.credits, SL_RPC_MIN_SLOTS, g->slots, g->bulk_len);
	if (!conn->iface)
		rx_window_init(conn, g->slots);
	conn->base.rate_bps = path->rate_bps;
	conn->base.port = (uintptr_t)conn->device + conn->port_num;
	conn->base.bulk_max = g->bulk_len / 4;
	/* The path MTU may be less than the port's. */
	conn->packet_len = path->packet_len;
	conn->base.slice_min =
		SLICE_PACKETS * conn->packet_len - (uint32_t)sizeof(struct sl_rpc_header);
	if (conn->base.bulk_max > path->message_max)
		conn->base.bulk_max = path->message_max;
	return conn->iface ? 0 : rc_post_receives(conn, 0, g->slots);
}

void rc_conn_set_info(struct rc_conn *conn, const char *what)
{
	snprintf(conn->base.info, sizeof(conn->base.info), "rdma %s, %u %s slots%s",
		 conn->peer->path_info.text, conn->mask + 1, conn->iface ? "shared" : "own", what);
}

void rc_conn_set_zcopy_mem(struct rc_conn *conn, void *mem, size_t len)
{
	conn->mem_mr = conn->iface ? mr_pool_reg_shared(rc_iface_mr_pool(conn->iface), mem, len)
				   : ibv_reg_mr(conn->pd, mem, len, 0);
	if (!conn->mem_mr)
		return;
	conn->mem = mem;
	conn->mem_len = len;
	conn->base.copies = false;
	conn->base.spans_max = conn->qp.sge_max * RC_WRITES_MAX - 1; /* less the header */
}

int rc_conn_established(struct rc_conn *conn)
{
	struct ibv_qp_attr attr = {.min_rnr_timer = RC_RNR_TIMER};

	conn->ready = true;
	if (ibv_modify_qp(conn->qp.qp, &attr, IBV_QP_MIN_RNR_TIMER))
		return -EIO;
	return rc_peer_watch(conn->peer);
}

static struct ibv_send_wr bind_wr_of(struct rc_conn *conn)
{
	return (struct ibv_send_wr){
		.wr_id = RC_WR_BIND,
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = {.mw = conn->qp.mw,
			    .rkey = conn->keys[0].rkey,
			    .bind_info = {.mr = conn->bulk_mr,
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
	while (!conn->bound && !conn->gone && sl_now_ns() < until_ns)
		rc_progress(&conn->base);
	return conn->bound ? 0 : -EIO;
}

/* Uses the last message slot, which messages reach last. */
int rc_conn_send_keys(struct rc_conn *conn)
{
	uint8_t *slot = conn->tx_slots + (size_t)conn->mask * SL_RPC_SLOT_SIZE;
	struct ibv_sge sge = {.addr = (uintptr_t)slot,
			      .length = sizeof(conn->keys[0]),
			      .lkey = conn->ring_mr->lkey};
	struct ibv_send_wr wr = {.wr_id = RC_WR_KEYS,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr bind = bind_wr_of(conn);

	bind.next = &wr;
	memcpy(slot, &conn->keys[0], sizeof(conn->keys[0]));
	return rdma_post_chain(conn->qp.qp, conn->qp.mw ? &bind : &wr) ? -EIO : 0;
}

int rc_conn_poll_keys(struct rc_conn *conn)
{
	struct rc_rx_comp a;

	rc_poll_rx(conn);
	if (!rc_rx_fifo_pop(&conn->rx_fifo, &a))
		return conn->gone || conn->flooded ? -ECONNRESET : 0;
	/* The first message lies in a slot of the SRQ, or in `keys` itself. */
	if (conn->iface && a.op == RC_RX_SEND)
		memcpy(&conn->keys[1], rc_iface_slot(conn->iface, a.slot), sizeof(conn->keys[1]));
	rc_repost_slot(conn, &a);
	conn->gone |= a.op == RC_RX_FAILED || rc_is_bye(&a);
	if (conn->gone)
		return -ECONNRESET;
	if (a.op != RC_RX_SEND || a.len != sizeof(struct rc_keys) ||
	    conn->keys[1].magic != CM_MAGIC)
		return -EBADMSG;
	/* Not checked: only the peer's device uses them, and checks them. */
	conn->peer_bulk = conn->keys[1].bulk;
	conn->peer_rkey = conn->keys[1].rkey;
	return 1;
}
