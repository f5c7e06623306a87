/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/2 connections: requests as the host sees them, windows, floods, ends. */
#include "front/grpc/grpc.h"
#include "h2_talk.h"
#include "suite.h"

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

FIXTURE(setup_h2, teardown_h2)

TEST(a_request_reaches_the_host_with_its_fields)
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

TEST(streams_are_answered_in_the_order_they_end)
{
	mock_open(m);
	m->echo = true;
	talk("HEADERS 4 1 @post; HEADERS 4 3 @post; DATA 0 3 6161; DATA 0 1 62; DATA 1 3; DATA 1 1 "
	     "62");
	ck_frames("HEADERS 3; DATA 3 2 end; HEADERS 1; DATA 1 2 end");
	ck_sound();
}

TEST(taken_bytes_are_not_read_again)
{
	struct bytes b = frames_of("-HEADERS 4 1 @post; DATA 0 1 616263");
	struct sl_frame *f = sl_frame_get(&m->umem, SL_FRAME_HELD, 0);
	struct sl_chunk c = {.ptr = f->data, .len = b.len, .frame = f};

	memcpy(f->data, b.p, b.len);
	free(b.p);
	mock_open(m);
	m->echo = m->take_frames = true;
	talk("");
	ck_assert_uint_eq(mock_chunk(m, &c), b.len);
	ck_assert_ptr_null(c.frame);
	talk("-DATA 1 1 64");
	ck_frames("HEADERS 1; DATA 1 4 end");
	/* A frame that only the guard refuses, so it has kept its place. */
	talk("-PRIORITY 0 3 0000000310");
	ck_frames("GOAWAY 1");
	ck_sound();
}

/* Bytes beyond the client's window stay with the host, and follow when it opens. */
TEST(bytes_beyond_the_window_follow_when_it_opens)
{
	mock_open(m);
	m->reply_body = sl_span_str("0123456789");
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

/* RFC 9218 5, 10: both may go on at the same time; "u" decides, and within an urgency "i" takes turns. */
TEST_EACH(replies_go_out_by_the_priority_field, 3)
{
	static const struct {
		const char *first, *second, *out;
	} cases[] = {
		{"03753d37", "03753d30", "DATA 3 10 end; DATA 1 10 end"},
		{"03753d30", "03753d37", "DATA 1 10 end; DATA 3 10 end"},
		{"06753d302c2069", "09753d302c20693d3f31", "DATA 1 10 end; DATA 3 10 end"},
	};
	char text[200];

	mock_open(m);
	m->reply_body = sl_span_str("0123456789");
	snprintf(text, sizeof(text),
		 "SETTINGS 0 0 000400000000; HEADERS 5 1 @get 00087072696f72697479%s;"
		 "HEADERS 5 3 @get 00087072696f72697479%s",
		 cases[_i].first, cases[_i].second);
	talk(text);
	ck_frames("HEADERS 1; HEADERS 3");
	talk("-WINDOW 0 1 00000010; WINDOW 0 3 00000010");
	ck_frames(cases[_i].out);
	ck_sound();
}

/* As over HTTP/1.1: a client whose host name is wrong reads why. */
TEST(a_refused_authority_is_answered_with_a_text)
{
	mock_open(m);
	talk("HEADERS 5 1 828684 4103612062");
	ck_assert_uint_eq(m->begun, 0);
	ck_assert_ptr_nonnull(
		memmem(m->out, m->out_len, "400 Bad Request: malformed :authority\n", 38));
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REQUEST], 1);
	m->out_len = 0;
	talk("-HEADERS 5 3 @get");
	ck_frames("HEADERS 3; DATA 3 2 end");
	ck_sound();
}

TEST(a_reply_goes_on_in_whatever_room_there_is)
{
	mock_open(m);
	talk("");
	m->out_len = 0;
	m->room = 20;
	m->reply_body = sl_span_str("0123456789");
	talk("-HEADERS 5 1 @get");
	ck_assert_uint_eq(m->out_len, 20);
	for (int i = 0; i < 200 && !m->done; i++) {
		m->room = 3;
		mock_writable(m);
	}
	m->room = SIZE_MAX;
	mock_writable(m);
	ck_frames("HEADERS 1; DATA 1 10 end");
	ck_sound();
}

