/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of HTTP/2, frame by frame: what goes on of their replies, and streams that end at any point. */
#include "agent_h2.h"

static uint32_t window_of(uint32_t id, size_t sent)
{
	uint64_t more;

	(void)said(WINDOW_UPDATE, id, &more);
	return (uint32_t)(ORIGIN_RX_LEN + more - sent);
}

static uint8_t byte_at(size_t i)
{
	return (uint8_t)(i * 7 + i / 251);
}

/*
 * A message of `len` bytes of which `have` were said, as far as the stream's window is open. How many
 * are said now; *sent: bytes of DATA on this stream so far.
 */
static size_t say_message(uint32_t id, size_t len, size_t have, size_t *sent)
{
	for (;;) {
		size_t prefix = have ? 0 : 5, n = window_of(id, *sent);
		uint8_t bytes[FRAME_MAX] = {0};

		n = n < sizeof(bytes) ? n : sizeof(bytes);
		if (n <= prefix || have == len)
			return have;
		n = n - prefix < len - have ? n - prefix : len - have;
		if (prefix)
			sl_put_be32(bytes + 1, (uint32_t)len);
		for (size_t i = 0; i < n; i++)
			bytes[prefix + i] = byte_at(have + i);
		frame(DATA, 0, id, bytes, prefix + n);
		*sent += prefix + n;
		have += n;
		bed_turns(2);
	}
}

static void check_heard(const struct bed_request *r, size_t len)
{
	size_t wrong = 0;

	ck_assert_uint_eq(r->len, len);
	for (size_t i = 0; i < len; i++)
		wrong += r->heard[i] != byte_at(i);
	ck_assert_uint_eq(wrong, 0);
}

static struct bed_request *ask(bool stream)
{
	return ask_as(SL_PROTO_GRPC, stream);
}

static void say_settings(void)
{
	frame(SETTINGS, 0, 0, NULL, 0);
	frame(SETTINGS, ACK, 0, NULL, 0);
	bed_turns(4);
}

static void set_up(void)
{
	bed_start("h2c");
}

FIXTURE(set_up, bed_stop)

TEST(a_short_reply_is_one_part)
{
	uint8_t message[] = "\0\0\0\0\3abc";
	struct bed_request *r = ask(false);

	head(1);
	frame(DATA, 0, 1, message, 8);
	tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->parts, 1);
	ck_assert_mem_eq(r->heard, "abc", 3);
	ck_assert_int_eq(r->status, 200);
	bed_request_free(r);
}

/* Longer than anything that the agent has room for: no part of it is longer than a window. */
TEST_EACH(a_long_message_goes_on_in_pieces, 2)
{
	enum { LEN = 1000003 };
	struct bed_request *r = ask(_i);
	size_t sent = 0;

	head(1);
	ck_assert_uint_eq(say_message(1, LEN, 0, &sent), LEN);
	tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->messages, 1);
	ck_assert_uint_le(r->largest, ORIGIN_RX_LEN);
	check_heard(r, LEN);
	bed_request_free(r);
}

TEST(many_messages_of_all_lengths_stay_apart)
{
	struct bed_request *r = ask(true);
	size_t total = 0, sent = 0, messages = 0;
	uint8_t all[60000];

	for (size_t n = 0; total + 5 + n <= sizeof(all); n += 13) {
		all[total] = 0;
		sl_put_be32(all + total + 1, (uint32_t)n);
		memset(all + total + 5, (int)n, n);
		total += 5 + n;
		messages++;
	}
	head(1);
	for (size_t at = 0; at < total; at += 777, sent++) {
		frame(DATA, 0, 1, all + at, total - at < 777 ? total - at : 777);
		if (sent % 16 == 0) /* less than half a window, which then opens */
			bed_turns(4);
	}
	tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->messages, messages);
	ck_assert_uint_eq(r->len, total - 5 * messages);
	bed_request_free(r);
}

