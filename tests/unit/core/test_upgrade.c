/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that would go on in another protocol, on their way through a whole core. */
#include "core_talk.h"
#include "suite.h"

#define ASKS(path, fields) "GET " path " HTTP/1.1\r\nHost: x\r\n" fields "\r\n"
#define UPGRADE            "Connection: upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n"

static const uint8_t switching[] = {SL_META_STATUS, 0, 2, 0, 101, 0, 0, 0};

static void upgrades(void)
{
	static const char *protocols[] = {"websocket"};

	stream();
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].upgrades = protocols;
		bed.cfg->routes[i].upgrade_cnt = 1;
	}
}

static bool was_told(const char *text, size_t len)
{
	return memmem(other()->taken, other()->taken_len, text, len);
}

FIXTURE(set_up, tear_down)

/* What comes before the answer waits for it; then all goes through. */
TEST(upgrade_that_is_agreed_to)
{
	upgrades();
	say(ASKS("/o", UPGRADE) "early");
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert(was_told("\x07upgradewebsocket", 17));
	ck_assert(was_told("\x11sec-websocket-keyk", 19));
	ck_assert(!was_told("WebSocket", 9));
	ck_assert(!was_told("early", 5));
	reply_with(other()->ids[0], SL_ENTRY_MORE, sl_span_of(switching, 6), "");
	ck_assert(heard("101 Switching Protocols"));
	ck_assert(was_told("early", 5));
	say("late");
	ck_assert(was_told("late", 4));
	reply(other()->ids[0], SL_ENTRY_MORE, "there");
	ck_assert(heard("\r\n\r\nthere"));
	ck_assert_uint_eq(bed.core.stats.outcomes[SL_OUTCOME_OK], 0);
	reply(other()->ids[0], 0, "");
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* What has waited goes nowhere, and the backend hears the end of it. */
TEST(upgrade_that_is_refused)
{
	upgrades();
	say(ASKS("/o", UPGRADE) "early");
	reply(other()->ids[0], SL_ENTRY_MORE, "no");
	ck_assert(heard("200 OK"));
	ck_assert(heard("Connection: close"));
	ck_assert(!was_told("early", 5));
	ck_sent("", 1);
	reply(other()->ids[0], 0, "");
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* Nobody has asked: a client would take what follows for something else than the gateway does. */
TEST_EACH(status_101_without_an_upgrade, 2)
{
	if (_i)
		upgrades();
	say(ASKS("/o", ""));
	reply_with(other()->ids[0], _i ? SL_ENTRY_MORE : 0, sl_span_of(switching, 6), "");
	ck_assert(heard("502 Bad Gateway"));
	ck_assert(!heard("101"));
}

/* Ignored, and its fields are nothing that a backend should see. */
TEST(upgrade_that_the_route_has_not)
{
	stream();
	bed.cfg->routes[0].forward_all = bed.cfg->routes[1].forward_all = true;
	say(ASKS("/o", UPGRADE) GET("/o"));
	ck_assert_uint_eq(other()->id_cnt, 2);
	ck_assert(!was_told("upgradeWebSocket", 16));
	reply(other()->ids[0], 0, "one");
	reply(other()->ids[1], 0, "two");
	ck_assert(heard("one"));
	ck_assert(heard("two"));
}

/* No client can do anything else meanwhile; once it is agreed to, that time is over. */
TEST_EACH(upgrade_that_is_not_answered, 2)
{
	upgrades();
	bed.cfg->routes[0].upgrade_timeout_ns = bed.cfg->routes[1].upgrade_timeout_ns =
		SL_NS_PER_SEC;
	say(ASKS("/o", UPGRADE));
	if (_i)
		reply_with(other()->ids[0], SL_ENTRY_MORE, sl_span_of(switching, 6), "");
	bed_turn(1200 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert_int_eq(heard("504 Gateway Timeout"), !_i);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_EXPIRED), !_i);
	ck_assert_uint_eq(other()->cancels, !_i);
}

/* Time without a part counts for both directions. */
TEST(upgrade_that_is_idle)
{
	upgrades();
	bed.cfg->routes[0].idle_ns = bed.cfg->routes[1].idle_ns = SL_NS_PER_SEC;
	say(ASKS("/o", UPGRADE));
	reply_with(other()->ids[0], SL_ENTRY_MORE, sl_span_of(switching, 6), "");
	for (unsigned i = 0; i < 5; i++) {
		bed_turn(800 * SL_NS_PER_MS);
		if (i & 1)
			say("here");
		else
			reply(other()->ids[0], SL_ENTRY_MORE, "there");
	}
	ck_assert_uint_eq(outcomes(SL_OUTCOME_STREAM_IDLE), 0);
	bed_turn(1200 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_STREAM_IDLE), 1);
	ck_assert_uint_eq(other()->cancels, 1);
}
