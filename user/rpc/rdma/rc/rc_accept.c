/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"
#include "base/rand.h"
#include "rpc/rpc.h"
#include "rpc/rdma/async_event.h"
#include "rpc/rdma/service_thread.h"
#include "rpc/rdma/rc/rc_listener.h"

enum { WIREUP_RX = 64, WIREUP_TX = 32, START_AGAIN_MS = 1000 };

static struct rc_listener *listener_of(struct wireup_listener *w)
{
	return sl_container_of(w, struct rc_listener, wireup);
}

static bool watch_fd(const struct rc_listener *l, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0;
}

/* Ends the connection silently: the client may be an impostor until it is heard. */
static void drop_pending(struct rc_listener *l, struct rc_pending *p)
{
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, p->conn->base.fd, NULL);
	l->base.unaccepted -= !p->conn->base.resumes;
	p->conn->bye = RC_BYE_DONE;
	rc_conn_close(&p->conn->base);
	p->conn = NULL;
	l->wireup.refused++;
}

static bool is_same_client(const struct sl_wireup_creq *a, const struct sl_wireup_creq *b)
{
	return a->qpn == b->qpn && memcmp(a->gid, b->gid, sizeof(a->gid)) == 0 &&
	       auth_sender_id_word(a->sender_id) == auth_sender_id_word(b->sender_id);
}

/* Compares what the connection was made from. */
static bool is_repeated(const struct sl_wireup_creq *a, const struct sl_wireup_creq *b)
{
	return a->psn == b->psn && a->rkey == b->rkey && a->bulk == b->bulk &&
	       a->slots == b->slots && a->bulk_len == b->bulk_len && a->mtu == b->mtu &&
	       a->tos == b->tos && a->sl == b->sl && a->epoch == b->epoch && a->link == b->link &&
	       a->worker == b->worker && a->flags == b->flags;
}

static struct rc_pending *find_pending(struct rc_listener *l, const struct sl_wireup_creq *h)
{
	for (struct rc_pending *p = l->pending; p < l->pending + RC_PENDING_MAX; p++) {
		if (p->conn && is_same_client(&p->creq, h))
			return p;
	}
	return NULL;
}

static struct rc_pending *alloc_pending(struct rc_listener *l, const uint8_t host[16])
{
	struct rc_pending *free_slot = NULL;
	unsigned host_cnt = 0;

	for (struct rc_pending *p = l->pending; p < l->pending + RC_PENDING_MAX; p++) {
		if (!p->conn)
			free_slot = p;
		else
			host_cnt += memcmp(p->creq.gid, host, sizeof(p->creq.gid)) == 0;
	}
	return host_cnt < RC_PENDING_PER_HOST ? free_slot : NULL;
}

static int make_conn(struct rc_listener *l, struct rc_pending *p, const struct rc_ring_sizes *g)
{
	const struct sl_wireup_creq *h = &p->creq;
	const struct rc_qp_end peer = {
		.qpn = h->qpn, .psn = h->psn, .rkey = h->rkey, .bulk = h->bulk};
	struct rc_path path = {.local = l->wireup.local, .tos = h->tos, .sl = h->sl & 15};
	struct sl_wireup_crep *a = &p->crep;
	struct rc_conn *conn = p->conn;
	int rc;

	memcpy(path.gid, h->gid, sizeof(path.gid));
	rc = rc_conn_open(conn, &path, l->group, g);
	if (!rc && (sl_rand_bytes(&a->psn, sizeof(a->psn)) || !watch_fd(l, conn->base.fd)))
		rc = -EIO;
	if (rc)
		return rc;
	a->psn &= RDMA_PSN_MASK;
	rc = rc_conn_to_rts(conn, &peer, a->psn, a->mtu);
	if (!rc)
		rc = rc_conn_open_rings(conn, g);
	if (rc)
		return rc;
	if (l->mem.addr)
		rc_conn_set_zcopy_mem(conn, l->mem.addr, l->mem.len);
	conn->peer_number = h->id;
	conn->base.peer_epoch = h->epoch;
	conn->base.peer_worker = h->worker;
	conn->base.link = h->link;
	a->slots = g->slots;
	a->bulk_len = g->bulk_len;
	a->id = a->qpn = conn->qp.qp->qp_num;
	a->rkey = conn->rkey;
	a->bulk = (uintptr_t)conn->rx_bulk;
	return rc_conn_bind_mw(conn);
}

