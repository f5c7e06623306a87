/* SPDX-License-Identifier: Apache-2.0 */
#include "core/retry_budget.h"

void sl_retry_expire(struct sl_retry_budget *b, uint64_t now_ns)
{
	uint64_t seconds = (now_ns - b->since_ns) / SL_NS_PER_SEC;

	for (uint64_t i = 0; i < seconds && i < 10 * SL_RETRY_LIFE; i++) {
		b->earned -= b->earned / SL_RETRY_LIFE;
		b->spent -= b->spent / SL_RETRY_LIFE;
	}
	if (seconds)
		b->since_ns += seconds * SL_NS_PER_SEC;
}

bool sl_retry_take(struct sl_retry_budget *b, uint64_t now_ns)
{
	double floor = SL_RETRY_FLOOR * SL_RETRY_LIFE * SL_RETRY_COST;

	if (now_ns >= b->since_ns + SL_NS_PER_SEC)
		sl_retry_expire(b, now_ns);
	if (b->spent + SL_RETRY_COST > b->earned + floor)
		return false;
	b->spent += SL_RETRY_COST;
	return true;
}

void sl_retry_return(struct sl_retry_budget *b)
{
	b->spent -= SL_RETRY_COST;
}
