/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous device events and CQ events.
 *
 * All channels of a process share the device's event descriptor; a peer's CM channel has another.
 * The service thread reads them, marks the connections concerned, and wakes their owners. An
 * attached connection is woken through rx_cq. Others get `always_ready_fd` added to their epoll
 * set.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "rpc/rdma/ud/ud_qp.h"
#include "rpc/rdma/rc/rc_conn.h"

enum {
	EVENTS_MAX = 4,
	DRAIN_MAX = 16,
	DEVICES_MAX = 64,
};
enum { TAG_PEER = 1, TAG_GROWTH = 2 }; /* in low bits that are 0 in pointers */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};
static struct sl_list ports = {&ports, &ports}; /* struct port_watch */
static unsigned port_changes;
static struct {
	int epoll_fd, always_ready_fd, growth_fd;
	unsigned cnt;
	struct ibv_context *devices[DEVICES_MAX];
} async = {.epoll_fd = -1, .always_ready_fd = -1, .growth_fd = -1};

struct port_watch {
	struct rdma_port base;
	struct ibv_context *device;
	int num;
	struct sl_list node;
};

/* A forked child needs its own, or it would wake the parent's thread. */
static int open_growth(int epoll_fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = TAG_GROWTH};

	if (async.growth_fd >= 0)
		close(async.growth_fd);
	async.growth_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return async.growth_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, async.growth_fd, &ev) < 0
		       ? -errno
		       : 0;
}

int async_event_init(int epoll_fd)
{
	int rc;

	pthread_mutex_lock(&lock);
	if (async.always_ready_fd < 0)
		async.always_ready_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = async.always_ready_fd < 0 ? -errno : open_growth(epoll_fd);
	async.epoll_fd = epoll_fd;
	async.cnt = 0;
	pthread_mutex_unlock(&lock);
	return rc;
}

int async_event_request_growth(void)
{
	int rc = service_thread_start();

	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	rc = eventfd_write(async.growth_fd, 1) < 0 ? -errno : 0;
	pthread_mutex_unlock(&lock);
	return rc;
}

static int make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int watch_fd(struct rc_conn *conn, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
	int rc = make_nonblocking(fd);

	if (!rc && epoll_ctl(conn->base.fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		rc = -errno;
	return rc;
}

/* Reads the device's events from now on. Lock held. */
static int add_device(struct ibv_context *device)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = device};
	int rc;

	for (unsigned i = 0; i < async.cnt; i++) {
		if (async.devices[i] == device)
			return 0;
	}
	if (async.cnt == DEVICES_MAX)
		return -ENOSPC;
	rc = make_nonblocking(device->async_fd);
	if (!rc && epoll_ctl(async.epoll_fd, EPOLL_CTL_ADD, device->async_fd, &ev) < 0)
		rc = -errno;
	if (!rc)
		async.devices[async.cnt++] = device;
	return rc;
}

int async_event_add_device(struct ibv_context *device)
{
	int rc = service_thread_start();

	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	rc = add_device(device);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Sets the flag first: another thread may handle the event at once. */
static bool arm_tx_cq(struct rc_conn *conn)
{
	if (atomic_exchange(&conn->tx_armed, true) || ibv_req_notify_cq(conn->qp.tx_cq, 0) == 0)
		return true;
	conn->tx_armed = false;
	return false;
}

/*
 * Returns false if the device cannot. A request is a system call, so an own CQ keeps one pending.
 */
static bool arm_rx_cq(struct rc_conn *conn)
{
	if (conn->rx_cq)
		return rc_rx_cq_arm_for(conn->rx_cq, conn);
	conn->rx_armed = conn->rx_armed || ibv_req_notify_cq(conn->qp.rx_cq, 0) == 0;
	return conn->rx_armed;
}

static bool is_port_down(struct ibv_context *device, uint8_t port)
{
	struct ibv_port_attr attr;

	return ibv_query_port(device, port, &attr) == 0 && attr.state == IBV_PORT_DOWN;
}

/*
 * Queries the port. Lock held, but released during the query: a hanging device must not stop
 * others.
 */
static bool query_port_down(struct ibv_context *device, uint8_t port)
{
	unsigned before;
	bool down;

	do {
		before = port_changes;
		pthread_mutex_unlock(&lock);
		down = is_port_down(device, port);
		pthread_mutex_lock(&lock);
	} while (port_changes != before);
	return down;
}

/* The same, unless the state is known. */
static bool initial_port_down(const struct rc_conn *conn)
{
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		const struct rc_conn *other = sl_container_of(at, struct rc_conn, node);

		if (other->device == conn->device && other->port_num == conn->port_num &&
		    other->peer->pid == conn->peer->pid)
			return other->port_down;
	}
	return query_port_down(conn->device, conn->port_num);
}

