/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a channel is told beside its messages, in vb_check(), and how it is woken, in vb_arm(), both at
 * the bottom: bells of completion queues.
 *
 * Asynchronous events come to the descriptor of the device, which all channels of the process
 * share, and what the connection manager says to that of a leash. One thread, that of close.c, reads
 * them and tells those concerned, and wakes their owners: by the desk, or, of those that are not
 * attached to one, by `bell`, which is always readable, and put among the descriptors that they wait for.
 * Virtual connections (rpc/ud) hear of their ports only, by what their halls watch. The same thread makes
 * memory for their pairs.
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
#include "rpc/ud/pair.h"
#include "rpc/verbs/verbs.h"

enum {
	EVENTS_MAX = 4,
	DRAIN_MAX = 16,
	DEVICES_MAX = 64,
};
enum { LEASH = 1, GROWTH = 2 }; /* in the lowest bits, which pointers to devices lack */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};
static struct sl_list ports = {&ports, &ports}; /* that are watched */
static unsigned port_changes;                   /* that were told, of any port */
static struct {
	int epoll_fd, bell, growth;
	unsigned cnt;
	struct ibv_context *devices[DEVICES_MAX];
} async = {.epoll_fd = -1, .bell = -1, .growth = -1};

struct port {
	struct ud_port base;
	struct ibv_context *device;
	int num;
	struct sl_list node;
};

/* A parent's is not a child's, whose thread it would wake. */
static int open_growth(int epoll_fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = GROWTH};

	if (async.growth >= 0)
		close(async.growth);
	async.growth = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return async.growth < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, async.growth, &ev) < 0
		       ? -errno
		       : 0;
}

int vb_async_open(int epoll_fd)
{
	int rc;

	pthread_mutex_lock(&lock);
	if (async.bell < 0)
		async.bell = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = async.bell < 0 ? -errno : open_growth(epoll_fd);
	async.epoll_fd = epoll_fd;
	async.cnt = 0;
	pthread_mutex_unlock(&lock);
	return rc;
}

int vb_async_grow(void)
{
	int rc = vb_closer_start();

	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	rc = eventfd_write(async.growth, 1) < 0 ? -errno : 0;
	pthread_mutex_unlock(&lock);
	return rc;
}

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

/* With the lock: from now on the device's events are read. */
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

int vb_async_device(struct ibv_context *device)
{
	int rc = vb_closer_start();

	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	rc = add_device(device);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* Said before it is done: another thread may take the bell at once. */
static bool request_send_bell(struct sl_verbs *v)
{
	if (atomic_exchange(&v->tx_armed, true) || ibv_req_notify_cq(v->end.tx_cq, 0) == 0)
		return true;
	v->tx_armed = false;
	return false;
}

/*
 * False: the device cannot. Asking is a system call: one that has been asked, of a queue of its own, and has
 * not rung need not be asked again, so that an idle channel costs nothing each time that its owner goes to sleep.
 */
static bool request_receive_bell(struct sl_verbs *v)
{
	if (v->desk)
		return vb_desk_sleep(v->desk, v);
	v->rx_armed = v->rx_armed || ibv_req_notify_cq(v->end.rx_cq, 0) == 0;
	return v->rx_armed;
}

static bool is_port_down(struct ibv_context *device, uint8_t port)
{
	struct ibv_port_attr attr;

	return ibv_query_port(device, port, &attr) == 0 && attr.state == IBV_PORT_DOWN;
}

/*
 * With the lock, but not while the device is asked: one that does not answer stops nobody else. What
 * it has told meanwhile may be newer than the answer.
 */
static bool ask_port(struct ibv_context *device, uint8_t port)
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

/* The same; what another one of its port has been told need not be asked of the device. */
static bool is_held(const struct sl_verbs *v)
{
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		const struct sl_verbs *other = sl_container_of(at, struct sl_verbs, node);

		if (other->device == v->device && other->port_num == v->port_num &&
		    other->leash->pid == v->leash->pid)
			return other->port_down;
	}
	return ask_port(v->device, v->port_num);
}

int vb_events_open(struct sl_verbs *v)
{
	int rc = watch(v, v->end.bell->fd);

	if (!rc && !request_receive_bell(v))
		rc = -EIO;
	if (rc)
		return rc;
	pthread_mutex_lock(&lock);
	v->port_down = v->base.held = is_held(v);
	rc = add_device(v->device);
	/* Who is listed hears of it; who was not may have missed it. */
	v->gone |= v->leash->gone;
	if (!rc)
		sl_list_add_tail(&all, &v->node);
	v->listed = rc == 0;
	pthread_mutex_unlock(&lock);
	return rc;
}

int vb_async_watch(struct vb_leash *l)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = (uintptr_t)l | LEASH};
	int rc = make_nonblocking(l->cm->fd);

	if (!rc && epoll_ctl(async.epoll_fd, EPOLL_CTL_ADD, l->cm->fd, &ev) < 0)
		rc = -errno;
	return rc;
}

