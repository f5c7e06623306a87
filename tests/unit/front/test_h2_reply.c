/* SPDX-License-Identifier: Apache-2.0 */
/* Heads and ends over HTTP/2 and gRPC: what of them passes, in both directions. */
#include "grpc_talk.h"

static void ck_log(const char *want)
{
	ck_assert_str_eq(m->log, want);
	m->log_len = 0;
}

/* A literal field, not indexed, behind a head. */
static size_t put_literal(uint8_t *to, const char *name, const char *value)
{
	size_t n = strlen(name), v = strlen(value);

	to[0] = 0;
	to[1] = (uint8_t)n;
	memcpy(to + 2, name, n);
	to[2 + n] = (uint8_t)v;
	memcpy(to + 3 + n, value, v);
	return 3 + n + v;
}

static void call_with(uint32_t id, const char *name, const char *value)
{
	static const uint8_t start[] = "\x83\x86\x04\x06/p.S/M\x41\x01"
				       "a\x0f\x10\x10"
				       "application/grpc";
	uint8_t head[256];
	size_t len = sizeof(start) - 1;

	memcpy(head, start, len);
	len += put_literal(head + len, name, value);
	send_frame(1, 4, id, sl_span_of(head, len));
}

START_TEST(test_metadata)
{
	open_conn();
	call_with(1, "x-log-bin", "aGk,aG8=");
	ck_log("POST /p.S/M @a ct=application/grpc x-log-bin:(hi) x-log-bin:(ho)\n");
	call_with(3, "x-log", "aGk,aG8=");
	ck_log("POST /p.S/M @a ct=application/grpc x-log:(aGk,aG8=)\n");
	m->log_len = 0;
	m->log[0] = 0;
	call_with(5, "x-log-bin", "?");
	ck_got(5, S(""), SL_GRPC_INTERNAL);
	call_with(7, "grpc-timeout", "1x");
	ck_got(7, S(""), SL_GRPC_INTERNAL);
	ck_log("");
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_GRPC_MESSAGE], 2);
	ck_sound();
}
END_TEST

START_TEST(test_expect)
{
	open_conn();
	talk("-HEADERS 4 1 @post 40 06 657870656374 0c 3130302d636f6e74696e7565");
	collect(1);
	ck_assert_str_eq(got.fields, ":status: 100\n");
	talk("-DATA 1 1 61");
	collect(1);
	ck_assert_ptr_nonnull(strstr(got.fields, ":status: 200\n"));
	ck_assert(got.end);
	ck_sound();
}
END_TEST

/* A host that takes a message piece by piece gets each byte of it once. */
START_TEST(test_message_backpressure)
{
	static uint8_t frame[5005];

	sl_grpc_put_prefix(frame, 5000);
	for (size_t i = 5; i < sizeof(frame); i++)
		frame[i] = (uint8_t)('a' + i % 26);
	open_conn();
	m->body_max = 700;
	call(1, "/p.S/M");
	send_frame(0, 1, 1, sl_span_of(frame, sizeof(frame)));
	ck_assert_uint_eq(m->done, 1);
	ck_assert_ptr_nonnull(strstr(m->log, "0[5000]fghij"));
	ck_assert_mem_eq(strstr(m->log, "0[5000]") + 7, frame + 5, 5000);
	ck_sound();
}
END_TEST

static struct sl_stream *begin_reply(const char *head, uint64_t body_len)
{
	struct sl_reply r = {.status = 200, .body_len = body_len};
	struct sl_stream *st;

	open_conn();
	m->answer = MOCK_LATER;
	talk(head);
	m->out_len = 0;
	st = &mock_find(m, 0)->st;
	ck_assert_int_eq(m->ops->reply(m->state, &m->env, st, &r), 0);
	return st;
}

START_TEST(test_short_of_promise)
{
	struct sl_stream *st = begin_reply("-HEADERS 5 1 @get", 10);
	char frames[200];

	ck_assert_uint_eq(m->ops->more(m->state, &m->env, st, S("12345"), true), 5);
	summarize((uint8_t *)m->out, m->out_len, frames, sizeof(frames));
	ck_assert_str_eq(frames, "HEADERS 1; RST 1 2");
	ck_assert_uint_eq(m->cancelled, 1);
	ck_sound();
}
END_TEST

