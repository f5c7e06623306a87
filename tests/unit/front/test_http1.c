/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP/1 connection: what the host is told and what the client gets, however bytes are cut. */
#include <check.h>
#include <sys/mman.h>
#include <unistd.h>
#include "mock_host.h"

static struct mock *m;

static void setup(void)
{
	m = mock_new(&sl_front_http1);
}

static void teardown(void)
{
	mock_free(m);
}

#define H             "Host: a\r\n"
#define GET(path)     "GET " path " HTTP/1.1\r\n" H "\r\n"
#define POST(path, n) "POST " path " HTTP/1.1\r\n" H "Content-Length: " #n "\r\n\r\n"
#define CHUNKED(path) "POST " path " HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
#define OK_HEAD       "HTTP/1.1 200 OK\r\nServer: sluice\r\nDate: " MOCK_DATE "\r\n"
#define OK_LEN(n)     OK_HEAD "Content-Length: " #n "\r\n"
#define OK2           OK_LEN(2) "\r\nok"
#define OK2_CLOSE     OK_LEN(2) "Connection: close\r\n\r\nok"
#define OK2_KEEP      OK_LEN(2) "Connection: keep-alive\r\n\r\nok"
#define ERROR_HEAD(status, len)                                                                    \
	"HTTP/1.1 " status "\r\nServer: sluice\r\nDate: " MOCK_DATE                                \
	"\r\nContent-Type: text/plain\r\nContent-Length: " #len "\r\nConnection: close\r\n"
#define E400 ERROR_HEAD("400 Bad Request", 16) "\r\n400 Bad Request\n"
#define E413 ERROR_HEAD("413 Content Too Large", 22) "\r\n413 Content Too Large\n"
#define E414 ERROR_HEAD("414 URI Too Long", 17) "\r\n414 URI Too Long\n"
#define E417 ERROR_HEAD("417 Expectation Failed", 23) "\r\n417 Expectation Failed\n"
#define E431                                                                                       \
	ERROR_HEAD("431 Request Header Fields Too Large", 36)                                      \
	"\r\n431 Request Header Fields Too Large\n"
#define E501 ERROR_HEAD("501 Not Implemented", 20) "\r\n501 Not Implemented\n"
#define E503                                                                                       \
	ERROR_HEAD("503 Service Unavailable", 24) "Retry-After: 1\r\n\r\n503 Service "             \
						  "Unavailable\n"
#define E505 ERROR_HEAD("505 HTTP Version Not Supported", 31) "\r\n505 HTTP Version Not Supported\n"
#define E405                                                                                       \
	ERROR_HEAD("405 Method Not Allowed", 23)                                                   \
	"allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\n\r\n405 Method Not Allowed\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static void ck_text(const char *got, size_t len, const char *want, const char *what, const char *in)
{
	ck_assert_msg(len == strlen(want) && !memcmp(got, want, len),
		      "%s of <<%s>>:\n<<%.*s>>\nwanted <<%s>>", what, in, (int)len, got, want);
}

static void ck_sound(void)
{
	const char *broken = mock_shut(m);

	ck_assert_msg(!broken, "contract: %s", broken);
}

struct talk {
	const char *in, *log, *out;
	bool closed;
	uint8_t answer; /* enum mock_answer */
};

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
	{CHUNKED("/c") "3\r\nabc\r\n00a;x=\"y z\";q\r\n0123456789\r\nB; "
		       "\t\r\n0123456789a\r\n000\r\nT: x\r\nu:\r\n\r\n",
	 "POST /c @a\n0[24]abc01234567890123456789a end\n", OK2, 0, 0},
	{CHUNKED("/c") "g\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") ";x\r\n", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") " 5\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5 \r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "-5\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "0x5\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5\rhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
	{CHUNKED("/c") "5;\001\r\nhello", "POST /c @a\n0[0] cancel\n", E400, 1, 0},
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
	/* errors stand behind what was asked before, and end the connection */
	{GET("/1") "BAD\001", "GET /1 @a end\n", OK2 E400, 1, 0},
	{GET("/1") GET("/2") "GET / HTTP/9.9\r\n\r\n" GET("/4"), "GET /1 @a end\nGET /2 @a end\n",
	 OK2 OK2 E505, 1, 0},
	{POST("/p", x) "GET", "", E400, 1, 0},
	{POST("/p", 67108865), "", E413, 1, 0},
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
	m->answer = t->answer;
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
	ck_assert_int_eq(m->ops->idle(m->state), true);
	ck_sound();
}

