/* SPDX-License-Identifier: Apache-2.0 */
#include "core/control.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/hist.h"
#include "sluice/rpc_wire.h"

#define ARRIVALS_BOUNDS 0.3 /* time over which arrivals are averaged, in latency bounds */
#define PERIODS         8   /* in a latency bound */
#define OTHERS_GAIN     0.1
#define RTT_GAIN        0.2
#define SHED_ALL        65536.0
#define SHED_MOST       0.95  /* some are let in, or nobody would see that the load has gone */
#define SHED_RISE_NS    0.5e9 /* from none to all when everything is shed */
#define SHED_FALL_NS    0.25e9
#define SHED_SUFFERED   0.02 /* share of requests shed that is no reason to refuse connections */

enum { LEARNING = 32 }; /* samples after which a plan lasts until the next tick */

const struct sl_policy_ops *const sl_policies[SL_POLICY_CNT] = {
	[SL_POLICY_ADAPTIVE] = &sl_policy_adaptive,
	[SL_POLICY_FIXED] = &sl_policy_fixed,
	[SL_POLICY_AIMD] = &sl_policy_aimd,
};

int sl_control_init(struct sl_control *c, const struct sl_cfg_pool *pool,
		    const struct sl_svc_hist *hist, struct sl_svc_live *live,
		    const struct sl_svc_ctl *ctl)
{
	*c = (struct sl_control){.pool = pool, .hist = hist, .live = live, .ctl = ctl};
	for (uint32_t i = 0; i < pool->backend_cnt; i++) {
		int rc = sl_fit_init(&c->backends[i].fit, pool->batch.max_size);

		if (rc) {
			sl_control_fini(c);
			return rc;
		}
		c->backends[i].aimd_size = 1;
	}
	c->last_arrivals = hist[SL_STAGE_PARSE].count;
	memcpy(c->last_rpc, hist[SL_STAGE_RPC].bucket, sizeof(c->last_rpc));
	return 0;
}

void sl_control_fini(struct sl_control *c)
{
	for (uint32_t i = 0; i < c->pool->backend_cnt; i++)
		sl_fit_fini(&c->backends[i].fit);
}

/* --- in: operator, histograms, batches --- */

/* Others write it at any time: each field is read once, and checked where it is used. */
static void read_overrides(struct sl_control *c)
{
	const volatile struct sl_svc_ctl *ctl = c->ctl;

	if (ctl)
		c->forced = (struct sl_svc_ctl){.batch_size = ctl->batch_size,
						.shed_level = ctl->shed_level,
						.hold_ns = ctl->hold_ns,
						.bound_ns = ctl->bound_ns,
						.deadline_ns = ctl->deadline_ns};
}

/*
 * A bound that the fastest backend cannot keep even for one request at a time would have everything
 * refused. It is then widened to where a batch costs twice what one request does.
 */
static void widen_bound(struct sl_control *c)
{
	const struct sl_control_backend *fastest = NULL;

	c->judged = false;
	for (uint32_t i = 0; i < c->pool->backend_cnt; i++) {
		const struct sl_control_backend *be = &c->backends[i];

		if (!be->up)
			continue;
		if (!sl_fit_known(&be->fit))
			return;
		if (!fastest || sl_fit_time(&be->fit, 1) < sl_fit_time(&fastest->fit, 1))
			fastest = be;
	}
	c->judged = true;
	if (fastest) {
		double one = sl_fit_time(&fastest->fit, 1);
		double rest = c->rtt_ns + sl_control_margin(c, fastest, false);

		if (2 * one + rest > c->bound_ns)
			c->bound_ns = 4 * one + rest;
	}
}

static void set_bound(struct sl_control *c)
{
	c->bound_ns = (double)(c->forced.bound_ns ? c->forced.bound_ns : c->pool->batch.bound_ns);
	widen_bound(c);
}

