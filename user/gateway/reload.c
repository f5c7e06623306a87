/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/quota.h"
#include "core/reload.h"
#include "gateway/internal.h"
#include "gateway/upstreams.h"
#include "gateway/ways.h"

enum {
	DIAL_WAIT_MS = 1500,
	GENERATIONS_MAX = 1024, /* endless streams keep old ones */
	LINGER_MS = 2000,       /* for replies in send buffers, closing connections */
};

void sl_cfg_gen_open(struct sl_gateway *g)
{
	for (unsigned w = 0; w < g->worker_cnt; w++)
		g->first.wcfgs[w] = g->workers[w].core.wcfg;
	for (uint32_t p = 0; p < g->cfg->pool_cnt; p++)
		g->first.slots[p] = p;
}

static struct sl_dialer *dial_backend(struct sl_gateway *g, struct sl_cfg_gen *e, uint32_t p,
				      uint32_t b)
{
	struct sl_backend_ref *backends[SL_MAX_WORKERS] = {NULL};
	const struct sl_cfg_pool *pool = &e->cfg->pools[p];
	struct sl_dialer *d;

	for (unsigned w = 0; w < g->worker_cnt; w++) {
		if (!SL_ENSURE(e->wcfgs[w]))
			return NULL;
		backends[w] = e->wcfgs[w]->pools[p].backends[b];
	}
	if (!SL_ENSURE(backends[0]))
		return NULL;
	d = backends[0]->dialer;
	if (d) {
		sl_dialer_keep(d, e->number);
		return d;
	}
	d = sl_dialer_add(g->conn_mgr, pool, b, backends, e->number, e->cfg->agents.count);
	for (unsigned w = 0; w < g->worker_cnt; w++) {
		backends[w]->dialer = d;
		if (!d)
			atomic_store(&backends[w]->released, true);
	}
	return d;
}

static int dial_pool(struct sl_gateway *g, struct sl_cfg_gen *e, uint32_t p)
{
	struct sl_dialer *dialers[SL_CFG_MAX_BACKENDS];
	const struct sl_cfg_pool *pool = &e->cfg->pools[p];
	int error = 0, rc;

	for (uint32_t b = 0; b < pool->backend_cnt; b++) {
		dialers[b] = dial_backend(g, e, p, b);
		error = dialers[b] ? error : errno;
	}
	rc = sl_hash_ring_enter(g->conn_mgr, pool, dialers, e->number);
	return rc ? -rc : error;
}

static int dial_generation(struct sl_gateway *g, struct sl_cfg_gen *e)
{
	int error = 0;

	for (uint32_t p = 0; p < e->cfg->pool_cnt; p++) {
		int one = dial_pool(g, e, p);

		error = one ? one : error;
	}
	errno = error;
	return error ? -1 : 0;
}

int sl_cfg_gen_start(struct sl_gateway *g)
{
	int rc;

	sl_conn_mgr_set_max_promoted(g->conn_mgr, g->cfg->limits.max_promoted);
	rc = dial_generation(g, g->generation);
	sl_conn_mgr_switch(g->conn_mgr, g->generation->number);
	return rc;
}

static void free_generation(struct sl_gateway *g, struct sl_cfg_gen *e)
{
	sl_config_free(e->own);
	if (e != &g->first)
		free(e);
}

void sl_cfg_gens_free(struct sl_gateway *g)
{
	struct sl_cfg_gen *older;

	if (g->next)
		free_generation(g, g->next);
	for (struct sl_cfg_gen *e = g->generation; e; e = older) {
		older = e->older;
		free_generation(g, e);
	}
}

enum slot_use { SLOT_FREE, SLOT_LEAVING /* free once workers are prepared */, SLOT_TAKEN };

static void scan_slots(const struct sl_gateway *g, const struct sl_config *next,
		       uint8_t use[SL_MAX_SERVICES])
{
	const struct sl_list *at;

	for (unsigned w = 0; w < g->worker_cnt; w++) {
		sl_list_for_each (at, &g->workers[w].core.pools_made) {
			uint32_t slot = sl_container_of(at, struct sl_pool, made)->slot;

			if (slot != SL_NO_SLOT)
				use[slot] = SLOT_LEAVING;
		}
	}
	for (uint32_t p = 0; p < next->pool_cnt; p++) {
		const struct sl_worker_cfg_pool *was =
			sl_worker_cfg_find(g->generation->wcfgs[0], next->pools[p].name);

		if (was)
			use[was->pool->slot] = SLOT_TAKEN;
	}
}

static uint32_t take_slot(const struct sl_gateway *g, uint8_t use[SL_MAX_SERVICES])
{
	for (int free = SLOT_FREE; free <= SLOT_LEAVING; free++) {
		for (uint32_t slot = 0; slot < g->service_max; slot++) {
			if (use[slot] != free)
				continue;
			use[slot] = SLOT_TAKEN;
			return slot;
		}
	}
	return g->service_max;
}

