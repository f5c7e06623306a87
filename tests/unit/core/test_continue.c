/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 100 (Continue) from the gateway or the backend of a route, and interim replies, through a whole
 * core.
 */
#include "core_talk.h"
#include "suite.h"

#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"
#define EXPECTS(version)                                                                           \
	"POST /o HTTP/" version "\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"

/* Backends say it. */
static void backends(void)
{
	stream();
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].backend_continues = true;
}

static uint8_t flags_of_first(void)
{
	struct sl_rpc_entry e;

	ck_assert_uint_ge(other()->taken_len, sizeof(e));
	memcpy(&e, other()->taken, sizeof(e));
	return e.flags;
}

static void go_on(void)
{
	reply(other()->ids[0], SL_ENTRY_GO_ON | SL_ENTRY_MORE, "");
}

static bool is_up(void)
{
	return other()->up;
}

FIXTURE(set_up, tear_down)

TEST(the_gateway_sends_100_continue_at_once)
{
	stream();
	say(EXPECTS("1.1"));
	ck_assert(heard(CONTINUE));
	ck_assert(!(flags_of_first() & SL_ENTRY_EXPECT));
	say("hello");
	reply(other()->ids[0], 0, "yes");
	ck_assert(heard("200 OK"));
	ck_assert(!heard("close"));
}

