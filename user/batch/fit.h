/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a batch of b at a backend, learnt from reported service times, in nanoseconds:
 *
 *   time(b) = alpha + beta * b + residual[b]
 *
 * alpha and beta come from sums that decay with each sample. The last beta is the prior, so it stays
 * while all batches have one size. An outlier is clipped; several in a row on the same side mean that
 * the backend has changed, and scale the whole curve.
 *
 * Residuals hold the steps in service times of accelerators. They are interpolated between seen sizes
 * and fade far from them. Only the line applies above max_size.
 */
#ifndef SL_BATCH_FIT_H
#define SL_BATCH_FIT_H

#include <stdbool.h>
#include <stdint.h>

struct sl_fit_size {
	float residual_ns;
	uint32_t samples;
};

struct sl_fit {
	double alpha_ns, beta_ns;
	double dev_ns;         /* mean, of samples from time(b) */
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

/* Allocates an empty fit of sizes up to max_size. Returns 0 or -ENOMEM. */
int sl_fit_init(struct sl_fit *f, uint32_t max_size);
void sl_fit_fini(struct sl_fit *f);
void sl_fit_reset(struct sl_fit *f);
void sl_fit_add(struct sl_fit *f, uint32_t b, uint64_t time_ns);

static inline bool sl_fit_known(const struct sl_fit *f)
{
	return f->largest != 0;
}

/* Recomputes the curve, from which the functions below read. */
void sl_fit_refresh(struct sl_fit *f);

static inline double sl_fit_time(const struct sl_fit *f, uint32_t b)
{
	if (b > f->max_size)
		return f->curve[f->max_size] + f->beta_ns * (b - f->max_size);
	return f->curve[b];
}

/* Returns the largest b of 1..max that takes at most budget_ns; 0: none. */
uint32_t sl_fit_size_within(const struct sl_fit *f, double budget_ns, uint32_t max);
/*
 * Returns the size with the highest throughput of max/2..max; max unless another is clearly better.
 */
uint32_t sl_fit_size_efficient(const struct sl_fit *f, uint32_t max);

#endif
