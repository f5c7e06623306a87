/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delay of hedge = p95. It falls by one step if a reply comes before, and rises by 19 otherwise
 * (Robbins and Monro).
 */
#ifndef SL_CORE_HEDGE_DELAY_H
#define SL_CORE_HEDGE_DELAY_H

#include <stdbool.h>
#include <stdint.h>

enum { SL_HEDGE_FIRST_SAMPLES = 32 };

/* Zeroed: unknown. */
struct sl_hedge_delay {
	double ns;
	uint32_t samples; /* until enough: `ns` is the maximum */
};

/* Returns the learnt delay; 0: unknown yet. */
static inline uint64_t sl_hedge_delay_ns(const struct sl_hedge_delay *d)
{
	return d->samples < SL_HEDGE_FIRST_SAMPLES ? 0 : (uint64_t)d->ns;
}

/* Raises the delay: a request has outlasted it. */
void sl_hedge_delay_over(struct sl_hedge_delay *d);
/* Notes the time to a reply. Not after `over` of the same request. */
void sl_hedge_delay_answered(struct sl_hedge_delay *d, uint64_t took_ns);

#endif
