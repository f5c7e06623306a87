/* SPDX-License-Identifier: Apache-2.0 */
/* Events and replies of any size are whole, or their clients learn the reason. */
#include "control_bed.h"
#include "control/admin_impl.h"
#include "suite.h"

#define STATS  "GET /stats HTTP/1.1\r\n" HOST "\r\n"
#define EVENTS "GET /events HTTP/1.1\r\n" HOST "\r\n"

/* Limits are a quarter of those in service. */
enum { PART = 1 << 18 };

/* Part of the statistics, of any length. */
static char file_name[65 * PART + 1];
static size_t file_len;

/* The control thread may be reading: the end moves, the text stays. */
static void set_length(size_t len)
{
	file_name[file_len] = 'x';
	file_name[len] = 0;
	file_len = len;
}

static void begin(void)
{
	set_up();
	admin_limits = (struct admin_limits){.events = 64 * PART, .replies = 128 * PART};
	memset(file_name, 'x', sizeof(file_name) - 1);
	set_length(8);
	cfg->file = file_name;
}

/* Reads until the text stands at the end of what has come, and returns the number of bytes. */
static size_t read_until(int fd, const char *text)
{
	static char buf[128 << 10];
	size_t len = strlen(text), all = 0, kept = 0;
	ssize_t n;

	while ((n = read(fd, buf + kept, sizeof(buf) - kept)) > 0) {
		all += (size_t)n;
		kept += (size_t)n;
		if (memmem(buf, kept, text, len))
			return all;
		if (kept > len) {
			memmove(buf, buf + kept - len, len);
			kept = len;
		}
	}
	return 0;
}

FIXTURE(begin, tear_down)

TEST(event_of_many_megabytes_is_whole)
{
	struct runner r = {0};
	int fd;

	set_length(9 * PART);
	start(&r);
	fd = dial();
	ck_assert_int_gt(write(fd, EVENTS, strlen(EVENTS)), 0);
	ck_assert_uint_gt(read_until(fd, "}\n\n"), 9 * PART);
	ck_assert_uint_gt(read_until(fd, "}\n\n"), 9 * PART); /* comes by itself */
	close(fd);
	kill(getpid(), SIGTERM);
	finish(&r);
}

TEST(event_beyond_the_limit_is_refused)
{
	struct runner r = {0};
	int fd;

	set_length(65 * PART);
	start(&r);
	expect("GET /events", HOST, "500", "/events: found more than 16777216 bytes");
	fd = dial();
	ck_assert_int_gt(write(fd, STATS, strlen(STATS)), 0);
	ck_assert_uint_gt(read_until(fd, "may_operate"), 65 * PART);
	close(fd);
	kill(getpid(), SIGTERM);
	finish(&r);
}

/* As JSON, a byte of this name takes six. */
TEST(statistics_beyond_the_limit_are_refused)
{
	struct runner r = {0};

	memset(file_name, 1, sizeof(file_name) - 1);
	set_length(22 * PART);
	start(&r);
	expect("GET /stats", HOST, "500", "/stats: found more than 33554432 bytes");
	kill(getpid(), SIGTERM);
	finish(&r);
}

TEST(replies_to_slow_clients_are_limited)
{
	enum { SLOW = 2 };
	struct runner r = {0};
	int fds[SLOW];

	set_length(50 * PART);
	start(&r);
	for (int i = 0; i < SLOW; i++) {
		fds[i] = dial();
		ck_assert_int_gt(write(fds[i], STATS, strlen(STATS)), 0);
		expect("GET /livez", HOST, "200", "ok");
	}
	expect("GET /stats", HOST, "503", "/stats: clients have yet to take 26");
	expect("GET /readyz?verbose", HOST, "200", "ready");
	ck_assert_uint_gt(read_until(fds[0], "may_operate"), 50 * PART);
	for (int i = 0; i < SLOW; i++)
		close(fds[i]);
	expect("GET /livez", HOST, "200", "ok");
	fds[0] = dial();
	ck_assert_int_gt(write(fds[0], STATS, strlen(STATS)), 0);
	ck_assert_uint_gt(read_until(fds[0], "may_operate"), 50 * PART);
	close(fds[0]);
	kill(getpid(), SIGTERM);
	finish(&r);
}

TEST(event_that_grows_beyond_the_limit_is_a_failure)
{
	struct runner r = {0};
	int fd;

	start(&r);
	fd = dial();
	ck_assert_int_gt(write(fd, EVENTS, strlen(EVENTS)), 0);
	ck_assert_uint_gt(read_until(fd, "}\n\n"), 0);
	set_length(65 * PART);
	ck_assert_uint_gt(read_until(fd, "event: failure\ndata: {\"failure\":\"/events: found"), 0);
	set_length(8);
	ck_assert_uint_gt(read_until(fd, "data: {\"time_ns\""), 0);
	close(fd);
	kill(getpid(), SIGTERM);
	finish(&r);
}

/* Each holds an event of its own: the one that is furthest behind is ended. */
TEST(events_of_slow_clients_are_limited)
{
	enum { SLOW = 4 };
	struct runner r = {0};
	int fds[SLOW];

	set_length(30 * PART);
	start(&r);
	for (int i = 0; i < SLOW; i++) {
		fds[i] = dial();
		ck_assert_int_gt(write(fds[i], EVENTS, strlen(EVENTS)), 0);
		expect("GET /livez", HOST, "200", "ok");
	}
	ck_assert_uint_eq(read_until(fds[0], "}\n\n"), 0);
	ck_assert_uint_gt(read_until(fds[SLOW - 1], "}\n\n"), 30 * PART);
	for (int i = 0; i < SLOW; i++)
		close(fds[i]);
	kill(getpid(), SIGTERM);
	finish(&r);
}
