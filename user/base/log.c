/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/output.h"

static const char *const level_names[] = {"err", "warn", "info", "debug"};

_Atomic int sl_log_level_now = SL_LOG_INFO;
static _Atomic int log_fd = STDERR_FILENO;
static _Atomic bool cut; /* the last line is incomplete */

struct log_losses {
	_Atomic uint64_t total, unreported;
};
static struct log_losses lost_here;
static struct log_losses *lost = &lost_here;

void sl_log_open(void)
{
	void *shared = mmap(NULL, sizeof(*lost), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);

	sl_output_open();
	if (shared != MAP_FAILED)
		lost = shared;
}

uint64_t sl_log_lost(void)
{
	return atomic_load_explicit(&lost->total, memory_order_relaxed);
}

void sl_log_level_set(enum sl_log_level level)
{
	atomic_store_explicit(&sl_log_level_now, (int)level, memory_order_relaxed);
}

int sl_log_level_parse(const char *name, enum sl_log_level *level)
{
	for (size_t i = 0; i < SL_ARRAY_LEN(level_names); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*level = (enum sl_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

void sl_log_fd_set(int fd)
{
	atomic_store_explicit(&log_fd, fd < 0 ? STDERR_FILENO : fd, memory_order_relaxed);
}

static size_t put_prefix(char *line, size_t cap, enum sl_log_level level)
{
	char stamp[24], thread[16] = "?";
	struct timespec ts;
	struct tm tm;
	int n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	pthread_getname_np(pthread_self(), thread, sizeof(thread));
	n = snprintf(line, cap, "%s.%06ldZ %-5s [%s] ", stamp, ts.tv_nsec / 1000,
		     level_names[level], thread);
	return n < 0 ? 0 : (size_t)n;
}

static bool write_line(const char *line, size_t len)
{
	int fd = atomic_load_explicit(&log_fd, memory_order_relaxed);
	ssize_t n = 1;

	if (atomic_exchange_explicit(&cut, false, memory_order_relaxed))
		n = sl_output_write(fd, "\n", 1);
	for (size_t done = 0; n > 0; done += (size_t)n) {
		n = sl_output_write(fd, line + done, len - done);
		if (n > 0 && done + (size_t)n == len)
			return true;
		if (n <= 0 && done)
			atomic_store_explicit(&cut, true, memory_order_relaxed);
	}
	atomic_fetch_add_explicit(&lost->total, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&lost->unreported, 1, memory_order_relaxed);
	return false;
}

void sl_log_report_lost(void)
{
	uint64_t n = atomic_load_explicit(&lost->unreported, memory_order_relaxed);
	char line[128];
	size_t len;

	/* Lets one thread or process report. */
	if (!n || !atomic_compare_exchange_strong(&lost->unreported, &n, 0))
		return;
	len = put_prefix(line, sizeof(line), SL_LOG_WARN);
	len += (size_t)snprintf(line + len, sizeof(line) - len,
				"%llu lines of the log were lost: no room, or no reader\n",
				(unsigned long long)n);
	if (write_line(line, len))
		return;
	atomic_fetch_sub_explicit(&lost->total, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&lost->unreported, n - 1, memory_order_relaxed);
}

static void log_vwrite(enum sl_log_level level, uint64_t suppressed, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));
static void log_vwrite(enum sl_log_level level, uint64_t suppressed, const char *fmt, va_list ap)
{
	char line[SL_LOG_LINE_MAX + 1];
	int saved = errno;
	size_t start = put_prefix(line, SL_LOG_LINE_MAX, level);
	size_t len = start, room = SL_LOG_LINE_MAX - start;
	int n;

	if (suppressed)
		len += (size_t)snprintf(line + len, room, "(%llu like this withheld) ",
					(unsigned long long)suppressed);
	room = SL_LOG_LINE_MAX - len;
	errno = saved; /* for %m */
	n = vsnprintf(line + len, room, fmt, ap);
	if (n > 0)
		len += (size_t)n < room ? (size_t)n : room - 1;
	for (char *c = line + start; c < line + len; c++) {
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
	}
	line[len++] = '\n';
	sl_log_report_lost();
	(void)write_line(line, len);
	errno = saved;
}

void sl_log_write(enum sl_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_vwrite(level, 0, fmt, ap);
	va_end(ap);
}

bool sl_log_gate_open(struct sl_log_gate *gate, uint64_t now_ns, uint64_t interval_ns,
		      uint64_t *suppressed)
{
	uint64_t next = atomic_load_explicit(&gate->next_ns, memory_order_relaxed);

	if (now_ns < next ||
	    !atomic_compare_exchange_strong_explicit(&gate->next_ns, &next, now_ns + interval_ns,
						     memory_order_relaxed, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&gate->suppressed, 1, memory_order_relaxed);
		return false;
	}
	*suppressed = atomic_exchange_explicit(&gate->suppressed, 0, memory_order_relaxed);
	return true;
}

void sl_log_gated(struct sl_log_gate *gate, uint64_t interval_ns, enum sl_log_level level,
		  const char *fmt, ...)
{
	uint64_t suppressed;
	va_list ap;

	if (!sl_log_gate_open(gate, sl_now_ns(), interval_ns, &suppressed))
		return;
	va_start(ap, fmt);
	log_vwrite(level, suppressed, fmt, ap);
	va_end(ap);
}
