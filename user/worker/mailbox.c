/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mpsc.h"
#include "core/reload.h"
#include "net/route.h"
#include "rpc/rpc.h"
#include "worker/upstream.h"
#include "worker/worker.h"
#include "xio/rss.h"

enum { MAILBOX_LEN = 1024 };

int sl_worker_mailbox_open(struct sl_worker *w)
{
	w->mailbox = sl_mpsc_new(MAILBOX_LEN);
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return w->mailbox && w->wake_fd >= 0 ? 0 : -errno;
}

void sl_worker_mailbox_close(struct sl_worker *w)
{
	struct sl_worker_msg *m;

	while (w->mailbox && (m = sl_mpsc_get_ptr(w->mailbox))) {
		if (m->verb == SL_WORKER_ADOPT)
			sl_rpc_dial_drop(m->transport);
		if (m->verb == SL_WORKER_ROUTES)
			sl_routes_put(m->routes);
		sl_rss_list_put(m->rss);
		for (uint32_t i = 0; i < m->listener_cnt; i++)
			close(m->listeners[i].fd);
		free(m->listeners);
		free(m);
	}
	sl_mpsc_free(w->mailbox);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
}

int sl_worker_send(struct sl_worker *w, struct sl_worker_msg *msg)
{
	const uint64_t one = 1;

	if (!sl_mpsc_put_ptr(w->mailbox, msg))
		return -EAGAIN;
	(void)!write(w->wake_fd, &one, sizeof(one)); /* the message is the worker's */
	return 0;
}

int sl_worker_tell(struct sl_worker *w, const struct sl_worker_msg *msg)
{
	struct sl_worker_msg *m = malloc(sizeof(*m));

	if (!m)
		return -ENOMEM;
	*m = *msg;
	while (sl_worker_send(w, m) == -EAGAIN)
		usleep(1000); /* each round empties it */
	return 0;
}

static void set_link(struct sl_worker *w, const struct sl_worker_msg *m)
{
	bool lowered = false;

	for (unsigned i = 0; i < w->port_cnt; i++) {
		uint16_t mtu;

		if (w->ports[i]->ifindex != m->ifindex)
			continue;
		mtu = w->ports[i]->mtu;
		sl_port_set_mtu(w->ports[i], m->number);
		lowered |= w->ports[i]->mtu < mtu;
		memcpy(w->ports[i]->mac, m->mac, sizeof(m->mac));
	}
	if (lowered)
		sl_tcp_mtu_lowered(w->core.tcp);
}

unsigned sl_worker_read_mailbox(struct sl_worker *w)
{
	struct sl_worker_msg *m;
	unsigned n = 0;

	while ((m = sl_mpsc_get_ptr(w->mailbox))) {
		switch (m->verb) {
		case SL_WORKER_ADOPT: sl_backend_ref_adopt(m->backend, m->transport); break;
		case SL_WORKER_FORGET: sl_backend_ref_forgotten(m->backend, m->number); break;
		case SL_WORKER_RELEASE: sl_backend_ref_release(m->backend); break;
		case SL_WORKER_PREPARE: sl_worker_cfg_prepare(m->wcfg, &w->core); break;
		case SL_WORKER_SWITCH: sl_worker_cfg_switch(m->wcfg, &w->core); break;
		case SL_WORKER_ADD_PORT:
			if (!sl_worker_add_port(w, m->port))
				atomic_store_explicit(m->added, true, memory_order_release);
			break;
		case SL_WORKER_LINK: set_link(w, m); break;
		case SL_WORKER_ROUTES: sl_net_set_routes(&w->net, m->routes); break;
		case SL_WORKER_RSS: sl_net_set_rss(&w->net, m->rss); break;
		case SL_WORKER_LISTEN:
			sl_sock_exclude(w->core.sock, m->excluded, m->excluded_cnt);
			sl_sock_set_listeners(w->core.sock, m->listeners, m->listener_cnt);
			free(m->listeners);
			break;
		case SL_WORKER_UPSTREAM:
			sl_upstream_add(w->upstreams, m->upstream, w->epoll_fd);
			break;
		case SL_WORKER_UPSTREAM_LEAVE: sl_upstream_leave(m->upstream); break;
		case SL_WORKER_UPSTREAM_HEALTH: sl_upstream_set_health(m->upstream, m->why); break;
		case SL_WORKER_DRAIN:
			w->draining = true;
			sl_sock_set_listeners(w->core.sock, NULL, 0);
			sl_core_drain(&w->core);
			break;
		case SL_WORKER_STOP: w->stopping = true; break;
		}
		free(m);
		n++;
	}
	return n;
}