static int choose_slots(struct sl_gateway *g, struct sl_cfg_gen *e, struct sl_err *err)
{
	uint8_t use[SL_MAX_SERVICES] = {SLOT_FREE};

	scan_slots(g, e->cfg, use);
	for (uint32_t p = 0; p < e->cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &e->cfg->pools[p];
		const struct sl_worker_cfg_pool *was =
			sl_worker_cfg_find(g->generation->wcfgs[0], pool->name);
		const struct sl_cfg_location at = sl_config_location(e->cfg, pool->line);

		e->slots[p] = was ? was->pool->slot : take_slot(g, use);
		if (e->slots[p] == g->service_max)
			return sl_fail(
				err, -EINVAL,
				"%s:%d: found pool \"%s\" beyond the %u that the adopted XDP "
				"program's maps have room for; allowed: fewer, or a program "
				"that the gateway attaches",
				at.file, at.line, pool->name, g->service_max);
	}
	return 0;
}

static void clear_slots(struct sl_gateway *g, const struct sl_cfg_gen *e)
{
	for (uint32_t p = 0; p < e->cfg->pool_cnt; p++) {
		const uint32_t slot = e->slots[p];

		if (sl_worker_cfg_find(g->generation->wcfgs[0], e->cfg->pools[p].name))
			continue;
		memset(&g->xdp[0].ctl[slot], 0, sizeof(struct sl_svc_ctl));
		for (unsigned w = 0; w < g->worker_cnt; w++) {
			memset(sl_xdp_hist(&g->xdp[0], w, slot, 0), 0,
			       SL_STAGE_CNT * sizeof(struct sl_svc_hist));
			memset(sl_xdp_live(&g->xdp[0], w, slot), 0, sizeof(struct sl_svc_live));
		}
	}
}

static void send_all(struct sl_gateway *g, enum sl_worker_verb verb, const struct sl_cfg_gen *e)
{
	for (unsigned w = 0; w < g->worker_cnt; w++)
		sl_worker_tell(&g->workers[w],
			       &(struct sl_worker_msg){.verb = verb, .wcfg = e->wcfgs[w]});
}

static bool all_reached(const struct sl_gateway *g, const struct sl_cfg_gen *e,
			enum sl_worker_cfg_step step)
{
	for (unsigned w = 0; w < g->worker_cnt; w++) {
		if (sl_worker_cfg_step(e->wcfgs[w]) < step)
			return false;
	}
	return true;
}

static void reap_generations(struct sl_gateway *g)
{
	struct sl_cfg_gen **at = &g->generation->older;
	bool had = *at != NULL;

	sl_conn_mgr_reap(g->conn_mgr);
	for (unsigned w = 0; w < g->worker_cnt; w++)
		sl_pools_reap(&g->workers[w].core);
	while (*at) {
		struct sl_cfg_gen *e = *at;
		bool gone = true;

		for (unsigned w = 0; w < g->worker_cnt; w++)
			gone = gone && sl_worker_cfg_step(e->wcfgs[w]) == SL_WORKER_CFG_GONE;
		if (!gone) {
			at = &e->older;
			continue;
		}
		*at = e->older;
		for (unsigned w = 0; w < g->worker_cnt; w++)
			sl_worker_cfg_free(e->wcfgs[w]);
		free_generation(g, e);
	}
	if (had && !g->generation->older)
		g->trim_ns = sl_now_ns() + LINGER_MS * SL_NS_PER_MS;
}

static int make_generation(struct sl_gateway *g, struct sl_cfg_gen *e, struct sl_err *err)
{
	int rc = choose_slots(g, e, err);

	if (rc)
		return rc;
	for (unsigned w = 0; w < g->worker_cnt && !rc; w++) {
		struct sl_worker_cfg *t = sl_worker_cfg_create(&g->workers[w].core, e->cfg,
							       g->generation->wcfgs[w], e->slots);

		e->wcfgs[w] = t;
		if (t)
			t->listeners = sl_listeners_list(e->cfg, &t->listener_cnt);
		if (!t)
			rc = -ENOMEM;
		else if (!t->listeners)
			rc = -errno;
	}
	if (rc)
		sl_err_set(err, "%s: %s", e->cfg->file, strerror(-rc));
	for (unsigned w = 0; w < g->worker_cnt && rc; w++) {
		if (e->wcfgs[w])
			sl_worker_cfg_free(e->wcfgs[w]);
	}
	return rc;
}

static int reserve_ports(struct sl_gateway *g, const struct sl_config *next, struct sl_err *err)
{
	uint32_t cnt;
	struct sl_net_listener *list = sl_listeners_list(next, &cnt);
	int rc;

	if (!list)
		return sl_fail(err, -errno, "%s: %s", next->file, strerror(errno));
	rc = sl_ports_reserve(&g->ports, next, (struct sl_ports_want){list, cnt}, err);
	free(list);
	if (!rc)
		rc = sl_unix_sockets_open(&g->unix_sockets, next, err);
	if (rc)
		sl_listeners_follow_ports(g);
	return rc;
}