TEST(go_on_of_the_backend_sends_100_continue)
{
	backends();
	say(EXPECTS("1.1"));
	ck_assert(flags_of_first() & SL_ENTRY_EXPECT);
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	go_on();
	ck_assert(heard(CONTINUE));
	ck_assert_uint_eq(bed.clients[0].heard_len, strlen(CONTINUE));
	say("hello");
	ck_sent("hello", 1);
	reply(other()->ids[0], SL_ENTRY_MORE, "yes");
	reply(other()->ids[0], 0, "");
	ck_assert(heard("200 OK"));
	ck_assert(!heard("close"));
	ck_assert_uint_eq(count("HTTP/1.1"), 2);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* The body is not awaited, and the connection ends; in parts, or in one. */
TEST_EACH(the_backend_answers_without, 2)
{
	backends();
	say(EXPECTS("1.1"));
	reply(other()->ids[0], _i ? SL_ENTRY_MORE : 0, "no");
	if (_i)
		reply(other()->ids[0], 0, "");
	ck_assert(!heard(CONTINUE));
	ck_assert(heard("200 OK"));
	ck_assert(heard("Connection: close"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
	ck_assert(is_up());
}

/* No 100 (Continue) without Expect. */
TEST_EACH(requests_that_expect_nothing, 3)
{
	static const char *const asks[] = {POST(5), EXPECTS("1.0"), EXPECTS("1.1") "h"};

	backends();
	say(asks[_i]);
	ck_assert(!(flags_of_first() & SL_ENTRY_EXPECT));
	ck_assert(is_up());
	go_on();
	ck_assert(!heard(CONTINUE));
	ck_assert(heard("502 Bad Gateway"));
	ck_assert(!is_up());
}

/* The body comes before it was asked for: nothing is lost, and nothing more is said. */
TEST(a_client_that_does_not_wait)
{
	backends();
	say(EXPECTS("1.1"));
	say("hello");
	go_on();
	ck_sent("hello", 1);
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	reply(other()->ids[0], 0, "yes");
	ck_assert(heard("200 OK"));
	ck_assert(is_up());
}

/* Each of these ends the channel. */
TEST_EACH(a_backend_that_lies, 5)
{
	const uint8_t flags = SL_ENTRY_GO_ON | SL_ENTRY_MORE;
	uint64_t id;

	backends();
	say(EXPECTS("1.1"));
	id = other()->ids[0];
	switch (_i) {
	case 0: /* twice, and on */
		for (unsigned i = 0; i < 20; i++)
			ck_assert(bed_reply(other(), id, SL_RPC_OK, flags, ""));
		break;
	case 1: /* behind its head */
		ck_assert(bed_reply(other(), id, SL_RPC_OK, SL_ENTRY_MORE, "a"));
		ck_assert(bed_reply(other(), id, SL_RPC_OK, flags, ""));
		break;
	case 2: ck_assert(bed_reply(other(), id, SL_RPC_OK, flags, "bytes")); break;
	case 3: ck_assert(bed_reply(other(), id, SL_RPC_OK, SL_ENTRY_GO_ON, "")); break;
	default: ck_assert(bed_reply(other(), id, SL_RPC_REFUSED, SL_ENTRY_GO_ON, "")); break;
	}
	bed_turns(3);
	ck_assert(!is_up());
	ck_assert_uint_eq(count(CONTINUE), _i == 0);
	ck_assert_int_eq(heard("502 Bad Gateway"), _i != 1);
}

/* It is dropped behind the end of its reply. */
TEST(late_continue_is_ignored)
{
	backends();
	say(EXPECTS("1.1"));
	reply(other()->ids[0], 0, "no");
	go_on();
	ck_assert(is_up());
	ck_assert(!heard(CONTINUE));
}

/* A client that waits is not late: its backend is. */
TEST(waiting_client_is_not_late)
{
	struct sl_cfg_limits *l = &bed.cfg->limits;

	backends();
	l->body_timeout_ns = l->header_timeout_ns = l->idle_timeout_ns = SL_NS_PER_SEC / 2;
	say(EXPECTS("1.1"));
	for (unsigned i = 0; i < 20; i++)
		bed_turn(SL_NS_PER_SEC / 10);
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	go_on();
	ck_assert(heard(CONTINUE));
}

/* --- interim replies --- */

#define HINTS "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"

/* Its status, and a field that is the client's, and one that is not. */
static struct sl_span interim_meta(unsigned status)
{
	static uint8_t meta[] = {SL_META_STATUS,
				 0,
				 2,
				 0,
				 0,
				 0,
				 SL_META_HEADER,
				 0,
				 9,
				 0,
				 4,
				 'l',
				 'i',
				 'n',
				 'k',
				 '<',
				 '/',
				 'a',
				 '>',
				 SL_META_HEADER,
				 0,
				 4,
				 0,
				 2,
				 't',
				 'e',
				 'x'};

	sl_put_le16(meta + 4, (uint16_t)status);
	return sl_span_of(meta, sizeof(meta));
}

static void hint(unsigned status)
{
	reply_with(other()->ids[0], SL_ENTRY_GO_ON | SL_ENTRY_MORE, interim_meta(status), "");
}

/* Streams and unary requests; each at once. */
TEST_EACH(interim_replies_reach_the_client, 2)
{
	if (_i)
		stream();
	say(GET("/o"));
	for (unsigned i = 1; i <= SL_RPC_MAX_INTERIM; i++) {
		hint(103);
		ck_assert_uint_eq(count(HINTS), i);
		ck_assert_uint_eq(bed.clients[0].heard_len, i * strlen(HINTS));
	}
	reply(other()->ids[0], 0, "yes");
	ck_assert(heard("200 OK"));
	ck_assert(!heard("close"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

TEST(http_1_0_has_no_interim_replies)
{
	say("GET /o HTTP/1.0\r\nHost: x\r\n\r\n");
	hint(103);
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	reply(other()->ids[0], 0, "yes");
	ck_assert(heard("200 OK"));
	ck_assert_uint_eq(count("HTTP/1.1"), 1);
}

/* Both may come before a body, in either order. */
TEST_EACH(hints_and_100_are_two_things, 2)
{
	backends();
	say(EXPECTS("1.1"));
	if (_i)
		hint(103);
	go_on();
	if (!_i)
		hint(103);
	ck_assert_uint_eq(count(CONTINUE), 1);
	ck_assert_uint_eq(count(HINTS), 1);
	say("hello");
	ck_sent("hello", 1);
	reply(other()->ids[0], 0, "yes");
	ck_assert(heard("200 OK"));
	ck_assert(is_up());
}

/* Its request fails, the others of its backend do not. */
TEST_EACH(a_status_that_is_not_interim_is_an_error, 4)
{
	static const unsigned statuses[] = {100, 101, 200, 0};

	say(GET("/o"));
	hint(statuses[_i]);
	ck_assert(heard("502 Bad Gateway"));
	ck_assert_uint_eq(count("HTTP/1.1"), 1);
	ck_assert(is_up());
}

/* Each of these ends the channel. */
TEST_EACH(a_backend_that_lies_of_hints, 4)
{
	const uint8_t flags = SL_ENTRY_GO_ON | SL_ENTRY_MORE;

	say(GET("/o"));
	switch (_i) {
	case 0:
		for (unsigned i = 0; i <= SL_RPC_MAX_INTERIM; i++)
			hint(103);
		break;
	case 1:
		reply(other()->ids[0], SL_ENTRY_MORE, "a");
		hint(103);
		break;
	case 2: reply_with(other()->ids[0], flags, interim_meta(103), "bytes"); break;
	default: reply_with(other()->ids[0], SL_ENTRY_GO_ON, interim_meta(103), ""); break;
	}
	bed_turns(3);
	ck_assert(!is_up());
	ck_assert_uint_eq(count(HINTS), _i ? 0 : SL_RPC_MAX_INTERIM);
}