/*
 * A client that missed the reply gets another one for the same connection. The reply to a request
 * that was overtaken is not awaited any more.
 */
static enum sl_wireup_verdict answer_again(struct rc_listener *l, struct rc_pending *p,
					   const struct sl_wireup_creq *h, struct sl_wireup_crep *a)
{
	if ((int32_t)(h->number - p->creq.number) < 0)
		return SL_WIREUP_FULL;
	memcpy(p->crep.nonce, a->nonce, sizeof(a->nonce));
	p->crep.number = h->number;
	p->creq = *h;
	wireup_crep_sign(&l->wireup.psk, h, &p->crep);
	*a = p->crep;
	return SL_WIREUP_GRANTED;
}

static enum sl_wireup_verdict grant_conn(struct wireup_listener *w, const struct sl_wireup_creq *h,
					 struct sl_wireup_crep *a, struct ah_entry *n)
{
	struct rc_listener *l = listener_of(w);
	const struct rc_ring_sizes g = {.slots = sl_rpc_at_most(h->slots, l->max_sizes.slots),
					.bulk_len =
						sl_rpc_at_most(h->bulk_len, l->max_sizes.bulk_len)};
	struct rc_pending *p = find_pending(l, h);

	(void)n; /* the queue pair has a path of its own */
	a->mtu = sl_rpc_at_most(h->mtu, w->qp->mtu);
	if (!rc_ring_sizes_ok(&g) || a->mtu < RC_MTU_MIN)
		return SL_WIREUP_BAD_SIZES;
	if (p && is_repeated(&p->creq, h))
		return answer_again(l, p, h, a);
	if (p)
		drop_pending(l, p);
	p = alloc_pending(l, h->gid);
	if (!p || sl_rpc_listener_full(&l->base, h->flags) ||
	    rc_ifaces_host_blocked(l->group, h->gid))
		return SL_WIREUP_FULL;
	p->conn = rc_conn_new();
	if (!p->conn)
		return SL_WIREUP_FULL;
	p->creq = *h;
	p->crep = *a;
	p->deadline_ns = sl_now_ns() + RC_PENDING_MS * SL_NS_PER_MS;
	p->conn->base.resumes = h->flags & SL_HELLO_RESUME;
	l->base.unaccepted += !p->conn->base.resumes;
	if (make_conn(l, p, &g)) {
		drop_pending(l, p);
		return SL_WIREUP_FULL;
	}
	wireup_crep_sign(&w->psk, h, &p->crep);
	*a = p->crep;
	return SL_WIREUP_GRANTED;
}

static bool has_conn(struct wireup_listener *w, const struct sl_wireup_creq *h)
{
	(void)w;
	return rc_conns_has(h->epoch, h->gid, h->id);
}

static int prepare_iface(struct wireup_listener *w)
{
	struct ibv_context *device = ((struct ibv_pd *)w->local.device)->context;
	struct rc_listener *l = listener_of(w);
	int rc = async_event_add_device(device);

	rc_iface_request(device, l->group, l->max_sizes.slots, rc_rings_len(&l->max_sizes));
	rc_ifaces_schedule_refill();
	return rc;
}

/* Connections end by events of the device. */
static void lose_local(struct wireup_listener *w)
{
	(void)w;
}

int rc_pending_confirm(struct rc_listener *l, struct rc_pending *p)
{
	uint8_t proof[SL_PSK_MAC_LEN];
	char what[32];

	wireup_derive(&l->wireup.psk, &p->crep, WIREUP_ACK, proof);
	if (CRYPTO_memcmp(proof, p->conn->ack, sizeof(proof)) != 0)
		return -EACCES;
	rc_ifaces_schedule_refill();
	snprintf(what, sizeof(what), " worker %u", p->creq.worker);
	rc_conn_set_info(p->conn, what);
	return 0;
}

