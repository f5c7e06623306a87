/* SPDX-License-Identifier: Apache-2.0 */
/* Heads and ends over HTTP/2 and gRPC: what of them passes, in both directions. */
#include <sys/mman.h>
#include <unistd.h>
#include "front/h2/conn.h"
#include "grpc_talk.h"
#include "base/check.h"
#include "suite.h"

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

/* The fields that a call has at least. */
static size_t put_call(uint8_t *to)
{
	static const uint8_t start[] = "\x83\x86\x04\x06/p.S/M\x41\x01"
				       "a\x0f\x10\x10"
				       "application/grpc";

	memcpy(to, start, sizeof(start) - 1);
	return sizeof(start) - 1;
}

static void call_with(uint32_t id, const char *name, const char *value)
{
	uint8_t head[256];
	size_t len = put_call(head);

	len += put_literal(head + len, name, value);
	send_frame(1, 4, id, sl_span_of(head, len));
}

FIXTURE(setup_h2, teardown_h2)

TEST(binary_metadata_is_decoded_on_its_way_in)
{
	open_conn();
	call_with(1, "x-log-bin", "aGk,aG8=");
	ck_log("POST /p.S/M @a ct=application/grpc x-log-bin:(hi) x-log-bin:(ho)\n");
	call_with(3, "x-log", "aGk,aG8=");
	ck_log("POST /p.S/M @a ct=application/grpc x-log:(aGk,aG8=)\n");
	m->log_len = 0;
	call_with(9, "x-log", " \ta b  ");
	ck_log("POST /p.S/M @a ct=application/grpc x-log:(a b)\n");
	call_with(11, "x-log", "  ");
	ck_log("POST /p.S/M @a ct=application/grpc x-log:()\n");
	m->log[0] = 0;
	call_with(15, "x-log-bin", "?");
	ck_got(15, S(""), SL_GRPC_INTERNAL);
	call_with(17, "grpc-timeout", "1x");
	ck_got(17, S(""), SL_GRPC_INTERNAL);
	ck_log("");
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_GRPC_MESSAGE], 2);
	ck_sound();
}

/* The head that is being read, as memory whose last byte is the last that may be read. */
static void move_head_to_edge(uint8_t *edge)
{
	struct h2_head *h = &sl_h2_conn(m->state)->head;

	ck_assert(h->buf && h->pooled);
	memcpy(edge - h->len, h->buf, h->len);
	sl_mempool_put(&m->heads, h->buf);
	h->buf = edge - h->len;
	h->pooled = false;
	m->limits.max_head = h->len; /* there is no room behind it */
}

/* Names that begin like one that means something, or end where their value makes up for it. */
TEST(names_that_resemble_others_are_not_taken_for_them)
{
	static const char *const cases[][2] = {
		{"cookies", "forged=1"}, {"cookie-x", "a"}, {"c", "ookie"},     {"x", ""},
		{"hostname", "b"},       {"hos", "t"},      {"expect-ct", "1"}, {"g", ""},
		{"content-types", "b"},
	};
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + page, page, PROT_NONE), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t head[256];
		size_t len = put_call(head);
		uint32_t max_head = m->limits.max_head;
		char want[200];

		len += put_literal(head + len, "cookie", "b=c");
		len += put_literal(head + len, cases[i][0], cases[i][1]);
		snprintf(want, sizeof(want),
			 "POST /p.S/M @a ct=application/grpc cookie:(b=c) %s:(%s)\n", cases[i][0],
			 cases[i][1]);
		open_conn();
		m->log_all = true;
		send_frame(1, 0, 1, sl_span_of(head, len));
		move_head_to_edge(p + page);
		send_frame(9, 4, 1, S(""));
		m->limits.max_head = max_head;
		ck_log(want);
		collect(1);
		ck_assert_str_eq(got.fields, ""); /* no 100, no refusal */
		ck_sound();
	}
	munmap(p, 2 * page);
}

