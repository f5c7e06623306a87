/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Duration and rate of streams. Each direction has a token bucket, stored as the time at which it
 * is full.
 */
#include "base/clock.h"
#include "base/min.h"
#include "core/exchange.h"

enum { LEAST = 1024 };

static uint64_t end_ns(const struct sl_exchange *x)
{
	const struct sl_cfg_route *r = x->route;
	uint64_t most = r->max_duration_ns ? x->send_ns + r->max_duration_ns : UINT64_MAX;

	if (x->stream.upgrade && !x->decided && r->upgrade_timeout_ns)
		most = sl_min_ns(most, x->send_ns + r->upgrade_timeout_ns);
	return sl_min_ns(x->deadline_ns, most);
}

static uint64_t idle_end_ns(const struct sl_exchange *x)
{
	return x->route->idle_ns ? x->active_ns + x->route->idle_ns : UINT64_MAX;
}

enum sl_outcome sl_stream_limits_over(const struct sl_exchange *x)
{
	if (!sl_exchange_in_flight(x))
		return SL_OUTCOME_OK;
	if (x->core->now_ns >= end_ns(x))
		return SL_OUTCOME_EXPIRED;
	return x->core->now_ns >= idle_end_ns(x) ? SL_OUTCOME_STREAM_IDLE : SL_OUTCOME_OK;
}

void sl_stream_limits_arm(struct sl_exchange *x)
{
	uint64_t at = UINT64_MAX;

	if (sl_exchange_in_flight(x))
		at = sl_min_ns(end_ns(x), idle_end_ns(x));
	for (unsigned i = 0; i < SL_RATE_CNT; i++) {
		if (x->rate[i].due_ns)
			at = sl_min_ns(at, x->rate[i].due_ns);
	}
	if (at != UINT64_MAX)
		sl_timer_set(&x->core->late, &x->late, at);
}

static uint64_t capacity(const struct sl_exchange *x)
{
	uint64_t n = x->route->max_rate / 8;

	return n > LEAST ? n : LEAST;
}

static uint64_t time_of(const struct sl_exchange *x, uint64_t bytes)
{
	return bytes * SL_NS_PER_SEC / x->route->max_rate;
}

static uint64_t full_ns(const struct sl_exchange *x, enum sl_rate side)
{
	uint64_t full = x->rate[side].full_ns, now = x->core->now_ns;

	return full > now ? full : now;
}

static uint64_t missing_of(const struct sl_exchange *x, enum sl_rate side)
{
	return (full_ns(x, side) - x->core->now_ns) * x->route->max_rate / SL_NS_PER_SEC;
}

bool sl_stream_rate_waits(const struct sl_exchange *x, enum sl_rate side)
{
	return sl_stream_rate_is_limited(x) && missing_of(x, side) > capacity(x) / 2;
}

size_t sl_stream_rate_grant(struct sl_exchange *x, enum sl_rate side, size_t want)
{
	uint64_t most = capacity(x), missing = missing_of(x, side);

	if (missing + want <= most)
		return want;
	x->core->stats.stream_waits += !x->rate[side].due_ns;
	want = sl_stream_rate_waits(x, side) ? 0 : (size_t)(most - missing);
	x->rate[side].due_ns =
		x->core->now_ns + 1 + time_of(x, want ? most / 2 : missing - most / 2);
	sl_stream_limits_arm(x);
	return want;
}

void sl_stream_rate_charge(struct sl_exchange *x, enum sl_rate side, size_t n)
{
	x->rate[side].full_ns = full_ns(x, side) + time_of(x, n);
	x->active_ns = x->core->now_ns;
}

bool sl_stream_rate_resumes(struct sl_exchange *x, enum sl_rate side)
{
	if (!x->rate[side].due_ns || x->rate[side].due_ns > x->core->now_ns)
		return false;
	x->rate[side].due_ns = 0;
	sl_stream_limits_arm(x);
	return true;
}
