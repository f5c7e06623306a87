/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retry budget of a pool, as in Finagle: each request earns a fifth of a retry, and each second
 * three more. A tenth of what is earned expires each second, so that ten seconds count.
 *
 * It limits retries of requests that a backend may have begun, or refused while it was up. Requests
 * that only met backends that are down are not limited.
 */
#ifndef SL_CORE_RETRY_BUDGET_H
#define SL_CORE_RETRY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

enum {
	SL_RETRY_COST = 5,  /* requests that earn one retry */
	SL_RETRY_FLOOR = 3, /* retries per second */
	SL_RETRY_LIFE = 10, /* seconds */
};

/* Zeroed: full for a pool without traffic. */
struct sl_retry_budget {
	double spent, earned; /* in the last ten seconds or so; in requests */
	uint64_t since_ns;
};

/* Forgets what is older. Called once a second, by the next two. */
void sl_retry_expire(struct sl_retry_budget *b, uint64_t now_ns);
/* A request was sent for the first time. */
static inline void sl_retry_earn(struct sl_retry_budget *b, uint64_t now_ns)
{
	if (now_ns >= b->since_ns + SL_NS_PER_SEC)
		sl_retry_expire(b, now_ns);
	b->earned++;
}

/* Takes one retry. Returns false if none is left. */
bool sl_retry_take(struct sl_retry_budget *b, uint64_t now_ns);

#endif
