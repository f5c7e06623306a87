/* SPDX-License-Identifier: Apache-2.0 */
/* Names are looked up by another thread: what comes back, and what does not any more. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "agent/names.h"
#include "suite.h"

static struct agent_names *names;

static void set_up(void)
{
	names = agent_names_new();
	ck_assert_ptr_nonnull(names);
	ck_assert_int_eq(agent_names_start(names), 0);
}

static void tear_down(void)
{
	agent_names_free(names);
}

FIXTURE(set_up, tear_down)

/* The descriptor is also readable for an answer that is forgotten. */
static struct agent_query *take(void)
{
	struct pollfd fd = {.fd = agent_names_fd(names), .events = POLLIN};
	struct agent_query *q;

	do {
		ck_assert_int_eq(poll(&fd, 1, -1), 1);
		q = agent_names_take(names);
	} while (!q);
	return q;
}

TEST(an_address_needs_no_resolver)
{
	struct agent_query q = {.host = "192.0.2.7", .port = 80};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&q.addrs[0];

	agent_names_resolve(&q, true);
	ck_assert_uint_eq(q.cnt, 1);
	ck_assert_uint_eq(q.lens[0], sizeof(*v4));
	ck_assert_uint_eq(ntohl(v4->sin_addr.s_addr), 0xc0000207);
	ck_assert_uint_eq(ntohs(v4->sin_port), 80);
	q.host = "name.example";
	agent_names_resolve(&q, true);
	ck_assert_uint_eq(q.cnt, 0);
	ck_assert_uint_gt(strlen(q.error), 0);
}

TEST(a_name_is_answered_once_however_often_it_was_asked)
{
	struct agent_query q = {.host = "127.0.0.1", .port = 8080};

	agent_names_ask(names, &q);
	agent_names_ask(names, &q);
	ck_assert_ptr_eq(take(), &q);
	ck_assert(!q.asked);
	ck_assert_uint_eq(q.cnt, 1);
	ck_assert_ptr_null(agent_names_take(names));
	agent_names_ask(names, &q);
	ck_assert_ptr_eq(take(), &q);
}

/* The thread may be at it, or have answered already. */
TEST(a_forgotten_question_is_not_answered)
{
	struct agent_query q[3] = {
		{.host = "127.0.0.1"}, {.host = "127.0.0.2"}, {.host = "127.0.0.3"}};

	for (unsigned i = 0; i < 3; i++)
		agent_names_ask(names, &q[i]);
	agent_names_forget(names, &q[0]);
	agent_names_forget(names, &q[1]);
	memset(q, 0xff, 2 * sizeof(q[0])); /* it may be freed */
	ck_assert_ptr_eq(take(), &q[2]);
	ck_assert_ptr_null(agent_names_take(names));
}
