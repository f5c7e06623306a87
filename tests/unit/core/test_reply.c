/* SPDX-License-Identifier: Apache-2.0 */
/* Replies on their way through a whole core: lent, kept, in turn, broken off; and requests that are
 * still open meanwhile. */
#include "core_talk.h"
#include "core/client.h"
#include "tcp/internal.h"
#include "suite.h"

FIXTURE(set_up, tear_down)

/* A reply before its turn is kept, head and body, and leaves in order. */
TEST(replies_leave_in_their_turn)
{
	static const uint8_t meta[] = {SL_META_STATUS, 0, 2, 0, 201, 0, 0, 0};

	say(GET("/o/1") GET("/o/2") GET("/o/3"));
	ck_assert_uint_eq(other()->id_cnt, 3);
	reply_with(id_of("/3"), 0, sl_span_of(meta, 6), "third");
	reply(id_of("/2"), 0, "second");
	ck_assert_uint_eq(bed.clients[0].heard_len, 0);
	reply(id_of("/1"), 0, "first");
	ck_assert(heard("\r\n\r\nfirstHTTP/1.1 200 OK\r\n"));
	ck_assert(heard("\r\n\r\nsecondHTTP/1.1 201 Created\r\n"));
	ck_assert(heard("\r\n\r\nthird"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 3);
}

/* The keys of the route come before those of its pool. */
TEST_EACH(heads_beyond_a_limit_are_refused, 6)
{
	static const struct {
		unsigned fields, len, pool_fields, pool_head, route_fields, route_head;
		const char *status;
	} cases[] = {
		{200, 10, 256, 65528, 0, 0, "200 "},    {200, 10, 199, 65528, 0, 0, "502 "},
		{200, 10, 199, 65528, 200, 0, "200 "},  {3, 1000, 256, 2048, 0, 0, "502 "},
		{3, 1000, 256, 65528, 0, 2048, "502 "}, {200, 10, 256, 65528, 199, 0, "502 "},
	};
	static uint8_t meta[8192];
	char want[32];
	size_t n = 0;

	for (unsigned i = 0; i < cases[_i].fields; i++) {
		sl_put_le16(meta + n, SL_META_HEADER);
		sl_put_le16(meta + n + 2, (uint16_t)(2 + cases[_i].len));
		meta[n + 4] = 1;
		memset(meta + n + 5, 'x', 1 + cases[_i].len);
		n += 6 + cases[_i].len;
	}
	bed.cfg->pools[1].max_reply_fields = cases[_i].pool_fields;
	bed.cfg->pools[1].max_reply_head = cases[_i].pool_head;
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].max_reply_fields = cases[_i].route_fields;
		bed.cfg->routes[i].max_reply_head = cases[_i].route_head;
	}
	say(GET("/o"));
	reply_with(other()->ids[0], 0, sl_span_of(meta, n), "body");
	snprintf(want, sizeof(want), "HTTP/1.1 %s", cases[_i].status);
	ck_assert(heard(want));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_BACKEND_ERROR), cases[_i].status[0] == '5');
}

/* The route of this path is ambiguous: no backend sees the request. */
TEST(a_path_with_dot_segments_is_refused)
{
	say(GET("/o/../e"));
	ck_assert(heard("HTTP/1.1 400 Bad Request\r\n"));
	ck_assert_uint_eq(other()->id_cnt, 0);
}

TEST(fixed_reply_is_the_route_s)
{
	say(GET("/z"));
	ck_assert(heard("HTTP/1.1 410 Gone\r\n"));
	ck_assert(heard("Content-Length: 12\r\n"));
	ck_assert(heard("\r\n\r\nit was here\n"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_FIXED), 1);
}

TEST(urgency_means_nothing_where_no_route_says_so)
{
	other()->class = 255;
	say("GET /o/1 HTTP/1.1\r\nHost: a\r\nPriority: u=0\r\n\r\n");
	ck_assert_uint_eq(other()->class, SL_CLASS_NORMAL);
	reply(id_of("/1"), 0, "");
}

