/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retry budget of a pool, as in Finagle: each request earns a fifth of a retry, and each second
 * three more. A tenth expires each second.
 */
#ifndef SL_CORE_RETRY_BUDGET_H
#define SL_CORE_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum {
	SL_RETRY_COST = 5,  /* requests that earn one retry */
	SL_RETRY_FLOOR = 3, /* retries per second */
	SL_RETRY_LIFE = 10,
};

/* Zeroed: full for a pool without traffic. */
struct sl_retry_budget {
	double spent, earned; /* in requests, of about ten seconds */
	uint64_t since_ns;
};

/* Decays earned and spent by the seconds passed. Called by the next two. */
void sl_retry_expire(struct sl_retry_budget *b, uint64_t now_ns);
/* Counts a request. */
static inline void sl_retry_earn(struct sl_retry_budget *b, uint64_t now_ns)
{
	if (now_ns >= b->since_ns + SL_NS_PER_SEC)
		sl_retry_expire(b, now_ns);
	b->earned++;
}

/* Spends one retry. False: the budget is spent. */
bool sl_retry_take(struct sl_retry_budget *b, uint64_t now_ns);

/* Returns a retry that was not made, in the turn of sl_retry_take(). */
void sl_retry_return(struct sl_retry_budget *b);

#endif