static uint32_t count(char c, const char *text)
{
	uint32_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

/* RFC 9113 8.2.3: the crumbs of a cookie are one field, in trailers of no meaning. */
TEST_EACH(crumbs_of_a_cookie_count_as_one_field, 4)
{
	static const uint8_t get[] = {0x82, 0x86, 0x84, 0x41, 1, 'a'};
	uint32_t crumbs = _i & 1 ? 600 : 150, others = _i & 2 ? m->limits.max_headers : 5;
	static uint8_t head[16000];
	size_t len = sizeof(get);

	memcpy(head, get, len);
	for (uint32_t i = 0; i < others; i++)
		len += put_literal(head + len, "z", "");
	for (uint32_t i = 0; i < crumbs; i++)
		len += put_literal(head + len, "cookie", "a=b");
	open_conn();
	m->log_all = true;
	send_frame(1, 5, 1, sl_span_of(head, len));
	collect(1);
	/* The sum of names and values has a limit of its own. */
	ck_assert_ptr_nonnull(strstr(got.fields, _i & 2 ? ":status: 431\n" : ":status: 200\n"));
	if (!(_i & 2))
		ck_assert_uint_eq(count(';', m->log), crumbs - 1);
	ck_sound();
	open_conn();
	m->parts = true;
	talk("-HEADERS 4 1 @post");
	send_frame(1, 5, 1, sl_span_of(head + sizeof(get), len - sizeof(get)));
	ck_assert_ptr_null(strstr(m->log, "cookie"));
	ck_sound();
}

TEST(expect_100_continue_is_answered)
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

/* The host says when, once, or answers without. */
TEST_EACH(expect_100_continue_may_wait_for_the_host, 2)
{
	open_conn();
	m->awaits = true;
	talk("-HEADERS 4 1 @post 40 06 657870656374 0c 3130302d636f6e74696e7565");
	collect(1);
	ck_assert_str_eq(got.fields, "");
	if (!_i) {
		mock_continue(mock_find(m, 0));
		collect(1);
		ck_assert_str_eq(got.fields, ":status: 100\n");
		talk("-DATA 1 1 61");
	} else {
		mock_answer(mock_find(m, 0));
	}
	collect(1);
	ck_assert_ptr_nonnull(strstr(got.fields, ":status: 200\n"));
	ck_assert_ptr_null(strstr(got.fields, ":status: 100\n"));
	ck_sound();
}

/* Before the reply, without what the gateway says itself; a call of gRPC has none. */
TEST(interim_replies_go_out_at_once)
{
	static const struct sl_header hints[] = {
		{SL_SPAN_LIT("link"), SL_SPAN_LIT("</a>")},
		{SL_SPAN_LIT("connection"), SL_SPAN_LIT("close")},
	};

	open_conn();
	m->answer = MOCK_LATER;
	talk("-HEADERS 5 1 @get");
	mock_interim(mock_find(m, 0), 103, hints, 2);
	collect(1);
	ck_assert_str_eq(got.fields, ":status: 103\nlink: </a>\n");
	ck_assert(!got.end);
	mock_answer(mock_find(m, 0));
	collect(1);
	ck_assert_ptr_nonnull(strstr(got.fields, ":status: 200\n"));
	ck_assert_ptr_null(strstr(got.fields, "link"));
	ck_assert(got.end);
	ck_sound();
	open_conn();
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	mock_interim(mock_find(m, 0), 103, hints, 2);
	collect(1);
	ck_assert_str_eq(got.fields, "");
	mock_answer(mock_find(m, 0));
	ck_sound();
}

/* A host that takes a message piece by piece gets each byte of it once. */
TEST(a_host_that_takes_a_message_in_pieces_gets_each_byte_once)
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

static struct mock_stream *begin_reply(const char *head, uint64_t body_len)
{
	struct sl_reply r = {.status = 200, .body_len = body_len};
	struct mock_stream *s;

	open_conn();
	m->answer = MOCK_LATER;
	talk(head);
	m->out_len = 0;
	s = mock_find(m, 0);
	mock_head(s, &r);
	return s;
}

TEST(a_reply_short_of_its_length_resets_its_stream)
{
	struct mock_stream *s = begin_reply("-HEADERS 5 1 @get", 10);
	char frames[200];

	mock_bytes(s, S("12345"));
	mock_end(s, NULL);
	summarize((uint8_t *)m->out, m->out_len, frames, sizeof(frames));
	ck_assert_str_eq(frames, "HEADERS 1; DATA 1 5; RST 1 2");
	ck_assert_uint_eq(m->cancelled, 1);
	ck_sound();
}

TEST(a_reply_beyond_its_length_is_cut)
{
	struct mock_stream *s = begin_reply("-HEADERS 5 1 @get", 3);
	char frames[200];

	s->ended = true; /* ended by these */
	mock_bytes(s, S("12345"));
	summarize((uint8_t *)m->out, m->out_len, frames, sizeof(frames));
	ck_assert_str_eq(frames, "HEADERS 1; DATA 1 3 end");
	ck_sound();
}

/* A reply in many pieces leaves in full frames, each byte once. */
TEST(many_pieces_leave_in_full_frames)
{
	static char body[40000];
	char frames[200];

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (char)('a' + i % 26);
	open_conn();
	m->peek_max = 1000;
	m->reply_body = sl_span_of(body, sizeof(body));
	m->out_len = 0;
	talk("-HEADERS 5 1 @get");
	summarize((uint8_t *)m->out, m->out_len, frames, sizeof(frames));
	ck_assert_str_eq(frames, "HEADERS 1; DATA 1 16384; DATA 1 16384; DATA 1 7232 end");
	collect(1);
	ck_assert_mem_eq(got.data, body, sizeof(body));
	ck_sound();
}

/* RFC 9110 15.5.6. CONNECT, and TRACE. */
TEST_EACH(status_405_names_the_methods, 2)
{
	open_conn();
	talk(_i ? "-HEADERS 5 1 0207434f4e4e454354 410161"
		: "-HEADERS 5 1 02055452414345 8684 410161");
	collect(1);
	ck_assert_ptr_nonnull(strstr(got.fields, "405"));
	ck_assert_ptr_nonnull(
		strstr(got.fields, "allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\n"));
	ck_sound();
}

/* Fields that are ours, or that one connection only is about, do not come from a backend. */
TEST_EACH(fields_of_one_connection_do_not_come_from_a_backend, 2)
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

/* Bytes that would end a line once the reply is turned into HTTP/1. The gRPC front encodes them. */
TEST_EACH(a_reply_with_line_ends_does_not_pass, 4)
{
	static const struct sl_span values[] = {
		SL_SPAN_LIT("a\r\nset-cookie: evil=1"),
		SL_SPAN_LIT("\n"),
		SL_SPAN_LIT("a\r"),
		SL_SPAN_LIT("a\0b"),
		SL_SPAN_LIT("a\x7f"),
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(values); i++) {
		struct sl_header h = {.name = SL_SPAN_LIT("x-bin"), .value = values[i]};

		open_conn();
		if (_i & 1) {
			m->reply.trailers = &h;
			m->reply.trailer_cnt = 1;
		} else {
			m->reply.headers = &h;
			m->reply.header_cnt = 1;
		}
		if (_i & 2) {
			call(1, "/p.S/M");
			ask(1, S("x"), true);
			ck_got(1, S("\0\0\0\0\2ok"), 0);
		} else {
			talk("-HEADERS 5 1 @get");
			collect(1);
			ck_assert_ptr_nonnull(strstr(got.fields, ":status: 502\n"));
			ck_assert(got.end && !got.reset && !strstr(got.fields, "x-bin"));
			ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REPLY], 1);
		}
		ck_assert_uint_eq(m->done, 1);
		ck_sound();
	}
}

