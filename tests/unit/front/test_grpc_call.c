/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the gateway answers itself: health and reflection, byte by byte. */
#include "front/grpc/grpc.h"
#include "front/grpc/call.h"
#include "grpc_sets.h"
#include "grpc_talk.h"
#include "suite.h"

#define CHECK   "/grpc.health.v1.Health/Check"
#define WATCH   "/grpc.health.v1.Health/Watch"
#define REFLECT "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
#define ALPHA   "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"

static enum sl_serving state_of_a;

/* Pools a and b.B, the routes "/b.B/" and "/c.C". */
static enum sl_serving serving(void *arg, enum sl_asked what, struct sl_span name)
{
	(void)arg;
	switch (what) {
	case SL_ASKED_ALL: return name.len ? SL_SERVING_UNKNOWN : SL_SERVING_YES;
	case SL_ASKED_POOL:
		if (sl_span_eq(name, S("b.B")))
			return SL_SERVING_YES;
		return sl_span_eq(name, S("a")) ? state_of_a : SL_SERVING_UNKNOWN;
	case SL_ASKED_ROUTE:
		if (sl_span_eq(name, S("/b.B/")))
			return SL_SERVING_NO;
		return sl_span_eq(name, S("/c.C")) ? SL_SERVING_YES : SL_SERVING_UNKNOWN;
	}
	return SL_SERVING_UNKNOWN;
}

static void setup(void)
{
	static struct pb set;
	struct sl_err err = SL_ERR(300);

	setup_h2();
	pb_sample(&set);
	m->env.serving = serving;
	m->env.descriptors = sl_descriptors_parse(pb_span(&set), &err);
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

FIXTURE(setup, teardown)

TEST(each_health_check_has_its_answer)
{
	static const struct {
		struct sl_span in; /* the stream's bytes */
		struct sl_span out;
		int status;
	} cases[] = {
		{SL_SPAN_LIT("\0\0\0\0\3\x0a\1a"), SL_SPAN_LIT("\0\0\0\0\2\x08\1"), 0},
		{SL_SPAN_LIT("\0\0\0\0\0"), SL_SPAN_LIT("\0\0\0\0\2\x08\1"), 0},
		{SL_SPAN_LIT("\0\0\0\0\5\x18\1\x0a\1a"), SL_SPAN_LIT("\0\0\0\0\2\x08\1"), 0},
		/* A service's route says more than a pool of that name; both ways to write it count. */
		{SL_SPAN_LIT("\0\0\0\0\5\x0a\3b.B"), SL_SPAN_LIT("\0\0\0\0\2\x08\2"), 0},
		{SL_SPAN_LIT("\0\0\0\0\5\x0a\3c.C"), SL_SPAN_LIT("\0\0\0\0\2\x08\1"), 0},
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
			ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
			ck_sound();
		}
	}
}

TEST(services_of_others_go_to_the_routes)
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

static struct sl_span route; /* the only one */

static bool routed(void *arg, const struct sl_request *rq, struct sl_span service)
{
	(void)arg;
	ck_assert(sl_span_eq(sl_span_first(rq->path, service.len), service));
	return sl_span_eq(service, route);
}

TEST(a_service_that_a_route_names_is_not_answered_here)
{
	m->env.routed = routed;
	route = S("/grpc.health.v1.Health");
	open_conn();
	call(1, CHECK);
	call(3, WATCH);
	ck_assert_uint_eq(m->begun, 2);
	call(5, REFLECT);
	call(7, ALPHA);
	ck_assert_uint_eq(m->begun, 2);
	ck_sound();
	route = S("/grpc.reflection.v1.ServerReflection");
	open_conn();
	call(1, REFLECT);
	ck_assert_uint_eq(m->begun, 1);
	call(3, ALPHA);
	call(5, CHECK);
	ck_assert_uint_eq(m->begun, 1);
	ck_sound();
}

TEST(a_watch_hears_each_change_once)
{
	open_conn();
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	ck_got(1, S("\0\0\0\0\2\x08\1"), -1);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_TELLS);
	sl_h2_env_serving_changed(h2env); /* it has not */
	ck_got(1, S("\0\0\0\0\2\x08\1"), -1);
	change(SL_SERVING_NO);
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2"), -1);
	change(SL_SERVING_UNKNOWN);
	change(SL_SERVING_YES);
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2\0\0\0\0\2\x08\3\0\0\0\0\2\x08\1"), -1);
	talk("-RST 0 1 00000008");
	ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
	change(SL_SERVING_NO);
	ck_sound();
}