/* Nothing of what the gateway does not take is asked for: half a window of a piece, and one here. */
/* As often as the server says so: the SDK tells once. Where it has no memory the call cannot go on. */
TEST_EACH(status_100_goes_on, 3)
{
	static const uint8_t go_on[] = "\x08\x03"
				       "100",
			     hints[] = "\x08\x03"
				       "103";
	static const int says[] = {0, -EINVAL, -EAGAIN};
	struct bed_request *r = ask(true);

	r->go_on = says[_i];
	frame(HEADERS, END_HEADERS, 1, hints, sizeof(hints) - 1);
	bed_turns(4);
	ck_assert_uint_eq(r->told, 0);
	ck_assert_uint_eq(r->interims, 0); /* gRPC has no place for it */
	frame(HEADERS, END_HEADERS, 1, go_on, sizeof(go_on) - 1);
	bed_turns(4);
	ck_assert_uint_eq(r->told, 1);
	if (_i < 2) {
		head(1);
		tail(1);
		bed_until(r->ends);
		ck_assert_int_eq(r->error, SL_RPC_OK);
	}
	ck_assert_uint_eq(r->told, 1);
	ck_assert_int_eq(r->error, _i < 2 ? SL_RPC_OK : SL_RPC_REFUSED);
	bed_request_free(r);
}

/* Each goes on by itself, also where the reply stands right behind it. */
TEST(interim_replies_go_on)
{
	static const uint8_t hints[] = "\x08\x03"
				       "103\x00\x04link\x04</a>";
	static const uint8_t reply[] = "\x88";
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	bed_server_accept();
	frame(SETTINGS, 0, 0, NULL, 0);
	frame(SETTINGS, ACK, 0, NULL, 0);
	bed_turns(4);
	frame(HEADERS, END_HEADERS, 1, hints, sizeof(hints) - 1);
	bed_until(r->interims == 1);
	ck_assert_int_eq(r->interim_status, 103);
	ck_assert_str_eq(r->interim_field, "link: </a>");
	frame(HEADERS, END_HEADERS, 1, hints, sizeof(hints) - 1);
	frame(HEADERS, END_HEADERS | END_STREAM, 1, reply, sizeof(reply) - 1);
	bed_until(r->ends);
	ck_assert_uint_eq(r->interims, 2);
	ck_assert_int_eq(r->status, 200);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	bed_request_free(r);
}

/* As over HTTP/1.1 there are at most ORIGIN_INTERIM_MAX, in one read or in many. */
TEST_EACH(interim_replies_are_bounded, 4)
{
	static const uint8_t hints[] = "\x08\x03"
				       "103\x00\x04link\x04</a>";
	struct bed_request *r = ask_as(_i & 1 ? SL_PROTO_GRPC : SL_PROTO_HTTP1, _i & 2);
	uint64_t sum;

	for (unsigned i = 0; i <= ORIGIN_INTERIM_MAX; i++) {
		ck_assert_uint_eq(r->ends, 0);
		frame(HEADERS, END_HEADERS, 1, hints, sizeof(hints) - 1);
		if (_i & 1)
			bed_turns(1);
	}
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_INTERNAL);
	ck_assert_uint_le(r->interims, ORIGIN_INTERIM_MAX);
	bed_turns(2);
	ck_assert_uint_eq(said(RST_STREAM, 1, &sum), 1);
	bed_request_free(r);
}

