/* SPDX-License-Identifier: Apache-2.0 */
/* The largest size that keeps the bound (README.md). In an overload the batch may be larger. */
#include <math.h>

#include "batch/controller.h"

#define OVERLOAD  1.07
#define BUSY_MOST 0.95

enum { GROWTH = 2, FIRST_CAP = 4 }; /* untried sizes are approached by doubling */

static double slack(const struct sl_controller *c, const struct sl_controller_backend *be,
		    bool overload)
{
	return c->bound_ns - c->rtt_ns - sl_controller_margin(c, be, overload);
}

static uint32_t explored_size(const struct sl_controller *c, const struct sl_controller_backend *be)
{
	uint32_t most = be->fit.largest * GROWTH;

	if (most < FIRST_CAP)
		most = FIRST_CAP;
	return most < c->pool->batch.max_size ? most : c->pool->batch.max_size;
}

static uint32_t cap(const struct sl_controller *c, const struct sl_controller_backend *be)
{
	const struct sl_fit *f = &be->fit;
	double budget = slack(c, be, false);
	uint32_t b = explored_size(c, be), others = (uint32_t)(be->others + 0.5);

	while (b > 1) {
		double t = sl_fit_time(f, b), wait = t;

		if (c->arrival_rate > 0)
			wait = fmin(t, b / (c->arrival_rate * be->share));
		if (t + wait <= budget)
			break;
		b--;
	}
	if (b > 1)
		b = sl_fit_size_efficient(f, b);
	return b > others ? b - others : 1;
}

static struct sl_plan plan(const struct sl_controller *c, const struct sl_controller_backend *be)
{
	struct sl_plan p = {.cap = FIRST_CAP, .low = 1};
	double eta = c->pool->batch.eta, rate = c->arrival_rate * be->share;
	double spare = BUSY_MOST - rate * be->fit.beta_ns;
	double fixed = be->fit.alpha_ns + be->others * be->fit.beta_ns;

	if (!sl_fit_known(&be->fit))
		return p;
	p.cap = cap(c, be);
	p.low = p.cap;
	if (spare > 0 && rate * fixed < spare * p.cap)
		p.low = (uint32_t)fmax(1, ceil(rate * fixed / spare));
	p.most = p.cap;
	p.catch_up = explored_size(c, be);
	p.hold_below = p.cap;
	p.hold_ns = fmax(0, eta * (slack(c, be, false) - be->fit.alpha_ns));
	p.hold_each_ns = eta * be->fit.beta_ns;
	if (rate * sl_controller_time(be, p.cap) > OVERLOAD * p.cap) {
		p.most = explored_size(c, be);
		p.overload = true;
	}
	return p;
}

const struct sl_policy_ops sl_policy_adaptive = {
	.bounded = true, .just_in_time = true, .plan = plan};