static void read_arrivals(struct sl_control *c, double dt_ns)
{
	uint64_t arrivals = c->hist[SL_STAGE_PARSE].count;
	double rate = (double)(arrivals - c->last_arrivals) / dt_ns;

	c->arrival_rate +=
		dt_ns / (dt_ns + ARRIVALS_BOUNDS * c->bound_ns) * (rate - c->arrival_rate);
	c->last_arrivals = arrivals;
}

static void read_rtt(struct sl_control *c)
{
	const uint64_t *now = (const uint64_t *)c->hist[SL_STAGE_RPC].bucket;
	uint64_t recent[SL_HIST_BUCKET_CNT];
	double median;

	sl_hist_diff(recent, now, c->last_rpc);
	if (!sl_hist_count(recent))
		return;
	median = (double)sl_hist_quantile(recent, 0.5);
	c->rtt_ns += c->rtt_ns > 0 ? RTT_GAIN * (median - c->rtt_ns) : median;
	memcpy(c->last_rpc, now, sizeof(c->last_rpc));
}

static void plan_backend(struct sl_control *c, struct sl_control_backend *be)
{
	for (unsigned p = 0; p < SL_POLICY_CNT; p++) {
		struct sl_plan plan = sl_policies[p]->plan(c, be);

		if (c->forced.batch_size) {
			plan.cap = c->forced.batch_size;
			plan.low = 1;
		}
		if (c->forced.hold_ns) {
			plan.hold_ns = (double)(c->forced.hold_ns - 1);
			plan.hold_each_ns = 0;
			plan.hold_below = UINT32_MAX;
		}
		if (c->forced.batch_size || plan.most < plan.cap)
			plan.most = plan.cap;
		if (plan.cap > c->pool->batch.max_size)
			plan.cap = plan.most = c->pool->batch.max_size;
		be->plans[p] = plan;
	}
}

static void plan_all(struct sl_control *c)
{
	double sum = 0;
	unsigned up = 0;

	for (uint32_t i = 0; i < c->pool->backend_cnt; i++) {
		const struct sl_control_backend *be = &c->backends[i];

		up += be->up;
		sum += be->up ? be->rate : 0;
	}
	for (uint32_t i = 0; i < c->pool->backend_cnt; i++) {
		struct sl_control_backend *be = &c->backends[i];
		uint32_t cap;

		be->share = 1;
		if (be->up)
			be->share = sum > 0 && be->rate > 0 ? be->rate / sum : 1.0 / up;
		sl_fit_refresh(&be->fit);
		plan_backend(c, be);
		cap = be->plans[c->pool->batch.policy].cap;
		be->rate = sl_fit_known(&be->fit) ? cap / sl_control_time(be, cap) : 0;
	}
}

void sl_control_done(struct sl_control *c, unsigned backend, unsigned policy, uint32_t cnt,
		     uint32_t together, uint64_t service_ns, bool full)
{
	struct sl_control_backend *be = &c->backends[backend];

	if (together > SL_RPC_MAX_BATCH)
		together = SL_RPC_MAX_BATCH; /* a peer says so */
	if (together < cnt)
		together = cnt;
	be->others += OTHERS_GAIN * (together - cnt - be->others);
	sl_fit_add(&be->fit, together, service_ns);
	if (sl_policies[policy]->done)
		sl_policies[policy]->done(c, be, cnt, (double)service_ns, full);
	if (be->fit.samples <= LEARNING) {
		sl_fit_refresh(&be->fit);
		set_bound(c);
	}
	if (be->fit.samples <= LEARNING || sl_policies[policy]->done)
		plan_backend(c, be);
}

/* --- out: the shed level and sl_svc_live --- */

/*
 * Requests that are shed although clients share fairly are more than the service can do: refuse a
 * part of the new connections, so that those that exist get through.
 */
static void update_shed_level(struct sl_control *c, uint64_t overload, uint64_t arrivals,
			      double dt_ns)
{
	double share = arrivals ? fmin(1, (double)overload / (double)arrivals) : 0;

	if (share > SHED_SUFFERED)
		c->shed_level += SHED_ALL * share * dt_ns / SHED_RISE_NS;
	else
		c->shed_level -= c->shed_level * fmin(1, dt_ns / SHED_FALL_NS);
	c->shed_level = fmin(c->shed_level, SHED_ALL * SHED_MOST);
	if (c->shed_level < SHED_ALL / 1000)
		c->shed_level = 0;
}

