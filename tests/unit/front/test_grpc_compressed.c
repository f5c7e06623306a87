/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed gRPC messages and their headers are passed on; a refused client gets the reason. */
#include "front/grpc/grpc.h"
#include "grpc_talk.h"
#include "suite.h"

FIXTURE(setup_h2, teardown_h2)

static const struct sl_span IDENTITY = SL_SPAN_LIT("grpc-accept-encoding: identity\n");

static bool offers_identity(void)
{
	return strstr(got.fields, (const char *)IDENTITY.ptr);
}

TEST_EACH(a_compressed_request_is_told_from_others, 2)
{
	static const uint8_t plain[] = {0, 0, 0, 0, 1, 'x'}, packed[] = {1, 0, 0, 0, 1, 'y'};

	open_conn();
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	send_frame(0, 1, 1, _i ? sl_span_of(packed, 6) : sl_span_of(plain, 6));
	ck_assert_int_eq(m->streams[0].st.compressed, _i);
	ck_assert_mem_eq(m->streams[0].body, _i ? "y" : "x", 1);
	ck_assert_uint_eq(m->cancelled, 0);
	ck_sound();
}

TEST(of_a_stream_each_message_is)
{
	static const uint8_t in[] = {0, 0, 0, 0, 1, 'a', 1, 0, 0, 0, 1,  'b',
				     1, 0, 0, 0, 0, 0,   0, 0, 0, 1, 'c'};

	open_conn();
	m->parts = true;
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	for (size_t i = 0; i < sizeof(in); i++)
		send_frame(0, 0, 1, sl_span_of(in + i, 1));
	ck_assert_uint_eq(m->streams[0].compressed, 2);
	ck_assert_uint_eq(m->streams[0].body_len, 3);
	ck_assert_mem_eq(m->streams[0].body, "abc", 3);
	ck_sound();
}

/* A backend that does not take them says so, and the gateway makes that the answer. */
TEST(a_refused_client_is_offered_identity)
{
	struct sl_reply_parts own;

	sl_reply_own(SL_OUTCOME_COMPRESSED, &own);
	open_conn();
	m->reply = own.reply;
	call(1, "/p.S/M");
	ask(1, S("x"), true);
	ck_got(1, S(""), SL_GRPC_UNIMPLEMENTED);
	ck_assert(offers_identity());
	ck_assert_ptr_nonnull(strstr(got.fields,
				     "grpc-message: compressed messages are not supported by this "
				     "service\n"));
	ck_sound();
}

/* In a stream the head is out already: it stands behind the messages. */
TEST_EACH(so_is_a_client_refused_later, 2)
{
	struct sl_reply head = {.status = 200, .body_len = SL_LEN_UNKNOWN};

	open_conn();
	m->parts = true;
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	ask(1, S("x"), false);
	mock_head(&m->streams[0], &head);
	mock_break(&m->streams[0], _i ? SL_OUTCOME_COMPRESSED : SL_OUTCOME_BACKEND_LOST);
	ck_got(1, S(""), _i ? SL_GRPC_UNIMPLEMENTED : SL_GRPC_UNAVAILABLE);
	ck_assert_int_eq(offers_identity(), _i);
	ck_sound();
}

/* The gateway does not speak for a server about its encodings. */
TEST_EACH(a_server_tells_its_encodings_itself, 2)
{
	static const struct sl_header h[] = {
		{SL_SPAN_LIT("grpc-encoding"), SL_SPAN_LIT("gzip")},
		{SL_SPAN_LIT("grpc-accept-encoding"), SL_SPAN_LIT("gzip,zstd")},
		{SL_SPAN_LIT("grpc-timeout"), SL_SPAN_LIT("1S")},
	};

	open_conn();
	m->reply.headers = h;
	m->reply.header_cnt = _i ? 3 : 0;
	m->reply.grpc_status = SL_GRPC_UNIMPLEMENTED;
	call(1, "/p.S/M");
	ask(1, S("x"), true);
	ck_got(1, S("\0\0\0\0\2ok"), SL_GRPC_UNIMPLEMENTED);
	ck_assert(!offers_identity());
	ck_assert_int_eq(strstr(got.fields, "grpc-encoding: gzip\n") != NULL, _i);
	ck_assert_int_eq(strstr(got.fields, "grpc-accept-encoding: gzip,zstd\n") != NULL, _i);
	ck_assert_ptr_null(strstr(got.fields, "timeout"));
	ck_sound();
}

TEST(a_clients_encodings_are_passed_on)
{
	open_conn();
	m->log_all = true;
	talk("-HEADERS 4 1 @grpc 000d677270632d656e636f64696e6704677a6970"
	     "0014677270632d6163636570742d656e636f64696e6704677a6970; DATA 1 1 0100000000");
	ck_assert_ptr_nonnull(strstr(m->log, "grpc-encoding"));
	ck_assert_ptr_nonnull(strstr(m->log, "grpc-accept-encoding"));
	ck_sound();
}
