/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/rc/rc_conn.h"

enum { EVENTS_MAX = 4 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};
static unsigned port_changes;

static int watch_fd(struct rc_conn *conn, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(conn->base.fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Requests a send event. Sets the flag first: another thread may handle the event at once. */
static bool arm_tx_cq(struct rc_conn *conn)
{
	if (atomic_exchange(&conn->tx_armed, true) || ibv_req_notify_cq(conn->qp.tx_cq, 0) == 0)
		return true;
	conn->tx_armed = false;
	return false;
}

/* Queries if the port is down. Lock held, but released meanwhile. */
static bool initial_port_down(const struct rc_conn *conn)
{
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		const struct rc_conn *other = sl_container_of(at, struct rc_conn, node);

		if (other->device == conn->device && other->pid == conn->pid &&
		    other->path.local.port == conn->path.local.port)
			return other->port_down;
	}
	return rdma_port_query_down(conn->device, conn->path.local.port, &lock, &port_changes);
}

static void wake_owner(struct rc_conn *conn)
{
	if (conn->attached)
		rc_rx_cq_notify_owner(conn->rx_cq, conn);
	else
		rc_wake_fd(conn);
}

/* A connection whose CQ has another owner keeps its fd. */
int rc_attach(struct sl_transport *t, const void *owner)
{
	struct rc_conn *conn = rc_conn_of(t);

	pthread_mutex_lock(&lock);
	if (rc_rx_cq_attach(conn->rx_cq, conn, owner))
		rc_wake_close(conn);
	pthread_mutex_unlock(&lock);
	return 0;
}

void rc_detach(struct rc_conn *conn)
{
	pthread_mutex_lock(&lock);
	if (conn->attached)
		rc_rx_cq_detach(conn->rx_cq, conn);
	pthread_mutex_unlock(&lock);
}

/* Ends a connection; NULL: an unused queue pair. Lock held. */
static void fail_conn(struct rc_conn *conn)
{
	if (!conn)
		return;
	conn->gone = true;
	wake_owner(conn);
}

bool rc_conns_has(uint64_t epoch, const uint8_t gid[16], uint32_t number)
{
	bool found = false;
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		const struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		found |= conn->is_inbound && conn->peer_number == number && !conn->gone &&
			 conn->base.peer_epoch == epoch && conn->pid == getpid() &&
			 memcmp(conn->path.gid, gid, sizeof(conn->path.gid)) == 0;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

static void fail_conns(const struct ibv_context *device, const struct rc_iface *iface)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		if (conn->device == device && (!iface || conn->iface == iface))
			fail_conn(conn);
	}
	pthread_mutex_unlock(&lock);
}

static void fail_conns_of_cq(const struct ibv_cq *cq)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		if (conn->qp.tx_cq != cq && conn->qp.rx_cq != cq)
			continue;
		if (conn->qp.rx_cq == cq)
			rc_iface_fail(conn->iface);
		fail_conn(conn);
	}
	pthread_mutex_unlock(&lock);
}

/* Marks a port's connections. Nothing is posted while the port is down: it would count as sent. */
static void set_port_down(const struct ibv_context *device, int port, bool down)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	port_changes++;
	sl_list_for_each (at, &all) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		if (conn->device != device || conn->path.local.port != port)
			continue;
		conn->port_down = conn->base.port_down = down;
		wake_owner(conn);
	}
	pthread_mutex_unlock(&lock);
}

static void handle_event(struct ibv_context *device, const struct ibv_async_event *ev)
{
	struct rc_conn *conn;

	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		pthread_mutex_lock(&lock);
		fail_conn(ev->element.qp->qp_context);
		pthread_mutex_unlock(&lock);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		conn = ev->element.qp->qp_context;
		if (conn)
			conn->last_receive = true;
		break;
	case IBV_EVENT_CQ_ERR: fail_conns_of_cq(ev->element.cq); break;
	case IBV_EVENT_SRQ_ERR:
		fail_conns(device, ev->element.srq->srq_context);
		rc_iface_fail(ev->element.srq->srq_context);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		rc_iface_srq_low(ev->element.srq->srq_context);
		rc_ifaces_schedule_srq_limit();
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
		set_port_down(device, ev->element.port_num, ev->event_type == IBV_EVENT_PORT_ERR);
		break;
	default: break;
	}
}

