/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines to stderr: one write(2) per line, level, wall time, thread name.
 *
 *   2025-01-31T12:00:00.123456Z warn  [worker-0] backend b1: no answer to 3 pings, failing over
 *
 * A message is cut at SL_LOG_LINE_MAX; control characters in it become '?', so a peer's bytes can
 * neither end a line nor drive a terminal. Any thread may log; errno is kept. On a path that a peer
 * can reach use SL_LOG_EVERY.
 *
 * A log never stops its program: a line that cannot be written at once is lost, and counted
 * (output.h). The next line that can be written tells how many were lost before it.
 */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

#define SL_LOG_LINE_MAX 1024

enum sl_log_level { SL_LOG_ERR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG };

/* What is above the level is not printed. Starts as SL_LOG_INFO. */
void sl_log_level_set(enum sl_log_level level);

/* "err", "warn", "info", "debug"; -EINVAL for any other name. */
int sl_log_level_parse(const char *name, enum sl_log_level *level);

/*
 * Prepares standard output and error of a service (sl_output_open). The count of lost lines is then
 * shared with the processes that this one forks. With one thread.
 */
void sl_log_open(void);

/* Returns the number of lines that were lost. */
uint64_t sl_log_lost(void);

/* Logs how many lines were lost since the last report, if any. Each line that is logged does so. */
void sl_log_report_lost(void);

/* Where lines go instead of stderr (tests); -1 restores stderr. */
void sl_log_fd_set(int fd);

SL_COLD void sl_log_write(enum sl_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

extern _Atomic int sl_log_level_now; /* read by the macros only */

#define sl_log_on(level)                                                                           \
	((int)(level) <= atomic_load_explicit(&sl_log_level_now, memory_order_relaxed))
#define sl_log_at(level, ...)                                                                      \
	do {                                                                                       \
		if (sl_log_on(level))                                                              \
			sl_log_write((level), __VA_ARGS__);                                        \
	} while (0)
#define sl_log_err(...)   sl_log_at(SL_LOG_ERR, __VA_ARGS__)
#define sl_log_warn(...)  sl_log_at(SL_LOG_WARN, __VA_ARGS__)
#define sl_log_info(...)  sl_log_at(SL_LOG_INFO, __VA_ARGS__)
#define sl_log_debug(...) sl_log_at(SL_LOG_DEBUG, __VA_ARGS__)

/* One per call site, zero at start, shared by all threads. */
struct sl_log_gate {
	_Atomic uint64_t next_ns;
	_Atomic uint64_t suppressed;
};

/* True when a line may be printed now; *suppressed is then the number withheld since the last. */
bool sl_log_gate_open(struct sl_log_gate *gate, uint64_t now_ns, uint64_t interval_ns,
		      uint64_t *suppressed);

SL_COLD void sl_log_gated(struct sl_log_gate *gate, uint64_t interval_ns, enum sl_log_level level,
			  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* At most one line per `interval_ns` from this call site; the next says how many were withheld. */
#define SL_LOG_EVERY(interval_ns, level, ...)                                                      \
	do {                                                                                       \
		static struct sl_log_gate sl_gate_;                                                \
		if (sl_log_on(level))                                                              \
			sl_log_gated(&sl_gate_, (interval_ns), (level), __VA_ARGS__);              \
	} while (0)

#endif
