/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the gateway answers itself: health and reflection, byte by byte. */
#include "front/grpc.h"
#include "front/grpc_call.h"
#include "grpc_sets.h"
#include "grpc_talk.h"

#define CHECK   "/grpc.health.v1.Health/Check"
#define WATCH   "/grpc.health.v1.Health/Watch"
#define REFLECT "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define ALPHA   "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

static enum sl_serving state_of_a;

static enum sl_serving serving(void *arg, struct sl_span name)
{
	(void)arg;
	if (sl_span_eq(name, S("a")))
		return state_of_a;
	return name.len ? SL_SERVING_UNKNOWN : SL_SERVING_YES;
}

static void setup(void)
{
	static struct pb set;
	char err[300];

	setup_h2();
	pb_sample(&set);
	m->env.serving = serving;
	m->env.descriptors = sl_descriptors_parse(pb_span(&set), err, sizeof(err));
	ck_assert_ptr_nonnull(m->env.descriptors);
	state_of_a = SL_SERVING_YES;
}

static void teardown(void)
{
	struct sl_descriptors *d = (struct sl_descriptors *)m->env.descriptors;

	teardown_h2();
	sl_descriptors_free(d);
}

static void change(enum sl_serving to)
{
	state_of_a = to;
	sl_h2_env_serving_changed(h2env);
}

/* --- health --- */

START_TEST(test_check)
{
	static const struct {
		struct sl_span in; /* the stream's bytes */
		struct sl_span out;
		int status;
	} cases[] = {
		{SL_SPAN_LIT("\0\0\0\0\3\x0a\1a"), SL_SPAN_LIT("\0\0\0\0\2\x08\1"), 0},
		{SL_SPAN_LIT("\0\0\0\0\0"), SL_SPAN_LIT("\0\0\0\0\2\x08\1"), 0},
		{SL_SPAN_LIT("\0\0\0\0\5\x18\1\x0a\1a"), SL_SPAN_LIT("\0\0\0\0\2\x08\1"), 0},
		{SL_SPAN_LIT("\0\0\0\0\3\x0a\1b"), SL_SPAN_LIT(""), SL_GRPC_NOT_FOUND},
		{SL_SPAN_LIT("\0\0\0\0\3\x0a\2a"), SL_SPAN_LIT(""), SL_GRPC_NOT_FOUND},
		{SL_SPAN_LIT("\0\0\0\0\0\0\0\0\0\0"), SL_SPAN_LIT(""), SL_GRPC_UNIMPLEMENTED},
		{SL_SPAN_LIT("\0\0\0\0\0\0"), SL_SPAN_LIT(""), SL_GRPC_UNIMPLEMENTED},
		{SL_SPAN_LIT("\0\0\0\0\3\x0a\1"), SL_SPAN_LIT(""), SL_GRPC_INTERNAL},
		{SL_SPAN_LIT("\0\0\0"), SL_SPAN_LIT(""), SL_GRPC_INTERNAL},
		{SL_SPAN_LIT(""), SL_SPAN_LIT(""), SL_GRPC_UNIMPLEMENTED},
		{SL_SPAN_LIT("\1\0\0\0\0"), SL_SPAN_LIT(""), SL_GRPC_UNIMPLEMENTED},
		{SL_SPAN_LIT("\2\0\0\0\0"), SL_SPAN_LIT(""), SL_GRPC_INTERNAL},
		{SL_SPAN_LIT("\0\0\0\x20\1"), SL_SPAN_LIT(""), SL_GRPC_RESOURCE_EXHAUSTED},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (size_t step = 1; step < 12; step += 10) {
			open_conn();
			call(1, CHECK);
			for (size_t at = 0; at < cases[i].in.len; at += step)
				send_frame(0, 0, 1,
					   sl_span_first(sl_span_skip(cases[i].in, at), step));
			ck_got(1, S(""), -1); /* nothing before the end */
			send_frame(0, 1, 1, S(""));
			ck_got(1, cases[i].out, cases[i].status);
			ck_assert_uint_eq(m->begun, 0);
			ck_assert(m->ops->idle(m->state));
			ck_sound();
		}
	}
}
END_TEST

START_TEST(test_not_offered)
{
	const struct sl_descriptors *d = m->env.descriptors;

	open_conn();
	m->env.serving = NULL;
	m->env.descriptors = NULL;
	call(1, CHECK);
	call(3, WATCH);
	call(5, REFLECT);
	ck_assert_uint_eq(m->begun, 3); /* a route may know them */
	ck_sound();
	m->env.descriptors = d;
	open_conn();
	call(1, REFLECT "x");
	ck_assert_uint_eq(m->begun, 1);
	ck_sound();
}
END_TEST

