/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP/1 connection: what the host is told and what the client gets, however bytes are cut. */
#include "http1_talk.h"
#include "suite.h"

struct talk {
	const char *in, *log, *out;
	bool closed;
	uint8_t answer; /* enum mock_answer, or that and STREAMS */
};
enum { STREAMS = 1 << 4 };

static const struct talk talks[] = {
	{GET("/a?b"), "GET /a?b @a end\n", OK2, 0, 0},
	{GET("/1") GET("/2") GET("/3"), "GET /1 @a end\nGET /2 @a end\nGET /3 @a end\n",
	 OK2 OK2 OK2, 0, 0},
	{"\r\n" GET("/1") "\r\n" GET("/2"), "GET /1 @a end\nGET /2 @a end\n", OK2 OK2, 0, 0},
	{POST("/p", 5) "hello", "POST /p @a cl=5\n0[5]hello end\n", OK2, 0, 0},
	{POST("/p", 5) "hello" POST("/q", 1) "x" GET("/r"),
	 "POST /p @a cl=5\n0[5]hello end\nPOST /q @a cl=1\n1[1]x end\nGET /r @a end\n", OK2 OK2 OK2,
	 0, 0},
	{POST("/p", 0) GET("/r"), "POST /p @a cl=0 end\nGET /r @a end\n", OK2 OK2, 0, 0},
	{"GET / HTTP/1.1\r\n" H "Priority: u=3\r\nContent-Type: x/y\r\na: b\r\n\r\n",
	 "GET / @a u=3 ct=x/y a:(b) end\n", OK2, 0, 0},
	/* chunked */
	{CHUNKED("/c") "5\r\nhello\r\n0\r\n\r\n" GET("/"),
	 "POST /c @a\n0[5]hello end\nGET / @a end\n", OK2 OK2, 0, 0},
	{CHUNKED("/c") "0\r\n\r\n" GET("/"), "POST /c @a\n0[0] end\nGET / @a end\n", OK2 OK2, 0, 0},
	{CHUNKED("/c") "3\r\nabc\r\n00a;x=\"y z\";q\r\n0123456789\r\n"
		       "B;a=b;c=\"\\\"\";d\r\n0123456789a\r\n000\r\nT: x\r\nu:\r\n\r\n",
	 "POST /c @a\n0[24]abc01234567890123456789a end\n", OK2, 0, 0},
	/* blanks of RFC 9110 5.6.3, and blanks that pad sizes */
	{CHUNKED("/c") "5 \t; a \t= \tb ; c\t;d=\"e\" \r\nhello\r\n0  \t\r\n\r\n" GET("/"),
	 "POST /c @a\n0[5]hello end\nGET / @a end\n", OK2 OK2, 0, 0},
	{CHUNKED("/c") "g\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") ";x\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") " 5\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5 5\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5 x\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5 \nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "-5\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0x5\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5\rhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;\001\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5 ; \r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x y\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x = \r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x=y =z\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x=\"y\" z\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x=\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x=y z\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x=\"y\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x=\"y\\\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x=\"y\"z\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;x\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5\r\nhelloX\r\n", "POST /c @a\n0[5]hello cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5\r\nhello\n0", "POST /c @a\n0[5]hello cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5\r\nhello\r0", "POST /c @a\n0[5]hello cancel\n", E400, 1, 0},
	{CHUNKED("/c") "00000000000000005\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "4000001\r\n", "POST /c @a\n0[0] cancel\n", E413, 1, 0},
	{CHUNKED("/c") "ffffffffffffffff\r\n", "POST /c @a\n0[0] cancel\n", E413, 1, 0},
	{CHUNKED("/c") "1\r\na\r\n4000000\r\n", "POST /c @a\n0[1]a cancel\n", E413, 1, 0},
	{CHUNKED("/c") "0\r\nT x\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0\r\n T: x\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0\r\nT: x\r\n y\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0\r\nT: x\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0\r\nT: \001\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0\r\n\rX", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0\r\n\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	/* trailers of a stream are passed on, others are dropped */
	{CHUNKED("/c") "5\r\nhello\r\n0\r\nT: x\r\nu:\r\n\r\n" GET("/"),
	 "POST /c @a\n0[5]hello end\nGET / @a end\n", OK2 OK2, 0, 0},
	{CHUNKED("/c") "5\r\nhello\r\n0\r\nT: x y \r\nu:\r\n\r\n" GET("/"),
	 "POST /c @a\n0 T:(x y)\n0 u:()\n0[5]hello end\nGET / @a end\n", OK2 OK2, 0, STREAMS},
	{CHUNKED("/c") "0\r\n\r\n" GET("/"), "POST /c @a\n0[0] end\nGET / @a end\n", OK2 OK2, 0,
	 STREAMS},
	{CHUNKED("/c") "0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n" GET("/"),
	 "POST /c @a\n0 Content-Length:(5)\n0 Transfer-Encoding:(x)\n0[0] end\nGET / @a end\n",
	 OK2 OK2, 0, STREAMS},
	{CHUNKED("/c") "0\r\nT x\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, STREAMS},
	{CHUNKED("/c") "0\r\n T: x\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, STREAMS},
	{CHUNKED("/c") "0\r\nT: x\r\n y\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, STREAMS},
	{CHUNKED("/c") "0\r\nT: x\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, STREAMS},
	{CHUNKED("/c") "0\r\nT: \001\r\n\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, STREAMS},
	{CHUNKED("/c") "0\r\n\rX\n", "POST /c @a\n0[0] cancel\n", E400, 1, STREAMS},
	{CHUNKED("/c") "0\r\nT: x\r\n\r\n" GET("/2"), "POST /c @a\n", OK2_CLOSE, 1,
	 MOCK_IN_BEGIN | STREAMS},
	/* errors stand behind what was asked before, and end the connection */
	{GET("/1") "BAD\001", "GET /1 @a end\n", OK2 E400, 1, 0},
	{GET("/1") GET("/2") "GET / HTTP/9.9\r\n\r\n" GET("/4"), "GET /1 @a end\nGET /2 @a end\n",
	 OK2 OK2 E505, 1, 0},
	{POST("/p", x) "GET", "", E400, 1, 0},
	{POST("/p", 67108865), "POST /p @a cl=67108865\n", OK2_CLOSE, 1, MOCK_IN_BEGIN},
	{"POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n\r\n", "", E501, 1, 0},
	{"POST / HTTP/1.1\r\n" H "Expect: y\r\n\r\n", "", E417, 1, 0},
	{"CONNECT a:1 HTTP/1.1\r\n" H "\r\n", "", E405, 1, 0},
	{"TRACE / HTTP/1.1\r\n" H "\r\n", "", E405, 1, 0},
	{"HEAD / HTTP/1.1\r\n\r\n", "", ERROR_HEAD("400 Bad Request", 16) "\r\n", 1, 0},
	/* persistence */
	{"GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n" GET("/2"), "GET / @a end\n", OK2_CLOSE,
	 1, 0},
	{"GET / HTTP/1.0\r\n\r\n" GET("/2"), "GET / @ end\n", OK2_CLOSE, 1, 0},
	{"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" GET("/2"),
	 "GET / @ end\nGET /2 @a end\n", OK2_KEEP OK2, 0, 0},
	{"POST / HTTP/1.1\r\n" H "Connection: close\r\nContent-Length: 2\r\n\r\nab" GET("/2"),
	 "POST / @a cl=2\n0[2]ab end\n", OK2_CLOSE, 1, 0},
	/* HEAD */
	{"HEAD /h HTTP/1.1\r\n" H "\r\n" GET("/2"), "HEAD /h @a end\nGET /2 @a end\n",
	 OK_LEN(2) "\r\n" OK2, 0, 0},
	/* refused in begin: what is short is skipped, what is long or of unknown length ends the
	   connection */
	{POST("/p", 5) "hello" GET("/2"), "POST /p @a cl=5\nGET /2 @a end\n", OK2 OK2, 0,
	 MOCK_IN_BEGIN},
	{CHUNKED("/p") "5\r\nhello\r\n0\r\n\r\n" GET("/2"), "POST /p @a\n", OK2_CLOSE, 1,
	 MOCK_IN_BEGIN},
	{CHUNKED("/p") "zzz", "POST /p @a\n", OK2_CLOSE, 1, MOCK_IN_BEGIN},
	{POST("/p", 65537) "hello", "POST /p @a cl=65537\n", OK2_CLOSE, 1, MOCK_IN_BEGIN},
};

/* Feeds the bytes in two pieces, cut at `cut`; the second ends where memory ends. */
static void run_talk(const struct talk *t, size_t cut, bool bytewise)
{
	size_t len = strlen(t->in);

	mock_open(m);
	m->answer = t->answer & ~STREAMS;
	m->parts = t->answer & STREAMS;
	if (bytewise) {
		for (size_t i = 0; i < len; i++)
			ck_assert_uint_eq(mock_input(m, t->in + i, 1), 1);
	} else {
		ck_assert_uint_eq(mock_input(m, t->in, cut), cut);
		ck_assert_uint_eq(mock_input(m, t->in + cut, len - cut), len - cut);
	}
	ck_text(m->log, m->log_len, t->log, "log", t->in);
	ck_text(m->out, m->out_len, t->out, "reply", t->in);
	ck_assert_uint_eq(m->closed, t->closed);
	ck_assert_int_eq(m->ops->rest(m->state), SL_FRONT_IDLE);
	ck_sound();
}

FIXTURE(setup, teardown)

TEST_EACH(each_talk_is_the_same_however_it_is_cut, sizeof(talks) / sizeof(talks[0]))
{
	const struct talk *t = &talks[_i];
	size_t len = strlen(t->in);

	for (size_t cut = 0; cut <= len; cut++)
		run_talk(t, cut, false);
	run_talk(t, 0, true);
}

TEST(replies_leave_in_the_order_of_their_requests)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1") GET("/2") GET("/3"));
	ck_assert_uint_eq(m->begun, 4);
	mock_answer(mock_find(m, 2)); /* not its turn */
	mock_answer(mock_find(m, 1));
	ck_assert_uint_eq(m->out_len, 0);
	mock_answer(mock_find(m, 0)); /* 0, then 1 and 2 are woken */
	ck_out(OK2 OK2 OK2);
	ck_assert_uint_eq(m->done, 3);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_BUSY);
	mock_answer(mock_find(m, 3));
	ck_out(OK2 OK2 OK2 OK2);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
	ck_sound();
}

TEST(a_full_pipeline_takes_no_more)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	m->limits.max_pipeline = 2;
	ck_assert_uint_eq(feed(GET("/0") GET("/1") GET("/2")), 2 * strlen(GET("/0")));
	ck_assert_uint_eq(m->begun, 2);
	ck_assert_uint_eq(feed(GET("/2")), 0);
	mock_answer(mock_find(m, 0));
	ck_assert_uint_eq(feed(GET("/2")), strlen(GET("/2")));
	ck_assert_uint_eq(m->begun, 3);
	ck_sound();
	ck_assert_uint_eq(m->cancelled, 2);
}

/* An error waits behind what is pending; then the connection closes. */
TEST(an_error_waits_for_its_turn)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1") "junk\r\n");
	ck_assert_uint_eq(m->out_len, 0);
	mock_answer(mock_find(m, 1));
	ck_assert_uint_eq(m->out_len, 0);
	mock_answer(mock_find(m, 0));
	ck_out(OK2 OK2 E400);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(feed(GET("/2")), strlen(GET("/2")));
	ck_assert_uint_eq(m->begun, 2);
	ck_sound();
}

/* A request that says so is the last one, also while its answer is awaited. */
TEST(a_request_that_closes_is_the_last_one)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed("POST / HTTP/1.1\r\n" H "Connection: close\r\nContent-Length: 2\r\n\r\nab" GET("/2"));
	feed(GET("/3"));
	ck_assert_uint_eq(m->begun, 1);
	mock_answer(mock_find(m, 0));
	ck_out(OK2_CLOSE);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_LATER;
	feed("GET / HTTP/1.0\r\n\r\n" GET("/2"));
	ck_assert_uint_eq(m->begun, 1);
	ck_sound();
}

TEST(expect_100_continue_is_answered_once)
{
	static const char head[] =
		"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";

	mock_open(m);
	feed(head);
	ck_out(CONTINUE);
	feed("ab");
	ck_out(CONTINUE OK2);
	/* bytes that follow make it pointless */
	m->out_len = 0;
	feed("POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nab");
	ck_out(OK2);
	ck_sound();
	/* it waits for its turn */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0"));
	feed(head);
	ck_assert_uint_eq(m->out_len, 0);
	mock_answer(mock_find(m, 0));
	ck_out(OK2 CONTINUE);
	ck_sound();
	/* a final answer instead: the client may send its body or not, so nothing can follow */
	mock_open(m);
	m->answer = MOCK_IN_BEGIN;
	feed(head);
	ck_out(OK2_CLOSE);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

/* The host says when, or answers without: then nothing can follow. */
TEST_EACH(expect_100_continue_may_wait_for_the_host, 3)
{
	static const char head[] =
		"POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n";

	mock_open(m);
	m->awaits = true;
	feed(head);
	ck_assert_uint_eq(m->out_len, 0);
	mock_writable(m);
	ck_assert_uint_eq(m->out_len, 0);
	if (_i == 0) {
		mock_continue(mock_find(m, 0));
		ck_out(CONTINUE);
		mock_writable(m);
		feed("ab");
		ck_out(CONTINUE OK2);
	} else if (_i == 1) { /* it did not wait: what is said then comes too late */
		feed("a");
		mock_continue(mock_find(m, 0));
		feed("b");
		ck_out(OK2);
	} else {
		mock_answer(mock_find(m, 0));
		ck_out(OK2_CLOSE);
		ck_assert_uint_eq(m->closed, 1);
	}
	ck_sound();
}

/* A 100 (Continue) of the second request waits for the first reply. */
TEST(an_early_reply_waits_for_its_turn)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	m->awaits = true;
	feed(GET("/0"));
	feed("POST / HTTP/1.1\r\n" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	mock_continue(mock_find(m, 1));
	ck_assert_uint_eq(m->out_len, 0);
	mock_answer(mock_find(m, 0));
	ck_out(OK2 CONTINUE);
	ck_sound();
}

/* A client that closes has gone, unless clients are known to read on after their end. */
TEST(a_client_that_has_gone_waits_for_nothing)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1"));
	mock_gone(m);
	ck_assert_uint_eq(m->cancelled, 2);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->out_len, 0);
	ck_sound();
	/* Replies that are ready are written, in order. */
	mock_open(m);
	m->room = 0;
	feed(GET("/0"));
	m->answer = MOCK_LATER;
	feed(GET("/1") "GET /2");
	mock_gone(m);
	ck_assert_uint_eq(m->cancelled, 1);
	ck_assert_uint_eq(m->closed, 0);
	m->room = SIZE_MAX;
	mock_writable(m);
	ck_out(OK2);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* Nothing is written that looks like the end of a reply. */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed("GET / HTTP/1.0\r\n\r\n");
	mock_head(mock_find(m, 0), &(struct sl_reply){.status = 200, .body_len = SL_LEN_UNKNOWN});
	mock_gone(m);
	ck_assert_uint_eq(m->reset, 1);
	ck_sound();
}

