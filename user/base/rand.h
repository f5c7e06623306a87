/* SPDX-License-Identifier: Apache-2.0 */
/* Random bytes for secrets (getrandom), and a fast seeded generator (xoshiro256**) for all else. */
#ifndef SL_BASE_RAND_H
#define SL_BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

/* Fills buf. Returns 0, or -errno: then there is no secret. */
int sl_rand_bytes(void *buf, size_t len);

/* One state per thread. */
struct sl_prng {
	uint64_t s[4];
};

/* Initialises; any seed is valid. */
void sl_prng_seed(struct sl_prng *p, uint64_t seed);

/* Returns the next number. */
static inline uint64_t sl_prng_u64(struct sl_prng *p)
{
	uint64_t *s = p->s;
	uint64_t x = s[1] * 5;
	uint64_t result = (x << 7 | x >> 57) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = s[3] << 45 | s[3] >> 19;
	return result;
}

/* Returns a number uniform in [0, n); 0 if n is 0. */
uint64_t sl_prng_below(struct sl_prng *p, uint64_t n);

/* Returns a number uniform in [0, 1). */
static inline double sl_prng_unit(struct sl_prng *p)
{
	return (double)(sl_prng_u64(p) >> 11) * 0x1p-53;
}

/* Returns an exponentially distributed number. */
double sl_prng_exp(struct sl_prng *p, double mean);

#endif
