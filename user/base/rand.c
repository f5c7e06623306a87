/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rand.h"

#include <errno.h>
#include <math.h>
#include <sys/random.h>
#include <sys/types.h>

int sl_rand_bytes(void *buf, size_t len)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

void sl_prng_seed(struct sl_prng *p, uint64_t seed)
{
	/* splitmix64: no seed gives the all-zero state. */
	for (int i = 0; i < 4; i++) {
		uint64_t z = seed += UINT64_C(0x9e3779b97f4a7c15);

		z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
		z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
		p->s[i] = z ^ z >> 31;
	}
}

/* Lemire's method */
uint64_t sl_prng_below(struct sl_prng *p, uint64_t n)
{
	unsigned __int128 m = (unsigned __int128)sl_prng_u64(p) * n;

	if ((uint64_t)m < n) {
		uint64_t biased = -n % n;

		while ((uint64_t)m < biased)
			m = (unsigned __int128)sl_prng_u64(p) * n;
	}
	return (uint64_t)(m >> 64);
}

double sl_prng_exp(struct sl_prng *p, double mean)
{
	return -mean * log(1.0 - sl_prng_unit(p));
}