START_TEST(test_talk)
{
	const struct talk *t = &talks[_i];
	size_t len = strlen(t->in);

	for (size_t cut = 0; cut <= len; cut++)
		run_talk(t, cut, false);
	run_talk(t, 0, true);
}
END_TEST

static size_t feed(const char *bytes)
{
	return mock_input(m, bytes, strlen(bytes));
}

static void ck_out(const char *want)
{
	ck_text(m->out, m->out_len, want, "reply", "");
}

START_TEST(test_pipeline_order)
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
	ck_assert_uint_eq(m->resumed, 2);
	ck_assert(!m->ops->idle(m->state));
	mock_answer(mock_find(m, 3));
	ck_out(OK2 OK2 OK2 OK2);
	ck_assert(m->ops->idle(m->state));
	ck_sound();
}
END_TEST

START_TEST(test_pipeline_limit)
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
END_TEST

/* An error waits behind what is pending; then the connection closes. */
START_TEST(test_error_in_order)
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
END_TEST

START_TEST(test_continue)
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
END_TEST

/* A refusal from within `body` (the route's limit): the rest is thrown away. */
START_TEST(test_refused_in_body)
{
	mock_open(m);
	m->answer = MOCK_IN_BODY;
	feed(POST("/", 10) "hello");
	ck_out(OK2);
	ck_assert_uint_eq(m->done, 0);
	feed("world" GET("/2"));
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->begun, 2);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_IN_BODY;
	feed(POST("/", 100000) "hello");
	ck_out(OK2_CLOSE);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_IN_BODY;
	feed(CHUNKED("/") "5\r\nhello\r\nzzzz");
	ck_out(OK2_CLOSE);
	ck_assert_uint_eq(m->done, 1);
	ck_sound();
}
END_TEST

static void reply_is(unsigned status, const char *body, uint64_t len)
{
	m->reply = (struct sl_reply){
		.status = (uint16_t)status,
		.body = sl_span_cstr(body),
		.body_len = len,
	};
}

