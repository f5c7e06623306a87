/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/ud/ud_iface.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/min.h"
#include "base/rand.h"

enum { POLL_ROUNDS = 4 /* polls per call */ };

/* Protects the list and ids. Workers take it for each connection: no device calls under it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while an interface is created, or all dialing threads would create one. */
static pthread_mutex_t create_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list ifaces = {&ifaces, &ifaces};
static uint64_t ids[UD_CONNS / 64]; /* in use */
static uint32_t ids_from;
static uint32_t generation;

uint32_t ud_id_get(void)
{
	uint32_t id = 0;

	pthread_mutex_lock(&lock);
	while (ids_from < UD_CONNS / 64 && ids[ids_from] == UINT64_MAX)
		ids_from++;
	if (ids_from < UD_CONNS / 64) {
		uint32_t bit = (uint32_t)__builtin_ctzll(~ids[ids_from]);

		ids[ids_from] |= UINT64_C(1) << bit;
		/* Bits above the index: a generation, never 0, so that a stale id is not found. */
		generation = generation % (UINT32_MAX / UD_CONNS) + 1;
		id = generation * UD_CONNS + 64 * ids_from + bit;
	}
	pthread_mutex_unlock(&lock);
	return id;
}

void ud_id_put(uint32_t id)
{
	pthread_mutex_lock(&lock);
	ids[id % UD_CONNS / 64] &= ~(UINT64_C(1) << id % 64);
	ids_from = sl_rpc_at_most(ids_from, id % UD_CONNS / 64);
	pthread_mutex_unlock(&lock);
}

struct ud_conn *ud_iface_find_conn(const struct ud_iface *iface, uint32_t id)
{
	struct ud_conn **chunk = iface->conn_chunks[id % UD_CONNS / UD_CHUNK_CONNS];
	struct ud_conn *c = chunk ? chunk[id % UD_CHUNK_CONNS] : NULL;

	return c && c->id == id ? c : NULL;
}

static unsigned peer_bucket(const struct ud_iface *iface, uint64_t epoch, uint32_t peer_id)
{
	const uint64_t key_input[] = {epoch, peer_id};

	return sl_siphash13_words(&iface->peers_key, key_input, 2) % UD_PEERS;
}

struct ud_conn *ud_iface_find_peer(const struct ud_iface *iface, uint64_t epoch, uint32_t peer_id)
{
	struct ud_conn *c = iface->peers[peer_bucket(iface, epoch, peer_id)];

	while (c && (c->peer_id != peer_id || c->base.peer_epoch != epoch))
		c = c->next_peer;
	return c;
}

int ud_iface_add_conn(struct ud_iface *iface, struct ud_conn *c)
{
	struct ud_conn ***chunk = &iface->conn_chunks[c->id % UD_CONNS / UD_CHUNK_CONNS];
	struct ud_conn **peers = &iface->peers[peer_bucket(iface, c->base.peer_epoch, c->peer_id)];

	if (!*chunk)
		*chunk = calloc(UD_CHUNK_CONNS, sizeof(**chunk));
	if (!*chunk)
		return -ENOMEM;
	(*chunk)[c->id % UD_CHUNK_CONNS] = c;
	c->next_peer = *peers;
	*peers = c;
	return 0;
}

void ud_iface_remove_conn(struct ud_iface *iface, struct ud_conn *c)
{
	struct ud_conn **at = &iface->peers[peer_bucket(iface, c->base.peer_epoch, c->peer_id)];

	while (*at != c)
		at = &(*at)->next_peer;
	*at = c->next_peer;
	iface->conn_chunks[c->id % UD_CONNS / UD_CHUNK_CONNS][c->id % UD_CHUNK_CONNS] = NULL;
}

static void receive_datagram(struct ud_iface *iface, const struct ud_packet *p, uint64_t now_ns)
{
	struct sl_ud_header head;
	struct ud_conn *c;
	uint64_t number;

	iface->group.unmatched++;
	if (p->len < sizeof(head))
		return;
	memcpy(&head, p->bytes, sizeof(head));
	c = ud_iface_find_conn(iface, head.to);
	if (head.magic != SL_UD_MAGIC || head.version != SL_UD_VERSION || !c ||
	    head.len != p->len - sizeof(head))
		return;
	iface->group.unmatched--;
	number = ud_arq_number(&c->arq, head.seq);
	if (ud_mac_ok(&c->keys.in, p->bytes, p->len, number))
		ud_conn_receive(c, p, now_ns);
	else
		c->base.bad_mac++;
}

static void tick_conns(struct ud_iface *iface, uint64_t now_ns)
{
	struct sl_list *at, *next;

	iface->tick_ns = now_ns + UD_TICK_NS;
	iface->due_ns = UINT64_MAX;
	sl_list_for_each_safe (at, next, &iface->busy) {
		if (!ud_conn_tick(sl_container_of(at, struct ud_conn, busy), now_ns))
			sl_list_del(at);
	}
}

