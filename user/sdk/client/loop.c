/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <unistd.h>
#include "sdk/client/internal.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/min.h"

static void send_writable(struct sl_rpc_client *c)
{
	struct sl_list turn = SL_LIST_INIT(turn), *node;

	sl_list_splice_tail(&turn, &c->writable);
	while ((node = sl_list_pop_head(&turn)))
		sl_cl_send_parts(sl_container_of(node, struct client_call, turn));
}

static unsigned take_news(struct sl_rpc_client *c)
{
	if (!atomic_load_explicit(&c->news, memory_order_relaxed))
		return 0;
	atomic_store(&c->news, false);
	sl_cl_adopt_dialed(c);
	return sl_cl_take_commands(c) + 1;
}

unsigned sl_cl_turn(struct sl_rpc_client *c)
{
	unsigned n;

	c->now_ns = sl_now_ns();
	n = take_news(c);
	n += sl_rpc_poll(c->rpc, c->now_ns);
	n += take_news(c); /* of callbacks */
	c->retry_ns = UINT64_MAX;
	send_writable(c);
	sl_cl_send_waiting(c);
	sl_rpc_flush(c->rpc, c->now_ns);
	sl_cl_reap_servers(c);
	return n;
}

static uint64_t next_ns(const struct sl_rpc_client *c)
{
	uint64_t next = sl_min_ns(c->waiting_ns, c->retry_ns);

	return sl_min_ns(next, sl_rpc_next_ns(c->rpc));
}

static bool fall_asleep(struct sl_rpc_client *c)
{
	bool asleep;

	pthread_mutex_lock(&c->lock);
	asleep = !atomic_load(&c->news);
	c->asleep = c->slept = asleep;
	pthread_mutex_unlock(&c->lock);
	return asleep;
}

static void wake_up(struct sl_rpc_client *c)
{
	uint64_t count;

	pthread_mutex_lock(&c->lock);
	c->asleep = c->slept = false;
	pthread_mutex_unlock(&c->lock);
	if (read(c->wake_fd, &count, sizeof(count)) < 0)
		return;
}

static uint64_t arm(struct sl_rpc_client *c)
{
	uint64_t next, now_ns;

	if (!c->armed && !sl_rpc_arm(c->rpc))
		return 0;
	c->armed = true;
	if (sl_cl_turn(c) || !fall_asleep(c))
		return 0;
	next = next_ns(c);
	now_ns = sl_now_ns();
	if (next == UINT64_MAX)
		return UINT64_MAX;
	return next > now_ns ? next - now_ns : 0;
}

static void disarm(struct sl_rpc_client *c)
{
	if (c->slept)
		wake_up(c);
	if (c->armed)
		sl_rpc_disarm(c->rpc, true);
	c->armed = false;
}

static void sleep_until(struct sl_rpc_client *c, uint64_t limit_ns)
{
	struct pollfd fds[2] = {{.fd = sl_rpc_fd(c->rpc), .events = POLLIN},
				{.fd = c->wake_fd, .events = POLLIN}};
	uint64_t wait_ns = sl_min_ns(arm(c), limit_ns);
	struct timespec t = {.tv_sec = (time_t)(wait_ns / SL_NS_PER_SEC),
			     .tv_nsec = (long)(wait_ns % SL_NS_PER_SEC)};

	if (wait_ns)
		(void)ppoll(fds, 2, wait_ns == UINT64_MAX ? NULL : &t, NULL);
	disarm(c);
}

static void *loop_main(void *arg)
{
	struct sl_rpc_client *c = arg;

	atomic_store(&c->looper, pthread_self());
	while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
		if (sl_cl_turn(c))
			continue;
		if (c->opt.busy_poll)
			sched_yield();
		else
			sleep_until(c, UINT64_MAX);
	}
	return NULL;
}

static int watch(struct sl_rpc_client *c, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	return epoll_ctl(c->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

int sl_cl_loop_start(struct sl_rpc_client *c)
{
	int rc;

	if (!c->opt.own_loop) {
		rc = sl_thread_start(&c->thread, loop_main, c);
		c->has_thread = !rc;
		return rc ? -1 : 0;
	}
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (c->epoll_fd < 0 || watch(c, sl_rpc_fd(c->rpc)) || watch(c, c->wake_fd))
		return -1;
	return 0;
}

void sl_cl_loop_stop(struct sl_rpc_client *c)
{
	if (!c->has_thread) {
		if (c->rpc)
			disarm(c);
		return;
	}
	pthread_mutex_lock(&c->lock);
	atomic_store(&c->stop, true);
	sl_cl_wake(c);
	pthread_mutex_unlock(&c->lock);
	pthread_join(c->thread, NULL);
	c->has_thread = false;
}

bool sl_cl_in_loop(const struct sl_rpc_client *c)
{
	pthread_t looper = atomic_load(&((struct sl_rpc_client *)(uintptr_t)c)->looper);

	return looper && pthread_equal(looper, pthread_self());
}

static int enter(struct sl_rpc_client *c)
{
	pthread_t none = 0;

	if (!c->opt.own_loop)
		return -EINVAL;
	return atomic_compare_exchange_strong(&c->looper, &none, pthread_self()) ? 0 : -EDEADLK;
}

static void leave(struct sl_rpc_client *c)
{
	atomic_store(&c->looper, (pthread_t)0);
}

int sl_rpc_client_fd(const struct sl_rpc_client *c)
{
	return c->opt.own_loop ? c->epoll_fd : -EINVAL;
}

int sl_rpc_client_prepare(struct sl_rpc_client *c, uint64_t *timeout_us)
{
	int rc = enter(c);
	uint64_t wait_ns;

	if (rc)
		return rc;
	wait_ns = arm(c);
	*timeout_us = wait_ns == UINT64_MAX ? wait_ns : (wait_ns + SL_NS_PER_US - 1) / SL_NS_PER_US;
	leave(c);
	return 0;
}

int sl_rpc_client_process(struct sl_rpc_client *c)
{
	int rc = enter(c);
	unsigned n;

	if (rc)
		return rc;
	disarm(c);
	n = sl_cl_turn(c);
	leave(c);
	return n < INT32_MAX ? (int)n : INT32_MAX;
}

int sl_cl_run_until(struct sl_rpc_client *c, bool (*done)(void *arg), void *arg, uint64_t until_ns)
{
	int rc = enter(c);

	if (rc)
		return rc;
	disarm(c);
	while (!done(arg) && !rc) {
		uint64_t now_ns = sl_now_ns();

		if (now_ns >= until_ns)
			rc = -ETIMEDOUT;
		else if (!sl_cl_turn(c) && !done(arg))
			sleep_until(c, until_ns == UINT64_MAX ? UINT64_MAX : until_ns - now_ns);
	}
	leave(c);
	return rc;
}
