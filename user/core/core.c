/* SPDX-License-Identifier: Apache-2.0 */
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/min.h"
#include "core/body_match.h"
#include "core/mirror.h"
#include "core/offender.h"
#include "core/prefix_hash.h"
#include "core/client.h"
#include "core/dgram.h"
#include "core/event.h"
#include "core/hedge.h"
#include "core/health_table.h"
#include "core/sent_batch.h"
#include "core/exchange.h"
#include "core/reload.h"
#include "core/rules.h"
#include "core/usage_scan.h"
#include "front/h2/h2.h"
#include "http/date.h"

enum {
	TIMER_TICK_MS = 4,
	TIMERS_PER_RUN = 256,
	STALLED_NS = 1000000,
	HEADS_MAX = 512,
	SERVER_CONN_FRAMES = 32, /* twice a narrow receive window */
	SERVER_CONNS_MAX = 65536,
};

static const struct sl_front_cb front_cb = {
	.begin = sl_request_begin,
	.body = sl_request_body,
	.message = sl_request_message,
	.request_trailers = sl_request_trailers,
	.end = sl_request_end,
	.refused = sl_event_unparsed,
	.head = sl_reply_head,
	.peek = sl_reply_peek,
	.take = sl_reply_take,
	.whole = sl_reply_whole,
	.trailers = sl_reply_trailers,
	.done = sl_exchange_done,
	.cancel = sl_exchange_cancel,
	.write = sl_client_write,
	.write_head = sl_client_write_head,
	.room = sl_client_room,
	.later = sl_client_later,
	.hold = sl_client_hold,
	.close = sl_client_close,
};

static void set_env(struct sl_core *c)
{
	c->env.umem = c->net->umem;
	c->env.limits = &c->limits;
	c->env.cb = &front_cb;
	c->env.now_ns = &c->now_ns;
	c->env.date = c->date;
	c->env.errors = c->stats.front_errors;
	c->env.serving = sl_core_serving;
	c->env.routed = sl_core_routed;
	c->env.serving_arg = c;
	c->env.descriptors = c->cfg->descriptors;
}

uint32_t sl_core_server_conns(const struct sl_config *cfg, uint32_t frame_size)
{
	uint64_t most = cfg->limits.frame_memory / frame_size / SERVER_CONN_FRAMES;

	if (!cfg->limits.port_first)
		return 0;
	return most < SERVER_CONNS_MAX ? (uint32_t)most : SERVER_CONNS_MAX;
}

static struct sl_tcp *create_tcp(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;
	struct sl_tcp_config t;

	sl_tcp_config_default(&t);
	t.max_conns = l->max_connections;
	/*
	 * Half-open connections have no proven address, so no quota: they get what eviction keeps
	 * free.
	 */
	t.max_half_open = l->max_connections / SL_SHORT_CLIENTS;
	if (l->max_half_open < t.max_half_open)
		t.max_half_open = l->max_half_open;
	t.max_ooo_frames_total = (uint32_t)(l->reorder_memory / c->net->umem->frame_size);
	t.discard_max = sl_core_max_discard(l);
	t.keepalive_ns = l->keepalive_ns;
	t.rst_closed_ports = l->rst_closed_ports;
	t.port_first = l->port_first;
	t.port_last = l->port_last;
	t.port_part = (uint8_t)c->maps.lane;
	t.port_parts = (uint8_t)c->cfg->worker_cnt;
	t.max_active = sl_core_server_conns(c->cfg, c->net->umem->frame_size);
	t.max_conns += t.max_active;
	return sl_tcp_create(c->net, &t, &sl_client_tcp_ops, c);
}

static struct sl_sock_set *create_sock(struct sl_core *c)
{
	struct sl_sock_config s;

	sl_sock_config_default(&s);
	s.max_conns = c->cfg->limits.max_connections;
	s.discard_max = sl_core_max_discard(&c->cfg->limits);
	return sl_sock_create(c->net->umem, &s, &sl_client_sock_ops, c);
}

