/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rand.h"

#include "unit.h"
#include "suite.h"

TEST(random_bytes_fill_the_buffer)
{
	uint8_t a[1000] = {0}, z[1000] = {0};
	int zeros = 0;

	ck_assert_int_eq(sl_rand_bytes(a, sizeof(a) - 1), 0);
	ck_assert_int_eq(sl_rand_bytes(z, 0), 0);
	ck_assert_uint_eq(a[999], 0);
	for (int i = 0; i < 999; i++)
		zeros += a[i] == 0;
	ck_assert_int_lt(zeros, 40);
	ck_assert_int_eq(sl_rand_bytes(z, sizeof(z)), 0);
	ck_assert_mem_ne(a, z, sizeof(a));
}

/* State {1, 2, 3, 4}: first outputs, as the reference code by Blackman and Vigna gives. */
TEST(generator_is_xoshiro256starstar)
{
	struct sl_prng p = {{1, 2, 3, 4}};

	ck_assert_uint_eq(sl_prng_u64(&p), 11520);
	ck_assert_uint_eq(sl_prng_u64(&p), 0);
	ck_assert_uint_eq(sl_prng_u64(&p), 1509978240);
	ck_assert_uint_eq(sl_prng_u64(&p), UINT64_C(1215971899390074240));
}

TEST(the_same_seed_gives_the_same_numbers)
{
	struct sl_prng a, b, c;

	sl_prng_seed(&a, 0);
	sl_prng_seed(&b, 0);
	sl_prng_seed(&c, 1);
	ck_assert(a.s[0] || a.s[1] || a.s[2] || a.s[3]);
	ck_assert_uint_eq(sl_prng_u64(&a), sl_prng_u64(&b));
	ck_assert_uint_ne(sl_prng_u64(&a), sl_prng_u64(&c));
}

TEST(below_is_uniform_and_bounded)
{
	uint32_t cnt[3] = {0};
	struct sl_prng p;
	uint64_t big =
		(UINT64_C(1) << 63) + (UINT64_C(1) << 62); /* a draw in four is repeated, else every
							      third value came twice as often */
	unsigned threefold = 0;

	sl_prng_seed(&p, 5);
	unit_check(sl_prng_below(&p, 0) == 0);
	unit_check(sl_prng_below(&p, 1) == 0);
	for (int i = 0; i < 30000; i++)
		cnt[sl_prng_below(&p, 3)]++;
	for (int i = 0; i < 3; i++)
		unit_check(cnt[i] - 9500u < 1000);
	for (int i = 0; i < 30000; i++) {
		uint64_t v = sl_prng_below(&p, big);

		unit_check(v < big);
		threefold += v % 3 == 0;
	}
	unit_check(threefold - 9500u < 1000);
}

TEST(exp_has_its_mean_and_is_finite)
{
	struct sl_prng p;
	double sum = 0, above = 0;

	sl_prng_seed(&p, 6);
	for (int i = 0; i < 100000; i++) {
		double x = sl_prng_exp(&p, 10);

		ck_assert_double_ge(x, 0);
		ck_assert_double_lt(x, 1000);
		sum += x;
		above += x > 10;
	}
	ck_assert_double_eq_tol(sum / 100000, 10, 0.2);
	ck_assert_double_eq_tol(above / 100000, 0.3679, 0.01); /* 1/e */
}