/* Behind a body that is on its way it is too late for a status. */
TEST(late_trailers_with_line_ends_do_not_pass)
{
	static const struct sl_header h = {SL_SPAN_LIT("x-bin"), SL_SPAN_LIT("a\r\nb: c")};
	struct mock_stream *s = begin_reply("-HEADERS 5 1 @get", SL_LEN_UNKNOWN);
	struct sl_reply last = {.status = 200, .trailers = &h, .trailer_cnt = 1};
	char frames[200];

	mock_bytes(s, S("12345"));
	mock_end(s, &last);
	summarize((uint8_t *)m->out, m->out_len, frames, sizeof(frames));
	ck_assert_str_eq(frames, "HEADERS 1; DATA 1 5; RST 1 2");
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_BAD_REPLY], 1);
	ck_sound();
}

/* The gRPC status for an HTTP status. */
TEST(an_http_status_has_its_meaning_in_grpc)
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

/* A stream's head may be out, and more of its reply: the client hears why all the same, and the host. */
TEST_EACH(a_call_that_is_refused_behind_its_head_hears_why, 4)
{
	static const struct {
		uint8_t prefix[5];
		int status;
	} cases[] = {{{2, 0, 0, 0, 1}, SL_GRPC_INTERNAL},
		     {{0, 0, 0, 4, 1}, SL_GRPC_RESOURCE_EXHAUSTED}};
	struct sl_reply head = {.status = 200, .body_len = SL_LEN_UNKNOWN};
	int i = _i & 1;

	m->limits.max_message = 1024;
	open_conn();
	m->parts = true;
	m->answer = MOCK_LATER;
	call(1, "/p.S/M");
	ask(1, S("x"), false);
	mock_head(&m->streams[0], &head);
	if (_i / 2) {
		mock_message(&m->streams[0], 2);
		mock_bytes(&m->streams[0], S("ab"));
	}
	send_frame(0, 0, 1, sl_span_of(cases[i].prefix, 5));
	ck_assert_uint_eq(m->cancelled, 1);
	ck_got(1, _i / 2 ? S("\0\0\0\0\2ab") : S(""), cases[i].status);
	ck_assert(!got.reset);
	send_frame(0, 0, 1, S("more of it")); /* not read by the host */
	talk("-PING 1 0 736c6561726c7900");
	collect(1);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_GRPC_MESSAGE], 1);
	ck_sound();
}