START_TEST(test_watch)
{
	open_conn();
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	ck_got(1, S("\0\0\0\0\2\x08\1"), -1);
	ck_assert(m->ops->idle(m->state) && m->ops->waits(m->state));
	sl_h2_env_serving_changed(h2env); /* it has not */
	ck_got(1, S("\0\0\0\0\2\x08\1"), -1);
	change(SL_SERVING_NO);
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2"), -1);
	change(SL_SERVING_UNKNOWN);
	change(SL_SERVING_YES);
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2\0\0\0\0\2\x08\3\0\0\0\0\2\x08\1"), -1);
	talk("-RST 0 1 00000008");
	ck_assert(m->ops->idle(m->state) && !m->ops->waits(m->state));
	change(SL_SERVING_NO);
	ck_sound();
}
END_TEST

/* What the client has no room for is not piled up: it hears the last status. */
START_TEST(test_watch_window)
{
	mock_open(m);
	talk("SETTINGS 0 0 000400000003");
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	ck_got(1, S("\0\0\0"), -1);
	ck_assert(!m->ops->idle(m->state));
	change(SL_SERVING_NO);
	change(SL_SERVING_YES);
	change(SL_SERVING_NO);
	talk("-WINDOW 0 1 00001000");
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2"), -1);
	ck_sound();
}
END_TEST

START_TEST(test_watch_drain)
{
	open_conn();
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	call(3, REFLECT);
	call(5, WATCH);
	ask(5, S("\x0a\1b"), true);
	call(7, WATCH); /* whose request is still to come */
	m->env.draining = true;
	state_of_a = SL_SERVING_NO;
	m->ops->drain(m->state, &m->env);
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2"), SL_GRPC_UNAVAILABLE);
	ck_got(3, S(""), SL_GRPC_UNAVAILABLE);
	ck_got(5, S("\0\0\0\0\2\x08\3"), SL_GRPC_UNAVAILABLE);
	ck_got(7, S(""), -1);
	ask(7, S("\x0a\1a"), true);
	ck_got(7, S("\0\0\0\0\2\x08\2"), SL_GRPC_UNAVAILABLE);
	ck_assert_uint_eq(m->closed, 0);
	talk("-PING 1 0 736c647261696e00");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}
END_TEST

START_TEST(test_bounded)
{
	open_conn();
	for (uint32_t i = 0; i < 9; i++) {
		call(2 * i + 1, WATCH);
		ask(2 * i + 1, S("\x0a\1a"), true);
	}
	ck_got(15, S("\0\0\0\0\2\x08\1"), -1);
	ck_got(17, S(""), SL_GRPC_RESOURCE_EXHAUSTED);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_EXCHANGE], 1);
	talk("-RST 0 1 00000008");
	call(19, WATCH);
	ask(19, S("\x0a\1a"), true);
	ck_got(19, S("\0\0\0\0\2\x08\1"), -1);
	ck_sound();
}
END_TEST

/* The end of the client's side ends a watch, and what waits; answers go out. */
START_TEST(test_eof)
{
	open_conn();
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	call(3, REFLECT);
	m->ops->eof(m->state, &m->env);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}
END_TEST

/* --- reflection --- */

/* The answer to a request for field `no` with this text, in front of what follows it. */
static struct sl_span expect(struct pb *b, uint32_t no, struct sl_span text, uint32_t answer,
			     struct sl_span body)
{
	static struct pb request, all;

	request.len = all.len = 0;
	pb_bytes(&request, no, text);
	pb_bytes(&all, 2, pb_span(&request));
	pb_bytes(&all, answer, body);
	sl_grpc_put_prefix(b->p + b->len, (uint32_t)all.len);
	memcpy(b->p + b->len + SL_GRPC_PREFIX, all.p, all.len);
	b->len += SL_GRPC_PREFIX + all.len;
	return pb_span(b);
}

static struct sl_span expect_file(struct pb *b, uint32_t no, struct sl_span text, const char *file)
{
	static struct pb body;
	struct sl_span proto;

	body.len = 0;
	ck_assert(sl_descriptors_file(m->env.descriptors, sl_span_cstr(file), &proto));
	pb_bytes(&body, 1, proto);
	return expect(b, no, text, 4, pb_span(&body));
}

static struct sl_span expect_error(struct pb *b, uint32_t no, struct sl_span text, unsigned code,
				   const char *why)
{
	static struct pb body;

	body.len = 0;
	pb_number(&body, 1, code);
	pb_text(&body, 2, why);
	return expect(b, no, text, 7, pb_span(&body));
}

static void reflect(uint32_t id, uint32_t no, struct sl_span text, bool end)
{
	static struct pb b;

	b.len = 0;
	pb_bytes(&b, no, text);
	ask(id, pb_span(&b), end);
}