int rc_conn_events_open(struct rc_conn *conn)
{
	int rc = watch_fd(conn, conn->qp.comp_channel->fd);

	if (!rc && !arm_rx_cq(conn))
		rc = -EIO;
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	conn->port_down = conn->base.port_down = initial_port_down(conn);
	rc = add_device(conn->device);
	/* A listed connection is marked by events; catch up on earlier ones. */
	conn->gone |= conn->peer->gone;
	if (!rc)
		sl_list_add_tail(&all, &conn->node);
	conn->listed = rc == 0;
	pthread_mutex_unlock(&lock);
	return rc;
}

int async_event_add_peer(struct rc_peer *peer)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uintptr_t)peer | TAG_PEER};
	int rc = make_nonblocking(peer->cm->fd);

	if (!rc && epoll_ctl(async.epoll_fd, EPOLL_CTL_ADD, peer->cm->fd, &ev) < 0)
		rc = -errno;
	return rc;
}

void async_event_remove_peer(const struct rc_peer *peer)
{
	(void)epoll_ctl(async.epoll_fd, EPOLL_CTL_DEL, peer->cm->fd, NULL);
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

void rc_wake_fd(const struct rc_conn *conn)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = async.always_ready_fd};

	if (conn->base.fd >= 0)
		(void)epoll_ctl(conn->base.fd, EPOLL_CTL_ADD, async.always_ready_fd, &ev);
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
	if (conn->rx_cq && rc_rx_cq_attach(conn->rx_cq, conn, owner)) {
		close(t->fd);
		t->fd = -1;
	}
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

/* NULL: an unused queue pair, whose next connection will fail. Lock held. */
static void fail_conn(struct rc_conn *conn)
{
	if (!conn)
		return;
	conn->gone = true;
	wake_owner(conn);
}

void rc_conns_fail_of_peer(const struct rc_peer *peer)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		if (conn->peer == peer)
			fail_conn(conn);
	}
	pthread_mutex_unlock(&lock);
}

void rc_conns_suspect_peer(const struct rc_peer *peer)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		if (conn->peer != peer)
			continue;
		if (conn->qp.qp == peer->id->qp) {
			fail_conn(conn);
		} else {
			conn->suspect_ns = sl_now_ns();
			conn->peer_state = RC_PEER_SUSPECT;
			wake_owner(conn);
		}
	}
	pthread_mutex_unlock(&lock);
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

/* Ends the connections that use this CQ: one, or all of an interface, which fails then. */
static void fail_conns_of_cq(const struct ibv_cq *cq)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		if (conn->qp.tx_cq != cq && conn->qp.rx_cq != cq)
			continue;
		if (conn->iface && conn->qp.rx_cq == cq)
			rc_iface_fail(conn->iface);
		fail_conn(conn);
	}
	pthread_mutex_unlock(&lock);
}

/* Nothing is posted while the port is down, because it would count as sent. */
static void set_port_down(const struct ibv_context *device, int port, bool down)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	port_changes++;
	sl_list_for_each (at, &all) {
		struct rc_conn *conn = sl_container_of(at, struct rc_conn, node);

		if (conn->device != device || conn->port_num != port)
			continue;
		conn->port_down = conn->base.port_down = down;
		wake_owner(conn);
	}
	sl_list_for_each (at, &ports) {
		struct port_watch *p = sl_container_of(at, struct port_watch, node);

		if (p->device != device || p->num != port)
			continue;
		p->base.down = down;
		(void)eventfd_write(p->base.fd, 1);
	}
	pthread_mutex_unlock(&lock);
}

struct rdma_port *rdma_port_watch(const struct rdma_local *local, int *rc)
{
	struct ibv_context *device = ((struct ibv_pd *)local->device)->context;
	struct port_watch *p = calloc(1, sizeof(*p));

	*rc = p ? async_event_add_device(device) : -ENOMEM;
	if (!*rc) {
		p->base.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		*rc = p->base.fd < 0 ? -errno : 0;
	}
	if (*rc) {
		free(p);
		return NULL;
	}
	p->device = device;
	p->num = local->port;
	pthread_mutex_lock(&lock);
	p->base.down = query_port_down(p->device, local->port);
	sl_list_add_tail(&ports, &p->node);
	pthread_mutex_unlock(&lock);
	return &p->base;
}

