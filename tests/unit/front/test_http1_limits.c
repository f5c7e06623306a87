/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 and memory: owners of frames and buffers, and each limit of a request. */
#include "http1_talk.h"
#include "suite.h"

FIXTURE(setup, teardown)

/* The host takes body bytes when it likes. */
TEST(a_host_takes_the_body_when_it_likes)
{
	mock_open(m);
	m->echo = true;
	m->body_max = 3;
	feed(POST("/", 10) "0123456789" GET("/2"));
	ck_text(m->log, m->log_len, "POST / @a cl=10\n0[10]0123456789 end\nGET /2 @a end\n", "log",
		"");
	ck_sound();
	mock_open(m);
	m->body_max = 0;
	ck_assert_uint_eq(feed(POST("/", 3) "abc"), strlen(POST("/", 3)));
	ck_assert_uint_eq(feed("abc"), 0);
	m->body_max = 2;
	ck_assert_uint_eq(feed("abc"), 3);
	ck_assert_uint_eq(m->done, 1);
	m->body_max = 0;
	ck_assert_uint_eq(feed(CHUNKED("/") "3\r\nabc\r\n"), strlen(CHUNKED("/")) + 3);
	m->body_max = 9;
	ck_assert_uint_eq(feed("abc\r\n0\r\n\r\n"), 10);
	ck_assert_uint_eq(m->done, 2);
	ck_sound();
}

/* A frame goes to the host only with its last bytes. */
TEST(a_frame_is_given_away_with_its_last_bytes)
{
	static const struct {
		const char *bytes;
		bool taken;
	} cases[] = {
		{POST("/", 4) "abcd", true},
		{POST("/", 9) "abcd", true},
		{POST("/", 4) "abcd\r\n", false},
		{CHUNKED("/") "4\r\nabcd", true},
		{CHUNKED("/") "9\r\nabcd", true},
		{CHUNKED("/") "4\r\nabcd\r", false},
		{CHUNKED("/") "2\r\nab\r\n2\r\ncd", true},
		{GET("/"), false},
		{"GET / HT", false},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sl_frame *f = sl_frame_get(&m->umem, SL_FRAME_HELD, 0);
		struct sl_chunk c = {.ptr = f->data, .len = strlen(cases[i].bytes), .frame = f};

		memcpy(f->data, cases[i].bytes, c.len);
		mock_open(m);
		m->take_frames = true;
		ck_assert_uint_eq(mock_chunk(m, &c), c.len);
		ck_assert_msg(!c.frame == cases[i].taken, "case %u", i);
		if (c.frame)
			sl_frame_put(&m->umem, c.frame);
		ck_sound();
	}
}

static uint32_t frames_held(void)
{
	uint32_t census[SL_FRAME_STATE_CNT];

	sl_umem_census(&m->umem, census);
	return census[SL_FRAME_HELD];
}

/* Partial heads: nothing while idle, a frame, then one of few buffers; all given back. */
TEST(a_partial_head_costs_a_frame_then_a_buffer)
{
	static char head[20000];
	size_t n = (size_t)sprintf(head, "GET / HTTP/1.1\r\n" H "a: ");

	memset(head + n, 'v', 12000);
	n += 12000;
	memcpy(head + n, "\r\n\r\n", 5);
	n += 4;
	mock_open(m);
	mock_input(m, head, 1);
	ck_assert_uint_eq(frames_held(), 1);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_BUSY);
	mock_input(m, head + 1, 2046);
	ck_assert_uint_eq(frames_held(), 1);
	ck_assert_uint_eq(sl_mempool_used(&m->heads), 0);
	mock_input(m, head + 2047, 1000);
	ck_assert_uint_eq(frames_held(), 0);
	ck_assert_uint_eq(sl_mempool_used(&m->heads), 1);
	mock_input(m, head + 3047, n - 3047);
	ck_assert_uint_eq(sl_mempool_used(&m->heads), 0);
	ck_assert(m->ops->rest(m->state) == SL_FRONT_IDLE);
	ck_out(OK2);
	ck_assert_uint_eq(m->log_len, strlen("GET / @a a:() end\n") + 12000);
	ck_sound();
	/* the connection goes away meanwhile */
	mock_open(m);
	mock_input(m, head, 3000);
	ck_sound();
	/* no buffers at all */
	mock_open(m);
	m->env.heads = NULL;
	mock_input(m, head, 3000);
	m->env.heads = &m->heads;
	ck_out(E431);
	ck_sound();
}

