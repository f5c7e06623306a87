/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread answers those who knock: whoever owns the connections serves others meanwhile, and takes
 * the new one when it is whole. Read from the bottom: verbs_accept; thread_main ->
 * take_requests, advance.
 *
 *   thread    id, pending, seen      once it runs nobody else touches them
 *   both      established, behind the lock
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/ud/sidr.h"
#include "rpc/verbs/listener.h"

enum {
	TURN_MAX = 16,        /* requests that are looked at before others have their turn */
	BACKLOG = 1024,       /* those that wait in the kernel; beyond it they are lost silently */
	RELISTEN_MIN_MS = 10, /* after a device has gone, while it is not back */
	RELISTEN_MAX_MS = 1000,
};

/*
 * Whether it is we who were dialled. That a listener of one address has that the kernel has seen to; one
 * of all addresses takes it as the request says it.
 */
static bool is_ours(const struct vb_listener *l, const struct rdma_cm_id *id)
{
	static const uint8_t any[16];
	struct vb_dialled own = vb_dialled_of((const struct sockaddr *)&l->sa);
	struct ud_local local;

	return memcmp(own.address, any, sizeof(any)) != 0 ||
	       ud_sidr_local(&local, id) != -EADDRNOTAVAIL;
}

/* What of a request can be granted. Nothing is made for one that has not proven the key. */
static enum vb_verdict consider(struct vb_listener *l, const struct rdma_cm_id *id,
				const struct vb_talk *talk, struct vb_geometry *g)
{
	const struct vb_request *rq = &talk->request;

	if (rq->magic != VB_MAGIC || rq->version != VB_VERSION)
		return VB_OTHER_VERSION;
	if (!vb_proven(&l->secret, talk, VB_REQUEST) || !is_ours(l, id) ||
	    !vb_fresh(&l->seen, vb_series_of(rq->series), rq->number))
		return VB_OTHER_KEY;
	*g = (struct vb_geometry){.slots = sl_rpc_at_most(rq->slots, l->most.slots),
				  .bulk_len = sl_rpc_at_most(rq->bulk_len, l->most.bulk_len)};
	if (!vb_geometry_ok(g))
		return VB_BAD_SIZES;
	return sl_rpc_listener_full(&l->base, rq->flags) ? VB_FULL : VB_GRANTED;
}

static void refuse(struct vb_listener *l, struct rdma_cm_id *id, enum vb_verdict verdict)
{
	const struct vb_answer a = {
		.magic = VB_MAGIC, .version = VB_VERSION, .verdict = (uint8_t)verdict};

	(void)rdma_reject(id, &a, sizeof(a));
	(void)rdma_destroy_id(id);
	l->refused++;
}

/* Queue pair and event channel of its own for a connection that has asked. False: it was refused. */
static bool open_pending(struct vb_listener *l, struct vb_pending *p, struct rdma_cm_id *id,
			 struct vb_geometry *g)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	bool opened = false;

	p->v = vb_new();
	if (cm && p->v && rdma_migrate_id(id, cm) == 0)
		opened = vb_open(p->v, id, cm, l->group, g) == 0;
	if (opened && vb_listener_watch(l, p->v->base.fd))
		return true;
	/* With what it has opened go id and channel. */
	if (p->v)
		vb_free(p->v);
	p->v = NULL;
	if (opened)
		return false;
	refuse(l, id, VB_FULL);
	if (cm)
		rdma_destroy_event_channel(cm);
	return false;
}

static void accept_request(struct vb_listener *l, struct rdma_cm_id *id, struct vb_pending *p,
			   struct vb_geometry *g)
{
	struct rdma_conn_param param = {
		.private_data = &p->talk.answer,
		.private_data_len = sizeof(p->talk.answer),
		.responder_resources = 1,
		.initiator_depth = 1,
		.rnr_retry_count = VB_RNR_RETRIES,
	};
	int rc;