void rdma_port_unwatch(struct rdma_port *base)
{
	struct port_watch *p = (struct port_watch *)base;

	pthread_mutex_lock(&lock);
	sl_list_del(&p->node);
	pthread_mutex_unlock(&lock);
	close(p->base.fd);
	free(p);
}

static void remove_device(struct ibv_context *device)
{
	fail_conns(device, NULL);
	pthread_mutex_lock(&lock);
	/* It comes back with another context. */
	(void)epoll_ctl(async.epoll_fd, EPOLL_CTL_DEL, device->async_fd, NULL);
	for (unsigned i = 0; i < async.cnt; i++) {
		if (async.devices[i] == device)
			async.devices[i--] = async.devices[--async.cnt];
	}
	pthread_mutex_unlock(&lock);
	rc_ifaces_sweep(device);
}

/*
 * The object of an event lives until the event is acknowledged, and destroying it waits for that.
 * So no lock is taken here that is held while an interface is freed.
 */
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
		service_thread_arm_srq_limit();
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
		set_port_down(device, ev->element.port_num, ev->event_type == IBV_EVENT_PORT_ERR);
		break;
	default: break;
	}
}

static void handle_device_events(struct ibv_context *device)
{
	struct ibv_async_event ev;

	for (int i = 0; i < DRAIN_MAX && ibv_get_async_event(device, &ev) == 0; i++) {
		handle_event(device, &ev);
		ibv_ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL) {
			remove_device(device);
			return;
		}
		if (ev.event_type == IBV_EVENT_SRQ_ERR)
			rc_ifaces_sweep(NULL);
	}
}

void async_event_handle(uint64_t what)
{
	eventfd_t cnt;

	if (what & TAG_PEER) {
		rc_peer_handle_cm_events((struct rc_peer *)(uintptr_t)(what & ~(uint64_t)TAG_PEER));
	} else if (what == TAG_GROWTH) {
		(void)eventfd_read(async.growth_fd, &cnt);
		ud_qps_grow();
	} else {
		handle_device_events((struct ibv_context *)(uintptr_t)what);
	}
}

/* epoll reports further events. */
static void handle_cq_event(struct rc_conn *conn)
{
	struct ibv_cq *cq;
	void *context;

	if (conn->rx_cq) {
		rc_rx_cq_handle_event(conn->rx_cq, conn);
		return;
	}
	if (ibv_get_cq_event(conn->qp.comp_channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	if (cq == conn->qp.rx_cq)
		conn->rx_armed = false;
	else
		conn->tx_armed = false;
}

/* Also finds a BYE on a transport that a link may migrate to. */
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
		if (ev[i].data.fd == async.always_ready_fd)
			(void)epoll_ctl(t->fd, EPOLL_CTL_DEL, async.always_ready_fd, NULL);
		else
			handle_cq_event(conn);
	}
	if (sl_unlikely(conn->peer_state) && !conn->gone)
		rc_probe_peer(conn);
	if (!conn->gone && conn->rx_fifo.comps)
		check_for_bye(conn);
	return conn->gone ? -ENOTCONN : 0;
}

bool rc_arm(struct sl_transport *t, bool want_room)
{
	struct rc_conn *conn = rc_conn_of(t);
	uint32_t done = t->credits.done, reaped = conn->reaped;

	if (sl_unlikely(conn->peer_state) && !conn->gone)
		rc_probe_peer(conn);
	/* Zero-copy completions and probe answers are awaited like room. */
	want_room |= conn->zcopy_posted != conn->zcopy_done || conn->peer_state;
	if (conn->gone || (!conn->attached && !arm_rx_cq(conn)))
		return false;
	if (want_room && !arm_tx_cq(conn))
		return false;
	/* Earlier completions cause no event. */
	if (!conn->attached)
		rc_poll_rx(conn);
	if (conn->signaled || conn->peer_state)
		rc_progress(t);
	if (conn->peer_state == RC_PEER_SUSPECT && !conn->port_down)
		return false;
	return rc_rx_fifo_empty(&conn->rx_fifo) && !conn->gone &&
	       (!want_room || (t->credits.done == done && conn->reaped == reaped));
}

void rc_disarm(struct sl_transport *t)
{
	(void)t; /* late events are harmless */
}
