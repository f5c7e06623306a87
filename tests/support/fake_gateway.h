/* SPDX-License-Identifier: Apache-2.0 */
/* A gateway made of constants, for what stands above gateway.h. */
#ifndef SL_TESTS_FAKE_GATEWAY_H
#define SL_TESTS_FAKE_GATEWAY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "gateway/gateway.h"

struct sl_gateway {
	struct sl_gateway_info info;
	struct sl_svc_hist hist[2][1][SL_STAGE_CNT];
	struct sl_svc_live live[2];
	struct sl_svc_ctl ctl;
	struct sl_ring *events[2];
	bool events_wanted;
	struct sl_codes pool_codes[2];
	struct sl_backend_codes backend_codes;
	atomic_bool ready, closed, faulty, restart, drain_called, drain_done;
	/* configuration that it was given, and takes after `busy` steps */
	struct sl_config *reloaded;
	int busy, refuses;
	struct sl_backend_override override;
};

static struct sl_gateway gw;

const struct sl_gateway_info *sl_gateway_info(struct sl_gateway *g)
{
	return &g->info;
}

const struct sl_svc_hist *sl_gateway_hist(const struct sl_gateway *g, uint32_t worker,
					  uint32_t service, enum sl_stage stage)
{
	return &g->hist[worker][service][stage];
}

void sl_gateway_live(const struct sl_gateway *g, uint32_t worker, uint32_t service,
		     struct sl_svc_live *out)
{
	(void)service;
	*out = g->live[worker];
}

/* One for each worker, shared by all routes but the last: no route. */
static struct sl_route_codes *route_codes[2][2];

const struct sl_route_codes *sl_gateway_route_codes(const struct sl_gateway *g, uint32_t worker,
						    uint32_t route)
{
	return route_codes[worker][route == g->info.cfg->route_cnt];
}

const struct sl_codes *sl_gateway_pool_codes(const struct sl_gateway *g, uint32_t worker,
					     uint32_t pool)
{
	(void)pool;
	return &g->pool_codes[worker];
}

static struct sl_stage_times stage_times[SL_STAGE_CNT]; /* of the last pool written */
static char stage_pool[32];

int sl_gateway_set_stage(struct sl_gateway *g, const struct sl_stage_key *key,
			 const struct sl_stage_times *v)
{
	(void)g;
	stage_times[key->stage] = *v;
	memcpy(stage_pool, key->pool, sizeof(stage_pool));
	return 0;
}

void sl_gateway_clear_stages(struct sl_gateway *g)
{
	(void)g;
	memset(stage_times, 0, sizeof(stage_times));
}

uint32_t sl_gateway_slot(const struct sl_gateway *g, uint32_t pool)
{
	(void)g;
	return pool;
}

struct sl_svc_ctl *sl_gateway_ctl(struct sl_gateway *g, uint32_t service)
{
	(void)service;
	return &g->ctl;
}

struct sl_ring *sl_gateway_events(struct sl_gateway *g, uint32_t worker)
{
	return worker < 2 ? g->events[worker] : NULL;
}

void sl_gateway_want_events(struct sl_gateway *g, bool wanted)
{
	g->events_wanted = wanted;
}

bool sl_gateway_ready(const struct sl_gateway *g, struct sl_err *why)
{
	if (!g->ready)
		sl_err_set(why, "no backend of pool score is up");
	return g->ready;
}

bool sl_gateway_pool_ready(const struct sl_gateway *g, uint32_t pool)
{
	(void)pool;
	return g->ready;
}

/* Backend "score/a" has an override. */
static bool is_known_backend(const char *pool, const char *backend)
{
	return strcmp(pool, "score") == 0 && strcmp(backend, "a") == 0;
}

int sl_gateway_override(const struct sl_gateway *g, const char *pool, const char *backend,
			struct sl_backend_override *out)
{
	if (!is_known_backend(pool, backend))
		return -ENOENT;
	*out = g->override;
	return 0;
}

int sl_gateway_override_set(struct sl_gateway *g, const char *pool, const char *backend,
			    const struct sl_backend_override *o)
{
	if (!is_known_backend(pool, backend))
		return -ENOENT;
	g->override = *o;
	return 0;
}

bool sl_gateway_is_open(const struct sl_gateway *g)
{
	return !g->closed;
}

void sl_gateway_status(const struct sl_gateway *g, char *text, size_t len)
{
	snprintf(text, len, "%s",
		 g->closed  ? "connecting"
		 : g->ready ? "serving"
			    : "no backend: a");
}

bool sl_gateway_fault(const struct sl_gateway *g, struct sl_err *why)
{
	if (g->faulty)
		sl_err_set(why, "interface sl0 is down");
	return g->faulty;
}

