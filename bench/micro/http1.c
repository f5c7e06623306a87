/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1: ns per parsed head, per request through the whole front, and per formatted reply.
 * llhttp (C source of the package node-llhttp) parses the same heads for comparison. Prints rows of
 * name, value, unit; each is the best of several rounds.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "front/http1/http1.h"
#include <llhttp.h>

enum { ROUNDS = 2000, REPEAT = 500 };

static const char get4[] = "GET /v1/score?k=10 HTTP/1.1\r\n"
			   "Host: gateway.example:8080\r\n"
			   "User-Agent: curl/7.88.1\r\n"
			   "Accept: */*\r\n"
			   "X-Request-Id: 5f2b8c1e9a7d\r\n\r\n";

static const char get12[] =
	"GET /v1/score?k=10 HTTP/1.1\r\n"
	"Host: gateway.example:8080\r\n"
	"Connection: keep-alive\r\n"
	"Cache-Control: max-age=0\r\n"
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
	"Chrome/120.0.0.0 Safari/537.36\r\n"
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8\r\n"
	"Accept-Encoding: gzip, deflate, br\r\n"
	"Accept-Language: en-US,en;q=0.9\r\n"
	"Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n"
	"Referer: http://gateway.example:8080/index.html\r\n"
	"Upgrade-Insecure-Requests: 1\r\n"
	"Priority: u=1, i\r\n"
	"X-Request-Id: 5f2b8c1e9a7d\r\n\r\n";

static struct sl_front_limits limits;
static volatile uint64_t sink;

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void report(const char *name, void (*run)(struct sl_span), struct sl_span in)
{
	uint64_t best = UINT64_MAX;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t t = now_ns();

		run(in);
		t = now_ns() - t;
		if (t < best)
			best = t;
	}
	printf("%s\t%.1f\tns\n", name, (double)best / REPEAT);
}

static void run_parse(struct sl_span in)
{
	struct sl_http1_head head;

	for (unsigned i = 0; i < REPEAT; i++) {
		sink += (uint64_t)sl_http1_parse(in, &limits, &head);
		__asm__ volatile("" : : "r"(&head) : "memory");
	}
}

static void run_format(struct sl_span body)
{
	static const struct sl_header headers[] = {
		{SL_SPAN_LIT("x-backend"), SL_SPAN_LIT("score-1")},
		{SL_SPAN_LIT("cache-control"), SL_SPAN_LIT("no-store")},
	};
	struct sl_reply r = {
		.status = 200,
		.content_type = sl_span_str("application/json"),
		.headers = headers,
		.header_cnt = body.len ? 2 : 0,
	};
	uint8_t buf[1024];

	for (unsigned i = 0; i < REPEAT; i++) {
		sink += sl_http1_format(buf, sizeof(buf), &r, 123, "Sun, 06 Nov 1994 08:49:37 GMT",
					SL_HTTP1_LENGTH, SL_HTTP1_PERSIST);
		__asm__ volatile("" : : "r"(buf) : "memory");
	}
}

/* The smallest host: each reply is there as soon as its request has begun. */
struct echo {
	uint64_t state[SL_FRONT_STATE_SIZE / 8];
	struct sl_stream st;
	struct sl_span body;
	struct sl_front_env env;
	uint8_t out[4096];
};

static struct sl_stream *echo_begin(void *conn, const struct sl_request *rq)
{
	struct echo *e = conn;

	(void)rq;
	e->st = (struct sl_stream){0};
	e->body = sl_span_str("hello");
	return &e->st;
}

static bool echo_head(void *conn, struct sl_stream *st, struct sl_reply_parts *out)
{
	(void)conn;
	(void)st;
	out->reply = (struct sl_reply){
		.status = 200,
		.content_type = sl_span_str("text/plain"),
		.body_len = 5,
	};
	return true;
}

static struct sl_piece echo_peek(void *conn, struct sl_stream *st)
{
	struct echo *e = conn;

	(void)st;
	return (struct sl_piece){.bytes = e->body, .behind = SL_END};
}

static void echo_take(void *conn, struct sl_stream *st, size_t n)
{
	struct echo *e = conn;

	(void)st;
	e->body = sl_span_skip(e->body, n);
}

static void echo_done(void *conn, struct sl_stream *st)
{
	(void)conn;
	(void)st;
}

static bool echo_write(void *conn, const void *bytes, size_t len)
{
	struct echo *e = conn;

	memcpy(e->out, bytes, len);
	return true;
}

static size_t echo_room(void *conn)
{
	(void)conn;
	return 65536;
}

static bool echo_hold(void *conn, int32_t frames)
{
	(void)conn, (void)frames;
	return true;
}

static void run_front(struct sl_span in)
{
	static const struct sl_front_cb ops = {
		.begin = echo_begin,
		.head = echo_head,
		.peek = echo_peek,
		.take = echo_take,
		.done = echo_done,
		.write_head = echo_write,
		.room = echo_room,
		.hold = echo_hold,
	};
	static struct echo e;

	e.env = (struct sl_front_env){
		.limits = &limits,
		.cb = &ops,
		.date = "Sun, 06 Nov 1994 08:49:37 GMT",
	};
	sl_front_http1.open(e.state, &e.env, &e, 0);
	for (unsigned i = 0; i < REPEAT; i++) {
		struct sl_chunk c = {.ptr = in.ptr, .len = in.len};

		sink += sl_front_http1.input(e.state, &e.env, &c);
	}
}

static int count(llhttp_t *p, const char *at, size_t len)
{
	(void)p;
	sink += (uintptr_t)at + len;
	return 0;
}

/* Uses the callbacks that a caller needs to know method, target and fields. */
static void run_llhttp(struct sl_span in)
{
	llhttp_settings_t settings;
	llhttp_t p;

	llhttp_settings_init(&settings);
	settings.on_url = settings.on_header_field = settings.on_header_value = count;
	llhttp_init(&p, HTTP_REQUEST, &settings);
	for (unsigned i = 0; i < REPEAT; i++)
		sink += (uint64_t)llhttp_execute(&p, (const char *)in.ptr, in.len);
}

int main(void)
{
	struct sl_span small = sl_span_of(get4, sizeof(get4) - 1);
	struct sl_span browser = sl_span_of(get12, sizeof(get12) - 1);

	sl_front_limits_default(&limits);
	report("http1_parse_4_headers", run_parse, small);
	report("http1_parse_12_headers", run_parse, browser);
	report("http1_request_and_reply_4_headers", run_front, small);
	report("http1_request_and_reply_12_headers", run_front, browser);
	report("http1_format_reply", run_format, sl_span_of(NULL, 0));
	report("http1_format_reply_2_headers", run_format, small);
	report("llhttp_parse_4_headers", run_llhttp, small);
	report("llhttp_parse_12_headers", run_llhttp, browser);
	return 0;
}
