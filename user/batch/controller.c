/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/controller.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sluice/types.h"

#define ARRIVALS_BOUNDS 0.3 /* in latency bounds */
#define PERIODS         8
#define OTHERS_GAIN     0.1
#define RTT_GAIN        0.2
#define SHED_ALL        65536.0
#define SHED_MOST       0.95 /* some connections pass, to notice the end of the load */
#define SHED_RISE_NS    0.5e9
#define SHED_FALL_NS    0.25e9
#define SHED_SUFFERED   0.02

enum { LEARNING = 32 }; /* samples after which a plan lasts until the next tick */

const struct sl_policy_ops *const sl_policies[SL_POLICY_CNT] = {
#define X(number, NAME, name) [SL_POLICY_##NAME] = &sl_policy_##name,
	SL_POLICIES(X)
#undef X
};

int sl_controller_init(struct sl_controller *c, const struct sl_cfg_pool *pool, uint32_t room,
		       struct sl_svc_live *live, const struct sl_svc_ctl *ctl)
{
	*c = (struct sl_controller){.pool = pool, .live = live, .ctl = ctl};
	c->backends = calloc(room + 1, sizeof(*c->backends));
	if (!c->backends)
		return -ENOMEM;
	for (; c->room < room; c->room++) {
		int rc = sl_fit_init(&c->backends[c->room].fit, pool->batch.max_size);

		if (rc) {
			sl_controller_fini(c);
			return rc;
		}
		c->backends[c->room].aimd_size = 1;
	}
	return 0;
}

void sl_controller_fini(struct sl_controller *c)
{
	while (c->room)
		sl_fit_fini(&c->backends[--c->room].fit);
	free(c->backends);
	c->backends = NULL;
}

void sl_controller_begin(struct sl_controller *c, unsigned backend)
{
	struct sl_controller_backend *be = &c->backends[backend];
	struct sl_fit fit = be->fit;

	sl_fit_reset(&fit);
	*be = (struct sl_controller_backend){.fit = fit, .aimd_size = 1};
}

static void sum_up_backends(const struct sl_controller *c, uint32_t from, uint32_t to,
			    struct sl_controller_summary *sum)
{
	for (uint32_t i = from; i < to; i++) {
		const struct sl_controller_backend *be = &c->backends[i];
		double one = sl_fit_time(&be->fit, 1);

		if (!be->up)
			continue;
		sum->rate_before += be->rate;
		if (!sl_fit_known(&be->fit))
			continue;
		if (!sum->known++ || one < sum->fastest_ns) {
			sum->fastest_ns = one;
			sum->fastest_dev_ns = be->fit.dev_ns;
		}
	}
}

/*
 * Widens a bound that the fastest backend cannot keep for single requests, or all would be refused:
 * a batch may cost twice one request.
 */
static void set_bound(struct sl_controller *c)
{
	const struct sl_controller_summary *sum = &c->summary;
	double rest;

	c->bound_ns = (double)(c->forced.bound_ns ? c->forced.bound_ns : c->pool->batch.bound_ns);
	c->judged = sum->known >= c->up_cnt;
	if (!c->judged || !sum->known)
		return;
	rest = c->rtt_ns + sl_controller_reserve(c, sum->fastest_dev_ns, false);
	if (2 * sum->fastest_ns + rest > c->bound_ns)
		c->bound_ns = 4 * sum->fastest_ns + rest;
}

static void plan_backend(struct sl_controller *c, struct sl_controller_backend *be)
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
		if (c->forced.batch_size || plan.catch_up < plan.cap)
			plan.catch_up = plan.cap;
		if (plan.cap > c->pool->batch.max_size)
			plan.cap = plan.most = plan.catch_up = c->pool->batch.max_size;
		be->plans[p] = plan;
	}
}

static void plan_some(struct sl_controller *c, uint32_t from, uint32_t to,
		      struct sl_controller_summary *total)
{
	double sum = c->summary.rate_before;

	for (uint32_t i = from; i < to; i++) {
		struct sl_controller_backend *be = &c->backends[i];
		const struct sl_plan *p = &be->plans[c->pool->batch.policy];

		be->share = 1;
		if (be->up)
			be->share = sum > 0 && be->rate > 0 ? be->rate / sum : 1.0 / c->up_cnt;
		sl_fit_refresh(&be->fit);
		plan_backend(c, be);
		be->rate = sl_fit_known(&be->fit) ? p->cap / sl_controller_time(be, p->cap) : 0;
		if (!be->up)
			continue;
		total->rate += be->rate;
		if (p->cap > total->cap)
			total->cap = p->cap;
		if (p->low > total->low)
			total->low = p->low;
		total->hold_ns = fmax(total->hold_ns, p->hold_ns);
		if (!sl_fit_known(&be->fit))
			continue;
		total->alpha_ns += be->fit.alpha_ns;
		total->beta_ns += be->fit.beta_ns;
		total->dev_ns += be->fit.dev_ns;
	}
}

static void plan_turn(struct sl_controller *c)
{
	uint32_t from = c->turn, to = from + SL_BATCH_FEW < c->room ? from + SL_BATCH_FEW : c->room;
	bool last = to == c->room;

	if (!from) {
		c->round = (struct sl_controller_summary){0};
		c->learnt = false;
	}
	sum_up_backends(c, from, to, &c->round);
	if (!from && last)
		c->summary = c->round;
	set_bound(c);
	plan_some(c, from, to, &c->round);
	if (last)
		c->summary = c->round;
	c->turn = last ? 0 : to;
}

