/* SPDX-License-Identifier: Apache-2.0 */
/* Read from the bottom: ud_hall_of, ud_hall_prepare -> make -> ud_hall_new; hall_take -> receive, tick. */
#include "rpc/ud/hall.h"

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

enum { ROUNDS = 4 /* polls of one take */ };

/* A device may take its time, and workers have this lock whenever a connection comes or goes. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* So who makes a hall has this one, and not that: one at a time, or all who dial would make theirs. */
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list halls = {&halls, &halls};
static uint64_t ids[UD_CONNS / 64]; /* taken */
static uint32_t ids_from;           /* all before this word are */
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
		/* Above the place: which of those that had it. Never 0. */
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

/* --- who is here --- */

struct ud_conn *ud_hall_conn(const struct ud_hall *h, uint32_t id)
{
	struct ud_conn **shelf = h->shelves[id % UD_CONNS / UD_SHELF];
	struct ud_conn *c = shelf ? shelf[id % UD_SHELF] : NULL;

	return c && c->id == id ? c : NULL;
}

static unsigned list_of(const struct ud_hall *h, uint64_t epoch, uint32_t peer_id)
{
	const uint64_t whose[] = {epoch, peer_id};

	return sl_siphash13_words(&h->peers_key, whose, 2) % UD_PEERS;
}

struct ud_conn *ud_hall_peer(const struct ud_hall *h, uint64_t epoch, uint32_t peer_id)
{
	struct ud_conn *c = h->peers[list_of(h, epoch, peer_id)];

	while (c && (c->peer_id != peer_id || c->base.peer_epoch != epoch))
		c = c->next_peer;
	return c;
}

int ud_hall_put_in(struct ud_hall *h, struct ud_conn *c)
{
	struct ud_conn ***shelf = &h->shelves[c->id % UD_CONNS / UD_SHELF];
	struct ud_conn **peers = &h->peers[list_of(h, c->base.peer_epoch, c->peer_id)];

	if (!*shelf)
		*shelf = calloc(UD_SHELF, sizeof(**shelf));
	if (!*shelf)
		return -ENOMEM;
	(*shelf)[c->id % UD_SHELF] = c;
	c->next_peer = *peers;
	*peers = c;
	return 0;
}

void ud_hall_take_out(struct ud_hall *h, struct ud_conn *c)
{
	struct ud_conn **at = &h->peers[list_of(h, c->base.peer_epoch, c->peer_id)];

	while (*at != c)
		at = &(*at)->next_peer;
	*at = c->next_peer;
	h->shelves[c->id % UD_CONNS / UD_SHELF][c->id % UD_SHELF] = NULL;
}

/* --- what comes --- */

static void receive(struct ud_hall *h, const struct ud_packet *p, uint64_t now_ns)
{
	struct sl_ud_header head;
	struct ud_conn *c;
	uint64_t number;

	h->hub.strays++;
	if (p->len < sizeof(head))
		return;
	memcpy(&head, p->bytes, sizeof(head));
	c = ud_hall_conn(h, head.to);
	if (head.magic != SL_UD_MAGIC || head.version != SL_UD_VERSION || !c ||
	    head.len != p->len - sizeof(head))
		return;
	h->hub.strays--;
	number = ud_flow_number(&c->flow, head.seq);
	if (ud_sealed(&c->keys.in, p->bytes, p->len, number))
		ud_conn_receive(c, p, now_ns);
	else
		c->base.unsealed++;
}

static void tick(struct ud_hall *h, uint64_t now_ns)
{
	struct sl_list *at, *next;

	h->tick_ns = now_ns + UD_TICK_NS;
	h->due_ns = UINT64_MAX;
	sl_list_for_each_safe (at, next, &h->busy) {
		if (!ud_conn_tick(sl_container_of(at, struct ud_conn, busy), now_ns))
			sl_list_del(at);
	}
}

static void tell_of_port(struct ud_hall *h, uint64_t now_ns)
{
	h->down = h->port->down;
	for (unsigned i = 0; i < UD_PEERS; i++) {
		for (struct ud_conn *c = h->peers[i]; c; c = c->next_peer)
			ud_conn_hold(c, h->down, now_ns);
	}
}