static struct sl_rpc *create_rpc(struct sl_core *c)
{
	struct sl_rpc_memory mem = {.addr = c->net->umem->area, .len = c->net->umem->area_len};
	struct sl_rpc_config r;

	sl_rpc_config_default(&r);
	r.max_outstanding = c->cfg->limits.max_exchanges;
	return sl_rpc_create(&r, &mem, &sl_backend_ops, c);
}

static struct sl_h2_env *create_h2(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;
	struct sl_h2_config h;

	sl_h2_config_default(&h);
	if (h.max_connections > l->max_connections)
		h.max_connections = l->max_connections;
	h.sources = sl_mempool_capacity(&c->quotas.pool) + 1;
	return sl_h2_env_create(&h, &c->limits);
}

static int create_memory(struct sl_core *c)
{
	const struct sl_cfg_limits *l = &c->cfg->limits;
	int rc = sl_addr_quotas_init(&c->quotas, l->max_connections, c->stats.address_limits,
				     &c->stats.refused);

	if (!rc)
		rc = sl_mempool_init(&c->clients, sizeof(struct sl_client), 64, l->max_connections);
	if (!rc)
		rc = sl_mempool_init(&c->exchanges, sizeof(struct sl_exchange), 64,
				     l->max_exchanges);
	if (!rc)
		rc = sl_mempool_init(&c->heads, l->max_head, 64, HEADS_MAX);
	if (!rc && !(c->head_conns = calloc(HEADS_MAX, sizeof(*c->head_conns))))
		rc = -ENOMEM;
	if (!rc)
		rc = sl_sent_batches_init(c, l->max_exchanges);
	if (!rc)
		rc = sl_mempool_init(&c->buf_refs, sizeof(struct sl_buf_ref), 8, l->max_exchanges);
	if (!rc)
		rc = sl_mempool_init(&c->body_matches, sizeof(struct sl_body_match), 64,
				     l->max_exchanges);
	if (!rc)
		rc = sl_mempool_init(&c->usage_scans, sizeof(struct sl_usage_scan), 64,
				     l->max_exchanges);
	if (!rc)
		rc = sl_mempool_init(&c->prefix_hashes, sizeof(struct sl_prefix_hash), 64,
				     l->max_exchanges);
	if (!rc && !(c->prefixes = sl_prefix_table_create()))
		rc = -ENOMEM;
	if (!rc)
		rc = sl_events_init(c);
	if (!rc && !(c->offenders = sl_ring_new(SL_OFFENDER_RING)))
		rc = -ENOMEM;
	if (rc)
		return rc;
	c->env.h2 = create_h2(c);
	if (!c->env.h2)
		return -ENOMEM;
	c->env.heads = &c->heads;
	c->env.head_conns = c->head_conns;
	c->span_cap = c->net->umem->frame_cnt;
	c->spans = calloc(c->span_cap, sizeof(*c->spans));
	c->rpc_items = calloc(SL_RPC_MAX_BATCH, sizeof(*c->rpc_items));
	c->meta_buf = malloc(SL_RPC_MAX_META);
	c->rule_buf = malloc(sl_rules_room());
	c->unread = calloc(SL_STAGE_CNT, sizeof(*c->unread));
	return c->spans && c->rpc_items && c->meta_buf && c->rule_buf && c->unread ? 0 : -ENOMEM;
}

static int first_wcfg(struct sl_core *c)
{
	uint32_t slots[SL_MAX_SERVICES];
	struct sl_worker_cfg *t;

	for (uint32_t i = 0; i < SL_MAX_SERVICES; i++)
		slots[i] = i;
	t = sl_worker_cfg_create(c, c->cfg, NULL, slots);
	if (!t)
		return -ENOMEM;
	sl_worker_cfg_prepare(t, c);
	sl_worker_cfg_switch(t, c);
	sl_worker_cfg_tidy(t);
	return 0;
}

static int create_health(struct sl_core *c)
{
	if (c->maps.health)
		return 0;
	c->own_health = c->maps.health = calloc(1, sizeof(*c->own_health));
	if (!c->own_health)
		return -ENOMEM;
	sl_health_table_init(c->own_health, c->maps.lane + 1);
	return 0;
}

