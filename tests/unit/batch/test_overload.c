/* SPDX-License-Identifier: Apache-2.0 */
/* When it is overload, from counters alone: 10 requests a millisecond can be served, the bound is
 * 20 ms. */
#include <math.h>
#include <stdlib.h>

#include "base/rand.h"
#include "batch/overload.h"
#include "suite.h"

#define MS     UINT64_C(1000000)
#define RATE   10.0 /* a millisecond */
#define WINDOW 60   /* milliseconds */

static struct sl_overload o;
static struct sl_overload_input in;
static struct sl_prng rng;
static uint64_t now_ns;
static double queued, served;

static void set_up(void)
{
	o = (struct sl_overload){0};
	in = (struct sl_overload_input){.bound_ns = 20e6, .rate = RATE / 1e6};
	now_ns = 1000 * MS;
	queued = served = 0;
	sl_prng_seed(&rng, 4);
}

/* A millisecond in which `load` of the rate comes, by chance, and `speed` of it is served. */
static void pass(double load, double speed)
{
	double left = 1, done;

	while ((left -= sl_prng_exp(&rng, 1 / (load * RATE))) > 0) {
		in.arrivals++;
		queued++;
	}
	done = queued < speed * RATE ? queued : speed * RATE;
	queued -= done;
	served += done;
	in.served = (uint64_t)served;
	in.queued = (uint32_t)queued;
	in.late = queued > 10 * RATE; /* ms that it takes, and then the request's own batch */
	now_ns += MS;
	sl_overload_tick(&o, &in, now_ns);
}

/* Milliseconds until it is overload, of at most so many. */
static unsigned until_on(double load, double speed, unsigned most)
{
	unsigned ms = 0;

	while (!o.on && ms < most) {
		pass(load, speed);
		ms++;
	}
	return ms;
}

FIXTURE(set_up, NULL)

TEST(more_than_can_be_served_is_overload)
{
	until_on(0.5, 1, 500);
	ck_assert(!o.on);
	ck_assert_uint_le(until_on(1.5, 1, 1000), 20 + 2 * WINDOW + 10);
	ck_assert(o.on);
}

TEST(a_little_more_takes_a_little_longer)
{
	ck_assert_uint_lt(until_on(1.1, 1, 10000), 1000);
	ck_assert(o.on);
}

/* Loads of 25, 50, 75 and 90 %, each second interrupted for 5 to 50 ms. */
TEST_EACH(stalls_are_no_overload, 4)
{
	static const double loads[] = {0.25, 0.5, 0.75, 0.9};
	unsigned late = 0;

	for (unsigned ms = 0; ms < 60000; ms++) {
		unsigned stall = 5 + ms / 1000 % 10 * 5;

		pass(loads[_i], ms % 1000 < stall ? 0 : 1);
		late += in.late;
		ck_assert_msg(!o.on, "after %u ms", ms);
	}
	ck_assert_uint_gt(late, 0);
}

/* The gateway itself stood still: what came meanwhile comes at once. */
TEST(backlog_of_a_stall_is_no_demand)
{
	for (unsigned round = 0; round < 20; round++) {
		pass(40 * 0.9, 1);
		until_on(0.9, 1, 960);
		ck_assert(!o.on);
	}
}

/* Late in each window, and each time all of it has gone before the next stall. */
TEST(stalls_that_drain_are_no_overload_however_frequent)
{
	for (unsigned ms = 0; ms < 100 * WINDOW; ms++) {
		pass(0.55, ms % WINDOW < 25 ? 0 : 1);
		ck_assert(!o.on);
	}
}

/* One request more in a window of three means nothing: for a slow pool, most of it is chance. */
TEST(chance_is_no_demand)
{
	in.rate = 0.05 / 1e6;
	in.late = true;
	for (unsigned round = 0; round < 30; round++) {
		in.queued = 1000;
		for (unsigned ms = 0; ms < 19 * WINDOW; ms++) {
			in.arrivals += sl_prng_unit(&rng) < 0.9 * 0.05;
			in.queued -= ms % 20 == 0;
			now_ns += MS;
			sl_overload_tick(&o, &in, now_ns);
			ck_assert_msg(!o.on, "round %u, ms %u", round, ms);
		}
	}
}

