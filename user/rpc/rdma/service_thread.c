/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rdma/service_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/cpu.h"

enum { EVENTS_MAX = 16 };

static struct {
	pthread_rwlock_t work; /* read-locked while threads work; taken before `lock` */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	int epoll_fd, timer;
	uint64_t timer_ns;        /* when `timer` expires; 0: not set */
	bool running, forks_seen; /* forks_seen: fork handlers are installed */
	struct service_task *tasks;
} service = {
	.work = PTHREAD_RWLOCK_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.idle = PTHREAD_COND_INITIALIZER,
	.epoll_fd = -1,
	.timer = -1,
};

void service_work_begin(void)
{
	pthread_rwlock_rdlock(&service.work);
}

void service_work_end(void)
{
	pthread_rwlock_unlock(&service.work);
}

static int poll_timeout_ms(void)
{
	uint64_t now_ns = sl_now_ns(), next_ns = UINT64_MAX;

	pthread_mutex_lock(&service.lock);
	for (const struct service_task *task = service.tasks; task; task = task->next) {
		if (task->due_ns && task->due_ns < next_ns)
			next_ns = task->due_ns;
	}
	pthread_mutex_unlock(&service.lock);
	if (next_ns == UINT64_MAX)
		return -1;
	return next_ns > now_ns ? (int)((next_ns - now_ns) / SL_NS_PER_MS) + 1 : 0;
}

static void set_due(struct service_task *task, uint64_t at_ns)
{
	if (!task->due_ns || at_ns < task->due_ns)
		task->due_ns = at_ns;
}

static void run_if_due(struct service_task *task)
{
	uint64_t now_ns = sl_now_ns(), next_ns;

	pthread_mutex_lock(&service.lock);
	task->running = task->due_ns && now_ns >= task->due_ns;
	if (task->running)
		task->due_ns = 0;
	pthread_mutex_unlock(&service.lock);
	if (!task->running)
		return;
	next_ns = task->run(now_ns);
	pthread_mutex_lock(&service.lock);
	task->running = false;
	if (next_ns != UINT64_MAX)
		set_due(task, next_ns);
	if (!task->due_ns)
		pthread_cond_broadcast(&service.idle);
	pthread_mutex_unlock(&service.lock);
}

static void run_tasks(void)
{
	struct service_task *task;

	pthread_mutex_lock(&service.lock);
	task = service.tasks;
	pthread_mutex_unlock(&service.lock);
	for (; task; task = task->next)
		run_if_due(task);
}

static void handle_timer(void)
{
	uint64_t cnt;

	pthread_mutex_lock(&service.lock);
	if (read(service.timer, &cnt, sizeof(cnt)) > 0)
		service.timer_ns = 0;
	pthread_mutex_unlock(&service.lock);
}

static void *service_main(void *arg)
{
	struct epoll_event ev[EVENTS_MAX];

	(void)arg;
	sl_thread_name_set("rdma-service");
	for (;;) {
		int n = epoll_wait(service.epoll_fd, ev, EVENTS_MAX, poll_timeout_ms());

		service_work_begin();
		for (int i = 0; i < n; i++) {
			struct service_source *s = ev[i].data.ptr;

			if (s)
				s->handle(s);
			else
				handle_timer();
		}
		run_tasks();
		service_work_end();
	}
	return NULL;
}

static void close_fds(void)
{
	if (service.epoll_fd >= 0)
		close(service.epoll_fd);
	if (service.timer >= 0)
		close(service.timer);
	service.epoll_fd = service.timer = -1;
	service.timer_ns = 0;
}

static int start_service_thread(void)
{
	struct epoll_event ev = {.events = EPOLLIN};
	sigset_t all, old;
	pthread_t thread;
	int rc;

	service.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	service.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (service.epoll_fd < 0 || service.timer < 0 ||
	    epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, service.timer, &ev) < 0) {
		rc = -errno;
		close_fds();
		return rc;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = -pthread_create(&thread, NULL, service_main, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc) {
		close_fds();
		return rc;
	}
	pthread_detach(thread);
	service.running = true;
	return 0;
}

/* Waits for library calls: a child would inherit their locks. */
static void before_fork(void)
{
	pthread_rwlock_wrlock(&service.work);
	pthread_mutex_lock(&service.lock);
}

static void in_parent(void)
{
	pthread_mutex_unlock(&service.lock);
	pthread_rwlock_unlock(&service.work);
}

/* Resets the service: the child must not use shared descriptors or the parent's condition. */
static void in_child(void)
{
	pthread_rwlock_init(&service.work, NULL);
	pthread_mutex_init(&service.lock, NULL);
	pthread_cond_init(&service.idle, NULL);
	if (service.running)
		close_fds();
	service.running = false;
	for (struct service_task *task = service.tasks; task; task = task->next) {
		task->due_ns = 0;
		task->running = false;
		if (task->in_child)
			task->in_child();
	}
}

static int start_locked(void)
{
	int rc = service.forks_seen ? 0 : -pthread_atfork(before_fork, in_parent, in_child);

	service.forks_seen = rc == 0;
	if (!rc && !service.running)
		rc = start_service_thread();
	return rc;
}

int service_thread_start(void)
{
	int rc;

	pthread_mutex_lock(&service.lock);
	rc = start_locked();
	pthread_mutex_unlock(&service.lock);
	return rc;
}

/* Lock held. Never sets a later time. */
static void set_timer(uint64_t at_ns)
{
	const struct itimerspec at = {
		.it_value = {.tv_sec = (time_t)(at_ns / SL_NS_PER_SEC),
			     .tv_nsec = (long)(at_ns % SL_NS_PER_SEC)},
	};

	if (service.timer_ns && service.timer_ns <= at_ns)
		return;
	service.timer_ns = at_ns;
	(void)timerfd_settime(service.timer, TFD_TIMER_ABSTIME, &at, NULL);
}

int service_task_schedule(struct service_task *task, uint64_t at_ns)
{
	int rc;

	pthread_mutex_lock(&service.lock);
	if (!task->listed) {
		task->listed = true;
		task->next = service.tasks;
		service.tasks = task;
	}
	rc = start_locked();
	if (!rc) {
		set_due(task, at_ns);
		set_timer(at_ns);
	}
	pthread_mutex_unlock(&service.lock);
	return rc;
}

int service_source_add(struct service_source *s, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = s};
	int flags = fcntl(fd, F_GETFL);
	int rc = flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;

	pthread_mutex_lock(&service.lock);
	if (!rc)
		rc = start_locked();
	if (!rc && epoll_ctl(service.epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		rc = -errno;
	pthread_mutex_unlock(&service.lock);
	return rc;
}

void service_source_remove(int fd)
{
	(void)epoll_ctl(service.epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static bool is_busy(void)
{
	bool busy = false;

	for (const struct service_task *task = service.tasks; task; task = task->next)
		busy |= task->awaited && (task->due_ns || task->running);
	return busy;
}

void sl_rdma_wait_closed(void)
{
	pthread_mutex_lock(&service.lock);
	while (service.running && is_busy())
		pthread_cond_wait(&service.idle, &service.lock);
	pthread_mutex_unlock(&service.lock);
}
