/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/gateway_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "core/service.h"
#include "net/handover.h"
#include "xio/probe.h"

/* A half page packs twice as many small segments into the same memory, and holds an MTU of 1500. */
enum { FRAME_SIZE_MIN = 2048, FRAME_SIZE_MAX = 4096, BUSY_POLL_US = 20, SPARE_SERVICES = 8 };

static int fail(char *err, size_t err_len, int rc, const char *what)
{
	snprintf(err, err_len, "%s: %s", what, strerror(rc < 0 ? -rc : rc));
	return rc < 0 ? rc : -rc;
}

/* --- interfaces and queues --- */

static int open_interfaces(struct sl_gateway *g, char *err, size_t err_len)
{
	for (uint32_t i = 0; i < g->cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *ci = &g->cfg->interfaces[i];
		struct sl_xdp_options o = {
			.worker_cnt = g->cfg->worker_cnt,
			.service_cnt = g->service_max,
			.generic = ci->mode == SL_ATTACH_GENERIC,
			.share = i ? &g->xdp[0] : NULL,
		};
		int rc = sl_xdp_open(&g->xdp[i], ci->name, &o, err, err_len);

		if (rc)
			return rc;
		g->xdp_cnt++;
		if (g->service_max > g->xdp[i].service_cnt) /* adopted ones have what they have */
			g->service_max = g->xdp[i].service_cnt;
		if (ci->mode == SL_ATTACH_NATIVE && g->xdp[i].generic) {
			snprintf(err, err_len, "%s:%d: interface %s: mode = native, but: %s",
				 g->cfg->file, ci->line, ci->name, g->xdp[i].mode);
			return -EOPNOTSUPP;
		}
		if (ci->mode == SL_ATTACH_ADOPT && g->xdp[i].attach != SL_XDP_ADOPTED) {
			snprintf(err, err_len,
				 "%s:%d: interface %s: mode = adopt, but no sluice program is "
				 "attached; "
				 "attach it with ip link or xdp-loader first",
				 g->cfg->file, ci->line, ci->name);
			return -ENOENT;
		}
	}
	return 0;
}

/* A frame holds a packet of the largest MTU, its Ethernet header, and the kernel's headroom. */
static int choose_frame_size(struct sl_gateway *g, char *err, size_t err_len)
{
	uint32_t need = 0;

	for (uint32_t i = 0; i < g->cfg->interface_cnt; i++) {
		struct sl_nic_info nic;
		int rc = sl_probe_nic(g->cfg->interfaces[i].name, &nic);

		if (rc)
			return fail(err, err_len, rc, g->cfg->interfaces[i].name);
		need = sl_xsk_frame_need(nic.mtu) > need ? sl_xsk_frame_need(nic.mtu) : need;
		if (need > FRAME_SIZE_MAX) {
			snprintf(err, err_len,
				 "%s:%d: interface %s: MTU %u needs frames of %u bytes; AF_XDP "
				 "allows %d, so lower the MTU",
				 g->cfg->file, g->cfg->interfaces[i].line,
				 g->cfg->interfaces[i].name, nic.mtu, need, FRAME_SIZE_MAX);
			return -EMSGSIZE;
		}
	}
	g->frame_size = need <= FRAME_SIZE_MIN ? FRAME_SIZE_MIN : FRAME_SIZE_MAX;
	return 0;
}

static int open_port(struct sl_gateway *g, uint32_t iface, uint16_t queue, struct sl_worker *w,
		     char *err, size_t err_len)
{
	const struct sl_cfg_interface *ci = &g->cfg->interfaces[iface];
	struct sl_xsk_options o = {
		.rx_size = ci->ring_size,
		.tx_size = ci->ring_size,
		.fill_size = ci->ring_size,
		.wish = ci->zero_copy ? SL_XSK_BEST : SL_XSK_COPY_ONLY,
		.port_index = (uint8_t)w->port_cnt,
		.worker = w->index,
		.busy_poll_us = ci->busy_poll ? BUSY_POLL_US : 0,
	};
	int rc;

	if (w->port_cnt == SL_MAX_PORTS) {
		snprintf(err, err_len,
			 "%s:%d: interface %s: more than %d queues for worker %u; "
			 "raise workers { count }",
			 g->cfg->file, ci->line, ci->name, SL_MAX_PORTS, w->index);
		return -E2BIG;
	}
	rc = sl_xsk_open(&w->ports[w->port_cnt], &w->umem, &g->xdp[iface], queue, &o, err, err_len);
	if (!rc)
		w->port_cnt++;
	return rc;
}

