/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing of connections, by the service thread:
 *
 *   linger    messages posted just before close() get time to be acknowledged
 *   quiesce   queue pair in error: the device releases memory and SRQ slots
 *   free      slots reposted, everything freed
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "rpc/rdma/service_thread.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	LINGER_MS = 50,
	QUIESCE_MS = 5,     /* devices without LAST_WQE_REACHED */
	LAST_WQE_MS = 1000, /* devices with it */
	FLUSH_MS = 1,
	FLUSH_POLLS = 100,
	DRAIN = 16,
	STEP_MS = 1,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list closing = {&closing, &closing};

/* The device must not use the memory any more. */
static void free_memory(struct rc_conn *conn)
{
	if (conn->iface) {
		struct mr_pool *a = rc_iface_mr_pool(conn->iface);

		if (conn->mem_mr)
			mr_pool_dereg_shared(a, conn->mem_mr);
		if (conn->ring_buf)
			mr_pool_put(a, conn->ring_buf, conn->bulk_len);
	} else {
		struct ibv_mr *mine[] = {conn->mem_mr, conn->bulk_mr, conn->ring_mr, conn->keys_mr};

		for (unsigned i = 0; i < SL_ARRAY_LEN(mine); i++) {
			if (mine[i])
				ibv_dereg_mr(mine[i]);
		}
		if (conn->map)
			munmap(conn->map, conn->map_len);
	}
	free(conn->rx_fifo.comps);
	free(conn->posted);
	free(conn->rx_bulk_end);
	free(conn->rx_slot);
	free(conn->zcopy_ops);
}

static int change_state(struct rc_conn *conn, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = {.qp_state = state};

	return ibv_modify_qp(conn->qp.qp, &attr, IBV_QP_STATE);
}

static void destroy_qp(struct rc_conn *conn)
{
	struct rc_rx_comp a;
	uint32_t from;

	if (conn->rx_cq)
		rc_rx_cq_begin_remove(conn->rx_cq, conn);
	/* A reset queue pair has released memory and slots, too. */
	if (conn->peer && rc_peer_needs_qp(conn->peer, conn->qp.qp)) {
		(void)change_state(conn, IBV_QPS_RESET);
	} else {
		if (conn->peer && conn->peer->id->qp == conn->qp.qp)
			conn->peer->id->qp = NULL;
		if (conn->qp.qp)
			ibv_destroy_qp(conn->qp.qp);
		conn->qp.qp = NULL;
	}
	if (!conn->rx_cq)
		return;
	rc_rx_cq_remove(conn->rx_cq, conn);
	while (rc_rx_fifo_pop(&conn->rx_fifo, &a))
		rc_repost_slot(conn, &a);
	for (from = conn->reposted; conn->rx_slot && from != conn->rx_next; from++)
		(void)rc_iface_post(conn->iface, &conn->rx_slot[from & conn->slot_mask], 1);
}

void rc_conn_free(struct rc_conn *conn)
{
	rc_conn_events_close(conn);
	if (conn->qp.mw)
		ibv_dealloc_mw(conn->qp.mw);
	conn->qp.mw = NULL;
	destroy_qp(conn);
	free_memory(conn);
	if (conn->peer)
		rc_peer_park_qp(conn->peer, conn);
	rc_qp_destroy(&conn->qp);
	if (conn->iface)
		rc_iface_leave(conn->iface, conn->window);
	else if (conn->pd)
		ibv_dealloc_pd(conn->pd);
	if (conn->peer)
		rc_peer_put(conn->peer);
	if (conn->base.fd >= 0)
		close(conn->base.fd);
	free(conn);
}

/*
 * Waits until the device has flushed all sends: this one completes last. Returns false on a
 * time-out. A thread that was not scheduled meanwhile still polls FLUSH_POLLS times.
 */
static bool flush_sends(struct rc_conn *conn)
{
	struct ibv_send_wr last = {
		.wr_id = RC_WR_LAST, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	uint64_t until_ns = sl_now_ns() + FLUSH_MS * SL_NS_PER_MS;
	struct ibv_wc wc[DRAIN];
	unsigned polls = 0;
	int n;

	if (rdma_post_chain(conn->qp.qp, &last))
		return false;
	do {
		n = ibv_poll_cq(conn->qp.tx_cq, DRAIN, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].wr_id == RC_WR_LAST)
				return true;
		}
	} while (n >= 0 && (++polls < FLUSH_POLLS || sl_now_ns() < until_ns));
	return false;
}