static int create_parts(struct sl_core *c)
{
	int rc;

	c->tcp = create_tcp(c);
	c->sock = c->tcp ? create_sock(c) : NULL;
	c->rpc = c->sock ? create_rpc(c) : NULL;
	if (!c->rpc)
		return -errno;
	rc = first_wcfg(c);
	if (!rc)
		rc = sl_dgram_init(c);
	return rc ? rc : sl_mirror_init(c);
}

static void seed_prng(struct sl_core *c)
{
	uint64_t seed;

	if (sl_rand_bytes(&seed, sizeof(seed)) != 0)
		seed = c->now_ns ^ (uintptr_t)c;
	sl_prng_seed(&c->prng, seed);
}

static void set_time(struct sl_core *c, uint64_t now_ns)
{
	c->now_ns = now_ns;
	c->now_ms = (uint32_t)((now_ns + SL_NS_PER_MS - 1) / SL_NS_PER_MS);
}

int sl_core_init(struct sl_core *c, const struct sl_config *cfg, struct sl_net *net,
		 const struct sl_core_maps *maps)
{
	int rc;

	for (uint32_t i = 0; i < cfg->quota_cnt; i++) {
		if (!SL_ENSURE(cfg->quotas[i].table))
			return -EINVAL;
	}
	*c = (struct sl_core){.cfg = cfg, .net = net, .maps = *maps};
	sl_list_init(&c->pools);
	sl_list_init(&c->pools_made);
	sl_list_init(&c->wcfgs_made);
	sl_list_init(&c->route_codes_made);
	sl_list_init(&c->ready);
	sl_list_init(&c->stalled);
	sl_list_init(&c->paused_bodies);
	sl_list_init(&c->min_rate_list);
	set_time(c, sl_now_ns());
	seed_prng(c);
	sl_wheel_init(&c->wheel, c->now_ns, TIMER_TICK_MS * SL_NS_PER_MS);
	sl_wheel_init(&c->late, c->now_ns, TIMER_TICK_MS * SL_NS_PER_MS);
	sl_core_set_limits(c);
	set_env(c);
	rc = create_health(c);
	if (rc)
		return rc;
	sl_core_set_now(c, c->now_ns);
	rc = create_memory(c);
	if (!rc)
		rc = create_parts(c);
	if (rc)
		sl_core_fini(c);
	return rc;
}

static void free_made(struct sl_core *c)
{
	struct sl_list *at, *next;

	sl_list_for_each_safe (at, next, &c->wcfgs_made)
		sl_worker_cfg_free(sl_container_of(at, struct sl_worker_cfg, made));
	sl_list_for_each_safe (at, next, &c->pools_made)
		sl_pool_free(sl_container_of(at, struct sl_pool, made));
}

static void drop_clients(struct sl_core *c)
{
	while (c->client_head) {
		for (int i = 0; i < SL_BURST && c->client_head; i++)
			sl_client_abort(sl_client_next(c, NULL));
		sl_net_flush(c->net);
	}
}

void sl_core_fini(struct sl_core *c)
{
	if (c->tcp)
		drop_clients(c);
	sl_dgram_fini(c);
	sl_mirror_fini(c);
	if (c->rpc)
		sl_rpc_destroy(c->rpc);
	free_made(c);
	if (c->tcp)
		sl_tcp_destroy(c->tcp);
	sl_sock_destroy(c->sock);
	sl_h2_env_destroy(c->env.h2);
	free(c->head_conns);
	sl_mempool_fini(&c->heads);
	sl_sent_batches_fini(c);
	sl_mempool_fini(&c->buf_refs);
	sl_mempool_fini(&c->body_matches);
	sl_mempool_fini(&c->usage_scans);
	sl_mempool_fini(&c->prefix_hashes);
	sl_prefix_table_destroy(c->prefixes);
	sl_mempool_fini(&c->clients);
	sl_addr_quotas_fini(&c->quotas);
	sl_mempool_fini(&c->exchanges);
	sl_events_fini(c);
	sl_ring_free(c->offenders);
	free(c->meta_buf);
	free(c->rule_buf);
	free(c->unread);
	free(c->spans);
	free(c->rpc_items);
	free(c->own_health);
}