void sl_controller_done(struct sl_controller *c, unsigned backend, unsigned policy, uint32_t cnt,
			uint32_t together, uint64_t service_ns, bool full)
{
	struct sl_controller_backend *be = &c->backends[backend];

	if (together > SL_RPC_MAX_BATCH)
		together = SL_RPC_MAX_BATCH; /* claimed by a peer */
	if (together < cnt)
		together = cnt;
	c->learnt = true;
	be->others += OTHERS_GAIN * (together - cnt - be->others);
	sl_fit_add(&be->fit, together, service_ns);
	if (sl_policies[policy]->done)
		sl_policies[policy]->done(c, be, cnt, (double)service_ns, full);
	if (be->fit.samples <= LEARNING) {
		sl_fit_refresh(&be->fit);
		if (c->room <= SL_BATCH_FEW) {
			struct sl_controller_summary now = {0};

			sum_up_backends(c, 0, c->room, &now);
			c->summary.known = now.known;
			c->summary.fastest_ns = now.fastest_ns;
			c->summary.fastest_dev_ns = now.fastest_dev_ns;
			set_bound(c);
		}
	}
	if (be->fit.samples <= LEARNING || sl_policies[policy]->done)
		plan_backend(c, be);
}

static void update_shed_level(struct sl_controller *c, uint64_t overload, uint64_t arrivals,
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

static void publish_live(struct sl_controller *c, const struct sl_controller_counts *n,
			 uint64_t now_ns)
{
	const struct sl_controller_summary *sum = &c->summary;
	double known = sum->known ? sum->known : 1;
	/* Forced: 0: no, else the level plus one. */
	uint32_t forced = c->forced.shed_level;
	uint32_t shed_level = forced ? forced - 1 : (uint32_t)c->shed_level;
	struct sl_svc_live *live = c->live;
	struct sl_svc_live next = {
		.seq = (live->seq | 1) + 1,
		.batch_cap = sum->cap,
		.batch_low = sum->low,
		.hold_ns = (uint64_t)sum->hold_ns,
		.alpha_ns = (uint64_t)(sum->alpha_ns / known),
		.beta_ns = (uint64_t)(sum->beta_ns / known),
		.dev_ns = (uint64_t)(sum->dev_ns / known),
		.batch_last = n->last,
		.arrival_mhz = (uint64_t)(c->arrival_rate * 1e12),
		.rtt_ns = (uint64_t)c->rtt_ns,
		.bound_ns = (uint64_t)c->bound_ns,
		.queued = n->queued,
		.in_flight = n->in_flight,
		.shed_level = shed_level < (uint32_t)SHED_ALL ? shed_level : (uint32_t)SHED_ALL,
		.policy = c->pool->batch.policy,
		.shed = n->shed,
		.batches = n->batches,
		.requests = n->requests,
		.updated_ns = now_ns,
	};
	size_t head = sizeof(next.seq);

	__atomic_store_n(&live->seq, next.seq - 1, __ATOMIC_RELAXED);
	atomic_thread_fence(memory_order_release);
	memcpy((char *)live + head, (const char *)&next + head, sizeof(next) - head);
	__atomic_store_n(&live->seq, next.seq, __ATOMIC_RELEASE);
}

void sl_controller_tick(struct sl_controller *c, const struct sl_controller_counts *n,
			uint64_t now_ns)
{
	const volatile struct sl_svc_ctl *ctl = c->ctl;
	double dt_ns = (double)(now_ns - c->last_ns);
	uint64_t arrived = n->arrivals - c->last_arrivals;

	/*
	 * Other processes write ctl at any time: each field must be read once, and checked on use.
	 */
	if (ctl)
		c->forced = (struct sl_svc_ctl){.batch_size = ctl->batch_size,
						.shed_level = ctl->shed_level,
						.hold_ns = ctl->hold_ns,
						.bound_ns = ctl->bound_ns,
						.deadline_ns = ctl->deadline_ns};
	if (sl_hist_count(c->trips)) {
		double median = (double)sl_hist_quantile(c->trips, 0.5);

		c->rtt_ns += c->rtt_ns > 0 ? RTT_GAIN * (median - c->rtt_ns) : median;
		memset(c->trips, 0, sizeof(c->trips));
	}
	set_bound(c);
	if (c->last_ns && dt_ns > 0) {
		double rate = (double)arrived / dt_ns;

		c->arrival_rate +=
			dt_ns / (dt_ns + ARRIVALS_BOUNDS * c->bound_ns) * (rate - c->arrival_rate);
		update_shed_level(c, n->overload - c->last_overload, arrived, dt_ns);
	}
	c->last_arrivals = n->arrivals;
	c->last_overload = n->overload;
	c->last_ns = now_ns;
	plan_turn(c);
	publish_live(c, n, now_ns);
}

double sl_controller_rate(const struct sl_controller *c)
{
	return c->judged ? c->summary.rate : 0;
}

uint64_t sl_controller_next_ns(const struct sl_controller *c, bool busy)
{
	uint64_t ns = (uint64_t)(c->bound_ns / PERIODS);

	if (!busy && c->shed_level <= 0 && !(c->turn && c->learnt))
		return c->last_ns + SL_CONTROLLER_IDLE_NS;
	if (ns < SL_CONTROLLER_PERIOD_MIN_NS)
		ns = SL_CONTROLLER_PERIOD_MIN_NS;
	return c->last_ns + (ns < SL_CONTROLLER_PERIOD_MAX_NS ? ns : SL_CONTROLLER_PERIOD_MAX_NS);
}
