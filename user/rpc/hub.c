/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/hub.h"

#include <errno.h>
#include <sys/epoll.h>

static bool has(const struct sl_hubs *hubs, const void *hub)
{
	for (unsigned i = 0; i < hubs->cnt; i++) {
		if (hubs->of[i] == hub)
			return true;
	}
	return false;
}

static int add_fd(int epoll_fd, int fd, void *data)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = data};

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

int sl_hubs_watch(struct sl_hubs *hubs, int epoll_fd, struct sl_transport *t, void *watcher)
{
	int rc;

	t->watcher = watcher;
	rc = t->ops->attach ? t->ops->attach(t, hubs) : 0;
	if (rc)
		return rc;
	if (!t->hub)
		return add_fd(epoll_fd, t->fd, watcher);
	if (!has(hubs, t->hub)) {
		if (hubs->cnt == SL_HUBS_MAX)
			return -EUSERS;
		rc = add_fd(epoll_fd, t->hub->fd, t->hub);
		if (rc)
			return rc;
		hubs->of[hubs->cnt++] = t->hub;
	}
	t->hub->watched++;
	return 0;
}

void sl_hubs_unwatch(struct sl_hubs *hubs, int epoll_fd, struct sl_transport *t)
{
	struct sl_hub *hub = t->hub;

	if (!hub) {
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, t->fd, NULL);
		return;
	}
	sl_list_del(&t->stirred);
	if (--hub->watched)
		return;
	(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, hub->fd, NULL);
	for (unsigned i = 0; i < hubs->cnt; i++) {
		if (hubs->of[i] == hub)
			hubs->of[i--] = hubs->of[--hubs->cnt];
	}
}

bool sl_hubs_check(struct sl_hubs *hubs, void *data)
{
	struct sl_hub *hub = data;

	if (!has(hubs, data))
		return false;
	hub->rang = true;
	hub->ops->check(hub);
	return true;
}

static void take(struct sl_hubs *hubs, struct sl_hub *hub)
{
	hub->rang = false;
	hub->ops->take(hub);
	hubs->strays += hub->strays;
	hub->strays = 0;
}

void sl_hubs_take(struct sl_hubs *hubs)
{
	for (unsigned i = 0; i < hubs->cnt; i++)
		take(hubs, hubs->of[i]);
}

void sl_hubs_glance(struct sl_hubs *hubs)
{
	for (unsigned i = 0; i < hubs->cnt; i++) {
		if (!hubs->of[i]->kernel || hubs->of[i]->rang)
			take(hubs, hubs->of[i]);
	}
}

void *sl_hubs_stirred(struct sl_hubs *hubs)
{
	for (unsigned i = 0; i < hubs->cnt; i++) {
		struct sl_list *at = sl_list_pop_head(&hubs->of[i]->stirred);

		if (at)
			return sl_container_of(at, struct sl_transport, stirred)->watcher;
	}
	return NULL;
}

bool sl_hubs_arm(struct sl_hubs *hubs)
{
	for (unsigned i = 0; i < hubs->cnt; i++) {
		if (!sl_list_empty(&hubs->of[i]->stirred) || !hubs->of[i]->ops->arm(hubs->of[i]))
			return false;
	}
	return true;
}
