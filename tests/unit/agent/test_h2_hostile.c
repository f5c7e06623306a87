/* SPDX-License-Identifier: Apache-2.0 */
/* Servers of HTTP/2 that break the protocol to cost the agent memory, or to
 * forge a reply. */
#include "agent_h2.h"

enum { PUSH_PROMISE = 5, PING = 6, PADDED = 8 };

static void set_up(void)
{
	bed_start("h2c");
}

FIXTURE(set_up, bed_stop)

static struct origin_h2_conn *only_conn(void)
{
	const struct agent_server *server =
		sl_list_first(&bed.agent->servers, struct agent_server, link);

	return (struct origin_h2_conn *)sl_list_first(&server->origin.conns, struct origin_conn,
						      link);
}

static struct bed_request *ask_first(void)
{
	struct bed_request *r = bed_ask(SL_PROTO_HTTP1, false);

	bed_server_accept();
	frame(SETTINGS, 0, 0, NULL, 0);
	bed_turns(4);
	return r;
}

/* Each would be answered by a frame, which waits in memory while the server
 * does not read. */
TEST_EACH(a_promise_ends_the_connection, 2)
{
	static const uint8_t promise[] = "\0\0\0\2\x82\x87\x84\x01\1a";
	struct bed_request *r = ask_first();

	if (_i)
		frame(SETTINGS, ACK, 0, NULL, 0);
	frame(PUSH_PROMISE, END_HEADERS, 1, promise, sizeof(promise) - 1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_LOST);
	ck_assert(!bed_server_hear());
	bed_request_free(r);
}

TEST(frames_that_wait_for_a_deaf_server_are_bounded)
{
	enum { CALLS = 12000, AT_ONCE = 20, BOUND = 4000 };
	struct bed_request *first = ask_as(SL_PROTO_HTTP1, false), *r[AT_ONCE];
	size_t most = 0, n;

	for (unsigned i = 0; i < CALLS / AT_ONCE; i++) {
		for (unsigned k = 0; k < AT_ONCE; k++)
			r[k] = bed_ask(SL_PROTO_HTTP1, false);
		bed_turns(1);
		n = nghttp2_session_get_outbound_queue_size(only_conn()->session);
		most = n > most ? n : most;
		for (unsigned k = 0; k < AT_ONCE; k++) {
			bed_cancel(r[k], false);
			bed_request_free(r[k]);
		}
	}
	ck_assert_uint_gt(most, AT_ONCE);
	ck_assert_uint_le(most, BOUND);
	bed_cancel(first, false);
	bed_request_free(first);
}

TEST_EACH(a_flood_ends_the_connection, 3)
{
	enum { FRAMES = 60000 };
	struct bed_request *r = ask_as(SL_PROTO_HTTP1, false);

	if (_i == 2)
		frame(HEADERS, 0, 1, ok, sizeof(ok));
	for (unsigned i = 0; i < FRAMES && !r->ends; i++) {
		switch (_i) {
		case 0: frame(PING, 0, 0, "12345678", 8); break;
		case 1: frame(SETTINGS, 0, 0, NULL, 0); break;
		default: frame(CONTINUATION, 0, 1, NULL, 0); break;
		}
	}
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_LOST);
	bed_request_free(r);
}

TEST(padding_is_counted_once)
{
	enum { FRAMES = 400, PAD = 200, BYTES = 50 };
	uint8_t bytes[1 + BYTES + PAD] = {PAD};
	struct bed_request *r = ask_as(SL_PROTO_HTTP1, false);
	uint64_t more;

	head(1);
	for (size_t i = 0, sent = 0; i < FRAMES; i++, sent += sizeof(bytes)) {
		bed_until(((void)said(WINDOW_UPDATE, 1, &more),
			   ORIGIN_RX_LEN + more - sent >= sizeof(bytes)));
		frame(DATA, PADDED, 1, bytes, sizeof(bytes));
	}
	tail(1);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, FRAMES * BYTES);
	bed_request_free(r);
}

TEST_EACH(frames_behind_the_end_are_refused, 2)
{
	struct bed_request *r = ask_as(SL_PROTO_HTTP1, true),
			   *other = ask_as(SL_PROTO_HTTP1, false);

	head(1);
	frame(DATA, END_STREAM, 1, "ab", 2);
	if (_i)
		frame(DATA, 0, 1, "cd", 2);
	else
		head(1);
	bed_until(r->ends && other->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, 2);
	ck_assert_int_eq(other->error, SL_RPC_LOST);
	bed_request_free(r);
	bed_request_free(other);
}

TEST(settings_change_within_a_call)
{
	enum { LEN = 12000 };
	static const uint8_t none[] = "\0\4\0\0\0\0", much[] = "\0\4\0\1\0\0",
			     wrong[] = "\0\4\x80\0\0\0";
	static uint8_t body[LEN];
	struct bed_request *r = ask_as(SL_PROTO_HTTP1, true);

	frame(SETTINGS, 0, 0, none, 6);
	bed_turns(2);
	bed.opt.on_stream->on_data(bed.opt.arg, r->view, body, LEN, 0);
	bed_turns(2);
	ck_assert_uint_eq(data_of(1), 0);
	frame(SETTINGS, 0, 0, much, 6);
	bed_turns(4);
	ck_assert_uint_eq(data_of(1), LEN);
	frame(SETTINGS, 0, 0, wrong, 6);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_LOST);
	bed_request_free(r);
}

static const struct {
	uint8_t type, flags;
	const char *payload;
	size_t len;
} early[] = {
	{HEADERS, END_HEADERS | END_STREAM, "\x08\x03\x31\x30\x33", 5}, /* 103, and no reply */
	{HEADERS, END_HEADERS | END_STREAM, "\x08\x03\x31\x30\x30", 5},
	{DATA, END_STREAM, "ab", 2}, /* a body without a head */
	{DATA, 0, "", 0},
};

TEST_EACH(what_is_no_reply_ends_its_call, 2 * SL_ARRAY_LEN(early))
{
	struct bed_request *r = ask_as(_i & 1 ? SL_PROTO_GRPC : SL_PROTO_HTTP1, false);

	frame(early[_i / 2].type, early[_i / 2].flags, 1, early[_i / 2].payload, early[_i / 2].len);
	bed_until(r->ends);
	ck_assert(r->error == SL_RPC_INTERNAL || r->error == SL_RPC_LOST);
	ck_assert_uint_eq(r->parts, 0);
	bed_request_free(r);
}

TEST_EACH(a_reply_that_has_begun_is_not_taken_back, 3)
{
	struct bed_request *r = ask_as(SL_PROTO_HTTP1, false);
	uint64_t sum;

	r->view->idempotent = true;
	head(1);
	bed_turns(2);
	if (_i == 0)
		frame(RST_STREAM, 0, 1, "\0\0\0\7", 4); /* REFUSED_STREAM */
	else if (_i == 1)
		frame(GOAWAY, 0, 0, "\0\0\0\0\0\0\0\0", 8);
	else
		frame(RST_STREAM, 0, 1, "\0\0\0\0", 4); /* NO_ERROR */
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_LOST);
	bed_turns(4);
	ck_assert_uint_eq(said(HEADERS, 3, &sum), 0);
	bed_request_free(r);
}
