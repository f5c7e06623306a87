/* SPDX-License-Identifier: Apache-2.0 */
/* The only clock: CLOCK_MONOTONIC in nanoseconds, as bpf_ktime_get_ns(). */
#ifndef SL_BASE_CLOCK_H
#define SL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define SL_NS_PER_US  UINT64_C(1000)
#define SL_NS_PER_MS  UINT64_C(1000000)
#define SL_NS_PER_SEC UINT64_C(1000000000)

/* Reads the clock. */
static inline uint64_t sl_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SL_NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

#endif