START_TEST(test_reflect)
{
	static const struct sl_span ext = SL_SPAN_LIT("\x0a\3p.M\x10\x08");
	static struct pb want;
	struct sl_span numbers;

	want.len = 0;
	open_conn();
	call(1, _i ? REFLECT : ALPHA);
	ck_assert(m->ops->idle(m->state) && !m->ops->waits(m->state));
	reflect(1, 7, S(""), false);
	ck_got(1, expect(&want, 7, S(""), 6, sl_descriptors_services(m->env.descriptors)), -1);
	ck_assert(m->ops->idle(m->state));
	reflect(1, 3, S("b.proto"), false);
	ck_got(1, expect_file(&want, 3, S("b.proto"), "b.proto"), -1);
	reflect(1, 4, S("p.S.Do"), false);
	ck_got(1, expect_file(&want, 4, S("p.S.Do"), "a.proto"), -1);
	reflect(1, 5, ext, false);
	ck_got(1, expect_file(&want, 5, ext, "b.proto"), -1);
	reflect(1, 6, S("p.M"), false);
	ck_assert(sl_descriptors_extension_numbers(m->env.descriptors, S("p.M"), &numbers));
	ck_got(1, expect(&want, 6, S("p.M"), 5, numbers), -1);
	reflect(1, 4, S("p.T"), false);
	ck_got(1, expect_error(&want, 4, S("p.T"), 5, "no descriptor set has it"), -1);
	reflect(1, 5, S("\x0a\3p.M\x10"), false);
	ck_got(1, expect_error(&want, 5, S("\x0a\3p.M\x10"), 5, "no descriptor set has it"), -1);
	reflect(1, 8, S("x"), true);
	ck_got(1, expect_error(&want, 8, S("x"), 3, "nothing known is asked for"), 0);
	ck_assert_uint_eq(m->begun, 0);
	ck_sound();
}
END_TEST

START_TEST(test_reflect_host)
{
	static const struct sl_span want = SL_SPAN_LIT("\x0a\1h\x12\7\x0a\1h\x1a\2zz");

	open_conn();
	call(1, REFLECT);
	ask(1, S("\x0a\1h\x1a\2zz"), true);
	collect(1);
	ck_assert_mem_eq(got.data + SL_GRPC_PREFIX, want.ptr, want.len);
	ck_assert_uint_eq(sl_get_be32(got.data + 1), got.len - 5);
	ck_sound();
}
END_TEST

START_TEST(test_reflect_refused)
{
	open_conn();
	call(1, REFLECT);
	ask(1, S("\xff"), false);
	ck_got(1, S(""), SL_GRPC_INVALID_ARGUMENT);
	call(3, REFLECT);
	send_frame(0, 0, 3, S("\0\0\0\x20\1"));
	ck_got(3, S(""), SL_GRPC_RESOURCE_EXHAUSTED);
	call(5, REFLECT);
	send_frame(0, 0, 5, S("\1\0\0\0\0"));
	ck_got(5, S(""), SL_GRPC_UNIMPLEMENTED);
	call(7, REFLECT);
	send_frame(0, 1, 7, S("\0\0\0\0\1"));
	ck_got(7, S(""), SL_GRPC_INTERNAL);
	call(9, REFLECT);
	send_frame(0, 1, 9, S(""));
	ck_got(9, S(""), 0);
	/* What has come of a head or message is under way. */
	call(11, REFLECT);
	send_frame(0, 0, 11, S("\0\0"));
	ck_assert(!m->ops->idle(m->state));
	ck_sound();
}
END_TEST

/* Requests that come while an answer waits for the window: none is lost, none is mixed up. */
START_TEST(test_reflect_ahead)
{
	static struct pb want;
	uint8_t part[500];
	char name[32];

	want.len = 0;
	memset(part, 0xff, sizeof(part));
	sl_grpc_put_prefix(part, 8000);
	mock_open(m);
	talk("SETTINGS 0 0 000400000000");
	call(1, REFLECT);
	for (unsigned i = 0; i < 400; i++) {
		int n = snprintf(name, sizeof(name), i % 2 ? "nothing.%u" : "p.M.x7", i);
		struct sl_span text = sl_span_of(name, (size_t)n);

		reflect(1, 4, text, i == 399);
		if (i == 60) { /* another one uses what the first has left when it had to grow */
			call(3, REFLECT);
			send_frame(0, 0, 3, sl_span_of(part, sizeof(part)));
		}
		if (i % 2)
			expect_error(&want, 4, text, 5, "no descriptor set has it");
		else
			expect_file(&want, 4, text, "a.proto");
	}
	ck_got(1, S(""), -1);
	for (int i = 0; i < 2000 && !got.end; i++) {
		talk("-WINDOW 0 1 00000040; WINDOW 0 0 00000040");
		collect(1);
	}
	ck_got(1, pb_span(&want), 0);
	ck_sound();
}
END_TEST

