/* SPDX-License-Identifier: Apache-2.0 */
/* Pools that a member of the body selects, for requests that are read whole and for streams. */
#include <errno.h>

#include "core/client.h"
#include "core_talk.h"
#include "suite.h"

static struct sl_cfg_match matches[] = {
	{.text = "exact", .len = 5, .pool = 0},
	{.text = "llama*", .len = 5, .prefix = true, .pool = 0},
};
static struct sl_cfg_route_pools pools;

static struct sl_cfg_route *route_of(const char *prefix)
{
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		if (strcmp(bed.cfg->routes[i].prefix, prefix) == 0)
			return &bed.cfg->routes[i];
	}
	ck_abort();
}

/* "/o" leads to `other`, and these models to a and b. */
static void match_models(int streams)
{
	pools = (struct sl_cfg_route_pools){
		.member = "model", .member_limit = 100 << 10, .matches = matches, .match_cnt = 2};
	route_of("/o")->pools = &pools;
	if (streams)
		stream();
}

FIXTURE(set_up, tear_down)

static unsigned got(unsigned i)
{
	return bed.backends[i].id_cnt;
}

/* Requests at `other`, and at the two of the match's pool. */
static void ck_got(unsigned own, unsigned matched)
{
	ck_assert_uint_eq(got(2), own);
	ck_assert_uint_eq(got(0) + got(1), matched);
}

static struct bed_backend *matched(void)
{
	return got(0) ? &bed.backends[0] : &bed.backends[1];
}

static void answer(struct bed_backend *be)
{
	ck_assert(bed_reply(be, be->ids[be->id_cnt - 1], SL_RPC_OK, 0, "fine"));
	bed_turns(3);
	ck_assert(heard("200 OK"));
	ck_assert(heard("fine"));
}

static void ck_nothing_is_held(void)
{
	ck_assert_uint_eq(sl_mempool_used(&bed.core.body_matches), 0);
	ck_assert_uint_eq(sl_client_quota(sl_client_next(&bed.core, NULL))->cnt[SL_QUOTA_READING],
			  0);
}

TEST_EACH(member_selects_the_pool, 2)
{
	match_models(_i);
	say(POST(19) "{\"model\":\"llama-3\"}");
	ck_got(0, 1);
	ck_assert(memmem(matched()->taken, matched()->taken_len, "{\"model\":\"llama-3\"}", 19));
	answer(matched());
	ck_nothing_is_held();
	ck_assert_uint_eq(bed.core.stats.bodies_matched, 1);
}

TEST_EACH(other_value_goes_to_the_pool_of_the_route, 2)
{
	match_models(_i);
	say(POST(16) "{\"model\":\"exac\"}");
	say(POST(17) "{\"model\":\"exact\"}" POST(18) "{\"model\":\"exact2\"}");
	ck_got(2, 1);
	ck_assert_uint_eq(bed.core.stats.bodies_unmatched, 2);
	ck_nothing_is_held();
}

/* A stream is not delayed beyond the member, and nothing of it gets lost or doubled. */
TEST(stream_is_sent_as_soon_as_the_member_has_come)
{
	const char *body = "{\"a\":[1,2],\"model\":\"llama\"";

	match_models(1);
	say(POST(32));
	for (size_t i = 0; body[i]; i++) {
		ck_got(0, 0);
		bed_say(0, body + i, 1);
	}
	bed_turns(3);
	ck_got(0, 1);
	look_at(matched());
	ck_assert_uint_eq(sent.len, strlen(body));
	ck_assert_mem_eq(sent.bytes, body, sent.len);
	ck_assert_uint_eq(sent.ends, 0);
	say(",\"b\":1");
	say("}");
	ck_nothing_is_held();
}

TEST_EACH(chunked_body_in_pieces, 2)
{
	const char *text = "POST /o HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
			   "9\r\n{\"model\":\r\n2\r\n\"l\r\n6\r\nlama\"}\r\n0\r\n\r\n";

	match_models(_i);
	for (size_t i = 0; text[i]; i++)
		bed_say(0, text + i, 1);
	bed_turns(3);
	ck_got(0, 1);
	answer(matched());
	ck_nothing_is_held();
}

