/* SPDX-License-Identifier: Apache-2.0 */
/* Transports that share a hub: one descriptor, one poll, and each learns what is its. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "rpc/hub.h"
#include "suite.h"

enum { SHARING = 3 };

static struct sl_hub hub;
static struct sl_hubs hubs;
static struct sl_transport sharing[SHARING], alone;
static int epoll_fd, watchers[SHARING + 1];
static unsigned taken, checked;
static bool quiet;

static void hub_take(struct sl_hub *h)
{
	h->strays += 2;
	taken++;
}

static bool hub_arm(struct sl_hub *h)
{
	(void)h;
	return quiet;
}

static void hub_check(struct sl_hub *h)
{
	eventfd_t value;

	checked++;
	(void)eventfd_read(h->fd, &value);
}

static int attach(struct sl_transport *t, const void *owner)
{
	if (owner != &hubs)
		return -EINVAL;
	t->hub = &hub;
	return 0;
}

static void set_up(void)
{
	static const struct sl_hub_ops hub_ops = {
		.take = hub_take, .arm = hub_arm, .check = hub_check};
	static const struct sl_transport_ops shared_ops = {.attach = attach}, own_ops;

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	hub = (struct sl_hub){.ops = &hub_ops, .fd = eventfd(0, EFD_NONBLOCK)};
	sl_list_init(&hub.stirred);
	for (unsigned i = 0; i < SHARING; i++) {
		sharing[i] = (struct sl_transport){.ops = &shared_ops, .fd = -1};
		sl_list_init(&sharing[i].stirred);
	}
	alone = (struct sl_transport){.ops = &own_ops, .fd = eventfd(0, EFD_NONBLOCK)};
}

static void tear_down(void)
{
	close(epoll_fd);
	close(hub.fd);
	close(alone.fd);
}

FIXTURE(set_up, tear_down)

static void watch_all(void)
{
	for (unsigned i = 0; i < SHARING; i++)
		ck_assert_int_eq(sl_hubs_watch(&hubs, epoll_fd, &sharing[i], &watchers[i]), 0);
	ck_assert_int_eq(sl_hubs_watch(&hubs, epoll_fd, &alone, &watchers[SHARING]), 0);
}

/* Whose event epoll has; NULL: none. */
static void *event(void)
{
	struct epoll_event ev;

	return epoll_wait(epoll_fd, &ev, 1, 0) == 1 ? ev.data.ptr : NULL;
}

TEST(those_who_share_have_one_descriptor)
{
	watch_all();
	ck_assert_uint_eq(hubs.cnt, 1);
	ck_assert_ptr_null(event());
	eventfd_write(hub.fd, 1);
	ck_assert_ptr_eq(event(), &hub);
	ck_assert(sl_hubs_check(&hubs, &hub));
	ck_assert_uint_eq(checked, 1);
	ck_assert_ptr_null(event());
	eventfd_write(alone.fd, 1);
	ck_assert_ptr_eq(event(), &watchers[SHARING]);
	ck_assert(!sl_hubs_check(&hubs, &watchers[SHARING]));
}

TEST(each_is_told_once_of_what_is_its)
{
	watch_all();
	sl_hubs_take(&hubs);
	ck_assert_uint_eq(taken, 1);
	sl_hubs_take(&hubs);
	ck_assert_uint_eq(hubs.strays, 4);
	ck_assert_ptr_null(sl_hubs_stirred(&hubs));
	sl_list_add_tail(&hub.stirred, &sharing[2].stirred);
	sl_list_add_tail(&hub.stirred, &sharing[0].stirred);
	ck_assert_ptr_eq(sl_hubs_stirred(&hubs), &watchers[2]);
	ck_assert_ptr_eq(sl_hubs_stirred(&hubs), &watchers[0]);
	ck_assert_ptr_null(sl_hubs_stirred(&hubs));
}

TEST(one_that_leaves_is_not_told_and_the_last_takes_the_descriptor_along)
{
	watch_all();
	sl_list_add_tail(&hub.stirred, &sharing[0].stirred);
	sl_hubs_unwatch(&hubs, epoll_fd, &sharing[0]);
	ck_assert_ptr_null(sl_hubs_stirred(&hubs));
	eventfd_write(hub.fd, 1);
	sl_hubs_unwatch(&hubs, epoll_fd, &sharing[1]);
	ck_assert_ptr_eq(event(), &hub);
	sl_hubs_unwatch(&hubs, epoll_fd, &sharing[2]);
	ck_assert_ptr_null(event());
	ck_assert_uint_eq(hubs.cnt, 0);
	eventfd_write(alone.fd, 1);
	ck_assert_ptr_eq(event(), &watchers[SHARING]);
	sl_hubs_unwatch(&hubs, epoll_fd, &alone);
	ck_assert_ptr_null(event());
}

TEST(nobody_sleeps_while_a_hub_has_something)
{
	ck_assert(sl_hubs_arm(&hubs));
	watch_all();
	ck_assert(!sl_hubs_arm(&hubs));
	quiet = true;
	ck_assert(sl_hubs_arm(&hubs));
}

TEST(one_of_the_kernel_is_asked_when_it_rings_or_something_is_awaited)
{
	watch_all();
	hub.kernel = true;
	sl_hubs_glance(&hubs);
	ck_assert_uint_eq(taken, 0);
	sl_hubs_take(&hubs);
	ck_assert_uint_eq(taken, 1);
	ck_assert(sl_hubs_check(&hubs, &hub));
	sl_hubs_glance(&hubs);
	ck_assert_uint_eq(taken, 2);
	sl_hubs_glance(&hubs);
	ck_assert_uint_eq(taken, 2);
	hub.kernel = false;
	sl_hubs_glance(&hubs);
	ck_assert_uint_eq(taken, 3);
}
