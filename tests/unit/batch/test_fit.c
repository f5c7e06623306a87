/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's estimate of a backend's service times. */
#include <math.h>
#include <stdlib.h>

#include "base/rand.h"
#include "batch/fit.h"
#include "suite.h"

#define MS 1e6

static struct sl_fit fit;
static struct sl_prng rng;

static void set_up(void)
{
	ck_assert_int_eq(sl_fit_init(&fit, 256), 0);
	sl_prng_seed(&rng, 7);
}

static void tear_down(void)
{
	sl_fit_fini(&fit);
}

/* alpha + beta * b, with a deviation of so many parts of it. */
static void feed(double alpha, double beta, double noise, unsigned lo, unsigned hi, unsigned cnt)
{
	for (unsigned i = 0; i < cnt; i++) {
		uint32_t b = lo + (uint32_t)sl_prng_below(&rng, hi - lo + 1);
		double t = (alpha + beta * b) * (1 + noise * (2 * sl_prng_unit(&rng) - 1));

		sl_fit_add(&fit, b, (uint64_t)t);
		if (i % 5 == 0) /* as the controller does every few batches */
			sl_fit_refresh(&fit);
	}
	sl_fit_refresh(&fit);
}

static double error_at(double alpha, double beta, uint32_t b)
{
	double t = alpha + beta * b;

	return fabs(sl_fit_time(&fit, b) - t) / t;
}

FIXTURE(set_up, tear_down)

TEST(noise_is_averaged_and_measured)
{
	feed(2 * MS, 0.05 * MS, 0.1, 1, 100, 400);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 5), 0.06);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 50), 0.06);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 100), 0.06);
	/* Uniform within a tenth: the mean deviation is a twentieth of 4.5 ms. */
	ck_assert_double_gt(fit.dev_ns, 0.1 * MS);
	ck_assert_double_lt(fit.dev_ns, 0.4 * MS);
}

TEST(outliers_hardly_move_it)
{
	feed(2 * MS, 0.05 * MS, 0.02, 1, 100, 200);
	for (int i = 0; i < 20; i++) {
		sl_fit_add(&fit, 50, (uint64_t)(450 * MS)); /* a hundred times too long */
		feed(2 * MS, 0.05 * MS, 0.02, 1, 100, 10);
	}
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 20), 0.1);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 80), 0.1);
}

/* Without the prior the slope is noise over nothing, and sizes are predicted at random. */
TEST(slope_survives_sizes_that_stand_still)
{
	feed(2 * MS, 0.05 * MS, 0.03, 1, 64, 200);
	feed(2 * MS, 0.05 * MS, 0.03, 63, 64, 2000);
	ck_assert_double_lt(fabs(fit.beta_ns - 0.05 * MS), 0.015 * MS);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 16), 0.15);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 128), 0.15);
}

TEST(slowdown_is_believed_after_a_few_batches)
{
	feed(2 * MS, 0.05 * MS, 0.02, 1, 100, 300);
	feed(3.2 * MS, 0.08 * MS, 0.02, 60, 60, 12);
	ck_assert_double_lt(error_at(3.2 * MS, 0.08 * MS, 60), 0.08);
	ck_assert_double_lt(error_at(3.2 * MS, 0.08 * MS, 20), 0.2); /* the curve as a whole */
	ck_assert_double_lt(error_at(3.2 * MS, 0.08 * MS, 100), 0.2);
}

TEST(recovery_is_believed_as_well)
{
	feed(3.2 * MS, 0.08 * MS, 0.02, 1, 100, 300);
	feed(2 * MS, 0.05 * MS, 0.02, 1, 100, 40);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 20), 0.1);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 90), 0.1);
	feed(3.2 * MS, 0.08 * MS, 0.02, 1, 100, 40);
	ck_assert_double_lt(error_at(3.2 * MS, 0.08 * MS, 50), 0.1);
}

TEST(steps_stay_steps)
{
	for (int i = 0; i < 3000; i++) {
		uint32_t b = 1 + (uint32_t)sl_prng_below(&rng, 128);

		sl_fit_add(&fit, b, (uint64_t)(2 * MS + 1.6 * MS * ((b + 31) / 32)));
	}
	sl_fit_refresh(&fit);
	ck_assert_double_lt(fabs(sl_fit_time(&fit, 64) - 5.2 * MS), 0.3 * MS);
	ck_assert_double_lt(fabs(sl_fit_time(&fit, 65) - 6.8 * MS), 0.3 * MS);
	ck_assert_uint_eq(sl_fit_size_efficient(&fit, 100), 96);
	ck_assert_uint_eq(sl_fit_size_efficient(&fit, 64), 64);
	ck_assert_uint_eq(sl_fit_size_within(&fit, 5.6 * MS, 256), 64);
}

/* A backend that several gateways use makes larger batches than any of them may. */
TEST(larger_than_the_largest_is_on_the_line)
{
	feed(2 * MS, 0.05 * MS, 0.01, 200, 500, 300);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 400), 0.05);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 220), 0.05);
	ck_assert_uint_eq(fit.largest, 256);
	ck_assert_uint_ge(sl_fit_size_within(&fit, 2 * MS + 400 * 0.05 * MS, 1000), 380);
	ck_assert_uint_le(sl_fit_size_within(&fit, 2 * MS + 400 * 0.05 * MS, 1000), 420);
}

/* Times that grow faster than the size must not make the fixed part negative. */
TEST(fixed_part_is_never_negative)
{
	for (int i = 0; i < 500; i++) {
		uint32_t b = 20 + (uint32_t)sl_prng_below(&rng, 100);

		sl_fit_add(&fit, b, (uint64_t)(0.001 * MS * b * b));
		ck_assert_double_ge(fit.alpha_ns, 0);
	}
}

