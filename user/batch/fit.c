/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/fit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DECAY        0.97
#define DEV_GAIN     0.05
#define CLIP_DEVS    5.0
#define CLIP_SHARE   0.02
#define FAST_SHARE   0.25
#define LEAST_SHARE  0.25 /* lower limit of a size, relative to the line */
#define CLEARLY      0.02 /* minimum gain in throughput */
#define PRIOR_SPREAD 0.25 /* like sizes that vary by this share */

enum {
	STREAK_CHANGE = 4, /* clipped samples in a row */
	STREAK_FAST = 3,
	SAMPLES_AFTER_CHANGE = 4, /* weight of the old curve then */
	SIZE_SAMPLES_MAX = 16,
	SIZE_SAMPLES_AFTER_CHANGE = 1,
	ENOUGH = 3, /* samples that establish the time of a size */
	MANY = 1000,
	NEIGHBOURS = 8,
};

int sl_fit_init(struct sl_fit *f, uint32_t max_size)
{
	*f = (struct sl_fit){.max_size = max_size};
	f->sizes = calloc(max_size + 1, sizeof(*f->sizes));
	f->curve = calloc(max_size + 1, sizeof(*f->curve));
	if (f->sizes && f->curve)
		return 0;
	sl_fit_fini(f);
	return -ENOMEM;
}

void sl_fit_fini(struct sl_fit *f)
{
	free(f->sizes);
	free(f->curve);
	f->sizes = NULL;
	f->curve = NULL;
}

void sl_fit_reset(struct sl_fit *f)
{
	*f = (struct sl_fit){.max_size = f->max_size, .sizes = f->sizes, .curve = f->curve};
	memset(f->sizes, 0, (f->max_size + 1) * sizeof(*f->sizes));
	memset(f->curve, 0, (f->max_size + 1) * sizeof(*f->curve));
}

static double line_time(const struct sl_fit *f, uint32_t b)
{
	return f->alpha_ns + f->beta_ns * b;
}

static uint32_t residual_reach(uint32_t b)
{
	return b / 8 > 2 ? b / 8 : 2;
}

static double faded_residual(double residual_ns, uint32_t from, uint32_t to)
{
	uint32_t far = from < to ? to - from : from - to;

	return far < residual_reach(from) ? residual_ns * (1 - (double)far / residual_reach(from))
					  : 0;
}

static double residual_between(const struct sl_fit *f, uint32_t lower, uint32_t b, uint32_t upper)
{
	double low = f->sizes[lower].residual_ns, high = f->sizes[upper].residual_ns;

	if (lower && upper && upper - lower <= 2 * residual_reach(b))
		return low + (high - low) * (b - lower) / (upper - lower);
	return (lower ? faded_residual(low, lower, b) : 0) +
	       (upper ? faded_residual(high, upper, b) : 0);
}

static uint32_t next_seen(const struct sl_fit *f, uint32_t b)
{
	while (++b <= f->largest) {
		if (f->sizes[b].samples)
			return b;
	}
	return 0;
}

void sl_fit_refresh(struct sl_fit *f)
{
	uint32_t lower = 0, upper = next_seen(f, 0), b = 1;
	uint32_t near = f->largest + residual_reach(f->largest);

	for (; b <= f->max_size && b < near; b++) {
		const struct sl_fit_size *s = &f->sizes[b];
		double t = line_time(f, b), around, around_weight;

		if (upper && upper <= b)
			upper = next_seen(f, b);
		around = residual_between(f, lower, b, upper);
		around_weight = (double)(SIZE_SAMPLES_MAX - s->samples) / NEIGHBOURS;
		t += ((double)s->residual_ns * s->samples + around * around_weight) /
		     (s->samples + around_weight);
		f->curve[b] = (float)sl_fit_max(1, t);
		if (s->samples)
			lower = b;
	}
	for (; b <= f->max_size; b++)
		f->curve[b] = (float)sl_fit_max(1, line_time(f, b));
	f->curve[0] = f->curve[1];
}

uint32_t sl_fit_size_efficient(const struct sl_fit *f, uint32_t max)
{
	double top = max / sl_fit_time(f, max) * (1 + CLEARLY);
	uint32_t best = max;

	for (uint32_t b = max - 1; b > max / 2; b--) {
		if (b > top * sl_fit_time(f, b)) {
			top = b / sl_fit_time(f, b);
			best = b;
		}
	}
	return best;
}

uint32_t sl_fit_size_within(const struct sl_fit *f, double budget_ns, uint32_t max)
{
	uint32_t b = max;

	while (b && sl_fit_time(f, b) > budget_ns)
		b--;
	return b;
}