/* Its time runs from its first byte, however long the reply in front of it takes. */
TEST(a_pipelined_head_has_its_time_behind_a_reply_that_waits)
{
	static const char text[] = GET("/o/1") "GET /o/2 HTTP/1.1\r\nHost: x\r\nX-Slow: ";
	static const char ends[] = "\r\n\r\nfirstHTTP/1.1 408 ";
	const struct bed_client *slow = &bed.clients[1];

	bed.cfg->limits.header_timeout_ns = SL_NS_PER_SEC;
	bed_open(1);
	bed_say(1, text, sizeof(text) - 1);
	for (int i = 0; i < 8; i++) {
		bed_turn(SL_NS_PER_SEC / 4);
		bed_say(1, "y", 1);
	}
	ck_assert_uint_eq(bed.core.stats.clients_timed_out, 1);
	ck_assert_uint_eq(slow->heard_len, 0);
	reply(id_of("/1"), 0, "first");
	ck_assert_ptr_nonnull(memmem(slow->heard, slow->heard_len, ends, sizeof(ends) - 1));
}

/* How urgent the client says it is (RFC 9218, 3 unless it says), where the route lets it. */
TEST_EACH(urgency_is_the_class_of_a_request, 9)
{
	static const uint8_t classes[] = {SL_CLASS_LATENCY, SL_CLASS_LATENCY, SL_CLASS_NORMAL,
					  SL_CLASS_NORMAL,  SL_CLASS_NORMAL,  SL_CLASS_NORMAL,
					  SL_CLASS_BULK,    SL_CLASS_BULK,    SL_CLASS_NORMAL};
	char text[100], priority[30] = "";

	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++)
		bed.cfg->routes[i].priority = -1;
	if (_i < 8)
		snprintf(priority, sizeof(priority), "Priority: u=%d\r\n", _i);
	snprintf(text, sizeof(text), "GET /o/1 HTTP/1.1\r\nHost: a\r\n%s\r\n", priority);
	other()->class = 255;
	say(text);
	ck_assert_uint_eq(other()->class, classes[_i]);
	reply(other()->ids[0], 0, "");
}

