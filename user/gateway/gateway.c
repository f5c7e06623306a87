/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/internal.h"
#include "gateway/server_ports.h"
#include "gateway/upstreams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "core/pool.h"
#include "net/handover.h"
#include "xio/probe.h"

enum { FRAME_SIZE_MIN = 2048, BUSY_POLL_US = 20 };
enum { POOL_NAMES_LEN = 48 };
#define OPEN_WAIT_NS (2 * SL_NS_PER_SEC)
#define GONE_WAIT_NS (30 * SL_NS_PER_SEC)

static int fail_errno(struct sl_err *err, int rc, const char *what)
{
	sl_err_set(err, "%s: %s", what, strerror(rc < 0 ? -rc : rc));
	return rc < 0 ? rc : -rc;
}

/*
 * Selects XDP or sockets. Kernel sockets serve links without Ethernet headers, such as lo and
 * WireGuard.
 */
static int choose_links(struct sl_gateway *g, struct sl_err *err)
{
	for (uint32_t i = 0; i < g->cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *ci = &g->cfg->interfaces[i];
		struct sl_gateway_link *k = &g->links[i];
		struct sl_nic_info nic;
		int rc = sl_probe_nic(ci->name, &nic);

		if (rc)
			return fail_errno(err, rc, ci->name);
		snprintf(k->name, sizeof(k->name), "%s", ci->name);
		k->by_sockets = ci->mode == SL_ATTACH_SOCKET;
		if (ci->mode == SL_ATTACH_AUTO && !nic.ethernet)
			sl_gateway_link_fall_back(k, "no Ethernet interface");
	}
	return 0;
}

void sl_gateway_link_fall_back(struct sl_gateway_link *k, const char *why)
{
	k->by_sockets = true;
	snprintf(k->why, sizeof(k->why), "%s", why);
	sl_log_warn("interface %s: kernel sockets instead of XDP: %s", k->name, why);
}

static int open_interface(struct sl_gateway *g, uint32_t i, struct sl_err *err)
{
	const struct sl_cfg_interface *ci = &g->cfg->interfaces[i];
	const struct sl_cfg_location at = sl_config_location(g->cfg, ci->line);
	struct sl_xdp *x = &g->xdp[g->xdp_cnt];
	char above[128];
	struct sl_xdp_options o = {
		.worker_cnt = g->cfg->worker_cnt,
		.service_cnt = g->service_max,
		.service_least = g->cfg->pool_cnt ? g->cfg->pool_cnt : 1,
		.generic = ci->mode == SL_ATTACH_GENERIC,
		.vlans = ci->vlan != SL_VLAN_NONE ||
			 sl_probe_vlans_above(ci->name, above, sizeof(above)),
		.share = g->xdp_cnt ? &g->xdp[0] : NULL,
	};
	int rc = sl_xdp_open(x, ci->name, &o, err);

	if (rc == -EOPNOTSUPP && ci->mode == SL_ATTACH_AUTO) {
		sl_gateway_link_fall_back(&g->links[i], err->text);
		return 0;
	}
	if (rc)
		return rc;
	g->links[i].xdp = g->xdp_cnt++;
	if (g->service_max > x->service_cnt) /* maps of an adopted program have a fixed size */
		g->service_max = x->service_cnt;
	if (ci->mode == SL_ATTACH_NATIVE && x->generic)
		return sl_fail(err, -EOPNOTSUPP, "%s:%d: interface %s: mode = native, but: %s",
			       at.file, at.line, ci->name, x->mode);
	if (ci->mode == SL_ATTACH_ADOPT && x->attach != SL_XDP_ADOPTED)
		return sl_fail(err, -ENOENT,
			       "%s:%d: interface %s: mode = adopt, but no sluice program is "
			       "attached; attach it with ip link or xdp-loader first",
			       at.file, at.line, ci->name);
	return 0;
}

