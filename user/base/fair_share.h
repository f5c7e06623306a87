/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a processor that somebody is owed: each moment earns a tenth of it, what was used is
 * spent. With credit one asks for one's part, without one takes what others leave.
 *
 *   credit   -SL_FAIR_SHARE_DEBT <---used--- 0 ---a tenth of the time---> SL_FAIR_SHARE_MOST
 *
 * Debt is bounded, so that who had much of an idle processor is owed soon when it is busy; what is
 * saved is bounded too, by less for who asked for nothing meanwhile. One thread.
 */
#ifndef SL_BASE_FAIR_SHARE_H
#define SL_BASE_FAIR_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define SL_FAIR_SHARE_PART  10 /* one in so many */
#define SL_FAIR_SHARE_DEBT  ((int64_t)(10 * SL_NS_PER_MS))
#define SL_FAIR_SHARE_SAVED ((int64_t)(20 * SL_NS_PER_MS))  /* by who asked for nothing */
#define SL_FAIR_SHARE_MOST  ((int64_t)(200 * SL_NS_PER_MS)) /* by who got nothing */

struct sl_fair_share {
	uint64_t now_ns, used_ns; /* when it was last reckoned */
	int64_t credit_ns;
};

/* `used_ns`: of the processor, since ever. True: there is credit. */
static inline bool sl_fair_share_update(struct sl_fair_share *s, uint64_t now_ns, uint64_t used_ns)
{
	int64_t credit = s->credit_ns + (int64_t)((now_ns - s->now_ns) / SL_FAIR_SHARE_PART) -
			 (int64_t)(used_ns - s->used_ns);

	credit = credit > SL_FAIR_SHARE_MOST ? SL_FAIR_SHARE_MOST : credit;
	*s = (struct sl_fair_share){now_ns, used_ns,
				    credit < -SL_FAIR_SHARE_DEBT ? -SL_FAIR_SHARE_DEBT : credit};
	return s->credit_ns > 0;
}

/* Something is asked for again: what was earned meanwhile is kept in part. */
static inline void sl_fair_share_begin(struct sl_fair_share *s, uint64_t now_ns, uint64_t used_ns)
{
	sl_fair_share_update(s, now_ns, used_ns);
	if (s->credit_ns > SL_FAIR_SHARE_SAVED)
		s->credit_ns = SL_FAIR_SHARE_SAVED;
}

#endif