/* Part by part, as it comes; each byte once. */
TEST(parts_leave_as_they_come)
{
	say(GET("/o"));
	reply(other()->ids[0], SL_ENTRY_MORE, "one");
	ck_assert(heard("Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n"));
	reply(other()->ids[0], SL_ENTRY_MORE, "and two");
	ck_assert(heard("3\r\none\r\n7\r\nand two\r\n"));
	reply(other()->ids[0], 0, "");
	ck_assert(heard("and two\r\n0\r\n\r\n"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* The body of a chunked reply, in place; returns its length. */
static size_t dechunk(uint8_t *p, size_t len)
{
	uint8_t *at = memmem(p, len, "\r\n\r\n", 4), *to = p;
	size_t n;

	ck_assert_ptr_nonnull(at);
	for (at += 4; (n = strtoul((char *)at, (char **)&at, 16)); at += n + 2) {
		ck_assert_uint_le((size_t)(at - p) + n + 4, len);
		ck_assert_mem_eq(at, "\r\n", 2);
		at += 2;
		memmove(to, at, n);
		to += n;
	}
	ck_assert_uint_eq((size_t)(at - p) + 4, len); /* "\r\n\r\n" behind the last size */
	return (size_t)(to - p);
}

/* More in a burst than the send buffer takes: what is left of it is kept, whatever was taken. */
TEST(more_than_fits_is_kept)
{
	static const uint8_t meta[] = {SL_META_CONTENT_TYPE, 0, 4, 0, 't', '/', 'x', 'y'};
	enum { PARTS = 16, PART = 4000 };
	static char part[PARTS][PART + 1];
	struct bed_client *cl = &bed.clients[0];

	say(GET("/o"));
	for (unsigned i = 0; i < PARTS; i++) {
		uint8_t body[4096] = {0};
		struct sl_rpc_entry e = {.id = other()->ids[0],
					 .len = PART,
					 .meta_len = i ? 0 : sizeof(meta),
					 .flags = i + 1 < PARTS ? SL_ENTRY_MORE : 0};
		size_t at = sizeof(e) + e.meta_len;
		struct sl_rpc_header h = bed_header(SL_RPC_RESPONSE, 1, 1, (uint32_t)(at + PART));

		for (unsigned k = 0; k < PART; k++)
			part[i][k] = (char)('a' + (i * 7 + k) % 26);
		memcpy(body, &e, sizeof(e));
		memcpy(body + sizeof(e), meta, e.meta_len);
		memcpy(body + at, part[i], PART);
		ck_assert(bed_message(other(), &h, body));
	}
	bed.core.tcp->cfg.snd_buf = 10000;
	bed_turn(1000);
	ck_assert_uint_lt(cl->heard_len, 20000);
	bed_turns(100);
	ck_assert(heard("Content-Type: t/xy\r\n"));
	ck_assert_uint_eq(dechunk(cl->heard, cl->heard_len), PARTS * PART);
	for (unsigned i = 0; i < PARTS; i++)
		ck_assert_mem_eq(cl->heard + (size_t)i * PART, part[i], PART);
}

static bool was_taken(const char *bytes, size_t len)
{
	return memmem(other()->taken, other()->taken_len, bytes, len);
}

/* In order, with repeated fields, and with the client's address. */
TEST(backend_may_see_all_of_a_head)
{
	struct sl_cfg_route *r = (struct sl_cfg_route *)(uintptr_t)&bed.core.cfg->routes[1];

	ck_assert_str_eq(r->prefix, "/o");
	say("GET /o HTTP/1.1\r\nHost: a.b:80\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\n\r\n");
	ck_assert(!was_taken("x-a1", 4));
	reply(other()->ids[0], 0, "");
	r->forward_all = true;
	say("GET /o HTTP/1.1\r\nHost: a.b:80\r\nX-A: 1\r\nX-B: 2\r\nX-A: 3\r\n\r\n");
	ck_assert(was_taken("\x0b\0\x06\0a.b:80", 10));
	ck_assert(was_taken("\x03x-a1\x05\0\x05\0\x03x-b2\x05\0\x05\0\x03x-a3", 23));
	reply(other()->ids[1], 0, "");
}

/* A block that is none: no client sees it, and the connection goes on. */
TEST(malformed_reply_becomes_the_gateways_own)
{
	static const uint8_t bad[] = {SL_META_STATUS, 0, 200, 0, 1, 0, 0, 0};

	say(GET("/o"));
	reply_with(other()->ids[0], 0, sl_span_of(bad, 6), "body");
	ck_assert(heard("HTTP/1.1 502 Bad Gateway\r\n") && heard("\r\n\r\nbackend error"));
	ck_assert(!heard("body"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_BACKEND_ERROR), 1);
	say(GET("/o"));
	reply(other()->ids[1], 0, "fine");
	ck_assert(heard("\r\n\r\nfine"));
}

/* A reply in parts that says how long it is needs no chunks; of a HEAD's only the length is told. */
TEST(reply_in_parts_may_state_its_length)
{
	static const uint8_t seven[16] = {SL_META_LENGTH, 0, 8, 0, 7};

	say(GET("/o"));
	reply_with(other()->ids[0], SL_ENTRY_MORE, sl_span_of(seven, 12), "abc");
	ck_assert(heard("Content-Length: 7\r\n") && heard("\r\n\r\nabc"));
	ck_assert(!heard("chunked"));
	reply(other()->ids[0], 0, "defg");
	ck_assert(heard("\r\n\r\nabcdefg"));
	say("HEAD /o HTTP/1.1\r\nHost: a\r\n\r\n");
	bed.clients[0].heard_len = 0;
	reply_with(other()->ids[1], 0, sl_span_of(seven, 12), "");
	ck_assert(heard("HTTP/1.1 200 OK\r\n") && heard("Content-Length: 7\r\n"));
	say(GET("/o"));
	reply(other()->ids[2], 0, "fine");
	ck_assert(heard("\r\n\r\nfine"));
}

/* RFC 9110 8.6: what a GET would get is not known. One with bytes says how long they are. */
TEST(reply_to_head_gets_no_length_that_no_backend_has_said)
{
	say("HEAD /o HTTP/1.1\r\nHost: a\r\n\r\n");
	reply(other()->ids[0], 0, "");
	ck_assert(heard("HTTP/1.1 200 OK\r\n") && !heard("Content-Length"));
	say("HEAD /o HTTP/1.1\r\nHost: a\r\n\r\n");
	reply(other()->ids[1], 0, "abc");
	ck_assert(heard("Content-Length: 3\r\n\r\n") && !heard("abc"));
	say(GET("/o"));
	reply(other()->ids[2], 0, "");
	ck_assert(heard("Content-Length: 0\r\n"));
}

/* HTTP/1.1 has a place for the reason; Server and Date stand there once. */
TEST(reply_keeps_reason_server_and_date)
{
	static const uint8_t block[] = "\x06\0\2\0\x94\1" /* 404 */
				       "\x0f\0\4\0Lost"
				       "\5\0\x0c\0\6servernginx"
				       "\5\0\x08\0\4datenow";

	say(GET("/o"));
	reply_with(other()->ids[0], 0, sl_span_of(block, sizeof(block) - 1), "");
	ck_assert(heard(
		"HTTP/1.1 404 Lost\r\nContent-Length: 0\r\nserver: nginx\r\ndate: now\r\n\r\n"));
	ck_assert(!heard("sluice") && !heard("Date"));
}

/* Short of it the client must not take it for whole; a whole one has the length that it has. */
TEST(reply_that_ends_short_of_its_length_is_broken_off)
{
	static const uint8_t seven[16] = {SL_META_LENGTH, 0, 8, 0, 7};

	say(GET("/o"));
	reply_with(other()->ids[0], 0, sl_span_of(seven, 12), "whole");
	ck_assert(heard("Content-Length: 5\r\n") && heard("\r\n\r\nwhole"));
	say(GET("/o"));
	reply_with(other()->ids[1], SL_ENTRY_MORE, sl_span_of(seven, 12), "abc");
	reply(other()->ids[1], 0, "d");
	ck_assert(heard("\r\n\r\nabcd"));
	say(GET("/o")); /* the connection has ended */
	ck_assert_uint_eq(other()->id_cnt, 2);
}

/* The same when it has waited for its turn first. */
TEST(malformed_reply_in_its_turn)
{
	static const uint8_t bad[] = {SL_META_CONTENT_TYPE, 0, 2, 0, 'a', '\n', 0, 0};

	say(GET("/o/1") GET("/o/2"));
	reply_with(id_of("/2"), 0, sl_span_of(bad, 6), "body");
	reply(id_of("/1"), 0, "first");
	ck_assert(heard("\r\n\r\nfirstHTTP/1.1 502 Bad Gateway\r\n"));
	ck_assert(!heard("body"));
}

/* A reply that has begun cannot be withdrawn: the client sees that it is incomplete. */
TEST(reply_that_breaks_off_has_no_end)
{
	say(GET("/o"));
	reply(other()->ids[0], SL_ENTRY_MORE, "one");
	other()->broken = -ENOTCONN;
	bed_turns(5);
	ck_assert(heard("3\r\none\r\n"));
	ck_assert(!heard("0\r\n\r\n") && !heard("502"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_BACKEND_LOST), 1);
}

/* Over HTTP/2 the stream is reset; it counts as what it is, not as a client that went. */
TEST(reply_that_breaks_off_resets_its_stream)
{
	static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
				    "\0\0\0\4\0\0\0\0\0"
				    "\0\0\x09\1\5\0\0\0\1" /* HEADERS: GET /o, authority a */
				    "\x82\x86\4\2/o\x41\1"
				    "a";

	bed_say(0, hello, sizeof(hello) - 1);
	bed_turns(3);
	ck_assert_uint_eq(other()->id_cnt, 1);
	reply(other()->ids[0], SL_ENTRY_MORE, "one");
	ck_assert(heard("one"));
	other()->broken = -ENOTCONN;
	bed_turns(5);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_BACKEND_LOST), 1);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_CLIENT_GONE), 0);
}