/* Statuses that find no room are skipped: the client gets the last one. */
TEST(a_watch_without_room_hears_the_last_status)
{
	mock_open(m);
	talk("SETTINGS 0 0 000400000003");
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	ck_got(1, S("\0\0\0"), -1);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_BUSY);
	change(SL_SERVING_NO);
	change(SL_SERVING_YES);
	change(SL_SERVING_NO);
	talk("-WINDOW 0 1 00001000");
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2"), -1);
	ck_sound();
}

TEST(a_watch_ends_when_the_gateway_drains)
{
	open_conn();
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	call(3, REFLECT);
	call(5, WATCH);
	ask(5, S("\x0a\1b"), true);
	call(7, WATCH); /* its request comes later */
	m->env.draining = true;
	state_of_a = SL_SERVING_NO;
	mock_drain(m);
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\2"), SL_GRPC_UNAVAILABLE);
	ck_got(3, S(""), SL_GRPC_UNAVAILABLE);
	ck_got(5, S("\0\0\0\0\2\x08\3"), SL_GRPC_UNAVAILABLE);
	ck_got(7, S(""), -1);
	ask(7, S("\x0a\1a"), true);
	ck_got(7, S("\0\0\0\0\2\x08\2"), SL_GRPC_UNAVAILABLE);
	ck_assert_uint_eq(m->closed, 0);
	talk("-" EARLY_SEEN "; PING 1 0 736c647261696e00");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

static void watch(uint32_t id, int status)
{
	call(id, WATCH);
	ask(id, S("\x0a\1a"), true);
	ck_got(id, status < 0 ? S("\0\0\0\0\2\x08\1") : S(""), status);
}

static void check(uint32_t id)
{
	call(id, CHECK);
	ask(id, S("\x0a\1a"), true);
	ck_got(id, S("\0\0\0\0\2\x08\1"), 0);
}

TEST(a_connection_has_so_many_calls_of_the_gateways_own)
{
	open_conn();
	for (uint32_t id = 1; id < 9; id += 2)
		watch(id, -1);
	watch(9, SL_GRPC_RESOURCE_EXHAUSTED);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_EXCHANGE], 1);
	check(11);
	talk("-RST 0 1 00000008");
	watch(13, -1);
	watch(15, SL_GRPC_RESOURCE_EXHAUSTED);
	ck_sound();
}

/* Other connections, which stay open beside the tested one. */
static void leave_open(uint64_t state[SL_FRONT_STATE_SIZE / 8])
{
	memcpy(state, m->state, sizeof(m->state));
}

TEST(an_address_has_so_many_calls_of_the_gateways_own)
{
	uint64_t others[3][SL_FRONT_STATE_SIZE / 8];

	for (unsigned i = 0; i < 3; i++) { /* 4 and 4 of the first source, 4 of the other */
		if (i == 2) {              /* still available, but not to the first */
			open_conn();
			watch(1, SL_GRPC_RESOURCE_EXHAUSTED);
			ck_sound();
		}
		m->source = i / 2;
		open_conn();
		for (uint32_t id = 1; id < 9; id += 2)
			watch(id, -1);
		leave_open(others[i]);
	}
	m->source = 0;
	open_conn();
	watch(1, SL_GRPC_RESOURCE_EXHAUSTED);
	call(3, REFLECT);
	ck_got(3, S(""), SL_GRPC_RESOURCE_EXHAUSTED);
	for (uint32_t id = 5; id < 45; id += 2)
		check(id);
	ck_sound();
	m->source = 2; /* all of the pool is taken */
	open_conn();
	watch(1, SL_GRPC_RESOURCE_EXHAUSTED);
	check(3);
	ck_sound();
	m->ops->close(others[0], &m->env);
	open_conn();
	watch(1, -1);
	ck_sound();
	m->source = 0;
	open_conn();
	watch(1, -1);
	ck_sound();
	m->ops->close(others[1], &m->env);
	m->ops->close(others[2], &m->env);
}

