/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processor and thread: cache lines, branch hints, prefetch, pinning, names.
 */
#ifndef SL_BASE_CPU_H
#define SL_BASE_CPU_H

#include <stdint.h>

#define SL_CACHELINE  64
#define SL_ALIGNED(n) __attribute__((aligned(n)))

#define sl_likely(x)   __builtin_expect(!!(x), 1)
#define sl_unlikely(x) __builtin_expect(!!(x), 0)

#define sl_prefetch(p)       __builtin_prefetch((p), 0, 3)
#define sl_prefetch_write(p) __builtin_prefetch((p), 1, 3)

/* In a spin loop: tells the core that it waits for another one. */
static inline void sl_cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

/* Processors that this process may run on (its affinity mask), at least 1. */
unsigned sl_cpu_count(void);

/* The n-th processor of the affinity mask, from 0; -ERANGE if there are fewer. */
int sl_cpu_nth(unsigned n);

/* Pins the calling thread. 0 or -errno. */
int sl_cpu_pin(unsigned cpu);

/* Names the calling thread in logs, ps and perf; cut at 15 bytes. */
void sl_thread_name_set(const char *name);

#endif
