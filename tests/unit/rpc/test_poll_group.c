/* SPDX-License-Identifier: Apache-2.0 */
/* Transports that share a group: one descriptor, one poll, and each learns what is its. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "rpc/poll_group.h"
#include "suite.h"

enum { SHARING = 3 };

static struct sl_poll_group group;
static struct sl_poll_groups poll_groups;
static struct sl_transport sharing[SHARING], alone;
static int epoll_fd, watchers[SHARING + 1];
static unsigned taken, checked;
static bool quiet;

static void group_poll(struct sl_poll_group *h)
{
	h->unmatched += 2;
	taken++;
}

static bool group_arm(struct sl_poll_group *h)
{
	(void)h;
	return quiet;
}

static void group_handle_event(struct sl_poll_group *h)
{
	eventfd_t value;

	checked++;
	(void)eventfd_read(h->fd, &value);
}

static int attach(struct sl_transport *t, const void *owner)
{
	if (owner != &poll_groups)
		return -EINVAL;
	t->poll_group = &group;
	return 0;
}

static void set_up(void)
{
	static const struct sl_poll_group_ops group_ops = {
		.poll = group_poll, .arm = group_arm, .handle_event = group_handle_event};
	static const struct sl_transport_ops shared_ops = {.attach = attach}, own_ops;

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	group = (struct sl_poll_group){.ops = &group_ops, .fd = eventfd(0, EFD_NONBLOCK)};
	sl_list_init(&group.ready);
	for (unsigned i = 0; i < SHARING; i++) {
		sharing[i] = (struct sl_transport){.ops = &shared_ops, .fd = -1};
		sl_list_init(&sharing[i].ready_node);
	}
	alone = (struct sl_transport){.ops = &own_ops, .fd = eventfd(0, EFD_NONBLOCK)};
}

static void tear_down(void)
{
	close(epoll_fd);
	close(group.fd);
	close(alone.fd);
}

FIXTURE(set_up, tear_down)

static void watch_all(void)
{
	for (unsigned i = 0; i < SHARING; i++)
		ck_assert_int_eq(
			sl_poll_groups_watch(&poll_groups, epoll_fd, &sharing[i], &watchers[i]), 0);
	ck_assert_int_eq(sl_poll_groups_watch(&poll_groups, epoll_fd, &alone, &watchers[SHARING]),
			 0);
}

/* Returns the data of epoll's event; NULL: none. */
static void *event(void)
{
	struct epoll_event ev;

	return epoll_wait(epoll_fd, &ev, 1, 0) == 1 ? ev.data.ptr : NULL;
}

TEST(sharing_transports_have_one_descriptor)
{
	watch_all();
	ck_assert_uint_eq(poll_groups.cnt, 1);
	ck_assert_ptr_null(event());
	eventfd_write(group.fd, 1);
	ck_assert_ptr_eq(event(), &group);
	ck_assert(sl_poll_groups_handle_event(&poll_groups, &group));
	ck_assert_uint_eq(checked, 1);
	ck_assert_ptr_null(event());
	eventfd_write(alone.fd, 1);
	ck_assert_ptr_eq(event(), &watchers[SHARING]);
	ck_assert(!sl_poll_groups_handle_event(&poll_groups, &watchers[SHARING]));
}

TEST(each_watcher_is_told_once_of_its_input)
{
	watch_all();
	sl_poll_groups_poll(&poll_groups);
	ck_assert_uint_eq(taken, 1);
	sl_poll_groups_poll(&poll_groups);
	ck_assert_uint_eq(poll_groups.unmatched, 4);
	ck_assert_ptr_null(sl_poll_groups_next_ready(&poll_groups));
	sl_list_add_tail(&group.ready, &sharing[2].ready_node);
	sl_list_add_tail(&group.ready, &sharing[0].ready_node);
	ck_assert_ptr_eq(sl_poll_groups_next_ready(&poll_groups), &watchers[2]);
	ck_assert_ptr_eq(sl_poll_groups_next_ready(&poll_groups), &watchers[0]);
	ck_assert_ptr_null(sl_poll_groups_next_ready(&poll_groups));
}

TEST(a_leaving_transport_is_not_told_and_the_last_takes_the_descriptor_along)
{
	watch_all();
	sl_list_add_tail(&group.ready, &sharing[0].ready_node);
	sl_poll_groups_unwatch(&poll_groups, epoll_fd, &sharing[0]);
	ck_assert_ptr_null(sl_poll_groups_next_ready(&poll_groups));
	eventfd_write(group.fd, 1);
	sl_poll_groups_unwatch(&poll_groups, epoll_fd, &sharing[1]);
	ck_assert_ptr_eq(event(), &group);
	sl_poll_groups_unwatch(&poll_groups, epoll_fd, &sharing[2]);
	ck_assert_ptr_null(event());
	ck_assert_uint_eq(poll_groups.cnt, 0);
	eventfd_write(alone.fd, 1);
	ck_assert_ptr_eq(event(), &watchers[SHARING]);
	sl_poll_groups_unwatch(&poll_groups, epoll_fd, &alone);
	ck_assert_ptr_null(event());
}

TEST(the_owner_does_not_sleep_while_a_group_has_input)
{
	ck_assert(sl_poll_groups_arm(&poll_groups));
	watch_all();
	ck_assert(!sl_poll_groups_arm(&poll_groups));
	quiet = true;
	ck_assert(sl_poll_groups_arm(&poll_groups));
}

TEST(kernel_poll_group_is_polled_on_events_or_when_awaited)
{
	watch_all();
	group.kernel = true;
	sl_poll_groups_poll_nonblock(&poll_groups);
	ck_assert_uint_eq(taken, 0);
	sl_poll_groups_poll(&poll_groups);
	ck_assert_uint_eq(taken, 1);
	ck_assert(sl_poll_groups_handle_event(&poll_groups, &group));
	sl_poll_groups_poll_nonblock(&poll_groups);
	ck_assert_uint_eq(taken, 2);
	sl_poll_groups_poll_nonblock(&poll_groups);
	ck_assert_uint_eq(taken, 2);
	group.kernel = false;
	sl_poll_groups_poll_nonblock(&poll_groups);
	ck_assert_uint_eq(taken, 3);
}

/* Linux: 50 epoll instances at depth 4 (fs/eventpoll.c, path_limits). */
TEST(group_that_too_many_loops_watch_is_refused_to_the_next)
{
	struct epoll_event ev = {.events = EPOLLIN};
	int top = epoll_create1(EPOLL_CLOEXEC), event = eventfd(0, EFD_CLOEXEC), rc = 0;
	unsigned watched = 0;

	set_up();
	group.fd = epoll_create1(EPOLL_CLOEXEC);
	ck_assert_int_eq(epoll_ctl(group.fd, EPOLL_CTL_ADD, event, &ev), 0);
	while (!rc && watched < 64) {
		int outer = epoll_create1(EPOLL_CLOEXEC);

		epoll_fd = epoll_create1(EPOLL_CLOEXEC);
		poll_groups = (struct sl_poll_groups){.cnt = 0};
		ck_assert_int_eq(epoll_ctl(outer, EPOLL_CTL_ADD, epoll_fd, &ev), 0);
		ck_assert_int_eq(epoll_ctl(top, EPOLL_CTL_ADD, outer, &ev), 0);
		rc = sl_poll_groups_watch(&poll_groups, epoll_fd, &sharing[0], &watchers[0]);
		watched += !rc;
	}
	ck_assert_int_eq(rc, -EUSERS);
	ck_assert_uint_eq(watched, 50);
	ck_assert_uint_eq(poll_groups.cnt, 0);
}
