/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Consistent hashing with bounded loads (Mirrokni, Thorup, Zadimoghaddam 2016): requests with one
 * key go to one backend, as long as it has at most 1.25 times the average of open requests.
 *
 *   hash: 0 --o---o--o----o---------o--o---> 2^64, then 0     o: point of a backend, many for each
 *                    ^ key ---> next point: home of the key; if it is down or full, the next one
 *
 * The points depend only on the backends' names, so all workers and gateways have the same ones.
 * When a backend is lost, only its keys move. Immutable.
 */
#ifndef SL_BATCH_AFFINITY_H
#define SL_BATCH_AFFINITY_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_AFFINITY_NONE = UINT16_MAX };

struct sl_affinity;

/* A name is hashed as it is. Numbers are those of the batcher, below SL_AFFINITY_NONE. */
struct sl_affinity_backend {
	const char *name;
	uint16_t number;
};

/* Builds the points of cnt backends. NULL: no memory. */
struct sl_affinity *sl_affinity_create(const struct sl_affinity_backend *list, uint32_t cnt);
void sl_affinity_destroy(struct sl_affinity *a);

/* Returns a well mixed hash that is not 0. */
uint64_t sl_affinity_mix(uint64_t hash);

/* Returns true if the backend can have a request now. */
typedef bool sl_affinity_may_fn(const void *arg, unsigned backend);
/*
 * Returns the first backend from the key on that may have the request. SL_AFFINITY_NONE: none of
 * those next to the key.
 */
unsigned sl_affinity_find(const struct sl_affinity *a, uint64_t key, sl_affinity_may_fn *may,
			  const void *arg);

/* Returns true if a backend with `own` open requests of `all` may have one more. */
static inline bool sl_affinity_within(uint32_t own, uint32_t all, uint32_t backends)
{
	/* own + 1 <= ceil(1.25 * (all + 1) / backends) */
	return 4 * (uint64_t)own * backends < 5 * ((uint64_t)all + 1);
}

#endif
