/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread accepts connections while their owner serves others.
 *
 *   thread only            id, pending, replay filters, once the thread runs
 *   protected by the lock  established
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
#include "rpc/rdma/service_thread.h"
#include "rpc/rdma/sidr.h"
#include "rpc/rdma/rc/rc_listener.h"

enum {
	EVENTS_MAX = 16,
	BACKLOG = 1024, /* requests that the kernel keeps; it drops further ones silently */
	RELISTEN_MIN_MS = 10,
	RELISTEN_MAX_MS = 1000,
};

/* The kernel checks that for a listener of one address, not for a wildcard. */
static bool is_target_local(const struct rc_listener *l, const struct rdma_cm_id *id)
{
	static const uint8_t any[16];
	struct auth_target own = auth_target_of((const struct sockaddr *)&l->sa);
	struct rdma_local local;

	return memcmp(own.address, any, sizeof(any)) != 0 ||
	       rdma_local_of_id(&local, id) != -EADDRNOTAVAIL;
}

/* Allocates nothing: the peer may not have the key. */
static enum rc_verdict check_request(struct rc_listener *l, const struct rdma_cm_id *id,
				     const struct cm_transcript *transcript,
				     struct rc_ring_sizes *g)
{
	const struct cm_request *rq = &transcript->request;

	if (rq->magic != CM_MAGIC || rq->version != RC_WIRE_VERSION)
		return RC_OTHER_VERSION;
	if (!auth_verify(&l->psk, transcript, CM_REQUEST) || !is_target_local(l, id) ||
	    !replay_filter_accept(&l->cm_replay, auth_sender_id_word(rq->sender_id), rq->number))
		return RC_OTHER_KEY;
	*g = (struct rc_ring_sizes){.slots = sl_rpc_at_most(rq->slots, l->max_sizes.slots),
				    .bulk_len =
					    sl_rpc_at_most(rq->bulk_len, l->max_sizes.bulk_len)};
	if (!rc_ring_sizes_ok(g))
		return RC_BAD_SIZES;
	return sl_rpc_listener_full(&l->base, rq->flags) ? RC_FULL : RC_GRANTED;
}

static void reject_request(struct rc_listener *l, struct rdma_cm_id *id, enum rc_verdict verdict)
{
	const struct cm_reply a = {
		.magic = CM_MAGIC, .version = RC_WIRE_VERSION, .verdict = (uint8_t)verdict};

	(void)rdma_reject(id, &a, sizeof(a));
	(void)rdma_destroy_id(id);
	l->refused++;
}

/* Returns false if the request was rejected. */
static bool open_pending(struct rc_listener *l, struct rc_pending *p, struct rdma_cm_id *id,
			 struct rc_ring_sizes *g)
{
	struct rdma_event_channel *cm = rdma_create_event_channel();
	bool opened = false;

	p->conn = rc_conn_new();
	if (cm && p->conn && rdma_migrate_id(id, cm) == 0)
		opened = rc_conn_open(p->conn, id, cm, l->group, g) == 0;
	if (opened && rc_listener_watch(l, p->conn->base.fd))
		return true;
	/* An opened connection owns the id and the channel. */
	if (p->conn)
		rc_conn_free(p->conn);
	p->conn = NULL;
	if (opened)
		return false;
	reject_request(l, id, RC_FULL);
	if (cm)
		rdma_destroy_event_channel(cm);
	return false;
}

static void accept_request(struct rc_listener *l, struct rdma_cm_id *id, struct rc_pending *p,
			   struct rc_ring_sizes *g)
{
	struct rdma_conn_param param = {
		.private_data = &p->transcript.reply,
		.private_data_len = sizeof(p->transcript.reply),
		.responder_resources = 1,
		.initiator_depth = 1,
		.rnr_retry_count = RC_RNR_RETRIES,
	};
	int rc;