int sl_gateway_reload(struct sl_gateway *g, struct sl_config *next, struct sl_err *err)
{
	struct sl_cfg_gen *e;
	unsigned generations = 1;
	int rc;

	reap_generations(g);
	if (g->reload != SL_RELOAD_NONE)
		return -EBUSY;
	for (e = g->generation; e->older; e = e->older)
		generations++;
	if (generations == GENERATIONS_MAX)
		return sl_fail(err, -EAGAIN,
			       "%s:0: found %d older configurations that streams still have; "
			       "allowed: %d; end some (routes with max_duration), or restart",
			       next->file, GENERATIONS_MAX - 1, GENERATIONS_MAX - 2);
	rc = reserve_ports(g, next, err);
	if (rc)
		return rc;
	e = calloc(1, sizeof(*e));
	if (!e) {
		sl_listeners_follow_ports(g);
		return sl_fail(err, -ENOMEM, "%s: out of memory", next->file);
	}
	sl_config_keep(next, g->cfg);
	sl_ways_choose(g, next);
	e->cfg = next;
	e->number = g->generation->number + 1;
	rc = sl_quotas_load(next, g->cfg, err);
	if (!rc)
		rc = make_generation(g, e, err);
	if (rc) {
		sl_listeners_follow_ports(g);
		free(e);
		return rc;
	}
	e->own = next;
	g->next = e;
	g->reload = SL_RELOAD_PREPARE;
	g->dial_until_ns = sl_now_ns() + DIAL_WAIT_MS * SL_NS_PER_MS;
	rc = sl_tls_threads_start(g->tls_threads, next);
	if (rc)
		sl_log_err("reload: cannot start handshakes: %s", strerror(-rc));
	send_all(g, SL_WORKER_PREPARE, e);
	if (dial_generation(g, e))
		sl_log_err("reload: cannot dial a backend: %s", strerror(errno));
	return 0;
}

static bool switch_generations(struct sl_gateway *g)
{
	struct sl_cfg_gen *e = g->next;

	if (sl_snapshot_resize(g, e->cfg))
		return false;
	clear_slots(g, e);
	g->next = NULL;
	e->older = g->generation;
	g->generation = e;
	g->cfg = e->cfg;
	sl_conn_mgr_switch(g->conn_mgr, e->number);
	sl_conn_mgr_set_max_promoted(g->conn_mgr, e->cfg->limits.max_promoted);
	g->reload = SL_RELOAD_SWITCH;
	send_all(g, SL_WORKER_SWITCH, e);
	return true;
}

bool sl_gateway_step(struct sl_gateway *g)
{
	sl_listeners_follow_host(g, sl_now_ns());
	sl_ports_retry(&g->ports, sl_now_ns());
	sl_routes_follow_host(g, sl_now_ns());
	sl_queues_follow(g, sl_now_ns());
	sl_rss_follow(g, sl_now_ns());
	sl_upstreams_follow(g, sl_now_ns());
	sl_offenders_follow(g, sl_now_ns());
	sl_listeners_tell_workers(g);
	if (g->reload != SL_RELOAD_SWITCH)
		sl_listeners_open(g);
	if (g->reload == SL_RELOAD_NONE)
		reap_generations(g);
	if (g->stale_cnt && !g->generation->older && sl_now_ns() >= g->trim_ns)
		sl_listeners_trim(g);
	if (g->reload == SL_RELOAD_PREPARE && all_reached(g, g->next, SL_WORKER_CFG_PREPARED) &&
	    (sl_now_ns() >= g->dial_until_ns || sl_hash_rings_ready(g->conn_mgr)) &&
	    !switch_generations(g))
		return true;
	if (g->reload == SL_RELOAD_SWITCH &&
	    all_reached(g, g->generation, SL_WORKER_CFG_SWITCHED)) {
		struct sl_net_listener *list;
		uint32_t cnt;
		int rc = 0;

		for (unsigned w = 0; w < g->worker_cnt; w++)
			sl_worker_cfg_tidy(g->generation->wcfgs[w]);
		g->reload = SL_RELOAD_NONE;
		rc = sl_acl_apply(g, g->cfg);
		if (rc)
			sl_log_err("reload: cannot set the prefixes: %s", strerror(-rc));
		list = sl_listeners_list(g->cfg, &cnt);
		rc = list ? sl_listeners_apply(g, list, cnt) : -errno;
		if (rc)
			sl_log_err("reload: cannot set the listeners: %s", strerror(-rc));
	}
	return g->reload != SL_RELOAD_NONE;
}