/* Before that, it is only lost: the client gets an answer. */
TEST(reply_that_waits_and_breaks_off_is_another)
{
	say(GET("/e"));
	say(GET("/o"));
	reply(other()->ids[0], SL_ENTRY_MORE, "waits");
	other()->broken = -ENOTCONN;
	bed_turns(5);
	for (unsigned i = 0; i < 2; i++) {
		if (bed.backends[i].id_cnt)
			ck_assert(bed_reply(&bed.backends[i], bed.backends[i].ids[0], SL_RPC_OK, 0,
					    "first"));
	}
	bed_turns(5);
	ck_assert(heard("\r\n\r\nfirstHTTP/1.1 502 Bad Gateway\r\n") && !heard("waits"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_BACKEND_LOST), 1);
}

/* However many there are, they need no rounds: each is pulled when the one before is out. */
TEST(own_replies_keep_their_order)
{
	static char text[100 * 64];
	size_t len = 0;

	for (unsigned i = 0; i < 100; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, GET("/none"));
	bed_say(0, text, len);
	bed_turns(5);
	ck_assert_uint_eq(count("HTTP/1.1 404 Not Found\r\n"), 100);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_NO_ROUTE), 100);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
}

/* No frame is left for what the front cannot take yet: the reply is given up, nothing else. */
TEST(reply_without_a_frame_fails_alone)
{
	uint32_t low = bed.umem.low_water;

	say(GET("/o/1") GET("/o/2"));
	bed.umem.low_water = BED_FRAMES + 1;
	reply(id_of("/2"), 0, "second");
	bed.umem.low_water = low;
	reply(id_of("/1"), 0, "first");
	ck_assert(heard("\r\n\r\nfirstHTTP/1.1 503 Service Unavailable\r\n"));
	ck_assert(heard("Retry-After: 1\r\n") && heard("\r\n\r\nout of buffers"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_NO_MEMORY), 1);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
}

