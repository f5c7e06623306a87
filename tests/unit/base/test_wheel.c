/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wheel.h"

#include "base/clock.h"
#include "base/rand.h"
#include "unit.h"
#include "suite.h"

enum { TIMERS = 200, ALL = 1 << 30 };

/* The model: what each timer must do, without any wheel. */
static struct sl_timer timer[TIMERS];
static struct {
	bool pending;
	uint64_t tick;
} model[TIMERS];
static struct sl_wheel w;
static struct sl_prng rnd;
static uint64_t now, floor_tick, last_fired_tick;
static unsigned fired;
static bool meddle; /* callbacks set and cancel others */

static void model_set(unsigned i, uint64_t expires_ns)
{
	uint64_t tick_ns = sl_wheel_tick_ns(&w);
	uint64_t tick = expires_ns / tick_ns + (expires_ns % tick_ns != 0);

	sl_timer_set(&w, &timer[i], expires_ns);
	model[i].pending = true;
	model[i].tick = tick < floor_tick ? floor_tick : tick;
	unit_check(timer[i].tick == model[i].tick);
}

static void model_cancel(unsigned i)
{
	sl_timer_cancel(&w, &timer[i]);
	model[i].pending = false;
}

/* A time around now, near or far, sometimes past. */
static uint64_t some_time(void)
{
	uint64_t delta = sl_prng_u64(&rnd) >> (24 + sl_prng_below(&rnd, 40));

	if (sl_prng_below(&rnd, 8) == 0)
		return delta < now ? now - delta : 0;
	if (sl_prng_below(&rnd, 500) == 0)
		return UINT64_MAX - delta;
	return now + delta;
}

static void random_change(void)
{
	unsigned i = (unsigned)sl_prng_below(&rnd, TIMERS);

	if (sl_prng_below(&rnd, 3) == 0)
		model_cancel(i);
	else
		model_set(i, some_time());
}

static void on_expiry(void *arg, struct sl_timer *t)
{
	unsigned i = (unsigned)(t - timer);

	unit_check(arg == &w);
	unit_check(model[i].pending);
	unit_check(!sl_timer_pending(t));
	unit_check(model[i].tick <= now / sl_wheel_tick_ns(&w));
	unit_check(model[i].tick >= last_fired_tick);
	last_fired_tick = model[i].tick;
	model[i].pending = false;
	fired++;
	for (int k = 0; meddle && k < 2; k++)
		random_change();
	if (meddle && sl_prng_below(&rnd, 4) == 0)
		model_set(i, some_time());
}

static void start(uint64_t at_ns, uint64_t tick_ns, uint64_t seed)
{
	memset(timer, 0, sizeof(timer));
	memset(model, 0, sizeof(model));
	sl_prng_seed(&rnd, seed);
	now = at_ns;
	fired = 0;
	last_fired_tick = 0;
	sl_wheel_init(&w, at_ns, tick_ns);
	floor_tick = at_ns / sl_wheel_tick_ns(&w) + 1;
}

static uint32_t advance(uint64_t to_ns, uint32_t max)
{
	uint32_t n;
	unsigned before = fired;

	now = to_ns;
	floor_tick = now / sl_wheel_tick_ns(&w) + 1;
	n = sl_wheel_advance(&w, now, on_expiry, &w, max);
	unit_check(n == fired - before);
	unit_check(n <= max);
	return n;
}

/* After all is done for `now`: nothing due is left, and the next time asked for is not too late. */
static void compare_with_model(void)
{
	uint64_t next_tick = UINT64_MAX, tick_ns = sl_wheel_tick_ns(&w);
	uint64_t next_ns = sl_wheel_next_ns(&w);
	uint32_t cnt = 0;

	for (unsigned i = 0; i < TIMERS; i++) {
		unit_check(sl_timer_pending(&timer[i]) == model[i].pending);
		if (!model[i].pending)
			continue;
		cnt++;
		unit_check(model[i].tick > now / tick_ns);
		if (model[i].tick < next_tick)
			next_tick = model[i].tick;
	}
	unit_check(sl_wheel_count(&w) == cnt);
	unit_check(next_ns > now);
	if (cnt)
		unit_check(next_ns / tick_ns <= next_tick);
	else
		unit_check(next_ns == UINT64_MAX);
}

static void run_random(uint64_t tick_ns, uint64_t start_ns, uint64_t seed, uint32_t max)
{
	start(start_ns, tick_ns, seed);
	meddle = true;
	for (int step = 0; step < 10000; step++) {
		uint64_t jump = sl_prng_u64(&rnd) >> (25 + sl_prng_below(&rnd, 39));

		for (uint64_t k = sl_prng_below(&rnd, 20); k; k--)
			random_change();
		last_fired_tick = 0;
		if (sl_prng_below(&rnd, 4) == 0 && sl_wheel_next_ns(&w) < now + jump)
			jump = sl_wheel_next_ns(&w) > now ? sl_wheel_next_ns(&w) - now : 0;
		advance(now + jump, max);
		while (sl_wheel_next_ns(&w) <= now)
			advance(now, max);
		compare_with_model();
	}
	ck_assert_uint_gt(fired, 1000);
}

TEST(random_operations_match_a_naive_model)
{
	run_random(1, 0, 11, ALL);
	run_random(1000000, UINT64_C(123456789012345), 12, ALL);
	run_random(50000, UINT64_C(1) << 47, 13, 3);
	run_random(1, (UINT64_C(1) << 48) - 1000, 14, 1);
}