	if (!open_pending(l, p, id, g))
		return;
	vb_pending_promise(l, p->v, p->talk.request.flags);
	vb_listener_door(l, p->v->leash->id);
	p->talk.answer = (struct vb_answer){
		.magic = VB_MAGIC,
		.version = VB_VERSION,
		.verdict = VB_GRANTED,
		.epoch = sl_rpc_boot_epoch(),
		.slots = g->slots,
		.bulk_len = g->bulk_len,
		.door = l->door.pair ? l->door.pair->qpn : 0,
	};
	rc = sl_rand_bytes(p->talk.answer.nonce, VB_NONCE_LEN);
	vb_prove(&l->secret, &p->talk, VB_ANSWER);
	if (rc || rdma_accept(id, &param) || vb_connected(p->v))
		vb_pending_drop(l, p);
}

static void take_request(struct vb_listener *l, struct rdma_cm_id *id, const struct vb_request *rq,
			 uint64_t now_ns)
{
	struct vb_talk talk = {.dialled = vb_dialled_of(rdma_get_local_addr(id)), .request = *rq};
	struct vb_geometry g;
	enum vb_verdict verdict = consider(l, id, &talk, &g);
	const uint8_t *host = id->route.addr.addr.ibaddr.dgid.raw;
	struct vb_pending *p = vb_pending_place(l, host, false);

	/* Who comes now has to come again, so that those who are about to be done get done. */
	if (verdict == VB_GRANTED && (!p || vb_homes_shun(l->group, host)))
		verdict = VB_FULL;
	if (verdict != VB_GRANTED) {
		refuse(l, id, verdict);
		return;
	}
	p->talk = talk;
	p->deadline_ns = now_ns + VB_PENDING_MS * SL_NS_PER_MS;
	accept_request(l, id, p, &g);
}

static int open_id(struct vb_listener *l)
{
	int rc;

	if (rdma_create_id(l->cm, &l->id, NULL, RDMA_PS_TCP)) {
		l->id = NULL;
		return errno ? -errno : -EIO;
	}
	if (rdma_bind_addr(l->id, (struct sockaddr *)&l->sa) == 0 &&
	    rdma_listen(l->id, BACKLOG) == 0)
		return 0;
	rc = errno ? -errno : -EIO;
	rdma_destroy_id(l->id);
	l->id = NULL;
	return rc;
}

static void listen_again(struct vb_listener *l, uint64_t now_ns)
{
	if (open_id(l) == 0)
		return;
	l->retry_ns = now_ns + l->retry_ms * SL_NS_PER_MS;
	l->retry_ms = 2 * l->retry_ms < RELISTEN_MAX_MS ? 2 * l->retry_ms : RELISTEN_MAX_MS;
}

static void take_requests(struct vb_listener *l, uint64_t now_ns)
{
	struct rdma_cm_event *ev;

	for (unsigned i = 0; i < TURN_MAX && rdma_get_cm_event(l->cm, &ev) == 0; i++) {
		struct rdma_cm_id *id = ev->id;
		bool asks = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		bool ends = id == l->id && (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
					    ev->event == RDMA_CM_EVENT_ADDR_CHANGE);
		struct vb_request rq = {.magic = 0};

		if (asks && ev->param.conn.private_data &&
		    ev->param.conn.private_data_len >= sizeof(rq))
			memcpy(&rq, ev->param.conn.private_data, sizeof(rq));
		/* An id cannot leave this channel before its events are acknowledged. */
		rdma_ack_cm_event(ev);
		if (asks)
			take_request(l, id, &rq, now_ns);
		if (!ends)
			continue;
		/*
		 * The device has failed or is taken away, as when its driver is loaded anew, or the
		 * address is another one's now.
		 */
		rdma_destroy_id(l->id);
		l->id = NULL;
		vb_door_close(&l->door);
		l->door_device = NULL;
		l->retry_ms = RELISTEN_MIN_MS;
		l->retry_ns = now_ns;
		listen_again(l, now_ns);
	}
}

