/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it costs to wake a sleeping thread: from the write that wakes it to its first instruction.
 *
 * Whoever waits for work polls for about that long before sleeping: never more than twice the cost
 * of having known when the work would come (Karlin et al., "Competitive snoopy caching", 1988).
 * A few microseconds on bare metal, tens of them in a virtual machine whose idle cores halt, up to
 * 150 in an emulated one.
 */
#ifndef SL_BASE_WAKEUP_COST_H
#define SL_BASE_WAKEUP_COST_H

#include <stdint.h>

enum {
	SL_WAKEUP_MIN_NS = 2000,   /* also when there is only one processor: then it is a switch */
	SL_WAKEUP_MAX_NS = 200000, /* more is a busy machine, not the cost of a wake-up */
};

/*
 * Measures it for a thread on `cpu`, or on any if negative: median of some wake-ups, within the
 * limits above. Takes about 20 ms and a thread; SL_WAKEUP_MIN_NS if that cannot be had.
 */
uint64_t sl_wakeup_cost_ns(int cpu);

#endif