START_TEST(test_beyond_promise)
{
	struct sl_stream *st = begin_reply("-HEADERS 5 1 @get", 3);
	char frames[200];

	ck_assert_uint_eq(m->ops->more(m->state, &m->env, st, S("12345"), true), 5);
	summarize((uint8_t *)m->out, m->out_len, frames, sizeof(frames));
	ck_assert_str_eq(frames, "HEADERS 1; DATA 1 3 end");
	ck_sound();
}
END_TEST

/* Fields that are ours, or that one connection only is about, do not come from a backend. */
START_TEST(test_reply_fields)
{
	static const struct sl_header h[] = {
		{SL_SPAN_LIT("connection"), SL_SPAN_LIT("close")},
		{SL_SPAN_LIT("content-length"), SL_SPAN_LIT("77")},
		{SL_SPAN_LIT("transfer-encoding"), SL_SPAN_LIT("chunked")},
		{SL_SPAN_LIT(":status"), SL_SPAN_LIT("404")},
		{SL_SPAN_LIT("grpc-status"), SL_SPAN_LIT("3")},
		{SL_SPAN_LIT("x-own"), SL_SPAN_LIT("kept")},
	};

	open_conn();
	m->reply.headers = h;
	m->reply.header_cnt = 6;
	if (_i) {
		call(1, "/p.S/M");
		m->reply.grpc_status = 5; /* one block of headers, so that it can be looked at */
		ask(1, S("x"), true);
	} else {
		talk("-HEADERS 5 1 @get");
	}
	collect(1);
	ck_assert_ptr_null(strstr(got.fields, "connection"));
	ck_assert_ptr_null(strstr(got.fields, "77"));
	ck_assert_ptr_null(strstr(got.fields, "chunked"));
	ck_assert_ptr_null(strstr(got.fields, "404"));
	ck_assert_ptr_nonnull(strstr(got.fields, "x-own: kept\n"));
	ck_assert_int_eq(got.status, _i ? 5 : 3);
	ck_sound();
}
END_TEST

/* What an HTTP status means to a gRPC client. */
START_TEST(test_http_status)
{
	static const struct {
		uint16_t http, grpc;
	} cases[] = {
		{503, SL_GRPC_UNAVAILABLE}, {404, SL_GRPC_UNIMPLEMENTED}, {201, SL_GRPC_UNKNOWN}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open_conn();
		m->reply.status = cases[i].http;
		call(1, "/p.S/M");
		ask(1, S("x"), true);
		ck_got(1, S(""), cases[i].grpc);
		ck_sound();
	}
}
END_TEST

/* Bytes that nobody took belong to their stream, and go with it. */
START_TEST(test_stuck_stream_ends)
{
	struct bytes b = frames_of("-HEADERS 4 1 @post; DATA 0 1 100*61; HEADERS 5 3 @get");
	size_t used;

	open_conn();
	m->answer = MOCK_LATER;
	m->body_max = 0;
	used = mock_input(m, b.p, b.len);
	ck_assert_uint_lt(used, b.len);
	m->ops->abort(m->state, &m->env, &mock_find(m, 0)->st);
	ck_assert_uint_eq(m->done + m->cancelled, 1);
	m->body_max = SIZE_MAX;
	ck_assert_uint_eq(mock_input(m, b.p + used, b.len - used), b.len - used);
	ck_assert_uint_eq(m->begun, 2);
	free(b.p);
	ck_sound();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("h2_reply");
	TCase *t = tcase_create("core");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup_h2, teardown_h2);
	tcase_add_test(t, test_metadata);
	tcase_add_test(t, test_expect);
	tcase_add_test(t, test_message_backpressure);
	tcase_add_test(t, test_short_of_promise);
	tcase_add_test(t, test_beyond_promise);
	tcase_add_loop_test(t, test_reply_fields, 0, 2);
	tcase_add_test(t, test_http_status);
	tcase_add_test(t, test_stuck_stream_ends);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
