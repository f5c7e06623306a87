/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a batch of b costs a backend, learnt from the service times that it reports:
 *
 *   time(b) = alpha + beta * b + residual[b]
 *
 * alpha and beta come from sums that decay with each sample; beta has its last value as a prior, so
 * it stays where it is while all batches have one size. A sample far off is clipped; several in a
 * row on the same side are a backend that has changed, and the whole curve is scaled. The residuals
 * hold what no line can say: service times of accelerators rise in steps. Between sizes that have
 * been seen they are interpolated, far from any they fade. A backend may compute more at once than
 * max_size: beyond it there is only the line. Times are nanoseconds.
 */
#ifndef SL_BATCH_FIT_H
#define SL_BATCH_FIT_H

#include <stdbool.h>
#include <stdint.h>

/* Of the last samples of one size. */
struct sl_fit_size {
	float residual_ns;
	uint32_t samples;
};

struct sl_fit {
	double alpha_ns, beta_ns;
	double dev_ns;         /* mean deviation of samples from time(b) */
	double mean_b, mean_t; /* decayed */
	double var_b, cov_bt;
	double off_sum, off_expected; /* of the samples in `streak` */
	int streak;                   /* clipped in a row: above 0 too slow, below 0 too fast */
	uint32_t samples; /* since the start or the last change, for the gain; up to many, too */
	uint32_t batches; /* since the start, up to a number that is many */
	uint32_t largest; /* size seen */
	uint32_t max_size;
	struct sl_fit_size *sizes; /* [max_size + 1] */
	float *curve;              /* [max_size + 1] time(b) as of the last refresh */
};

/* 0 or -ENOMEM. */
int sl_fit_init(struct sl_fit *f, uint32_t max_size);
void sl_fit_fini(struct sl_fit *f);
/* Nothing is known any more. */
void sl_fit_reset(struct sl_fit *f);
void sl_fit_add(struct sl_fit *f, uint32_t b, uint64_t time_ns);

static inline bool sl_fit_known(const struct sl_fit *f)
{
	return f->largest != 0;
}

/* Draws the curve anew; until then time() and the two below know nothing of later samples. */
void sl_fit_refresh(struct sl_fit *f);

static inline double sl_fit_time(const struct sl_fit *f, uint32_t b)
{
	if (b > f->max_size)
		return f->curve[f->max_size] + f->beta_ns * (b - f->max_size);
	return f->curve[b];
}

/* The largest b of 1..max that takes at most budget_ns; 0: none does. */
uint32_t sl_fit_size_within(const struct sl_fit *f, double budget_ns, uint32_t max);
/* The size of which most are served per time, of max and those not below its half; max unless
 * another is clearly better. */
uint32_t sl_fit_size_efficient(const struct sl_fit *f, uint32_t max);

#endif
