/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch controller of one pool on one worker: measurements in, plans out, also to
 * sl_svc_live (seq lock). XDP sheds by its shed_level.
 *
 * Under load, it ticks eight times per latency bound. Rates are requests per nanosecond.
 */
#ifndef SL_BATCH_CONTROLLER_H
#define SL_BATCH_CONTROLLER_H

#include "base/hist.h"
#include "batch/batcher.h"
#include "batch/fit.h"
#include "batch/policy.h"

#define SL_CONTROLLER_PERIOD_MIN_NS UINT64_C(1000000)
#define SL_CONTROLLER_PERIOD_MAX_NS UINT64_C(10000000)
#define SL_CONTROLLER_IDLE_NS       UINT64_C(200000000)

struct sl_controller_backend {
	struct sl_fit fit; /* requests computed at once */
	bool up;
	double aimd_size;
	double others; /* mean requests of other gateways in the same computation */
	double rate;   /* capacity by the pool's policy */
	double share;  /* its arrivals over all */
	struct sl_plan plans[SL_POLICY_CNT];
};

/* Backends examined for one request, or planned in one tick. */
enum { SL_BATCH_FEW = 16 };

struct sl_controller_counts {
	uint32_t queued, in_flight, last;
	uint64_t arrivals;
	uint64_t shed;     /* answered 429 or 503 */
	uint64_t overload; /* not explained by a fair share */
	uint64_t batches, requests;
	uint64_t served;
};

/* Sums of one round, over the backends that are up. */
struct sl_controller_summary {
	double rate_before, rate; /* plans before this round, and of it */
	double fastest_ns;        /* time(1) of the fastest; 0: unknown */
	double fastest_dev_ns;
	double alpha_ns, beta_ns, dev_ns; /* sums of the known ones */
	uint32_t known;
	uint32_t cap, low;
	double hold_ns;
};

struct sl_controller {
	const struct sl_cfg_pool *pool;
	struct sl_svc_live *live;
	const struct sl_svc_ctl *ctl;
	struct sl_controller_backend *backends; /* [room] */
	uint32_t room, up_cnt;
	uint32_t turn;
	bool learnt; /* a backend has reported in this round */
	struct sl_controller_summary summary;
	struct sl_controller_summary round;
	struct sl_svc_ctl forced;
	double bound_ns, rtt_ns, arrival_rate;
	bool judged; /* all backends are known: the bound was checked */
	double shed_level;
	uint64_t last_ns, last_arrivals, last_overload;
	uint64_t trips[SL_HIST_BUCKET_CNT]; /* round trips less service time, since the last tick */
};

/* Safety margin in mean deviations. */
#define SL_MARGIN_DEVS          3.0
#define SL_MARGIN_DEVS_OVERLOAD 2.0

/*
 * Returns the safety margin: at most an eighth of the bound, so that variance does not use it up.
 */
static inline double sl_controller_reserve(const struct sl_controller *c, double dev_ns,
					   bool overload)
{
	double devs = overload ? SL_MARGIN_DEVS_OVERLOAD : SL_MARGIN_DEVS;
	double wanted = devs * dev_ns, most = c->bound_ns / 8;

	return wanted < most ? wanted : most;
}

/* Returns it for the backend's mean deviation. */
static inline double sl_controller_margin(const struct sl_controller *c,
					  const struct sl_controller_backend *be, bool overload)
{
	return sl_controller_reserve(c, be->fit.dev_ns, overload);
}

/* Returns the expected time of a batch of n, and of requests that the backend adds. */
static inline double sl_controller_time(const struct sl_controller_backend *be, uint32_t n)
{
	return sl_fit_time(&be->fit, n + (uint32_t)(be->others + 0.5));
}
/* Returns the largest n of 1..max that takes at most budget_ns; 0: none. */
static inline uint32_t sl_controller_within(const struct sl_controller_backend *be,
					    double budget_ns, uint32_t max)
{
	uint32_t others = (uint32_t)(be->others + 0.5);
	uint32_t n = sl_fit_size_within(&be->fit, budget_ns, max + others);

	return n > others ? n - others : 0;
}

/* Returns 0 or -ENOMEM. `pool`, `live` and `ctl` (NULL: none) must outlive it. */
int sl_controller_init(struct sl_controller *c, const struct sl_cfg_pool *pool, uint32_t room,
		       struct sl_svc_live *live, const struct sl_svc_ctl *ctl);
/* Frees memory. May be repeated. */
void sl_controller_fini(struct sl_controller *c);
/* Forgets what was learnt of a backend, and takes it as down. */
void sl_controller_begin(struct sl_controller *c, unsigned backend);

/* Counts the round trip of a batch, less service time. */
static inline void sl_controller_trip(struct sl_controller *c, uint64_t trip_ns)
{
	sl_hist_add(c->trips, trip_ns);
}
/*
 * Learns from a batch. together: the size that the backend computed, 0: unknown; full: the batch
 * was as large as planned.
 */
void sl_controller_done(struct sl_controller *c, unsigned backend, unsigned policy, uint32_t cnt,
			uint32_t together, uint64_t service_ns, bool full);
/* Plans anew, and publishes the plan. Called at sl_controller_next_ns() at the latest. */
void sl_controller_tick(struct sl_controller *c, const struct sl_controller_counts *n,
			uint64_t now_ns);
/* Returns the rate that all backends can serve within the bound; 0: unknown. */
double sl_controller_rate(const struct sl_controller *c);
/* Returns the time of the next tick. busy: requests wait. */
uint64_t sl_controller_next_ns(const struct sl_controller *c, bool busy);

#endif
