/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/concurrency_limit.h"

#include <math.h>

enum { WINDOW_MIN = 10 };

static const double TOLERANCE = 2.0;
static const double LONG_SHARE = 0.02, SMOOTH = 0.2;

void origin_concurrency_limit_init(struct origin_concurrency_limit *l, uint32_t fixed)
{
	*l = (struct origin_concurrency_limit){.limit = ORIGIN_CONCURRENCY_START,
					       .fixed = fixed,
					       .left = ORIGIN_CONCURRENCY_START};
}

void origin_concurrency_limit_sample(struct origin_concurrency_limit *l, uint64_t ns,
				     uint32_t in_flight)
{
	double x = (double)(ns ? ns : 1), gradient, next;

	if (l->fixed)
		return;
	if (in_flight > l->most)
		l->most = in_flight;
	l->short_ns = l->short_ns == 0 ? x : l->short_ns + (x - l->short_ns) * SMOOTH;
	if (l->left)
		l->left--;
	if (l->left)
		return;
	if (l->long_ns == 0)
		l->long_ns = l->short_ns;
	/* Queueing must not count as normal. */
	if (l->short_ns < l->long_ns)
		l->long_ns = (l->long_ns + l->short_ns) / 2;
	else
		l->long_ns += (l->short_ns - l->long_ns) * LONG_SHARE;
	gradient = TOLERANCE * l->long_ns / l->short_ns;
	gradient = gradient < 0.5 ? 0.5 : gradient > 1 ? 1 : gradient;
	next = l->limit * gradient + sqrt(l->limit);
	if (next > l->limit && l->most * 2 < l->limit)
		next = l->limit;
	l->limit += (next - l->limit) * (next > l->limit ? 1 : SMOOTH);
	if (l->limit < ORIGIN_CONCURRENCY_MIN)
		l->limit = ORIGIN_CONCURRENCY_MIN;
	if (l->limit > ORIGIN_CONCURRENCY_MAX)
		l->limit = ORIGIN_CONCURRENCY_MAX;
	l->short_ns = 0;
	l->most = 0;
	l->left = l->limit < WINDOW_MIN ? WINDOW_MIN : (uint32_t)l->limit;
}
