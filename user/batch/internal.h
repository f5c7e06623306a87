/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_BATCH_INTERNAL_H
#define SL_BATCH_INTERNAL_H

#include "base/cpu.h"
#include "base/rand.h"
#include "batch/affinity.h"
#include "batch/controller.h"
#include "batch/overload.h"
#include "batch/pick.h"
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
	uint32_t direct_batches, direct_requests; /* policy_direct.c; not in those above */
	struct sl_pick_state pick;
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
	uint32_t open_streams;        /* at all backends */
	struct sl_affinity *affinity; /* NULL: no request has a home */
};

/* Returns the learnt costs of a backend. */
static inline const struct sl_fit *sl_batch_fit(const struct sl_batcher *b, unsigned backend)
{
	return &b->controller.backends[backend].fit;
}

/* Returns half of a round trip in ns, without service time; 0: unknown. */
static inline double sl_half_rtt(const struct sl_batcher *b)
{
	return b->controller.rtt_ns / 2;
}

/* Returns the reserve of the lane's plan at the backend. */
static inline double sl_late_margin(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	const struct sl_controller_backend *be = &b->controller.backends[backend];

	return sl_controller_margin(&b->controller, be, be->plans[lane].overload);
}

/* Returns how many backends to examine: all, or SL_BATCH_FEW spread over the roster. */
static inline uint32_t sl_batch_asked(const struct sl_batcher *b)
{
	uint32_t up = sl_roster_up_cnt(&b->roster);

	return up < SL_BATCH_FEW ? up : SL_BATCH_FEW;
}

/* Returns the k-th of these backends. */
static inline unsigned sl_batch_ask(const struct sl_batcher *b, uint32_t k)
{
	return b->roster.order[k * sl_roster_up_cnt(&b->roster) / sl_batch_asked(b)];
}

/*
 * Returns when the item should be ready. The bound applies once backends are known to keep it, but
 * not to an item that found an idle one.
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

/* Removes a queued item, and counts and reports the refusal. */
SL_COLD void sl_batch_drop(struct sl_batcher *b, struct sl_batch_item *item, enum sl_outcome why);
/* Ticks the controller and the detection of overload. */
void sl_batch_tick(struct sl_batcher *b, uint64_t now_ns);

/* Returns true if a backend that is up may get the item. */
static inline bool sl_batch_has_backend(const struct sl_batcher *b,
					const struct sl_batch_item *item)
{
	uint32_t left = sl_roster_up_cnt(&b->roster);

	for (unsigned i = 0; i < item->excluded_cnt; i++)
		left -= sl_roster_up(&b->roster, item->excluded[i]);
	return left;
}

/* Returns true if the backend is on trial and has its one request. */
static inline bool sl_batch_on_trial(const struct sl_batcher *b, unsigned backend)
{
	const struct sl_batch_backend *be = &b->backends[backend];

	return b->weight_max && be->trial &&
	       (be->batches || be->direct_requests || be->pick.waiting);
}

/* Draws by weight. Returns an index in `list`. Needs weight_max, as the next two. */
unsigned sl_weight_draw(struct sl_batcher *b, const unsigned *list, unsigned cnt);
/* Returns true with the probability of the backend's weight over the largest one. */
bool sl_weight_admits(struct sl_batcher *b, unsigned backend);
/* Returns true if the second candidate, expected to end after second_ns, replaces the first. */
bool sl_weight_replaces(struct sl_batcher *b, unsigned second, double second_ns, unsigned first,
			double first_ns);

/*
 * Returns the backend that the key prefers, or SL_AFFINITY_NONE. Needs sl_prefer_any(), as the next
 * two.
 */
unsigned sl_prefer_backend(const struct sl_batcher *b, unsigned lane,
			   const struct sl_batch_item *item, uint64_t now_ns);
/* Counts the item's key, once for each request. */
void sl_prefer_note(struct sl_batcher *b, const struct sl_batch_item *item);
/* Returns true if the item may join `taken` others. */
bool sl_prefer_joins(const struct sl_batcher *b, unsigned lane, const struct sl_batch_item *item,
		     unsigned backend, uint32_t taken, uint64_t now_ns);
/* Returns true if the item may have a home. */
static inline bool sl_prefer_any(const struct sl_batcher *b, const struct sl_batch_item *item)
{
	return sl_unlikely(item->key) && b->affinity;
}

/* Returns a backend for a direct request; SL_PICK_NONE if none can have it now. */
unsigned sl_pick_direct(struct sl_batcher *b, const struct sl_batch_item *item, uint64_t now_ns);
/* Returns true if requests wait, and none was answered for too long. */
bool sl_pick_is_silent(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* Forgets the backend's times. */
void sl_pick_forget(struct sl_batcher *b, unsigned backend);
/* Bracket a request's wait at the backend: before it is counted, and after. */
void sl_pick_begin_wait(struct sl_batcher *b, unsigned backend, uint64_t now_ns);
void sl_pick_end_wait(struct sl_batcher *b, unsigned backend);

/* Sends at once. Returns 0 or the error of ops.send: the caller keeps the items. */
int sl_direct_send(struct sl_batcher *b, unsigned backend, struct sl_batch_item **items, uint32_t n,
		   uint64_t now_ns);
/* Ends a batch. Returns false if it was another policy's. */
bool sl_direct_done(struct sl_batcher *b, unsigned backend, uint32_t cnt, uint64_t sent_ns);

/* Returns true if the backend's time is unknown or outdated, and must not cause a refusal. */
bool sl_expect_untested(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* Returns when a batch sent now would start to compute. */
double sl_expect_free(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* Returns when the next batch may be sent; UINT64_MAX: after another one ends. */
uint64_t sl_expect_ready(const struct sl_batcher *b, unsigned backend, unsigned lane);
/* Returns the plan's size, at least 1; for the pool's policy the published one, if smaller. */
static inline uint32_t sl_expect_cap(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = b->controller.backends[backend].plans[lane].cap;

	if (lane == b->pool->batch.policy && b->live->batch_cap < cap)
		cap = b->live->batch_cap;
	return cap ? cap : 1;
}
/* The same while more than the plan's size wait. */
static inline uint32_t sl_expect_most(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = sl_expect_cap(b, backend, lane);
	const struct sl_plan *p = &b->controller.backends[backend].plans[lane];

	return b->queue.lanes[lane].len > p->cap && cap == p->cap ? p->most : cap;
}
/* The same for late requests. */
static inline uint32_t sl_expect_catch_up(const struct sl_batcher *b, unsigned backend,
					  unsigned lane)
{
	uint32_t cap = sl_expect_cap(b, backend, lane);
	const struct sl_plan *p = &b->controller.backends[backend].plans[lane];

	return cap == p->cap ? p->catch_up : cap;
}
/*
 * Returns true if backends can have all queued requests, and one more, ready by by_ns, or if one
 * that the item may use (NULL: any) is untested.
 */
bool sl_expect_all_by(const struct sl_batcher *b, const struct sl_batch_item *item, unsigned lane,
		      double by_ns, uint64_t now_ns);
/* Returns true if a request that comes now will miss the bound. */
bool sl_expect_late(const struct sl_batcher *b, uint64_t now_ns);
/* Returns how many requests a backend can have ready by due_ns. */
double sl_expect_served(const struct sl_batcher *b, unsigned backend, unsigned lane, double due_ns,
			uint64_t now_ns);

#endif
