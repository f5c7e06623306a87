/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/internal.h"

#include <math.h>

#define OVERDUE_DEVS 4
#define LEAD_DEVS    0.5 /* a round trip of so many deviations is worth hiding */

#define STALE_TIMES  2
#define STALE_MIN_NS 10e6
#define STALE_MAX_NS 1e9
#define BATCHES_MIN  8 /* fewer batches cannot justify a refusal */
#define ALONE_NS     UINT64_C(500000000)

bool sl_expect_untested(const struct sl_batcher *b, unsigned backend, uint64_t now_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	const struct sl_fit *f = sl_batch_fit(b, backend);
	double after;

	if (f->batches < BATCHES_MIN)
		return true;
	after = sl_fit_min(STALE_MAX_NS,
			   sl_fit_max(STALE_MIN_NS, STALE_TIMES * (double)be->took_ns));
	return !be->batches && (double)(now_ns - be->done_ns) > after;
}

double sl_expect_free(const struct sl_batcher *b, unsigned backend, uint64_t now_ns)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	double arrival = (double)now_ns + sl_half_rtt(b), end;

	if (!be->batches)
		return arrival;
	end = be->end_ns;
	if (end < (double)now_ns)
		end = (double)now_ns + ((double)now_ns - end);
	for (uint32_t i = 1; i < be->batches; i++)
		end += be->sent[i].time_ns;
	return sl_fit_max(arrival, end);
}

static double overdue_ns(const struct sl_batcher *b, unsigned backend)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	double took = be->end_ns - (double)be->sent[0].sent_ns;

	return be->end_ns + took + OVERDUE_DEVS * sl_batch_fit(b, backend)->dev_ns;
}

uint64_t sl_expect_ready(const struct sl_batcher *b, unsigned backend, unsigned lane)
{
	const struct sl_batch_backend *be = &b->backends[backend];
	double at = (double)be->stalled_ns, just;

	if (!sl_roster_up(&b->roster, backend) || be->batches == SL_OUTSTANDING_MAX)
		return UINT64_MAX;
	if (!be->batches)
		return be->stalled_ns;
	just = be->end_ns - sl_half_rtt(b) - sl_batch_fit(b, backend)->dev_ns;
	if (!sl_policies[lane]->just_in_time)
		just = b->queue.lanes[lane].len < b->controller.backends[backend].plans[lane].cap
			       ? overdue_ns(b, backend)
			       : 0;
	/*
	 * The second batch sometimes waits for the end of the first, to measure the round trip. It
	 * always waits if that end is less certain than the round trip is long.
	 */
	else if (be->sent[0].sent_ns > be->alone_ns + ALONE_NS ||
		 sl_batch_fit(b, backend)->dev_ns * LEAD_DEVS > b->controller.rtt_ns)
		just = overdue_ns(b, backend);
	return (uint64_t)sl_fit_max(at, just);
}

bool sl_expect_all_by(const struct sl_batcher *b, const struct sl_batch_item *item, unsigned lane,
		      double by_ns, uint64_t now_ns)
{
	uint32_t asked = sl_batch_asked(b);
	double sum = 0, each = asked ? (double)sl_roster_up_cnt(&b->roster) / asked : 0;

	for (uint32_t k = 0; k < asked; k++) {
		unsigned i = sl_batch_ask(b, k);

		if (item && sl_batch_excludes(item, i))
			continue;
		if (sl_expect_untested(b, i, now_ns))
			return true;
		sum += each * sl_expect_served(b, i, lane, by_ns, now_ns);
		if (sum > b->queue.len)
			return true;
	}
	return false;
}

bool sl_expect_late(const struct sl_batcher *b, uint64_t now_ns)
{
	if (!b->controller.judged || !sl_roster_up_cnt(&b->roster))
		return false;
	for (unsigned lane = 0; lane < SL_LANES; lane++) {
		if (sl_policies[lane]->bounded && b->queue.lanes[lane].len &&
		    !sl_expect_all_by(b, NULL, lane, (double)now_ns + b->controller.bound_ns,
				      now_ns))
			return true;
	}
	return false;
}

double sl_expect_served(const struct sl_batcher *b, unsigned backend, unsigned lane, double due_ns,
			uint64_t now_ns)
{
	const struct sl_controller_backend *be = &b->controller.backends[backend];
	uint32_t cap = sl_expect_cap(b, backend, lane);
	double left = due_ns - sl_half_rtt(b) - sl_expect_free(b, backend, now_ns);
	double time = sl_controller_time(be, cap), whole;

	if (left <= 0)
		return 0;
	whole = floor(left / time);
	return whole * cap + sl_controller_within(be, left - whole * time, cap);
}
