/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "rpc/verbs/verbs.h"

enum { EVENTS_MAX = 4, DRAIN_MAX = 16 };

/*
 * Asynchronous events come to the descriptor of the device, which all channels of the process
 * share: whoever reads one tells those concerned.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};

static int make_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static int watch(struct sl_verbs *v, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
	int rc = make_nonblocking(fd);

	if (!rc && epoll_ctl(v->base.fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		rc = -errno;
	return rc;
}

int vb_events_open(struct sl_verbs *v)
{
	int rc = watch(v, v->cm->fd);

	if (!rc)
		rc = watch(v, v->bell->fd);
	if (!rc)
		rc = watch(v, v->id->verbs->async_fd);
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	sl_list_add_tail(&all, &v->node);
	v->listed = true;
	pthread_mutex_unlock(&lock);
	return 0;
}

void vb_events_close(struct sl_verbs *v)
{
	if (!v->listed)
		return;
	pthread_mutex_lock(&lock);
	sl_list_del(&v->node);
	v->listed = false;
	pthread_mutex_unlock(&lock);
}

static void mark_device(const struct ibv_context *device)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct sl_verbs *v = sl_container_of(at, struct sl_verbs, node);

		if (v->id->verbs == device)
			v->gone = true;
	}
	pthread_mutex_unlock(&lock);
}

/* The queue pair or queue of an event lives until the event is acknowledged. */
static void take_async(struct ibv_context *device)
{
	struct ibv_async_event ev;

	for (int i = 0; i < DRAIN_MAX && ibv_get_async_event(device, &ev) == 0; i++) {
		switch (ev.event_type) {
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
			((struct sl_verbs *)ev.element.qp->qp_context)->gone = true;
			break;
		case IBV_EVENT_QP_LAST_WQE_REACHED:
			((struct sl_verbs *)ev.element.qp->qp_context)->last_receive = true;
			break;
		case IBV_EVENT_CQ_ERR:
			((struct sl_verbs *)ev.element.cq->cq_context)->gone = true;
			break;
		case IBV_EVENT_DEVICE_FATAL: mark_device(device); break;
		default: break; /* a port that goes down may come back; pings decide */
		}
		ibv_ack_async_event(&ev);
	}
}

static void take_cm(struct sl_verbs *v)
{
	struct rdma_cm_event *ev;

	for (int i = 0; i < DRAIN_MAX; i++) {
		if (rdma_get_cm_event(v->cm, &ev)) {
			/* Not to be read by this thread (vb_doorbell.c): an end, most likely. */
			v->gone |= errno == EACCES;
			return;
		}
		switch (ev->event) {
		case RDMA_CM_EVENT_DISCONNECTED:
		case RDMA_CM_EVENT_DEVICE_REMOVAL:
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_REJECTED:
		case RDMA_CM_EVENT_TIMEWAIT_EXIT: v->gone = true; break;
		default: break;
		}
		rdma_ack_cm_event(ev);
	}
}

/* One: almost always there is no other, and epoll tells of it if there is. */
static void take_bell(struct sl_verbs *v)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(v->bell, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	*(cq == v->rx_cq ? &v->rx_armed : &v->tx_armed) = false;
}

int vb_check(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(t->fd, ev, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		if (ev[i].data.fd == v->bell->fd)
			take_bell(v);
		else if (ev[i].data.fd == v->cm->fd)
			take_cm(v);
		else
			take_async(v->id->verbs);
	}
	return v->gone ? -ENOTCONN : 0;
}

/*
 * Asking is a system call. A queue that has been asked and has not rung need not be asked again, so
 * that an idle channel costs nothing each time that its owner goes to sleep.
 */
static bool request_bell(struct ibv_cq *cq, int solicited_only, bool *armed)
{
	*armed = *armed || ibv_req_notify_cq(cq, solicited_only) == 0;
	return *armed;
}

bool vb_arm(struct sl_transport *t, bool want_room)
{
	struct sl_verbs *v = vb_of(t);
	uint32_t done = t->credits.done;

	/* What is lent out is waited for like room. */
	want_room |= v->borrowed_cnt != v->returned_cnt;
	if (v->gone || v->have_wc || !request_bell(v->rx_cq, 1, &v->rx_armed) ||
	    (want_room && !request_bell(v->tx_cq, 0, &v->tx_armed)))
		return false;
	/* What came before the request rings no bell. */
	v->have_wc = ibv_poll_cq(v->rx_cq, 1, &v->wc) != 0;
	if (v->signalled)
		vb_progress(t);
	return !v->have_wc && !v->gone && (!want_room || t->credits.done == done);
}

void vb_disarm(struct sl_transport *t)
{
	(void)t; /* a bell that is on its way costs one needless wake-up; check() takes it */
}
