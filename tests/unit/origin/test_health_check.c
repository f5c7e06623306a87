/* SPDX-License-Identifier: Apache-2.0 */
/* health_check.c: probes of a server on loopback, with a clock of the test. */
#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/rand.h"
#include "origin/health_check.h"
#include "suite.h"

FIXTURE(NULL, NULL)

enum { INTERVAL = 1000, TIMEOUT = 300, WAIT_MS = 10000 };

static struct {
	struct origin_check check;
	struct sl_prng prng;
	struct sockaddr_in at;
	int listener, conn;
	uint32_t event;
	bool full, unknown;
	unsigned good, bad;
	char why[64];
	uint64_t now;
} t;

static socklen_t address(struct origin_check *c, struct sockaddr_storage *to)
{
	(void)c;
	memcpy(to, &t.at, sizeof(t.at));
	return t.unknown ? 0 : sizeof(t.at);
}

static int watch(struct origin_check *c, uint32_t event, bool is_new)
{
	(void)c;
	ck_assert(is_new == (event == EPOLLOUT));
	t.event = event;
	return 0;
}

static void result(struct origin_check *c, const char *why)
{
	(void)c;
	t.good += !why;
	t.bad += why != NULL;
	strcpy(t.why, why ? why : "");
}

static bool is_full(struct origin_check *c)
{
	(void)c;
	return t.full;
}

static const struct origin_check_owner owner = {address, watch, result, is_full, NULL};

static void start(unsigned failures)
{
	const struct origin_check_config cfg = {.target = {.authority = "a", .expect = 200},
						.interval_ns = INTERVAL,
						.timeout_ns = TIMEOUT,
						.failures = failures,
						.fd_max = INT_MAX};
	socklen_t len = sizeof(t.at);

	memset(&t, 0, sizeof(t));
	t.now = 5000;
	t.conn = -1;
	t.at.sin_family = AF_INET;
	t.at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	t.listener = socket(AF_INET, SOCK_STREAM, 0);
	ck_assert(!bind(t.listener, (struct sockaddr *)&t.at, sizeof(t.at)));
	ck_assert(!listen(t.listener, 8));
	ck_assert(!getsockname(t.listener, (struct sockaddr *)&t.at, &len));
	sl_prng_seed(&t.prng, 1);
	ck_assert(origin_check_init(&t.check, &owner, &cfg, &t.prng, t.now));
}

static void finish(void)
{
	origin_check_fini(&t.check);
	if (t.conn >= 0)
		close(t.conn);
	close(t.listener);
}

/* Waits for the socket, and passes the event on. */
static void step(void)
{
	struct pollfd p = {.fd = t.check.fd, .events = t.event == EPOLLIN ? POLLIN : POLLOUT};

	ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	origin_check_event(&t.check, t.now);
}

/* A probe is due: it connects and sends. */
static void send_probe(void)
{
	char request[1024];

	t.now = t.check.due_ns;
	origin_check_due(&t.check, t.now);
	ck_assert_uint_eq(t.check.due_ns, t.now + TIMEOUT);
	step();
	if (t.conn >= 0)
		close(t.conn);
	t.conn = accept(t.listener, NULL, NULL);
	ck_assert(recv(t.conn, request, sizeof(request), 0) > 0);
	ck_assert(!memcmp(request, "GET / HTTP/1.1\r\n", 16));
}

static void reply(const char *text)
{
	ck_assert_int_eq(write(t.conn, text, strlen(text)), (ssize_t)strlen(text));
	step();
}

static void is_scheduled(void)
{
	ck_assert_int_eq(t.check.fd, -1);
	ck_assert(t.check.due_ns >= t.now + INTERVAL - INTERVAL / 10);
	ck_assert(t.check.due_ns <= t.now + INTERVAL + INTERVAL / 10);
}

TEST(reply_is_a_success_and_its_rest_is_read)
{
	start(1);
	send_probe();
	reply("HTTP/1.1 200 OK\r\n");
	ck_assert_uint_eq(t.good, 1);
	reply("\r\nbody");
	ck_assert(t.check.fd >= 0);
	close(t.conn);
	t.conn = -1;
	step();
	is_scheduled();
	ck_assert(t.good == 1 && !t.bad);
	finish();
}

TEST(failures_in_a_row_are_counted)
{
	start(2);
	for (unsigned i = 0; i < 3; i++) {
		send_probe();
		reply("HTTP/1.1 500 X\r\n");
		ck_assert_uint_eq(t.bad, i); /* the first is not told */
		close(t.conn);
		t.conn = -1;
		step();
	}
	ck_assert_str_eq(t.why, "status 500; expected 200");
	send_probe();
	reply("HTTP/1.1 200 OK\r\n");
	ck_assert_uint_eq(t.good, 1);
	t.now = t.check.due_ns;
	origin_check_due(&t.check, t.now); /* the rest is late: no failure */
	ck_assert_uint_eq(t.bad, 2);
	send_probe();
	reply("HTTP/1.1 500 X\r\n");
	ck_assert_uint_eq(t.bad, 2);
	finish();
}

TEST(server_at_its_limit_may_be_late)
{
	start(1);
	t.full = true;
	send_probe();
	t.now = t.check.due_ns;
	origin_check_due(&t.check, t.now);
	ck_assert_uint_eq(t.bad, 0);
	is_scheduled();
	t.full = false;
	send_probe();
	t.now = t.check.due_ns;
	origin_check_due(&t.check, t.now);
	ck_assert_uint_eq(t.bad, 1);
	ck_assert_str_eq(t.why, "no reply in time");
	is_scheduled();
	finish();
}

TEST(refused_connection_is_a_failure_and_a_missing_address_is_none)
{
	start(1);
	t.unknown = true;
	t.now = t.check.due_ns;
	origin_check_due(&t.check, t.now);
	is_scheduled();
	ck_assert_uint_eq(t.bad, 0);
	t.unknown = false;
	close(t.listener);
	t.now = t.check.due_ns;
	origin_check_due(&t.check, t.now);
	if (t.check.fd >= 0)
		step();
	is_scheduled();
	ck_assert_uint_eq(t.bad, 1);
	t.listener = -1;
	finish();
}

TEST(descriptors_beyond_the_limit_say_nothing)
{
	start(1);
	t.check.cfg.fd_max = 0;
	t.now = t.check.due_ns;
	origin_check_due(&t.check, t.now);
	is_scheduled();
	ck_assert(!t.bad && !t.good);
	finish();
}
