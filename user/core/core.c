/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "core/client.h"
#include "core/reload.h"
#include "core/service.h"
#include "front/h2.h"

enum {
	TIMER_TICK_MS = 4,
	TIMERS_PER_RUN = 256,
	/* Pipelined replies that wait for each other are let go in one burst, up to this many. */
	DEFERRED_ROUNDS = 16,
	/* Heads larger than a frame that arrive in pieces, at once: what slowloris can cost. */
	HEADS_MAX = 512,
};

void sl_core_set_limits(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;

	sl_front_limits_default(&c->limits);
	c->limits.max_head = l->max_head;
	c->limits.max_target = l->max_target;
	c->limits.max_headers = l->max_headers;
	c->limits.max_pipeline = l->max_pipeline;
	c->limits.max_streams = l->max_streams;
	c->limits.max_body = l->max_body;
	c->limits.max_message = l->max_message;
}

static bool pool_serves(const struct sl_core *c, uint32_t pool)
{
	for (uint32_t b = 0; b < c->cfg->pools[pool].backend_cnt; b++) {
		if (sl_core_link(c, pool, b) == SL_LINK_UP)
			return true;
	}
	return false;
}

/* "/pkg.Service/" or "/pkg.Service" is the route of pkg.Service. */
static bool route_is(const struct sl_cfg_route *r, struct sl_span name)
{
	struct sl_span prefix = sl_span_skip(sl_span_of(r->prefix, r->prefix_len), 1);

	if (prefix.len && prefix.ptr[prefix.len - 1] == '/')
		prefix.len--;
	return sl_span_eq(prefix, name);
}

static enum sl_serving serving(void *arg, struct sl_span name)
{
	const struct sl_core *c = arg;
	enum sl_serving found = name.len ? SL_SERVING_UNKNOWN : SL_SERVING_YES;

	for (uint32_t i = 0; i < c->cfg->pool_cnt; i++) {
		if (!c->cfg->pools[i].name)
			continue;
		if (!name.len && !pool_serves(c, i))
			found = SL_SERVING_NO;
		else if (name.len && sl_span_eq(sl_span_cstr(c->cfg->pools[i].name), name))
			found = pool_serves(c, i) ? SL_SERVING_YES : SL_SERVING_NO;
	}
	for (uint32_t i = 0; name.len && i < c->cfg->route_cnt; i++) {
		const struct sl_cfg_route *r = &c->cfg->routes[i];

		if (r->pool >= 0 && route_is(r, name))
			found = pool_serves(c, (uint32_t)r->pool) ? SL_SERVING_YES : SL_SERVING_NO;
	}
	return found == SL_SERVING_YES && c->draining ? SL_SERVING_NO : found;
}

static void set_env(struct sl_core *c)
{
	c->env.umem = c->net->umem;
	c->env.limits = &c->limits;
	c->env.host = &sl_client_host_ops;
	c->env.now_ns = &c->now_ns;
	c->env.date = c->date;
	c->env.errors = c->stats.front_errors;
	c->env.serving = serving;
	c->env.serving_arg = c;
	c->env.descriptors = c->cfg->descriptors;
}

static struct sl_tcp *create_tcp(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;
	struct sl_tcp_config t;

	sl_tcp_config_default(&t);
	t.max_conns = l->max_connections;
	t.max_half_open = l->max_half_open;
	t.max_conns_per_addr = l->max_per_address;
	t.keepalive_ns = l->keepalive_ns;
	t.newreno = l->newreno;
	t.rst_closed_ports = l->rst_closed_ports;
	return sl_tcp_create(c->net, &t, &sl_client_tcp_ops, c);
}

static struct sl_rpc *create_rpc(struct sl_core *c)
{
	struct sl_rpc_memory mem = {.addr = c->net->umem->area, .len = c->net->umem->area_len};
	struct sl_rpc_config r;

	sl_rpc_config_default(&r);
	r.max_outstanding = c->cfg->limits.max_exchanges;
	return sl_rpc_create(&r, &mem, &sl_service_rpc_ops, c);
}

static struct sl_h2_env *create_h2(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;
	struct sl_h2_config h;

	sl_h2_config_default(&h);
	if (h.max_connections > l->max_connections)
		h.max_connections = l->max_connections;
	return sl_h2_env_create(&h, &c->limits);
}

static int create_memory(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;
	int rc = sl_pool_init(&c->clients, sizeof(struct sl_client), 64, l->max_connections);

	if (!rc)
		rc = sl_pool_init(&c->exchanges, sizeof(struct sl_exchange), 64, l->max_exchanges);
	if (!rc)
		rc = sl_pool_init(&c->heads, l->max_head, 64, HEADS_MAX);
	if (!rc)
		rc = sl_pool_init(&c->flights, sizeof(struct sl_flight), 8, l->max_exchanges);
	if (rc)
		return rc;
	c->env.h2 = create_h2(c);
	if (!c->env.h2)
		return -ENOMEM;
	c->env.heads = &c->heads;
	c->span_cap = c->net->umem->frame_cnt;
	c->spans = calloc(c->span_cap, sizeof(*c->spans));
	c->meta_buf = malloc(SL_RPC_MAX_META);
	c->services = calloc(c->maps.service_cnt + 1, sizeof(*c->services));
	return c->spans && c->meta_buf && c->services ? 0 : -ENOMEM;
}