/* A backend becomes fast again after service times so variable that none was an outlier. */
TEST(fast_again_after_chaos)
{
	for (int i = 0; i < 200; i++)
		sl_fit_add(&fit, 1, (uint64_t)(i % 2 ? 900 * MS : 300 * MS));
	for (int i = 0; i < 8; i++)
		sl_fit_add(&fit, 1, (uint64_t)(4 * MS));
	sl_fit_refresh(&fit);
	ck_assert_double_lt(sl_fit_time(&fit, 1), 60 * MS);
}

TEST(change_scales_the_steps)
{
	double step;

	for (int i = 0; i < 3000; i++) {
		uint32_t b = 1 + (uint32_t)sl_prng_below(&rng, 128);

		sl_fit_add(&fit, b, (uint64_t)(MS + 4 * MS * ((b + 63) / 64)));
	}
	sl_fit_refresh(&fit);
	step = sl_fit_time(&fit, 70) - sl_fit_time(&fit, 60);
	for (int i = 0; i < 5; i++) /* all of one size */
		sl_fit_add(&fit, 64, (uint64_t)(3 * 5 * MS));
	sl_fit_refresh(&fit);
	ck_assert_double_gt(sl_fit_time(&fit, 70) - sl_fit_time(&fit, 60), 2.5 * step);
}

TEST(sizes_in_between_are_interpolated)
{
	for (int i = 0; i < 2000; i++) {
		uint32_t b = 8 * (1 + (uint32_t)sl_prng_below(&rng, 6));

		sl_fit_add(&fit, b, (uint64_t)(2 * MS + 0.05 * MS * b + (b == 48 ? MS : 0)));
	}
	sl_fit_refresh(&fit);
	ck_assert_double_lt(
		fabs(sl_fit_time(&fit, 44) * 2 / (sl_fit_time(&fit, 40) + sl_fit_time(&fit, 48)) -
		     1),
		0.03);
}

/* Too slow a change for any sample to stand out. */
TEST(creeping_change_is_followed)
{
	double factor = 1;

	feed(2 * MS, 0.05 * MS, 0.02, 1, 100, 3000);
	for (int i = 0; i < 600; i++, factor *= 1.001)
		feed(2 * MS * factor, 0.05 * MS * factor, 0.02, 1, 100, 1);
	ck_assert_double_lt(fabs((fit.alpha_ns + 50 * fit.beta_ns) / (4.5 * MS * factor) - 1),
			    0.08);
}

TEST(strange_samples_do_no_harm)
{
	sl_fit_add(&fit, 0, 5);
	ck_assert(!sl_fit_known(&fit));
	for (int i = 0; i < 20000; i++)
		sl_fit_add(&fit, (uint32_t)sl_prng_below(&rng, 300),
			   sl_prng_u64(&rng) >> sl_prng_below(&rng, 64));
	sl_fit_refresh(&fit);
	for (uint32_t b = 0; b <= 300; b++)
		ck_assert(isfinite(sl_fit_time(&fit, b)) && sl_fit_time(&fit, b) >= 1);
	ck_assert(fit.alpha_ns >= 0 && fit.beta_ns >= 0 && fit.dev_ns >= 0);
}

/*
 * Batches that take microseconds took milliseconds in a row on a busy machine. The ratio of
 * measured to expected time then grew to millions, and requests with 30 s left were refused. The
 * seeds are the worst of 20,000.
 */
TEST(pauses_are_not_multiplied_by_each_other)
{
	const uint64_t seeds[] = {9736, 13589, 10385, 3572, 12173, 8031};

	for (unsigned k = 0; k < sizeof(seeds) / sizeof(seeds[0]); k++) {
		double often, pause, largest = 0;
		uint32_t most, left = 0;

		sl_prng_seed(&rng, seeds[k]);
		sl_fit_reset(&fit);
		often = 0.02 * sl_prng_unit(&rng);
		often *= sl_prng_unit(&rng);
		pause = MS * pow(30, sl_prng_unit(&rng));
		most = 2 + (uint32_t)sl_prng_below(&rng, 8);
		for (unsigned i = 0; i < 3000; i++) {
			uint32_t b = 1 + (uint32_t)sl_prng_below(&rng, most);
			double t = (1500 + 100 * b) * (0.8 + 0.4 * sl_prng_unit(&rng)), part;

			if (sl_prng_unit(&rng) < often)
				left = 1 + (uint32_t)sl_prng_below(&rng, 12);
			if (left) {
				left--;
				part = sl_prng_unit(&rng);
				t += pause * part * sl_prng_unit(&rng);
			}
			largest = fmax(largest, t);
			sl_fit_add(&fit, b, (uint64_t)t);
			if (i % 5 == 0)
				sl_fit_refresh(&fit);
			for (uint32_t size = 1; i > 100 && size <= most; size++)
				ck_assert_double_lt(sl_fit_time(&fit, size), 20 * largest);
		}
	}
}

/* One sample a batch, 300,000 a second: a count of 32 bits would be at its end within four hours. */
TEST(the_count_of_samples_has_an_end)
{
	feed(2 * MS, 0.05 * MS, 0.1, 1, 100, 200);
	fit.samples = UINT32_MAX - 2;
	feed(2 * MS, 0.05 * MS, 0.1, 1, 100, 10);
	ck_assert_double_lt(error_at(2 * MS, 0.05 * MS, 50), 0.06);
}