/* --- large heads --- */

static struct sl_header many[SL_RPC_MAX_FIELDS];

/* As many fields as a backend may send, and of all bytes. */
static void fill_head(struct sl_reply *r, size_t len)
{
	static uint8_t bytes[SL_RPC_MAX_META];
	size_t each = len / SL_ARRAY_LEN(many) - 8;

	memset(bytes, 'v', each);
	for (size_t i = 0; i < SL_ARRAY_LEN(many); i++)
		many[i] = (struct sl_header){S("name"), sl_span_of(bytes, each)};
	r->headers = many;
	r->header_cnt = SL_ARRAY_LEN(many);
}

static uint64_t used_memory(void)
{
	struct sl_h2_stats s;

	sl_h2_env_stats(h2env, &s);
	return s.memory;
}

/* Each waits with its host while the client does not read. */
TEST_EACH(large_heads_of_many_replies_end_no_connection, 2)
{
	enum { STREAMS = 40 };

	open_conn();
	fill_head(&m->reply, 60 << 10);
	m->room = _i ? SIZE_MAX : 100;
	for (uint32_t id = 1; id < 2 * STREAMS; id += 2) {
		char text[40];

		snprintf(text, sizeof(text), "-HEADERS 5 %x @get", id);
		talk(text);
	}
	ck_assert_uint_eq(m->done, _i ? STREAMS : 0);
	ck_assert_uint_lt(used_memory(), 512 << 10);
	for (unsigned i = 0; i < 4000 && m->done < STREAMS; i++) {
		m->room = 1000;
		mock_writable(m);
	}
	ck_assert_uint_eq(m->done, STREAMS);
	ck_assert_uint_eq(m->closed, 0);
	ck_assert_uint_gt(m->out_len, STREAMS * 256);
	ck_sound();
}

/* Bytes not taken by the host belong to their stream, and are freed with it. */
TEST(bytes_that_were_not_taken_go_with_their_stream)
{
	struct bytes b = frames_of("-HEADERS 4 1 @post; DATA 0 1 100*61; HEADERS 5 3 @get");
	size_t used;

	open_conn();
	m->answer = MOCK_LATER;
	m->body_max = 0;
	used = mock_input(m, b.p, b.len);
	ck_assert_uint_lt(used, b.len);
	mock_break(mock_find(m, 0), SL_OUTCOME_EXPIRED);
	ck_assert_uint_eq(m->done + m->cancelled, 1);
	m->body_max = SIZE_MAX;
	ck_assert_uint_eq(mock_input(m, b.p + used, b.len - used), b.len - used);
	ck_assert_uint_eq(m->begun, 2);
	free(b.p);
	ck_sound();
}
