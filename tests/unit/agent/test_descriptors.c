/* SPDX-License-Identifier: Apache-2.0 */
/* An agent that may have fewer descriptors than its server may have requests at a time. */
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "agent_bed.h"

/* The server's ends are of this process too, so a connection takes two; those of the last ones come above the agent's. */
enum { FILES = 128, SPARE = FILES / 4, SURE = 8, ASKED = 80 };

static struct bed_request *asked[ASKED + 1];
static int ends[FILES]; /* the server's, of those that it has accepted */
static unsigned end_cnt, asked_cnt;
static int log_fd;

static void set_up(void)
{
	struct rlimit files = {FILES, FILES};
	char path[] = "/tmp/sl-unit-descriptors-XXXXXX";

	log_fd = mkstemp(path);
	ck_assert_int_ge(log_fd, 0);
	unlink(path);
	sl_log_fd_set(log_fd);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	bed_start_as("http", (struct sl_agent_options){.concurrency = 1000});
}

static void tear_down(void)
{
	bed_stop();
	for (unsigned i = 0; i < asked_cnt; i++)
		bed_request_free(asked[i]);
	sl_log_fd_set(-1);
}

FIXTURE(set_up, tear_down)

static bool logged(const char *text)
{
	static char all[64 << 10];
	ssize_t n = pread(log_fd, all, sizeof(all) - 1, 0);

	ck_assert_int_ge(n, 0);
	all[n] = 0;
	return strstr(all, text);
}

static void accept_all(void)
{
	int fd;

	while ((fd = accept4(bed.listen_fd, NULL, NULL, SOCK_NONBLOCK)) >= 0)
		ends[end_cnt++] = fd;
}

static void say(int fd, const char *text)
{
	ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (int)strlen(text));
}

/* Answers the request that has arrived on this connection. */
static void answer(int fd)
{
	char request[1024];

	if (recv(fd, request, sizeof(request), 0) > 0)
		say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
}

static unsigned answered(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < asked_cnt; i++) {
		ck_assert_int_eq(asked[i]->error, SL_RPC_OK);
		n += asked[i]->ends;
	}
	return n;
}

/* The agent's clock is the real one: it tries again after a while. */
static void turn(void)
{
	usleep(1000);
	bed_turns(1);
	accept_all();
}

static void turns_until(bool (*is_so)(void))
{
	uint64_t late_ns = sl_now_ns() + 60 * SL_NS_PER_SEC;

	while (!is_so()) {
		ck_assert_uint_lt(sl_now_ns(), late_ns);
		turn();
	}
}

static bool first_is_asked(void)
{
	return end_cnt && recv(ends[0], bed.heard, sizeof(bed.heard), 0) > 0;
}

static bool there_is_none_left(void)
{
	return logged(": no further connection: Too many open files; ");
}

/* All but the first connection, whose reply has begun, answer. */
static bool others_are_answered(void)
{
	for (unsigned i = 1; i < end_cnt; i++)
		answer(ends[i]);
	return answered() == ASKED - 1;
}

static bool all_are_answered(void)
{
	return answered() == asked_cnt;
}

static bool all_are_answered_by_all(void)
{
	for (unsigned i = 0; i < end_cnt; i++)
		answer(ends[i]);
	return all_are_answered();
}

static bool first_is_over(void)
{
	return asked[0]->ends;
}

static bool is_ready(void)
{
	return !bed.unready;
}

static bool last_is_answered(void)
{
	answer(ends[end_cnt - 1]);
	return asked[asked_cnt - 1]->ends;
}

