/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wake-up latency: from the write that wakes a thread to its first instruction.
 *
 * A thread polls that long before it sleeps, which costs at most twice the optimum (Karlin et al.,
 * "Competitive snoopy caching", 1988).
 */
#ifndef SL_BASE_WAKEUP_COST_H
#define SL_BASE_WAKEUP_COST_H

#include <stdint.h>

enum {
	SL_WAKEUP_MIN_NS = 2000, /* also with a single CPU */
	SL_WAKEUP_MAX_NS = 200000,
};

/*
 * Returns the median for a thread on `cpu` (negative: any), within the limits above. Takes about 20
 * ms and a thread. On failure, returns SL_WAKEUP_MIN_NS.
 */
uint64_t sl_wakeup_cost_ns(int cpu);

#endif
