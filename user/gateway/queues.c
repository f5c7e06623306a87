/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creating AF_XDP sockets needs capabilities, so the start creates them for all possible queues:
 *
 *   prepared -> queue exists: bound -> worker has added the port -> XDP program redirects to it
 *
 * The kernel refuses to remove a queue with a socket.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "gateway/internal.h"
#include "xio/probe.h"

enum { SPARE_MAX = 16 };

struct sl_spare_queue {
	struct sl_port *port;
	uint32_t iface;
	unsigned worker;
	bool bound, served;
	_Atomic bool added;
};

static unsigned ports_of(const struct sl_gateway *g, unsigned worker)
{
	unsigned n = g->workers[worker].port_cnt;

	for (uint32_t i = 0; i < g->spare_cnt; i++)
		n += g->spares[i].worker == worker && !g->spares[i].added;
	return n;
}

void sl_queues_prepare(struct sl_gateway *g, uint32_t iface, const struct sl_nic_info *nic,
		       const struct sl_xsk_options *o)
{
	uint32_t end = nic->queue_max < SL_MAX_QUEUES ? nic->queue_max : SL_MAX_QUEUES;
	struct sl_spare_queue *all;

	/* Additional queues of virtio_net are for XDP: sl_xdp_open(). */
	if (strcmp(nic->driver, "virtio_net") == 0 || end <= nic->queue_cnt)
		return;
	if (end > nic->queue_cnt + SPARE_MAX)
		end = nic->queue_cnt + SPARE_MAX;
	all = realloc(g->spares, (g->spare_cnt + end - nic->queue_cnt) * sizeof(*all));
	if (!all)
		return;
	g->spares = all;
	for (uint32_t q = nic->queue_cnt; q < end; q++) {
		const unsigned worker = q % g->worker_cnt;
		struct sl_spare_queue *s = &g->spares[g->spare_cnt];
		struct sl_xsk_options opt = *o;
		struct sl_err why = SL_ERR(160);

		opt.worker = worker;
		opt.port_index = UINT8_MAX;
		memset(s, 0, sizeof(*s));
		s->iface = iface;
		s->worker = worker;
		if (ports_of(g, worker) >= SL_MAX_PORTS)
			return;
		if (sl_xsk_prepare(&s->port, &g->workers[worker].umem, &g->xdp[iface], (uint16_t)q,
				   &opt, &why)) {
			sl_log_debug("no socket for queue %u, should it be added: %s", q, why.text);
			return;
		}
		g->spare_cnt++;
	}
}

static const struct sl_port *port_of(const struct sl_gateway *g, uint32_t iface)
{
	for (unsigned w = 0; w < g->worker_cnt; w++) {
		for (unsigned i = 0; i < g->workers[w].port_cnt; i++) {
			if (g->workers[w].ports[i]->ifindex == g->xdp[iface].ifindex)
				return g->workers[w].ports[i];
		}
	}
	return NULL;
}

bool sl_gateway_takes_chains(const struct sl_gateway *g, const struct sl_xdp *x)
{
	const struct sl_port *p = port_of(g, (uint32_t)(x - g->xdp));

	return p && p->chains;
}

static void give_to_worker(struct sl_gateway *g, struct sl_spare_queue *s)
{
	const struct sl_worker_msg msg = {
		.verb = SL_WORKER_ADD_PORT, .port = s->port, .added = &s->added};
	struct sl_err why = SL_ERR(160);

	if (sl_xsk_bind(s->port, port_of(g, s->iface), &why)) {
		sl_log_err("cannot serve a new queue: %s", why.text);
		s->port->ops->close(s->port);
		s->port = NULL;
		return;
	}
	s->bound = true;
	if (sl_worker_tell(&g->workers[s->worker], &msg))
		sl_log_err("cannot serve a new queue: out of memory");
}

static void expect_queues(struct sl_gateway *g, uint32_t iface, uint32_t cnt)
{
	for (unsigned w = 0; w < g->worker_cnt; w++) {
		for (unsigned i = 0; i < g->workers[w].port_cnt; i++) {
			if (g->workers[w].ports[i]->ifindex == g->xdp[iface].ifindex)
				sl_xsk_expect_queues(g->workers[w].ports[i], cnt);
		}
	}
}

static void serve_queue(struct sl_gateway *g, struct sl_spare_queue *s)
{
	struct sl_err why = SL_ERR(160);

	s->served = true;
	if (sl_xsk_register(s->port, &why)) {
		sl_log_err("cannot serve a new queue: %s", why.text);
		return;
	}
	sl_xdp_renew(&g->xdp[s->iface]);
	sl_log_info("interface %s: queue %u was added, worker %u serves it", s->port->ifname,
		    s->port->queue, s->worker);
	expect_queues(g, s->iface, s->port->queue + 1u);
}

void sl_queues_follow(struct sl_gateway *g, uint64_t now_ns)
{
	bool look = now_ns >= g->queues_ns;
	uint32_t of = UINT32_MAX, cnt = 0;

	if (look)
		g->queues_ns = now_ns + SL_NS_PER_SEC;
	for (uint32_t i = 0; i < g->spare_cnt; i++) {
		struct sl_spare_queue *s = &g->spares[i];

		if (!s->port || s->served)
			continue;
		if (look && of != s->iface)
			cnt = sl_probe_queues(g->xdp[s->iface].ifname);
		of = s->iface;
		if (look && !s->bound && s->port->queue < cnt)
			give_to_worker(g, s);
		else if (s->bound && atomic_load_explicit(&s->added, memory_order_acquire))
			serve_queue(g, s);
	}
}

void sl_queues_close(struct sl_gateway *g)
{
	for (uint32_t i = 0; i < g->spare_cnt; i++) {
		struct sl_spare_queue *s = &g->spares[i];

		if (s->port && !s->added)
			s->port->ops->close(s->port);
	}
	free(g->spares);
	g->spares = NULL;
	g->spare_cnt = 0;
}