/* Those for which there is none wait, what has begun goes on, and gateways find descriptors. */
TEST(a_call_without_a_connection_waits_for_one)
{
	int spare[SURE];

	for (unsigned i = 0; i < ASKED; i++)
		asked[asked_cnt++] = bed_ask(SL_PROTO_HTTP1, false);
	turns_until(first_is_asked);
	say(ends[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n");
	turns_until(there_is_none_left);
	ck_assert_uint_lt(end_cnt, FILES / 2);
	ck_assert_uint_eq(answered(), 0);
	for (unsigned i = 0; i < SL_ARRAY_LEN(spare); i++) {
		spare[i] = dup(0);
		ck_assert_int_ge(spare[i], 0);
	}
	for (unsigned i = 0; i < SL_ARRAY_LEN(spare); i++)
		close(spare[i]);
	turns_until(others_are_answered);
	say(ends[0], "3\r\nend\r\n0\r\n\r\n");
	turns_until(all_are_answered);
	ck_assert(!bed.unready);
	ck_assert(!logged("cannot connect"));
}

/* Adds a second one, to which `bed.opt` belongs then. Returns the descriptor of the first one. */
static int add_server(void)
{
	char text[256] = "", to[128];
	struct sl_err err = {text, sizeof(text)};
	int fd = bed.fd;

	bed.fd = eventfd(0, EFD_CLOEXEC);
	snprintf(to, sizeof(to), "http+unix://%s", bed.path);
	ck_assert_msg(sl_agent_add(bed.agent, &(struct sl_agent_options){.listen = "y", .to = to},
				   &err) == 0,
		      "%s", text);
	bed_first_connection();
	return fd;
}

static unsigned end_cnt_before;

/* A connection of the first server may be among the new ones. */
static bool last_is_answered_by_a_new_one(void)
{
	for (unsigned i = end_cnt_before; i < end_cnt; i++)
		answer(ends[i]);
	return asked[asked_cnt - 1]->ends;
}

/* Those that a server uses, however many it wants, leave another one its part. */
TEST(busy_ones_leave_a_part_to_another_server)
{
	struct sl_backend_options first = bed.opt, second;
	int fd = add_server();

	ck_assert(logged("agent: few descriptors are allowed: at most 96 connections"));
	second = bed.opt;
	bed.opt = first;
	for (unsigned i = 0; i < ASKED; i++)
		asked[asked_cnt++] = bed_ask(SL_PROTO_HTTP1, false);
	turns_until(there_is_none_left);
	end_cnt_before = end_cnt;
	bed.opt = second;
	asked[asked_cnt++] = bed_ask(SL_PROTO_HTTP1, false);
	turns_until(last_is_answered_by_a_new_one);
	ck_assert_int_eq(asked[asked_cnt - 1]->error, SL_RPC_OK);
	ck_assert_int_eq(asked[0]->ends, 0);
	close(fd);
}

/* Connections that a server does not use now are no reason to refuse what waits for another. */
TEST(idle_ones_make_room_for_another_server)
{
	struct sl_backend_options first = bed.opt, second;
	int fd = add_server();

	second = bed.opt;
	bed.opt = first;
	for (unsigned i = 0; i < ASKED; i++)
		asked[asked_cnt++] = bed_ask(SL_PROTO_HTTP1, false);
	turns_until(there_is_none_left);
	turns_until(all_are_answered_by_all);
	bed.opt = second;
	asked[asked_cnt++] = bed_ask(SL_PROTO_HTTP1, false);
	turns_until(all_are_answered_by_all);
	ck_assert(!logged("cannot connect"));
	close(fd);
}

/* A server that gets no connection at all is as one that is down: gateways are told to go elsewhere, until it has one. */
TEST(without_any_it_is_down)
{
	int fd, most = -1;

	while ((fd = dup(0)) >= 0 && fd < FILES - SPARE)
		most = fd;
	close(fd);
	asked[asked_cnt++] = bed_ask(SL_PROTO_HTTP1, false);
	turns_until(first_is_over);
	ck_assert_int_eq(asked[0]->error, SL_RPC_REFUSED);
	ck_assert(bed.unready);
	ck_assert(logged(": Too many open files; retrying in "));
	for (unsigned i = 0; i < 4; i++)
		close(most - (int)i);
	turns_until(is_ready);
	asked[asked_cnt++] = bed_ask(SL_PROTO_HTTP1, false);
	turns_until(last_is_answered);
	ck_assert_int_eq(asked[1]->error, SL_RPC_OK);
}
