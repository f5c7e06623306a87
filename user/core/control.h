/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch controller of one service on one worker: what is measured in, plans out.
 *
 *   sl_svc_hist (arrivals, RPC round trips) --.                  .-> plans per backend -> batcher
 *   done: service time of each batch -> fit --+-> control_tick --+-> sl_svc_live (seq lock) -> all
 *   sl_svc_ctl (operator's overrides) --------'                  '     XDP sheds by shed_level
 *
 * It runs inside the batcher: under load eight times in a latency bound, but never more often than
 * SL_CONTROL_PERIOD_MIN_NS nor less than SL_CONTROL_PERIOD_MAX_NS; when idle every
 * SL_CONTROL_IDLE_NS.
 * Times are nanoseconds, rates requests per nanosecond.
 */
#ifndef SL_CORE_CONTROL_H
#define SL_CORE_CONTROL_H

#include "core/batch.h"
#include "core/fit.h"
#include "core/policy.h"

#define SL_CONTROL_PERIOD_MIN_NS UINT64_C(1000000)
#define SL_CONTROL_PERIOD_MAX_NS UINT64_C(10000000)
#define SL_CONTROL_IDLE_NS       UINT64_C(200000000)

struct sl_control_backend {
	struct sl_fit fit; /* of what the backend computes at once */
	bool up;
	double aimd_size;
	double others; /* requests of others that the backend computes with a batch, mean */
	double rate;   /* requests per ns that it can serve, by the plan of the pool's policy */
	double share;  /* of the arrivals, as its rate is of all rates */
	struct sl_plan plans[SL_POLICY_CNT];
};

/* What the batcher counts. */
struct sl_control_counts {
	uint32_t queued, in_flight, last;
	uint64_t shed;     /* answered 429 or 503 */
	uint64_t overload; /* of them, those that no fair share explains */
	uint64_t batches, requests;
};

struct sl_control {
	const struct sl_cfg_pool *pool;
	const struct sl_svc_hist *hist;
	struct sl_svc_live *live;
	const struct sl_svc_ctl *ctl;
	struct sl_control_backend backends[SL_MAX_BACKENDS];
	struct sl_svc_ctl forced; /* ctl as of the last tick */
	double bound_ns, rtt_ns, arrival_rate;
	bool judged; /* all backends are known, so whether they can keep the bound */
	double shed_level;
	uint64_t last_ns, last_arrivals, last_overload;
	uint64_t last_rpc[SL_HIST_BUCKET_CNT];
};

/*
 * Time kept free for what is not as expected, in mean deviations. With more load than can be served
 * time kept free is requests refused, while a batch that takes longer is late only for its oldest.
 */
#define SL_MARGIN_DEVS          3.0
#define SL_MARGIN_DEVS_OVERLOAD 2.0

/* What varies so much that most of the bound would go there is not made better by refusing all. */
static inline double sl_control_margin(const struct sl_control *c,
				       const struct sl_control_backend *be, bool overload)
{
	double devs = overload ? SL_MARGIN_DEVS_OVERLOAD : SL_MARGIN_DEVS;
	double wanted = devs * be->fit.dev_ns, most = c->bound_ns / 8;

	return wanted < most ? wanted : most;
}

/* What a batch of n is expected to take, with what the backend merges into it. */
static inline double sl_control_time(const struct sl_control_backend *be, uint32_t n)
{
	return sl_fit_time(&be->fit, n + (uint32_t)(be->others + 0.5));
}
/* The largest n of 1..max that takes at most budget_ns; 0: none does. */
static inline uint32_t sl_control_within(const struct sl_control_backend *be, double budget_ns,
					 uint32_t max)
{
	uint32_t others = (uint32_t)(be->others + 0.5);
	uint32_t n = sl_fit_size_within(&be->fit, budget_ns, max + others);

	return n > others ? n - others : 0;
}

/* 0 or -ENOMEM. */
int sl_control_init(struct sl_control *c, const struct sl_cfg_pool *pool,
		    const struct sl_svc_hist *hist, struct sl_svc_live *live,
		    const struct sl_svc_ctl *ctl);
void sl_control_fini(struct sl_control *c);

/*
 * A batch of this policy was answered; together: what the backend made of it and others', 0 not
 * known; full: it was as large as its plan allowed.
 */
void sl_control_done(struct sl_control *c, unsigned backend, unsigned policy, uint32_t cnt,
		     uint32_t together, uint64_t service_ns, bool full);
void sl_control_tick(struct sl_control *c, const struct sl_control_counts *n, uint64_t now_ns);
/* When to tick; busy: requests wait. */
uint64_t sl_control_next_ns(const struct sl_control *c, bool busy);

#endif
