/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients (sluice/client.h) of one process in one loop: Linux limits how many epoll instances
 * watch one file, so they must not share one.
 */
#define HARNESS_ENDPOINTS "shm,tcp,ud"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include "rpc_harness.h"
#include "sdk/client/internal.h"
#include "suite.h"

enum { CLIENTS = 64 };

static struct sl_rpc_client *clients[CLIENTS];
static unsigned client_cnt, ends;
static char last_error[512];

static void note_error(void *arg, const char *line)
{
	(void)arg;
	snprintf(last_error, sizeof(last_error), "%s", line);
}

static void note_end(void *user_data, uint64_t call, const struct sl_rpc_call_reply *reply)
{
	(void)user_data, (void)call;
	ck_assert_msg(!reply->error, "client %u: %d: %s", client_cnt, reply->error, last_error);
	ends++;
}

static struct sl_rpc_client *open_client(const char *endpoint)
{
	struct sl_rpc_client_options opt = {.size = sizeof(opt),
					    .endpoints = endpoint,
					    .key_file = harness_key(),
					    .own_loop = true,
					    .connect_timeout_ms = harness_timeout_s() * 1000,
					    .on_connect_error = note_error};
	char err[512] = "";
	struct sl_rpc_client *c = sl_rpc_client_open(&opt, err, sizeof(err));

	ck_assert_msg(c != NULL, "%s", err);
	return c;
}

static void begin_call(struct sl_rpc_client *c)
{
	struct sl_rpc_call_args args = {.size = sizeof(args),
					.path = "/",
					.body = "here",
					.body_len = 4,
					.on_end = note_end};

	ck_assert_int_eq(sl_rpc_client_submit(c, &args, 1, NULL), 0);
}

static void run_loop(int loop, unsigned until)
{
	uint64_t until_ns = sl_now_ns() + harness_timeout_s() * SL_NS_PER_SEC;

	while (ends < until) {
		struct epoll_event ev[CLIENTS];
		uint64_t wait_us = 100000, us;

		ck_assert_msg(sl_now_ns() < until_ns, "client %u: %s", client_cnt, last_error);
		for (unsigned i = 0; i < client_cnt; i++) {
			ck_assert_int_eq(sl_rpc_client_prepare(clients[i], &us), 0);
			wait_us = us < wait_us ? us : wait_us;
		}
		(void)epoll_wait(loop, ev, CLIENTS, (int)(wait_us / 1000));
		for (unsigned i = 0; i < client_cnt; i++)
			ck_assert_int_ge(sl_rpc_client_process(clients[i]), 0);
	}
}

TEST_EACH(sixty_four_clients_in_one_loop_are_answered, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	int loop = epoll_create1(EPOLL_CLOEXEC);

	client_cnt = ends = 0;
	while (client_cnt < CLIENTS) {
		struct epoll_event ev = {.events = EPOLLIN};
		struct sl_rpc_client *c = open_client(ep);

		clients[client_cnt++] = c;
		ck_assert_int_eq(epoll_ctl(loop, EPOLL_CTL_ADD, sl_rpc_client_fd(c), &ev), 0);
		begin_call(c);
		run_loop(loop, client_cnt);
	}
	for (unsigned i = 0; i < CLIENTS; i++)
		begin_call(clients[i]);
	run_loop(loop, 2 * CLIENTS);
	while (client_cnt)
		sl_rpc_client_close(clients[--client_cnt]);
	close(loop);
	backend_term(p);
}

/* An eventfd in the place of the session's epoll instance watches nothing. */
TEST_EACH(a_connection_that_cannot_be_watched_is_a_reported_connect_error, endpoint_cnt())
{
	const char *ep = endpoint_of(_i);
	struct backend_proc p =
		backend_start(&(struct sl_backend_options){.listen = ep, .on_batch = answer_here});
	struct sl_rpc_client_stats stats = {.size = sizeof(stats)};
	struct sl_rpc_client *c = open_client(ep);
	char err[512] = "";
	int fd = eventfd(0, EFD_CLOEXEC);

	*last_error = '\0';
	ck_assert_int_ge(dup2(fd, sl_rpc_fd(c->rpc)), 0);
	ck_assert_int_eq(sl_rpc_client_wait_connected(c, 2000, err, sizeof(err)), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(err, "cannot watch the connection"));
	ck_assert_ptr_nonnull(strstr(last_error, "cannot watch the connection"));
	sl_rpc_client_stats(c, &stats);
	ck_assert_uint_eq(stats.connects, 0);
	ck_assert_uint_ge(stats.connect_errors, 1);
	sl_rpc_client_close(c);
	close(fd);
	backend_term(p);
}