START_TEST(test_unknown_length)
{
	mock_open(m);
	reply_is(200, "0123456789", SL_LEN_UNKNOWN);
	m->in_parts = true;
	feed(GET("/"));
	ck_out(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n7\r\n0123456\r\n3\r\n789\r\n0\r\n\r\n");
	m->out_len = 0;
	reply_is(200, "", SL_LEN_UNKNOWN);
	feed(GET("/"));
	ck_out(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	m->out_len = 0;
	reply_is(200, "0123456789", SL_LEN_UNKNOWN);
	feed("HEAD / HTTP/1.1\r\n" H "\r\n");
	ck_out(OK_HEAD "\r\n");
	m->out_len = 0;
	feed("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	ck_out(OK_HEAD "Connection: close\r\n\r\n0123456789");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* all of it at once: its length is known after all */
	mock_open(m);
	reply_is(200, "0123456789", SL_LEN_UNKNOWN);
	feed(GET("/"));
	ck_out(OK_LEN(10) "\r\n0123456789");
	ck_sound();
}
END_TEST

START_TEST(test_bodyless)
{
	mock_open(m);
	reply_is(204, "no", 0);
	feed(GET("/"));
	ck_out("HTTP/1.1 204 No Content\r\nServer: sluice\r\nDate: " MOCK_DATE "\r\n\r\n");
	m->out_len = 0;
	reply_is(304, "no", 0);
	m->in_parts = true;
	feed(GET("/") GET("/"));
	ck_out("HTTP/1.1 304 Not Modified\r\nServer: sluice\r\nDate: " MOCK_DATE "\r\n\r\n"
	       "HTTP/1.1 304 Not Modified\r\nServer: sluice\r\nDate: " MOCK_DATE "\r\n\r\n");
	ck_sound();
}
END_TEST

START_TEST(test_headers_out)
{
	static const struct sl_header headers[] = {
		{SL_SPAN_LIT("x-a"), SL_SPAN_LIT("b")},
		{SL_SPAN_LIT("content-length"), SL_SPAN_LIT("99")},
		{SL_SPAN_LIT("transfer-encoding"), SL_SPAN_LIT("chunked")},
		{SL_SPAN_LIT("connection"), SL_SPAN_LIT("close")},
		{SL_SPAN_LIT("Keep-Alive"), SL_SPAN_LIT("1")},
		{SL_SPAN_LIT("upgrade"), SL_SPAN_LIT("h2c")},
		{SL_SPAN_LIT("date"), SL_SPAN_LIT("x")},
		{SL_SPAN_LIT("server"), SL_SPAN_LIT("x")},
		{SL_SPAN_LIT("te"), SL_SPAN_LIT("x")},
		{SL_SPAN_LIT("trailer"), SL_SPAN_LIT("x")},
		{SL_SPAN_LIT("proxy-connection"), SL_SPAN_LIT("x")},
		{SL_SPAN_LIT("content-type"), SL_SPAN_LIT("x")},
		{SL_SPAN_LIT("retry-after"), SL_SPAN_LIT("x")},
		{SL_SPAN_LIT("x-empty"), SL_SPAN_LIT("")},
	};

	mock_open(m);
	reply_is(418, "tea", 0);
	m->reply.content_type = sl_span_str("text/x");
	m->reply.retry_after_s = 7;
	m->reply.headers = headers;
	m->reply.header_cnt = sizeof(headers) / sizeof(headers[0]);
	feed(GET("/"));
	ck_out("HTTP/1.1 418 Unknown\r\nServer: sluice\r\nDate: " MOCK_DATE
	       "\r\nContent-Type: text/x\r\nContent-Length: 3\r\nRetry-After: 7\r\nx-a: "
	       "b\r\nx-empty: \r\n\r\ntea");
	m->out_len = 0;
	m->reply.content_type.len = 0;
	m->reply.retry_after_s = 0;
	m->reply.headers = headers + 11;
	m->reply.header_cnt = 2;
	feed(GET("/"));
	ck_out("HTTP/1.1 418 Unknown\r\nServer: sluice\r\nDate: " MOCK_DATE
	       "\r\nContent-Length: 3\r\ncontent-type: x\r\nretry-after: x\r\n\r\ntea");
	ck_sound();
}
END_TEST

/* A backend cannot write lines of its own; its reply becomes a 502, the connection goes on. */
START_TEST(test_injection)
{
	static const char e502[] =
		"HTTP/1.1 502 Bad Gateway\r\nServer: sluice\r\nDate: " MOCK_DATE
		"\r\nContent-Type: text/plain\r\nContent-Length: 16\r\n\r\n502 Bad Gateway\n";
	static const struct sl_header bad[] = {
		{SL_SPAN_LIT("x"), SL_SPAN_LIT("a\r\nSet-Cookie: b")},
		{SL_SPAN_LIT("x"), SL_SPAN_LIT("a\nb")},
		{SL_SPAN_LIT("x"), SL_SPAN_LIT("a\rb")},
		{SL_SPAN_LIT("x"), SL_SPAN_LIT("0123456789abcdef0123456789abcdef\n")},
		{SL_SPAN_LIT("x"), SL_SPAN_LIT("a\0b")},
		{SL_SPAN_LIT("x\r\ny"), SL_SPAN_LIT("a")},
		{SL_SPAN_LIT("x: y"), SL_SPAN_LIT("a")},
		{SL_SPAN_LIT(" x"), SL_SPAN_LIT("a")},
		{SL_SPAN_LIT(""), SL_SPAN_LIT("a")},
	};

	mock_open(m);
	for (unsigned parts = 0; parts < 2; parts++) {
		m->in_parts = parts;
		for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			reply_is(200, "body of the backend", 0);
			m->reply.headers = &bad[i];
			m->reply.header_cnt = 1;
			m->out_len = 0;
			feed(GET("/"));
			ck_out(e502);
		}
		reply_is(200, "x", 0);
		m->reply.content_type = sl_span_str("a\r\nb: c");
		m->out_len = 0;
		feed(GET("/"));
		ck_out(e502);
		reply_is(99, "x", 0);
		m->out_len = 0;
		feed(GET("/"));
		ck_out(e502);
		reply_is(101, "x", 0);
		m->out_len = 0;
		feed(GET("/"));
		ck_out(e502);
	}
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REPLY], 24);
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
}
END_TEST