static void update_port_state(struct ud_iface *iface, uint64_t now_ns)
{
	iface->down = iface->port->down;
	for (unsigned i = 0; i < UD_PEERS; i++) {
		for (struct ud_conn *c = iface->peers[i]; c; c = c->next_peer)
			ud_conn_set_port_down(c, iface->down, now_ns);
	}
}

static void iface_poll(struct sl_poll_group *group)
{
	struct ud_iface *iface = (struct ud_iface *)group;
	uint64_t now_ns = sl_now_ns();
	SL_UNINIT struct ud_packet packets[UD_POLL_MAX];
	int n = UD_POLL_MAX;

	for (unsigned i = 0; i < POLL_ROUNDS && n == UD_POLL_MAX; i++) {
		n = rdma_device->poll(iface->qp, packets, UD_POLL_MAX);
		for (int k = 0; k < n; k++)
			receive_datagram(iface, &packets[k], now_ns);
		if (n < 0 || rdma_device->repost(iface->qp, packets, (unsigned)n))
			iface->failed = true;
	}
	if (sl_unlikely(iface->port && iface->port->down != iface->down))
		update_port_state(iface, now_ns);
	if (now_ns >= iface->tick_ns || now_ns >= iface->due_ns)
		tick_conns(iface, now_ns);
}

