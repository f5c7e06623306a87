/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/units.h"
#include "base/wake.h"
#include "net/handover.h"
#include "rpc/rpc.h"

enum { INBOX_LEN = 1024 };

int sl_worker_init(struct sl_worker *w, const struct sl_config *cfg, unsigned index,
		   uint32_t frame_size)
{
	int rc;

	*w = (struct sl_worker){.index = index,
				.cpu = cfg->cpus[index],
				.spin_ns = cfg->spin_ns,
				.epoll_fd = -1,
				.wake_fd = -1};
	pthread_mutex_init(&w->inbox_lock, NULL);
	rc = sl_umem_init(&w->umem, frame_size, (uint32_t)(cfg->limits.frame_memory / frame_size));
	if (!rc)
		rc = sl_net_init(&w->net, &w->umem);
	return rc;
}

static int watch(struct sl_worker *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};

	if (fd < 0)
		return 0;
	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int build_wait(struct sl_worker *w)
{
	int rc = 0;

	w->inbox = sl_ring_new(INBOX_LEN);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!w->inbox || w->epoll_fd < 0 || w->wake_fd < 0)
		return -errno;
	rc = watch(w, w->wake_fd);
	if (!rc)
		rc = watch(w, sl_rpc_fd(w->core.rpc));
	if (!rc)
		rc = watch(w, sl_handover_fd(&w->net));
	for (unsigned i = 0; i < w->port_cnt && !rc; i++)
		rc = watch(w, w->ports[i]->fd);
	return rc;
}

int sl_worker_build(struct sl_worker *w, const struct sl_config *cfg,
		    const struct sl_core_maps *maps)
{
	int rc = 0;

	for (unsigned i = 0; i < w->port_cnt && !rc; i++)
		rc = sl_net_add_port(&w->net, w->ports[i]);
	if (!rc)
		rc = sl_core_init(&w->core, cfg, &w->net, maps);
	return rc ? rc : build_wait(w);
}

static void *thread_main(void *arg)
{
	struct sl_worker *w = arg;
	char name[16];
	int rc;

	snprintf(name, sizeof(name), "worker-%u", w->index);
	sl_thread_name_set(name);
	rc = w->cpu >= 0 ? sl_cpu_pin((unsigned)w->cpu) : 0;
	if (rc)
		sl_log_warn("cannot pin to cpu %d: %s", w->cpu, strerror(-rc));
	sl_worker_run(w);
	return NULL;
}

static void choose_spin(struct sl_worker *w)
{
	char text[SL_UNIT_TEXT];

	if (w->spin_ns != SL_AUTO)
		return;
	w->spin_ns = sl_wake_cost_ns(w->cpu);
	sl_log_info("worker %u: waking it costs %s, so it polls for as long before it sleeps",
		    w->index, sl_format_duration(text, w->spin_ns));
}

int sl_worker_start(struct sl_worker *w)
{
	sigset_t all, old;
	int rc;

	choose_spin(w);
	/* Signals are the control thread's. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&w->thread, NULL, thread_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	w->thread_started = !rc;
	return -rc;
}

int sl_worker_send(struct sl_worker *w, struct sl_worker_msg *msg)
{
	uint64_t one = 1;
	bool put;

	pthread_mutex_lock(&w->inbox_lock);
	put = sl_ring_put_ptr(w->inbox, msg);
	pthread_mutex_unlock(&w->inbox_lock);
	if (!put)
		return -EAGAIN;
	return write(w->wake_fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN ? 0 : -errno;
}

int sl_worker_tell(struct sl_worker *w, const struct sl_worker_msg *msg)
{
	struct sl_worker_msg *m = malloc(sizeof(*m));

	if (!m)
		return -ENOMEM;
	*m = *msg;
	while (sl_worker_send(w, m) == -EAGAIN)
		usleep(1000); /* the worker empties its inbox in every loop */
	return 0;
}

void sl_worker_stop(struct sl_worker *w)
{
	if (!w->thread_started)
		return;
	sl_worker_tell(w, &(struct sl_worker_msg){.verb = SL_WORKER_STOP});
	pthread_join(w->thread, NULL);
	w->thread_started = false;
}

static void drop_inbox(struct sl_worker *w)
{
	struct sl_worker_msg *m;

	while (w->inbox && (m = sl_ring_get_ptr(w->inbox))) {
		if (m->verb == SL_WORKER_ADOPT)
			sl_rpc_dial_drop(m->transport);
		free(m);
	}
	sl_ring_free(w->inbox);
}

void sl_worker_fini(struct sl_worker *w)
{
	drop_inbox(w);
	if (w->core.cfg)
		sl_core_fini(&w->core);
	sl_handover_leave(&w->net);
	sl_net_fini(&w->net);
	for (unsigned i = 0; i < w->port_cnt; i++)
		w->ports[i]->ops->close(w->ports[i]);
	if (w->epoll_fd >= 0)
		close(w->epoll_fd);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	sl_umem_fini(&w->umem);
	pthread_mutex_destroy(&w->inbox_lock);
}
