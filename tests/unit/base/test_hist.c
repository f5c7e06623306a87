/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hist.h"

#include <errno.h>

#include "base/rand.h"
#include "unit.h"
#include "suite.h"

static uint64_t b[SL_HIST_BUCKETS], other[SL_HIST_BUCKETS];

TEST(buckets_tile_the_range)
{
	ck_assert_uint_eq(sl_hist_bucket(0), 0);
	ck_assert_uint_eq(sl_hist_bucket(15), 15);
	ck_assert_uint_eq(sl_hist_bucket(17), 16);
	ck_assert_uint_eq(sl_hist_bucket((UINT64_C(1) << 42) - 1), SL_HIST_BUCKETS - 1);
	ck_assert_uint_eq(sl_hist_bucket(UINT64_MAX), SL_HIST_BUCKETS - 1);
	for (uint32_t i = 0; i + 1 < SL_HIST_BUCKETS; i++) {
		uint64_t lower = sl_hist_lower(i), upper = sl_hist_lower(i + 1);

		ck_assert_uint_lt(lower, upper);
		ck_assert_uint_eq(sl_hist_bucket(lower), i);
		ck_assert_uint_eq(sl_hist_bucket(upper - 1), i);
		ck_assert_uint_eq(sl_hist_bucket(upper), i + 1);
		if (i >= 8) /* an eighth of the value at the most */
			ck_assert_uint_le((upper - lower) * 8, lower);
	}
}

TEST(quantiles_of_few_values)
{
	ck_assert_uint_eq(sl_hist_quantile(b, 0.5), 0);
	sl_hist_add(b, 5);
	ck_assert_uint_eq(sl_hist_quantile(b, 0), 5);
	ck_assert_uint_eq(sl_hist_quantile(b, 1), 5);
	ck_assert_uint_eq(sl_hist_quantile(b, 2), 5);
	ck_assert_uint_eq(sl_hist_quantile(b, -1), 5);
	for (int i = 0; i < 99; i++)
		sl_hist_add(b, 3);
	ck_assert_uint_eq(sl_hist_quantile(b, 0.99), 3);
	ck_assert_uint_eq(sl_hist_quantile(b, 0.991), 5);
	ck_assert_uint_eq(sl_hist_quantile(b, __builtin_nan("")), 3);
	ck_assert_uint_eq(sl_hist_quantile(b, 1e300), 5);
	sl_hist_add(b, UINT64_MAX);
	ck_assert_uint_eq(sl_hist_quantile(b, 1), sl_hist_lower(SL_HIST_BUCKETS - 1));
}

static int by_value(const void *x, const void *y)
{
	uint64_t a = *(const uint64_t *)x, c = *(const uint64_t *)y;

	return (a > c) - (a < c);
}

TEST(quantiles_are_off_by_a_bucket_at_most)
{
	static const double qs[] = {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
	enum { N = 20000 };
	static uint64_t v[N];
	struct sl_hist_fine fine;
	struct sl_prng r;

	sl_prng_seed(&r, 3);
	ck_assert_int_eq(sl_hist_fine_init(&fine, SL_HIST_FINE_SUB_BITS), 0);
	for (int i = 0; i < N; i++) {
		v[i] = (uint64_t)sl_prng_exp(&r, 50000.0);
		sl_hist_add(b, v[i]);
		sl_hist_fine_add(&fine, v[i]);
	}
	qsort(v, N, sizeof(v[0]), by_value);
	ck_assert_uint_eq(sl_hist_count(b), N);
	for (size_t i = 0; i < sizeof(qs) / sizeof(qs[0]); i++) {
		double want = (double)v[(int)(qs[i] * N) - 1];

		ck_assert_double_le((double)sl_hist_quantile(b, qs[i]), want * 1.125 + 1);
		ck_assert_double_ge((double)sl_hist_quantile(b, qs[i]), want * 0.875 - 1);
		ck_assert_double_le((double)sl_hist_fine_quantile(&fine, qs[i]), want * 1.008 + 1);
		ck_assert_double_ge((double)sl_hist_fine_quantile(&fine, qs[i]), want * 0.992 - 1);
	}
	ck_assert_uint_eq(sl_hist_fine_quantile(&fine, 1), v[N - 1]);
	ck_assert_uint_eq(fine.min, v[0]);
	sl_hist_fine_fini(&fine);
}

TEST(merge_and_difference)
{
	sl_hist_add(b, 10);
	sl_hist_add(other, 10);
	sl_hist_add(other, 1000);
	sl_hist_merge(b, other);
	ck_assert_uint_eq(sl_hist_count(b), 3);
	ck_assert_uint_eq(b[sl_hist_bucket(10)], 2);
	sl_hist_diff(b, b, other);
	ck_assert_uint_eq(sl_hist_count(b), 1);
	ck_assert_uint_eq(b[sl_hist_bucket(10)], 1);
}

TEST(fine_ones_merge_and_reset)
{
	struct sl_hist_fine x, y, z;

	ck_assert_int_eq(sl_hist_fine_init(&x, 0), -EINVAL);
	ck_assert_int_eq(sl_hist_fine_init(&x, SL_HIST_SUB_BITS_MAX + 1), -EINVAL);
	ck_assert_int_eq(sl_hist_fine_init(&x, 7), 0);
	ck_assert_int_eq(sl_hist_fine_init(&y, 7), 0);
	ck_assert_int_eq(sl_hist_fine_init(&z, 5), 0);
	ck_assert_uint_eq(sl_hist_fine_quantile(&x, 0.5), 0);
	sl_hist_fine_add(&x, 100);
	sl_hist_fine_add(&y, 300);
	sl_hist_fine_add(&y, UINT64_C(1) << 50);
	ck_assert_int_eq(sl_hist_fine_merge(&x, &z), -EINVAL);
	ck_assert_int_eq(sl_hist_fine_merge(&x, &y), 0);
	ck_assert_uint_eq(x.count, 3);
	ck_assert_uint_eq(x.min, 100);
	ck_assert_uint_eq(x.max, UINT64_C(1) << 50);
	ck_assert_uint_eq(sl_hist_fine_mean(&y), ((UINT64_C(1) << 50) + 300) / 2);
	ck_assert_int_eq(sl_hist_fine_merge(&y, &x), 0);
	ck_assert_uint_eq(y.min, 100);
	sl_hist_fine_reset(&x);
	ck_assert_uint_eq(x.count, 0);
	ck_assert_int_eq(sl_hist_fine_merge(&x, &x), 0);
	sl_hist_fine_add(&x, 7);
	ck_assert_uint_eq(sl_hist_fine_quantile(&x, 0.5), 7);
	sl_hist_fine_fini(&x);
	sl_hist_fine_fini(&y);
	sl_hist_fine_fini(&z);
}
