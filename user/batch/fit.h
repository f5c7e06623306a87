/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of a batch of b at a backend in nanoseconds, learnt from reported service times:
 *
 *   time(b) = alpha + beta * b + residual[b]
 *
 * alpha and beta come from sums that decay with each sample. An outlier is clipped; several in a
 * row on one side scale the whole curve. Residuals hold the steps in service times, and are
 * interpolated between seen sizes. Only the line applies above max_size.
 */
#ifndef SL_BATCH_FIT_H
#define SL_BATCH_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the larger number, `a` if `b` is none. */
static inline double sl_fit_max(double a, double b)
{
	return b > a ? b : a;
}

/* Returns the smaller number, `a` if `b` is none. */
static inline double sl_fit_min(double a, double b)
{
	return b < a ? b : a;
}

struct sl_fit_size {
	float residual_ns;
	uint32_t samples;
};

struct sl_fit {
	double alpha_ns, beta_ns;
	double dev_ns;         /* mean deviation from time(b) */
	double mean_b, mean_t; /* decayed */
	double var_b, cov_bt;
	double off_sum, off_expected; /* over the samples in `streak` */
	int streak;                   /* clipped in a row: > 0 too slow, < 0 too fast */
	uint32_t samples;             /* since the start or the last change; limited */
	uint32_t batches;             /* since the start; limited */
	uint32_t largest;
	uint32_t max_size;
	struct sl_fit_size *sizes; /* [max_size + 1] */
	float *curve;              /* [max_size + 1] time(b) at the last refresh */
};

/* Returns 0 or -ENOMEM, with all freed. */
int sl_fit_init(struct sl_fit *f, uint32_t max_size);
/* Frees the curve. May be repeated. */
void sl_fit_fini(struct sl_fit *f);
/* Forgets all samples. */
void sl_fit_reset(struct sl_fit *f);
/* Adds the time of one batch of `b`. The curve changes at the next refresh. */
void sl_fit_add(struct sl_fit *f, uint32_t b, uint64_t time_ns);

/* Returns true after the first sample. */
static inline bool sl_fit_known(const struct sl_fit *f)
{
	return f->largest != 0;
}

/* Recomputes the curve that the functions below read. */
void sl_fit_refresh(struct sl_fit *f);

/* Returns time(b) at the last refresh; 0 if unknown. */
static inline double sl_fit_time(const struct sl_fit *f, uint32_t b)
{
	if (b > f->max_size)
		return f->curve[f->max_size] + f->beta_ns * (b - f->max_size);
	return f->curve[b];
}

/* Returns the largest b of 1..max that takes at most budget_ns; 0: none. */
uint32_t sl_fit_size_within(const struct sl_fit *f, double budget_ns, uint32_t max);
/* Returns the size of max/2..max with the best throughput; max unless the gain is clear. */
uint32_t sl_fit_size_efficient(const struct sl_fit *f, uint32_t max);

#endif