static void say_http2(const char *body)
{
	static const char head[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				   "\0\0\0\4\0\0\0\0\0"
				   "\0\0\x09\1\4\0\0\0\1\x83\x86\x04\2/o\x41\1x";
	char frame[9] = {0, 0, (char)strlen(body), 0, 1, 0, 0, 0, 1};

	bed_say(0, head, sizeof(head) - 1);
	bed_turns(1);
	bed_say(0, frame, sizeof(frame));
	bed_say(0, body, strlen(body));
	bed_turns(3);
}

TEST_EACH(member_in_http2, 2)
{
	match_models(_i);
	say_http2("{\"model\":\"llama-3\"}");
	ck_got(0, 1);
	ck_nothing_is_held();
}

TEST_EACH(request_without_a_body, 2)
{
	match_models(_i);
	say(GET("/o"));
	ck_got(1, 0);
	pools.no_default = true;
	say(GET("/o"));
	ck_got(1, 0);
	reply(other()->ids[0], 0, "fine");
	ck_assert(heard("404 Not Found"));
	ck_assert(heard("unknown model"));
	ck_nothing_is_held();
}

/* By the form of the body: absent, no string, malformed, cut off. */
static const char *const others[] = {
	POST(12) "{\"mode\":\"a\"}",
	POST(11) "{\"model\":1}",
	POST(11) "model=llama",
	POST(11) "{\"model\":\"a",
};

TEST_EACH(body_without_the_member, 16)
{
	bool no_default = _i & 8;

	match_models(_i & 4);
	pools.no_default = no_default;
	say(others[_i % 4]);
	ck_got(!no_default, 0);
	ck_assert_int_eq(heard("404 Not Found"), no_default);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_NO_MATCH), no_default);
	ck_nothing_is_held();
}

/* The early reply comes while the client still sends; the connection stays usable. */
TEST_EACH(unknown_model_is_refused_at_its_member, 2)
{
	match_models(_i);
	pools.no_default = true;
	say(POST(40) "{\"model\":\"other\",");
	ck_assert(heard("404 Not Found"));
	say("\"a\":\"aaaaaaaaaaaaaaaa\"}" GET("/z"));
	ck_assert(heard("410 Gone"));
	ck_nothing_is_held();
}

static void say_filler(size_t len)
{
	char text[1000];

	memset(text, 'x', sizeof(text));
	for (; len; len -= sizeof(text)) {
		bed_say(0, text, sizeof(text));
		bed_turns(2);
	}
}

TEST_EACH(member_beyond_the_limit, 4)
{
	match_models(_i & 1);
	pools.member_limit = 10000;
	pools.beyond_default = _i & 2;
	say("POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: 21026\r\n\r\n{\"a\":\"");
	say_filler(9000);
	ck_got(0, 0);
	say_filler(12000);
	say("\",\"model\":\"llama\"}..");
	ck_got(_i & 2 ? 1 : 0, 0);
	ck_assert_int_eq(heard("413 "), !(_i & 2));
	ck_assert_uint_eq(bed.core.stats.bodies_beyond, 1);
	ck_nothing_is_held();
}

/* More than a narrow window, and than what waits for a backend. */
TEST_EACH(member_behind_a_long_text, 2)
{
	match_models(_i);
	say("POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: 90024\r\n\r\n{\"a\":\"");
	say_filler(90000);
	ck_got(0, 0);
	say("\",\"model\":\"llama\"}");
	ck_got(0, 1);
	ck_nothing_is_held();
}

TEST_EACH(client_that_goes_meanwhile, 2)
{
	match_models(_i);
	say(POST(40) "{\"a\":");
	ck_assert_uint_eq(sl_mempool_used(&bed.core.body_matches), 1);
	bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	bed_turns(3);
	ck_got(0, 0);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.body_matches), 0);
}

TEST_EACH(deadline_that_passes_meanwhile, 2)
{
	match_models(_i);
	route_of("/o")->deadline_ns = SL_NS_PER_SEC;
	say(POST(40) "{\"a\":");
	bed_turn(1200 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert(heard("504 "));
	ck_assert_uint_eq(sl_mempool_used(&bed.core.body_matches), 0);
}

/* Without a connected backend the stream waits, as others do. */
TEST(stream_that_finds_no_backend_waits)
{
	match_models(1);
	bed.backends[0].broken = bed.backends[1].broken = -ECONNRESET;
	bed_turns(3);
	say(POST(17) "{\"model\":\"llama\"}");
	ck_got(0, 0);
	bed_connect(0, false);
	bed_turns(5);
	ck_assert_uint_eq(got(0), 1);
	look_at(&bed.backends[0]);
	ck_assert_uint_eq(sent.len, 17);
	ck_assert_uint_eq(sent.ends, 1);
	ck_nothing_is_held();
}