void vb_async_unwatch(const struct vb_leash *l)
{
	(void)epoll_ctl(async.epoll_fd, EPOLL_CTL_DEL, l->cm->fd, NULL);
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

void vb_wake_by_fd(const struct sl_verbs *v)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = async.bell};

	if (v->base.fd >= 0)
		(void)epoll_ctl(v->base.fd, EPOLL_CTL_ADD, async.bell, &ev);
}

/* Its owner may sleep. */
static void wake_owner(struct sl_verbs *v)
{
	if (v->attached)
		vb_desk_tell(v->desk, v);
	else
		vb_wake_by_fd(v);
}

/* From here on its owner hears of it by the desk. Of another owner's desk it keeps its descriptor. */
int vb_attach(struct sl_transport *t, const void *owner)
{
	struct sl_verbs *v = vb_of(t);

	pthread_mutex_lock(&lock);
	if (v->desk && vb_desk_attach(v->desk, v, owner)) {
		close(t->fd);
		t->fd = -1;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

void vb_detach(struct sl_verbs *v)
{
	pthread_mutex_lock(&lock);
	if (v->attached)
		vb_desk_detach(v->desk, v);
	pthread_mutex_unlock(&lock);
}

/* With the lock. NULL: an end that waits for a connection, which will fail then. */
static void end_channel(struct sl_verbs *v)
{
	if (!v)
		return;
	v->gone = true;
	wake_owner(v);
}

void vb_events_end(const struct vb_leash *l)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct sl_verbs *v = sl_container_of(at, struct sl_verbs, node);

		if (v->leash == l)
			end_channel(v);
	}
	pthread_mutex_unlock(&lock);
}

void vb_events_doubt(const struct vb_leash *l)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct sl_verbs *v = sl_container_of(at, struct sl_verbs, node);

		if (v->leash != l)
			continue;
		if (v->end.qp == l->id->qp) {
			end_channel(v);
		} else {
			v->doubted_ns = sl_now_ns();
			v->doubt = VB_DOUBTED;
			wake_owner(v);
		}
	}
	pthread_mutex_unlock(&lock);
}

/* Those of the device; of them those of the home, if there is one. */
static void end_channels(const struct ibv_context *device, const struct vb_home *home)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct sl_verbs *v = sl_container_of(at, struct sl_verbs, node);

		if (v->device == device && (!home || v->home == home))
			end_channel(v);
	}
	pthread_mutex_unlock(&lock);
}

/* Those whose completions it has: one, or all of a home, which nobody joins any more. */
static void end_by_queue(const struct ibv_cq *cq)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	sl_list_for_each (at, &all) {
		struct sl_verbs *v = sl_container_of(at, struct sl_verbs, node);

		if (v->end.tx_cq != cq && v->end.rx_cq != cq)
			continue;
		if (v->home && v->end.rx_cq == cq)
			vb_home_spoil(v->home);
		end_channel(v);
	}
	pthread_mutex_unlock(&lock);
}

/*
 * A port that goes down may come back; if it does not, pings decide. What would be posted until then
 * would count as sent.
 */
static void set_port(const struct ibv_context *device, int port, bool down)
{
	struct sl_list *at;

	pthread_mutex_lock(&lock);
	port_changes++;
	sl_list_for_each (at, &all) {
		struct sl_verbs *v = sl_container_of(at, struct sl_verbs, node);

		if (v->device != device || v->port_num != port)
			continue;
		v->port_down = v->base.held = down;
		wake_owner(v);
	}
	sl_list_for_each (at, &ports) {
		struct port *p = sl_container_of(at, struct port, node);

		if (p->device != device || p->num != port)
			continue;
		p->base.down = down;
		(void)eventfd_write(p->base.fd, 1);
	}
	pthread_mutex_unlock(&lock);
}

/* What the device has yet to tell ends with how the port is now. */
struct ud_port *vb_port_watch(const struct ud_local *l, int *rc)
{
	struct ibv_context *device = ((struct ibv_pd *)l->device)->context;
	struct port *p = calloc(1, sizeof(*p));

	*rc = p ? vb_async_device(device) : -ENOMEM;
	if (!*rc) {
		p->base.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		*rc = p->base.fd < 0 ? -errno : 0;
	}
	if (*rc) {
		free(p);
		return NULL;
	}
	p->device = device;
	p->num = l->port;
	pthread_mutex_lock(&lock);
	p->base.down = ask_port(p->device, l->port);
	sl_list_add_tail(&ports, &p->node);
	pthread_mutex_unlock(&lock);
	return &p->base;
}

void vb_port_unwatch(struct ud_port *base)
{
	struct port *p = (struct port *)base;

	pthread_mutex_lock(&lock);
	sl_list_del(&p->node);
	pthread_mutex_unlock(&lock);
	close(p->base.fd);
	free(p);
}