static uint32_t shed_level(const struct sl_control *c)
{
	uint32_t forced = c->forced.shed_level;

	if (!forced)
		return (uint32_t)c->shed_level;
	return forced - 1 < (uint32_t)SHED_ALL ? forced - 1 : (uint32_t)SHED_ALL;
}

/* Of several backends: the largest sizes, and the means of what they take. */
static void summarize(const struct sl_control *c, struct sl_svc_live *live)
{
	double alpha = 0, beta = 0, dev = 0;
	unsigned known = 0;

	for (uint32_t i = 0; i < c->pool->backend_cnt; i++) {
		const struct sl_control_backend *be = &c->backends[i];
		const struct sl_plan *p = &be->plans[c->pool->batch.policy];

		if (!be->up)
			continue;
		if (p->cap > live->batch_cap)
			live->batch_cap = p->cap;
		if (p->low > live->batch_low)
			live->batch_low = p->low;
		if ((uint64_t)p->hold_ns > live->hold_ns)
			live->hold_ns = (uint64_t)p->hold_ns;
		if (!sl_fit_known(&be->fit))
			continue;
		known++;
		alpha += be->fit.alpha_ns;
		beta += be->fit.beta_ns;
		dev += be->fit.dev_ns;
	}
	if (!known)
		return;
	live->alpha_ns = (uint64_t)(alpha / known);
	live->beta_ns = (uint64_t)(beta / known);
	live->dev_ns = (uint64_t)(dev / known);
}

static void publish(struct sl_control *c, const struct sl_control_counts *n, uint64_t now_ns)
{
	struct sl_svc_live *live = c->live;
	struct sl_svc_live next = {
		.seq = (live->seq | 1) + 1,
		.batch_last = n->last,
		.arrival_mhz = (uint64_t)(c->arrival_rate * 1e12),
		.rtt_ns = (uint64_t)c->rtt_ns,
		.bound_ns = (uint64_t)c->bound_ns,
		.queued = n->queued,
		.in_flight = n->in_flight,
		.shed_level = shed_level(c),
		.policy = c->pool->batch.policy,
		.shed = n->shed,
		.batches = n->batches,
		.requests = n->requests,
		.updated_ns = now_ns,
	};
	size_t head = sizeof(next.seq);

	summarize(c, &next);
	__atomic_store_n(&live->seq, next.seq - 1, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	memcpy((char *)live + head, (const char *)&next + head, sizeof(next) - head);
	__atomic_store_n(&live->seq, next.seq, __ATOMIC_RELEASE);
}

void sl_control_tick(struct sl_control *c, const struct sl_control_counts *n, uint64_t now_ns)
{
	double dt_ns = (double)(now_ns - c->last_ns);
	uint64_t arrivals = c->last_arrivals;

	read_overrides(c);
	read_rtt(c);
	set_bound(c);
	if (c->last_ns && dt_ns > 0) {
		read_arrivals(c, dt_ns);
		update_shed_level(c, n->overload - c->last_overload, c->last_arrivals - arrivals,
				  dt_ns);
	}
	c->last_overload = n->overload;
	c->last_ns = now_ns;
	plan_all(c);
	publish(c, n, now_ns);
}

static uint64_t period_ns(const struct sl_control *c)
{
	uint64_t ns = (uint64_t)(c->bound_ns / PERIODS);

	if (ns < SL_CONTROL_PERIOD_MIN_NS)
		return SL_CONTROL_PERIOD_MIN_NS;
	return ns < SL_CONTROL_PERIOD_MAX_NS ? ns : SL_CONTROL_PERIOD_MAX_NS;
}

uint64_t sl_control_next_ns(const struct sl_control *c, bool busy)
{
	return c->last_ns + (busy || c->shed_level > 0 ? period_ns(c) : SL_CONTROL_IDLE_NS);
}