/* A host that takes less is offered the rest, and each byte once. */
TEST(a_host_that_takes_less_is_offered_the_rest)
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

/* Trailers of a stream are passed on, those of other requests are dropped. */
TEST_EACH(trailers_reach_the_host, 2)
{
	mock_open(m);
	m->parts = _i;
	talk("HEADERS 4 1 @post; DATA 0 1 6162");
	m->log_len = 0;
	/* t: x, u: without a value; in two frames */
	talk("-HEADERS 1 1 40017401 78; CONTINUATION 4 1 40017500");
	ck_log(_i ? "0 t:(x)\n0 u:()\n0[2]ab end\n" : "0[2]ab end\n");
	talk("-HEADERS 4 3 @post; HEADERS 5 3");
	ck_log("POST / @a\n1[0] end\n");
	ck_frames("HEADERS 1; DATA 1 2 end; HEADERS 3; DATA 3 2 end");
	ck_sound();
}

/* Between their frames it was refused: their memory goes back, and no time runs for them. */
TEST(trailers_of_a_stream_that_was_refused_meanwhile_are_forgotten)
{
	mock_open(m);
	m->parts = true;
	talk("HEADERS 4 1 @post; DATA 0 1 6162");
	talk("-HEADERS 1 1 40017401 78");
	ck_assert_uint_eq(sl_mempool_used(&m->heads), 1);
	m->streams[0].st.refused = true;
	talk("-CONTINUATION 4 1 40017500");
	ck_assert_uint_eq(sl_mempool_used(&m->heads), 0);
	ck_assert_uint_eq(m->ops->head_since(m->state), 0);
	ck_sound();
}

/* The client has sent more than a head may have: it is not passed on in part. */
TEST(trailers_that_are_too_large_reset_their_stream)
{
	mock_open(m);
	m->parts = true;
	m->limits.max_headers = 2;
	talk("HEADERS 4 1 @post; DATA 0 1 6162");
	talk("-HEADERS 5 1 40017401 78 40017401 78 40017401 78 40017401 78 40017401 78 40017401 78 "
	     "40017401 78");
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_HEAD_TOO_LARGE], 1);
	ck_assert_uint_eq(m->cancelled, 1);
	ck_frames("RST 1 b");
	ck_sound();
}

/* Its window shrinks while frames are short, and its reply is what it would be otherwise. */
TEST(a_narrow_stream_is_answered_as_others)
{
	mock_open(m);
	talk("HEADERS 4 1 @post; DATA 0 1 6162");
	m->streams[0].st.narrow = true;
	talk("-DATA 0 1 63");
	talk("-DATA 1 1 64");
	ck_assert_ptr_nonnull(strstr(m->log, "abcd end"));
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REPLY], 0);
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_sound();
}

TEST(a_reply_that_breaks_off_resets_its_stream)
{
	struct sl_reply r = {.status = 200, .body_len = SL_LEN_UNKNOWN};
	struct mock_stream *s;

	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get; HEADERS 5 3 @get");
	mock_break(mock_find(m, 0), SL_OUTCOME_BACKEND_LOST); /* not begun: another reply */
	ck_frames("HEADERS 1; DATA 1 17 end");
	s = mock_find(m, 1);
	mock_head(s, &r);
	mock_bytes(s, sl_span_str("x"));
	mock_break(s, SL_OUTCOME_BACKEND_LOST);
	ck_frames("HEADERS 3; DATA 3 1; RST 3 2");
	ck_sound();
}

TEST(a_reset_cancels_its_request)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get; RST 0 1 00000008");
	ck_assert_uint_eq(m->cancelled, 1);
	ck_sound();
}

/* Bytes of the library's memory. */
static uint64_t used_memory(void)
{
	struct sl_h2_stats s;

	sl_h2_env_stats(h2env, &s);
	return s.memory;
}