/* A GOAWAY, or an end, that came just before a request: it goes by another connection. */
TEST_EACH(an_idle_connection_is_looked_at_before_it_is_used, 2)
{
	struct bed_request *r = ask(false);
	uint64_t sum;

	head(1);
	tail(1);
	bed_until(r->ends);
	bed_request_free(r);
	if (_i)
		frame(GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
	else
		shutdown(bed.server_fd, SHUT_WR);
	r = bed_ask(SL_PROTO_GRPC, false);
	bed_turns(4);
	ck_assert_uint_eq(said(HEADERS, 3, &sum), 0);
	ck_assert_int_eq(r->ends, 0);
	bed_server_close();
	bed_server_accept();
	say_settings();
	head(1);
	tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	bed_request_free(r);
}

TEST(a_client_that_does_not_read_stops_its_server)
{
	enum { LEN = 1000003 };
	struct bed_request *r = ask(false);
	size_t sent = 0, have;

	r->full = true;
	head(1);
	have = say_message(1, LEN, 0, &sent);
	ck_assert_uint_le(sent, ORIGIN_RX_LEN);
	ck_assert(r->blocked);
	ck_assert_uint_eq(r->parts, 0);
	bed_room(r);
	bed_turns(4);
	ck_assert_uint_eq(say_message(1, LEN, have, &sent), LEN);
	tail(1);
	bed_until(r->ends);
	check_heard(r, LEN);
	bed_request_free(r);
}

/* Bytes that wait for a client count in the agent's budget for bodies, until they leave. */
TEST(waiting_bytes_of_a_reply_are_counted)
{
	enum { LEN = 20000 };
	struct bed_request *r = ask(false);
	size_t sent = 0;

	ck_assert_uint_eq(bed.agent->origin.bodies.used, 0);
	r->full = true;
	head(1);
	ck_assert_uint_eq(say_message(1, LEN, 0, &sent), LEN);
	bed_turns(4);
	ck_assert(r->blocked);
	ck_assert_uint_ge(bed.agent->origin.bodies.used, LEN);
	ck_assert_uint_le(bed.agent->origin.bodies.used, 2 * LEN);
	bed_room(r);
	bed_turns(4);
	ck_assert_uint_eq(bed.agent->origin.bodies.used, 0);
	tail(1);
	bed_until(r->ends);
	check_heard(r, LEN);
	bed_request_free(r);
}

/* So is the head, which may be long, until the gateway has it. */
TEST(a_head_that_waits_is_counted)
{
	enum { VALUE = 9000, FIELDS = 6 };
	struct bed_request *r = ask(false);
	uint8_t block[16 + VALUE] = {0, 1, 'x', 0x7f};
	size_t n = 4;

	/* HPACK: an integer of 7 bits and more */
	for (size_t left = VALUE - 0x7f; left || n == 4; left >>= 7)
		block[n++] = (uint8_t)((left & 0x7f) | (left > 0x7f ? 0x80 : 0));
	memset(block + n, 'v', VALUE);
	r->full = true;
	frame(HEADERS, 0, 1, ok, sizeof(ok));
	for (unsigned i = 0; i < FIELDS; i++)
		frame(CONTINUATION, i + 1 == FIELDS ? END_HEADERS : 0, 1, block, n + VALUE);
	bed_turns(4);
	ck_assert(r->blocked);
	ck_assert_uint_ge(bed.agent->origin.bodies.used, FIELDS * VALUE);
	bed_room(r);
	bed_turns(2);
	ck_assert_uint_eq(r->head_cnt, FIELDS);
	ck_assert_uint_eq(bed.agent->origin.bodies.used, 0);
	tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	bed_request_free(r);
}

/*
 * The client that has not read for longest loses its reply; others are served, even with long
 * replies.
 */
TEST(longest_stalled_reply_is_ended_when_memory_is_short)
{
	enum { DEAF = 40, LEN = 20000, LIMIT = 640 << 10 };
	struct bed_request *r[DEAF], *good;
	size_t sent;

	bed.agent->origin.bodies.limit = LIMIT;
	for (uint32_t i = 0; i < DEAF; i++) {
		r[i] = ask(false);
		r[i]->full = true;
		sent = 0;
		head(2 * i + 1);
		say_message(2 * i + 1, LEN, 0, &sent);
		bed_turns(2);
		ck_assert_uint_le(bed.agent->origin.bodies.used, LIMIT);
	}
	ck_assert_int_eq(r[0]->error, SL_RPC_LOST);
	ck_assert_int_eq(r[DEAF - 1]->ends, 0);
	good = ask(false);
	sent = 0;
	head(2 * DEAF + 1);
	ck_assert_uint_eq(say_message(2 * DEAF + 1, LEN, 0, &sent), LEN);
	tail(2 * DEAF + 1);
	bed_until(good->ends);
	ck_assert_int_eq(good->error, SL_RPC_OK);
	check_heard(good, LEN);
	bed_request_free(good);
	for (uint32_t i = 0; i < DEAF; i++) {
		tail(2 * i + 1);
		bed_room(r[i]);
		bed_until(r[i]->ends);
		ck_assert(r[i]->error == SL_RPC_OK || r[i]->error == SL_RPC_LOST);
		bed_request_free(r[i]);
	}
}

/* No other call can give way: only the reply that finds no memory ends. */
TEST(a_reply_without_memory_ends_alone)
{
	struct bed_request *r = ask(false), *other = ask(false);
	uint8_t bytes[8000] = "\0\0\0\x1f\x3b";
	uint64_t sum;

	bed.agent->origin.bodies.limit = 4096;
	head(1);
	head(3);
	frame(DATA, 0, 1, bytes, sizeof(bytes) - 1000);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_LOST);
	frame(DATA, 0, 3, "\0\0\0\0\1x", 6);
	tail(3);
	bed_until(other->ends);
	ck_assert_int_eq(other->error, SL_RPC_OK);
	ck_assert_uint_eq(said(RST_STREAM, 1, &sum), 1);
	ck_assert_uint_eq(bed.agent->origin.bodies.used, 0);
	bed_request_free(r);
	bed_request_free(other);
}

