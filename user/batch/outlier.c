/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/outlier.h"

enum { WINDOW_HALVES = 4 }; /* older counts are ignored */

#define GET(at)    atomic_load_explicit(&(at), memory_order_relaxed)
#define PUT(at, v) atomic_store_explicit(&(at), (v), memory_order_relaxed)

static void age_lane(struct sl_health_lane *l, uint64_t now_ns)
{
	uint64_t since = GET(l->since_ns), halves;

	if (now_ns < since + SL_OUTLIER_HALF_NS)
		return;
	halves = (now_ns - since) / SL_OUTLIER_HALF_NS;
	PUT(l->ok, halves < WINDOW_HALVES ? GET(l->ok) >> halves : 0);
	PUT(l->failed, halves < WINDOW_HALVES ? GET(l->failed) >> halves : 0);
	PUT(l->since_ns, now_ns);
}

bool sl_health_ok(struct sl_health *h, uint32_t lane, uint64_t now_ns)
{
	struct sl_health_lane *l = &h->lanes[lane];
	uint32_t trial = SL_HEALTH_TRIAL;

	age_lane(l, now_ns);
	PUT(l->ok, GET(l->ok) + 1);
	if (GET(h->streak))
		PUT(h->streak, 0);
	if (GET(h->state) != SL_HEALTH_TRIAL)
		return false;
	PUT(h->up_ns, now_ns);
	return atomic_compare_exchange_strong(&h->state, &trial, SL_HEALTH_UP);
}

void sl_health_failed(struct sl_health *h, uint32_t lane, uint64_t now_ns)
{
	struct sl_health_lane *l = &h->lanes[lane];

	age_lane(l, now_ns);
	PUT(l->failed, GET(l->failed) + 1);
	atomic_fetch_add_explicit(&h->streak, 1, memory_order_relaxed);
}

struct sl_health_counts sl_health_sum(const struct sl_health *h, uint64_t now_ns)
{
	struct sl_health_counts sum = {0};

	for (uint32_t i = 0; i < h->lane_cnt; i++) {
		const struct sl_health_lane *l = &h->lanes[i];

		if (now_ns > GET(l->since_ns) + WINDOW_HALVES * SL_OUTLIER_HALF_NS)
			continue;
		sum.ok += GET(l->ok);
		sum.failed += GET(l->failed);
	}
	return sum;
}

static bool has_twice_the_share(struct sl_health_counts own, struct sl_health_counts rest)
{
	return own.failed * (rest.ok + rest.failed) >= 2 * rest.failed * (own.ok + own.failed);
}

bool sl_health_is_outlier(const struct sl_health *h, const struct sl_outlier_rules *rules,
			  const struct sl_health *const *others, uint32_t other_cnt,
			  uint64_t now_ns)
{
	struct sl_health_counts own, rest = {0};

	if (sl_health_state(h) == SL_HEALTH_TRIAL)
		return true;
	own = sl_health_sum(h, now_ns);
	if (GET(h->streak) < rules->failures &&
	    (own.failed < rules->failures || own.failed < own.ok))
		return false;
	for (uint32_t i = 0; i < other_cnt; i++) {
		struct sl_health_counts one = sl_health_sum(others[i], now_ns);

		rest.ok += one.ok;
		rest.failed += one.failed;
	}
	return has_twice_the_share(own, rest);
}

static uint32_t next_level(const struct sl_health *h, const struct sl_outlier_rules *rules,
			   bool trial, uint64_t now_ns)
{
	uint32_t level = GET(h->level);
	uint64_t up_ns = GET(h->up_ns);

	if (!GET(h->ejections))
		return 0;
	if (!trial && now_ns - up_ns > 2 * (rules->time_ns << level))
		return 0;
	return level < SL_OUTLIER_DOUBLINGS ? level + 1 : level;
}

uint64_t sl_health_eject(struct sl_health *h, const struct sl_outlier_rules *rules, double unit,
			 uint64_t now_ns)
{
	uint32_t was = GET(h->state);
	uint32_t level = next_level(h, rules, was == SL_HEALTH_TRIAL, now_ns);
	uint64_t time_ns = rules->time_ns << level;

	if (was == SL_HEALTH_EJECTED)
		return 0;
	time_ns += (uint64_t)((double)time_ns * unit / 4);
	/* Before the state: a worker that sees EJECTED must not see an old end. */
	PUT(h->until_ns, now_ns + time_ns);
	if (!atomic_compare_exchange_strong(&h->state, &was, SL_HEALTH_EJECTED))
		return 0;
	PUT(h->level, level);
	PUT(h->streak, 0);
	atomic_fetch_add_explicit(&h->ejections, 1, memory_order_relaxed);
	return time_ns;
}

enum sl_health_state sl_health_follow(struct sl_health *h, uint64_t now_ns)
{
	uint32_t state = atomic_load(&h->state);

	if (state == SL_HEALTH_EJECTED && now_ns >= GET(h->until_ns) &&
	    atomic_compare_exchange_strong(&h->state, &state, SL_HEALTH_TRIAL))
		return SL_HEALTH_TRIAL;
	return (enum sl_health_state)state;
}

bool sl_health_returned(struct sl_health *h)
{
	if (sl_health_state(h) != SL_HEALTH_EJECTED || GET(h->level))
		return false;
	PUT(h->until_ns, 0);
	return true;
}

uint32_t sl_slow_start(uint64_t start_ns, uint64_t slow_start_ns, uint64_t now_ns)
{
	uint64_t passed = now_ns > start_ns ? now_ns - start_ns : 0;

	if (!start_ns || passed >= slow_start_ns)
		return SL_WEIGHT_UNIT;
	return SL_WEIGHT_FLOOR + (uint32_t)((double)(SL_WEIGHT_UNIT - SL_WEIGHT_FLOOR) *
					    (double)passed / (double)slow_start_ns);
}