static char big[100000];

/* A window that opens a few bytes at a time, for each framing. */
static void slow_client(const char *request, uint64_t len, bool in_parts, size_t step)
{
	static char want[MOCK_OUT];
	size_t want_len;

	memset(big, 'x', sizeof(big) - 1);
	for (size_t i = 0; i < sizeof(big) - 1; i += 10)
		big[i] = (char)('0' + i % 7);
	mock_open(m);
	reply_is(200, big, len);
	m->in_parts = in_parts;
	feed(request);
	memcpy(want, m->out, m->out_len);
	want_len = m->out_len;
	ck_sound();

	mock_open(m);
	reply_is(200, big, len);
	m->in_parts = in_parts;
	m->room = 0;
	feed(request);
	ck_assert_uint_eq(m->out_len, 0);
	for (unsigned i = 0; i < 200000 && m->done < m->begun; i++) {
		m->room = step;
		m->ops->writable(m->state, &m->env);
	}
	ck_assert_uint_eq(m->done, m->begun);
	if (len != SL_LEN_UNKNOWN || strstr(request, "1.0")) {
		ck_assert_uint_eq(m->out_len, want_len);
		ck_assert_int_eq(memcmp(m->out, want, want_len), 0);
	} else {
		ck_assert_int_eq(memcmp(m->out + m->out_len - 5, "0\r\n\r\n", 5), 0);
	}
	ck_sound();
}

START_TEST(test_slow_client)
{
	slow_client(GET("/"), 0, false, 1);
	slow_client(GET("/") GET("/"), 0, false, 100);
	slow_client(GET("/") GET("/"), 0, true, 100);
	slow_client(GET("/"), 0, false, 50000);
	slow_client(GET("/") GET("/"), SL_LEN_UNKNOWN, true, 33);
	slow_client(GET("/"), SL_LEN_UNKNOWN, true, 20000);
	slow_client("GET / HTTP/1.0\r\n\r\n", SL_LEN_UNKNOWN, true, 10);
	slow_client("HEAD / HTTP/1.1\r\n" H "\r\n", 0, true, 10);
}
END_TEST

/* A client that does not read gets no more than its window and one reply. */
START_TEST(test_unread_replies)
{
	mock_open(m);
	m->room = 10;
	m->limits.max_pipeline = 4;
	for (unsigned i = 0; i < 10; i++)
		feed(GET("/"));
	ck_out(OK2);
	ck_assert_uint_eq(m->begun, 5);
	ck_sound();
}
END_TEST