/* The peer's keys are here: check its proof, make rings, send ours. 0 or -errno. */
static int establish(struct vb_listener *l, struct vb_pending *p)
{
	const struct vb_geometry g = {.slots = p->talk.answer.slots,
				      .bulk_len = p->talk.answer.bulk_len};
	struct sl_verbs *v = p->v;
	char what[32];
	int rc;

	p->talk.dialer = v->keys[1];
	if (!vb_proven(&l->secret, &p->talk, VB_DIALLER_KEYS))
		return -EACCES;
	rc = vb_open_rings(v, &g);
	if (rc)
		return rc;
	if (l->mem.addr)
		vb_borrow_from(v, l->mem.addr, l->mem.len);
	p->talk.acceptor = v->keys[0];
	vb_prove(&l->secret, &p->talk, VB_ACCEPTOR_KEYS);
	v->keys[0] = p->talk.acceptor;
	rc = vb_send_keys(v);
	vb_closer_fill();
	v->base.peer_epoch = p->talk.request.epoch;
	v->base.peer_worker = p->talk.request.worker;
	v->base.link = p->talk.dialer.link;
	if (v->home)
		vb_leash_share(v->leash, v->end.qp,
			       &(struct vb_known){.epoch = v->base.peer_epoch,
						  .door = l->door.pair ? l->door.pair->qpn : 0});
	snprintf(what, sizeof(what), " worker %u", p->talk.request.worker);
	vb_describe(v, what);
	return rc;
}

static void advance(struct vb_listener *l, struct vb_pending *p, uint64_t now_ns)
{
	struct sl_verbs *v = p->v;
	int rc;

	(void)vb_check(&v->base);
	rc = vb_keys_arrived(v);
	if (rc == 0 && now_ns < p->deadline_ns)
		return;
	if (rc <= 0 || (p->by_door ? vb_admitted(l, p) : establish(l, p))) {
		vb_pending_drop(l, p);
		return;
	}
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, v->base.fd, NULL);
	p->v = NULL;
	pthread_mutex_lock(&l->lock);
	sl_list_add_tail(&l->established, &v->closing);
	pthread_mutex_unlock(&l->lock);
	(void)eventfd_write(l->base.fd, 1);
}

static uint64_t next_ns(const struct vb_listener *l)
{
	uint64_t next = l->door.more ? 0 : l->id ? UINT64_MAX : l->retry_ns;

	for (unsigned i = 0; i < VB_PENDING_MAX; i++) {
		if (l->pending[i].v && l->pending[i].deadline_ns < next)
			next = l->pending[i].deadline_ns;
	}
	return next;
}

static void *thread_main(void *arg)
{
	struct vb_listener *l = arg;
	struct epoll_event ev;

	sl_thread_name_set("listener");
	vb_work_begin();
	/* Who connects first need not wait for what all share. A wildcard's device is not known yet. */
	if (l->id && l->id->verbs) {
		vb_listener_door(l, l->id);
		vb_home_expect(l->id->verbs, l->group, l->most.slots, vb_rings_len(&l->most));
		vb_closer_fill();
	}
	while (!l->stop) {
		uint64_t now_ns = sl_now_ns(), next;
		int wait_ms = -1;

		if (!l->id && now_ns >= l->retry_ns)
			listen_again(l, now_ns);
		take_requests(l, now_ns);
		if (l->door.pair)
			vb_door_look(&l->door, vb_admit, l);
		/* One that is closed is opened again for who comes next, on the device by which that is. */
		if (!l->door.pair)
			l->door_device = NULL;
		for (unsigned i = 0; i < VB_PENDING_MAX; i++) {
			if (l->pending[i].v)
				advance(l, &l->pending[i], now_ns);
		}
		next = next_ns(l);
		if (next != UINT64_MAX)
			wait_ms = next > now_ns ? (int)((next - now_ns) / SL_NS_PER_MS) + 1 : 0;
		vb_work_end();
		(void)epoll_wait(l->epoll_fd, &ev, 1, wait_ms);
		vb_work_begin();
	}
	vb_work_end();
	return NULL;
}