/* --- open requests --- */

/* Both ways at the same time: parts go and come while the client still sends. */
TEST(open_request_goes_on_in_parts)
{
	stream();
	say(POST(10) "abc");
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_sent("abc", 0);
	ck_assert_uint_eq(sent.opened, 1);
	say("defg");
	ck_sent("abcdefg", 0);
	reply(other()->ids[0], SL_ENTRY_MORE, "early");
	ck_assert(heard("5\r\nearly\r\n"));
	say("hij");
	ck_sent("abcdefghij", 1);
	reply(other()->ids[0], 0, "late");
	ck_assert(heard("4\r\nlate\r\n0\r\n\r\n"));
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
	say(GET("/o"));
	ck_assert_uint_eq(other()->id_cnt, 2);
	reply(other()->ids[1], 0, "next");
	ck_assert(heard("next"));
}

static void grant(uint32_t bytes)
{
	const struct sl_rpc_window w = {.id = other()->ids[0], .bytes = bytes};
	struct sl_rpc_header h = bed_header(SL_RPC_WINDOW, 1, 1, sizeof(w));

	ck_assert(bed_message(other(), &h, (const uint8_t *)&w));
	bed_turns(3);
}

/* Beyond the credit nothing is sent, beyond as much again nothing is read; then it goes on. */
TEST(open_request_waits_for_credit)
{
	static char bytes[1000];
	uint32_t rule_values = 0, got;

	stream();
	memset(bytes, 'x', sizeof(bytes));
	say("POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n");
	for (; rule_values < 200000; rule_values += sizeof(bytes))
		bed_say(0, bytes, sizeof(bytes));
	bed_turns(5);
	got = (uint32_t)other()->taken_len;
	ck_assert_uint_gt(got, SL_RPC_PART_WINDOW);
	ck_assert_uint_lt(got, SL_RPC_PART_WINDOW * 2); /* entries included */
	bed_turns(20);
	ck_assert_uint_eq(other()->taken_len, got);
	ck_assert_uint_eq(bed.core.stats.outcomes[SL_OUTCOME_NO_MEMORY], 0);
	grant(10000);
	ck_assert_uint_ge(other()->taken_len, got + 10000);
	ck_assert_uint_lt(other()->taken_len, got + 15000);
}

/* More credit than there can be is a lie. */
TEST(open_request_is_given_too_much_credit)
{
	stream();
	say(POST(10) "abc");
	grant(UINT32_MAX);
	ck_assert_int_eq(sl_backend_ref_state(bed.core.wcfg->pools[1].backends[0]),
			 SL_BACKEND_DOWN);
	ck_assert(heard("502 Bad Gateway") || heard("503 Service Unavailable"));
}