static bool iface_arm(struct sl_poll_group *group)
{
	struct ud_iface *iface = (struct ud_iface *)group;
	uint64_t next = UINT64_MAX;
	struct itimerspec when = {.it_value = {.tv_nsec = 0}};
	struct sl_list *at;

	if (iface->failed || !rdma_device->arm(iface->qp))
		return false;
	sl_list_for_each (at, &iface->busy) {
		const struct ud_conn *c = sl_container_of(at, struct ud_conn, busy);
		uint64_t ns = c->qpn ? ud_arq_next_ns(&c->arq) : c->created_ns + UD_CONFIRM_NS;

		next = sl_min_ns(next, ns);
	}
	iface->due_ns = next;
	if (next <= sl_now_ns())
		return false;
	if (next >= iface->timer_ns)
		return true;
	iface->timer_ns = next;
	when.it_value.tv_sec = (time_t)(next / SL_NS_PER_SEC);
	when.it_value.tv_nsec = (long)(next % SL_NS_PER_SEC);
	return timerfd_settime(iface->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

static void iface_check(struct sl_poll_group *group)
{
	struct ud_iface *iface = (struct ud_iface *)group;
	uint64_t times;

	rdma_device->ack_event(iface->qp);
	if (iface->port)
		(void)eventfd_read(iface->port->fd, &times);
	if (read(iface->timer_fd, &times, sizeof(times)) == (ssize_t)sizeof(times))
		iface->timer_ns = UINT64_MAX;
}

static const struct sl_poll_group_ops iface_ops = {
	.poll = iface_poll,
	.arm = iface_arm,
	.handle_event = iface_check,
};

static void iface_free(struct ud_iface *iface)
{
	if (iface->port)
		rdma_device->port_unwatch(iface->port);
	if (iface->qp)
		rdma_device->close(iface->qp);
	if (iface->timer_fd >= 0)
		close(iface->timer_fd);
	if (iface->group.fd >= 0)
		close(iface->group.fd);
	sl_capped_fini(&iface->mem);
	for (unsigned i = 0; i < UD_CONNS / UD_CHUNK_CONNS; i++)
		free(iface->conn_chunks[i]);
	free(iface);
}

static int open_events(struct ud_iface *iface)
{
	struct epoll_event ev = {.events = EPOLLIN};

	iface->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	iface->group.fd = epoll_create1(EPOLL_CLOEXEC);
	if (iface->timer_fd < 0 || iface->group.fd < 0 ||
	    epoll_ctl(iface->group.fd, EPOLL_CTL_ADD, iface->timer_fd, &ev) < 0 ||
	    epoll_ctl(iface->group.fd, EPOLL_CTL_ADD, iface->qp->fd, &ev) < 0)
		return -errno;
	return 0;
}

struct ud_iface *ud_iface_new(const struct rdma_local *l, unsigned group, int *rc)
{
	struct ud_iface *iface = calloc(1, sizeof(*iface));

	*rc = -ENOMEM;
	if (!iface)
		return NULL;
	iface->group.ops = &iface_ops;
	iface->group.fd = iface->timer_fd = -1;
	iface->timer_ns = iface->due_ns = UINT64_MAX;
	iface->local = *l;
	sl_capped_init(&iface->mem, SIZE_MAX);
	sl_list_init(&iface->group.ready);
	sl_list_init(&iface->node);
	sl_list_init(&iface->busy);
	*rc = sl_rand_bytes(&iface->peers_key, sizeof(iface->peers_key));
	if (!*rc)
		iface->qp = rdma_device->open(l, group, UD_IFACE_RX, UD_IFACE_TX, rc);
	if (iface->qp)
		*rc = open_events(iface);
	if (!*rc)
		return iface;
	iface_free(iface);
	return NULL;
}

int ud_iface_watch_port(struct ud_iface *iface)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int rc;
	struct rdma_port *port = rdma_device->port_watch(&iface->local, &rc);

	if (!port)
		return rc;
	if (epoll_ctl(iface->group.fd, EPOLL_CTL_ADD, port->fd, &ev) < 0) {
		rc = -errno;
		rdma_device->port_unwatch(port);
		return rc;
	}
	iface->port = port;
	return 0;
}

void ud_iface_put(struct ud_iface *iface)
{
	bool free_now;

	pthread_mutex_lock(&lock);
	free_now = --iface->refs == 0 && (sl_list_empty(&iface->node) || iface->failed);
	if (free_now)
		sl_list_del(&iface->node);
	else if (!iface->refs)
		iface->owner = NULL;
	pthread_mutex_unlock(&lock);
	if (free_now)
		iface_free(iface);
}

void ud_iface_fail(struct ud_iface *iface)
{
	iface->failed = true;
	for (unsigned i = 0; i < UD_PEERS; i++) {
		for (struct ud_conn *c = iface->peers[i]; c; c = c->next_peer)
			ud_conn_fail(c);
	}
}

static bool is_usable_at(const struct ud_iface *iface, const struct rdma_local *l)
{
	return rdma_local_same(&iface->local, l) && !iface->failed;
}

static struct ud_iface *find_iface(const struct rdma_local *l, const void *owner)
{
	struct sl_list *at;

	sl_list_for_each (at, &ifaces) {
		struct ud_iface *iface = sl_container_of(at, struct ud_iface, node);

		if (iface->owner == owner && is_usable_at(iface, l))
			return iface;
	}
	return NULL;
}

static struct ud_iface *find_unowned(const struct rdma_local *l, uint16_t worker)
{
	struct sl_list *at;

	sl_list_for_each (at, &ifaces) {
		struct ud_iface *iface = sl_container_of(at, struct ud_iface, node);

		if (iface->worker == worker && !iface->owner && is_usable_at(iface, l))
			return iface;
	}
	return find_iface(l, NULL);
}

static struct ud_iface *find_of_worker(const struct rdma_local *l, uint16_t worker)
{
	struct sl_list *at;

	sl_list_for_each (at, &ifaces) {
		struct ud_iface *iface = sl_container_of(at, struct ud_iface, node);

		if (iface->worker == worker && is_usable_at(iface, l))
			return iface;
	}
	return NULL;
}

/* Creates an interface of the owner. Returns NULL and -errno. create_lock held. */
static struct ud_iface *create_iface(const struct rdma_local *l, const void *owner, uint16_t worker,
				     int *rc)
{
	struct ud_iface *iface = ud_iface_new(l, worker, rc);

	if (!iface)
		return NULL;
	*rc = ud_iface_watch_port(iface);
	if (*rc) {
		iface_free(iface);
		return NULL;
	}
	iface->owner = owner;
	iface->worker = worker;
	return iface;
}

static void add_iface(struct ud_iface *iface)
{
	pthread_mutex_lock(&lock);
	sl_list_add_tail(&ifaces, &iface->node);
	pthread_mutex_unlock(&lock);
}

static bool is_prepared(const struct rdma_local *l, uint16_t worker, uint32_t *mtu)
{
	const struct ud_iface *iface;

	pthread_mutex_lock(&lock);
	iface = find_of_worker(l, worker);
	if (iface)
		*mtu = iface->qp->mtu;
	pthread_mutex_unlock(&lock);
	return iface != NULL;
}

int ud_iface_prepare(const struct rdma_local *l, uint16_t worker, uint32_t *mtu)
{
	struct ud_iface *iface;
	int rc = 0;

	if (is_prepared(l, worker, mtu))
		return 0;
	pthread_mutex_lock(&create_lock);
	if (!is_prepared(l, worker, mtu) && (iface = create_iface(l, NULL, worker, &rc))) {
		*mtu = iface->qp->mtu;
		add_iface(iface);
	}
	pthread_mutex_unlock(&create_lock);
	return rc;
}

static struct ud_iface *claim_iface(const struct rdma_local *l, const void *owner, uint16_t worker)
{
	struct ud_iface *iface;

	pthread_mutex_lock(&lock);
	iface = find_iface(l, owner);
	if (!iface)
		iface = find_unowned(l, worker);
	if (iface)
		iface->owner = owner;
	pthread_mutex_unlock(&lock);
	return iface;
}

struct ud_iface *ud_iface_get(const struct rdma_local *l, const void *owner, uint16_t worker)
{
	struct ud_iface *iface = claim_iface(l, owner, worker);
	int rc;

	if (iface)
		return iface;
	pthread_mutex_lock(&create_lock);
	iface = claim_iface(l, owner, worker);
	if (!iface && (iface = create_iface(l, owner, worker, &rc)))
		add_iface(iface);
	pthread_mutex_unlock(&create_lock);
	return iface;
}
