/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 8441: other protocols over HTTP/2, by an extended CONNECT. */
#include "h2_talk.h"
#include "suite.h"

/* :method CONNECT, :scheme http, :path /, :authority a */
#define CONNECT   "0207434f4e4e454354 8684 410161 "
#define PROTOCOL  "00093a70726f746f636f6c 09776562736f636b6574 "
#define WEBSOCKET CONNECT PROTOCOL

static void set_up(void)
{
	setup_h2();
	m->limits.upgrades = m->upgrades = true;
}

static void ck_frames(const char *want)
{
	char got[4096];

	summarize((uint8_t *)m->out, m->out_len, got, sizeof(got));
	ck_assert_str_eq(got, want);
	m->out_len = 0;
}

/* Whether the gateway's SETTINGS, its first frame, have this one: identifier 8, value 1. */
static bool offers(void)
{
	static const uint8_t setting[] = {0, 8, 0, 0, 0, 1};
	size_t len = sl_get_be24((uint8_t *)m->out);

	for (size_t at = 9; at < 9 + len; at += 6) {
		if (!memcmp(m->out + at, setting, sizeof(setting)))
			return true;
	}
	return false;
}

static struct mock_stream *asks(void)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 4 1 " WEBSOCKET);
	ck_assert(offers());
	ck_assert_str_eq(m->log, "GET / @a must-upgrade=websocket\n");
	m->out_len = 0;
	return &m->streams[0];
}

static bool said(const char *text)
{
	return memmem(m->out, m->out_len, text, strlen(text));
}

FIXTURE(set_up, teardown_h2)

TEST(bytes_go_both_ways_after_101)
{
	struct sl_header accept = {sl_span_str("sec-websocket-accept"), sl_span_str("key")};
	struct mock_stream *s = asks();

	talk("-DATA 0 1 6162");
	mock_head(s, &(struct sl_reply){.status = 101,
					.body_len = SL_LEN_UNKNOWN,
					.headers = &accept,
					.header_cnt = 1,
					.upgrade = sl_span_str("websocket")});
	ck_assert_uint_eq(m->out_len > 10 ? (uint8_t)m->out[9] : 0, 0x88); /* :status 200 */
	ck_assert(!said("content-length"));
	ck_frames("HEADERS 1");
	mock_bytes(s, sl_span_str("there"));
	ck_frames("DATA 1 5");
	talk("-DATA 0 1 6364; DATA 1 1 65");
	ck_assert_uint_eq(s->body_len, 5);
	ck_assert(s->whole);
	mock_end(s, NULL);
	ck_frames("DATA 1 0 end");
	ck_assert_uint_eq(m->done, 1);
	ck_sound();
}

/* A success says yes: an ordinary one of the backend's must not be taken for that. */
TEST_EACH(answer_that_is_no_101, 2)
{
	struct mock_stream *s = asks();

	m->reply = (struct sl_reply){.status = _i ? 403 : 200, .body_len = 2};
	m->reply_body = sl_span_str("no");
	mock_answer(s);
	ck_assert_uint_gt(m->out_len, 10);
	ck_assert_uint_ne((uint8_t)m->out[9], 0x88); /* :status 200 */
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REPLY], !_i);
	talk("-" EARLY_SEEN);
	ck_sound();
}

/* It goes on as ended on the client's side, and its backend ends the other. */
TEST(drain_ends_it)
{
	struct mock_stream *s = asks();

	mock_head(s, &(struct sl_reply){.status = 101,
					.body_len = SL_LEN_UNKNOWN,
					.upgrade = sl_span_str("websocket")});
	mock_drain(m);
	ck_assert(s->whole);
	talk("-DATA 0 1 6364");
	ck_assert_uint_eq(s->body_len, 0);
	m->out_len = 0;
	mock_end(s, NULL);
	ck_frames("DATA 1 0 end");
	talk("-" EARLY_SEEN);
	ck_sound();
}

static const struct {
	const char *frames, *log, *answer;
} cases[] = {
	/* a tunnel, which is not offered */
	{"HEADERS 4 1 0207434f4e4e454354 410161", "", "HEADERS 1; DATA 1 23 end"},
	/* ended with its head */
	{"HEADERS 5 1 " WEBSOCKET, "", "HEADERS 1; DATA 1 23 end"},
	/* no CONNECT: malformed */
	{"HEADERS 5 1 8286 84 410161 " PROTOCOL, "", "HEADERS 1; DATA 1 43 end; RST 1 1"},
	/* no path */
	{"HEADERS 4 1 0207434f4e4e454354 86 410161 " PROTOCOL, "", "HEADERS 1; DATA 1 42 end"},
	/* as many bytes as it announces, no more */
	{"HEADERS 4 1 " WEBSOCKET " @cl5; DATA 0 1 6*61",
	 "GET / @a must-upgrade=websocket\n0[0] cancel\n", "RST 1 1"},
};

TEST_EACH(malformed_upgrades, sizeof(cases) / sizeof(cases[0]))
{
	mock_open(m);
	talk(cases[_i].frames);
	ck_assert_str_eq(m->log, cases[_i].log);
	ck_frames(cases[_i].answer);
	talk("-" EARLY_SEEN);
	ck_sound();
}

/* Where no route has any, the connection knows of no such thing. */
TEST(not_offered)
{
	m->limits.upgrades = false;
	mock_open(m);
	talk("HEADERS 4 1 " WEBSOCKET);
	ck_assert(!offers());
	ck_frames("HEADERS 1; DATA 1 39 end");
	talk("-" EARLY_SEEN);
	ck_frames("RST 1 1");
	ck_assert_uint_eq(m->begun, 0);
	ck_sound();
}
