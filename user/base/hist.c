/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hist.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t rank_of(double q, uint64_t n)
{
	double exact;
	uint64_t rank;

	if (!(q > 0)) /* NaN too */
		return 1;
	if (q >= 1)
		return n;
	exact = q * (double)n;
	rank = (uint64_t)exact;
	if ((double)rank < exact)
		rank++;
	return rank > n ? n : rank;
}

static uint64_t quantile(const uint64_t *b, uint32_t cnt, uint32_t sub, uint64_t total, double q)
{
	uint64_t rank, lower, width;
	uint32_t i = 0;

	if (!total)
		return 0;
	rank = rank_of(q, total);
	while (i < cnt - 1 && rank > b[i])
		rank -= b[i++];
	lower = sl_hist_lower_sub(i, sub);
	if (i == cnt - 1 || rank > b[i])
		return lower;
	width = sl_hist_lower_sub(i + 1, sub) - lower;
	return lower + (uint64_t)((double)width * ((double)rank - 0.5) / (double)b[i]);
}

uint64_t sl_hist_count(const uint64_t *b)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < SL_HIST_BUCKETS; i++)
		n += b[i];
	return n;
}

void sl_hist_merge(uint64_t *dst, const uint64_t *src)
{
	for (uint32_t i = 0; i < SL_HIST_BUCKETS; i++)
		dst[i] += src[i];
}

void sl_hist_diff(uint64_t *dst, const uint64_t *a, const uint64_t *b)
{
	for (uint32_t i = 0; i < SL_HIST_BUCKETS; i++)
		dst[i] = a[i] >= b[i] ? a[i] - b[i] : a[i];
}

uint64_t sl_hist_quantile(const uint64_t *b, double q)
{
	return quantile(b, SL_HIST_BUCKETS, SL_HIST_SUB_BITS, sl_hist_count(b), q);
}

int sl_hist_fine_init(struct sl_hist_fine *h, uint32_t sub_bits)
{
	*h = (struct sl_hist_fine){0};
	if (sub_bits < 1 || sub_bits > SL_HIST_SUB_BITS_MAX)
		return -EINVAL;
	h->sub_bits = sub_bits;
	h->bucket_cnt = SL_HIST_COUNT_FOR(sub_bits);
	h->bucket = calloc(h->bucket_cnt, sizeof(*h->bucket));
	if (!h->bucket)
		return -ENOMEM;
	h->min = UINT64_MAX;
	return 0;
}

void sl_hist_fine_fini(struct sl_hist_fine *h)
{
	free(h->bucket);
	*h = (struct sl_hist_fine){0};
}

void sl_hist_fine_reset(struct sl_hist_fine *h)
{
	memset(h->bucket, 0, h->bucket_cnt * sizeof(*h->bucket));
	h->count = 0;
	h->sum = 0;
	h->min = UINT64_MAX;
	h->max = 0;
}

void sl_hist_fine_add(struct sl_hist_fine *h, uint64_t v)
{
	h->bucket[sl_hist_bucket_sub(v, h->sub_bits)]++;
	h->count++;
	h->sum += v;
	if (v < h->min)
		h->min = v;
	if (v > h->max)
		h->max = v;
}

int sl_hist_fine_merge(struct sl_hist_fine *dst, const struct sl_hist_fine *src)
{
	if (dst->sub_bits != src->sub_bits)
		return -EINVAL;
	for (uint32_t i = 0; i < dst->bucket_cnt; i++)
		dst->bucket[i] += src->bucket[i];
	dst->count += src->count;
	dst->sum += src->sum;
	if (src->min < dst->min)
		dst->min = src->min;
	if (src->max > dst->max)
		dst->max = src->max;
	return 0;
}

uint64_t sl_hist_fine_quantile(const struct sl_hist_fine *h, double q)
{
	uint64_t v = quantile(h->bucket, h->bucket_cnt, h->sub_bits, h->count, q);

	if (!h->count)
		return 0;
	if (q >= 1)
		return h->max;
	return v < h->min ? h->min : v > h->max ? h->max : v;
}
