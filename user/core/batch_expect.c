/* SPDX-License-Identifier: Apache-2.0 */
#include "core/batch_inner.h"

#include <math.h>

#define LEAD_DEVS 0.5 /* a round trip of so many deviations is worth hiding */

/*
 * A backend that has been idle for so many times what its last batch took is tried, whatever is
 * known of it: what one long pause has taught would else never be unlearnt.
 */
#define STALE_TIMES  2
#define STALE_MIN_NS 10e6
#define STALE_MAX_NS 1e9
#define BATCHES_MIN  8 /* from fewer nothing is concluded that refuses a request */
#define ALONE_NS     UINT64_C(500000000)

bool sl_expect_untested(const struct sl_batcher *b, unsigned backend, uint64_t now_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	const struct sl_fit *f = sl_batch_fit(b, backend);
	double after;

	if (f->batches < BATCHES_MIN)
		return true;
	after = fmin(STALE_MAX_NS, fmax(STALE_MIN_NS, STALE_TIMES * (double)be->took_ns));
	return !be->batches && (double)(now_ns - be->done_ns) > after;
}

double sl_expect_free(const struct sl_batcher *b, unsigned backend, uint64_t now_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	double arrival = (double)now_ns + sl_half_rtt(b), end;

	if (!be->batches)
		return arrival;
	/* Late is as likely to become later still. */
	end = be->end_ns;
	if (end < (double)now_ns)
		end = (double)now_ns + ((double)now_ns - end);
	for (uint32_t i = 1; i < be->batches; i++)
		end += be->sent[i].time_ns;
	return fmax(arrival, end);
}

uint64_t sl_expect_ready(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	uint64_t at = be->stalled_ns;
	double just;

	if (!be->up || be->batches == SL_OUTSTANDING_MAX)
		return UINT64_MAX;
	if (!be->batches)
		return at;
	if (!sl_policies[lane]->just_in_time) {
		if (b->queue.lanes[lane].len < b->control.backends[backend].plans[lane].cap)
			return UINT64_MAX;
		return at;
	}
	/* From time to time one has to go alone, or no round trip would be measured. */
	if (be->sent[0].sent_ns > be->alone_ns + ALONE_NS)
		return UINT64_MAX;
	/* An end that is less well known than the way is long: its message will be as early. */
	if (sl_batch_fit(b, backend)->dev_ns * LEAD_DEVS > b->control.rtt_ns)
		return UINT64_MAX;
	just = be->end_ns - sl_half_rtt(b) - sl_batch_fit(b, backend)->dev_ns;
	if (just > (double)at)
		at = (uint64_t)just;
	return at;
}

uint32_t sl_expect_cap(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = b->control.backends[backend].plans[lane].cap;

	/* What is published counts: whoever reads it, or writes it, sees what happens. */
	if (lane == b->pool->batch.policy && b->live->batch_cap < cap)
		cap = b->live->batch_cap;
	return cap ? cap : 1;
}

uint32_t sl_expect_most(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	uint32_t cap = sl_expect_cap(b, backend, lane);
	const struct sl_plan *p = &b->control.backends[backend].plans[lane];

	return b->queue.lanes[lane].len > p->cap && cap == p->cap ? p->most : cap;
}

double sl_expect_served(const struct sl_batcher *b, unsigned backend, unsigned lane, double due_ns,
			uint64_t now_ns)
{
	const struct sl_control_backend *be = &b->control.backends[backend];
	uint32_t cap = sl_expect_cap(b, backend, lane);
	double left = due_ns - sl_half_rtt(b) - sl_expect_free(b, backend, now_ns);
	double time = sl_control_time(be, cap), whole;

	if (left <= 0)
		return 0;
	whole = floor(left / time);
	return whole * cap + sl_control_within(be, left - whole * time, cap);
}