/*
 * A reset makes the device release memory before the call returns. Receives about to be reported
 * are lost, with their SRQ slots. If the reset fails, the device is gone.
 */
void rc_conn_halt(struct sl_transport *t)
{
	struct rc_conn *conn = rc_conn_of(t);

	rc_progress(t);
	/* Slices of a batch are lent before its cookie is. */
	if (conn->zcopy_upto == conn->reaped)
		return;
	conn->gone = conn->broken = true;
	conn->chain_len = conn->sge_cnt = 0;
	if (change_state(conn, IBV_QPS_ERR) == 0 && flush_sends(conn))
		return;
	if (conn->iface)
		rc_iface_fail(conn->iface);
	conn->ready = false;
	(void)change_state(conn, IBV_QPS_RESET);
}

/* A device that has not reported the end may still hold a slot. */
static bool is_quiesced(struct rc_conn *conn, uint64_t now_ns)
{
	if (conn->last_receive)
		return true;
	if (now_ns < conn->until_ns)
		return false;
	if (conn->iface && conn->ready && rc_iface_has_last_wqe_event(conn->iface))
		rc_iface_fail(conn->iface);
	return true;
}

/* Tells the peer by an empty message: the CM reports only the last connection. */
static void send_bye(struct rc_conn *conn)
{
	struct ibv_send_wr bye = {
		.wr_id = RC_WR_BYE, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (conn->bye || conn->gone || !conn->ready)
		return;
	conn->bye = rdma_post_chain(conn->qp.qp, &bye) ? RC_BYE_DONE : RC_BYE_SENT;
}

static bool close_step(struct rc_conn *conn, uint64_t now_ns)
{
	unsigned quiesce_ms = 0;

	if (!conn->quiescing) {
		send_bye(conn);
		if (!conn->gone && (conn->signaled || conn->bye == RC_BYE_SENT))
			rc_progress(&conn->base);
		if (!conn->gone && (conn->signaled || conn->bye == RC_BYE_SENT) &&
		    now_ns < conn->until_ns)
			return false;
		if (conn->iface && conn->ready)
			quiesce_ms =
				rc_iface_has_last_wqe_event(conn->iface) ? LAST_WQE_MS : QUIESCE_MS;
		rc_peer_disconnect_last(conn->peer);
		if (conn->qp.qp)
			(void)change_state(conn, IBV_QPS_ERR);
		conn->quiescing = true;
		conn->until_ns = now_ns + quiesce_ms * SL_NS_PER_MS;
	}
	(void)rc_check(&conn->base);
	return is_quiesced(conn, now_ns);
}

static void take_all(struct sl_list *from, struct sl_list *to)
{
	struct sl_list *at;

	while ((at = sl_list_pop_head(from)))
		sl_list_add_tail(to, at);
}

static uint64_t close_pending(uint64_t now_ns)
{
	struct sl_list mine, *at, *next;
	bool more;

	sl_list_init(&mine);
	pthread_mutex_lock(&lock);
	take_all(&closing, &mine);
	pthread_mutex_unlock(&lock);
	sl_list_for_each_safe (at, next, &mine) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, closing);

		if (!close_step(conn, sl_now_ns()))
			continue;
		sl_list_del(&conn->closing);
		rc_conn_free(conn);
	}
	more = !sl_list_empty(&mine);
	pthread_mutex_lock(&lock);
	take_all(&mine, &closing);
	pthread_mutex_unlock(&lock);
	return more ? now_ns + STEP_MS * SL_NS_PER_MS : UINT64_MAX;
}

/* A child closes nothing of its parent's. */
static void forget_closing(void)
{
	pthread_mutex_init(&lock, NULL);
	sl_list_init(&closing);
}

void rc_conn_close(struct sl_transport *t)
{
	static struct service_task task = {
		.run = close_pending, .in_child = forget_closing, .awaited = true};
	struct rc_conn *conn = rc_conn_of(t);

	if (!conn->gone && conn->ready && conn->base.credits.window)
		rc_flush(t);
	rc_detach(conn);
	conn->until_ns = sl_now_ns() + LINGER_MS * SL_NS_PER_MS;
	pthread_mutex_lock(&lock);
	sl_list_add_tail(&closing, &conn->closing);
	pthread_mutex_unlock(&lock);
	(void)service_task_schedule(&task, SERVICE_NOW);
}