TEST(the_clients_end_leaves_answers_on_their_way)
{
	/* idle */
	mock_open(m);
	feed(GET("/"));
	mock_eof(m);
	ck_assert_uint_eq(m->closed, 1);
	ck_out(OK2);
	ck_sound();
	/* replies are still to come */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1"));
	mock_eof(m);
	ck_assert_uint_eq(m->closed, 0);
	mock_answer(mock_find(m, 0));
	mock_answer(mock_find(m, 1));
	ck_out(OK2 OK2_CLOSE);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* within a head */
	mock_open(m);
	feed("GET / HT");
	mock_eof(m);
	ck_out(E400);
	ck_sound();
	/* within a body */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") POST("/", 5) "ab");
	mock_eof(m);
	ck_assert_uint_eq(m->cancelled, 1);
	mock_answer(mock_find(m, 0));
	ck_out(OK2 E400);
	ck_sound();
	/* within a body that was refused */
	mock_open(m);
	m->answer = MOCK_IN_BEGIN;
	feed(POST("/", 5) "ab");
	ck_assert_uint_eq(m->done, 0);
	mock_eof(m);
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

TEST(a_drained_connection_ends_with_its_last_reply)
{
	/* idle: at once */
	mock_open(m);
	feed(GET("/"));
	mock_drain(m);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* the last reply says so */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1"));
	mock_drain(m);
	feed(GET("/2"));
	mock_answer(mock_find(m, 0));
	mock_answer(mock_find(m, 1));
	ck_out(OK2 OK2_CLOSE);
	ck_assert_uint_eq(m->begun, 2);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* within a head, within a body */
	mock_open(m);
	feed("POST / HTTP/1.1\r\n" H);
	mock_drain(m);
	feed("Content-Length: 3\r\n\r\na");
	feed("bc" GET("/2"));
	ck_out(OK2_CLOSE);
	ck_sound();
	mock_open(m);
	feed(POST("/", 3) "a");
	mock_drain(m);
	feed("bc" GET("/2"));
	ck_out(OK2_CLOSE);
	ck_assert_uint_eq(m->begun, 1);
	ck_sound();
	/* a connection that comes while the worker drains is answered */
	mock_open(m);
	m->env.draining = true;
	feed(GET("/0") GET("/1"));
	ck_out(OK2_CLOSE);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

/* 408 for what did not come in time, behind what is still to be answered. */
TEST(a_late_request_is_answered_in_its_turn)
{
	static const char e408[] =
		ERROR_HEAD("408 Request Timeout", 20) "\r\n408 Request Timeout\n";

	mock_open(m);
	feed("GET / HT");
	mock_timeout(m);
	ck_out(e408);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_TIMEOUT], 1);
	ck_sound();
	mock_open(m);
	feed(POST("/", 5) "ab");
	mock_timeout(m);
	ck_out(e408);
	ck_assert_uint_eq(m->cancelled, 1);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") "GET");
	mock_timeout(m);
	ck_assert_uint_eq(m->closed, 0);
	mock_answer(mock_find(m, 0));
	ck_assert_uint_eq(m->out_len, strlen(OK2) + strlen(e408));
	ck_sound();
	mock_open(m); /* nothing has come: nothing is said */
	mock_timeout(m);
	ck_out("");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

TEST(a_connection_that_goes_cancels_its_requests)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1") POST("/2", 5) "ab");
	ck_sound();
	ck_assert_uint_eq(m->cancelled, 3);
	ck_assert_uint_eq(m->closed, 0);
}

TEST(a_request_has_the_time_of_its_first_byte)
{
	static const char req[] = GET("/");
	struct sl_chunk a = {.ptr = (const uint8_t *)req, .len = 10, .rx_ns = 5, .take_ns = 6};
	struct sl_chunk b = {.ptr = (const uint8_t *)req + 10, .len = sizeof(req) - 11, .rx_ns = 9};

	mock_open(m);
	mock_chunk(m, &a);
	mock_chunk(m, &b);
	ck_assert_uint_eq(m->rx_ns, 5);
	ck_assert_uint_eq(m->take_ns, 6);
	b.ptr = (const uint8_t *)req;
	b.len = sizeof(req) - 1;
	mock_chunk(m, &b);
	ck_assert_uint_eq(m->rx_ns, 9);
	ck_sound();
}

TEST(a_reply_is_asked_for_when_it_is_told_of)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0"));
	feed(GET("/1"));
	ck_assert_uint_eq(m->heads_asked, 0);
	mock_answer(mock_find(m, 0));
	ck_assert_uint_eq(m->heads_asked, 2); /* and of the next one, whose turn it is then */
	ck_out(OK2);
	ck_sound();
}
