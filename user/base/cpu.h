/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processor and thread: cache lines, branch hints, prefetch, pinning, names.
 */
#ifndef SL_BASE_CPU_H
#define SL_BASE_CPU_H

#include <pthread.h>
#include <stdint.h>

#define SL_CACHELINE  64
#define SL_ALIGNED(n) __attribute__((aligned(n)))

#define sl_likely(x)   __builtin_expect(!!(x), 1)
#define sl_unlikely(x) __builtin_expect(!!(x), 0)
/*
 * A function that the usual way does not meet: what leads to a call of it is laid out apart, so that the
 * usual way fits the instruction cache.
 */
#define SL_COLD __attribute__((cold))

#define sl_prefetch(p) __builtin_prefetch((p), 0, 3)

/* Processors that this process may run on (its affinity mask), at least 1. */
unsigned sl_cpu_count(void);

/* The n-th processor of the affinity mask, from 0; -ERANGE if there are fewer. */
int sl_cpu_nth(unsigned n);

/* Pins the calling thread. 0 or -errno. */
int sl_cpu_pin(unsigned cpu);

/* A thread to which no signals go: those are for the one that waits for them. 0 or -errno. */
int sl_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

/* Names the calling thread in logs, ps and perf; cut at 15 bytes. */
void sl_thread_name_set(const char *name);

#endif