bool sl_gateway_needs_restart(struct sl_gateway *g, uint64_t now_ns, struct sl_err *why)
{
	(void)now_ns;
	if (g->restart)
		sl_err_set(why, "interface sl0 was created again");
	return g->restart;
}

bool sl_gateway_drain(struct sl_gateway *g)
{
	g->drain_called = true;
	return g->drain_done;
}

int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, struct sl_err *why)
{
	if (g->busy)
		return -EBUSY;
	if (g->refuses)
		return sl_fail(why, -EINVAL, "no room");
	sl_config_free(g->reloaded);
	g->reloaded = next;
	g->info.cfg = next;
	return 0;
}

bool sl_gateway_step(struct sl_gateway *g)
{
	return g->busy && g->busy--;
}

int sl_gateway_fd(const struct sl_gateway *g)
{
	(void)g;
	return -1;
}

uint64_t sl_gateway_due_ns(const struct sl_gateway *g)
{
	(void)g;
	return UINT64_MAX;
}

static struct sl_acl_rule edge_rules[8];
static uint32_t edge_cnt;

int sl_gateway_acl_change(struct sl_gateway *g, const char *ifname, const struct sl_acl_rule *rules,
			  uint32_t cnt, struct sl_err *why)
{
	(void)g;
	if (strcmp(ifname, "sl0") != 0)
		return sl_fail(why, -ENODEV, "found interface \"%s\"", ifname);
	memcpy(edge_rules, rules, cnt * sizeof(*rules));
	edge_cnt = cnt;
	return 0;
}

int sl_gateway_acl_list(struct sl_gateway *g, const char *ifname, struct sl_acl_rule *rules,
			uint32_t max)
{
	(void)g, (void)ifname, (void)max;
	memcpy(rules, edge_rules, edge_cnt * sizeof(*rules));
	return (int)edge_cnt;
}

uint32_t sl_gateway_offenders(struct sl_gateway *g, const char *ifname,
			      struct sl_xdp_offender *list, uint32_t max)
{
	(void)g, (void)ifname, (void)list, (void)max;
	return 0;
}

int sl_gateway_unlist(struct sl_gateway *g, const char *ifname, const struct sl_addr *source)
{
	(void)g, (void)ifname, (void)source;
	return 0;
}

static void fill_route_codes(void)
{
	static const char *hosts[] = {"a.example"};
	static const struct sl_cfg_route route = {
		.prefix = "/score", .prefix_len = 6, .hosts = hosts, .host_cnt = 1};
	static struct sl_list made[2];

	for (int w = 0; w < 2 && !made[w].next; w++) {
		sl_list_init(&made[w]);
		route_codes[w][0] = sl_route_codes_get(&made[w], &route);
		route_codes[w][1] = sl_route_codes_get(&made[w], NULL);
	}
}

/* As it is at first; cfg stays the caller's. */
__attribute__((unused)) static void gw_fill(struct sl_config *cfg)
{
	static struct sl_worker_info workers[2];
	static struct sl_interface_info iface = {"sl0", "native, \"single\" program", "", {0}, 0};
	static struct sl_backend_info backends[1];

	memset(&gw, 0, sizeof(gw));
	iface.verdicts[SL_RX_PASS_FRAGMENT] = 5;
	backends[0] = (struct sl_backend_info){
		.pool = "score", .name = "a", .info = "shm /a", .state = SL_RPC_UP};
	backends[0].stats.replies = 9;
	backends[0].codes = &gw.backend_codes;
	fill_route_codes();
	for (int w = 0; w < 2; w++) {
		workers[w] = (struct sl_worker_info){.cpu = w, .frames = 100, .frames_free = 98};
		workers[w].backends = backends;
		workers[w].backend_cnt = 1;
		workers[w].port_cnt = 1;
		workers[w].ports[0] =
			(struct sl_port_info){"sl0", (uint16_t)w, SL_PORT_GENERIC, {0}};
		workers[w].drops[SL_DROP_TCP_PAWS] = 3;
		workers[w].core.outcomes[SL_OUTCOME_EXPIRED] = 4;
		workers[w].core.front_errors[SL_FRONT_ERR_SMUGGLING] = 2;
		workers[w].core.requests = 70;
		workers[w].udp.datagrams_in = 21;
		workers[w].h2.streams = 22;
		workers[w].exchanges_used = 1;
	}
	gw.info = (struct sl_gateway_info){.cfg = cfg,
					   .service_max = 1,
					   .start_ns = 1,
					   .workers = workers,
					   .worker_cnt = 2,
					   .interfaces = &iface,
					   .interface_cnt = 1};
	gw.live[0].batch_cap = 17;
	gw.ready = true;
	gw.drain_done = true;
}

#endif
