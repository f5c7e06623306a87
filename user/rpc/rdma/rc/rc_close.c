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

static void free_memory(struct rc_conn *conn)
{
	if (conn->mem_mr)
		mr_pool_dereg_shared(rc_iface_mr_pool(conn->iface), conn->mem_mr);
	if (conn->ring_buf)
		mr_pool_put(rc_iface_mr_pool(conn->iface), conn->ring_buf, conn->bulk_len);
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
	if (conn->qp.qp)
		ibv_destroy_qp(conn->qp.qp);
	conn->qp.qp = NULL;
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
	rc_qp_destroy(&conn->qp);
	if (conn->iface)
		rc_iface_leave(conn->iface, conn->window);
	rc_wake_close(conn);
	free(conn);
}

/* Posts a send that completes last, and awaits it. False: time-out. */
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
 * A reset makes the device release memory at once, but loses receives about to be reported, with
 * their SRQ slots. If it fails, the device is gone.
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
	rc_iface_fail(conn->iface);
	conn->ready = false;
	(void)change_state(conn, IBV_QPS_RESET);
}

/* Returns true if the device has reported the end, or is late. It may still hold a slot then. */
static bool is_quiesced(struct rc_conn *conn, uint64_t now_ns)
{
	if (conn->last_receive)
		return true;
	if (now_ns < conn->until_ns)
		return false;
	if (conn->ready && rc_iface_has_last_wqe_event(conn->iface))
		rc_iface_fail(conn->iface);
	return true;
}

/* Tells the peer by an empty message, also one that broke the protocol. */
static void send_bye(struct rc_conn *conn)
{
	struct ibv_send_wr bye = {
		.wr_id = RC_WR_BYE, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (conn->bye || conn->broken || !conn->ready || (conn->gone && !conn->error))
		return;
	conn->bye = rdma_post_chain(conn->qp.qp, &bye) ? RC_BYE_DONE : RC_BYE_SENT;
}

static bool is_lingering(struct rc_conn *conn)
{
	return !conn->broken && (conn->bye == RC_BYE_SENT || (!conn->gone && conn->signaled));
}

static bool close_step(struct rc_conn *conn, uint64_t now_ns)
{
	unsigned quiesce_ms = 0;

	if (!conn->quiescing) {
		send_bye(conn);
		if (is_lingering(conn))
			rc_progress(&conn->base);
		if (is_lingering(conn) && now_ns < conn->until_ns)
			return false;
		if (conn->ready)
			quiesce_ms =
				rc_iface_has_last_wqe_event(conn->iface) ? LAST_WQE_MS : QUIESCE_MS;
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