TEST(rapid_resets_end_the_connection)
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
	ck_assert_uint_eq(used_memory(), 0); /* even if its client holds it */
	ck_sound();
}

/* CVE-2025-8671: the client has each request reset by us, for a fault of his. */
TEST_EACH(resets_that_a_client_provokes_end_the_connection, 5)
{
	static const char *const faults[] = {
		"HEADERS 5 %x @get; WINDOW 0 %x 7fffffff",           /* a window overflows */
		"HEADERS 4 %x @post @cl5; DATA 1 %x 61",             /* content-length not met */
		"HEADERS 4 %x @post; HEADERS 4 %x 40016101 62",      /* trailers without an end */
		"HEADERS 4 %x @post; HEADERS 5 %x 400174 0178 7*be", /* and larger than a head */
		EARLY_SEEN "; HEADERS 4 %x @grpc; DATA 0 %x ff00000000", /* no message begins so */
	};
	uint32_t id = 1;
	char text[120];

	mock_open(m);
	m->parts = true;
	m->limits.max_headers = 2;
	m->answer = MOCK_LATER;
	talk("");
	for (; id < 4000 && !m->closed; id += 2) {
		snprintf(text, sizeof(text), faults[_i], id, id);
		memmove(text + 1, text, strlen(text) + 1);
		*text = '-';
		talk(text);
		m->out_len = 0;
	}
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_gt(m->cancelled, 900);
	ck_assert_uint_gt(id, 1900);
	ck_assert_uint_lt(id, 2100);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_H2_FLOOD], 1);
	ck_sound();
}

/* HPACK repeats a field for a byte, in one head or in many: each costs processing time. */
TEST_EACH(dropped_fields_beyond_a_limit_end_the_connection, 3)
{
	static const char *const heads[] = {
		"-HEADERS 5 %x 828684 010161 31*be", "-HEADERS 5 %x 828684 010161 15*be",
		"-HEADERS 4 %x 838684 010161 0f10 106170706c69636174696f6e2f67727063;"
		"HEADERS 5 %x 15*be", /* gRPC drops these */
	};
	static const unsigned kib[] = {31 * 4001 >> 10, 15 * 4001 >> 10, 15 * 4001 >> 10};
	uint32_t id = 3, max = 2 * 16 * 1000 / (kib[_i] - 16);
	char text[160];

	mock_open(m);
	talk("HEADERS 5 1 828684 010161 400174 7fa11e 4000*61");
	for (; id / 2 < max && !m->closed; id += 2) {
		snprintf(text, sizeof(text), heads[_i], id, id);
		talk(text);
		m->out_len = 0;
	}
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_gt(id / 2, max / 4);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_H2_FLOOD], 1);
	ck_sound();
}

/* The rest of a head that is far too long is not unpacked: the work that one frame can cost has an end. */
TEST(a_head_of_many_times_the_limit_ends_the_connection)
{
	mock_open(m);
	talk("HEADERS 5 1 828684 010161 400174 7fa11e 4000*61");
	m->out_len = 0;
	talk("-HEADERS 5 3 828684 010161 8000*be");
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_H2_FLOOD], 1);
	ck_frames("GOAWAY b");
	ck_sound();
}

/* A backend that breaks off each reply costs the client nothing. */
TEST(resets_for_a_backends_fault_are_free)
{
	struct sl_reply r = {.status = 200, .body_len = SL_LEN_UNKNOWN};
	struct mock_stream *s;
	char text[80];

	mock_open(m);
	m->answer = MOCK_LATER;
	talk("");
	for (uint32_t id = 1; id < 8000; id += 2) {
		m->out_len = 0;
		snprintf(text, sizeof(text), "-HEADERS 5 %x @get", id);
		talk(text);
		s = mock_find(m, id / 2);
		mock_head(s, &r);
		mock_break(s, SL_OUTCOME_BACKEND_LOST);
	}
	ck_frames("HEADERS 7999; RST 7999 2");
	ck_assert_uint_eq(m->closed, 0);
	ck_sound();
}