static void hall_take(struct sl_hub *hub)
{
	struct ud_hall *h = (struct ud_hall *)hub;
	uint64_t now_ns = sl_now_ns();
	SL_UNINIT struct ud_packet packets[UD_POLL];
	int n = UD_POLL;

	for (unsigned i = 0; i < ROUNDS && n == UD_POLL; i++) {
		n = ud_device->poll(h->pair, packets, UD_POLL);
		for (int k = 0; k < n; k++)
			receive(h, &packets[k], now_ns);
		if (n < 0 || ud_device->put_back(h->pair, packets, (unsigned)n))
			h->failed = true;
	}
	if (sl_unlikely(h->port && h->port->down != h->down))
		tell_of_port(h, now_ns);
	if (now_ns >= h->tick_ns || now_ns >= h->due_ns)
		tick(h, now_ns);
}

static bool hall_arm(struct sl_hub *hub)
{
	struct ud_hall *h = (struct ud_hall *)hub;
	uint64_t next = UINT64_MAX;
	struct itimerspec when = {.it_value = {.tv_nsec = 0}};
	struct sl_list *at;

	if (h->failed || !ud_device->arm(h->pair))
		return false;
	sl_list_for_each (at, &h->busy) {
		const struct ud_conn *c = sl_container_of(at, struct ud_conn, busy);
		uint64_t ns = c->qpn ? ud_flow_next_ns(&c->flow) : c->born_ns + UD_BIRTH_NS;

		next = sl_min_ns(next, ns);
	}
	h->due_ns = next;
	if (next <= sl_now_ns())
		return false;
	if (next >= h->timer_ns)
		return true;
	h->timer_ns = next;
	when.it_value.tv_sec = (time_t)(next / SL_NS_PER_SEC);
	when.it_value.tv_nsec = (long)(next % SL_NS_PER_SEC);
	return timerfd_settime(h->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) == 0;
}

static void hall_check(struct sl_hub *hub)
{
	struct ud_hall *h = (struct ud_hall *)hub;
	uint64_t times;

	ud_device->take_bell(h->pair);
	if (h->port)
		(void)eventfd_read(h->port->fd, &times);
	if (read(h->timer_fd, &times, sizeof(times)) == (ssize_t)sizeof(times))
		h->timer_ns = UINT64_MAX;
}

static const struct sl_hub_ops hall_ops = {
	.take = hall_take,
	.arm = hall_arm,
	.check = hall_check,
};

/* --- life --- */

static void hall_free(struct ud_hall *h)
{
	if (h->port)
		ud_device->unwatch(h->port);
	if (h->pair)
		ud_device->close(h->pair);
	if (h->timer_fd >= 0)
		close(h->timer_fd);
	if (h->hub.fd >= 0)
		close(h->hub.fd);
	sl_mem_fini(&h->mem);
	for (unsigned i = 0; i < UD_CONNS / UD_SHELF; i++)
		free(h->shelves[i]);
	free(h);
}

static int open_events(struct ud_hall *h)
{
	struct epoll_event ev = {.events = EPOLLIN};

	h->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	h->hub.fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->timer_fd < 0 || h->hub.fd < 0 ||
	    epoll_ctl(h->hub.fd, EPOLL_CTL_ADD, h->timer_fd, &ev) < 0 ||
	    epoll_ctl(h->hub.fd, EPOLL_CTL_ADD, h->pair->fd, &ev) < 0)
		return -errno;
	return 0;
}

struct ud_hall *ud_hall_new(const struct ud_local *l, unsigned group, int *rc)
{
	struct ud_hall *h = calloc(1, sizeof(*h));

	*rc = -ENOMEM;
	if (!h)
		return NULL;
	h->hub.ops = &hall_ops;
	h->hub.fd = h->timer_fd = -1;
	h->timer_ns = h->due_ns = UINT64_MAX;
	h->local = *l;
	sl_mem_init(&h->mem, SIZE_MAX);
	sl_list_init(&h->hub.stirred);
	sl_list_init(&h->node);
	sl_list_init(&h->busy);
	*rc = sl_rand_bytes(&h->peers_key, sizeof(h->peers_key));
	if (!*rc)
		h->pair = ud_device->open(l, group, UD_HALL_RX, UD_HALL_TX, rc);
	if (h->pair)
		*rc = open_events(h);
	if (!*rc)
		return h;
	hall_free(h);
	return NULL;
}

int ud_hall_watch(struct ud_hall *h)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int rc;
	struct ud_port *port = ud_device->watch(&h->local, &rc);

	if (!port)
		return rc;
	if (epoll_ctl(h->hub.fd, EPOLL_CTL_ADD, port->fd, &ev) < 0) {
		rc = -errno;
		ud_device->unwatch(port);
		return rc;
	}
	h->port = port;
	return 0;
}

