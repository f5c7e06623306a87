/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 replies: framing, fields, slow clients, replies that break off. */
#include "front/http1/http1.h"
#include "http1_talk.h"
#include "suite.h"

FIXTURE(setup, teardown)

/* A refusal from within `body` (the route's limit): the rest is thrown away. */
TEST(the_rest_of_a_refused_body_is_thrown_away)
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

/* As many fields as a backend may send, and of all bytes that its metadata may have. */
TEST(the_largest_head_goes_out_whole)
{
	static struct sl_header fields[SL_RPC_MAX_FIELDS];
	static uint8_t bytes[SL_RPC_MAX_META];
	size_t each = SL_RPC_MAX_META / SL_RPC_MAX_FIELDS - 9; /* "name", and what is around it */

	memset(bytes, 'v', each);
	for (size_t i = 0; i < SL_RPC_MAX_FIELDS; i++)
		fields[i] = (struct sl_header){sl_span_str("name"), sl_span_of(bytes, each)};
	mock_open(m);
	m->reply.headers = fields;
	m->reply.header_cnt = SL_RPC_MAX_FIELDS;
	feed(GET("/"));
	ck_assert_uint_gt(m->out_len, SL_RPC_MAX_FIELDS * (each + 8));
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REPLY], 0);
	ck_assert_mem_eq(m->out + m->out_len - 6, "\r\n\r\nok", 6);
	ck_sound();
}

static const struct sl_header hints[] = {
	{SL_SPAN_LIT("link"), SL_SPAN_LIT("</a>")},
	{SL_SPAN_LIT("content-length"), SL_SPAN_LIT("7")},
	{SL_SPAN_LIT("connection"), SL_SPAN_LIT("close")},
};
#define HINTS "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"

/* Before its reply, in its turn, and without what is the gateway's to say. */
TEST(interim_replies_go_out_at_once)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/1") GET("/2"));
	mock_interim(&m->streams[1], 103, hints, 3); /* not its turn */
	ck_out("");
	mock_interim(&m->streams[0], 103, hints, 3);
	mock_interim(&m->streams[0], 199, NULL, 0);
	ck_out(HINTS "HTTP/1.1 199 Unknown\r\n\r\n");
	m->out_len = 0;
	mock_answer(&m->streams[0]);
	mock_interim(&m->streams[1], 103, hints, 3);
	mock_answer(&m->streams[1]);
	ck_out(OK2 HINTS OK2);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_LATER;
	feed("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
	mock_interim(&m->streams[0], 103, hints, 3);
	mock_answer(&m->streams[0]);
	ck_out(OK2_KEEP);
	ck_sound();
}

/* Fields with line ends make no head; a client that does not read delays nothing. */
TEST(interim_replies_that_cannot_go_out_are_dropped)
{
	static const struct sl_header bad = {SL_SPAN_LIT("link"), SL_SPAN_LIT("a\r\nb: c")};

	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/"));
	mock_interim(&m->streams[0], 103, &bad, 1);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REPLY], 1);
	m->heads_fail = 1;
	mock_interim(&m->streams[0], 103, hints, 1);
	mock_answer(&m->streams[0]);
	ck_out(OK2);
	ck_sound();
}

/*
 * Body bytes are discarded while a reply waits or leaves slowly, up to a limit that ends the
 * connection.
 */
TEST(discarded_body_bytes_have_a_limit)
{
	static const struct {
		const char *head;
		size_t room;
		enum mock_answer answer;
	} cases[] = {
		{POST("/", 1000000), 0, MOCK_IN_BODY},
		{POST("/", 1000000), 1, MOCK_IN_BODY},
		{CHUNKED("/") "f4240\r\n", 0, MOCK_IN_BODY},
		{CHUNKED("/") "f4240\r\n", 1, MOCK_IN_BODY},
		{"GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n", 0, MOCK_LATER},
	};
	static const uint8_t bytes[1000];
	static char body[8192];

	memset(body, 'x', sizeof(body) - 1);
	for (unsigned i = 0; i < SL_ARRAY_LEN(cases); i++) {
		mock_open(m);
		reply_is(200, body, 0);
		m->limits.max_discard = 10000;
		m->answer = cases[i].answer;
		feed(cases[i].head);
		m->room = cases[i].room;
		if (m->answer == MOCK_IN_BODY) /* this byte belongs to the body */
			mock_input(m, bytes, 1);
		ck_assert_uint_eq(!m->out_len, !cases[i].room);
		for (unsigned k = 0; k < 10; k++)
			ck_assert_uint_eq(mock_input(m, bytes, sizeof(bytes)), sizeof(bytes));
		ck_assert_uint_eq(m->closed, 0);
		ck_assert_uint_eq(mock_input(m, bytes, 1), 1);
		ck_assert_uint_eq(m->reset, 1);
		ck_assert_uint_eq(m->cancelled, 1);
		ck_assert_uint_eq(m->errors[SL_FRONT_ERR_DISCARDED], 1);
		m->room = SIZE_MAX;
		ck_sound();
	}
}