TEST_EACH(frames_that_cost_more_than_they_say_end_the_connection, 8)
{
	static const char *const frames[] = {
		"-PING 0 0 8*00",       "-SETTINGS 0 0",        "-DATA 0 1",
		"-DATA 8 1 00",         "-DATA 8 1 04 4*00",    "-PRIORITY 0 1 0000000010",
		"-WINDOW 0 0 00000001", "-WINDOW 0 1 00000001",
	};
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

TEST(streams_beyond_the_limit_are_refused)
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

TEST(a_head_that_is_too_large_is_refused)
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

/* RFC 9113 6.8: notice, then the number that counts, then the end. */
TEST(a_drained_connection_finishes_accepted_requests)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get");
	m->out_len = 0;
	mock_drain(m);
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

/* A client that ignores the first GOAWAY is not served for ever. */
TEST(a_drained_connection_ends_without_an_answer_to_its_ping)
{
	mock_open(m);
	talk("HEADERS 5 1 @get");
	mock_drain(m);
	m->out_len = 0;
	m->now_ns += 1000000000;
	talk("-HEADERS 5 3 @get");
	ck_frames("HEADERS 3; DATA 3 2 end");
	ck_assert_uint_eq(m->closed, 0);
	m->now_ns += 10000000000;
	talk("-HEADERS 5 5 @get");
	ck_frames("GOAWAY 0; HEADERS 5; DATA 5 2 end");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

TEST(a_client_that_has_gone_waits_for_nothing)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get; HEADERS 5 3 @get");
	mock_gone(m);
	ck_assert_uint_eq(m->cancelled, 2);
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
}

TEST(answers_go_out_after_the_clients_end)
{
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 5 1 @get; HEADERS 4 3 @post");
	ck_assert(m->ops->rest(m->state) == SL_FRONT_BUSY);
	mock_eof(m); /* the half request never comes */
	ck_assert_uint_eq(m->cancelled, 1);
	mock_answer(mock_find(m, 0));
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	mock_open(m);
	m->answer = MOCK_LATER;
	talk("HEADERS 4 1 @post");
	mock_timeout(m);
	ck_frames("GOAWAY 0");
	ck_assert_uint_eq(m->closed, 1);
	ck_sound();
	mock_open(m);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_BUSY); /* the preface is awaited */
	talk("");
	ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
	ck_sound();
}

TEST(the_rest_of_a_refused_upload_is_reset)
{
	mock_open(m);
	m->answer = MOCK_IN_BODY;
	talk("HEADERS 4 1 @post; DATA 0 1 6162; DATA 0 1 6162");
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_assert_uint_eq(m->done, 1);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
	talk("-" EARLY_SEEN);
	ck_frames("RST 1 0");
	ck_sound();
	mock_open(m);
	m->answer = MOCK_IN_BEGIN;
	talk("HEADERS 4 1 @post; DATA 0 1 6162");
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_sound();
}

/* One PING at a time: it tells of the replies in front of it, not of later ones. */
TEST(a_ping_tells_of_the_refusals_in_front_of_it_only)
{
	mock_open(m);
	m->answer = MOCK_IN_BEGIN;
	talk("HEADERS 4 1 @post; HEADERS 4 3 @post");
	ck_frames("HEADERS 1; DATA 1 2 end; HEADERS 3; DATA 3 2 end");
	talk("-" EARLY_SEEN);
	ck_frames("RST 1 0");
	talk("-HEADERS 4 5 @post; DATA 0 5 6162");
	ck_frames("HEADERS 5; DATA 5 2 end");
	talk("-" EARLY_SEEN "; DATA 1 5 6162");
	ck_frames("RST 3 0");
	talk("-" EARLY_SEEN);
	ck_frames("");
	ck_sound();
}