/* The host takes body bytes when it likes. */
START_TEST(test_body_space)
{
	mock_open(m);
	m->echo = true;
	m->body_max = 3;
	feed(POST("/", 10) "0123456789" GET("/2"));
	ck_text(m->log, m->log_len, "POST / @a cl=10\n0[10]0123456789 end\nGET /2 @a end\n", "log",
		"");
	ck_sound();
	mock_open(m);
	m->body_max = 0;
	ck_assert_uint_eq(feed(POST("/", 3) "abc"), strlen(POST("/", 3)));
	ck_assert_uint_eq(feed("abc"), 0);
	m->body_max = 2;
	ck_assert_uint_eq(feed("abc"), 3);
	ck_assert_uint_eq(m->done, 1);
	m->body_max = 0;
	ck_assert_uint_eq(feed(CHUNKED("/") "3\r\nabc\r\n"), strlen(CHUNKED("/")) + 3);
	m->body_max = 9;
	ck_assert_uint_eq(feed("abc\r\n0\r\n\r\n"), 10);
	ck_assert_uint_eq(m->done, 2);
	ck_sound();
}
END_TEST

/* A frame goes to the host only with its last bytes. */
START_TEST(test_frames)
{
	static const struct {
		const char *bytes;
		bool taken;
	} cases[] = {
		{POST("/", 4) "abcd", true},
		{POST("/", 9) "abcd", true},
		{POST("/", 4) "abcd\r\n", false},
		{CHUNKED("/") "4\r\nabcd", true},
		{CHUNKED("/") "9\r\nabcd", true},
		{CHUNKED("/") "4\r\nabcd\r", false},
		{CHUNKED("/") "2\r\nab\r\n2\r\ncd", true},
		{GET("/"), false},
		{"GET / HT", false},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sl_frame *f = sl_frame_get(&m->umem, SL_FRAME_HELD, 0);
		struct sl_chunk c = {.ptr = f->data, .len = strlen(cases[i].bytes), .frame = f};

		memcpy(f->data, cases[i].bytes, c.len);
		mock_open(m);
		m->take_frames = true;
		ck_assert_uint_eq(m->ops->input(m->state, &m->env, &c), c.len);
		ck_assert_msg(!c.frame == cases[i].taken, "case %u", i);
		if (c.frame)
			sl_frame_put(&m->umem, c.frame);
		ck_sound();
	}
}
END_TEST

static uint32_t frames_held(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_umem_census(&m->umem, census);
	return census[SL_FRAME_HELD];
}

/* Partial heads: nothing while idle, a frame, then one of few buffers; all given back. */
START_TEST(test_partial_memory)
{
	static char head[20000];
	size_t n = (size_t)sprintf(head, "GET / HTTP/1.1\r\n" H "a: ");

	memset(head + n, 'v', 12000);
	n += 12000;
	memcpy(head + n, "\r\n\r\n", 5);
	n += 4;
	mock_open(m);
	mock_input(m, head, 1);
	ck_assert_uint_eq(frames_held(), 1);
	ck_assert(!m->ops->idle(m->state));
	mock_input(m, head + 1, 2046);
	ck_assert_uint_eq(frames_held(), 1);
	ck_assert_uint_eq(sl_pool_used(&m->heads), 0);
	mock_input(m, head + 2047, 1000);
	ck_assert_uint_eq(frames_held(), 0);
	ck_assert_uint_eq(sl_pool_used(&m->heads), 1);
	mock_input(m, head + 3047, n - 3047);
	ck_assert_uint_eq(sl_pool_used(&m->heads), 0);
	ck_assert(m->ops->idle(m->state));
	ck_out(OK2);
	ck_assert_uint_eq(m->log_len, strlen("GET / @a a:() end\n") + 12000);
	ck_sound();
	/* the connection goes away meanwhile */
	mock_open(m);
	mock_input(m, head, 3000);
	ck_sound();
	/* no buffers at all */
	mock_open(m);
	m->env.heads = NULL;
	mock_input(m, head, 3000);
	m->env.heads = &m->heads;
	ck_out(E431);
	ck_sound();
}
END_TEST

