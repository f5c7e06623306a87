/* SPDX-License-Identifier: Apache-2.0 */
/* Upgrade over HTTP/1.1: conditions, bytes before and after the answer, and the end. */
#include "http1_talk.h"
#include "suite.h"

#define ASKS(fields) "GET /w HTTP/1.1\r\n" H fields "\r\n"
#define UPGRADE      ASKS("Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n")
#define SWITCHES                                                                                   \
	"HTTP/1.1 101 Switching Protocols\r\nServer: sluice\r\nDate: " MOCK_DATE                   \
	"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

static void setup_upgrade(void)
{
	setup();
	mock_open(m);
	m->answer = MOCK_LATER;
	m->upgrades = true;
}

static struct mock_stream *asks(const char *behind)
{
	feed(UPGRADE);
	if (*behind)
		feed(behind);
	ck_assert_uint_eq(m->begun, 1);
	ck_assert(m->streams[0].live);
	return &m->streams[0];
}

static struct mock_stream *switches(const char *behind)
{
	struct mock_stream *s = asks(behind);

	mock_head(s, &(struct sl_reply){.status = 101,
					.body_len = SL_LEN_UNKNOWN,
					.upgrade = sl_span_str("websocket")});
	ck_out(SWITCHES);
	m->out_len = 0;
	return s;
}

static void ck_asked(const char *log)
{
	ck_text(m->log, m->log_len, log, "log", "");
}

FIXTURE(setup_upgrade, teardown)

TEST(bytes_go_both_ways_as_they_are)
{
	struct mock_stream *s = switches("");

	feed(GET("/smuggled") "\r\n\r\n");
	mock_bytes(s, sl_span_str("HTTP/1.1 200 OK\r\n\r\n"));
	ck_out("HTTP/1.1 200 OK\r\n\r\n");
	feed("more");
	ck_assert_uint_eq(m->begun, 1);
	ck_assert_uint_eq(s->body_len, strlen(GET("/smuggled") "\r\n\r\nmore"));
	mock_end(s, NULL);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->reset, 0);
	ck_assert_uint_eq(m->done, 1);
	ck_sound();
}

/* However the bytes are cut, also those in front of the answer are its. */
TEST(bytes_before_the_answer_are_no_request)
{
	struct mock_stream *s = switches(GET("/early"));

	ck_assert_uint_eq(s->body_len, strlen(GET("/early")));
	ck_assert_uint_eq(m->begun, 1);
	mock_end(s, NULL);
	ck_sound();
}

/* Nor after a refusal: another client of a proxy may have written it. */
TEST(bytes_before_a_refusal_are_no_request)
{
	struct mock_stream *s = asks(GET("/early"));

	reply_is(403, "no", 2);
	mock_answer(s);
	feed(GET("/late"));
	ck_assert_uint_eq(m->begun, 1);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_ptr_nonnull(strstr(m->out, "403 Forbidden"));
	ck_assert_ptr_nonnull(strstr(m->out, "Connection: close"));
	ck_sound();
}

TEST(client_that_ends_its_side_still_hears_the_other)
{
	struct mock_stream *s = switches("");

	feed("last");
	mock_eof(m);
	ck_assert(s->whole);
	mock_bytes(s, sl_span_str("bye"));
	ck_out("bye");
	ck_assert_uint_eq(m->closed, 0);
	mock_end(s, NULL);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->reset, 0);
	ck_sound();
}

TEST(client_that_ends_its_side_before_the_answer)
{
	struct mock_stream *s = asks("early");

	mock_eof(m);
	ck_assert(s->whole);
	reply_is(200, "no", 2);
	mock_answer(s);
	ck_assert_ptr_nonnull(strstr(m->out, "200 OK"));
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

/* An end in order would be believed. */
TEST(an_upgrade_that_breaks_off_is_reset)
{
	struct mock_stream *s = switches("");

	mock_break(s, SL_OUTCOME_BACKEND_LOST);
	ck_assert_uint_eq(m->reset, 1);
	ck_sound();
}

/* A drain is told to the backend as the end of what comes; it ends its side in order. */
TEST(drain_ends_it)
{
	struct mock_stream *s = switches("");

	mock_drain(m);
	ck_assert(s->whole);
	ck_assert_uint_eq(m->closed, 0);
	feed("too late");
	ck_assert_uint_eq(s->body_len, 0);
	mock_bytes(s, sl_span_str("going away"));
	mock_end(s, NULL);
	ck_out("going away");
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->reset, 0);
	ck_sound();
}

static const struct {
	const char *in, *log;
} cases[] = {
	{UPGRADE, "GET /w @a upgrade=websocket\n"},
	{ASKS("upgrade: a , b/1\r\nCONNECTION:upgrade\r\n"), "GET /w @a upgrade=a , b/1\n"},
	{ASKS("Upgrade: a\r\nUpgrade: b\r\nConnection: upgrade\r\n"), "GET /w @a upgrade=a\n"},
	/* ignored, as by a server that knows no such thing */
	{ASKS("Upgrade: a\r\n"), "GET /w @a end\n"},
	{ASKS("Connection: upgrade\r\n"), "GET /w @a end\n"},
	{ASKS("Upgrade: \r\nConnection: upgrade\r\n"), "GET /w @a end\n"},
	{ASKS("Upgrade: a\r\nConnection: upgraded\r\n"), "GET /w @a end\n"},
	{ASKS("Upgrade: a\r\nConnection: upgrade\r\nContent-Length: 2\r\n") "ab",
	 "GET /w @a cl=2\n0[2]ab end\n"},
	{ASKS("Upgrade: a\r\nConnection: upgrade\r\nTransfer-Encoding: chunked\r\n") "0\r\n\r\n",
	 "GET /w @a\n0[0] end\n"},
	{"POST /w HTTP/1.1\r\n" H "Upgrade: a\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n",
	 "POST /w @a cl=0 end\n"},
	{"GET /w HTTP/1.0\r\n" H "Upgrade: a\r\nConnection: upgrade, keep-alive\r\n\r\n",
	 "GET /w @a end\n"},
};

TEST_EACH(conditions_of_an_upgrade, sizeof(cases) / sizeof(cases[0]))
{
	feed(cases[_i].in);
	ck_asked(cases[_i].log);
	ck_sound();
}