static int open_interfaces(struct sl_gateway *g, struct sl_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i < g->cfg->interface_cnt && !rc; i++) {
		if (!g->links[i].by_sockets)
			rc = open_interface(g, i, err);
	}
	if (!rc && !g->xdp_cnt)
		rc = sl_tables_open(g) ? fail_errno(err, -ENOMEM, "tables of pools") : 0;
	return rc;
}

/*
 * Sets the frame size: the largest MTU, the Ethernet header and the kernel's headroom, if possible.
 */
static int choose_frame_size(struct sl_gateway *g, struct sl_err *err)
{
	uint32_t mtu = 0;

	for (uint32_t i = 0; i < g->cfg->interface_cnt; i++) {
		struct sl_nic_info nic;
		int rc = 0;

		if (g->links[i].by_sockets)
			continue;
		rc = sl_probe_nic(g->cfg->interfaces[i].name, &nic);
		if (rc)
			return fail_errno(err, rc, g->cfg->interfaces[i].name);
		mtu = nic.mtu > mtu ? nic.mtu : mtu;
	}
	g->frame_size =
		mtu <= sl_port_frame_mtu(FRAME_SIZE_MIN) ? FRAME_SIZE_MIN : SL_FRAME_SIZE_MAX;
	return 0;
}

static struct sl_xsk_options port_options(const struct sl_cfg_interface *ci,
					  const struct sl_worker *w)
{
	return (struct sl_xsk_options){
		.rx_size = ci->ring_size,
		.tx_size = ci->ring_size,
		.fill_size = ci->ring_size,
		.wish = ci->zero_copy ? SL_XSK_BEST : SL_XSK_COPY_ONLY,
		.port_index = (uint8_t)w->port_cnt,
		.worker = w->index,
		.busy_poll_us = ci->busy_poll ? BUSY_POLL_US : 0,
	};
}

static int open_port(struct sl_gateway *g, uint32_t iface, uint16_t queue, struct sl_worker *w,
		     struct sl_err *err)
{
	const struct sl_cfg_interface *ci = &g->cfg->interfaces[iface];
	const struct sl_cfg_location at = sl_config_location(g->cfg, ci->line);
	const struct sl_xsk_options o = port_options(ci, w);
	int rc;

	if (w->port_cnt == SL_MAX_PORTS)
		return sl_fail(err, -E2BIG,
			       "%s:%d: interface %s: more than %d queues for worker %u; "
			       "raise workers { count }",
			       at.file, at.line, ci->name, SL_MAX_PORTS, w->index);
	rc = sl_xsk_open(&w->ports[w->port_cnt], &w->umem, &g->xdp[g->links[iface].xdp], queue, &o,
			 err);
	if (!rc)
		w->port_cnt++;
	return rc;
}

static int open_ports(struct sl_gateway *g, struct sl_err *err)
{
	for (uint32_t i = 0; i < g->cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *ci = &g->cfg->interfaces[i];
		struct sl_nic_info nic;
		uint32_t cnt = ci->queue_cnt;
		int rc = 0;

		if (g->links[i].by_sockets)
			continue;
		rc = sl_probe_nic(ci->name, &nic);
		if (rc)
			return fail_errno(err, rc, ci->name);
		if (!cnt)
			cnt = nic.queue_cnt;
		if (!SL_ENSURE(g->cfg->worker_cnt))
			return -EINVAL;
		if (cnt < g->cfg->worker_cnt)
			sl_log_warn(
				"interface %s has %u queues for %u workers: some get no packets",
				ci->name, cnt, g->cfg->worker_cnt);
		if (cnt < nic.queue_cnt)
			sl_log_warn("interface %s has %u receive queues, and `queues` lists %u: "
				    "packets of the others are dropped",
				    ci->name, nic.queue_cnt, cnt);
		for (uint32_t q = 0; q < cnt; q++) {
			uint16_t queue = ci->queue_cnt ? ci->queues[q] : (uint16_t)q;

			rc = open_port(g, i, queue, &g->workers[q % g->cfg->worker_cnt], err);
			if (rc)
				return rc;
		}
		sl_warn_of_generic_mode(ci, &g->xdp[g->links[i].xdp],
					g->workers[0].ports[g->workers[0].port_cnt - 1]);
	}
	return 0;
}

