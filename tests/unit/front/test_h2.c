/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connections: requests as the host sees them, windows, floods, ends. */
#include "front/grpc.h"
#include "h2_talk.h"

static void ck_frames(const char *want)
{
	char got[4096];

	summarize((uint8_t *)m->out, m->out_len, got, sizeof(got));
	ck_assert_str_eq(got, want);
	m->out_len = 0;
}

static void ck_log(const char *want)
{
	ck_assert_str_eq(m->log, want);
	m->log_len = 0;
}

START_TEST(test_request)
{
	mock_open(m);
	/* :path /a?q=1, x: y, priority: u=1, cookie a=b and c=d */
	talk("HEADERS 4 1 8386 0406 2f613f713d31 410161 40017801 79 40087072696f7269747903753d31"
	     "0f1103613d62 0f1103633d64; DATA 0 1 6162; DATA 1 1 63");
	ck_log("POST /a?q=1 @a u=1 x:(y)\n0[3]abc end\n");
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_assert_uint_eq(m->done, 1);
	talk("-HEADERS 5 3 @get");
	ck_log("GET / @a end\n");
	ck_sound();
}
END_TEST

START_TEST(test_interleaved)
{
	mock_open(m);
	m->echo = true;
	talk("HEADERS 4 1 @post; HEADERS 4 3 @post; DATA 0 3 6161; DATA 0 1 62; DATA 1 3; DATA 1 1 "
	     "62");
	ck_frames("HEADERS 3; HEADERS 1; DATA 1 2 end; DATA 3 2 end");
	ck_sound();
}
END_TEST

/* What the client's window does not take stays with the host, and goes on with it. */
START_TEST(test_window)
{
	mock_open(m);
	m->reply.body = sl_span_str("0123456789");
	talk("SETTINGS 0 0 000400000004; HEADERS 5 1 @get");
	ck_frames("HEADERS 1; DATA 1 4");
	talk("-WINDOW 0 1 00000003");
	ck_frames("DATA 1 3");
	ck_assert_uint_eq(m->done, 0);
	talk("-WINDOW 0 1 00000010");
	ck_frames("DATA 1 3 end");
	ck_assert_uint_eq(m->done, 1);
	ck_sound();
}
END_TEST

START_TEST(test_room)
{
	mock_open(m);
	talk("");
	m->out_len = 0;
	m->room = 20;
	m->reply.body = sl_span_str("0123456789");
	talk("-HEADERS 5 1 @get");
	ck_assert_uint_eq(m->out_len, 20);
	for (int i = 0; i < 200 && !m->done; i++) {
		m->room = 3;
		m->ops->writable(m->state, &m->env);
	}
	m->room = SIZE_MAX;
	m->ops->writable(m->state, &m->env);
	ck_frames("HEADERS 1; DATA 1 10 end");
	ck_sound();
}
END_TEST

/* A host that takes less is offered the rest, and each byte once. */
START_TEST(test_backpressure)
{
	struct bytes b =
		frames_of("HEADERS 4 1 @post; DATA 0 1 16384*61; DATA 8 1 05 1000*62 0000000000;"
			  "DATA 1 1 3*63");

	mock_open(m);
	m->body_max = 1000;
	ck_assert_uint_eq(mock_input(m, b.p, b.len), b.len);
	ck_assert_uint_eq(m->done, 1);
	ck_assert_ptr_nonnull(strstr(m->log, "0[17387]aaaa"));
	ck_assert_ptr_nonnull(strstr(m->log, "abbbb"));
	ck_assert_ptr_nonnull(strstr(m->log, "bccc end"));
	free(b.p);
	ck_sound();
}
END_TEST

START_TEST(test_abort)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get; HEADERS 5 3 @get");
	m->ops->abort(m->state, &m->env, &mock_find(m, 0)->st);
	ck_frames("HEADERS 1 end");
	m->in_parts = true;
	m->reply.body_len = SL_LEN_UNKNOWN;
	struct sl_reply r = {.status = 200, .body = sl_span_str("x"), .body_len = SL_LEN_UNKNOWN};
	ck_assert_int_eq(m->ops->reply(m->state, &m->env, &mock_find(m, 1)->st, &r), 1);
	m->ops->abort(m->state, &m->env, &mock_find(m, 1)->st);
	ck_frames("HEADERS 3; DATA 3 1; RST 3 2");
	ck_sound();
}
END_TEST

START_TEST(test_reset_cancels)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get; RST 0 1 00000008");
	ck_assert_uint_eq(m->cancelled, 1);
	ck_sound();
}
END_TEST

START_TEST(test_rapid_reset)
{
	uint32_t id = 1;
	char text[64];

	mock_open(m);
	talk("");
	for (; id < 4000 && !m->closed; id += 2) {
		snprintf(text, sizeof(text), "-HEADERS 5 %x @get; RST 0 %x 00000008", id, id);
		talk(text);
	}
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_gt(id, 1900); /* ten seconds' worth may come at once */
	ck_assert_uint_lt(id, 2100);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_H2_FLOOD], 1);
	ck_sound();
}
END_TEST

START_TEST(test_flood)
{
	static const char *const frames[] = {"-PING 0 0 8*00", "-SETTINGS 0 0", "-DATA 0 1",
					     "-PRIORITY 0 1 0000000010"};
	int n = 0;

	mock_open(m);
	m->limits.max_resets_per_s = 10;
	talk("HEADERS 4 1 @post");
	for (; n < 5000 && !m->closed; n++)
		talk(frames[_i]);
	m->limits.max_resets_per_s = 100;
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_int_gt(n, 900);
	ck_assert_int_lt(n, 1100);
	ck_sound();
}
END_TEST