/* Queues go round the workers, the same queue of each interface to the same worker. */
static int open_ports(struct sl_gateway *g, char *err, size_t err_len)
{
	for (uint32_t i = 0; i < g->cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *ci = &g->cfg->interfaces[i];
		struct sl_nic_info nic;
		uint32_t cnt = ci->queue_cnt;
		int rc = sl_probe_nic(ci->name, &nic);

		if (rc)
			return fail(err, err_len, rc, ci->name);
		if (!cnt)
			cnt = nic.queue_cnt;
		if (cnt < g->cfg->worker_cnt)
			sl_log_warn(
				"interface %s has %u queues for %u workers: some get no packets",
				ci->name, cnt, g->cfg->worker_cnt);
		for (uint32_t q = 0; q < cnt; q++) {
			uint16_t queue = ci->queue_cnt ? ci->queues[q] : (uint16_t)q;

			rc = open_port(g, i, queue, &g->workers[q % g->cfg->worker_cnt], err,
				       err_len);
			if (rc)
				return rc;
		}
	}
	return 0;
}

/* --- start and stop --- */

static int create_workers(struct sl_gateway *g, char *err, size_t err_len)
{
	int rc = choose_frame_size(g, err, err_len);

	if (rc)
		return rc;
	g->workers = calloc(g->cfg->worker_cnt, sizeof(*g->workers));
	if (!g->workers)
		return fail(err, err_len, -ENOMEM, "workers");
	for (unsigned i = 0; i < g->cfg->worker_cnt; i++) {
		g->worker_cnt++;
		rc = sl_worker_init(&g->workers[i], g->cfg, i, g->frame_size);
		if (rc)
			return fail(
				err, err_len, rc,
				"cannot allocate a worker's frames; lower limits { frame_memory }");
	}
	return 0;
}

static int build_workers(struct sl_gateway *g, char *err, size_t err_len)
{
	int rc = 0;

	if (g->worker_cnt > 1) {
		g->hub = sl_handover_hub_create(g->worker_cnt,
						g->cfg->limits.max_connections * g->worker_cnt,
						g->frame_size);
		if (!g->hub)
			return fail(err, err_len, -errno, "hand-over directory");
	}
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		struct sl_worker *w = &g->workers[i];
		struct sl_core_maps maps = {
			.service_cnt = g->service_max,
			.hist = sl_xdp_hist(&g->xdp[0], i, 0, 0),
			.live = sl_xdp_live(&g->xdp[0], i, 0),
			.ctl = g->xdp[0].ctl,
		};

		if (g->hub)
			rc = sl_handover_join(g->hub, i, &w->net);
		if (!rc)
			rc = sl_worker_build(w, g->cfg, &maps);
		if (rc)
			return fail(err, err_len, rc, "cannot build a worker");
	}
	return 0;
}

int sl_gateway_start(struct sl_gateway *g, char *err, size_t err_len)
{
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		int rc = sl_worker_start(&g->workers[i]);

		if (rc)
			return fail(err, err_len, rc, "cannot start a worker");
	}
	if (sl_diallers_start(g, g->cfg))
		return fail(err, err_len, -errno, "cannot start a dialler");
	return 0;
}

static int open_listeners(struct sl_gateway *g, char *err, size_t err_len)
{
	uint32_t cnt;
	struct sl_net_listener *l = sl_listeners_list(g->cfg, &cnt);
	int rc = l ? 0 : -errno;

	for (unsigned w = 0; w < g->worker_cnt && !rc; w++)
		rc = sl_net_set_listeners(&g->workers[w].net, l, cnt);
	if (rc)
		free(l);
	else
		rc = sl_listeners_apply(g, g->cfg, l, cnt);
	return rc ? fail(err, err_len, rc, "cannot set the listeners") : 0;
}

