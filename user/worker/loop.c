/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's event loop: run_once() is one burst. Without work the worker polls (adaptive_poll.h),
 * then sleeps.
 */
#include "worker/upstream.h"
#include "worker/worker.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/min.h"
#include "front/tls/tls.h"
#include "net/handover.h"
#include "xio/xsk_port.h"

enum { WAIT_EVENTS = 32, TX_RETRY_NS = 50000 };

static unsigned receive_frames(struct sl_worker *w, uint64_t now_ns)
{
	SL_UNINIT struct sl_frame *frames[SL_BURST];
	unsigned total = 0;

	for (unsigned i = 0; i < w->port_cnt; i++) {
		struct sl_port *p = w->ports[i];
		unsigned n = p->ops->rx_burst(p, frames, SL_BURST, now_ns);

		if (n)
			sl_net_input(&w->net, frames, n, now_ns);
		total += n;
	}
	return total + sl_handover_poll(&w->net);
}

/* Excludes ACKs, which do not count as found by polling. */
static uint64_t requests_seen(const struct sl_core *c)
{
	return c->stats.requests + c->stats.stream_parts_in;
}

static unsigned run_once(struct sl_worker *w)
{
	struct sl_core *c = &w->core;
	uint64_t now_ns = sl_now_ns();
	uint64_t before = requests_seen(c);
	unsigned n, answers;

	sl_core_set_now(c, now_ns);
	sl_net_set_now(&w->net, now_ns);
	if (w->upstreams)
		sl_upstreams_set_now(w->upstreams, now_ns);
	n = sl_worker_read_mailbox(w);
	n += receive_frames(w, now_ns);
	n += sl_sock_poll(c->sock, now_ns);
	if (w->upstreams)
		n += sl_upstreams_receive(w->upstreams);
	answers = sl_rpc_poll(c->rpc, now_ns);
	n += answers;
	sl_tcp_timer(c->tcp);
	n += sl_core_run(c);
	sl_rpc_flush(c->rpc, now_ns); /* first: backends compute during transmission */
	sl_core_flush(&w->core);
	if (w->upstreams)
		n += sl_upstreams_send(w->upstreams);
	n += sl_tcp_output(w->core.tcp);
	n += sl_sock_output(c->sock);
	sl_net_flush(&w->net);
	w->loops++;
	if (n) {
		w->busy_loops++;
		w->busy_ns = now_ns;
	}
	w->news = answers || requests_seen(c) != before;
	return n;
}

static uint64_t next_ns(struct sl_worker *w)
{
	uint64_t next = sl_tcp_next_ns(w->core.tcp), due = sl_core_next_ns(&w->core);

	/* The kernel sends from the tx ring only when called: retry what it left. */
	for (unsigned i = 0; i < w->port_cnt; i++) {
		if (sl_xsk_tx_unsent(w->ports[i]))
			return w->core.now_ns + TX_RETRY_NS;
	}
	next = sl_min_ns(next, due);
	next = sl_min_ns(next, sl_sock_next_ns(w->core.sock));
	if (w->upstreams)
		next = sl_min_ns(next, sl_upstreams_next_ns(w->upstreams));
	due = sl_rpc_next_ns(w->core.rpc);
	return sl_min_ns(next, due);
}

static bool is_among(const struct epoll_event *events, int n, int fd)
{
	while (n-- > 0) {
		if (events[n].data.fd == fd)
			return true;
	}
	return false;
}

static bool sleep_in_epoll(struct sl_worker *w, uint64_t *asleep_ns)
{
	SL_UNINIT struct epoll_event events[WAIT_EVENTS];
	struct timespec ts, *timeout = NULL;
	uint64_t next = next_ns(w), now_ns = sl_now_ns(), woken_ns, count;
	int n;

	if (next != UINT64_MAX) {
		uint64_t wait = next > now_ns ? next - now_ns : 0;

		ts = (struct timespec){.tv_sec = (time_t)(wait / SL_NS_PER_SEC),
				       .tv_nsec = (long)(wait % SL_NS_PER_SEC)};
		timeout = &ts;
	}
	w->sleeps++;
	n = epoll_pwait2(w->epoll_fd, events, WAIT_EVENTS, timeout, NULL);
	woken_ns = sl_now_ns();
	*asleep_ns = woken_ns - now_ns;
	if (n > 0)
		w->busy_ns = woken_ns;
	if (is_among(events, n, w->wake_fd) && read(w->wake_fd, &count, sizeof(count)) < 0 &&
	    errno != EAGAIN)
		w->stopping = true;
	return is_among(events, n, sl_rpc_fd(w->core.rpc));
}

static bool arm_upstreams(struct sl_worker *w)
{
	return !w->upstreams || sl_upstreams_arm(w->upstreams);
}

static void sleep_until_event(struct sl_worker *w)
{
	uint64_t from_ns = sl_now_ns(), asleep_ns = 0;
	bool rang = true;

	sl_handover_arm(&w->net);
	if (sl_rpc_arm(w->core.rpc) && !run_once(w) && arm_upstreams(w))
		rang = sleep_in_epoll(w, &asleep_ns);
	if (w->upstreams)
		sl_upstreams_disarm(w->upstreams);
	sl_rpc_disarm(w->core.rpc, rang);
	sl_handover_disarm(&w->net);
	if (asleep_ns)
		sl_adaptive_poll_slept(&w->poll, sl_now_ns() - from_ns - asleep_ns);
}

/* Local agents and TLS threads may need this processor, so polling weighs less for them. */
static enum sl_adaptive_poll_for awaited_kind(const struct sl_worker *w)
{
	const struct sl_core *c = &w->core;
	bool due = sl_rpc_asked(c->rpc);

	if ((c->cfg->agents.server_cnt && due) || sl_tls_queued(w->tls))
		return SL_POLL_LOCAL_THREADS;
	return due ? SL_POLL_REPLIES : SL_POLL_CLIENTS;
}

static void idle_step(struct sl_worker *w)
{
	uint64_t idle_ns = w->core.now_ns - w->busy_ns;

	if (!w->idle)
		sl_adaptive_poll_begin(&w->poll, awaited_kind(w), idle_ns);
	w->idle = true;
	if (sl_adaptive_poll_on(&w->poll, idle_ns))
		return;
	sl_adaptive_poll_end(&w->poll, false, idle_ns);
	sleep_until_event(w);
	w->idle = false;
}

void sl_worker_run(struct sl_worker *w)
{
	w->busy_ns = sl_now_ns();
	while (!w->stopping) {
		uint64_t busy_ns = w->busy_ns;

		if (!run_once(w)) {
			idle_step(w);
		} else if (w->idle) {
			sl_adaptive_poll_end(&w->poll, w->news, w->core.now_ns - busy_ns);
			w->idle = false;
		}
		if (w->draining && sl_core_idle(&w->core))
			atomic_store_explicit(&w->drained, true, memory_order_release);
	}
	if (w->upstreams)
		sl_upstreams_stop(w->upstreams, &w->net);
}
