/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "unit.h"
#include "suite.h"

static int log_pipe[2];
static char text[1 << 16];

static void catch_log(void)
{
	ck_assert_int_eq(pipe2(log_pipe, O_NONBLOCK), 0);
	sl_log_fd_set(log_pipe[1]);
}

static const char *logged(void)
{
	ssize_t n = read(log_pipe[0], text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

TEST(a_line_has_time_level_thread_and_text)
{
	int year, n = 0;

	catch_log();
	sl_thread_name_set("a-name-of-more-than-15");
	sl_log_warn("backend %s: %d", "b1", 7);
	ck_assert_ptr_nonnull(strstr(logged(), "Z warn  [a-name-of-more-] backend b1: 7\n"));
	ck_assert_int_eq(sscanf(text, "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%*6dZ%n", &year, &n), 1);
	ck_assert_int_eq(n, 27);
	ck_assert_int_ge(year, 2024);
}

TEST(messages_below_the_level_are_not_written)
{
	enum sl_log_level level = SL_LOG_ERR;

	catch_log();
	sl_log_debug("no");
	ck_assert_str_eq(logged(), "");
	ck_assert_int_eq(sl_log_level_parse("debug", &level), 0);
	sl_log_level_set(level);
	sl_log_debug("yes");
	ck_assert_ptr_nonnull(strstr(logged(), "yes"));
	sl_log_level_set(SL_LOG_ERR);
	sl_log_warn("no");
	ck_assert_str_eq(logged(), "");
	ck_assert_int_eq(sl_log_level_parse("loud", &level), -EINVAL);
}

TEST(a_peers_bytes_stay_in_one_bounded_line)
{
	char big[4000];

	catch_log();
	sl_log_err("got %s", "a\nb\x1b[2J\x7f");
	ck_assert_ptr_nonnull(strstr(logged(), "got a?b?[2J?\n"));
	memset(big, 'x', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	sl_log_err("%s", big);
	ck_assert_uint_eq(strlen(logged()), SL_LOG_LINE_MAX);
	ck_assert_int_eq(text[SL_LOG_LINE_MAX - 1], '\n');
}

TEST(errno_is_kept_and_printed)
{
	catch_log();
	errno = ENOENT;
	sl_log_err("open: %m");
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_ptr_nonnull(strstr(logged(), "open: No such file"));
}

TEST(a_gate_lets_one_through_and_counts_the_rest)
{
	struct sl_log_gate gate = {0};
	uint64_t n = 99;

	ck_assert(sl_log_gate_open(&gate, 1000, 100, &n));
	ck_assert_uint_eq(n, 0);
	ck_assert(!sl_log_gate_open(&gate, 1001, 100, &n));
	ck_assert(!sl_log_gate_open(&gate, 1099, 100, &n));
	ck_assert(sl_log_gate_open(&gate, 1100, 100, &n));
	ck_assert_uint_eq(n, 2);
	ck_assert(sl_log_gate_open(&gate, 1200, 100, &n));
	ck_assert_uint_eq(n, 0);
}

static uint64_t turned_ns;

/* Replaces that of libc: the monotonic clock stands still unless a test turns it. */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	if (id != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, id, ts);
	ts->tv_sec = (time_t)(1 + turned_ns / SL_NS_PER_SEC);
	ts->tv_nsec = (long)(turned_ns % SL_NS_PER_SEC);
	return 0;
}

TEST(a_call_site_is_limited_and_says_how_much_it_withheld)
{
	catch_log();
	for (int i = 0; i < 3; i++) {
		if (i == 2)
			turned_ns += 600 * SL_NS_PER_MS;
		SL_LOG_EVERY(500 * SL_NS_PER_MS, SL_LOG_WARN, "bad frame %d", i);
		if (i == 1)
			ck_assert_ptr_null(strstr(logged(), "frame 1"));
	}
	ck_assert_ptr_nonnull(strstr(logged(), "(1 like this withheld) bad frame 2\n"));
}

/* All that the pipe holds. */
static const char *drain(int fd)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return text;
}

TEST(lines_without_room_are_lost_and_counted)
{
	uint64_t lost = sl_log_lost(), more;
	char want[64];
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(fcntl(ends[1], F_SETPIPE_SZ, 8192), 8192);
	sl_log_fd_set(ends[1]);
	for (int i = 0; i < 1000; i++)
		sl_log_err("line %d", i);
	more = sl_log_lost() - lost;
	ck_assert_uint_gt(more, 800);
	ck_assert_uint_lt(more, 1000);
	sl_log_report_lost();
	ck_assert_uint_eq(sl_log_lost() - lost, more);
	drain(ends[0]);
	sl_log_err("after");
	snprintf(want, sizeof(want), "] %u lines of the log were lost", (unsigned)more);
	ck_assert_ptr_nonnull(strstr(drain(ends[0]), want));
	ck_assert_ptr_nonnull(strstr(text, "] after\n"));
	sl_log_err("once");
	ck_assert_ptr_null(strstr(drain(ends[0]), "lost"));
	ck_assert_uint_eq(sl_log_lost() - lost, more);
	close(ends[0]);
	sl_log_err("without a reader");
	ck_assert_uint_eq(sl_log_lost() - lost, more + 1);
}