/* A client that will ask for no more is let go with the last thing that it waits for. */
TEST(the_end_of_the_last_watch_ends_a_connection_that_its_client_leaves)
{
	open_conn();
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	talk("-GOAWAY 0 0 0000000000000000");
	ck_assert_uint_eq(m->closed, 0);
	m->env.draining = true;
	change(SL_SERVING_UNKNOWN);
	ck_got(1, S("\0\0\0\0\2\x08\1\0\0\0\0\2\x08\3"), SL_GRPC_UNAVAILABLE);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

/* The end of the client's side ends a watch, and what waits; answers go out. */
TEST(the_end_of_the_clients_side_ends_a_watch)
{
	open_conn();
	call(1, WATCH);
	ask(1, S("\x0a\1a"), true);
	call(3, REFLECT);
	mock_eof(m);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

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

TEST_EACH(reflection_answers_each_question, 2)
{
	static const struct sl_span ext = SL_SPAN_LIT("\x0a\3p.M\x10\x08");
	static struct pb want;
	struct sl_span numbers;

	want.len = 0;
	open_conn();
	call(1, _i ? REFLECT : ALPHA);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
	reflect(1, 7, S(""), false);
	ck_got(1, expect(&want, 7, S(""), 6, sl_descriptors_services(m->env.descriptors)), -1);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
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
	ck_got(1, expect_error(&want, 4, S("p.T"), 5, "not found in the descriptor sets"), -1);
	reflect(1, 5, S("\x0a\3p.M\x10"), false);
	ck_got(1, expect_error(&want, 5, S("\x0a\3p.M\x10"), 5, "not found in the descriptor sets"),
	       -1);
	reflect(1, 8, S("x"), true);
	ck_got(1, expect_error(&want, 8, S("x"), 3, "unknown kind of request"), 0);
	ck_assert_uint_eq(m->begun, 0);
	ck_sound();
}

TEST(reflection_gives_the_host_back)
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

TEST(reflection_refuses_malformed_requests)
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
	/* A partial head or message counts as work under way. */
	call(11, REFLECT);
	send_frame(0, 0, 11, S("\0\0"));
	ck_assert(m->ops->rest(m->state) == SL_FRONT_BUSY);
	ck_sound();
}

/* Requests that come while an answer waits for the window: none is lost, none is mixed up. */
TEST(questions_that_come_ahead_are_answered_in_order)
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
			expect_error(&want, 4, text, 5, "not found in the descriptor sets");
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

TEST(a_client_that_asks_too_far_ahead_is_refused)
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

/* --- replies in parts --- */

/* A call whose reply has begun. */
static struct mock_stream *begin_stream(void)
{
	struct sl_reply r = {.status = 200, .body_len = SL_LEN_UNKNOWN};
	struct mock_stream *s;

	open_conn();
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	ask(1, S("x"), true);
	s = mock_find(m, 0);
	mock_head(s, &r);
	return s;
}

TEST_EACH(trailers_come_behind_the_last_byte, 2)
{
	static const struct sl_header t[] = {{SL_SPAN_LIT("x-a"), SL_SPAN_LIT("b")},
					     {SL_SPAN_LIT("x-b-bin"), SL_SPAN_LIT("\0\1")}};
	struct sl_reply last = {.status = 200};
	struct mock_stream *s = begin_stream();

	mock_message(s, 1);
	mock_bytes(s, S("z"));
	last.grpc_status = _i ? 9 : 0;
	last.grpc_message = S("m");
	last.trailers = t;
	last.trailer_cnt = 2;
	ck_got(1, S("\0\0\0\0\1z"), -1);
	mock_end(s, &last);
	ck_got(1, S("\0\0\0\0\1z"), _i ? 9 : 0);
	ck_assert_ptr_nonnull(strstr(got.fields, _i ? "grpc-status: 9\ngrpc-message: m\n"
						      "x-a: b\nx-b-bin: AAE\n"
						    : "grpc-status: 0\ngrpc-message: m\n"
						      "x-a: b\nx-b-bin: AAE\n"));
	ck_assert_uint_eq(m->done, 1);
	ck_sound();
}

/* Messages that wait for the client's window keep their borders. */
TEST(messages_that_wait_keep_their_borders)
{
	struct mock_stream *s = begin_stream();

	talk("-SETTINGS 0 0 000400000000");
	for (int i = 0; i < 3; i++) {
		mock_message(s, (uint64_t)i);
		mock_bytes(s, sl_span_first(S("ab"), (size_t)i));
	}
	mock_end(s, NULL);
	ck_got(1, S(""), -1);
	for (int i = 0; i < 20; i++)
		talk("-WINDOW 0 1 00000001");
	ck_got(1, S("\0\0\0\0\0\0\0\0\0\1a\0\0\0\0\2ab"), 0);
	ck_sound();
}

/* A reply that breaks off says why, whatever its backend wanted to say at the end. */
TEST_EACH(a_reply_that_breaks_off_says_why, 2)
{
	struct mock_stream *s = begin_stream();

	mock_break(s, _i ? SL_OUTCOME_EXPIRED : SL_OUTCOME_BACKEND_LOST);
	ck_got(1, S(""), _i ? SL_GRPC_DEADLINE_EXCEEDED : SL_GRPC_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(got.fields, _i ? "grpc-message: deadline exceeded\n"
						    : "grpc-message: backend went away\n"));
	ck_sound();
}