static __attribute__((noinline)) void write_date(struct sl_core *c)
{
	sl_http_date(c->date, time(NULL));
}

void sl_core_set_now(struct sl_core *c, uint64_t now_ns)
{
	set_time(c, now_ns);
	sl_core_follow_health(c);
	if (sl_likely(c->date[0] && now_ns - c->date_ns < SL_NS_PER_SEC))
		return;
	c->date_ns = now_ns;
	write_date(c);
}

static void on_timer(void *arg, struct sl_timer *t)
{
	(void)arg;
	sl_client_timer(sl_container_of(t, struct sl_client, timer));
}

static void on_late(void *arg, struct sl_timer *t)
{
	struct sl_exchange *x = sl_container_of(t, struct sl_exchange, late);

	(void)arg;
	if (x->stream.open_ended)
		sl_stream_on_timer(x);
	else if (x->state != SL_EX_READING)
		sl_hedge_on_timer(x);
	else
		sl_exchange_fail(x, SL_OUTCOME_EXPIRED);
}

unsigned sl_core_run(struct sl_core *c)
{
	struct sl_list *at;
	unsigned n = c->filters.poll ? c->filters.poll(c->filters.arg) : 0;

	n += sl_wheel_advance(&c->wheel, c->now_ns, on_timer, c, TIMERS_PER_RUN);
	n += sl_wheel_advance(&c->late, c->now_ns, on_late, c, TIMERS_PER_RUN);
	n += sl_core_end_late(c);
	if (c->serving_changed) {
		c->serving_changed = false;
		sl_h2_env_serving_changed(c->env.h2);
	}
	sl_core_follow_health(c);
	sl_list_for_each (at, &c->pools) {
		struct sl_pool *g = sl_container_of(at, struct sl_pool, node);

		n += sl_batcher_pump(g->batcher, c->now_ns);
		if (sl_unlikely(!sl_list_empty(&g->streams)))
			n += sl_streams_start_waiting(g);
	}
	n += sl_streams_retry(c);
	n += sl_bodies_resume(c);
	n += sl_core_evict(c);
	n += sl_exchange_notify(c);
	if (sl_unlikely(c->leaving) && c->now_ns >= c->leave_ns)
		sl_pools_leave(c);
	return n;
}

void sl_core_flush(struct sl_core *c)
{
	if (c->filters.flush)
		c->filters.flush(c->filters.arg);
}

uint64_t sl_core_next_ns(const struct sl_core *c)
{
	uint64_t next = sl_wheel_next_ns(&c->wheel), late = sl_wheel_next_ns(&c->late);
	const struct sl_list *at;

	next = late < next ? late : next;
	late = sl_min_rate_next_ns(c);
	next = late < next ? late : next;
	late = sl_bodies_next_ns(c);
	next = late < next ? late : next;
	late = c->filters.next_ns ? c->filters.next_ns(c->filters.arg) : UINT64_MAX;
	next = late < next ? late : next;
	if (!sl_list_empty(&c->ready))
		return c->now_ns;
	/* No event tells that the system has memory again. */
	if (!sl_list_empty(&c->stalled) && c->now_ns + STALLED_NS < next)
		next = c->now_ns + STALLED_NS;
	sl_list_for_each (at, &c->pools) {
		const struct sl_pool *g = sl_container_of(at, struct sl_pool, node);
		uint64_t due = sl_batcher_next_ns(g->batcher);

		if (!sl_list_empty(&g->streams) && g->may_begin && c->now_ns + STALLED_NS < due)
			due = c->now_ns + STALLED_NS;
		next = sl_min_ns(next, due);
	}
	return c->leaving ? sl_min_ns(next, c->leave_ns) : next;
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
	return sl_mempool_used(&c->exchanges) == 0 && sl_mempool_used(&c->clients) == 0;
}