	if (!open_pending(l, p, id, g))
		return;
	rc_pending_begin(l, p->conn, p->transcript.request.flags);
	rc_listener_open_wireup(l, p->conn->peer->id);
	p->transcript.reply = (struct cm_reply){
		.magic = CM_MAGIC,
		.version = RC_WIRE_VERSION,
		.verdict = RC_GRANTED,
		.epoch = sl_rpc_boot_epoch(),
		.slots = g->slots,
		.bulk_len = g->bulk_len,
		.wireup_qpn = l->wireup.qp ? l->wireup.qp->qpn : 0,
	};
	rc = sl_rand_bytes(p->transcript.reply.nonce, AUTH_NONCE_LEN);
	auth_sign(&l->psk, &p->transcript, CM_REPLY);
	if (rc || rdma_accept(id, &param) || rc_conn_established(p->conn))
		rc_pending_drop(l, p);
}

static void handle_request(struct rc_listener *l, struct rdma_cm_id *id,
			   const struct cm_request *rq, uint64_t now_ns)
{
	struct cm_transcript transcript = {.target = auth_target_of(rdma_get_local_addr(id)),
					   .request = *rq};
	struct rc_ring_sizes g;
	enum rc_verdict verdict = check_request(l, id, &transcript, &g);
	const uint8_t *host = id->route.addr.addr.ibaddr.dgid.raw;
	struct rc_pending *p = rc_pending_alloc(l, host, false);

	/* The client must try again later, so that pending ones can finish. */
	if (verdict == RC_GRANTED && (!p || rc_ifaces_host_blocked(l->group, host)))
		verdict = RC_FULL;
	if (verdict != RC_GRANTED) {
		reject_request(l, id, verdict);
		return;
	}
	p->transcript = transcript;
	p->deadline_ns = now_ns + RC_PENDING_MS * SL_NS_PER_MS;
	accept_request(l, id, p, &g);
}

static int listen_on_id(struct rc_listener *l)
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

static void listen_again(struct rc_listener *l, uint64_t now_ns)
{
	if (listen_on_id(l) == 0)
		return;
	l->retry_ns = now_ns + l->retry_ms * SL_NS_PER_MS;
	l->retry_ms = 2 * l->retry_ms < RELISTEN_MAX_MS ? 2 * l->retry_ms : RELISTEN_MAX_MS;
}

static void handle_requests(struct rc_listener *l, uint64_t now_ns)
{
	struct rdma_cm_event *ev;

	for (unsigned i = 0; i < EVENTS_MAX && rdma_get_cm_event(l->cm, &ev) == 0; i++) {
		struct rdma_cm_id *id = ev->id;
		bool is_request = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		bool lost_device = id == l->id && (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL ||
						   ev->event == RDMA_CM_EVENT_ADDR_CHANGE);
		struct cm_request rq = {.magic = 0};

		if (is_request && ev->param.conn.private_data &&
		    ev->param.conn.private_data_len >= sizeof(rq))
			memcpy(&rq, ev->param.conn.private_data, sizeof(rq));
		/* An id can leave its channel only after its events are acknowledged. */
		rdma_ack_cm_event(ev);
		if (is_request)
			handle_request(l, id, &rq, now_ns);
		if (!lost_device)
			continue;
		/* The device was removed, or the address has moved. */
		rdma_destroy_id(l->id);
		l->id = NULL;
		wireup_listener_close(&l->wireup);
		l->wireup_device = NULL;
		l->retry_ms = RELISTEN_MIN_MS;
		l->retry_ns = now_ns;
		listen_again(l, now_ns);
	}
}

