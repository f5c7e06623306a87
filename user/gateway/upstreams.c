/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/upstreams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "config/server.h"
#include "gateway/internal.h"
#include "gateway/server_checks.h"
#include "worker/upstream.h"

#define LOOK_NS SL_NS_PER_SEC

struct upstream_entry {
	struct sl_list link;
	char listen[SL_SERVER_ENDPOINT_LEN];
	unsigned worker;
	bool wanted, leaving;
	struct sl_upstream *upstream;
	struct sl_server_check *check;
};

static struct upstream_entry *find_entry(const struct sl_gateway *g, const char *listen)
{
	struct sl_list *at;

	sl_list_for_each (at, &g->upstreams) {
		struct upstream_entry *e = sl_container_of(at, struct upstream_entry, link);

		if (strcmp(e->listen, listen) == 0)
			return e;
	}
	return NULL;
}

static void tell_health(struct sl_gateway *g, const struct sl_server_check *check, const char *why)
{
	struct sl_worker_msg m = {.verb = SL_WORKER_UPSTREAM_HEALTH};
	struct sl_list *at;

	snprintf(m.why, sizeof(m.why), "%s", why ? why : "");
	sl_list_for_each (at, &g->upstreams) {
		struct upstream_entry *e = sl_container_of(at, struct upstream_entry, link);

		m.upstream = e->upstream;
		if (e->check == check && !e->leaving)
			(void)sl_worker_tell(&g->workers[e->worker], &m);
	}
}

static bool is_full(const struct sl_gateway *g, const struct sl_server_check *check,
		    uint32_t concurrency)
{
	struct sl_list *at;
	uint64_t cnt = 0;

	sl_list_for_each (at, &g->upstreams) {
		const struct upstream_entry *e = sl_container_of(at, struct upstream_entry, link);

		cnt += e->check == check ? sl_upstream_busy(e->upstream) : 0;
	}
	return cnt >= (uint64_t)concurrency * g->worker_cnt;
}

static const struct sl_server_checks_ops check_ops = {tell_health, is_full};

int sl_upstreams_start(struct sl_gateway *g)
{
	sl_list_init(&g->upstreams);
	g->server_checks = sl_server_checks_new(g, &check_ops);
	return g->server_checks ? 0 : -1;
}

static bool tell_worker(const struct sl_gateway *g, const struct upstream_entry *e,
			enum sl_worker_verb verb)
{
	const struct sl_worker_msg m = {.verb = verb, .upstream = e->upstream};

	return sl_worker_tell(&g->workers[e->worker], &m) == 0;
}

static void free_entry(struct upstream_entry *e)
{
	sl_list_del(&e->link);
	if (e->upstream)
		sl_upstream_close(e->upstream);
	sl_server_check_put(e->check);
	free(e);
}

static bool start_entry(struct sl_gateway *g, struct upstream_entry *e,
			const struct sl_cfg_pool *pool, const struct sl_cfg_backend *b,
			struct sl_err *err)
{
	char name[128];
	struct sl_upstream_options o = {.listen = e->listen,
					.name = name,
					.host = b->host,
					.concurrency = b->concurrency,
					.checked = pool->health.on,
					.h2 = sl_server_is_h2(b),
					.worker = e->worker};

	snprintf(name, sizeof(name), "%s/%s", pool->name, b->name);
	if (pool->health.on) {
		e->check = sl_server_check_get(g->server_checks, pool, b);
		if (!e->check)
			return false;
	}
	if (sl_server_at(b, &o.at))
		e->upstream = sl_upstream_open(&o, err);
	return e->upstream && tell_worker(g, e, SL_WORKER_UPSTREAM);
}

static void open_entry(struct sl_gateway *g, const struct sl_cfg_pool *pool,
		       const struct sl_cfg_backend *b, const struct upstream_entry *like)
{
	struct upstream_entry *e = malloc(sizeof(*e));
	struct sl_err err = SL_ERR(200);

	sl_err_set(&err, "out of memory");
	if (e) {
		*e = *like;
		sl_list_init(&e->link);
		if (start_entry(g, e, pool, b, &err)) {
			sl_list_add_tail(&g->upstreams, &e->link);
			return;
		}
		free_entry(e);
	}
	SL_LOG_EVERY(SL_NS_PER_SEC, SL_LOG_ERR, "upstream: %s/%s: %s; it is tried again",
		     pool->name, b->name, err.text);
}

/*
 * Opens missing servers of cfg. A server that leaves keeps its endpoint; it is opened again
 * afterwards.
 */
static void want_servers(struct sl_gateway *g, const struct sl_config *cfg)
{
	for (uint32_t p = 0; p < cfg->pool_cnt; p++) {
		const struct sl_cfg_pool *pool = &cfg->pools[p];

		for (uint32_t i = 0; i < pool->backend_cnt * g->worker_cnt; i++) {
			const struct sl_cfg_backend *b = &pool->backends[i / g->worker_cnt];
			struct upstream_entry want = {.worker = i % g->worker_cnt, .wanted = true},
					      *e;

			if (b->way != SL_VIA_STACK || !g->workers[want.worker].upstreams)
				continue;
			sl_server_endpoint(want.listen, want.worker, pool->name, b);
			e = find_entry(g, want.listen);
			if (e)
				e->wanted = true;
			else
				open_entry(g, pool, b, &want);
		}
	}
}

void sl_upstreams_follow(struct sl_gateway *g, uint64_t now_ns)
{
	bool look = now_ns >= g->upstreams_ns;
	struct sl_list *at, *next;

	sl_server_checks_run(g->server_checks, now_ns);
	if (!look && g->upstreams_for == g->generation->number && !g->next)
		return;
	g->upstreams_for = g->generation->number;
	if (look)
		g->upstreams_ns = now_ns + LOOK_NS;
	sl_list_for_each (at, &g->upstreams)
		sl_container_of(at, struct upstream_entry, link)->wanted = false;
	want_servers(g, g->cfg);
	if (g->next)
		want_servers(g, g->next->cfg);
	sl_list_for_each_safe (at, next, &g->upstreams) {
		struct upstream_entry *e = sl_container_of(at, struct upstream_entry, link);

		if (look)
			sl_upstream_locate(e->upstream);
		if (!e->wanted && !e->leaving && g->reload == SL_RELOAD_NONE)
			e->leaving = tell_worker(g, e, SL_WORKER_UPSTREAM_LEAVE);
		if (e->leaving && sl_upstream_has_left(e->upstream))
			free_entry(e);
	}
}

void sl_upstreams_close(struct sl_gateway *g)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &g->upstreams)
		free_entry(sl_container_of(at, struct upstream_entry, link));
	sl_server_checks_free(g->server_checks);
}

int sl_gateway_fd(const struct sl_gateway *g)
{
	return sl_server_checks_fd(g->server_checks);
}

uint64_t sl_gateway_due_ns(const struct sl_gateway *g)
{
	return sl_server_checks_due_ns(g->server_checks);
}