static void handle_acked(struct ibv_context *device, enum ibv_event_type type)
{
	if (type == IBV_EVENT_DEVICE_FATAL) {
		fail_conns(device, NULL);
		rc_ifaces_sweep(device);
	} else if (type == IBV_EVENT_SRQ_ERR) {
		rc_ifaces_sweep(NULL);
	}
}

int rc_conn_events_open(struct rc_conn *conn)
{
	static struct async_event_handler handler = {.event = handle_event, .acked = handle_acked};
	int rc = watch_fd(conn, conn->rx_cq->comp_channel->fd);

	if (!rc && !rc_rx_cq_arm_for(conn->rx_cq, conn))
		rc = -EIO;
	if (rc)
		return rc;
	async_event_subscribe(&handler);
	pthread_mutex_lock(&lock);
	conn->port_down = conn->base.port_down = initial_port_down(conn);
	sl_list_add_tail(&all, &conn->node);
	conn->listed = true;
	pthread_mutex_unlock(&lock);
	rc = async_event_add_device(conn->device);
	if (rc)
		rc_conn_events_close(conn);
	return rc;
}

void rc_conn_events_close(struct rc_conn *conn)
{
	if (!conn->listed)
		return;
	pthread_mutex_lock(&lock);
	sl_list_del(&conn->node);
	conn->listed = false;
	pthread_mutex_unlock(&lock);
}

static void check_for_bye(struct rc_conn *conn)
{
	const struct rc_rx_comp *first;

	if (!conn->attached)
		rc_poll_rx(conn);
	first = rc_rx_fifo_peek(&conn->rx_fifo);
	conn->gone |= first && rc_is_bye(first);
}

int rc_check(struct sl_transport *t)
{
	struct rc_conn *conn = rc_conn_of(t);
	struct epoll_event ev[EVENTS_MAX];
	int n = t->fd < 0 ? 0 : epoll_wait(t->fd, ev, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		if (!rc_wake_ack(conn, ev[i].data.fd))
			rc_rx_cq_handle_event(conn->rx_cq, conn);
	}
	if (!conn->gone && conn->rx_fifo.comps)
		check_for_bye(conn);
	return conn->gone ? -ENOTCONN : 0;
}

/* An acknowledgement ends silence, which the gateway may probe: it is awaited like room. */
static bool is_silent(struct rc_conn *conn)
{
	if (!conn->signaled || conn->port_down) {
		conn->base.silent_ns = 0;
		return false;
	}
	if (!conn->base.silent_ns)
		conn->base.silent_ns = sl_now_ns();
	return true;
}

bool rc_arm(struct sl_transport *t, bool want_room)
{
	struct rc_conn *conn = rc_conn_of(t);
	uint32_t done = t->credits.done, reaped = conn->reaped;

	/* Zero-copy completions are awaited like room. */
	want_room |= conn->zcopy_posted != conn->zcopy_done || is_silent(conn);
	if (conn->gone || (!conn->attached && !rc_rx_cq_arm_for(conn->rx_cq, conn)))
		return false;
	if (want_room && !arm_tx_cq(conn))
		return false;
	if (!conn->attached)
		rc_poll_rx(conn);
	if (conn->signaled)
		rc_progress(t);
	return rc_rx_fifo_empty(&conn->rx_fifo) && !conn->gone &&
	       (!want_room || (t->credits.done == done && conn->reaped == reaped));
}

void rc_disarm(struct sl_transport *t)
{
	(void)t;
}