/* Not before somebody accepts: until then a program may fork, and go on in the child. */
static void start_thread(struct vb_listener *l, uint64_t now_ns)
{
	sigset_t all, old;

	l->retry_ns = now_ns + RELISTEN_MAX_MS * SL_NS_PER_MS;
	if (vb_closer_start())
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&l->thread, NULL, thread_main, l) == 0)
		l->pid = getpid();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static struct sl_transport *verbs_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct vb_listener *l = (struct vb_listener *)base;
	struct sl_transport *t = NULL;
	struct sl_list *at;
	eventfd_t many;

	if (!l->pid && now_ns >= l->retry_ns)
		start_thread(l, now_ns);
	base->refused = l->refused;
	pthread_mutex_lock(&l->lock);
	at = sl_list_pop_head(&l->established);
	if (!at)
		(void)eventfd_read(base->fd, &many);
	pthread_mutex_unlock(&l->lock);
	if (at) {
		t = &sl_container_of(at, struct sl_verbs, closing)->base;
		base->promised -= !t->goes_on;
	}
	return t;
}

static uint64_t verbs_next_ns(const struct sl_rpc_listener *base)
{
	const struct vb_listener *l = (const struct vb_listener *)base;

	return l->pid ? UINT64_MAX : l->retry_ns;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void verbs_listener_close(struct sl_rpc_listener *base)
{
	struct vb_listener *l = (struct vb_listener *)base;
	struct sl_list *at;

	if (l->pid == getpid()) {
		l->stop = true;
		(void)eventfd_write(l->wake, 1);
		pthread_join(l->thread, NULL);
	}
	for (unsigned i = 0; i < VB_PENDING_MAX; i++) {
		if (l->pending[i].v)
			vb_pending_drop(l, &l->pending[i]);
	}
	while ((at = sl_list_pop_head(&l->established)))
		vb_close(&sl_container_of(at, struct sl_verbs, closing)->base);
	vb_homes_retire(l->group);
	vb_door_close(&l->door);
	if (l->id)
		rdma_destroy_id(l->id);
	if (l->cm)
		rdma_destroy_event_channel(l->cm);
	close_if_open(base->fd);
	close_if_open(l->epoll_fd);
	close_if_open(l->wake);
	pthread_mutex_destroy(&l->lock);
	sl_secret_wipe(&l->secret);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = verbs_accept,
	.next_ns = verbs_next_ns,
	.close = verbs_listener_close,
};

static int open_listener(struct vb_listener *l)
{
	int flags;

	l->base.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->cm = rdma_create_event_channel();
	if (!l->cm)
		return -ENODEV;
	flags = fcntl(l->cm->fd, F_GETFL);
	if (l->base.fd < 0 || l->wake < 0 || l->epoll_fd < 0 || flags < 0 ||
	    fcntl(l->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0 || !vb_listener_watch(l, l->cm->fd) ||
	    !vb_listener_watch(l, l->wake))
		return errno ? -errno : -EIO;
	return open_id(l);
}

static const char *why(int rc)
{
	switch (rc) {
	case -EADDRINUSE: return "in use: another backend listens there";
	case -EADDRNOTAVAIL: return "not an address of this host: see `ip address`";
	case -ENODEV:
		return "no RDMA device with that address: load the driver of the NIC, or "
		       "rdma_rxe and rdma_ucm; see `rdma link`";
	default: return strerror(-rc);
	}
}

struct sl_rpc_listener *sl_verbs_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err)
{
	static _Atomic unsigned number;
	struct vb_listener *l = sl_rpc_listener_new(sizeof(*l), &listener_ops, err);
	int rc;

	if (!l)
		return NULL;
	l->group = VB_GROUP_BACKEND + atomic_fetch_add(&number, 1);
	l->epoll_fd = l->wake = -1;
	pthread_mutex_init(&l->lock, NULL);
	sl_list_init(&l->established);
	l->most = (struct vb_geometry){.slots = opt->slots, .bulk_len = opt->bulk_ring_len};
	if (opt->mem)
		l->mem = *opt->mem;
	if (vb_address(opt->address, &l->sa)) {
		sl_err_set(err,
			   "rdma://%s: expected a numeric address and port, as in "
			   "rdma://10.0.0.2:7471",
			   opt->address);
		goto fail;
	}
	if (sl_secret_read(&l->secret, opt->key_file, err))
		goto fail;
	rc = open_listener(l);
	if (!rc)
		return &l->base;
	sl_err_set(err, "rdma://%s: %s", opt->address, why(rc));
fail:
	verbs_listener_close(&l->base);
	return NULL;
}
