/* SPDX-License-Identifier: Apache-2.0 */
/* Datagrams as a front: one in, one whole reply out. */

#include "front/datagram/datagram.h"
#include "mock_host.h"
#include "suite.h"

static struct mock *m;
static struct sl_datagrams *d;
static uint8_t out[4096];
static size_t out_len, room;
static unsigned out_cnt, drops[SL_DROP_CNT];
static char way[4];

static void send_one(void *conn, const void *to, struct sl_span head, struct sl_span payload)
{
	ck_assert_ptr_eq(conn, m);
	memcpy(way, to, sizeof(way));
	memcpy(out, head.ptr, head.len);
	if (payload.len)
		memcpy(out + head.len, payload.ptr, payload.len);
	out_len = head.len + payload.len;
	out_cnt++;
}

static size_t room_now(void *conn, const void *to)
{
	(void)conn;
	(void)to;
	return room;
}

static void drop(void *conn, enum sl_drop why)
{
	(void)conn;
	drops[why]++;
}

static const struct sl_datagram_cb ops = {.send = send_one, .room = room_now, .drop = drop};

static void set_up(void)
{
	static const uint8_t key[16] = {1};

	m = mock_new(&sl_front_datagram);
	d = sl_datagrams_create(&ops, 8, key);
	m->env.datagram = d;
	m->now_ns = 1;
	room = 1472;
	out_len = out_cnt = 0;
	memset(drops, 0, sizeof(drops));
	mock_open(m);
	m->answer = MOCK_LATER;
}

static void tear_down(void)
{
	const char *broken = mock_shut(m);

	ck_assert_msg(!broken, "%s", broken);
	sl_datagrams_destroy(d);
	mock_free(m);
}

/* A request of so many bytes in all, from a peer whose way back is `from`. */
static void ask(uint64_t id, const char *from, const char *payload, size_t len)
{
	static uint8_t bytes[2048];
	struct sl_datagram_source src = {.peer = {.family = 4, .addr = {(uint8_t)from[0]}}};
	struct sl_chunk chunk = {.ptr = bytes, .len = len};
	struct sl_datagram_request rq = {
		.magic = SL_DATAGRAM_MAGIC,
		.version = SL_DATAGRAM_VERSION_1,
		.type = SL_DATAGRAM_REQUEST,
		.service = 7,
		.id = id,
		.payload_len = (uint16_t)strlen(payload),
	};

	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, &rq, sizeof(rq));
	memcpy(bytes + sizeof(rq), payload, strlen(payload));
	MOCK_CALL(m, sl_datagram_input(m->state, &m->env, &src, from, 4, &chunk));
	mock_burst(m);
}

static void ck_reply(uint64_t id, enum sl_datagram_status status, const char *payload)
{
	struct sl_datagram_reply r;

	ck_assert_uint_eq(out_cnt, 1);
	memcpy(&r, out, sizeof(r));
	ck_assert_uint_eq(r.id, id);
	ck_assert_uint_eq(r.status, status);
	ck_assert_uint_eq(r.payload_len, strlen(payload));
	ck_assert_uint_eq(out_len, sizeof(r) + r.payload_len);
	ck_assert_mem_eq(out + sizeof(r), payload, r.payload_len);
	out_cnt = 0;
}

FIXTURE(set_up, tear_down)

TEST(replies_go_back_whence_requests_came)
{
	struct sl_datagram_reply r;
	struct mock_stream *s;

	m->reply.service_us = 1234;
	ask(1, "aaaa", "x", 100);
	ask(2, "bbbb", "y", 100);
	s = mock_find(m, 1);
	mock_answer(s);
	ck_assert_uint_eq(s->taken, strlen("ok"));
	ck_assert_mem_eq(way, "bbbb", 4);
	ck_reply(2, SL_DATAGRAM_OK, "ok");
	memcpy(&r, out, sizeof(r));
	ck_assert_uint_eq(r.service_us, 1234);
	ck_assert_uint_eq(r.code, 200);
	mock_answer(mock_find(m, 0));
	ck_assert_mem_eq(way, "aaaa", 4);
	ck_reply(1, SL_DATAGRAM_OK, "ok");
	ck_assert_uint_eq(m->done, 2);
}