/* Residuals scale with the line: the ratio of two pauses at a rare size has no limit. */
static double scaled_residual(double residual_ns, double ratio, double line_ns)
{
	double most = sl_fit_max(fabs(residual_ns), line_ns);

	return copysign(sl_fit_min(fabs(residual_ns) * ratio, most), residual_ns);
}

static void scale_curve(struct sl_fit *f)
{
	double ratio = f->off_sum / f->off_expected;

	f->alpha_ns *= ratio;
	f->beta_ns *= ratio;
	f->mean_t *= ratio;
	f->cov_bt *= ratio;
	for (uint32_t i = 0; i <= f->max_size; i++) {
		struct sl_fit_size *s = &f->sizes[i];

		s->residual_ns = (float)scaled_residual(s->residual_ns, ratio, line_time(f, i));
		if (s->samples > SIZE_SAMPLES_AFTER_CHANGE)
			s->samples = SIZE_SAMPLES_AFTER_CHANGE;
	}
	f->samples = SAMPLES_AFTER_CHANGE;
	f->streak = 0;
	sl_fit_refresh(f);
}

static double expected_time(const struct sl_fit *f, uint32_t b)
{
	const struct sl_fit_size *s = &f->sizes[b <= f->max_size ? b : 0];

	if (b > f->max_size)
		return line_time(f, b);
	return s->samples >= ENOUGH ? line_time(f, b) + s->residual_ns : sl_fit_time(f, b);
}

static double clip_sample(struct sl_fit *f, uint32_t b, double t)
{
	double expected = expected_time(f, b), off = t - expected;
	double limit = sl_fit_max(CLIP_DEVS * f->dev_ns, CLIP_SHARE * expected);

	bool fast = t < expected * FAST_SHARE;

	if (fabs(off) <= limit && !fast) {
		f->streak = 0;
		return t;
	}
	if (f->streak == 0 || (f->streak > 0) != (off > 0)) {
		f->streak = 0;
		f->off_sum = 0;
		f->off_expected = 0;
	}
	f->streak += off > 0 ? 1 : -1;
	f->off_sum += t;
	/* A residual below the line may be outdated: the difference can be near 0. */
	f->off_expected += sl_fit_max(1, sl_fit_max(expected, LEAST_SHARE * line_time(f, b)));
	if (abs(f->streak) < (fast ? STREAK_FAST : STREAK_CHANGE))
		return sl_fit_max(1, expected + copysign(sl_fit_min(limit, fabs(off)), off));
	scale_curve(f);
	return t;
}

static uint32_t count_sample(struct sl_fit *f)
{
	f->samples += f->samples < MANY;
	return f->samples;
}

static void update_line(struct sl_fit *f, uint32_t b, double t)
{
	double gain = sl_fit_max(1.0 / count_sample(f), 1 - DECAY);
	double db = b - f->mean_b, dt = t - f->mean_t;
	double rho;

	f->mean_b += gain * db;
	f->mean_t += gain * dt;
	f->var_b = (1 - gain) * (f->var_b + gain * db * db);
	f->cov_bt = (1 - gain) * (f->cov_bt + gain * db * dt);
	rho = PRIOR_SPREAD * f->mean_b * PRIOR_SPREAD * f->mean_b;
	f->beta_ns = sl_fit_max(0, (f->cov_bt + rho * f->beta_ns) / (f->var_b + rho));
	f->beta_ns = sl_fit_min(f->beta_ns, f->mean_t / f->mean_b); /* alpha >= 0 */
	f->alpha_ns = sl_fit_max(0, f->mean_t - f->beta_ns * f->mean_b);
}

void sl_fit_add(struct sl_fit *f, uint32_t b, uint64_t time_ns)
{
	double t = (double)time_ns, off;

	if (b == 0)
		return;
	if (!sl_fit_known(f)) {
		/* From one point: half counts for the batch, half for its requests. */
		f->mean_b = b;
		f->mean_t = t;
		f->beta_ns = t / (2 * b);
		f->alpha_ns = t / 2;
		f->dev_ns = t / 8;
		f->samples = 1;
		f->largest = b < f->max_size ? b : f->max_size;
		sl_fit_refresh(f);
	} else {
		t = clip_sample(f, b, t);
	}
	f->batches += f->batches < MANY;
	off = fabs(t - expected_time(f, b));
	f->dev_ns += sl_fit_max(DEV_GAIN, 1.0 / (f->samples + 1)) * (off - f->dev_ns);
	update_line(f, b, t);
	if (b <= f->max_size) {
		struct sl_fit_size *s = &f->sizes[b];

		if (s->samples < SIZE_SAMPLES_MAX)
			s->samples++;
		s->residual_ns += (float)((t - line_time(f, b) - s->residual_ns) / s->samples);
	}
	if (b > f->largest)
		f->largest = b < f->max_size ? b : f->max_size;
}