TEST(never_early_and_at_most_a_tick_late)
{
	start(5000, 1000, 1); /* a tick of 512 */
	meddle = false;
	ck_assert_uint_eq(sl_wheel_tick_ns(&w), 512);
	model_set(0, 10000);
	ck_assert_uint_eq(sl_timer_expires_ns(&w, &timer[0]), 10240);
	ck_assert_uint_eq(advance(10239, ALL), 0);
	ck_assert_uint_eq(advance(10240, ALL), 1);
	model_set(0, 10240 + 512);
	ck_assert_uint_eq(advance(10751, ALL), 0);
	ck_assert_uint_eq(advance(10752, ALL), 1);
}

TEST(the_past_expires_at_the_next_tick)
{
	start(100 * 1024, 1024, 1);
	meddle = false;
	model_set(0, 5);
	ck_assert_uint_eq(sl_wheel_next_ns(&w), 101 * 1024);
	ck_assert_uint_eq(advance(100 * 1024 + 1023, ALL), 0);
	ck_assert_uint_eq(advance(101 * 1024, ALL), 1);
	/* Time that runs back is no time. */
	model_set(0, 102 * 1024);
	ck_assert_uint_eq(sl_wheel_advance(&w, 0, on_expiry, &w, ALL), 0);
	model_set(1, 0);
	model_cancel(1);
	ck_assert_uint_eq(advance(102 * 1024, ALL), 1);
}

static void rearm_in_past(void *arg, struct sl_timer *t)
{
	(void)arg;
	fired++;
	sl_timer_set(&w, t, 0);
}

TEST(a_callback_that_rearms_into_the_past_ends)
{
	start(0, 1, 1);
	sl_timer_set(&w, &timer[0], 10);
	ck_assert_uint_eq(sl_wheel_advance(&w, 1000000, rearm_in_past, NULL, ALL), 1);
	ck_assert_uint_eq(sl_wheel_next_ns(&w), 1000001);
}

static void cancel_neighbours(void *arg, struct sl_timer *t)
{
	(void)arg;
	fired++;
	for (unsigned i = 0; i < TIMERS; i++) {
		if (&timer[i] != t)
			sl_timer_cancel(&w, &timer[i]);
	}
	sl_timer_cancel(&w, t);
}

TEST(a_callback_may_cancel_its_whole_slot)
{
	start(0, 1, 1);
	for (unsigned i = 0; i < TIMERS; i++)
		sl_timer_set(&w, &timer[i], 10);
	ck_assert_uint_eq(sl_wheel_advance(&w, 10, cancel_neighbours, NULL, ALL), 1);
	ck_assert_uint_eq(sl_wheel_count(&w), 0);
	ck_assert_uint_eq(sl_wheel_next_ns(&w), UINT64_MAX);
}

TEST(one_call_does_bounded_work)
{
	start(0, 1, 1);
	meddle = false;
	for (unsigned i = 0; i < TIMERS; i++)
		model_set(i, 4096); /* all in one slot of a higher level */
	/* 4 * 5 + 64 moves, fewer than there are timers: nothing fires yet. */
	ck_assert_uint_eq(advance(5000, 5), 0);
	ck_assert_uint_le(sl_wheel_next_ns(&w), 5000);
	ck_assert_uint_eq(advance(5000, ALL), TIMERS);
	for (unsigned i = 0; i < 10; i++)
		model_set(i, 6000);
	ck_assert_uint_eq(advance(6000, 4), 4);
	ck_assert_uint_le(sl_wheel_next_ns(&w), 6000);
	ck_assert_uint_eq(advance(6000, ALL), 6);
}

TEST(nothing_is_left_to_do_between_a_slot_and_its_timer)
{
	struct sl_timer one = {0};

	sl_wheel_init(&w, 0, 1);
	sl_timer_set(&w, &one, 1000); /* in the slot from 960 to 1023 */
	ck_assert_uint_eq(sl_wheel_advance(&w, 970, on_expiry, &w, ALL), 0);
	ck_assert_uint_gt(sl_wheel_next_ns(&w), 970);
	sl_timer_cancel(&w, &one);
}

TEST(a_jump_of_centuries_is_quick)
{
	uint64_t t0;

	start(0, 1, 1);
	meddle = false;
	model_set(0, UINT64_MAX - 5);
	model_set(1, UINT64_MAX);
	model_set(2, (UINT64_C(1) << 60) + 5);
	t0 = sl_now_ns();
	ck_assert_uint_eq(advance(1000, ALL), 0);
	ck_assert_uint_eq(advance((UINT64_C(1) << 60) + 5, ALL), 1);
	ck_assert_uint_eq(advance(UINT64_MAX - 6, ALL), 0);
	ck_assert_uint_eq(advance(UINT64_MAX - 5, ALL), 1);
	ck_assert_uint_lt(sl_now_ns() - t0, 10 * SL_NS_PER_SEC); /* not tick by tick */
	ck_assert_uint_eq(advance(UINT64_MAX, ALL), 0);
	ck_assert(sl_timer_pending(&timer[1])); /* UINT64_MAX is never */
	ck_assert_uint_eq(sl_wheel_next_ns(&w), UINT64_MAX);
	start(0, 1024, 1);
	model_set(0, UINT64_MAX); /* rounded up to a tick, this is 2^64 */
	ck_assert_uint_eq(sl_wheel_next_ns(&w), UINT64_MAX);
	ck_assert_uint_eq(sl_timer_expires_ns(&w, &timer[0]), UINT64_MAX);
}
