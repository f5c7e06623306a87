/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the batcher: batch.c (queue, backends, sending) and batch_expect.c (what to expect). */
#ifndef SL_CORE_BATCH_INNER_H
#define SL_CORE_BATCH_INNER_H

#include "base/rand.h"
#include "core/control.h"
#include "core/queue.h"

enum { SL_OUTSTANDING_MAX = 2 }; /* batches per backend: one computes, the next one travels */

struct sl_sent {
	uint64_t sent_ns;
	double time_ns; /* expected */
	uint32_t cnt;
	uint8_t lane;
	bool full;
	bool behind; /* another batch was there when it was sent */
};

struct sl_batch_backend {
	bool up;
	uint32_t batches, requests;
	uint64_t stalled_ns;                     /* not asked again before this */
	struct sl_sent sent[SL_OUTSTANDING_MAX]; /* in the order of sending */
	uint64_t done_ns;                        /* when the last batch before sent[0] ended */
	uint64_t took_ns;                        /* service time of the last batch */
	uint64_t alone_ns; /* when the last batch ended that found nothing before it */
	double end_ns;     /* when sent[0] is expected to end at the backend, by our clock */
};

struct sl_batcher {
	const struct sl_cfg_pool *pool;
	const struct sl_batch_ops *ops;
	void *app;
	struct sl_svc_live *live;
	struct sl_control control;
	struct sl_batch_queue queue;
	struct sl_batch_backend backends[SL_MAX_BACKENDS];
	uint32_t up_mask;
	uint64_t wake_ns;    /* when a decision that was put off is due */
	uint64_t due_max;    /* latest that was ever queued */
	double due_bound_ns; /* the bound that what waits is due by, or a narrower one */
	struct sl_control_counts counts;
	struct sl_prng prng;
};

static inline const struct sl_fit *sl_batch_fit(const struct sl_batcher *b, unsigned backend)
{
	return &b->control.backends[backend].fit;
}

static inline double sl_half_rtt(const struct sl_batcher *b)
{
	return b->control.rtt_ns / 2;
}

static inline double sl_late_margin(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	const struct sl_control_backend *be = &b->control.backends[backend];

	return sl_control_margin(&b->control, be, be->plans[lane].overload);
}

/* What it takes is not known, or was so long ago that nothing may be refused for it. */
bool sl_expect_untested(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* When a batch that is sent now would start: at its arrival, or when all before it have ended. */
double sl_expect_free(const struct sl_batcher *b, unsigned backend, uint64_t now_ns);
/* When the next batch may be sent; UINT64_MAX: not before another one ends. */
uint64_t sl_expect_ready(const struct sl_batcher *b, unsigned backend, unsigned lane);
/* The size in force: the plan's and, for the pool's policy, the published one. */
uint32_t sl_expect_cap(const struct sl_batcher *b, unsigned backend, unsigned lane);
/* When more than cap wait: there is more than can be served, and larger batches serve more. */
uint32_t sl_expect_most(const struct sl_batcher *b, unsigned backend, unsigned lane);
/* Requests that a backend can have ready by then, in the batches that are planned for it. */
double sl_expect_served(const struct sl_batcher *b, unsigned backend, unsigned lane, double due_ns,
			uint64_t now_ns);

#endif