/* Compressed messages of servers and clients are passed on, marked as compressed. */
TEST_EACH(compressed_messages_go_on_as_they_are, 2)
{
	struct bed_request *r = ask(true), *second = bed_ask(SL_PROTO_GRPC, _i);
	uint64_t sum;

	second->view->compressed = true;
	bed_turns(2);
	if (_i)
		bed.opt.on_stream->on_data(bed.opt.arg, second->view, "hello", 5, 0);
	bed_turns(2);
	ck_assert_uint_eq(said(DATA, 3, &sum), 1);
	ck_assert_uint_eq(sum, 1 << 24);
	head(3);
	frame(DATA, 0, 3, "\0\0\0\0\3abc\1\0\0\0\3def\1\0\0\0\3ghi", 24);
	tail(3);
	bed_until(second->ends);
	ck_assert_int_eq(second->error, SL_RPC_OK);
	ck_assert_uint_eq(second->messages, 3);
	ck_assert_uint_eq(second->compressed, 2);
	ck_assert_mem_eq(second->heard, "abcdefghi", 9);
	bed_request_free(second);
	head(1);
	frame(DATA, 0, 1, "\0\0\0\0\1x", 6);
	tail(1);
	bed_until(r->ends);
	ck_assert_uint_eq(r->compressed, 0);
	bed_request_free(r);
}

/* One in pieces says so with the first. */
TEST(a_long_compressed_message_says_so_once)
{
	enum { LEN = 100000 };
	struct bed_request *r = ask(false);
	size_t sent = 5;

	head(1);
	frame(DATA, 0, 1, "\1\0\1\x86\xa0", 5);
	for (size_t have = 0, n; have < LEN; have += n, sent += n) {
		static const uint8_t zeros[FRAME_MAX];

		n = LEN - have < 10000 ? LEN - have : 10000;
		while (window_of(1, sent) < n)
			bed_turns(2);
		frame(DATA, 0, 1, zeros, n);
		bed_turns(2);
	}
	tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->messages, 1);
	ck_assert_uint_eq(r->compressed, 1);
	ck_assert_uint_eq(r->len, LEN);
	bed_request_free(r);
}

static const struct {
	const char *bytes;
	size_t len;
	bool ends;
	int error;
} broken[] = {
	{"\2\0\0\0\1x", 6, false, SL_RPC_INTERNAL},          /* a reserved bit */
	{"\0\4\0\0\1x", 6, false, SL_RPC_TOO_LARGE},         /* longer than any may be */
	{"\0\xff\xff\xff\xffx", 6, false, SL_RPC_TOO_LARGE}, /* and than its number */
	{"\0\0\0\0\5abcd", 9, true, SL_RPC_INTERNAL},        /* cut off by a status */
	{"\0\0\0\0\1x\0\0\0", 9, true, SL_RPC_INTERNAL},     /* in a prefix */
};

TEST_EACH(a_broken_message_is_an_error, SL_ARRAY_LEN(broken))
{
	struct bed_request *r = ask(_i & 1);
	uint64_t sum;

	head(1);
	frame(DATA, 0, 1, broken[_i].bytes, broken[_i].len);
	if (broken[_i].ends)
		tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, broken[_i].error);
	bed_turns(2);
	ck_assert_uint_eq(said(RST_STREAM, 1, &sum), !broken[_i].ends || (_i & 1));
	bed_request_free(r);
}

/* --- malformed replies --- */

