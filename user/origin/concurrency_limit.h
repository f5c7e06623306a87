/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrency limit of a server: fixed, or learnt from latency (Gradient2 of Netflix's
 * concurrency-limits; formula in README.md). No clock, no I/O.
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
	double long_ns, short_ns; /* smoothed latency, and latency of this window */
	uint32_t fixed;           /* 0: learnt */
	uint32_t left;            /* samples */
	uint32_t most;            /* concurrency */
};

/* Sets a fixed limit, or begins to learn it (0). */
void origin_concurrency_limit_init(struct origin_concurrency_limit *l, uint32_t fixed);
/* Adds the latency of one request and the number of requests in flight. */
void origin_concurrency_limit_sample(struct origin_concurrency_limit *l, uint64_t ns,
				     uint32_t in_flight);

static inline uint32_t origin_concurrency_limit_now(const struct origin_concurrency_limit *l)
{
	return l->fixed ? l->fixed : (uint32_t)l->limit;
}

#endif
