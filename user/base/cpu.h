/* SPDX-License-Identifier: Apache-2.0 */
/* Processor and thread. */
#ifndef SL_BASE_CPU_H
#define SL_BASE_CPU_H

#include <pthread.h>
#include <stdint.h>

#define SL_CACHELINE  64
#define SL_ALIGNED(n) __attribute__((aligned(n)))

#define sl_likely(x)   __builtin_expect(!!(x), 1)
#define sl_unlikely(x) __builtin_expect(!!(x), 0)
#define SL_COLD        __attribute__((cold, noinline))

#define sl_prefetch(p) __builtin_prefetch((p), 0, 3)

/* Returns the size of the affinity mask, at least 1. */
unsigned sl_cpu_count(void);

/* Returns the affinity mask's n-th CPU, from 0, or -ERANGE. */
int sl_cpu_nth(unsigned n);

/* Binds the calling thread. Returns 0 or -errno. */
int sl_cpu_pin(unsigned cpu);

/* Starts a thread with all signals blocked. Returns 0 or -errno. */
int sl_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* Names the calling thread; cut at 15 bytes. */
void sl_thread_name_set(const char *name);

#endif
