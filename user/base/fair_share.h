/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entitlement to a tenth of a CPU: time earns credit, use spends it. Without credit the owner takes
 * what others leave.
 *
 * Debt and savings are bounded, savings more so without demand. Not thread-safe.
 */
#ifndef SL_BASE_FAIR_SHARE_H
#define SL_BASE_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SL_FAIR_SHARE_PART  10
#define SL_FAIR_SHARE_DEBT  ((int64_t)(10 * SL_NS_PER_MS))
#define SL_FAIR_SHARE_SAVED ((int64_t)(20 * SL_NS_PER_MS))  /* without demand */
#define SL_FAIR_SHARE_MOST  ((int64_t)(200 * SL_NS_PER_MS)) /* with demand that was not met */

struct sl_fair_share {
	uint64_t now_ns, used_ns; /* at the last update */
	int64_t credit_ns;
};

/* Updates. used_ns: total CPU time. Returns true if there is credit. */
static inline bool sl_fair_share_update(struct sl_fair_share *s, uint64_t now_ns, uint64_t used_ns)
{
	int64_t credit = s->credit_ns + (int64_t)((now_ns - s->now_ns) / SL_FAIR_SHARE_PART) -
			 (int64_t)(used_ns - s->used_ns);

	credit = credit > SL_FAIR_SHARE_MOST ? SL_FAIR_SHARE_MOST : credit;
	*s = (struct sl_fair_share){now_ns, used_ns,
				    credit < -SL_FAIR_SHARE_DEBT ? -SL_FAIR_SHARE_DEBT : credit};
	return s->credit_ns > 0;
}

/* Updates as demand begins: limits earlier savings. */
static inline void sl_fair_share_begin(struct sl_fair_share *s, uint64_t now_ns, uint64_t used_ns)
{
	sl_fair_share_update(s, now_ns, used_ns);
	if (s->credit_ns > SL_FAIR_SHARE_SAVED)
		s->credit_ns = SL_FAIR_SHARE_SAVED;
}

#endif
