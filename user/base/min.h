/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_BASE_MIN_H
#define SL_BASE_MIN_H

#include <stdint.h>

/* Returns the smaller time. */
static inline uint64_t sl_min_ns(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns < b_ns ? a_ns : b_ns;
}

#endif