TEST(a_head_that_finds_no_buffer_is_refused)
{
	static const char start[] = "GET / HTTP/1.1\r\n" H "a: ";
	struct sl_front_env *env = &m->env;
	uint64_t other[SL_FRONT_STATE_SIZE / 8 * 5] = {0};
	static char fill[3000];
	uint32_t low = m->umem.low_water;

	/* slowloris with long heads: the fifth finds no buffer */
	memset(fill, 'v', sizeof(fill));
	mock_open(m);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t *st = other + i * (SL_FRONT_STATE_SIZE / 8);
		struct sl_chunk c = {.ptr = (const uint8_t *)start, .len = strlen(start)};
		struct sl_chunk d = {.ptr = (const uint8_t *)fill, .len = sizeof(fill)};

		m->ops->open(st, env, m, 0);
		ck_assert_uint_eq(m->ops->input(st, env, &c), c.len);
		ck_assert_uint_eq(m->ops->input(st, env, &d), d.len);
	}
	ck_assert_uint_eq(sl_mempool_used(&m->heads), 4);
	feed(start);
	mock_input(m, fill, sizeof(fill));
	ck_out(E503);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_FRAME], 1);
	for (unsigned i = 0; i < 4; i++)
		m->ops->close(other + i * (SL_FRONT_STATE_SIZE / 8), env);
	ck_sound();
	/* frames are short */
	mock_open(m);
	m->umem.low_water = 1000;
	feed("GET / HT");
	ck_out(E503);
	ck_sound();
	mock_open(m);
	feed(GET("/")); /* whole heads need none */
	ck_out(OK2);
	m->umem.low_water = low;
	ck_sound();
	/* exchanges are exhausted */
	mock_open(m);
	m->answer = MOCK_LATER;
	m->exhausted = 2;
	feed(GET("/0") POST("/1", 3) "abc");
	mock_answer(mock_find(m, 0));
	ck_out(OK2 E503);
	ck_assert_uint_eq(m->closed, 1);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_NO_EXCHANGE], 1);
	ck_sound();
}

static void long_head(size_t target, size_t value, size_t piece, const char *want)
{
	static char head[70000];
	size_t n = (size_t)sprintf(head, "GET /"), i;

	memset(head + n, 'a', target);
	n += target;
	n += (size_t)sprintf(head + n, " HTTP/1.1\r\n" H "aaa: ");
	memset(head + n, 'v', value);
	n += value;
	n += (size_t)sprintf(head + n, "\r\n\r\n");
	mock_open(m);
	for (i = 0; i < n; i += piece)
		mock_input(m, head + i, piece < n - i ? piece : n - i);
	ck_out(want);
	ck_sound();
}

TEST(each_limit_of_a_head_holds_to_the_byte)
{
	static const size_t pieces[] = {1, 7, 1400, 2048, 5000, 70000};
	size_t target = m->limits.max_target - strlen("GET / HTTP/1.1");
	size_t value = m->limits.max_head - strlen("GET / HTTP/1.1\r\n" H "aaa: \r\n\r\n");

	for (unsigned i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
		long_head(target, 0, pieces[i], OK2);
		long_head(target + 1, 0, pieces[i], E414);
		long_head(60000, 0, pieces[i], E414);
		long_head(0, value, pieces[i], OK2);
		long_head(0, value + 1, pieces[i], E431);
		long_head(0, 60000, pieces[i], E431);
	}
}

TEST(chunks_have_limits_too)
{
	static char ext[9000];

	/* extensions */
	memset(ext, 'x', sizeof(ext) - 1);
	mock_open(m);
	feed(CHUNKED("/") "1;");
	feed(ext);
	ck_out(E400);
	ck_sound();
	mock_open(m);
	feed(CHUNKED("/"));
	for (unsigned i = 0; i < 400 && !m->closed; i++)
		feed("1;xxxxxxxxxxxxxxxxxxx\r\na\r\n");
	ck_out(E400);
	ck_sound();
	/* bytes of extensions do not count for trailers */
	mock_open(m);
	feed(CHUNKED("/") "1;");
	mock_input(m, ext, 4000);
	feed("\r\na\r\n0\r\nt:");
	mock_input(m, ext, 8000);
	mock_input(m, ext, 8000);
	feed("\r\n\r\n");
	ck_out(OK2);
	ck_sound();
	/* trailers */
	mock_open(m);
	feed(CHUNKED("/") "0\r\n");
	for (unsigned i = 0; i < 4 && !m->closed; i++) {
		feed("t:");
		feed(ext);
		feed("\r\n");
	}
	ck_out(E431);
	ck_assert_uint_eq(m->errors[SL_FRONT_ERR_HEAD_TOO_LARGE], 1);
	ck_sound();
}
