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
	bed.core.limits.upgrades = true;
}

static bool was_told(const char *text, size_t len)
{
	return memmem(other()->taken, other()->taken_len, text, len);
}

FIXTURE(set_up, tear_down)

/* Bytes before the answer wait for it; then all is passed on. */
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

/* Waiting bytes are dropped, and the backend hears the end of them. */
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

/* The client has not asked: it would parse the bytes that follow differently. */
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
	ck_assert_uint_eq(bed.core.stats.upgrades_ignored, 1);
	reply(other()->ids[0], 0, "one");
	reply(other()->ids[1], 0, "two");
	ck_assert(heard("one"));
	ck_assert(heard("two"));
}

/* Offers of HTTP itself cost a client nothing when they are ignored. */
TEST(upgrade_to_h2c_is_no_loss)
{
	say(ASKS("/o", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c, HTTP/2.0\r\n"));
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert_uint_eq(bed.core.stats.upgrades_ignored, 0);
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

/* --- their time, by Upgrade and by extended CONNECT of HTTP/2 (RFC 8441) --- */

enum { H2_DATA = 0, H2_RST_STREAM = 3, H2_END_STREAM = 1, H2_HEAD = 9 };

static void begin(bool h2)
{
	static const char by_connect[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
					 "\0\0\0\4\0\0\0\0\0"
					 "\0\0\x26\1\4\0\0\0\1\2\7CONNECT\x86\x04\2/o\x41\1x"
					 "\0\x09:protocol\x09websocket";

	if (h2)
		bed_say(0, by_connect, sizeof(by_connect) - 1);
	else
		say(ASKS("/o", UPGRADE));
	bed_turns(3);
	ck_assert_uint_eq(other()->id_cnt, 1);
	reply_with(other()->ids[0], SL_ENTRY_MORE, sl_span_of(switching, 6), "");
}

/* The part number i of a talk: one from the client, the next one from the backend. */
static void part(bool h2, unsigned i)
{
	static const char data[] = "\0\0\4\0\0\0\0\0\1here";

	if (i & 1)
		reply(other()->ids[0], SL_ENTRY_MORE, "there");
	else if (h2)
		bed_say(0, data, sizeof(data) - 1);
	else
		say("here");
	bed_turns(3);
}

/* How many frames of stream 1 the client has of that type, with those flags. */
static unsigned h2_frames(uint8_t type, uint8_t flags)
{
	const uint8_t *p = bed.clients[0].heard;
	unsigned n = 0;

	for (size_t at = 0; at + H2_HEAD <= bed.clients[0].heard_len;
	     at += H2_HEAD + (size_t)sl_get_be24(p + at))
		n += p[at + 3] == type && (p[at + 4] & flags) == flags &&
		     sl_get_be32(p + at + 5) == 1;
	return n;
}

/* Broken off, which no client can take for an end in order, and its backend knows. */
static void ck_broken_off(bool h2, enum sl_outcome why)
{
	ck_assert_uint_eq(outcomes(why), 1);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 0);
	ck_assert_uint_eq(other()->cancels, 1);
	bed_turns(20); /* a connection that is cut waits for the next tick */
	ck_assert_int_eq(bed.clients[0].open, h2);
	ck_assert_uint_eq(h2_frames(H2_RST_STREAM, 0), h2);
	ck_assert_uint_eq(h2_frames(H2_DATA, H2_END_STREAM), 0);
	ck_assert_uint_eq(bed.core.stats.streams, 0);
}

/* Time without a part counts for both directions. */
TEST_EACH(upgrade_that_is_idle, 2)
{
	upgrades();
	bed.cfg->routes[0].idle_ns = bed.cfg->routes[1].idle_ns = SL_NS_PER_SEC;
	begin(_i);
	for (unsigned i = 0; i < 5; i++) {
		bed_turn(800 * SL_NS_PER_MS);
		part(_i, i);
	}
	ck_assert_uint_eq(outcomes(SL_OUTCOME_STREAM_IDLE), 0);
	bed_turn(1200 * SL_NS_PER_MS);
	bed_turns(3);
	ck_broken_off(_i, SL_OUTCOME_STREAM_IDLE);
}

/* Parts in either direction, all the time, are no reason for more of it. */
TEST_EACH(upgrade_that_is_alive_has_its_time, 2)
{
	upgrades();
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].idle_ns = SL_NS_PER_SEC;
		bed.cfg->routes[i].max_duration_ns = 4 * SL_NS_PER_SEC;
	}
	begin(_i);
	for (unsigned i = 0; i < 12; i++) {
		bed_turn(300 * SL_NS_PER_MS);
		part(_i, i);
	}
	ck_assert_uint_eq(outcomes(SL_OUTCOME_EXPIRED), 0);
	ck_assert_uint_eq(bed.core.stats.stream_parts_in, 6);
	ck_assert_uint_eq(bed.core.stats.stream_parts_out, 6 + 1); /* the answer, without bytes */
	bed_turn(500 * SL_NS_PER_MS);
	bed_turns(3);
	ck_broken_off(_i, SL_OUTCOME_EXPIRED);
}