/* Returns 0 or -errno. */
static int finish_accept(struct rc_listener *l, struct rc_pending *p)
{
	const struct rc_ring_sizes g = {.slots = p->transcript.reply.slots,
					.bulk_len = p->transcript.reply.bulk_len};
	struct rc_conn *conn = p->conn;
	char what[32];
	int rc;

	p->transcript.client = conn->keys[1];
	if (!auth_verify(&l->psk, &p->transcript, CM_CLIENT_KEYS))
		return -EACCES;
	rc = rc_conn_open_rings(conn, &g);
	if (rc)
		return rc;
	if (l->mem.addr)
		rc_conn_set_zcopy_mem(conn, l->mem.addr, l->mem.len);
	p->transcript.server = conn->keys[0];
	auth_sign(&l->psk, &p->transcript, CM_SERVER_KEYS);
	conn->keys[0] = p->transcript.server;
	rc = rc_conn_send_keys(conn);
	rc_ifaces_schedule_refill();
	conn->base.peer_epoch = p->transcript.request.epoch;
	conn->base.peer_worker = p->transcript.request.worker;
	conn->base.link = p->transcript.client.link;
	if (conn->iface)
		rc_peer_publish(
			conn->peer, conn->qp.qp,
			&(struct rc_peer_addr){.epoch = conn->base.peer_epoch,
					       .wireup_qpn = l->wireup.qp ? l->wireup.qp->qpn : 0});
	snprintf(what, sizeof(what), " worker %u", p->transcript.request.worker);
	rc_conn_set_info(conn, what);
	return rc;
}

static void advance_pending(struct rc_listener *l, struct rc_pending *p, uint64_t now_ns)
{
	struct rc_conn *conn = p->conn;
	int rc;

	(void)rc_check(&conn->base);
	rc = rc_conn_poll_keys(conn);
	if (rc == 0 && now_ns < p->deadline_ns)
		return;
	if (rc <= 0 || (p->by_wireup ? wireup_handle_ack(l, p) : finish_accept(l, p))) {
		rc_pending_drop(l, p);
		return;
	}
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, conn->base.fd, NULL);
	p->conn = NULL;
	pthread_mutex_lock(&l->lock);
	sl_list_add_tail(&l->established, &conn->closing);
	pthread_mutex_unlock(&l->lock);
	(void)eventfd_write(l->base.fd, 1);
}

static uint64_t next_ns(const struct rc_listener *l)
{
	uint64_t next = l->wireup.more ? 0 : l->id ? UINT64_MAX : l->retry_ns;

	for (unsigned i = 0; i < RC_PENDING_MAX; i++) {
		if (l->pending[i].conn && l->pending[i].deadline_ns < next)
			next = l->pending[i].deadline_ns;
	}
	return next;
}

static void *listener_main(void *arg)
{
	struct rc_listener *l = arg;
	struct epoll_event ev;

	sl_thread_name_set("listener");
	service_work_begin();
	if (l->id && l->id->verbs) {
		rc_listener_open_wireup(l, l->id);
		rc_iface_request(l->id->verbs, l->group, l->max_sizes.slots,
				 rc_rings_len(&l->max_sizes));
		rc_ifaces_schedule_refill();
	}
	while (!l->stop) {
		uint64_t now_ns = sl_now_ns(), next;
		int wait_ms = -1;

		if (!l->id && now_ns >= l->retry_ns)
			listen_again(l, now_ns);
		handle_requests(l, now_ns);
		if (l->wireup.qp)
			wireup_listener_poll(&l->wireup, wireup_handle_request, l);
		/* The next CM request opens it again, on its device. */
		if (!l->wireup.qp)
			l->wireup_device = NULL;
		for (unsigned i = 0; i < RC_PENDING_MAX; i++) {
			if (l->pending[i].conn)
				advance_pending(l, &l->pending[i], now_ns);
		}
		next = next_ns(l);
		if (next != UINT64_MAX)
			wait_ms = next > now_ns ? (int)((next - now_ns) / SL_NS_PER_MS) + 1 : 0;
		service_work_end();
		(void)epoll_wait(l->epoll_fd, &ev, 1, wait_ms);
		service_work_begin();
	}
	service_work_end();
	return NULL;
}

/*
 * The thread starts with the first accept(): a program may listen, fork, and accept in the child.
 */