/* Room for pools that a reload brings. */
static uint32_t choose_service_max(const struct sl_config *cfg)
{
	uint32_t max = cfg->pool_cnt + SPARE_SERVICES;

	return max < SL_MAX_SERVICES ? max : SL_MAX_SERVICES;
}

struct sl_gateway *sl_gateway_open(const struct sl_config *cfg, char *err, size_t err_len)
{
	struct sl_gateway *g = calloc(1, sizeof(*g));
	uint32_t slots;
	int rc;

	if (!g)
		return NULL;
	g->cfg = g->first.cfg = cfg;
	g->epoch = &g->first;
	g->service_max = choose_service_max(cfg);
	g->start_ns = sl_now_ns();
	g->xdp = calloc(cfg->interface_cnt, sizeof(*g->xdp));
	slots = sl_dialler_slot(g->service_max, 0);
	g->diallers = calloc(slots, sizeof(struct sl_dialler *));
	g->ending = calloc(slots, sizeof(struct sl_dialler *));
	rc = g->xdp && g->diallers && g->ending ? 0 : fail(err, err_len, -ENOMEM, "gateway");
	if (!rc)
		rc = create_workers(g, err, err_len);
	if (!rc)
		rc = open_interfaces(g, err, err_len);
	if (!rc)
		rc = open_ports(g, err, err_len);
	if (!rc)
		rc = build_workers(g, err, err_len);
	if (!rc)
		rc = sl_info_init(g) ? fail(err, err_len, -ENOMEM, "gateway") : 0;
	if (!rc)
		rc = open_listeners(g, err, err_len);
	if (!rc)
		return g;
	sl_gateway_close(g);
	return NULL;
}

void sl_gateway_close(struct sl_gateway *g)
{
	sl_diallers_stop(g);
	for (unsigned i = 0; i < g->worker_cnt; i++)
		sl_worker_stop(&g->workers[i]);
	for (unsigned i = 0; i < g->worker_cnt; i++)
		sl_worker_fini(&g->workers[i]);
	sl_handover_hub_destroy(g->hub);
	for (uint32_t i = 0; i < g->xdp_cnt; i++)
		sl_xdp_close(&g->xdp[g->xdp_cnt - 1 - i]); /* the first one lends its maps */
	sl_info_fini(g);
	sl_reload_fini(g);
	free(g->listening);
	free(g->ending);
	free(g->diallers);
	free(g->workers);
	free(g->xdp);
	free(g);
}

bool sl_gateway_drain(struct sl_gateway *g)
{
	bool done = true;

	for (unsigned i = 0; i < g->worker_cnt; i++) {
		if (!g->draining &&
		    sl_worker_tell(&g->workers[i],
				   &(struct sl_worker_msg){.verb = SL_WORKER_DRAIN}))
			return false;
		if (!atomic_load_explicit(&g->workers[i].drained, memory_order_acquire))
			done = false;
	}
	g->draining = true;
	return done;
}

static bool pool_up(const struct sl_gateway *g, uint32_t pool)
{
	for (uint32_t b = 0; b < g->cfg->pools[pool].backend_cnt; b++) {
		if (sl_core_link(&g->workers[0].core, pool, b) == SL_LINK_UP)
			return true;
	}
	return false;
}

bool sl_gateway_ready(const struct sl_gateway *g, char *why, size_t why_len)
{
	if (g->draining) {
		snprintf(why, why_len, "draining");
		return false;
	}
	for (uint32_t p = 0; p < g->cfg->pool_cnt; p++) {
		if (g->cfg->pools[p].name && !pool_up(g, p)) {
			snprintf(why, why_len, "no backend of pool %s is up",
				 g->cfg->pools[p].name);
			return false;
		}
	}
	return true;
}

bool sl_gateway_fault(const struct sl_gateway *g, char *why, size_t why_len)
{
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		for (unsigned p = 0; p < g->workers[i].port_cnt; p++) {
			if (sl_xsk_status(g->workers[i].ports[p], why, why_len))
				return true;
		}
	}
	return false;
}