/* The answer before the end: the rest of the request goes nowhere, the connection goes on. */
TEST(open_request_that_is_answered)
{
	stream();
	say(POST(6) "abc");
	reply(other()->ids[0], 0, "enough");
	ck_assert(heard("\r\n\r\nenough"));
	say("def" GET("/none"));
	ck_sent("abc", 0);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_OK), 1);
	ck_assert(heard("404 Not Found"));
}

/* ... and takes no frame. */
TEST(open_request_that_is_answered_keeps_nothing)
{
	static char more[1300];
	uint32_t before;

	stream();
	say(POST(2000) "abc");
	reply(other()->ids[0], 0, "enough");
	before = bed.umem.free_cnt;
	bed_say(0, more, sizeof(more));
	bed_turns(3);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 1);
	ck_assert_uint_eq(bed.umem.free_cnt, before);
}

/* As long as all that was sent of it is here: the backend has given no credit. */
TEST(open_request_that_is_refused_goes_elsewhere)
{
	stream();
	bed_say(0, "POST /e HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc", 51);
	bed_turns(3);
	for (unsigned i = 0; i < 2; i++) {
		if (bed.backends[i].id_cnt)
			ck_assert(bed_reply(&bed.backends[i], bed.backends[i].ids[0],
					    SL_RPC_REFUSED, 0, ""));
	}
	bed_turns(5);
	ck_assert_uint_eq(bed.backends[0].id_cnt, 1);
	ck_assert_uint_eq(bed.backends[1].id_cnt, 1);
	ck_assert(!heard("HTTP"));
	ck_assert_uint_eq(bed.core.stats.retried, 1);
}

/* Its client goes away, or sends too much: its backend hears of it. */
TEST_EACH(open_request_that_ends_early_is_cancelled, 2)
{
	stream();
	if (_i) {
		bed.cfg->routes[0].max_body = bed.cfg->routes[1].max_body = 8;
		say("POST /o HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
		say("6\r\ndefghi\r\n");
		ck_assert(heard("413 Content Too Large"));
	} else {
		say(POST(10) "abc");
		bed_segment(0, BED_RST | BED_ACK, NULL, 0);
	}
	bed_turns(3);
	ck_assert_uint_eq(other()->id_cnt, 1);
	ck_assert_uint_eq(other()->cancels, 1);
	ck_assert_uint_eq(sl_mempool_used(&bed.core.exchanges), 0);
}

/* The limit of kept bytes does not bound what is passed on as it comes. */
TEST_EACH(max_body_limits_only_kept_bodies, 2)
{
	char head[128];

	if (_i)
		stream();
	snprintf(head, sizeof(head),
		 "POST /o HTTP/1.1\r\nHost: x\r\nContent-Length: %llu\r\n\r\nabc",
		 (unsigned long long)bed.cfg->limits.max_body + 1);
	say(head);
	bed_turns(3);
	ck_assert_int_eq(heard("413 Content Too Large"), !_i);
	ck_assert_uint_eq(other()->id_cnt, (unsigned)_i);
	if (_i)
		ck_sent("abc", 0);
}

/* Trailers come with the end of the body, if the route wants them and they are allowed there. */
TEST(open_request_has_trailers)
{
	static const char *wanted[] = {"x-sum", "host"};

	stream();
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].forward_headers = wanted;
		bed.cfg->routes[i].forward_header_cnt = 2;
	}
	say("POST /o HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	ck_sent("abc", 0);
	say("0\r\nX-Sum: 1");
	ck_sent("abc", 0);
	say("7\r\nHost: y\r\nother: z\r\n\r\n");
	ck_sent("abc", 1);
	ck_assert_ptr_nonnull(memmem(other()->taken, other()->taken_len, "\x05x-sum17", 8));
	ck_assert_ptr_null(memmem(other()->taken, other()->taken_len, "hosty", 5));
	ck_assert_ptr_null(memmem(other()->taken, other()->taken_len, "other", 5));
	reply(other()->ids[0], 0, "ok");
	ck_assert(heard("ok"));
}

/* --- time of streams --- */

