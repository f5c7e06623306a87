/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wake-up latency of a sleeping thread: from the write that wakes it to its first instruction.
 *
 * A thread polls about that long before it sleeps. This costs at most twice as much as with
 * knowledge of the future (Karlin et al., "Competitive snoopy caching", 1988). Some microseconds on
 * bare metal, up to 150 in a virtual machine.
 */
#ifndef SL_BASE_WAKEUP_COST_H
#define SL_BASE_WAKEUP_COST_H

#include <stdint.h>

enum {
	SL_WAKEUP_MIN_NS = 2000, /* also with a single CPU */
	SL_WAKEUP_MAX_NS = 200000,
};

/*
 * Measures it for a thread on `cpu`, or on any if negative: the median, within the limits above.
 * Takes about 20 ms and a thread. Returns SL_WAKEUP_MIN_NS on failure.
 */
uint64_t sl_wakeup_cost_ns(int cpu);

#endif
