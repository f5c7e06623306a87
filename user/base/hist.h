/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log-linear histograms: 2^sub_bits buckets per power of two, as arrays of uint64_t.
 *
 *   sub_bits 3:  0 1 2 .. 15 | 16 18 20 .. 30 | 32 36 .. 60 | ...  (lower bounds of buckets)
 *
 * Values from 2^42 (73 minutes in ns) share the last bucket. One writer; readers get no consistent
 * snapshot.
 */
#ifndef SL_BASE_HIST_H
#define SL_BASE_HIST_H

#include <stdint.h>

#define SL_HIST_VALUE_BITS     42
#define SL_HIST_SUB_BITS       3
#define SL_HIST_COUNT_FOR(sub) ((SL_HIST_VALUE_BITS - (sub) + 1) << (sub))
#define SL_HIST_BUCKETS        320
#define SL_HIST_FINE_SUB_BITS  7
#define SL_HIST_SUB_BITS_MAX   12

_Static_assert(SL_HIST_BUCKETS == SL_HIST_COUNT_FOR(SL_HIST_SUB_BITS), "buckets");

/* Returns the bucket of a value. `sub`: sub_bits. */
static inline uint32_t sl_hist_bucket_sub(uint64_t v, uint32_t sub)
{
	uint64_t one = UINT64_C(1) << sub;
	uint32_t last = ((SL_HIST_VALUE_BITS + 1 - sub) << sub) - 1;
	uint32_t shift = 63 - sub - (uint32_t)__builtin_clzll(v | one);
	uint64_t b = ((uint64_t)shift << sub) + (v >> shift);

	return b > last ? last : (uint32_t)b;
}

/* Returns the bucket's lower bound. */
static inline uint64_t sl_hist_lower_sub(uint32_t bucket, uint32_t sub)
{
	uint32_t group = bucket >> sub;
	uint64_t pos = bucket & ((1u << sub) - 1);

	return group ? (pos | UINT64_C(1) << sub) << (group - 1) : pos;
}

/* Same with SL_HIST_SUB_BITS. */
static inline uint32_t sl_hist_bucket(uint64_t v)
{
	return sl_hist_bucket_sub(v, SL_HIST_SUB_BITS);
}
static inline uint64_t sl_hist_lower(uint32_t bucket)
{
	return sl_hist_lower_sub(bucket, SL_HIST_SUB_BITS);
}

/* Adds one value to SL_HIST_BUCKETS counters. */
static inline void sl_hist_add(uint64_t *b, uint64_t v)
{
	b[sl_hist_bucket(v)]++;
}

/* Returns the number of values. */
uint64_t sl_hist_count(const uint64_t *b);

/* Adds `src` to `dst`. */
void sl_hist_merge(uint64_t *dst, const uint64_t *src);

/* dst = a - b; b is an earlier copy of a. */
void sl_hist_diff(uint64_t *dst, const uint64_t *a, const uint64_t *b);

/* Returns the quantile q (clamped to 0..1), interpolated in its bucket; 0 if empty. */
uint64_t sl_hist_quantile(const uint64_t *b, double q);

/* Finer buckets; exact minimum, maximum and sum. */
struct sl_hist_fine {
	uint64_t *bucket;
	uint32_t sub_bits;
	uint32_t bucket_cnt;
	uint64_t count;
	uint64_t sum;
	uint64_t min; /* UINT64_MAX: empty */
	uint64_t max;
};

/* sub_bits: 1..SL_HIST_SUB_BITS_MAX. Returns 0, -EINVAL or -ENOMEM. */
int sl_hist_fine_init(struct sl_hist_fine *h, uint32_t sub_bits);
/* Frees the buckets. */
void sl_hist_fine_fini(struct sl_hist_fine *h);
/* Removes all values. */
void sl_hist_fine_reset(struct sl_hist_fine *h);
/* Adds a value. */
void sl_hist_fine_add(struct sl_hist_fine *h, uint64_t v);

/* Adds src to dst. Returns 0, or -EINVAL if sub_bits differ. */
int sl_hist_fine_merge(struct sl_hist_fine *dst, const struct sl_hist_fine *src);

/* Returns the quantile q, within [min, max]; empty: 0. */
uint64_t sl_hist_fine_quantile(const struct sl_hist_fine *h, double q);

/* Returns the mean; empty: 0. */
static inline uint64_t sl_hist_fine_mean(const struct sl_hist_fine *h)
{
	return h->count ? h->sum / h->count : 0;
}

#endif