static void limit(uint64_t idle_ns, uint64_t max_ns)
{
	stream();
	for (uint32_t i = 0; i < bed.cfg->route_cnt; i++) {
		bed.cfg->routes[i].idle_ns = idle_ns;
		bed.cfg->routes[i].max_duration_ns = max_ns;
	}
}

TEST(idle_stream_ends)
{
	limit(SL_NS_PER_SEC, 0);
	say(POST(10) "abc");
	bed_turn(900 * SL_NS_PER_MS);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_STREAM_IDLE), 0);
	for (unsigned i = 0; i < 3; i++)
		bed_turn(200 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert_uint_eq(other()->cancels, 1);
	ck_assert(heard("504 Gateway Timeout"));
	say("defghij"); /* goes nowhere, but the connection goes on */
	ck_assert_uint_eq(outcomes(SL_OUTCOME_STREAM_IDLE), 1);
	ck_assert_uint_eq(bed.core.stats.streams, 0);
}

/* Returns the count of a stage's histogram in tenths of a second, over both pools. */
static uint64_t tenths_of(enum sl_stage stage, uint64_t cnt)
{
	const struct sl_svc_hist *a = &bed.hist[stage], *b = &bed.hist[SL_STAGE_CNT + stage];

	ck_assert_uint_eq(a->count + b->count, cnt);
	return (a->sum_ns + b->sum_ns) / (SL_NS_PER_SEC / 10);
}

/* A part in either direction is a sign of life; one that goes on has an end all the same. */
TEST(stream_that_is_alive_has_its_time)
{
	limit(SL_NS_PER_SEC, 5 * SL_NS_PER_SEC);
	say(POST(10) "a");
	ck_assert_uint_eq(bed.core.stats.streams, 1);
	for (unsigned i = 0; i < 3; i++) {
		bed_turn(800 * SL_NS_PER_MS);
		say("b");
		bed_turn(800 * SL_NS_PER_MS);
		reply(other()->ids[0], SL_ENTRY_MORE, "c");
	}
	ck_assert_uint_eq(outcomes(SL_OUTCOME_STREAM_IDLE), 0);
	ck_assert_uint_eq(bed.core.stats.stream_parts_in, 4);
	ck_assert_uint_eq(bed.core.stats.stream_parts_out, 3);
	ck_assert_uint_eq(bed.core.stats.stream_bytes_out, 3);
	ck_assert_uint_eq(tenths_of(SL_STAGE_FIRST, 1), 16);
	ck_assert_uint_eq(tenths_of(SL_STAGE_GAP, 2), 32);
	bed_turn(300 * SL_NS_PER_MS);
	bed_turns(3);
	ck_assert_uint_eq(outcomes(SL_OUTCOME_EXPIRED), 1);
	ck_assert_uint_eq(other()->cancels, 1);
}

/* Each head takes a frame; an address at its limit gets no more, and continues with those. */
TEST(heads_in_pieces_count_for_their_address)
{
	enum { FRAMES = 3 };

	const struct sl_addr_quota *a = sl_client_quota(sl_client_next(&bed.core, NULL));

	bed.core.quotas.limits[SL_QUOTA_FRAMES] = FRAMES;
	for (unsigned i = 0; i <= FRAMES; i++) {
		if (i)
			bed_open(i);
		bed_say(i, "GET /o HT", 9);
		bed_turns(2);
		ck_assert_uint_eq(a->cnt[SL_QUOTA_FRAMES], i < FRAMES ? i + 1 : FRAMES);
	}
	ck_assert_uint_gt(bed.clients[FRAMES].heard_len, 12);
	ck_assert_mem_eq(bed.clients[FRAMES].heard, "HTTP/1.1 503", 12);
	ck_assert_uint_eq(bed.core.stats.address_limits[SL_QUOTA_FRAMES], 1);
	say("TP/1.1\r\nHost: x\r\n\r\n");
	ck_assert_uint_eq(other()->id_cnt, 1);
	reply(other()->ids[0], 0, "");
	ck_assert(heard("HTTP/1.1 200 OK"));
	ck_assert_uint_eq(a->cnt[SL_QUOTA_FRAMES], FRAMES - 1);
}