/* Bytes behind a skipped body do not count for it: the next body has the whole limit. */
TEST(each_reply_has_its_own_limit)
{
	static const uint8_t bytes[6000];

	mock_open(m);
	m->limits.max_discard = 10000;
	m->answer = MOCK_IN_BEGIN;
	for (unsigned i = 0; i < 3; i++) {
		feed(POST("/", 6000));
		mock_input(m, bytes, sizeof(bytes));
		ck_assert_uint_eq(m->done, i + 1);
	}
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
}

TEST(a_reply_of_unknown_length_is_chunked)
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

/* RFC 9110 8.6: none is better than one that is not that of GET. */
TEST(a_reply_to_head_without_a_length_gets_none)
{
	mock_open(m);
	reply_is(200, "", SL_LEN_UNKNOWN);
	feed("HEAD / HTTP/1.1\r\n" H "\r\n");
	ck_out(OK_HEAD "\r\n");
	ck_sound();
}

/* A reason with line ends, or with other invalid bytes, fails the head. */
TEST(a_reason_goes_on_unless_it_breaks_out_of_its_line)
{
	mock_open(m);
	reply_is(200, "", SL_LEN_UNKNOWN);
	m->reply.reason = sl_span_str("All right");
	feed(GET("/"));
	ck_out("HTTP/1.1 200 All right\r\nServer: sluice\r\nDate: " MOCK_DATE
	       "\r\nContent-Length: 0\r\n\r\n");
	m->out_len = 0;
	m->reply.reason = sl_span_str("A\r\nx: y");
	feed(GET("/"));
	ck_assert_ptr_null(strstr((char *)m->out, "x: y"));
	ck_assert_mem_eq(m->out, "HTTP/1.1 502 ", 13);
}