START_TEST(test_too_many_streams)
{
	mock_open(m);
	m->limits.max_streams = 100;
	m->answer = MOCK_LATER;
	talk("");
	for (uint32_t i = 0; i < 110; i++) {
		char text[64];

		if (i == MOCK_STREAMS)
			m->out_len = 0;
		snprintf(text, sizeof(text), "-HEADERS 5 %x @get", 2 * i + 1);
		talk(text);
	}
	/* The host has no exchange for the last of the hundred; what is beyond is refused. */
	ck_assert_uint_eq(m->begun, MOCK_STREAMS);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_EXCHANGE], 110 - MOCK_STREAMS);
	ck_sound();
}
END_TEST

START_TEST(test_head_too_large)
{
	mock_open(m);
	talk("HEADERS 1 1 @get 4001787f817f 8000*61; CONTINUATION 4 1 4001797f817f 9000*61");
	ck_frames("GOAWAY 9"); /* the announced length is not there */
	ck_sound();
	mock_open(m); /* 16000 and 1000 bytes: 431 */
	talk("HEADERS 1 1 @get 400178 7f817c 16000*61; CONTINUATION 4 1 400179 7fe906 1000*61");
	ck_frames("HEADERS 1; DATA 1 36 end");
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_HEAD_TOO_LARGE], 1);
	ck_assert_uint_eq(m->begun, 0);
	ck_sound();
}
END_TEST

/* RFC 9113 6.8: notice, then the number that counts, then the end. */
START_TEST(test_drain)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get");
	m->out_len = 0;
	m->ops->drain(m->state, &m->env);
	ck_assert_uint_eq(sl_get_be32(m->out + 9), INT32_MAX);
	ck_frames("GOAWAY 0");
	talk("-HEADERS 5 3 @get; PING 1 0 736c647261696e00");
	ck_assert_uint_eq(sl_get_be32(m->out + 9), 3);
	ck_frames("GOAWAY 0");
	ck_assert_uint_eq(m->closed, 0);
	mock_answer(mock_find(m, 0));
	mock_answer(mock_find(m, 1));
	ck_frames("HEADERS 1; DATA 1 2 end; HEADERS 3; DATA 3 2 end");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}
END_TEST

START_TEST(test_ends)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get; HEADERS 4 3 @post");
	ck_assert(!m->ops->idle(m->state));
	m->ops->eof(m->state, &m->env); /* the half request never comes */
	ck_assert_uint_eq(m->cancelled, 1);
	mock_answer(mock_find(m, 0));
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 4 1 @post");
	m->ops->timeout(m->state, &m->env);
	ck_frames("GOAWAY 0");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	mock_open(m);
	ck_assert(!m->ops->idle(m->state)); /* the preface is awaited */
	talk("");
	ck_assert(m->ops->idle(m->state));
	ck_sound();
}
END_TEST

START_TEST(test_refused_upload)
{
	mock_open(m);
	m->answer = MOCK_IN_BODY;
	talk("HEADERS 4 1 @post; DATA 0 1 6162; DATA 0 1 6162");
	ck_frames("HEADERS 1; DATA 1 2 end; RST 1 0");
	ck_assert_uint_eq(m->done, 1);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_IN_BEGIN;
	talk("HEADERS 4 1 @post; DATA 0 1 6162");
	ck_frames("HEADERS 1; DATA 1 2 end; RST 1 0");
	ck_sound();
}
END_TEST

START_TEST(test_memory_is_bounded)
{
	struct sl_h2_mem mem;
	struct sl_h2_budget b;
	void *p[64];
	int n = 0;

	ck_assert_int_eq(sl_h2_mem_init(&mem, 1 << 20), 0);
	sl_h2_budget_init(&b, &mem, 100000);
	while (n < 64 && (p[n] = b.mem.malloc(4000, &b)))
		memset(p[n++], 0xff, 4000);
	ck_assert_int_eq(n, 24); /* of 4096 each */
	while (n)
		b.mem.free(p[--n], &b);
	ck_assert_uint_eq(mem.used, 0);
	p[0] = b.mem.calloc(10, 10, &b);
	memset(p[0], 7, 100);
	p[1] = b.mem.realloc(p[0], 5000, &b);
	ck_assert_ptr_nonnull(p[1]);
	ck_assert_mem_eq(p[1], "\7\7\7\7\7\7\7\7", 8);
	ck_assert_ptr_null(b.mem.calloc(SIZE_MAX, 2, &b));
	ck_assert_ptr_null(b.mem.malloc(1 << 20, &b));
	b.mem.free(p[1], &b);
	sl_h2_mem_fini(&mem);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("h2");
	TCase *t = tcase_create("core");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup_h2, teardown_h2);
	tcase_add_test(t, test_request);
	tcase_add_test(t, test_interleaved);
	tcase_add_test(t, test_window);
	tcase_add_test(t, test_room);
	tcase_add_test(t, test_backpressure);
	tcase_add_test(t, test_abort);
	tcase_add_test(t, test_reset_cancels);
	tcase_add_test(t, test_rapid_reset);
	tcase_add_loop_test(t, test_flood, 0, 4);
	tcase_add_test(t, test_too_many_streams);
	tcase_add_test(t, test_head_too_large);
	tcase_add_test(t, test_drain);
	tcase_add_test(t, test_ends);
	tcase_add_test(t, test_refused_upload);
	tcase_add_test(t, test_memory_is_bounded);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
