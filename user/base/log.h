/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Log lines to stderr: one write(2) per line.
 *
 *   2025-01-31T12:00:00.123456Z warn  [worker-0] backend b1: no answer to 3 pings, failing over
 *
 * Control characters become '?': a peer must not end a line or control a terminal. Any thread may
 * log; errno is kept. Paths that a peer can trigger must use SL_LOG_EVERY.
 *
 * Logging never blocks: lines that cannot be written at once are lost, and the next one reports the
 * count.
 */
#ifndef SL_BASE_LOG_H
#define SL_BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"

#define SL_LOG_LINE_MAX 1024

enum sl_log_level { SL_LOG_ERR, SL_LOG_WARN, SL_LOG_INFO, SL_LOG_DEBUG };

/* Sets the level for all threads; initially SL_LOG_INFO. */
void sl_log_level_set(enum sl_log_level level);

/* Parses "err", "warn", "info" or "debug". Returns 0 or -EINVAL. */
int sl_log_level_parse(const char *name, enum sl_log_level *level);

/*
 * Calls sl_output_open(), and shares counts with processes forked later. Must be called with one
 * thread.
 */
void sl_log_open(void);

/* Returns the lines lost by all processes. */
uint64_t sl_log_lost(void);

/* Logs how many lines were lost since the last report, if any. */
void sl_log_report_lost(void);

/* Redirects lines; -1: stderr. fd stays the caller's. */
void sl_log_fd_set(int fd);

/* Writes a line, whatever the level set. */
SL_COLD void sl_log_write(enum sl_log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

extern _Atomic int sl_log_level_now; /* the macros' only */

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

/* Shared by all threads; zeroed. */
struct sl_log_gate {
	_Atomic uint64_t next_ns;
	_Atomic uint64_t suppressed;
};

/* Returns true once per interval. *suppressed: calls withheld before. Any thread. */
bool sl_log_gate_open(struct sl_log_gate *gate, uint64_t now_ns, uint64_t interval_ns,
		      uint64_t *suppressed);

/* Writes at most one line per interval, with the number withheld before. */
SL_COLD void sl_log_gated(struct sl_log_gate *gate, uint64_t interval_ns, enum sl_log_level level,
			  const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#define SL_LOG_EVERY(interval_ns, level, ...)                                                      \
	do {                                                                                       \
		static struct sl_log_gate sl_gate_;                                                \
		if (sl_log_on(level))                                                              \
			sl_log_gated(&sl_gate_, (interval_ns), (level), __VA_ARGS__);              \
	} while (0)

#endif