static int create_parts(struct sl_core *c)
{
	c->tcp = create_tcp(c);
	c->rpc = c->tcp ? create_rpc(c) : NULL;
	if (!c->rpc)
		return -errno;
	for (uint32_t i = 0; i < c->cfg->pool_cnt; i++) {
		int rc;

		c->service_cnt++;
		rc = sl_service_init(&c->services[i], c, i);
		if (rc)
			return rc;
	}
	return sl_dgram_init(c);
}

int sl_core_init(struct sl_core *c, const struct sl_config *cfg, struct sl_net *net,
		 const struct sl_core_maps *maps)
{
	int rc;

	*c = (struct sl_core){.cfg = cfg, .net = net, .maps = *maps, .first_gen.cfg = cfg};
	c->gen = &c->first_gen;
	sl_list_init(&c->deferred);
	c->now_ns = sl_now_ns();
	sl_wheel_init(&c->wheel, c->now_ns, TIMER_TICK_MS * SL_NS_PER_MS);
	sl_core_set_limits(c);
	set_env(c);
	sl_core_set_now(c, c->now_ns);
	rc = create_memory(c);
	if (!rc)
		rc = create_parts(c);
	if (rc)
		sl_core_fini(c);
	return rc;
}

static void flush_ports(struct sl_net *n)
{
	sl_net_flush(n);
	for (unsigned i = 0; i < n->port_cnt; i++)
		n->ports[i]->ops->flush(n->ports[i]);
}

/* Each is told by RST: nobody answers its segments from now on. */
static void drop_clients(struct sl_core *c)
{
	while (c->client_head) {
		for (int i = 0; i < SL_BURST && c->client_head; i++)
			sl_client_abort(sl_client_next(c, NULL));
		flush_ports(c->net);
	}
}

void sl_core_fini(struct sl_core *c)
{
	if (c->tcp)
		drop_clients(c);
	sl_dgram_fini(c);
	if (c->rpc)
		sl_rpc_destroy(c->rpc); /* tells the services that their channels go down */
	for (uint32_t i = 0; c->services && i < c->service_cnt; i++)
		sl_service_fini(&c->services[i]);
	if (c->tcp)
		sl_tcp_destroy(c->tcp);
	sl_h2_env_destroy(c->env.h2);
	sl_pool_fini(&c->heads);
	sl_pool_fini(&c->flights);
	sl_pool_fini(&c->clients);
	sl_pool_fini(&c->exchanges);
	free(c->services);
	free(c->meta_buf);
	free(c->spans);
}

void sl_core_set_now(struct sl_core *c, uint64_t now_ns)
{
	time_t t;
	struct tm tm;

	c->now_ns = now_ns;
	if (c->date[0] && now_ns - c->date_ns < SL_NS_PER_SEC)
		return;
	c->date_ns = now_ns;
	t = time(NULL);
	gmtime_r(&t, &tm);
	strftime(c->date, sizeof(c->date), "%a, %d %b %Y %H:%M:%S GMT", &tm); /* RFC 9110 5.6.7 */
}

static void on_timer(void *arg, struct sl_timer *t)
{
	(void)arg;
	sl_client_timer(sl_container_of(t, struct sl_client, timer));
}

unsigned sl_core_run(struct sl_core *c)
{
	unsigned n = sl_wheel_advance(&c->wheel, c->now_ns, on_timer, c, TIMERS_PER_RUN);

	if (c->serving_changed) {
		c->serving_changed = false;
		sl_h2_env_serving_changed(c->env.h2);
	}
	for (uint32_t i = 0; i < c->service_cnt; i++) {
		if (c->services[i].batcher)
			sl_batcher_pump(c->services[i].batcher, c->now_ns);
	}
	for (int i = 0; i < DEFERRED_ROUNDS && !sl_list_empty(&c->deferred); i++)
		n += sl_exchange_run_deferred(c);
	if (sl_unlikely(c->leaving) && c->now_ns >= c->leave_ns)
		sl_core_leave(c);
	return n;
}

uint64_t sl_core_next_ns(const struct sl_core *c)
{
	uint64_t next = sl_wheel_next_ns(&c->wheel);

	if (!sl_list_empty(&c->deferred))
		return c->now_ns;
	for (uint32_t i = 0; i < c->service_cnt; i++) {
		const struct sl_batcher *b = c->services[i].batcher;
		uint64_t due = b ? sl_batcher_next_ns(b) : UINT64_MAX;

		next = due < next ? due : next;
	}
	return c->leaving && c->leave_ns < next ? c->leave_ns : next;
}

struct sl_rpc_channel *sl_core_channel(struct sl_core *c, uint32_t pool, uint32_t backend)
{
	return c->services[pool].backends[backend].channel;
}

void sl_core_drain(struct sl_core *c)
{
	struct sl_client *cl, *next;

	c->draining = true;
	c->env.draining = true;
	for (cl = sl_client_next(c, NULL); cl; cl = next) {
		next = sl_client_next(c, cl);
		sl_client_drain(cl);
	}
}

bool sl_core_idle(const struct sl_core *c)
{
	return sl_pool_used(&c->exchanges) == 0 && sl_pool_used(&c->clients) == 0;
}
