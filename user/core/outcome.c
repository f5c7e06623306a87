/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "batch/pick.h"
#include "core/exchange.h"
#include "core/outcome.h"
#include "core/pool.h"

static struct sl_outlier_rules rules_of(const struct sl_cfg_pool *p)
{
	return (struct sl_outlier_rules){.failures = p->eject_failures, .time_ns = p->eject_ns};
}

static uint32_t list_peers(struct sl_pool *g, const struct sl_backend_ref *m,
			   const struct sl_health **peers)
{
	uint32_t first = (uint32_t)sl_prng_below(&g->prng, g->room), n = 0;

	for (uint32_t i = 0; i < g->room && n < SL_OUTLIER_PEERS; i++) {
		const struct sl_backend_ref *other = g->by_number[(first + i) % g->room];

		if (other && other != m && other->served)
			peers[n++] = &other->health->health;
	}
	return n;
}

static bool may_eject(const struct sl_pool *g)
{
	uint32_t up = 0, ejected = 0;

	for (uint32_t i = 0; i < g->room; i++) {
		const struct sl_backend_ref *m = g->by_number[i];

		if (!m || !m->joined || sl_backend_ref_state(m) != SL_BACKEND_UP)
			continue;
		up++;
		ejected += sl_health_state(&m->health->health) == SL_HEALTH_EJECTED;
	}
	return sl_outlier_may_eject(up, ejected);
}

static SL_COLD void consider_ejection(struct sl_backend_ref *m, enum sl_fault fault,
				      unsigned status)
{
	const struct sl_health *peers[SL_OUTLIER_PEERS];
	struct sl_pool *g = m->pool;
	struct sl_outlier_rules rules = rules_of(g->cfg);
	struct sl_health *h = &m->health->health;
	struct sl_health_counts sum;
	uint64_t now_ns = g->core->now_ns, time_ns;
	char last[32];

	if (!sl_health_is_outlier(h, &rules, peers, list_peers(g, m, peers), now_ns) ||
	    !may_eject(g))
		return;
	sum = sl_health_sum(h, now_ns);
	time_ns = sl_health_eject(h, &rules, sl_prng_unit(&g->prng), now_ns);
	if (!time_ns)
		return;
	atomic_fetch_add_explicit(&m->ejections, 1, memory_order_relaxed);
	sl_pool_health_changed(m->health->pool);
	if (fault == SL_FAULT_LOST)
		snprintf(last, sizeof(last), "without a reply");
	else
		snprintf(last, sizeof(last), "with status %u", status);
	sl_log_warn("backend %s/%s: %" PRIu64 " of %" PRIu64
		    " requests failed, the last one %s; ejected for %" PRIu64 " ms",
		    g->cfg->name, m->name, sum.failed, sum.failed + sum.ok, last,
		    time_ns / SL_NS_PER_MS);
}

static SL_COLD void note_failure(struct sl_backend_ref *m, enum sl_fault fault, unsigned status)
{
	struct sl_core *c = m->pool->core;

	sl_health_failed(&m->health->health, c->maps.lane, c->now_ns);
	atomic_fetch_add_explicit(&m->faults, 1, memory_order_relaxed);
	consider_ejection(m, fault, status);
}

static SL_COLD void note_recovery(const struct sl_backend_ref *m)
{
	const struct sl_cfg_pool *p = m->pool->cfg;

	sl_pool_health_changed(m->health->pool);
	sl_log_info("backend %s/%s: answers again; its share grows within %" PRIu64 " ms", p->name,
		    m->name, p->slow_start_ns / SL_NS_PER_MS);
}

void sl_backend_outcome(struct sl_backend_ref *m, enum sl_fault fault, unsigned status)
{
	const struct sl_core *c = m->pool->core;

	if (sl_unlikely(fault && (unsigned)fault <= m->pool->cfg->eject))
		note_failure(m, fault, status);
	else if (sl_health_ok(&m->health->health, c->maps.lane, c->now_ns))
		note_recovery(m);
}

/* Reports a good reply's latency: errors are often fast. */
static void note_time(struct sl_exchange *x, bool good)
{
	uint64_t now_ns = x->core->now_ns;

	if (x->stream.open_ended)
		sl_stream_answered(x, good);
	else if (x->item.lane == SL_POLICY_DIRECT)
		sl_pick_answered(x->pool->batcher, x->backend->number,
				 good ? now_ns - x->send_ns + 1 : 0, now_ns);
}

void sl_backend_replied(struct sl_exchange *x, const struct sl_rpc_reply *r)
{
	bool prefixed = x->stream.prefix, begins = x->state == SL_EX_IN_FLIGHT;
	bool tells = prefixed ? r->first && !r->more : begins;
	enum sl_fault fault;
	unsigned status = 0;

	if (tells) {
		fault = sl_fault_of_reply(r->meta, prefixed, &status);
		sl_backend_outcome(x->backend, fault, status);
	}
	if (begins)
		note_time(x, prefixed ? status == 0 : status < 400);
}

void sl_pool_backend_silent(void *pool, unsigned backend, bool silent)
{
	struct sl_pool *g = pool;
	struct sl_backend_ref *m = g->by_number[backend];

	if (!m)
		return;
	atomic_store_explicit(&m->silent, silent, memory_order_relaxed);
	if (!silent) {
		sl_log_info("backend %s/%s: gets requests again", g->cfg->name, m->name);
		return;
	}
	atomic_fetch_add_explicit(&m->silences, 1, memory_order_relaxed);
	sl_log_warn("backend %s/%s: requests wait, and none was answered for pool.progress; gets "
		    "no new ones until it answers",
		    g->cfg->name, m->name);
}
