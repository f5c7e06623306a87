/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrency limit of a server: fixed, or learnt from latency (README.md).
 */
#ifndef SL_ORIGIN_CONCURRENCY_LIMIT_H
#define SL_ORIGIN_CONCURRENCY_LIMIT_H

#include <stdint.h>

enum {
	ORIGIN_CONCURRENCY_START = 32,
	ORIGIN_CONCURRENCY_MIN = 16,
	ORIGIN_CONCURRENCY_MAX = 1024,
};

struct origin_concurrency_limit {
	double limit;
	double long_ns, short_ns; /* smoothed; of this window */
	uint32_t fixed;           /* 0: learnt */
	uint32_t left;            /* samples until the next update */
	uint32_t most;            /* largest concurrency of this window */
};

/* Sets the first limit. `fixed`: 0: learnt. */
void origin_concurrency_limit_init(struct origin_concurrency_limit *l, uint32_t fixed);
/* Learns from a call's latency, and from the calls in flight with it. */
void origin_concurrency_limit_sample(struct origin_concurrency_limit *l, uint64_t ns,
				     uint32_t in_flight);

/* Returns how many calls may be in flight. */
static inline uint32_t origin_concurrency_limit_now(const struct origin_concurrency_limit *l)
{
	return l->fixed ? l->fixed : (uint32_t)l->limit;
}

#endif