static void prepare_queues(struct sl_gateway *g)
{
	for (uint32_t i = 0; i < g->cfg->interface_cnt; i++) {
		const struct sl_cfg_interface *ci = &g->cfg->interfaces[i];
		const struct sl_xsk_options o = port_options(ci, &g->workers[0]);
		struct sl_nic_info nic;

		if (!g->links[i].by_sockets && !ci->queue_cnt && sl_probe_nic(ci->name, &nic) == 0)
			sl_queues_prepare(g, g->links[i].xdp, &nic, &o);
	}
}

static int create_workers(struct sl_gateway *g, struct sl_err *err)
{
	int rc = choose_frame_size(g, err);

	if (rc)
		return rc;
	g->workers = aligned_alloc(SL_CACHELINE, g->cfg->worker_cnt * sizeof(*g->workers));
	if (!g->workers)
		return fail_errno(err, -ENOMEM, "workers");
	memset(g->workers, 0, g->cfg->worker_cnt * sizeof(*g->workers));
	for (unsigned i = 0; i < g->cfg->worker_cnt; i++) {
		g->worker_cnt++;
		rc = sl_worker_init(&g->workers[i], g->cfg, i, g->frame_size);
		if (rc)
			return fail_errno(
				err, rc,
				"cannot allocate a worker's frames; lower limits { frame_memory }");
	}
	return 0;
}

static int build_workers(struct sl_gateway *g, struct sl_err *err)
{
	int rc = 0;

	if (g->worker_cnt > 1) {
		g->hub = sl_handover_hub_create(g->worker_cnt,
						(g->cfg->limits.max_connections +
						 sl_core_server_conns(g->cfg, g->frame_size)) *
							g->worker_cnt,
						g->frame_size);
		if (!g->hub)
			return fail_errno(err, -errno, "hand-over directory");
	}
	g->tls_threads = sl_tls_threads_new(g->cfg, g->workers, g->worker_cnt);
	if (!g->tls_threads)
		return fail_errno(err, -ENOMEM, "handshakes");
	sl_health_table_init(&g->health, g->worker_cnt);
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		struct sl_worker *w = &g->workers[i];
		struct sl_tls_config tls = {0};
		struct sl_core_maps maps = {
			.service_cnt = g->service_max,
			.hist = sl_xdp_hist(&g->xdp[0], i, 0, 0),
			.live = sl_xdp_live(&g->xdp[0], i, 0),
			.ctl = g->xdp[0].ctl,
			.health = &g->health,
			.lane = i,
		};

		if (g->hub)
			rc = sl_handover_join(g->hub, i, &w->net);
		sl_tls_threads_join(g->tls_threads, i, &tls);
		if (!rc)
			rc = sl_worker_build(w, g->cfg, &maps, &tls);
		if (rc)
			return fail_errno(err, rc, "cannot build a worker");
	}
	return 0;
}

int sl_gateway_start(struct sl_gateway *g, struct sl_err *err)
{
	int rc;

	for (unsigned i = 0; i < g->worker_cnt; i++) {
		rc = sl_worker_start(&g->workers[i]);

		if (rc)
			return fail_errno(err, rc, "cannot start a worker");
	}
	sl_rss_follow(g, sl_now_ns());
	sl_upstreams_follow(g, sl_now_ns());
	rc = sl_tls_threads_start(g->tls_threads, g->cfg);
	if (rc)
		return fail_errno(err, rc, "cannot start handshakes");
	if (sl_cfg_gen_start(g))
		return fail_errno(err, -errno, "cannot start a dialer");
	g->open_until_ns = sl_now_ns() + OPEN_WAIT_NS;
	return 0;
}

