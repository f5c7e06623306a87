/* SPDX-License-Identifier: Apache-2.0 */
/* Counters are exact, but not all of one moment. */
#include "gateway/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/client.h"
#include "core/event.h"
#include "core/pool.h"
#include "xio/xsk_port.h"

uint32_t sl_cfg_gen_backends(const struct sl_config *cfg)
{
	uint32_t n = 0;

	for (uint32_t p = 0; p < cfg->pool_cnt; p++)
		n += cfg->pools[p].backend_cnt;
	return n;
}

int sl_snapshot_init(struct sl_gateway *g)
{
	struct sl_gateway_info *in = &g->info;

	in->service_max = g->service_max;
	in->start_ns = g->start_ns;
	in->worker_cnt = g->worker_cnt;
	in->interface_cnt = g->link_cnt;
	in->workers = calloc(g->worker_cnt, sizeof(*in->workers));
	in->interfaces = calloc(g->link_cnt + 1, sizeof(*in->interfaces));
	if (!in->workers || !in->interfaces)
		return -1;
	return sl_snapshot_resize(g, g->cfg);
}

int sl_snapshot_resize(struct sl_gateway *g, const struct sl_config *cfg)
{
	uint32_t n = sl_cfg_gen_backends(cfg);

	for (unsigned i = 0; i < g->worker_cnt; i++) {
		struct sl_worker_info *wi = &g->info.workers[i];
		struct sl_backend_info *room;

		if (wi->backends && n <= wi->backend_max)
			continue;
		room = calloc(n + 1, sizeof(*room));
		if (!room)
			return -ENOMEM;
		free(wi->backends);
		wi->backends = room;
		wi->backend_max = n;
		wi->backend_cnt = 0;
	}
	return 0;
}

void sl_snapshot_fini(struct sl_gateway *g)
{
	for (unsigned i = 0; g->info.workers && i < g->info.worker_cnt; i++)
		free(g->info.workers[i].backends);
	free(g->info.workers);
	free(g->info.interfaces);
}

static void fill_backend(const struct sl_worker *w, const struct sl_cfg_pool *pool, uint32_t b,
			 const struct sl_backend_ref *m, struct sl_backend_info *bi)
{
	enum sl_backend_state link = sl_backend_ref_state(m);

	bi->pool = pool->name;
	bi->name = pool->backends[b].name;
	bi->codes = &m->codes;
	bi->state = link == SL_BACKEND_UP        ? SL_RPC_UP
		    : link == SL_BACKEND_UNREADY ? SL_RPC_DRAINING
		    : link == SL_BACKEND_OFFERED ? SL_RPC_CONNECTING
						 : SL_RPC_DOWN;
	if (m->dialer)
		sl_dialer_info(m->dialer, w->index, bi);
	sl_rpc_channel_stats(m->channel, &bi->stats);
	sl_snapshot_health(m, bi);
}

static void fill_worker(struct sl_gateway *g, struct sl_worker *w, struct sl_worker_info *wi)
{
	const struct sl_worker_cfg *t;

	wi->cpu = w->cpu;
	wi->loops = w->loops;
	wi->busy_loops = w->busy_loops;
	wi->sleeps = w->sleeps;
	wi->frames = w->umem.frame_cnt;
	wi->frames_free = w->umem.free_cnt;
	wi->exchanges = sl_mempool_capacity(&w->core.exchanges);
	wi->exchanges_used = sl_mempool_used(&w->core.exchanges);
	wi->clients = sl_mempool_used(&w->core.clients);
	wi->core = w->core.stats;
	(void)sl_top_refused_read(&w->core.stats.refused, &wi->core.refused);
	wi->core.unmatched_datagrams = sl_rpc_unmatched(w->core.rpc);
	sl_tcp_stats(w->core.tcp, &wi->tcp);
	sl_udp_stats(w->core.udp, &wi->udp);
	sl_sock_stats(w->core.sock, &wi->sock);
	sl_h2_env_stats(w->core.env.h2, &wi->h2);
	sl_tls_stats(w->tls, &wi->tls);
	wi->conn_bytes = wi->tcp.conn_bytes + (uint32_t)sizeof(struct sl_client);
	wi->nexthop_changes = w->net.nexthop_changes;
	wi->kernel_resends = w->net.kernel_tx_cnt;
	memcpy(wi->drops, w->net.drops, sizeof(wi->drops));
	wi->port_cnt = w->port_cnt;
	for (unsigned i = 0; i < w->port_cnt; i++) {
		const struct sl_port *p = w->ports[i];

		snprintf(wi->ports[i].ifname, sizeof(wi->ports[i].ifname), "%s", p->ifname);
		wi->ports[i].queue = p->queue;
		wi->ports[i].mode = p->mode;
		sl_xsk_stats(p, &wi->ports[i].stats);
	}
	t = g->generation->wcfgs[w->index];
	wi->backend_cnt = 0;
	for (uint32_t p = 0; p < t->cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &t->cfg->pools[p];

		for (uint32_t b = 0; b < pool->backend_cnt; b++) {
			const struct sl_backend_ref *m = t->pools[p].backends[b];

			if (!m->dialer || sl_dialer_used(m->dialer, w->index) ||
			    sl_backend_ref_state(m) != SL_BACKEND_DOWN)
				fill_backend(w, pool, b, m, &wi->backends[wi->backend_cnt++]);
		}
		sl_conn_mgr_subset(g->conn_mgr, pool->name, w->index, &wi->subsets[p]);
	}
}

struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker)
{
	return worker < g->worker_cnt ? g->workers[worker].core.events : NULL;
}

void sl_gateway_want_events(struct sl_gateway *g, bool wanted)
{
	for (unsigned i = 0; i < g->worker_cnt; i++)
		sl_events_want(&g->workers[i].core, wanted);
}

static void fill_interface(const struct sl_gateway *g, const struct sl_gateway_link *k,
			   struct sl_interface_info *ii)
{
	const struct sl_xdp *x = &g->xdp[k->xdp];

	snprintf(ii->name, sizeof(ii->name), "%s", k->name);
	if (k->by_sockets) {
		snprintf(ii->attach, sizeof(ii->attach), "kernel sockets%s%.100s",
			 k->why[0] ? ": " : "", k->why);
		return;
	}
	snprintf(ii->attach, sizeof(ii->attach), "%s", x->mode);
	snprintf(ii->replies, sizeof(ii->replies), "%s", k->replies);
	sl_xdp_verdicts(x, ii->verdicts);
	ii->offenders = g->offenders.cnt[k->xdp];
}

const struct sl_gateway_info *sl_gateway_info(struct sl_gateway *g)
{
	g->info.cfg = g->cfg;
	g->info.draining = g->draining;
	for (unsigned i = 0; i < g->worker_cnt; i++)
		fill_worker(g, &g->workers[i], &g->info.workers[i]);
	for (uint32_t i = 0; i < g->link_cnt; i++)
		fill_interface(g, &g->links[i], &g->info.interfaces[i]);
	return &g->info;
}

uint32_t sl_gateway_slot(const struct sl_gateway *g, uint32_t pool)
{
	return g->generation->slots[pool];
}

const struct sl_svc_hist *sl_gateway_hist(const struct sl_gateway *g, uint32_t worker,
					  uint32_t slot, enum sl_stage stage)
{
	return sl_xdp_hist(&g->xdp[0], worker, slot, stage);
}

void sl_gateway_live(const struct sl_gateway *g, uint32_t worker, uint32_t slot,
		     struct sl_svc_live *out)
{
	const struct sl_svc_live *live = sl_xdp_live(&g->xdp[0], worker, slot);
	uint32_t seq;

	do {
		seq = __atomic_load_n(&live->seq, __ATOMIC_ACQUIRE);
		memcpy(out, live, sizeof(*out));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
	} while ((seq & 1) || seq != __atomic_load_n(&live->seq, __ATOMIC_RELAXED));
}

const struct sl_route_codes *sl_gateway_route_codes(const struct sl_gateway *g, uint32_t worker,
						    uint32_t route)
{
	return g->generation->wcfgs[worker]->route_codes[route];
}

const struct sl_codes *sl_gateway_pool_codes(const struct sl_gateway *g, uint32_t worker,
					     uint32_t pool)
{
	return &g->generation->wcfgs[worker]->pools[pool].pool->codes;
}

int sl_gateway_set_stage(struct sl_gateway *g, const struct sl_stage_key *key,
			 const struct sl_stage_times *v)
{
	return g->xdp_cnt ? sl_xdp_set_stage(&g->xdp[0], key, v) : 0;
}

void sl_gateway_clear_stages(struct sl_gateway *g)
{
	if (g->xdp_cnt)
		sl_xdp_clear_stages(&g->xdp[0]);
}

struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t slot)
{
	return &g->xdp[0].ctl[slot];
}