/* A reply may be cut anywhere on its way: it leaves when it is whole, in one datagram. */
TEST(cut_replies_leave_whole)
{
	struct sl_reply r = {.status = 200, .body_len = 11};
	struct mock_stream *s;

	m->peek_max = 4;
	ask(1, "aaaa", "x", 100);
	s = mock_find(m, 0);
	mock_head(s, &r);
	mock_bytes(s, sl_span_str("hello "));
	ck_assert_uint_eq(out_cnt, 0);
	s->ended = s->answered = true;
	mock_keep(s, sl_span_str("world"));
	mock_announce(s);
	ck_reply(1, SL_DATAGRAM_OK, "hello world");
}

TEST(reply_over_the_datagram_limit_ends_as_too_large)
{
	struct sl_reply r = {.status = 200, .body_len = SL_LEN_UNKNOWN};

	ask(1, "aaaa", "x", 25); /* as long as its request, at most */
	mock_answer(mock_find(m, 0));
	ck_reply(1, SL_DATAGRAM_REPLY_TOO_LARGE, "");
	ask(2, "aaaa", "x", 100); /* a streamed reply */
	mock_head(mock_find(m, 1), &r);
	ck_reply(2, SL_DATAGRAM_REPLY_TOO_LARGE, "");
	r.body_len = 100000; /* a reply too large for a datagram is not waited for */
	ask(3, "aaaa", "x", 100);
	mock_head(mock_find(m, 2), &r);
	ck_reply(3, SL_DATAGRAM_REPLY_TOO_LARGE, "");
	ck_assert_uint_eq(drops[SL_DROP_DGRAM_AMPLIFY], 1);
	ck_assert_uint_eq(drops[SL_DROP_DGRAM_TOO_LARGE], 2);
}

/* The path MTU shrank for the reply, its retry, or, at the client, for the retry's request. */
TEST(reply_over_the_path_mtu_ends_as_too_large)
{
	room = 25;
	ask(1, "aaaa", "x", 100);
	mock_answer(mock_find(m, 0));
	ck_reply(1, SL_DATAGRAM_REPLY_TOO_LARGE, "");
	ck_assert_uint_eq(drops[SL_DROP_DGRAM_TOO_LARGE], 1);
	room = 1472;
	ask(2, "aaaa", "x", 100);
	mock_answer(mock_find(m, 1));
	ck_reply(2, SL_DATAGRAM_OK, "ok");
	room = 25;
	ask(2, "aaaa", "x", 100);
	ck_reply(2, SL_DATAGRAM_REPLY_TOO_LARGE, "");
	ck_assert_uint_eq(drops[SL_DROP_DGRAM_TOO_LARGE], 2);
	room = 1472;
	ask(2, "aaaa", "x", 25);
	ck_reply(2, SL_DATAGRAM_REPLY_TOO_LARGE, "");
	ck_assert_uint_eq(drops[SL_DROP_DGRAM_TOO_LARGE], 2);
	ck_assert_uint_eq(drops[SL_DROP_DGRAM_AMPLIFY], 1);
	ask(2, "aaaa", "x", 26);
	ck_reply(2, SL_DATAGRAM_OK, "ok");
	ck_assert_uint_eq(m->begun, 2);
}

/* A retry is told again what was told before, but what was not carried out is asked again. */
TEST(a_retry_is_answered_again_and_not_carried_out_again)
{
	ask(1, "aaaa", "x", 100);
	ask(1, "aaaa", "x", 100);
	ck_assert_uint_eq(drops[SL_DROP_DGRAM_DUPLICATE], 1);
	mock_answer(mock_find(m, 0));
	ck_reply(1, SL_DATAGRAM_OK, "ok");
	ask(1, "aaaa", "x", 100);
	ck_reply(1, SL_DATAGRAM_OK, "ok");
	ck_assert_uint_eq(m->begun, 1);
	ask(2, "aaaa", "x", 100);
	mock_break(mock_find(m, 1), SL_OUTCOME_SHED);
	ck_reply(2, SL_DATAGRAM_OVERLOADED, "");
	ask(2, "aaaa", "x", 100);
	ck_assert_uint_eq(m->begun, 3);
}

TEST(as_many_as_there_is_room_for)
{
	for (uint64_t id = 0; id < 8; id++)
		ask(id, "aaaa", "x", 100);
	ck_assert_uint_eq(out_cnt, 0);
	ask(8, "aaaa", "x", 100);
	ck_reply(8, SL_DATAGRAM_OVERLOADED, "");
	ck_assert_uint_eq(m->begun, 8);
	m->exhausted = 1;
	mock_answer(mock_find(m, 0));
	out_cnt = 0;
	ask(8, "aaaa", "x", 100); /* the host has none */
	ck_reply(8, SL_DATAGRAM_OVERLOADED, "");
}