/* RFC 9110 6.5.1: only if the client accepts trailers, and the framing allows them. */
TEST(trailers_are_for_clients_that_accept_them)
{
	static const char get[] = "GET / HTTP/1.1\r\n" H "TE: gzip, trailers\r\n\r\n";
	static const struct sl_header fields[] = {
		{SL_SPAN_LIT("x-sum"), SL_SPAN_LIT("7")},
		{SL_SPAN_LIT("content-length"), SL_SPAN_LIT("99")},
	};
	static const struct sl_header bad = {SL_SPAN_LIT("x"), SL_SPAN_LIT("a\nb")};

	for (unsigned parts = 0; parts < 2; parts++) {
		mock_open(m);
		reply_is(200, "0123456789", parts ? SL_LEN_UNKNOWN : 0);
		m->reply.trailers = fields;
		m->reply.trailer_cnt = 2;
		m->in_parts = parts;
		feed(get);
		ck_out(parts ? OK_HEAD
			       "Transfer-Encoding: chunked\r\n\r\n7\r\n0123456\r\n3\r\n789\r\n"
			       "0\r\nx-sum: 7\r\n\r\n"
			     : OK_HEAD "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n"
				       "0\r\nx-sum: 7\r\n\r\n");
		m->out_len = 0;
		feed(GET("/"));
		ck_out(parts ? OK_HEAD
			       "Transfer-Encoding: chunked\r\n\r\n7\r\n0123456\r\n3\r\n789\r\n0\r\n\r\n"
			     : OK_LEN(10) "\r\n0123456789");
		m->out_len = 0;
		feed("GET / HTTP/1.0\r\nTE: trailers\r\n\r\n");
		ck_out(parts ? OK_HEAD "Connection: close\r\n\r\n0123456789"
			     : OK_LEN(10) "Connection: close\r\n\r\n0123456789");
		ck_sound();
	}
	/* One that breaks out of its line ends the connection, not the reply. */
	mock_open(m);
	reply_is(200, "0123456789", SL_LEN_UNKNOWN);
	m->reply.trailers = &bad;
	m->reply.trailer_cnt = 1;
	m->in_parts = true;
	feed(get);
	ck_out(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n7\r\n0123456\r\n3\r\n789\r\n");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* They wait for room as the rest does. */
	mock_open(m);
	reply_is(200, "0123456789", SL_LEN_UNKNOWN);
	m->reply.trailers = fields;
	m->reply.trailer_cnt = 1;
	m->in_parts = true;
	m->heads_fail = 3;
	feed(get);
	for (unsigned i = 0; i < 5; i++)
		mock_writable(m);
	ck_out(OK_HEAD
	       "Transfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\nx-sum: 7\r\n\r\n");
	ck_sound();
}

TEST(some_statuses_have_no_body)
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

TEST(fields_of_one_connection_are_the_gateways_own)
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

/* A backend cannot write lines of its own; its reply becomes a 502, the connection goes on. */
TEST(a_backend_cannot_write_lines_of_its_own)
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

static char big[100000];

/* Takes the chunked coding off the reply in m->out; returns the length of its body. */
static size_t dechunk(char *body)
{
	struct sl_http1_chunked c = {0};
	char *head_end = memmem(m->out, m->out_len, "\r\n\r\n", 4);
	struct sl_span in;
	size_t n, len = 0;
	unsigned status = 0;

	ck_assert_ptr_nonnull(head_end);
	in = sl_span_of(head_end + 4, (size_t)(m->out + m->out_len - head_end - 4));
	while (c.state != SL_CHUNKED_DONE) {
		n = sl_http1_chunked_next(&c, in, &m->limits, &status);
		ck_assert_uint_eq(status, 0);
		in = sl_span_skip(in, n);
		ck_assert(in.len || c.state == SL_CHUNKED_DONE);
		n = c.state == SL_CHUNKED_DATA ? (size_t)c.left : 0;
		ck_assert_uint_le(n, in.len);
		memcpy(body + len, in.ptr, n);
		len += n;
		c.left -= n;
		in = sl_span_skip(in, n);
	}
	ck_assert_uint_eq(in.len, 0);
	return len;
}

/* A window that opens `step` bytes at a time: the same bytes as through one that is open. */
static void slow_client(const char *request, uint64_t len, size_t part, size_t step)
{
	static char want[MOCK_OUT], got[MOCK_OUT];
	size_t want_len;

	memset(big, 'x', sizeof(big) - 1);
	for (size_t i = 0; i < sizeof(big) - 1; i += 10)
		big[i] = (char)('0' + i % 7);
	mock_open(m);
	reply_is(200, big, len);
	m->in_parts = part;
	m->part_max = part;
	feed(request);
	memcpy(want, m->out, m->out_len);
	want_len = m->out_len;
	ck_sound();

	mock_open(m);
	reply_is(200, big, len);
	m->in_parts = part;
	m->part_max = part;
	m->peek_max = part ? part : SIZE_MAX;
	m->room = 0;
	feed(request);
	ck_assert_uint_eq(m->out_len, 0);
	for (unsigned i = 0; i < 200000 && m->done < m->begun; i++) {
		m->room = step;
		m->heads_fail = i % 5 == 1;
		mock_writable(m);
	}
	ck_assert_uint_eq(m->done, m->begun);
	if (len != SL_LEN_UNKNOWN || strstr(request, "1.0")) {
		ck_assert_uint_eq(m->out_len, want_len);
		ck_assert_int_eq(memcmp(m->out, want, want_len), 0);
	} else {
		ck_assert_uint_eq(dechunk(got), sizeof(big) - 1);
		ck_assert_int_eq(memcmp(got, big, sizeof(big) - 1), 0);
	}
	ck_sound();
}

TEST(a_slow_client_gets_each_byte_once)
{
	slow_client(GET("/"), 0, 0, 1);
	slow_client(GET("/") GET("/"), 0, 0, 100);
	slow_client(GET("/") GET("/"), 0, 7, 100);
	slow_client(GET("/"), 0, 0, 50000);
	slow_client(GET("/"), SL_LEN_UNKNOWN, 7, 33);
	slow_client(GET("/"), SL_LEN_UNKNOWN, 7, 20000);
	slow_client(GET("/"), SL_LEN_UNKNOWN, 40000, 20000);
	slow_client(GET("/"), SL_LEN_UNKNOWN, sizeof(big) / 2, 100);
	slow_client("GET / HTTP/1.0\r\n\r\n", SL_LEN_UNKNOWN, 7, 10);
	slow_client("HEAD / HTTP/1.1\r\n" H "\r\n", 0, 7, 10);
}

/* No frame for the last chunk: the reply is not over before it is written. */
TEST(a_reply_is_not_over_before_its_last_chunk)
{
	struct sl_reply head = {.status = 200, .body_len = SL_LEN_UNKNOWN};
	struct mock_stream *s;

	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/"));
	s = mock_find(m, 0);
	mock_head(s, &head);
	m->heads_fail = 2;
	mock_end(s, NULL);
	ck_assert_uint_eq(m->done, 0);
	mock_writable(m);
	ck_assert_uint_eq(m->done, 0);
	mock_writable(m);
	ck_assert_uint_eq(m->done, 1);
	ck_out(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
	ck_sound();
}

/* A client that does not read gets no more than its window and one reply. */
TEST(a_client_that_does_not_read_has_one_reply_beyond_the_window)
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

/* Three bytes of a reply of `len`. */
static struct mock_stream *start_reply(const char *request, uint64_t len)
{
	struct sl_reply r = {.status = 200, .body_len = len};
	struct mock_stream *s;

	mock_open(m);
	m->answer = MOCK_LATER;
	feed(request);
	s = mock_find(m, 0);
	mock_head(s, &r);
	mock_bytes(s, sl_span_str("abc"));
	ck_assert_uint_eq(s->taken, 3);
	return s;
}

/* Begun: the client must notice, and streams behind it are cancelled. */
TEST(a_reply_that_breaks_off_closes_its_connection)
{
	mock_break(start_reply(GET("/0") GET("/1"), 10), SL_OUTCOME_BACKEND_LOST);
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->cancelled, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->reset, 0);
	ck_sound();
	mock_break(start_reply(GET("/0"), SL_LEN_UNKNOWN), SL_OUTCOME_BACKEND_LOST);
	ck_out(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* an orderly end would be the end of this one */
	mock_break(start_reply("GET / HTTP/1.0\r\n\r\n", SL_LEN_UNKNOWN), SL_OUTCOME_BACKEND_LOST);
	ck_assert_uint_eq(m->reset, 1);
	ck_sound();
}

TEST(a_reply_of_the_wrong_length_closes_its_connection)
{
	struct mock_stream *s = start_reply(GET("/0"), 10);

	/* ended short of its length */
	mock_bytes(s, sl_span_str("def"));
	mock_end(s, NULL);
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	/* more than its length: the rest would be taken for another reply */
	s = start_reply(GET("/0"), 5);
	mock_bytes(s, sl_span_str("defghi"));
	mock_end(s, NULL);
	ck_out(OK_LEN(5) "\r\nabcde");
	ck_assert_uint_eq(m->done, 1);
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
}

/* Not begun: the gateway's own reply, in its turn, and the connection goes on. */
TEST(a_reply_that_fails_before_its_turn_is_another)
{
	struct sl_reply r = {.status = 200, .body_len = 10};

	mock_open(m);
	m->answer = MOCK_LATER;
	feed(GET("/0") GET("/1"));
	mock_head(mock_find(m, 1), &r); /* not its turn */
	mock_break(mock_find(m, 1), SL_OUTCOME_BACKEND_LOST);
	ck_assert_uint_eq(m->done, 0);
	mock_answer(mock_find(m, 0));
	ck_assert_uint_eq(m->done, 2);
	ck_out(OK2 "HTTP/1.1 502 Bad Gateway\r\nServer: sluice\r\nDate: " MOCK_DATE
		   "\r\nContent-Type: text/plain\r\nContent-Length: 17\r\n\r\nbackend went away");
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
}

/* A protocol error of the client after the reply has begun. */
TEST(a_clients_error_cuts_the_reply_that_has_begun)
{
	struct sl_reply r = {.status = 200, .body_len = 9};
	struct mock_stream *s;

	mock_open(m);
	m->answer = MOCK_LATER;
	feed(CHUNKED("/") "1\r\na\r\n");
	s = mock_find(m, 0);
	mock_head(s, &r);
	mock_bytes(s, sl_span_str("abc"));
	feed("x");
	ck_assert_uint_eq(m->cancelled, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_out(OK_LEN(9) "Connection: close\r\n\r\nabc");
	ck_sound();
}

TEST(a_small_reply_is_looked_at_once)
{
	mock_open(m);
	feed(GET("/"));
	ck_out(OK2);
	ck_assert_uint_eq(m->peeks, 1);
	reply_is(200, "", 0);
	m->out_len = 0;
	feed(GET("/"));
	ck_out(OK_LEN(0) "\r\n");
	ck_assert_uint_eq(m->peeks, 2);
	ck_sound();
}