/* A listener's goes with its last connection; another waits for the next owner. */
void ud_hall_put(struct ud_hall *h)
{
	bool ends;

	pthread_mutex_lock(&lock);
	ends = --h->refs == 0 && (sl_list_empty(&h->node) || h->failed);
	if (ends)
		sl_list_del(&h->node);
	else if (!h->refs)
		h->owner = NULL;
	pthread_mutex_unlock(&lock);
	if (ends)
		hall_free(h);
}

void ud_hall_spoil(struct ud_hall *h)
{
	h->failed = true;
	for (unsigned i = 0; i < UD_PEERS; i++) {
		for (struct ud_conn *c = h->peers[i]; c; c = c->next_peer)
			ud_conn_end(c);
	}
}

static bool is_at(const struct ud_hall *h, const struct ud_local *l)
{
	return ud_local_same(&h->local, l) && !h->failed;
}

static struct ud_hall *find(const struct ud_local *l, const void *owner)
{
	struct sl_list *at;

	sl_list_for_each (at, &halls) {
		struct ud_hall *h = sl_container_of(at, struct ud_hall, node);

		if (h->owner == owner && is_at(h, l))
			return h;
	}
	return NULL;
}

/* Nobody's: that worker's, whose interrupt its bell rings on; or else any. */
static struct ud_hall *find_unused(const struct ud_local *l, uint16_t worker)
{
	struct sl_list *at;

	sl_list_for_each (at, &halls) {
		struct ud_hall *h = sl_container_of(at, struct ud_hall, node);

		if (h->worker == worker && !h->owner && is_at(h, l))
			return h;
	}
	return find(l, NULL);
}

static struct ud_hall *find_of_worker(const struct ud_local *l, uint16_t worker)
{
	struct sl_list *at;

	sl_list_for_each (at, &halls) {
		struct ud_hall *h = sl_container_of(at, struct ud_hall, node);

		if (h->worker == worker && is_at(h, l))
			return h;
	}
	return NULL;
}

/* With the lock of those that are made. NULL and -errno. */
static struct ud_hall *make(const struct ud_local *l, const void *owner, uint16_t worker, int *rc)
{
	struct ud_hall *h = ud_hall_new(l, worker, rc);

	if (!h)
		return NULL;
	*rc = ud_hall_watch(h);
	if (*rc) {
		hall_free(h);
		return NULL;
	}
	h->owner = owner;
	h->worker = worker;
	return h;
}

static void add(struct ud_hall *h)
{
	pthread_mutex_lock(&lock);
	sl_list_add_tail(&halls, &h->node);
	pthread_mutex_unlock(&lock);
}

static bool is_prepared(const struct ud_local *l, uint16_t worker, uint32_t *mtu)
{
	const struct ud_hall *h;

	pthread_mutex_lock(&lock);
	h = find_of_worker(l, worker);
	if (h)
		*mtu = h->pair->mtu;
	pthread_mutex_unlock(&lock);
	return h != NULL;
}

int ud_hall_prepare(const struct ud_local *l, uint16_t worker, uint32_t *mtu)
{
	struct ud_hall *h;
	int rc = 0;

	if (is_prepared(l, worker, mtu))
		return 0;
	pthread_mutex_lock(&making);
	if (!is_prepared(l, worker, mtu) && (h = make(l, NULL, worker, &rc))) {
		*mtu = h->pair->mtu;
		add(h);
	}
	pthread_mutex_unlock(&making);
	return rc;
}

static struct ud_hall *take(const struct ud_local *l, const void *owner, uint16_t worker)
{
	struct ud_hall *h;

	pthread_mutex_lock(&lock);
	h = find(l, owner);
	if (!h)
		h = find_unused(l, worker);
	if (h)
		h->owner = owner;
	pthread_mutex_unlock(&lock);
	return h;
}

struct ud_hall *ud_hall_of(const struct ud_local *l, const void *owner, uint16_t worker)
{
	struct ud_hall *h = take(l, owner, worker);
	int rc;

	if (h)
		return h;
	pthread_mutex_lock(&making);
	h = take(l, owner, worker);
	if (!h && (h = make(l, owner, worker, &rc)))
		add(h);
	pthread_mutex_unlock(&making);
	return h;
}