START_TEST(test_memory_exhausted)
{
	static const char start[] = "GET / HTTP/1.1\r\n" H "a: ";
	struct sl_front_env *env = &m->env;
	uint64_t other[SL_FRONT_STATE_SIZE / 8 * 5] = {0};
	static char fill[3000];
	uint32_t low = m->umem.low_water;

	/* slowloris with long heads: the fifth finds no buffer */
	memset(fill, 'v', sizeof(fill));
	mock_open(m);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t *st = other + i * (SL_FRONT_STATE_SIZE / 8);
		struct sl_chunk c = {.ptr = (const uint8_t *)start, .len = strlen(start)};
		struct sl_chunk d = {.ptr = (const uint8_t *)fill, .len = sizeof(fill)};

		m->ops->open(st, env, m);
		ck_assert_uint_eq(m->ops->input(st, env, &c), c.len);
		ck_assert_uint_eq(m->ops->input(st, env, &d), d.len);
	}
	ck_assert_uint_eq(sl_pool_used(&m->heads), 4);
	feed(start);
	mock_input(m, fill, sizeof(fill));
	ck_out(E503);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_FRAME], 1);
	for (unsigned i = 0; i < 4; i++)
		m->ops->close(other + i * (SL_FRONT_STATE_SIZE / 8), env);
	ck_sound();
	/* frames are short */
	mock_open(m);
	m->umem.low_water = 1000;
	feed("GET / HT");
	ck_out(E503);
	ck_sound();
	mock_open(m);
	feed(GET("/")); /* whole heads need none */
	ck_out(OK2);
	m->umem.low_water = low;
	ck_sound();
	/* exchanges are exhausted */
	mock_open(m);
	m->answer = MOCK_LATER;
	m->exhausted = 2;
	feed(GET("/0") POST("/1", 3) "abc");
	mock_answer(mock_find(m, 0));
	ck_out(OK2 E503);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_EXCHANGE], 1);
	ck_sound();
}
END_TEST

static void long_head(size_t target, size_t value, size_t piece, const char *want)
{
	static char head[70000];
	size_t n = (size_t)sprintf(head, "GET /"), i;

	memset(head + n, 'a', target);
	n += target;
	n += (size_t)sprintf(head + n, " HTTP/1.1\r\n" H "aaa: ");
	memset(head + n, 'v', value);
	n += value;
	n += (size_t)sprintf(head + n, "\r\n\r\n");
	mock_open(m);
	for (i = 0; i < n; i += piece)
		mock_input(m, head + i, piece < n - i ? piece : n - i);
	ck_out(want);
	ck_sound();
}

START_TEST(test_limits)
{
	static const size_t pieces[] = {1, 7, 1400, 2048, 5000, 70000};
	size_t target = m->limits.max_target - strlen("GET / HTTP/1.1");
	size_t value = m->limits.max_head - strlen("GET / HTTP/1.1\r\n" H "aaa: \r\n\r\n");

	for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		long_head(target, 0, pieces[i], OK2);
		long_head(target + 1, 0, pieces[i], E414);
		long_head(60000, 0, pieces[i], E414);
		long_head(0, value, pieces[i], OK2);
		long_head(0, value + 1, pieces[i], E431);
		long_head(0, 60000, pieces[i], E431);
	}
}
END_TEST

START_TEST(test_chunk_limits)
{
	static char ext[9000];

	/* extensions */
	memset(ext, 'x', sizeof(ext) - 1);
	mock_open(m);
	feed(CHUNKED("/") "1;");
	feed(ext);
	ck_out(E400);
	ck_sound();
	mock_open(m);
	feed(CHUNKED("/"));
	for (unsigned i = 0; i < 400 && !m->closed; i++)
		feed("1;xxxxxxxxxxxxxxxxxxx\r\na\r\n");
	ck_out(E400);
	ck_sound();
	/* trailers */
	mock_open(m);
	feed(CHUNKED("/") "0\r\n");
	for (unsigned i = 0; i < 4 && !m->closed; i++) {
		feed("t:");
		feed(ext);
		feed("\r\n");
	}
	ck_out(E431);
	ck_sound();
}
END_TEST