static const struct {
	const char *head, *data, *tail; /* data NULL: none */
	size_t head_len, tail_len;
} malformed[] = {
#define BAD_HEAD(text)                                                                             \
	{                                                                                          \
		.head = (text), .head_len = sizeof(text) - 1                                       \
	}
	BAD_HEAD("\x88" FIELD("\x0a", "connection", "\x0a", "keep-alive")),
	BAD_HEAD("\x88" FIELD("\x11", "transfer-encoding", "\x07", "chunked")),
	BAD_HEAD("\x88" FIELD("\x01", "x", "\x03", "a\nb")),
	BAD_HEAD("\x88" FIELD("\x01", "X", "\x01", "a")),
	BAD_HEAD("\x88" FIELD("\x0e", "content-length", "\x01", "1")
			 FIELD("\x0e", "content-length", "\x01", "2")),
	BAD_HEAD("\x88\x88"),
	BAD_HEAD(FIELD("\x01", "x", "\x01", "a")),
	BAD_HEAD("\x88" FIELD("\x05", ":path", "\x01", "/")),
	BAD_HEAD("\x08\x03"
		 "101"),
	BAD_HEAD("\x08\x03"
		 "099"),
	BAD_HEAD("\x08\x03"
		 "999"),
	{"\x88" FIELD("\x0e", "content-length", "\x02", "20"), "\0\0\0\0\1x", NULL, 20, 0},
	{"\x88" FIELD("\x0e", "content-length", "\x01", "2"), "\0\0\0\0\1x", NULL, 19, 0},
	{"\x88", "\0\0\0\0\1x", FIELD("\x07", ":status", "\x03", "200"), 1, 13},
};

/*
 * nghttp2 resets such a stream when it writes, and the server says no more: the call ends nevertheless,
 * no call is counted, and the connection serves others.
 */
TEST_EACH(a_malformed_reply_ends_its_call, SL_ARRAY_LEN(malformed) * 4)
{
	unsigned kind = (unsigned)_i / 4;
	enum sl_proto proto = _i & 1 ? SL_PROTO_GRPC : SL_PROTO_HTTP1;
	struct bed_request *r = ask_as(proto, _i & 2), *after;
	const struct agent_server *server =
		sl_list_first(&bed.agent->servers, struct agent_server, link);

	r->view->idempotent = true;
	frame(HEADERS, END_HEADERS, 1, malformed[kind].head, malformed[kind].head_len);
	if (malformed[kind].data)
		frame(DATA, malformed[kind].tail ? 0 : END_STREAM, 1, malformed[kind].data, 6);
	if (malformed[kind].tail)
		frame(HEADERS, END_HEADERS | END_STREAM, 1, malformed[kind].tail,
		      malformed[kind].tail_len);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_INTERNAL);
	ck_assert_uint_eq(server->origin.busy_cnt, 0);
	bed_request_free(r);
	after = ask(false);
	head(3);
	frame(DATA, 0, 3, "\0\0\0\0\1x", 6);
	tail(3);
	bed_until(after->ends);
	ck_assert_int_eq(after->error, SL_RPC_OK);
	bed_request_free(after);
}

/* 32 of them, in one read, take all places that there are in the beginning: they become free. */
TEST(malformed_replies_free_their_places)
{
	enum { PLACES = 32 };
	struct bed_request *r[PLACES], *waits;

	for (unsigned i = 0; i < PLACES; i++)
		r[i] = ask(false);
	waits = ask(false);
	for (uint32_t i = 0; i < PLACES; i++)
		frame(HEADERS, END_HEADERS, 2 * i + 1, malformed[0].head, malformed[0].head_len);
	for (unsigned i = 0; i < PLACES; i++) {
		bed_until(r[i]->ends);
		ck_assert_int_eq(r[i]->error, SL_RPC_INTERNAL);
		bed_request_free(r[i]);
	}
	head(2 * PLACES + 1);
	tail(2 * PLACES + 1);
	bed_until(waits->ends);
	ck_assert_int_eq(waits->error, SL_RPC_OK);
	bed_request_free(waits);
}

/* --- requests that the server has not processed --- */

/* A POST, whole or as a stream of `len` bytes that has been sent to its end. */
static struct bed_request *post(bool stream, size_t len)
{
	struct bed_request *r = ask_as(SL_PROTO_HTTP1, stream);
	static uint8_t bytes[4096];

	for (size_t at = 0, n; stream && at < len; at += n) {
		n = len - at < sizeof(bytes) ? len - at : sizeof(bytes);
		for (size_t i = 0; i < n; i++)
			bytes[i] = byte_at(at + i);
		bed.opt.on_stream->on_data(bed.opt.arg, r->view, bytes, n, 0);
		bed_turns(2);
	}
	if (stream)
		bed.opt.on_stream->on_end(bed.opt.arg, r->view);
	bed_turns(2);
	return r;
}