START_TEST(test_reflect_too_far_ahead)
{
	static const uint8_t junk[8000];
	unsigned n = 0;

	mock_open(m);
	talk("SETTINGS 0 0 000400000000");
	m->limits.max_message = 100; /* concerns other calls */
	call(1, REFLECT);
	for (got.end = false; n < 20 && !got.end; n++) {
		reflect(1, 4, sl_span_of(junk, sizeof(junk)), false);
		talk("-WINDOW 0 0 00000010");
		collect(1);
		if (m->errors[SL_FRONT_ERR_GRPC_MESSAGE])
			break;
	}
	ck_assert_uint_eq(n, 8); /* 65408 / 8009 */
	talk("-WINDOW 0 1 00100000; WINDOW 0 0 00100000");
	collect(1);
	ck_assert_int_eq(got.status, SL_GRPC_RESOURCE_EXHAUSTED);
	ck_sound();
}
END_TEST

/* --- replies in parts --- */

START_TEST(test_trailers_last)
{
	static const struct sl_header t[] = {{SL_SPAN_LIT("x-a"), SL_SPAN_LIT("b")},
					     {SL_SPAN_LIT("x-b-bin"), SL_SPAN_LIT("\0\1")}};
	struct sl_reply r = {.status = 200, .body_len = SL_LEN_UNKNOWN}, last = {.status = 200};
	struct sl_stream *st;

	open_conn();
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	ask(1, S("x"), true);
	st = &mock_find(m, 0)->st;
	ck_assert_int_eq(m->ops->reply(m->state, &m->env, st, &r), 0);
	ck_assert_uint_eq(m->ops->more(m->state, &m->env, st, S("\0\0\0\0\1z"), false), 6);
	last.grpc_status = _i ? 9 : 0;
	last.grpc_message = S("m");
	last.trailers = t;
	last.trailer_cnt = 2;
	m->ops->trailers(m->state, &m->env, st, &last);
	ck_got(1, S("\0\0\0\0\1z"), -1);
	ck_assert_uint_eq(m->ops->more(m->state, &m->env, st, S(""), true), 0);
	ck_got(1, S("\0\0\0\0\1z"), _i ? 9 : 0);
	ck_assert_ptr_nonnull(strstr(got.fields, _i ? "grpc-status: 9\ngrpc-message: m\n"
						      "x-a: b\nx-b-bin: AAE\n"
						    : "grpc-status: 0\ngrpc-message: m\n"
						      "x-a: b\nx-b-bin: AAE\n"));
	ck_assert_uint_eq(m->done, 1);
	ck_sound();
}
END_TEST

/* A reply that breaks off says why, whatever its backend wanted to say at the end. */
START_TEST(test_broken_off)
{
	struct sl_reply r = {.status = 200, .body_len = SL_LEN_UNKNOWN}, last = {.status = 200};
	struct sl_stream *st;

	open_conn();
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	ask(1, S("x"), true);
	st = &mock_find(m, 0)->st;
	ck_assert_int_eq(m->ops->reply(m->state, &m->env, st, &r), 0);
	m->ops->trailers(m->state, &m->env, st, &last);
	if (_i) {
		last = (struct sl_reply){.status = 504, .grpc_status = 4, .gateway = true};
		m->ops->trailers(m->state, &m->env, st, &last);
	}
	m->ops->abort(m->state, &m->env, st);
	ck_got(1, S(""), _i ? 4 : SL_GRPC_UNAVAILABLE);
	ck_sound();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("grpc_call");
	TCase *t = tcase_create("core");
	SRunner *r = srunner_create(s);
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, test_check);
	tcase_add_test(t, test_not_offered);
	tcase_add_test(t, test_watch);
	tcase_add_test(t, test_watch_window);
	tcase_add_test(t, test_watch_drain);
	tcase_add_test(t, test_bounded);
	tcase_add_test(t, test_eof);
	tcase_add_loop_test(t, test_reflect, 0, 2);
	tcase_add_test(t, test_reflect_host);
	tcase_add_test(t, test_reflect_refused);
	tcase_add_test(t, test_reflect_ahead);
	tcase_add_test(t, test_reflect_too_far_ahead);
	tcase_add_loop_test(t, test_trailers_last, 0, 2);
	tcase_add_loop_test(t, test_broken_off, 0, 2);
	suite_add_tcase(s, t);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