static void device_ends(struct ibv_context *device)
{
	end_channels(device, NULL);
	pthread_mutex_lock(&lock);
	/* If it comes back it has another context. */
	(void)epoll_ctl(async.epoll_fd, EPOLL_CTL_DEL, device->async_fd, NULL);
	for (unsigned i = 0; i < async.cnt; i++) {
		if (async.devices[i] == device)
			async.devices[i--] = async.devices[--async.cnt];
	}
	pthread_mutex_unlock(&lock);
	vb_homes_sweep(device);
}

/*
 * What an event names lives until the event is acknowledged, and whoever frees it waits for that,
 * perhaps with locks: so nothing is locked here that is held while homes are freed.
 */
static void tell(struct ibv_context *device, const struct ibv_async_event *ev)
{
	struct sl_verbs *v;

	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		pthread_mutex_lock(&lock);
		end_channel(ev->element.qp->qp_context);
		pthread_mutex_unlock(&lock);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		v = ev->element.qp->qp_context;
		if (v)
			v->last_receive = true;
		break;
	case IBV_EVENT_CQ_ERR: end_by_queue(ev->element.cq); break;
	case IBV_EVENT_SRQ_ERR:
		end_channels(device, ev->element.srq->srq_context);
		vb_home_spoil(ev->element.srq->srq_context);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		vb_home_run_short(ev->element.srq->srq_context);
		vb_closer_watch();
		break;
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_PORT_ACTIVE:
		set_port(device, ev->element.port_num, ev->event_type == IBV_EVENT_PORT_ERR);
		break;
	default: break;
	}
}

static void take_of_device(struct ibv_context *device)
{
	struct ibv_async_event ev;

	for (int i = 0; i < DRAIN_MAX && ibv_get_async_event(device, &ev) == 0; i++) {
		tell(device, &ev);
		ibv_ack_async_event(&ev);
		if (ev.event_type == IBV_EVENT_DEVICE_FATAL) {
			device_ends(device);
			return;
		}
		if (ev.event_type == IBV_EVENT_SRQ_ERR)
			vb_homes_sweep(NULL);
	}
}

void vb_async_take(uint64_t what)
{
	eventfd_t cnt;

	if (what & LEASH) {
		vb_leash_take((struct vb_leash *)(uintptr_t)(what & ~(uint64_t)LEASH));
	} else if (what == GROWTH) {
		(void)eventfd_read(async.growth, &cnt);
		ud_pairs_grow();
	} else {
		take_of_device((struct ibv_context *)(uintptr_t)what);
	}
}

/* One: almost always there is no other, and epoll tells of it if there is. */
static void take_bell(struct sl_verbs *v)
{
	struct ibv_cq *cq;
	void *context;

	if (v->desk) {
		vb_desk_rang(v->desk, v);
		return;
	}
	if (ibv_get_cq_event(v->end.bell, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	if (cq == v->end.rx_cq)
		v->rx_armed = false;
	else
		v->tx_armed = false;
}

/* A peer's BYE is for who reads nothing, too: a way by which a link has yet to go on. */
static void look_for_bye(struct sl_verbs *v)
{
	const struct vb_arrival *first;

	if (!v->attached)
		vb_pull(v);
	first = vb_inbox_first(&v->inbox);
	v->gone |= first && vb_is_bye(first);
}

int vb_check(struct sl_transport *t)
{
	struct sl_verbs *v = vb_of(t);
	struct epoll_event ev[EVENTS_MAX];
	int n = t->fd < 0 ? 0 : epoll_wait(t->fd, ev, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		if (ev[i].data.fd == async.bell)
			(void)epoll_ctl(t->fd, EPOLL_CTL_DEL, async.bell, NULL);
		else
			take_bell(v);
	}
	if (sl_unlikely(v->doubt) && !v->gone)
		vb_look_after(v);
	if (!v->gone && v->inbox.of)
		look_for_bye(v);
	return v->gone ? -ENOTCONN : 0;
}

bool vb_arm(struct sl_transport *t, bool want_room)
{
	struct sl_verbs *v = vb_of(t);
	uint32_t done = t->credits.done, reaped = v->reaped;

	if (sl_unlikely(v->doubt) && !v->gone)
		vb_look_after(v);
	/* What is lent out is waited for like room, and so is an answer. */
	want_room |= v->borrowed_cnt != v->returned_cnt || v->doubt;
	if (v->gone || (!v->attached && !request_receive_bell(v)))
		return false;
	if (want_room && !request_send_bell(v))
		return false;
	/* What came before the request rings no bell. */
	if (!v->attached)
		vb_pull(v);
	if (v->signalled || v->doubt)
		vb_progress(t);
	if (v->doubt == VB_DOUBTED && !v->port_down)
		return false; /* it is to be asked once more */
	return vb_inbox_empty(&v->inbox) && !v->gone &&
	       (!want_room || (t->credits.done == done && v->reaped == reaped));
}

void vb_disarm(struct sl_transport *t)
{
	(void)t; /* a bell that is on its way costs one needless wake-up; check() takes it */
}
