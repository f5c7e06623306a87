/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Internals of the batcher: batcher.c (submit, backends), pump.c (sending), expect.c (predictions),
 * weight.c (choice by weight), takeover.c (reload).
 */
#ifndef SL_BATCH_INTERNAL_H
#define SL_BATCH_INTERNAL_H

#include "base/cpu.h"
#include "base/rand.h"
#include "batch/affinity.h"
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
	bool behind; /* another batch was at the backend */
};

struct sl_batch_backend {
	uint32_t batches, requests;
	uint64_t stalled_ns;
	struct sl_sent sent[SL_OUTSTANDING_MAX];
	uint64_t done_ns; /* end of the batch before sent[0] */
	uint64_t took_ns;
	uint64_t alone_ns;                        /* end of the last batch that found no other */
	double end_ns;                            /* expected end of sent[0], by our clock */
	uint32_t direct_batches, direct_requests; /* policy_direct.c, in addition to those above */
	uint32_t weight;
	bool trial; /* gets one request at a time */
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
	uint64_t wake_ns;
	uint64_t due_max;
	uint64_t lost_ns;    /* no backend has been up since; 0: not checked, or one is up */
	double due_bound_ns; /* bound of queued requests, or a narrower one */
	struct sl_controller_counts counts;
	struct sl_prng prng;
	uint32_t weight_max;          /* 0: all weights are equal, and no backend is on trial */
	struct sl_affinity *affinity; /* NULL: no request has a home */
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
 * Returns the number of backends to examine: all of up to SL_BATCH_FEW, else so many, spread over
 * the roster.
 */
static inline uint32_t sl_batch_asked(const struct sl_batcher *b)
{
	uint32_t up = sl_roster_up_cnt(&b->roster);

	return up < SL_BATCH_FEW ? up : SL_BATCH_FEW;
}

/* Returns the k-th of these. */
static inline unsigned sl_batch_ask(const struct sl_batcher *b, uint32_t k)
{
	return b->roster.order[k * sl_roster_up_cnt(&b->roster) / sl_batch_asked(b)];
}

/*
 * Returns when the item should be ready. The bound does not apply if the item found an idle
 * backend, or before it is known whether backends can keep it.
 */
static inline uint64_t sl_batch_wanted_by(const struct sl_batcher *b,
					  const struct sl_batch_item *item)
{
	return item->found_idle || !b->controller.judged ? item->deadline_ns : item->due_ns;
}

/* Returns when the item becomes useless. */
static inline uint64_t sl_batch_limit(const struct sl_batcher *b, const struct sl_batch_item *item)
{
	if (b->pool->batch.bound_mode == SL_BOUND_SOFT && !b->overload.on)
		return item->deadline_ns;
	return sl_batch_wanted_by(b, item);
}

/* Drops a queued item, which belongs to the application again. */
SL_COLD void sl_batch_drop(struct sl_batcher *b, struct sl_batch_item *item, enum sl_outcome why);
void sl_batch_tick(struct sl_batcher *b, uint64_t now_ns);

static inline bool sl_batch_has_backend(const struct sl_batcher *b,
					const struct sl_batch_item *item)
{
	uint32_t left = sl_roster_up_cnt(&b->roster);

	for (unsigned i = 0; i < item->excluded_cnt; i++)
		left -= sl_roster_up(&b->roster, item->excluded[i]);
	return left;
}

/* Returns true for a backend on trial that has its one request. */
static inline bool sl_batch_on_trial(const struct sl_batcher *b, unsigned backend)
{
	const struct sl_batch_backend *be = &b->backends[backend];

	return b->weight_max && be->trial && (be->batches || be->direct_requests);
}

/* weight.c */
/* Draws an index of the list in proportion to weights. */
unsigned sl_weight_draw(struct sl_batcher *b, const unsigned *list, unsigned cnt);
/* Returns true with the probability of the backend's weight over the largest one. */
bool sl_weight_admits(struct sl_batcher *b, unsigned backend);
/* Returns true if the second candidate, expected to end after second_ns, is taken instead. */
bool sl_weight_replaces(struct sl_batcher *b, unsigned second, double second_ns, unsigned first,
			double first_ns);

/* prefer.c: returns the backend that the item's key prefers; SL_AFFINITY_NONE: no preference. */
unsigned sl_prefer_backend(const struct sl_batcher *b, unsigned lane,
			   const struct sl_batch_item *item, uint64_t now_ns);
/* prefer.c: returns true if the item may be in a batch of `taken` others for the backend. */
bool sl_prefer_joins(const struct sl_batcher *b, unsigned lane, const struct sl_batch_item *item,
		     unsigned backend, uint32_t taken, uint64_t now_ns);
/* Returns true if the item's key may prefer a backend. */
static inline bool sl_prefer_any(const struct sl_batcher *b, const struct sl_batch_item *item)
{
	return sl_unlikely(item->key) && b->affinity;
}

/* policy_direct.c */
unsigned sl_direct_choose(struct sl_batcher *b, const struct sl_batch_item *item, uint64_t now_ns);
int sl_direct_send(struct sl_batcher *b, unsigned backend, struct sl_batch_item **items,
		   uint32_t n);
/* Returns false if the batch was not of this policy. */
bool sl_direct_done(struct sl_batcher *b, unsigned backend, uint32_t cnt, uint64_t sent_ns);

/* Returns true if the backend's time is unknown or outdated: no request may be refused for it. */
bool sl_expect_untested(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* Returns when a batch sent now would start. */
double sl_expect_free(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* Returns when the next batch may be sent; UINT64_MAX: after another one ends. */
uint64_t sl_expect_ready(const struct sl_batcher *b, unsigned backend, unsigned lane);
/* Returns the plan's batch size or, for the pool's policy, the published one if smaller. */
static inline uint32_t sl_expect_cap(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = b->controller.backends[backend].plans[lane].cap;

	if (lane == b->pool->batch.policy && b->live->batch_cap < cap)
		cap = b->live->batch_cap;
	return cap ? cap : 1;
}
static inline uint32_t sl_expect_most(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = sl_expect_cap(b, backend, lane);
	const struct sl_plan *p = &b->controller.backends[backend].plans[lane];

	return b->queue.lanes[lane].len > p->cap && cap == p->cap ? p->most : cap;
}
static inline uint32_t sl_expect_catch_up(const struct sl_batcher *b, unsigned backend,
					  unsigned lane)
{
	uint32_t cap = sl_expect_cap(b, backend, lane);
	const struct sl_plan *p = &b->controller.backends[backend].plans[lane];

	return cap == p->cap ? p->catch_up : cap;
}
/*
 * Returns true if a backend that the item may use (NULL: any) is untested, or if backends can have
 * all queued requests, and one more, ready by by_ns.
 */
bool sl_expect_all_by(const struct sl_batcher *b, const struct sl_batch_item *item, unsigned lane,
		      double by_ns, uint64_t now_ns);
/* Returns true if a request that comes now would be late. */
bool sl_expect_late(const struct sl_batcher *b, uint64_t now_ns);
/* Returns the requests that a backend can have ready by due_ns, in planned batches. */
double sl_expect_served(const struct sl_batcher *b, unsigned backend, unsigned lane, double due_ns,
			uint64_t now_ns);

#endif