TEST(the_librarys_memory_has_a_limit)
{
	struct sl_h2_mem mem;
	struct sl_h2_budget b;
	void *p[64];
	int n = 0;

	ck_assert_int_eq(sl_h2_mem_init(&mem, 1 << 20), 0);
	sl_h2_budget_init(&b, &mem, 100000);
	while (n < 64 && (p[n] = b.mem.malloc(4000, &b)))
		memset(p[n++], 0xff, 4000);
	ck_assert_int_eq(n, 24); /* 4096 bytes each */
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

/* Other connections, which stay open beside the tested one. */
static void leave_open(uint64_t state[SL_FRONT_STATE_SIZE / 8])
{
	memcpy(state, m->state, sizeof(m->state));
}

/* Answered before their end, which never comes: no exchange counts them. */
static void post_early(uint32_t from, uint32_t cnt)
{
	char text[64];

	m->exhausted = 1;
	for (uint32_t i = 0; i < cnt; i++) {
		snprintf(text, sizeof(text), "-HEADERS 4 %x @post", from + 2 * i);
		talk(text);
	}
	m->exhausted = 0;
}

TEST(an_address_leaves_streams_to_others)
{
	uint64_t other[SL_FRONT_STATE_SIZE / 8];
	struct sl_h2_stats s;

	m->limits.address_streams = 0.5; /* half of 200 */
	mock_open(m);
	talk("");
	post_early(1, 90);
	leave_open(other);
	mock_open(m);
	talk("");
	post_early(1, 10);
	sl_h2_env_stats(h2env, &s);
	ck_assert_uint_eq(s.streams, 100);
	m->out_len = 0;
	talk("-HEADERS 5 15 @get");
	ck_frames("RST 21 7");
	talk("-" EARLY_SEEN);
	m->out_len = 0;
	talk("-HEADERS 5 17 @get");
	ck_frames("HEADERS 23; DATA 23 2 end");
	ck_sound();
	m->source = 1;
	mock_open(m);
	talk("HEADERS 5 1 @get");
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_sound();
	m->ops->close(other, &m->env);
}

TEST(an_address_leaves_connections_to_others)
{
	uint64_t others[4][SL_FRONT_STATE_SIZE / 8];

	m->limits.address_connections = 0.5; /* half of 8 */
	for (unsigned i = 0; i < 4; i++) {
		mock_open(m);
		leave_open(others[i]);
	}
	mock_open(m);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_EXCHANGE], 1);
	m->source = 1;
	mock_open(m);
	talk("HEADERS 5 1 @get");
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_sound();
	m->ops->close(others[0], &m->env);
	m->source = 0;
	mock_open(m);
	talk("HEADERS 5 1 @get");
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_sound();
	for (unsigned i = 1; i < 4; i++)
		m->ops->close(others[i], &m->env);
}

/* Replies to a client that does not read are kept, also those of refused streams. */
static void fill_memory(uint32_t streams)
{
	char text[64];

	talk("");
	m->room = 0;
	for (uint32_t i = 0; i < streams && !m->closed; i++) {
		snprintf(text, sizeof(text), "-HEADERS 5 %x @get", 2 * i + 1);
		talk(text);
	}
}

TEST(an_address_leaves_memory_to_others)
{
	enum { CONNS = 20, STREAMS = 4000 };
	uint64_t others[CONNS][SL_FRONT_STATE_SIZE / 8];
	struct sl_h2_config cfg;

	sl_h2_config_default(&cfg);
	cfg.max_connections = 2 * CONNS;
	cfg.memory = 8 << 20;
	sl_h2_env_destroy(h2env);
	m->env.h2 = h2env = sl_h2_env_create(&cfg, &m->limits);
	m->limits.max_streams = 10;
	m->limits.address_connections = 0.5;
	for (unsigned i = 0; i < CONNS; i++) {
		mock_open(m);
		fill_memory(STREAMS);
		leave_open(others[i]);
	}
	m->source = 1;
	mock_open(m);
	talk("HEADERS 5 1 @get");
	ck_frames("HEADERS 1; DATA 1 2 end");
	ck_sound();
	for (unsigned i = 0; i < CONNS; i++)
		m->ops->close(others[i], &m->env);
}
