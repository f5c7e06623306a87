/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many requests a server gets at a time: a number, or learnt from its latency. README.md states
 * the law. No clock, no I/O.
 */
#ifndef SL_AGENT_CONCURRENCY_LIMIT_H
#define SL_AGENT_CONCURRENCY_LIMIT_H

#include <stdint.h>

enum {
	AGENT_CONCURRENCY_START = 32,
	AGENT_CONCURRENCY_MIN = 16,
	AGENT_CONCURRENCY_MAX = 1024,
};

struct agent_concurrency_limit {
	double limit;
	double long_ns, short_ns; /* latency: over many windows, and over this one */
	uint32_t fixed;           /* 0: it is learnt */
	uint32_t left;            /* samples of this window */
	uint32_t most;            /* at a time, in this window */
};

void agent_concurrency_limit_init(struct agent_concurrency_limit *l, uint32_t fixed);
/* A request took that long to be answered, with so many others under way. */
void agent_concurrency_limit_sample(struct agent_concurrency_limit *l, uint64_t ns,
				    uint32_t in_flight);

static inline uint32_t agent_concurrency_limit_now(const struct agent_concurrency_limit *l)
{
	return l->fixed ? l->fixed : (uint32_t)l->limit;
}

#endif
