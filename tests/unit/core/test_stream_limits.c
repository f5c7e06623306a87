/* SPDX-License-Identifier: Apache-2.0 */
/* max_rate: what a stream moves in each direction, over time. */
#include "core_talk.h"
#include "suite.h"

enum { RATE = 8000, AT_ONCE = 1024, STEP_MS = 20 };

static char text[4000];

static void set_up_rate(void)
{
	set_up();
	stream();
	memset(text, 'x', sizeof(text) - 1);
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].max_rate = RATE;
}

static size_t body_heard(void)
{
	size_t n = 0;

	for (size_t i = 0; i < bed.clients[0].heard_len; i++)
		n += bed.clients[0].heard[i] == 'x';
	return n;
}

static size_t body_told(void)
{
	size_t n = 0;

	for (size_t i = 0; i < other()->taken_len; i++)
		n += other()->taken[i] == 'x';
	return n;
}

/* So many bytes at the rate: never beyond it, and never far behind; returns how long they took. */
static unsigned pass(size_t (*moved)(void), size_t bytes)
{
	unsigned ms = 0;

	for (; moved() < bytes; ms += STEP_MS) {
		size_t may =
			AT_ONCE + (size_t)RATE * (ms + 1) / 1000; /* 1: what it took to say it */

		ck_assert_uint_le(moved(), may);
		ck_assert_uint_ge(moved() + AT_ONCE + (size_t)RATE * STEP_MS / 1000, may - AT_ONCE);
		bed_turn(STEP_MS * SL_NS_PER_MS);
	}
	return ms;
}

FIXTURE(set_up_rate, tear_down)

/* A part of a reply, or the whole of one. */
TEST_EACH(reply_keeps_to_its_rate, 2)
{
	unsigned ms;

	say(GET("/o"));
	reply(other()->ids[0], _i ? 0 : SL_ENTRY_MORE, text);
	ck_assert_uint_gt(body_heard(), 0);
	ms = pass(body_heard, sizeof(text) - 1);
	ck_assert_uint_ge(ms, (sizeof(text) - 1 - AT_ONCE) * 1000 / RATE);
	ck_assert_uint_gt(bed.core.stats.stream_waits, 0);
	if (!_i)
		reply(other()->ids[0], 0, "");
	bed_turn(200 * SL_NS_PER_MS);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

TEST(request_keeps_to_its_rate)
{
	unsigned ms;

	say("POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: 3999\r\n\r\n");
	for (unsigned at = 0; at < 3999; at += 1333)
		bed_say(0, text, 1333);
	bed_turns(2);
	ck_assert_uint_gt(body_told(), 0);
	ms = pass(body_told, sizeof(text) - 1);
	ck_assert_uint_ge(ms, (sizeof(text) - 1 - AT_ONCE) * 1000 / RATE);
	reply(other()->ids[0], 0, "");
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* Delays of the gateway do not count against a client; a stream is not idle meanwhile. */
TEST(slow_rate_is_not_the_clients)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].max_rate = 1000;
		bed.cfg->routes[i].idle_ns = 700 * SL_NS_PER_MS;
	}
	bed.cfg->limits.send_timeout_ns = SL_NS_PER_SEC;
	bed.cfg->limits.send_rate = 4096;
	say(GET("/o"));
	reply(other()->ids[0], SL_ENTRY_MORE, text);
	for (unsigned i = 0; i < 170; i++)
		bed_turn(STEP_MS * SL_NS_PER_MS);
	ck_assert_uint_eq(body_heard(), sizeof(text) - 1);
	ck_assert_uint_eq(bed.core.stats.slow_readers, 0);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_STREAM_IDLE), 0);
	reply(other()->ids[0], 0, "");
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}
