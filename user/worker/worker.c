/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/units.h"
#include "base/wakeup_cost.h"
#include "net/handover.h"
#include "rpc/rpc.h"
#include "sandbox/sandbox.h"
#include "worker/filters.h"
#include "worker/upstream.h"

int sl_worker_init(struct sl_worker *w, const struct sl_config *cfg, unsigned index,
		   uint32_t frame_size)
{
	int rc;

	*w = (struct sl_worker){
		.index = index, .cpu = cfg->cpus[index], .epoll_fd = -1, .wake_fd = -1};
	sl_adaptive_poll_init(&w->poll, cfg->spin_ns, true);
	rc = sl_umem_init(&w->umem, frame_size, (uint32_t)(cfg->limits.frame_memory / frame_size));
	if (!rc)
		rc = sl_net_init(&w->net, &w->umem);
	if (rc)
		return rc;
	rc = sl_config_has_xdp(cfg) ? sl_net_open_kernel_tx(&w->net) : 0;
	if (rc)
		sl_log_warn("worker %u: cannot open raw sockets: %s; connections whose route has "
			    "changed wait for a packet of their peer",
			    index, strerror(-rc));
	return 0;
}

static int watch_fd(struct sl_worker *w, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0)
		return 0;
	return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

int sl_worker_build(struct sl_worker *w, const struct sl_config *cfg,
		    const struct sl_core_maps *maps, const struct sl_tls_config *tls)
{
	int rc = 0;

	for (unsigned i = 0; i < w->port_cnt && !rc; i++)
		rc = sl_net_add_port(&w->net, w->ports[i]);
	if (!rc)
		rc = sl_core_init(&w->core, cfg, &w->net, maps);
	if (!rc)
		rc = sl_worker_filters_init(w, cfg, tls);
	if (!rc && sl_config_server_ports(cfg)) {
		w->upstreams = sl_upstreams_new(
			w->core.tcp, w->net.umem, sl_config_server_ports(cfg),
			sl_core_server_conns(cfg, w->net.umem->frame_size), sl_now_ns());
		rc = w->upstreams ? 0 : -ENOMEM;
	}
	if (!rc)
		rc = sl_worker_mailbox_open(w);
	if (rc)
		return rc;
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (w->epoll_fd < 0)
		return -errno;
	rc = watch_fd(w, w->wake_fd);
	if (!rc)
		rc = watch_fd(w, sl_rpc_fd(w->core.rpc));
	if (!rc)
		rc = watch_fd(w, sl_handover_fd(&w->net));
	if (!rc)
		rc = watch_fd(w, sl_sock_fd(w->core.sock));
	for (unsigned i = 0; i < w->port_cnt && !rc; i++)
		rc = watch_fd(w, w->ports[i]->fd);
	return rc;
}

int sl_worker_add_port(struct sl_worker *w, struct sl_port *p)
{
	int rc;

	p->index = w->net.port_cnt;
	rc = w->port_cnt < SL_MAX_PORTS ? watch_fd(w, p->fd) : -E2BIG;
	if (!rc)
		rc = sl_net_add_port(&w->net, p);
	if (rc)
		return rc;
	w->ports[w->port_cnt] = p;
	__atomic_store_n(&w->port_cnt, w->port_cnt + 1, __ATOMIC_RELEASE);
	p->ops->flush(p);
	return 0;
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
	sl_sandbox_thread(w->upstreams ? SL_THREAD_WORKER_OF_SERVERS : SL_THREAD_WORKER);
	sl_worker_run(w);
	return NULL;
}

int sl_worker_start(struct sl_worker *w)
{
	int rc;

	if (w->poll.wake_ns == SL_AUTO) {
		char text[SL_UNIT_TEXT];

		sl_adaptive_poll_init(&w->poll, sl_wakeup_cost_ns(w->cpu), false);
		sl_log_info("worker %u: wake-up latency %s; polls up to that long before sleeping "
			    "(%d times as long while a reply is due)",
			    w->index, sl_format_duration(text, w->poll.wake_ns),
			    SL_POLL_REPLY_SLEEPS);
	}
	rc = sl_thread_start(&w->thread, thread_main, w);
	w->thread_started = !rc;
	return rc;
}

void sl_worker_stop(struct sl_worker *w)
{
	if (!w->thread_started)
		return;
	sl_worker_tell(w, &(struct sl_worker_msg){.verb = SL_WORKER_STOP});
	pthread_join(w->thread, NULL);
	w->thread_started = false;
}

void sl_worker_fini(struct sl_worker *w)
{
	sl_worker_mailbox_close(w);
	sl_upstreams_free(w->upstreams);
	if (w->core.cfg)
		sl_core_fini(&w->core);
	sl_worker_filters_fini(w);
	sl_handover_leave(&w->net);
	sl_net_fini(&w->net);
	for (unsigned i = 0; i < w->port_cnt; i++)
		w->ports[i]->ops->close(w->ports[i]);
	if (w->epoll_fd >= 0)
		close(w->epoll_fd);
	sl_umem_fini(&w->umem);
}
