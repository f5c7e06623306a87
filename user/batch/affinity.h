/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016): requests with one
 * key go to one backend up to its bound (README.md).
 *
 * A key's home is the next backend on the ring; if down or full, the next one. A hot key has
 * several homes. The points depend only on the backends' names.
 */
#ifndef SL_BATCH_AFFINITY_H
#define SL_BATCH_AFFINITY_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_AFFINITY_NONE = UINT16_MAX, SL_AFFINITY_HOMES = 16 };

struct sl_affinity;

/* `number` is the batcher's, below SL_AFFINITY_NONE. */
struct sl_affinity_backend {
	const char *name;
	uint16_t number;
};

/* Returns a ring, or NULL without memory. The names may be freed. */
struct sl_affinity *sl_affinity_create(const struct sl_affinity_backend *list, uint32_t cnt);
/* Frees the ring. NULL is allowed. */
void sl_affinity_destroy(struct sl_affinity *a);

/* Returns a well mixed hash that is not 0. */
uint64_t sl_affinity_mix(uint64_t hash);

typedef bool sl_affinity_may_fn(const void *arg, unsigned backend);
/*
 * Returns the first backend from the key on that may have the request, or SL_AFFINITY_NONE. The key
 * must be mixed.
 */
unsigned sl_affinity_find(const struct sl_affinity *a, uint64_t key, sl_affinity_may_fn *may,
			  const void *arg);

/* The same of the first `cnt` different ones, up to SL_AFFINITY_HOMES. */
unsigned sl_affinity_find_among(const struct sl_affinity *a, uint64_t key, uint32_t cnt,
				sl_affinity_may_fn *may, const void *arg);

/* Counts a request of the key. `backends`: how many are up. */
void sl_affinity_note(struct sl_affinity *a, uint64_t key, uint32_t backends);
/* Returns the number of homes: one more for each quarter of a backend's share of the requests. */
uint32_t sl_affinity_homes(const struct sl_affinity *a, uint64_t key, uint32_t backends);

/* Returns true if a backend with `own` open requests may get one more. */
static inline bool sl_affinity_within(uint32_t own, uint32_t all, uint32_t backends)
{
	double share = 1.0 / backends, mean = ((double)all + 1) * share;
	double over = own - 1.25 * mean;

	return over < 0 || over * over < 4 * mean * (1 - share);
}

/* Returns true if a backend with `own` open requests has fewer than the average will be. */
static inline bool sl_affinity_below_mean(uint32_t own, uint32_t all, uint32_t backends)
{
	return (uint64_t)own * backends < (uint64_t)all + 1;
}

#endif
