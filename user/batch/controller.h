/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch controller of one service on one worker: what is measured in, plans out.
 *
 *   arrivals, round trips --------------------.                  .-> plans per backend -> batcher
 *   done: service time of each batch -> fit --+----- tick -------+-> sl_svc_live (seq lock) -> all
 *   sl_svc_ctl (operator's overrides) --------'                  '     XDP sheds by shed_level
 *
 * It runs inside the batcher: under load eight times in a latency bound, but never more often than
 * SL_CONTROLLER_PERIOD_MIN_NS nor less than SL_CONTROLLER_PERIOD_MAX_NS; when idle every
 * SL_CONTROLLER_IDLE_NS.
 * Times are nanoseconds, rates requests per nanosecond.
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
	struct sl_fit fit; /* of what the backend computes at once */
	bool up;
	double aimd_size;
	double others; /* requests of others that the backend computes with a batch, mean */
	double rate;   /* requests per ns that it can serve, by the plan of the pool's policy */
	double share;  /* of the arrivals, as its rate is of all rates */
	struct sl_plan plans[SL_POLICY_CNT];
};

/*
 * So many backends are looked at for one request, or planned in one tick, whatever the size of the
 * group: a larger one takes more ticks for a round.
 */
enum { SL_BATCH_FEW = 16 };

/* What the batcher counts. */
struct sl_controller_counts {
	uint32_t queued, in_flight, last;
	uint64_t arrivals; /* requests that came, whatever became of them */
	uint64_t shed;     /* answered 429 or 503 */
	uint64_t overload; /* of them, those that no fair share explains */
	uint64_t batches, requests;
	uint64_t served; /* requests that backends are done with */
};

/* What the backends that are up come to: those of one round. */
struct sl_controller_summary {
	double rate_before, rate; /* of all, by the plans before this round and by its own */
	double fastest_ns;        /* time(1) of the fastest; 0: none is known */
	double fastest_dev_ns;
	double alpha_ns, beta_ns, dev_ns; /* sums of the known ones */
	uint32_t known;
	uint32_t cap, low; /* the largest */
	double hold_ns;
};

struct sl_controller {
	const struct sl_cfg_pool *pool;
	struct sl_svc_live *live;
	const struct sl_svc_ctl *ctl;
	struct sl_controller_backend *backends; /* [room] */
	uint32_t room, up_cnt;
	uint32_t turn;                        /* the backend that is planned next */
	bool learnt;                          /* a backend has told something in this round */
	struct sl_controller_summary summary; /* of the last round over all of them */
	struct sl_controller_summary round;   /* of this one, so far */
	struct sl_svc_ctl forced;             /* ctl as of the last tick */
	double bound_ns, rtt_ns, arrival_rate;
	bool judged; /* all backends are known, so whether they can keep the bound */
	double shed_level;
	uint64_t last_ns, last_arrivals, last_overload;
	uint64_t trips[SL_HIST_BUCKET_CNT]; /* round trips without compute since the last tick */
};

/*
 * Time kept free for what is not as expected, in mean deviations. With more load than can be served
 * time kept free is requests refused, while a batch that takes longer is late only for its oldest.
 */
#define SL_MARGIN_DEVS          3.0
#define SL_MARGIN_DEVS_OVERLOAD 2.0

/* What varies so much that most of the bound would go there is not made better by refusing all. */
static inline double sl_controller_reserve(const struct sl_controller *c, double dev_ns,
					   bool overload)
{
	double devs = overload ? SL_MARGIN_DEVS_OVERLOAD : SL_MARGIN_DEVS;
	double wanted = devs * dev_ns, most = c->bound_ns / 8;

	return wanted < most ? wanted : most;
}

static inline double sl_controller_margin(const struct sl_controller *c,
					  const struct sl_controller_backend *be, bool overload)
{
	return sl_controller_reserve(c, be->fit.dev_ns, overload);
}

/* What a batch of n is expected to take, with what the backend merges into it. */
static inline double sl_controller_time(const struct sl_controller_backend *be, uint32_t n)
{
	return sl_fit_time(&be->fit, n + (uint32_t)(be->others + 0.5));
}
/* The largest n of 1..max that takes at most budget_ns; 0: none does. */
static inline uint32_t sl_controller_within(const struct sl_controller_backend *be,
					    double budget_ns, uint32_t max)
{
	uint32_t others = (uint32_t)(be->others + 0.5);
	uint32_t n = sl_fit_size_within(&be->fit, budget_ns, max + others);

	return n > others ? n - others : 0;
}

/* 0 or -ENOMEM. */
int sl_controller_init(struct sl_controller *c, const struct sl_cfg_pool *pool, uint32_t room,
		       struct sl_svc_live *live, const struct sl_svc_ctl *ctl);
void sl_controller_fini(struct sl_controller *c);
/* Forgets what is known of this backend, which is down. */
void sl_controller_begin(struct sl_controller *c, unsigned backend);

/* A message has been to a backend and back in so much more than was computed for. */
static inline void sl_controller_trip(struct sl_controller *c, uint64_t trip_ns)
{
	sl_hist_add(c->trips, trip_ns);
}
/*
 * A batch of this policy was answered; together: what the backend made of it and others', 0 not
 * known; full: it was as large as its plan allowed.
 */
void sl_controller_done(struct sl_controller *c, unsigned backend, unsigned policy, uint32_t cnt,
			uint32_t together, uint64_t service_ns, bool full);
void sl_controller_tick(struct sl_controller *c, const struct sl_controller_counts *n,
			uint64_t now_ns);
/* Requests per ns that all backends together can serve within the bound; 0: not known. */
double sl_controller_rate(const struct sl_controller *c);
/* When to tick; busy: requests wait. */
uint64_t sl_controller_next_ns(const struct sl_controller *c, bool busy);

#endif
