/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/poll_group.h"

#include <errno.h>
#include <sys/epoll.h>

static bool has_group(const struct sl_poll_groups *groups, const void *group)
{
	for (unsigned i = 0; i < groups->cnt; i++) {
		if (groups->list[i] == group)
			return true;
	}
	return false;
}

/* EINVAL: too many epoll instances watch a file in `fd`, e.g. 50 at depth 4 (path_limits). */
static int watch_fd(int epoll_fd, int fd, void *data)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = data};

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev) == 0)
		return 0;
	return errno == EINVAL ? -EUSERS : -errno;
}

int sl_poll_groups_watch(struct sl_poll_groups *groups, int epoll_fd, struct sl_transport *t,
			 void *watcher)
{
	int rc;

	t->watcher = watcher;
	rc = t->ops->attach ? t->ops->attach(t, groups) : 0;
	if (rc)
		return rc;
	if (!t->poll_group)
		return watch_fd(epoll_fd, t->fd, watcher);
	if (!has_group(groups, t->poll_group)) {
		if (groups->cnt == SL_POLL_GROUPS_MAX)
			return -EUSERS;
		rc = watch_fd(epoll_fd, t->poll_group->fd, t->poll_group);
		if (rc)
			return rc;
		groups->list[groups->cnt++] = t->poll_group;
	}
	t->poll_group->watched++;
	return 0;
}

void sl_poll_groups_unwatch(struct sl_poll_groups *groups, int epoll_fd, struct sl_transport *t)
{
	struct sl_poll_group *group = t->poll_group;

	if (!group) {
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, t->fd, NULL);
		return;
	}
	sl_list_del(&t->ready_node);
	if (--group->watched)
		return;
	(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, group->fd, NULL);
	for (unsigned i = 0; i < groups->cnt; i++) {
		if (groups->list[i] == group)
			groups->list[i--] = groups->list[--groups->cnt];
	}
}

bool sl_poll_groups_handle_event(struct sl_poll_groups *groups, void *data)
{
	struct sl_poll_group *group = data;

	if (!has_group(groups, data))
		return false;
	group->had_event = true;
	group->ops->handle_event(group);
	return true;
}

static void poll_group(struct sl_poll_groups *groups, struct sl_poll_group *group)
{
	group->had_event = false;
	group->ops->poll(group);
	groups->unmatched += group->unmatched;
	group->unmatched = 0;
}

void sl_poll_groups_poll(struct sl_poll_groups *groups)
{
	for (unsigned i = 0; i < groups->cnt; i++)
		poll_group(groups, groups->list[i]);
}

void sl_poll_groups_poll_nonblock(struct sl_poll_groups *groups)
{
	for (unsigned i = 0; i < groups->cnt; i++) {
		if (!groups->list[i]->kernel || groups->list[i]->had_event)
			poll_group(groups, groups->list[i]);
	}
}

void *sl_poll_groups_next_ready(struct sl_poll_groups *groups)
{
	for (unsigned i = 0; i < groups->cnt; i++) {
		struct sl_list *at = sl_list_pop_head(&groups->list[i]->ready);

		if (at)
			return sl_container_of(at, struct sl_transport, ready_node)->watcher;
	}
	return NULL;
}

bool sl_poll_groups_arm(struct sl_poll_groups *groups)
{
	for (unsigned i = 0; i < groups->cnt; i++) {
		if (!sl_list_empty(&groups->list[i]->ready) ||
		    !groups->list[i]->ops->arm(groups->list[i]))
			return false;
	}
	return true;
}