/* Opens listening sockets, and gives workers the addresses. Must precede redirection of packets. */
static int prepare_listeners(struct sl_gateway *g, struct sl_err *err)
{
	uint32_t cnt;
	struct sl_net_listener *l = sl_listeners_list(g->cfg, &cnt);
	int rc = l ? 0 : -errno;

	g->opening = l;
	g->opening_cnt = cnt;
	sl_listeners_exclude_links(g);
	if (sl_unix_sockets_open(&g->unix_sockets, g->cfg, err))
		return -EADDRINUSE;
	if (l && sl_ports_reserve(&g->ports, g->cfg, (struct sl_ports_want){l, cnt}, err))
		return -EADDRINUSE;
	for (uint32_t i = 0; i < g->xdp_cnt && !rc; i++)
		rc = sl_xdp_edge_ports(&g->xdp[i], g->cfg->limits.port_first,
				       g->cfg->limits.port_last);
	for (unsigned w = 0; w < g->worker_cnt && !rc; w++)
		rc = sl_net_set_listeners(&g->workers[w].net, l, cnt);
	if (!rc)
		rc = sl_acl_apply(g, g->cfg);
	return rc ? fail_errno(err, rc, "cannot set the listeners") : 0;
}

struct sl_gateway *sl_gateway_open(const struct sl_config *cfg, struct sl_err *err)
{
	struct sl_gateway *g = calloc(1, sizeof(*g));
	int rc;

	if (!g)
		return NULL;
	g->cfg = g->first.cfg = cfg;
	g->host.fd = g->routes.fd = -1;
	g->generation = &g->first;
	/* Maps cannot grow: make room for any configuration. */
	g->service_max = SL_MAX_SERVICES;
	g->start_ns = sl_now_ns();
	g->xdp = calloc(cfg->interface_cnt + 1, sizeof(*g->xdp));
	g->links = calloc(cfg->interface_cnt + 1, sizeof(*g->links));
	g->link_cnt = cfg->interface_cnt;
	rc = sl_upstreams_start(g) ? fail_errno(err, -errno, "health checks") : 0;
	if (!rc)
		rc = g->xdp && g->links ? choose_links(g, err)
					: fail_errno(err, -ENOMEM, "gateway");
	if (!rc)
		rc = sl_server_ports_check(cfg, err);
	if (!rc)
		rc = sl_host_addrs_open(&g->host, err);
	if (!rc)
		rc = create_workers(g, err);
	if (!rc)
		rc = sl_routes_open(g, err);
	if (!rc)
		rc = open_interfaces(g, err);
	if (!rc)
		rc = open_ports(g, err);
	if (!rc)
		prepare_queues(g);
	if (!rc)
		rc = build_workers(g, err);
	if (!rc) {
		sl_cfg_gen_open(g);
		g->conn_mgr = sl_conn_mgr_create(g->workers, g->worker_cnt);
		rc = g->conn_mgr ? 0 : fail_errno(err, -ENOMEM, "gateway");
	}
	if (!rc)
		rc = sl_snapshot_init(g) ? fail_errno(err, -ENOMEM, "gateway") : 0;
	if (!rc)
		rc = prepare_listeners(g, err);
	if (!rc)
		return g;
	sl_gateway_close(g);
	return NULL;
}

void sl_gateway_close(struct sl_gateway *g)
{
	sl_conn_mgr_destroy(g->conn_mgr);
	for (unsigned i = 0; i < g->worker_cnt; i++)
		sl_worker_stop(&g->workers[i]);
	sl_tls_threads_stop(g->tls_threads);
	sl_queues_close(g);
	for (unsigned i = 0; i < g->worker_cnt; i++)
		sl_worker_fini(&g->workers[i]);
	sl_upstreams_close(g);
	sl_tls_threads_free(g->tls_threads);
	sl_handover_hub_destroy(g->hub);
	for (uint32_t i = 0; i < g->xdp_cnt; i++)
		sl_xdp_close(
			&g->xdp[g->xdp_cnt - 1 - i]); /* the others share the first one's maps */
	sl_snapshot_fini(g);
	sl_cfg_gens_free(g);
	sl_host_addrs_close(&g->host);
	sl_ports_close(&g->ports);
	sl_unix_sockets_follow(&g->unix_sockets, NULL, NULL);
	sl_host_routes_close(&g->routes);
	free(g->listening);
	free(g->opening);
	free(g->workers);
	sl_tables_close(g);
	free(g->xdp);
	free(g->links);
	free(g->rss);
	free(g);
}