TEST(burst_is_no_overload)
{
	for (unsigned round = 0; round < 20; round++) {
		until_on(1.6, 1, WINDOW);
		until_on(0.4, 1, 1000);
		ck_assert(!o.on);
	}
}

/* The rate says 10 a millisecond, but the backends make 6 of it, whatever was learnt: 8 are too
 * many. */
TEST(queue_that_never_drains_is_overload)
{
	unsigned ms = until_on(0.8, 0.6, 10000);

	ck_assert(o.on);
	ck_assert_uint_gt(ms, 20 * WINDOW);
	ck_assert_uint_lt(ms, 22 * WINDOW + 120);
	/* The rate is now the one that is served: overload lasts while more comes. */
	for (unsigned i = 0; i < 100 * WINDOW; i++) {
		pass(0.8, 0.6);
		ck_assert(o.on || o.trial);
	}
	for (unsigned i = 0; i < 41 * WINDOW; i++)
		pass(0.5, 0.6);
	ck_assert(!o.on);
}

/* Nothing is known of one that answers nothing: time-outs and the queue's limit are for it. */
TEST(backend_that_stands_still_for_ever_is_no_overload)
{
	until_on(0.5, 0, 20000);
	ck_assert(in.late);
	ck_assert(!o.on);
}

TEST(overload_is_over_when_less_comes)
{
	until_on(1.5, 1, 1000);
	ck_assert(o.on);
	for (unsigned i = 0; i < 60 * WINDOW; i++) {
		pass(1.1, 1);
		ck_assert(o.on || o.trial);
	}
	for (unsigned i = 0; i < 40 * WINDOW + 1 && o.on; i++)
		pass(0.9, 1);
	ck_assert(!o.on);
}

/* A few batches that took longer, and the plan is another one for a moment. */
TEST(rate_that_is_low_for_moments_is_no_overload)
{
	for (unsigned phase = 0; phase < 10; phase++) {
		set_up();
		for (unsigned ms = 0; ms < 20 * WINDOW; ms++) {
			in.rate = ((ms + phase) % 10 < 8 ? RATE : RATE / 4) / 1e6;
			pass(0.7, ms % WINDOW < 20 ? 0 : 1.1);
			ck_assert_msg(!o.on, "after %u ms", ms);
		}
	}
}

/* Clients that wait for their reply bring 0.7 of the capacity; refused ones ask again at once. */
static double loop_load(void)
{
	return o.on ? 5 : 0.7;
}

TEST(overload_that_only_its_own_refusals_keep_up_ends)
{
	unsigned ms = 0;

	until_on(1.5, 1, 1000);
	ck_assert(o.on);
	for (; (o.on || o.trial) && ms < 100 * WINDOW; ms++) {
		queued = fmin(queued, 20 * RATE); /* the rest was refused */
		pass(loop_load(), 1);
	}
	ck_assert_uint_le(ms, 21 * WINDOW);
	for (ms = 0; ms < 50 * WINDOW; ms++) {
		pass(loop_load(), 1);
		ck_assert(!o.on);
	}
}

/* More wait for their replies than can have them in time: each trial says that fewer come. */
TEST(overload_of_a_loop_that_is_too_large_lasts)
{
	unsigned calm = 0;

	until_on(1.5, 1, 1000);
	for (unsigned ms = 0; ms < 400 * WINDOW; ms++) {
		if (o.on)
			queued = fmin(queued, 20 * RATE);
		else
			queued = fmax(queued, 30 * RATE);
		pass(o.on ? 5 : 1, 1);
		calm += !o.on;
	}
	ck_assert_uint_lt(calm, 60 * WINDOW);
}

TEST(nothing_is_concluded_from_an_unknown_rate)
{
	in.rate = 0;
	for (unsigned i = 0; i < 10 * WINDOW; i++) {
		pass(1.5, 1);
		ck_assert(!o.on);
	}
}
