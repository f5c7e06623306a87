/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of HTTP/2 that a server has said whole, when its connection ends before their clients read. */
#include "agent_ends.h"
#include "agent_h2.h"

enum { PART = 8000, STREAMS = 12 };

static void set_up(void)
{
	bed_start("h2c");
}

FIXTURE(set_up, bed_stop)

static struct bed_request *ask(bool grpc)
{
	struct bed_request *r = ask_as(grpc ? SL_PROTO_GRPC : SL_PROTO_HTTP1, true);

	bed.opt.on_stream->on_end(bed.opt.arg, r->view);
	bed_turns(2);
	return r;
}

/* Two parts, of which the first waits for its client. */
static void reply(uint32_t id, bool grpc)
{
	static uint8_t part[PART];

	sl_put_be32(part + 1, PART - SL_GRPC_PREFIX);
	head(id);
	frame(DATA, 0, id, part, PART);
	bed_turns(2);
	frame(DATA, grpc ? 0 : END_STREAM, id, part, PART);
	if (grpc)
		tail(id);
}

static const struct origin_server *server(void)
{
	return &sl_list_first(&bed.agent->servers, struct agent_server, link)->origin;
}

TEST_EACH(a_complete_reply_outlives_its_connection, 6)
{
	bool grpc = _i & 1;
	struct bed_request *r = ask(grpc), *other = ask(grpc);
	uint32_t prefix = grpc ? SL_GRPC_PREFIX : 0;

	r->full = true;
	reply(1, grpc);
	bed_turns(2);
	ck_assert(r->blocked);
	head(3);
	bed_turns(2);
	if (_i / 2 != 0)
		frame(GOAWAY, 0, 0, _i / 2 == 1 ? "\0\0\0\1\0\0\0\0" : "\0\0\0\3\0\0\0\0", 8);
	bed_turns(2);
	bed_server_hear();
	bed_server_close();
	bed_turns(2);
	ck_assert_uint_eq(other->ends, 1);
	ck_assert_uint_eq(r->ends, 0);
	bed_room(r);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, 2 * (PART - prefix));
	bed_until(server()->conn_cnt == 0);
	bed_request_free(r);
	bed_request_free(other);
}

/* Of a connection that takes no more calls, the last reply. */
TEST(a_complete_reply_outlives_a_goaway)
{
	struct bed_request *r = ask(false);

	r->full = true;
	reply(1, false);
	frame(GOAWAY, 0, 0, "\0\0\0\1\0\0\0\0", 8);
	bed_turns(4);
	ck_assert_uint_eq(r->ends, 0);
	bed_room(r);
	bed_until(r->ends);
	ck_assert_int_eq(r->error, SL_RPC_OK);
	ck_assert_uint_eq(r->len, 2 * PART);
	bed_until(server()->conn_cnt == 0);
	bed_request_free(r);
}

/* Its client gives up instead. */
TEST(a_connection_that_has_ended_is_closed_with_its_last_reply)
{
	struct bed_request *r = ask(false);

	r->full = true;
	reply(1, false);
	bed_turns(2);
	bed_server_close();
	bed_turns(2);
	ck_assert_uint_eq(server()->conn_cnt, 1);
	bed_cancel(r, true);
	bed_until(server()->conn_cnt == 0);
	bed_request_free(r);
}

/* More than one read takes: between two of them the agent writes to a server that has gone. */
TEST(replies_that_have_come_outlive_a_failed_write)
{
	static uint8_t part[FRAME_MAX];
	struct bed_request *r[STREAMS];
	int size = 1 << 20;

	for (unsigned i = 0; i < STREAMS; i++)
		r[i] = ask(false);
	ck_assert_int_eq(setsockopt(bed.server_fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	bed_server_hear();
	for (unsigned i = 0; i < STREAMS; i++) {
		head(2 * i + 1);
		frame(DATA, 0, 2 * i + 1, part, FRAME_MAX);
		frame(DATA, END_STREAM, 2 * i + 1, part, PART);
	}
	bed_server_close();
	for (unsigned i = 0; i < STREAMS; i++) {
		bed_until(r[i]->ends);
		ck_assert_int_eq(r[i]->error, SL_RPC_OK);
		ck_assert_uint_eq(r[i]->len, FRAME_MAX + PART);
		bed_request_free(r[i]);
	}
}

/* What a slow client still has to read of a server says nothing about it now. */
TEST(a_dead_server_is_down_while_its_replies_are_read)
{
	struct bed_request *r = ask(false);

	r->full = true;
	reply(1, false);
	bed_turns(2);
	expect_down_while_read(r);
	bed_request_free(r);
}

TEST(a_server_that_ends_each_connection_is_asked_with_pauses)
{
	struct bed_request *r = ask_as(SL_PROTO_HTTP1, false);

	r->view->idempotent = true;
	bed_server_hear();
	expect_pauses();
	bed_cancel(r, false);
	bed_request_free(r);
}