static void advance_pending(struct rc_listener *l, struct rc_pending *p, uint64_t now_ns)
{
	struct rc_conn *conn = p->conn;
	int rc;

	(void)rc_check(&conn->base);
	rc = rc_conn_poll_ack(conn);
	if (rc == 0 && now_ns < p->deadline_ns)
		return;
	if (rc <= 0 || rc_pending_confirm(l, p)) {
		drop_pending(l, p);
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
	uint64_t next = wireup_listener_next_ns(&l->wireup);

	for (unsigned i = 0; i < RC_PENDING_MAX; i++) {
		if (l->pending[i].conn && l->pending[i].deadline_ns < next)
			next = l->pending[i].deadline_ns;
	}
	return next;
}

static void run_once(struct rc_listener *l, uint64_t now_ns)
{
	wireup_listener_turn(&l->wireup, now_ns);
	if (l->wireup.qp && !wireup_listener_drain(&l->wireup))
		wireup_listener_fail(&l->wireup, now_ns);
	for (unsigned i = 0; i < RC_PENDING_MAX; i++) {
		if (l->pending[i].conn)
			advance_pending(l, &l->pending[i], now_ns);
	}
}

static void *listener_main(void *arg)
{
	struct rc_listener *l = arg;
	struct epoll_event ev;

	sl_thread_name_set("listener");
	service_work_begin();
	while (!l->stop) {
		uint64_t now_ns = sl_now_ns(), next;
		int wait_ms = -1;

		run_once(l, now_ns);
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

/* Starts the thread at the first accept(): a program may listen, fork, and accept in the child. */
static void start_listener_thread(struct rc_listener *l, uint64_t now_ns)
{
	sigset_t all, old;

	l->start_ns = now_ns + START_AGAIN_MS * SL_NS_PER_MS;
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

	if (!l->pid && now_ns >= l->start_ns)
		start_listener_thread(l, now_ns);
	base->refused = l->wireup.refused;
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

	return l->pid ? UINT64_MAX : l->start_ns;
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
			drop_pending(l, &l->pending[i]);
	}
	while ((at = sl_list_pop_head(&l->established)))
		rc_conn_close(&sl_container_of(at, struct rc_conn, closing)->base);
	rc_ifaces_retire(l->group);
	wireup_listener_fini(&l->wireup);
	close_if_open(base->fd);
	close_if_open(l->epoll_fd);
	close_if_open(l->wake);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static const struct sl_rpc_listener_ops listener_ops = {
	.accept = rc_accept,
	.next_ns = rc_next_ns,
	.close = rc_listener_close,
};

static int open_listener(struct rc_listener *l, const struct sl_rpc_listen_options *opt,
			 struct sl_err *err)
{
	l->base.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	l->wireup.epoll_fd = l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (l->base.fd < 0 || l->wake < 0 || l->epoll_fd < 0 || !watch_fd(l, l->wake)) {
		sl_err_set(err, "rdma://%s: %s", opt->address, strerror(errno));
		return -1;
	}
	if (wireup_listener_init(&l->wireup, opt->address, opt->key_file, err))
		return -1;
	if (rc_iface_is_supported(((struct ibv_pd *)l->wireup.sidr->local.device)->context))
		return 0;
	sl_err_set(err, "rdma://%s: %s", opt->address, RC_UNSUPPORTED_TEXT);
	return -1;
}

struct sl_rpc_listener *sl_rc_listen(const struct sl_rpc_listen_options *opt, struct sl_err *err)
{
	static const struct wireup_listener_ops ops = {.opened = prepare_iface,
						       .lost = lose_local,
						       .grant = grant_conn,
						       .has_conn = has_conn};
	static _Atomic unsigned number;
	struct rc_listener *l = sl_rpc_listener_new(sizeof(*l), &listener_ops, err);

	if (!l)
		return NULL;
	l->group = RDMA_GROUP_BACKEND + atomic_fetch_add(&number, 1);
	pthread_mutex_init(&l->lock, NULL);
	sl_list_init(&l->established);
	l->max_sizes = (struct rc_ring_sizes){.slots = opt->slots, .bulk_len = opt->bulk_ring_len};
	l->wireup.ops = &ops;
	l->wireup.want = SL_WIREUP_RC;
	l->wireup.rx_cnt = WIREUP_RX;
	l->wireup.tx_cnt = WIREUP_TX;
	l->wireup.opens_later = true;
	if (opt->mem)
		l->mem = *opt->mem;
	if (open_listener(l, opt, err) == 0)
		return &l->base;
	rc_listener_close(&l->base);
	return NULL;
}
