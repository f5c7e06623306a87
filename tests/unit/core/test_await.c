/* SPDX-License-Identifier: Apache-2.0 */
/* Streams that find no backend, where one may come in a moment. */
#include "core/client.h"
#include "core_talk.h"
#include "suite.h"

static void set_up_alone(void)
{
	set_up();
	stream();
	bed.cfg->pools[1].batch.policy = SL_POLICY_DIRECT;
	other()->broken = -ENOTCONN;
	bed_turns(3);
}

FIXTURE(set_up_alone, tear_down)

static void come_up(void)
{
	bed_connect(2, false);
	bed_turns(3);
}

TEST(a_stream_waits_with_what_comes_behind_its_head)
{
	say(POST(10) "one");
	say(" two");
	come_up();
	ck_sent("one two", 0);
	ck_assert_uint_eq(sent.opened, 1);
	say(" 10");
	ck_sent("one two 10", 1);
	reply(other()->ids[0], 0, "heard");
	ck_assert(heard("HTTP/1.1 200 OK\r\n"));
	ck_assert(heard("heard"));
	ck_assert_uint_eq(
		sl_client_account(sl_client_next(&bed.core, NULL))->cnt[SL_ACCOUNT_FRAMES], 0);
}

TEST(and_with_its_end)
{
	say(POST(5) "hello");
	come_up();
	ck_sent("hello", 1);
	ck_assert_uint_eq(sent.open, 1);
}

/* Nothing of it is open any more when its backend hears of it. */
TEST(one_that_has_only_a_head_is_whole)
{
	say("POST /o HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
	say("0\r\n\r\n");
	come_up();
	ck_sent("", 0);
	ck_assert_uint_eq(sent.opened, 1);
	ck_assert_uint_eq(sent.open, 0);
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert(sl_list_empty(&bed.core.stalled));
	reply(other()->ids[0], 0, "heard");
	ck_assert(heard("heard"));
}

TEST(all_of_them_begin_in_order)
{
	enum { CNT = 4 };

	for (unsigned i = 0; i < CNT; i++) {
		if (i)
			bed_open(i);
		bed_say(i, GET("/o"), strlen(GET("/o")));
		bed_turns(3);
	}
	come_up();
	ck_assert_uint_eq(other()->id_cnt, CNT);
	for (unsigned i = 1; i < CNT; i++)
		ck_assert_uint_gt(other()->ids[i], other()->ids[i - 1]);
}

TEST(after_two_seconds_it_is_refused)
{
	say(POST(5) "one");
	bed_turn(1900 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	bed_turn(200 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert(heard("HTTP/1.1 503 "));
	come_up();
	ck_assert_uint_eq(other()->id_cnt, 0);
}

TEST(its_own_time_may_be_over_before)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].deadline_ns = 500 * SL_NS_PER_MS;
	say(POST(5) "one");
	bed_turn(600 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert(heard("HTTP/1.1 504 "));
}

TEST(of_a_client_that_leaves_no_backend_hears)
{
	say(POST(5) "one");
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	bed_turns(3);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_CLIENT_GONE), 1);
	come_up();
	ck_assert_uint_eq(other()->id_cnt, 0);
}

/* The backend is there, and what a flight needs is not. */
TEST(one_that_cannot_be_sent_goes_on_waiting)
{
	struct sl_flight *f[4096];
	unsigned n = 0;

	say(POST(5) "one");
	while ((f[n] = sl_pool_get(&bed.core.flights)))
		n++;
	come_up();
	ck_assert_uint_eq(other()->id_cnt, 0);
	say(" ");
	while (n)
		sl_pool_put(&bed.core.flights, f[--n]);
	bed_turns(3);
	say("2");
	ck_sent("one 2", 1);
}

/* Where all backends are this worker's there is nobody else to come. */
TEST(elsewhere_it_is_refused_at_once)
{
	bed.cfg->pools[1].batch.policy = SL_POLICY_ADAPTIVE;
	say(POST(5) "one");
	ck_assert(heard("HTTP/1.1 503 "));
}
