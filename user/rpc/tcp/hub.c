/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poll group of an owner's sockets: an epoll of their own. One edge-triggered epoll_wait() finds
 * the sockets with events; idle sockets cost nothing.
 *
 * An owner's thread may not be allowed to create an epoll. Each socket therefore brings one
 * (`spare`), which the owner keeps if it has none.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "rpc/hub.h"
#include "rpc/tcp/sock.h"

enum { EVENTS_MAX = 64 };

struct sk_hub {
	struct sl_hub base; /* fd: the epoll */
	struct sl_list node;
	const void *owner;
	unsigned sock_cnt;
};

/* Owners join and leave in their own threads. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};

static void hub_take(struct sl_hub *hub)
{
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(hub->fd, ev, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct sl_sock *k = ev[i].data.ptr;

		sk_stream_event(&k->s);
		k->s.ending |= (ev[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
		if (sl_list_empty(&k->base.stirred))
			sl_list_add_tail(&hub->stirred, &k->base.stirred);
	}
}

/* Always ready to sleep: new and untaken events both ring. */
static bool hub_arm(struct sl_hub *hub)
{
	(void)hub;
	return true;
}

static void hub_check(struct sl_hub *hub)
{
	(void)hub;
}

static const struct sl_hub_ops hub_ops = {.take = hub_take, .arm = hub_arm, .check = hub_check};

static struct sk_hub *find(const void *owner)
{
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		struct sk_hub *h = sl_container_of(at, struct sk_hub, node);

		if (h->owner == owner)
			return h;
	}
	return NULL;
}

struct sk_hub *sk_hub_new(void)
{
	struct sk_hub *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->base = (struct sl_hub){.ops = &hub_ops, .kernel = true};
	sl_list_init(&h->node);
	sl_list_init(&h->base.stirred);
	h->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->base.fd >= 0)
		return h;
	free(h);
	return NULL;
}

void sk_hub_free(struct sk_hub *h)
{
	if (!h)
		return;
	sl_list_del(&h->node);
	close(h->base.fd);
	free(h);
}

/* Returns the owner's group, or makes `spare` the owner's. Lock held. */
static struct sk_hub *choose(struct sl_sock *k, const void *owner)
{
	struct sk_hub *h = find(owner);

	if (h)
		return h;
	h = k->spare;
	k->spare = NULL;
	h->owner = owner;
	sl_list_add_tail(&all, &h->node);
	return h;
}

int sk_hub_join(struct sl_transport *t, const void *owner)
{
	struct sl_sock *k = (struct sl_sock *)t;
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				 .data.ptr = k};
	struct sk_hub *h;

	if (t->hub)
		return 0;
	pthread_mutex_lock(&lock);
	h = choose(k, owner);
	h->sock_cnt++;
	pthread_mutex_unlock(&lock);
	t->hub = &h->base;
	sk_hub_free(k->spare);
	k->spare = NULL;
	return epoll_ctl(h->base.fd, EPOLL_CTL_ADD, t->fd, &ev) < 0 ? -errno : 0;
}

void sk_hub_leave(struct sl_sock *k)
{
	struct sk_hub *h = (struct sk_hub *)k->base.hub;

	sk_hub_free(k->spare);
	if (!h)
		return;
	(void)epoll_ctl(h->base.fd, EPOLL_CTL_DEL, k->base.fd, NULL);
	sl_list_del(&k->base.stirred);
	pthread_mutex_lock(&lock);
	if (!--h->sock_cnt)
		sk_hub_free(h);
	pthread_mutex_unlock(&lock);
}
