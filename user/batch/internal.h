/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside of the batcher: batcher.c (submitting, backends), pump.c (sending), expect.c (what to
 * expect), takeover.c (from one configuration to the next).
 */
#ifndef SL_BATCH_INTERNAL_H
#define SL_BATCH_INTERNAL_H

#include "base/cpu.h"
#include "base/rand.h"
#include "batch/controller.h"
#include "batch/overload.h"
#include "batch/queue.h"
#include "batch/roster.h"

struct sl_sent {
	uint64_t sent_ns;
	double time_ns; /* expected */
	uint32_t cnt;
	uint8_t lane;
	bool full;
	bool behind; /* another batch was there when it was sent */
};

struct sl_batch_backend {
	uint32_t batches, requests;
	uint64_t stalled_ns;                     /* not asked again before this */
	struct sl_sent sent[SL_OUTSTANDING_MAX]; /* in the order of sending */
	uint64_t done_ns;                        /* when the last batch before sent[0] ended */
	uint64_t took_ns;                        /* service time of the last batch */
	uint64_t alone_ns; /* when the last batch ended that found nothing before it */
	double end_ns;     /* when sent[0] is expected to end at the backend, by our clock */
	uint32_t direct_batches, direct_requests; /* of policy_direct.c, beside those above */
};

struct sl_batcher {
	const struct sl_cfg_pool *pool;
	const struct sl_batch_ops *ops;
	void *app;
	struct sl_svc_live *live;
	struct sl_controller controller;
	struct sl_overload overload;
	struct sl_batch_queue queue;
	struct sl_batch_backend *backends; /* [controller.room] */
	struct sl_roster roster;
	uint64_t wake_ns;    /* when a decision that was put off is due */
	uint64_t due_max;    /* latest that was ever queued */
	uint64_t lost_ns;    /* since when no backend is up; 0: not asked, or one is */
	double due_bound_ns; /* the bound that what waits is due by, or a narrower one */
	struct sl_controller_counts counts;
	struct sl_prng prng;
};

static inline const struct sl_fit *sl_batch_fit(const struct sl_batcher *b, unsigned backend)
{
	return &b->controller.backends[backend].fit;
}

static inline double sl_half_rtt(const struct sl_batcher *b)
{
	return b->controller.rtt_ns / 2;
}

static inline double sl_late_margin(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	const struct sl_controller_backend *be = &b->controller.backends[backend];

	return sl_controller_margin(&b->controller, be, be->plans[lane].overload);
}

/*
 * What is asked of all backends is asked of each in a group of up to SL_BATCH_FEW; in a larger one
 * of so many, evenly from those with the fewest batches to those with the most.
 */
static inline uint32_t sl_batch_asked(const struct sl_batcher *b)
{
	uint32_t up = sl_roster_up_cnt(&b->roster);

	return up < SL_BATCH_FEW ? up : SL_BATCH_FEW;
}

/* The k-th of those. */
static inline unsigned sl_batch_ask(const struct sl_batcher *b, uint32_t k)
{
	return b->roster.order[k * sl_roster_up_cnt(&b->roster) / sl_batch_asked(b)];
}

/*
 * When it should be ready. The bound asks nothing of what nothing is in the way of, nor of anything
 * before it is known whether the backends can keep it.
 */
static inline uint64_t sl_batch_wanted_by(const struct sl_batcher *b,
					  const struct sl_batch_item *item)
{
	return item->found_idle || !b->controller.judged ? item->deadline_ns : item->due_ns;
}

/* When it is no use any more. */
static inline uint64_t sl_batch_limit(const struct sl_batcher *b, const struct sl_batch_item *item)
{
	if (b->pool->batch.bound_mode == SL_BOUND_SOFT && !b->overload.on)
		return item->deadline_ns;
	return sl_batch_wanted_by(b, item);
}

/* The item leaves the queue and is the application's again. */
SL_COLD void sl_batch_drop(struct sl_batcher *b, struct sl_batch_item *item, enum sl_outcome why);
/* The controller's turn, and what follows from it. */
void sl_batch_tick(struct sl_batcher *b, uint64_t now_ns);

/* Whether there is a backend that is up and may have it. */
static inline bool sl_batch_has_backend(const struct sl_batcher *b,
					const struct sl_batch_item *item)
{
	uint32_t left = sl_roster_up_cnt(&b->roster);

	for (unsigned i = 0; i < item->excluded_cnt; i++)
		left -= sl_roster_up(&b->roster, item->excluded[i]);
	return left;
}

/* policy_direct.c, where all of a pool is sent at once */
unsigned sl_direct_choose(struct sl_batcher *b, const struct sl_batch_item *item, uint64_t now_ns);
int sl_direct_send(struct sl_batcher *b, unsigned backend, struct sl_batch_item **items,
		   uint32_t n);
/* False: it was none of them. */
bool sl_direct_done(struct sl_batcher *b, unsigned backend, uint32_t cnt, uint64_t sent_ns);

/* What it takes is not known, or was so long ago that nothing may be refused for it. */
bool sl_expect_untested(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* When a batch that is sent now would start: at its arrival, or when all before it have ended. */
double sl_expect_free(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* When the next batch may be sent; UINT64_MAX: not before another one ends. */
uint64_t sl_expect_ready(const struct sl_batcher *b, unsigned backend, unsigned lane);
/* The size in force: the plan's and, for the pool's policy, the published one. */
static inline uint32_t sl_expect_cap(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = b->controller.backends[backend].plans[lane].cap;

	/* What is published counts: whoever reads it, or writes it, sees what happens. */
	if (lane == b->pool->batch.policy && b->live->batch_cap < cap)
		cap = b->live->batch_cap;
	return cap ? cap : 1;
}
/* When more than cap wait: there is more than can be served, and larger batches serve more. */
static inline uint32_t sl_expect_most(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = sl_expect_cap(b, backend, lane);
	const struct sl_plan *p = &b->controller.backends[backend].plans[lane];

	return b->queue.lanes[lane].len > p->cap && cap == p->cap ? p->most : cap;
}
/* Of what is late anyway: as many as serve most. */
static inline uint32_t sl_expect_catch_up(const struct sl_batcher *b, unsigned backend,
					  unsigned lane)
{
	uint32_t cap = sl_expect_cap(b, backend, lane);
	const struct sl_plan *p = &b->controller.backends[backend].plans[lane];

	return cap == p->cap ? p->catch_up : cap;
}
/*
 * Whether one of the backends that the item may go to (NULL: of all) is untested, or together they
 * can have all that waits, and one more, ready by then.
 */
bool sl_expect_all_by(const struct sl_batcher *b, const struct sl_batch_item *item, unsigned lane,
		      double by_ns, uint64_t now_ns);
/* Whether what waits makes a request late that comes now. */
bool sl_expect_late(const struct sl_batcher *b, uint64_t now_ns);
/* Requests that a backend can have ready by then, in the batches that are planned for it. */
double sl_expect_served(const struct sl_batcher *b, unsigned backend, unsigned lane, double due_ns,
			uint64_t now_ns);

#endif
