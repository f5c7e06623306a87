/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One edge-triggered epoll_wait() finds an owner's sockets with events. Its thread may lack the
 * right to create an epoll: each socket brings one (`spare`).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "rpc/poll_group.h"
#include "rpc/tcpsock/sock.h"

enum { EVENTS_MAX = 64 };

struct sk_poll_group {
	struct sl_poll_group base;
	struct sl_list node;
	const void *owner;
	unsigned sock_cnt;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sl_list all = {&all, &all};

static void group_poll(struct sl_poll_group *group)
{
	struct epoll_event ev[EVENTS_MAX];
	int n = epoll_wait(group->fd, ev, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct sl_sock *k = ev[i].data.ptr;

		sk_stream_event(&k->s);
		k->s.ending |= (ev[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
		if (sl_list_empty(&k->base.ready_node))
			sl_list_add_tail(&group->ready, &k->base.ready_node);
	}
}

static bool group_arm(struct sl_poll_group *group)
{
	(void)group;
	return true;
}

static void group_handle_event(struct sl_poll_group *group)
{
	(void)group;
}

static const struct sl_poll_group_ops group_ops = {
	.poll = group_poll, .arm = group_arm, .handle_event = group_handle_event};

static struct sk_poll_group *find_group(const void *owner)
{
	struct sl_list *at;

	sl_list_for_each (at, &all) {
		struct sk_poll_group *h = sl_container_of(at, struct sk_poll_group, node);

		if (h->owner == owner)
			return h;
	}
	return NULL;
}

struct sk_poll_group *sk_poll_group_new(void)
{
	struct sk_poll_group *h = calloc(1, sizeof(*h));

	if (!h)
		return NULL;
	h->base = (struct sl_poll_group){.ops = &group_ops, .kernel = true};
	sl_list_init(&h->node);
	sl_list_init(&h->base.ready);
	h->base.fd = epoll_create1(EPOLL_CLOEXEC);
	if (h->base.fd >= 0)
		return h;
	free(h);
	return NULL;
}

void sk_poll_group_free(struct sk_poll_group *h)
{
	if (!h)
		return;
	sl_list_del(&h->node);
	close(h->base.fd);
	free(h);
}

/* Lock held. */
static struct sk_poll_group *owner_group(struct sl_sock *k, const void *owner)
{
	struct sk_poll_group *h = find_group(owner);

	if (h)
		return h;
	h = k->spare;
	k->spare = NULL;
	h->owner = owner;
	sl_list_add_tail(&all, &h->node);
	return h;
}

int sk_poll_group_join(struct sl_transport *t, const void *owner)
{
	struct sl_sock *k = (struct sl_sock *)t;
	struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
				 .data.ptr = k};
	struct sk_poll_group *h;

	if (t->poll_group)
		return 0;
	pthread_mutex_lock(&lock);
	h = owner_group(k, owner);
	h->sock_cnt++;
	pthread_mutex_unlock(&lock);
	t->poll_group = &h->base;
	sk_poll_group_free(k->spare);
	k->spare = NULL;
	return epoll_ctl(h->base.fd, EPOLL_CTL_ADD, t->fd, &ev) < 0 ? -errno : 0;
}

void sk_poll_group_leave(struct sl_sock *k)
{
	struct sk_poll_group *h = (struct sk_poll_group *)k->base.poll_group;

	sk_poll_group_free(k->spare);
	if (!h)
		return;
	(void)epoll_ctl(h->base.fd, EPOLL_CTL_DEL, k->base.fd, NULL);
	sl_list_del(&k->base.ready_node);
	pthread_mutex_lock(&lock);
	if (!--h->sock_cnt)
		sk_poll_group_free(h);
	pthread_mutex_unlock(&lock);
}