bool sl_gateway_drain(struct sl_gateway *g)
{
	bool done = true, first = !g->draining;

	g->draining = true;
	if (first)
		sl_listeners_follow_ports(g);
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		if (first && sl_worker_tell(&g->workers[i],
					    &(struct sl_worker_msg){.verb = SL_WORKER_DRAIN})) {
			g->draining = false;
			return false;
		}
		if (!atomic_load_explicit(&g->workers[i].drained, memory_order_acquire))
			done = false;
	}
	return done;
}

bool sl_gateway_ready(const struct sl_gateway *g, struct sl_err *why)
{
	if (g->draining) {
		sl_err_set(why, "draining");
		return false;
	}
	for (uint32_t p = 0; p < g->cfg->pool_cnt; p++) {
		if (!sl_gateway_pool_ready(g, p) && !sl_cfg_is_mirror_only(g->cfg, p)) {
			sl_err_set(why, "no backend of pool %s is up", g->cfg->pools[p].name);
			return false;
		}
	}
	return true;
}

bool sl_gateway_is_open(const struct sl_gateway *g)
{
	return !g->opening;
}

void sl_gateway_status(const struct sl_gateway *g, char *text, size_t len)
{
	struct sl_strbuf b;
	uint32_t without = 0, more = 0;

	sl_strbuf_fixed(&b, text, len);
	if (g->draining)
		sl_strbuf_str(&b, "draining");
	else
		sl_strbuf_str(&b, sl_gateway_is_open(g) ? "serving" : "connecting to backends");
	for (uint32_t p = 0; p < g->cfg->pool_cnt && !g->draining; p++) {
		const char *name = g->cfg->pools[p].name;

		if (sl_gateway_pool_ready(g, p))
			continue;
		if (b.len + strlen(name) + POOL_NAMES_LEN >= len)
			more++;
		else
			sl_strbuf_printf(&b, "%s%s", without++ ? ", " : "; no backend: ", name);
	}
	if (more)
		sl_strbuf_printf(&b, " and %u more", more);
}

bool sl_gateway_needs_restart(struct sl_gateway *g, uint64_t now_ns, struct sl_err *why)
{
	uint32_t gone = 0;
	char name[IF_NAMESIZE];

	for (uint32_t i = 0; i < g->xdp_cnt; i++) {
		const struct sl_xdp *x = &g->xdp[i];

		if (if_indextoname((unsigned)x->ifindex, name)) {
			if (sl_xdp_status(x, why))
				return true;
			continue;
		}
		gone++;
		if (if_nametoindex(x->ifname)) {
			sl_err_set(why, "interface %s was created again", x->ifname);
			return true;
		}
	}
	if (!g->xdp_cnt || gone < g->xdp_cnt)
		g->gone_ns = 0;
	else if (!g->gone_ns)
		g->gone_ns = now_ns;
	if (!g->gone_ns || now_ns - g->gone_ns < GONE_WAIT_NS)
		return false;
	sl_err_set(why, "no interface has existed for 30 s");
	return true;
}

bool sl_gateway_fault(const struct sl_gateway *g, struct sl_err *why)
{
	for (unsigned i = 0; i < g->worker_cnt; i++) {
		for (unsigned p = 0; p < g->workers[i].port_cnt; p++) {
			if (sl_xsk_status(g->workers[i].ports[p], why))
				return true;
		}
	}
	for (uint32_t i = 0; i < g->xdp_cnt; i++) {
		if (sl_xdp_status(&g->xdp[i], why))
			return true;
	}
	return false;
}