static void start_listener_thread(struct rc_listener *l, uint64_t now_ns)
{
	sigset_t all, old;

	l->retry_ns = now_ns + RELISTEN_MAX_MS * SL_NS_PER_MS;
	if (service_thread_start())
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (pthread_create(&l->thread, NULL, listener_main, l) == 0)
		l->pid = getpid();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static struct sl_transport *rc_accept(struct sl_rpc_listener *base, uint64_t now_ns)
{
	struct rc_listener *l = (struct rc_listener *)base;
	struct sl_transport *t = NULL;
	struct sl_list *at;
	eventfd_t many;

	if (!l->pid && now_ns >= l->retry_ns)
		start_listener_thread(l, now_ns);
	base->refused = l->refused;
	pthread_mutex_lock(&l->lock);
	at = sl_list_pop_head(&l->established);
	if (!at)
		(void)eventfd_read(base->fd, &many);
	pthread_mutex_unlock(&l->lock);
	if (at) {
		t = &sl_container_of(at, struct rc_conn, closing)->base;
		base->unaccepted -= !t->resumes;
	}
	return t;
}

static uint64_t rc_next_ns(const struct sl_rpc_listener *base)
{
	const struct rc_listener *l = (const struct rc_listener *)base;

	return l->pid ? UINT64_MAX : l->retry_ns;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void rc_listener_close(struct sl_rpc_listener *base)
{
	struct rc_listener *l = (struct rc_listener *)base;
	struct sl_list *at;

	if (l->pid == getpid()) {
		l->stop = true;
		(void)eventfd_write(l->wake, 1);
		pthread_join(l->thread, NULL);
	}
	for (unsigned i = 0; i < RC_PENDING_MAX; i++) {
		if (l->pending[i].conn)
			rc_pending_drop(l, &l->pending[i]);
	}
	while ((at = sl_list_pop_head(&l->established)))
		rc_conn_close(&sl_container_of(at, struct rc_conn, closing)->base);
	rc_ifaces_retire(l->group);
	wireup_listener_close(&l->wireup);
	if (l->id)
		rdma_destroy_id(l->id);
	if (l->cm)
		rdma_destroy_event_channel(l->cm);
	close_if_open(base->fd);
	close_if_open(l->epoll_fd);
	close_if_open(l->wake);
	pthread_mutex_destroy(&l->lock);
	sl_psk_wipe(&l->psk);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = rc_accept,
	.next_ns = rc_next_ns,
	.close = rc_listener_close,
};

static int open_listener(struct rc_listener *l)
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
	    fcntl(l->cm->fd, F_SETFL, flags | O_NONBLOCK) < 0 || !rc_listener_watch(l, l->cm->fd) ||
	    !rc_listener_watch(l, l->wake))
		return errno ? -errno : -EIO;
	return listen_on_id(l);
}

static const char *listen_error_text(int rc)
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

struct sl_rpc_listener *sl_rc_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err)
{
	static _Atomic unsigned number;
	struct rc_listener *l = sl_rpc_listener_new(sizeof(*l), &listener_ops, err);
	int rc;

	if (!l)
		return NULL;
	l->group = RDMA_GROUP_BACKEND + atomic_fetch_add(&number, 1);
	l->epoll_fd = l->wake = -1;
	pthread_mutex_init(&l->lock, NULL);
	sl_list_init(&l->established);
	l->max_sizes = (struct rc_ring_sizes){.slots = opt->slots, .bulk_len = opt->bulk_ring_len};
	if (opt->mem)
		l->mem = *opt->mem;
	if (rdma_parse_addr(opt->address, &l->sa)) {
		sl_err_set(err,
			   "rdma://%s: expected a numeric address and port, as in "
			   "rdma://10.0.0.2:7471",
			   opt->address);
		goto fail;
	}
	if (sl_psk_read(&l->psk, opt->key_file, err))
		goto fail;
	rc = open_listener(l);
	if (!rc)
		return &l->base;
	sl_err_set(err, "rdma://%s: %s", opt->address, listen_error_text(rc));
fail:
	rc_listener_close(&l->base);
	return NULL;
}