START_TEST(test_eof)
{
	/* idle */
	mock_open(m);
	feed(GET("/"));
	m->ops->eof(m->state, &m->env);
	ck_assert_uint_eq(m->closed, 1);
	ck_out(OK2);
	ck_sound();
	/* with answers to come */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1"));
	m->ops->eof(m->state, &m->env);
	ck_assert_uint_eq(m->closed, 0);
	mock_answer(mock_find(m, 0));
	mock_answer(mock_find(m, 1));
	ck_out(OK2 OK2_CLOSE);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* within a head */
	mock_open(m);
	feed("GET / HT");
	m->ops->eof(m->state, &m->env);
	ck_out(E400);
	ck_sound();
	/* within a body */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") POST("/", 5) "ab");
	m->ops->eof(m->state, &m->env);
	ck_assert_uint_eq(m->cancelled, 1);
	mock_answer(mock_find(m, 0));
	ck_out(OK2 E400);
	ck_sound();
	/* within a body that was refused */
	mock_open(m);
	m->answer = MOCK_IN_BEGIN;
	feed(POST("/", 5) "ab");
	ck_assert_uint_eq(m->done, 0);
	m->ops->eof(m->state, &m->env);
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}
END_TEST

START_TEST(test_drain)
{
	/* idle: at once */
	mock_open(m);
	feed(GET("/"));
	m->ops->drain(m->state, &m->env);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* the last reply says so */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1"));
	m->ops->drain(m->state, &m->env);
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
	m->ops->drain(m->state, &m->env);
	feed("Content-Length: 3\r\n\r\na");
	feed("bc" GET("/2"));
	ck_out(OK2_CLOSE);
	ck_sound();
	mock_open(m);
	feed(POST("/", 3) "a");
	m->ops->drain(m->state, &m->env);
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
END_TEST

static void start_reply(const char *request, uint64_t len)
{
	struct sl_reply r = {.status = 200, .body_len = len, .body = sl_span_str("abc")};
	struct mock_stream *s;

	mock_open(m);
	m->answer = MOCK_LATER;
	feed(request);
	s = mock_find(m, 0);
	ck_assert_int_eq(m->ops->reply(m->state, &m->env, &s->st, &r), 3);
	s->answered = true;
}

START_TEST(test_abort)
{
	struct mock_stream *s;

	/* begun: the client must notice, streams behind it are cancelled */
	start_reply(GET("/0") GET("/1"), 10);
	m->ops->abort(m->state, &m->env, &mock_find(m, 0)->st);
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->cancelled, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->reset, 0);
	ck_sound();
	start_reply(GET("/0"), SL_LEN_UNKNOWN);
	m->ops->abort(m->state, &m->env, &mock_find(m, 0)->st);
	ck_out(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	start_reply("GET / HTTP/1.0\r\n\r\n", SL_LEN_UNKNOWN);
	m->ops->abort(m->state, &m->env, &mock_find(m, 0)->st);
	ck_assert_uint_eq(m->reset, 1);
	ck_sound();
	/* ended short of its length */
	start_reply(GET("/0"), 10);
	s = mock_find(m, 0);
	m->ops->more(m->state, &m->env, &s->st, sl_span_str("def"), true);
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* more than its length: the rest would be taken for another reply */
	start_reply(GET("/0"), 5);
	s = mock_find(m, 0);
	ck_assert_uint_eq(m->ops->more(m->state, &m->env, &s->st, sl_span_str("defghi"), true), 6);
	ck_out(OK_LEN(5) "\r\nabcde");
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
	/* not begun: 502, in its turn, and the connection goes on */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1"));
	m->ops->abort(m->state, &m->env, &mock_find(m, 1)->st);
	ck_assert_uint_eq(m->done, 0);
	mock_answer(mock_find(m, 0));
	ck_assert_uint_eq(m->done, 2);
	ck_assert_ptr_nonnull(strstr(m->out, "HTTP/1.1 502 Bad Gateway\r\n"));
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
	/* a protocol error of the client after the reply has begun */
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(CHUNKED("/") "1\r\na\r\n");
	s = mock_find(m, 0);
	m->ops->reply(m->state, &m->env, &s->st,
		      &(struct sl_reply){.status = 200, .body_len = 9, .body = sl_span_str("abc")});
	s->answered = true;
	feed("x");
	ck_assert_uint_eq(m->cancelled, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_out(OK_LEN(9) "Connection: close\r\n\r\nabc");
	ck_sound();
}
END_TEST

START_TEST(test_close_cancels)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1") POST("/2", 5) "ab");
	ck_sound();
	ck_assert_uint_eq(m->cancelled, 3);
	ck_assert_uint_eq(m->closed, 0);
}
END_TEST

START_TEST(test_stamps)
{
	static const char req[] = GET("/");
	struct sl_chunk a = {.ptr = (const uint8_t *)req, .len = 10, .rx_ns = 5, .take_ns = 6};
	struct sl_chunk b = {.ptr = (const uint8_t *)req + 10, .len = sizeof(req) - 11, .rx_ns = 9};

	mock_open(m);
	m->ops->input(m->state, &m->env, &a);
	m->ops->input(m->state, &m->env, &b);
	ck_assert_uint_eq(m->rx_ns, 5);
	ck_assert_uint_eq(m->take_ns, 6);
	b.ptr = (const uint8_t *)req;
	b.len = sizeof(req) - 1;
	m->ops->input(m->state, &m->env, &b);
	ck_assert_uint_eq(m->rx_ns, 9);
	ck_sound();
}
END_TEST

START_TEST(test_names)
{
	ck_assert_int_eq(sl_method_parse(sl_span_str("PATCH")), SL_METHOD_PATCH);
	ck_assert_int_eq(sl_method_parse(sl_span_str("PATCHX")), SL_METHOD_OTHER);
	ck_assert_int_eq(sl_method_parse(sl_span_str("")), SL_METHOD_OTHER);
	for (int i = 1; i < SL_METHOD_CNT; i++)
		ck_assert_int_eq(sl_method_parse(sl_span_cstr(sl_method_name(i))), i);
	ck_assert_str_eq(sl_method_name(SL_METHOD_OTHER), "");
	ck_assert(sl_method_idempotent(SL_METHOD_PUT) && !sl_method_idempotent(SL_METHOD_POST));
	ck_assert(!sl_method_idempotent(SL_METHOD_OTHER) && !sl_method_idempotent(SL_METHOD_PATCH));
	ck_assert_str_eq(sl_status_text(404), "Not Found");
	ck_assert_str_eq(sl_status_text(599), "Unknown");
	ck_assert_str_eq(sl_status_text(70000), "Unknown");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http1");
	TCase *t = tcase_create("connection");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, test_talk, 0, sizeof(talks) / sizeof(talks[0]));
	tcase_add_test(t, test_pipeline_order);
	tcase_add_test(t, test_pipeline_limit);
	tcase_add_test(t, test_error_in_order);
	tcase_add_test(t, test_continue);
	tcase_add_test(t, test_refused_in_body);
	tcase_add_test(t, test_unknown_length);
	tcase_add_test(t, test_bodyless);
	tcase_add_test(t, test_headers_out);
	tcase_add_test(t, test_injection);
	tcase_add_test(t, test_slow_client);
	tcase_add_test(t, test_unread_replies);
	tcase_add_test(t, test_body_space);
	tcase_add_test(t, test_frames);
	tcase_add_test(t, test_partial_memory);
	tcase_add_test(t, test_memory_exhausted);
	tcase_add_test(t, test_limits);
	tcase_add_test(t, test_chunk_limits);
	tcase_add_test(t, test_eof);
	tcase_add_test(t, test_drain);
	tcase_add_test(t, test_abort);
	tcase_add_test(t, test_close_cancels);
	tcase_add_test(t, test_stamps);
	tcase_add_test(t, test_names);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