/* RFC 9113 6.8, 8.7: nothing of it was processed, so it is sent again, with what was sent of its body. */
TEST_EACH(a_request_that_was_not_processed_is_sent_again, 4)
{
	bool stream = _i & 1;
	size_t len = stream ? 6000 : 5;
	struct bed_request *r = post(stream, len);
	uint32_t id = 1;
	uint64_t sum;

	ck_assert_uint_ge(said(DATA, 1, &sum), 1);
	if (_i & 2) {
		frame(GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
		bed_turns(2);
		bed_server_close();
		bed_server_accept();
		say_settings();
	} else {
		frame(RST_STREAM, 0, 1, "\0\0\0\7", 4);
		id = 3;
		bed_turns(4);
	}
	ck_assert_int_eq(r->ends, 0);
	ck_assert_uint_eq(said(HEADERS, id, &sum), 1);
	ck_assert_uint_eq(data_of(id), len);
	frame(HEADERS, END_HEADERS | END_STREAM, id, ok, sizeof(ok));
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(bed.agent->origin.bodies.used, 0);
	bed_request_free(r);
}

/* More of it has gone than the agent keeps. */
TEST(a_long_upload_that_was_not_processed_is_lost)
{
	struct bed_request *r = post(true, 40000);

	frame(RST_STREAM, 0, 1, "\0\0\0\7", 4);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_LOST);
	ck_assert_uint_eq(bed.agent->origin.bodies.used, 0);
	bed_request_free(r);
}

/* --- ends at any point --- */

enum point { ASKED, HEAD, PREFIX, MESSAGE, LONG, BLOCKED, ENDED_BLOCKED, POINTS };
enum end { RESET, CLOSED, CANCELLED, GONE, ENDS };

/* Each of three streams is brought there, so that an end of one meets others under way. */
static void bring_to(enum point p, struct bed_request *r, uint32_t id)
{
	size_t sent = 0;

	r->full = p >= BLOCKED;
	if (p >= HEAD)
		head(id);
	if (p == PREFIX)
		frame(DATA, 0, id, "\0\0\0", 3);
	else if (p == MESSAGE)
		frame(DATA, 0, id, "\0\0\0\0\1x", 6);
	else if (p == LONG || p == BLOCKED)
		say_message(id, 200000, 0, &sent);
	else if (p == ENDED_BLOCKED)
		frame(DATA, 0, id, "\0\0\0\0\1x\0\0\0\0\1y", 12);
	if (p == ENDED_BLOCKED)
		tail(id);
}

static void end_by(enum end e, enum point p, struct bed_request *r, uint32_t id, bool stream)
{
	switch (e) {
	case RESET: frame(RST_STREAM, 0, id, "\0\0\0\2", 4); break;
	case CANCELLED: bed_cancel(r, stream); break;
	case GONE:
		r->gone = true;
		bed_room(r);
		if (p == ASKED)
			head(id);
		frame(DATA, 0, id, "\0\0\0\0\1x", 6);
		tail(id);
		break;
	default: bed_server_close(); break;
	}
}

/* Each is answered once, whatever happened, and the agent goes on: with a sanitizer, by its own memory. */
TEST_EACH(streams_end_at_any_point, POINTS *ENDS * 2)
{
	enum point point = (enum point)(_i / 2 % POINTS);
	enum end end = (enum end)(_i / 2 / POINTS);
	bool stream = _i & 1;
	struct bed_request *r[3], *after;
	uint32_t id;

	for (unsigned i = 0; i < 3; i++)
		r[i] = ask(stream);
	for (unsigned i = 0; i < 3; i++)
		bring_to(point, r[i], 2 * i + 1);
	bed_turns(2);
	for (unsigned i = 0; i < 3; i++) {
		end_by(end, point, r[i], 2 * i + 1, stream);
		if (end == CLOSED)
			break;
	}
	bed_turns(4);
	for (unsigned i = 0; i < 3; i++)
		bed_room(r[i]);
	if (end == CLOSED && point == ASKED &&
	    !stream) { /* lost, and not to be repeated: it was written */
		ck_assert_int_eq(r[0]->error, SL_RPC_LOST);
	}
	for (unsigned i = 0; i < 3; i++) {
		bed_until(r[i]->ends == 1);
		bed_request_free(r[i]);
	}
	id = bed.server_fd < 0 ? 1 : 7;
	after = ask(false);
	head(id);
	frame(DATA, 0, id, "\0\0\0\0\1x", 6);
	tail(id);
	bed_until(after->ends);
	ck_assert_int_eq(after->error, SL_RPC_OK);
	bed_request_free(after);
}
