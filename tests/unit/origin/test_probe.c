/* SPDX-License-Identifier: Apache-2.0 */
#include "origin/probe.h"

#include <string.h>

#include "base/check.h"
#include "suite.h"

FIXTURE(NULL, NULL)

static const struct origin_probe_target http = {
	.authority = "site.example:8000", .path = "/healthz", .expect = 200};
static struct origin_probe probe;
static uint8_t request[ORIGIN_PROBE_REQUEST + 1];

/* In pieces of each size, the result is the same. */
static enum origin_probe_result read_in(const struct origin_probe_target *t, const void *bytes,
					size_t len, size_t piece)
{
	enum origin_probe_result r = ORIGIN_PROBE_PENDING;
	const uint8_t *at = bytes;

	ck_assert_uint_gt(origin_probe_begin(&probe, t, request), 0);
	while (len && r == ORIGIN_PROBE_PENDING) {
		size_t n = piece < len ? piece : len;

		r = origin_probe_input(&probe, at, n);
		at += n;
		len -= n;
	}
	return r;
}

TEST(http_request_asks_for_the_path)
{
	size_t len = origin_probe_begin(&probe, &http, request);

	request[len] = 0;
	ck_assert_str_eq((char *)request,
			 "GET /healthz HTTP/1.1\r\nHost: site.example:8000\r\n"
			 "User-Agent: sluice-health\r\nAccept: */*\r\nConnection: close\r\n\r\n");
}

static const struct {
	const char *reply;
	enum origin_probe_result result;
	const char *why;
} replies[] = {
	{"HTTP/1.1 200 OK\r\n\r\n", ORIGIN_PROBE_OK, ""},
	{"HTTP/1.0 200\r\n\r\n", ORIGIN_PROBE_OK, ""},
	{"HTTP/1.1 200", ORIGIN_PROBE_OK, ""},
	{"HTTP/1.1 20", ORIGIN_PROBE_PENDING, ""},
	{"HTTP/1.1 503 Busy\r\n\r\n", ORIGIN_PROBE_FAILED, "status 503; expected 200"},
	{"HTTP/1.1 2x0 OK\r\n\r\n", ORIGIN_PROBE_FAILED, "the reply is not HTTP/1.1"},
	{"SSH-2.0-OpenSSH_9\r\n", ORIGIN_PROBE_FAILED, "the reply is not HTTP/1.1"},
};

TEST_EACH(http_status_decides, SL_ARRAY_LEN(replies))
{
	size_t len = strlen(replies[_i].reply);

	for (size_t piece = 1; piece <= len; piece++) {
		ck_assert_int_eq(read_in(&http, replies[_i].reply, len, piece), replies[_i].result);
		ck_assert_str_eq(probe.why, replies[_i].why);
	}
}

static const struct origin_probe_target grpc = {
	.grpc = true, .authority = "site.example", .service = "a.B"};

/* Frames of the request: preface, SETTINGS, HEADERS, DATA with the name of the service. */
TEST(grpc_request_asks_for_the_service)
{
	static const uint8_t data[] = {0, 0, 10, 0, 1,    0, 0,   0,   1,  0,
				       0, 0, 0,  5, 0x0a, 3, 'a', '.', 'B'};
	size_t len = origin_probe_begin(&probe, &grpc, request), head;

	ck_assert_mem_eq(request, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
	ck_assert_mem_eq(request + 24, "\0\0\0\4\0\0\0\0\0", 9);
	head = (size_t)request[34] << 8 | request[35];
	ck_assert_uint_eq(request[36], 1);
	ck_assert_uint_eq(len, 24 + 9 + 9 + head + sizeof(data));
	ck_assert_mem_eq(request + len - sizeof(data), data, sizeof(data));
}

#define SETTINGS_FRAME "\0\0\6\4\0\0\0\0\0\0\3\0\0\0\144"
#define HEAD_FRAME     "\0\0\3\1\4\0\0\0\1\210\17\20"
#define DATA_FRAME     "\0\0\7\0\0\0\0\0\1\0\0\0\0\2"
#define BYTES(text)    text, sizeof(text) - 1

static const struct {
	const char *bytes;
	size_t len;
	enum origin_probe_result result;
} frames[] = {
	{BYTES(SETTINGS_FRAME HEAD_FRAME DATA_FRAME "\10\1"), ORIGIN_PROBE_OK},
	{BYTES(SETTINGS_FRAME HEAD_FRAME DATA_FRAME "\10\2"), ORIGIN_PROBE_FAILED},
	{BYTES(SETTINGS_FRAME HEAD_FRAME DATA_FRAME "\10"), ORIGIN_PROBE_PENDING},
	{BYTES(SETTINGS_FRAME HEAD_FRAME "\0\0\5\0\0\0\0\0\1\0\0\0\0\0"), ORIGIN_PROBE_FAILED},
	/* the message in two frames */
	{BYTES(SETTINGS_FRAME HEAD_FRAME "\0\0\6\0\0\0\0\0\1\0\0\0\0\2\10"
					 "\0\0\1\0\0\0\0\0\1\1"),
	 ORIGIN_PROBE_OK},
	/* compressed; too long; trailers only; RST_STREAM; GOAWAY; padded; not HTTP/2 */
	{BYTES("\0\0\7\0\0\0\0\0\1\1\0\0\0\2\10\1"), ORIGIN_PROBE_FAILED},
	{BYTES("\0\0\7\0\0\0\0\0\1\0\0\1\0\2\10\1"), ORIGIN_PROBE_FAILED},
	{BYTES("\0\0\7\0\0\0\0\0\1\0\0\0\0\100\10\1"), ORIGIN_PROBE_FAILED},
	{BYTES(SETTINGS_FRAME "\0\0\3\1\5\0\0\0\1\210\17\20"), ORIGIN_PROBE_FAILED},
	{BYTES("\0\0\4\3\0\0\0\0\1\0\0\0\7"), ORIGIN_PROBE_FAILED},
	{BYTES("\0\0\10\7\0\0\0\0\0\0\0\0\1\0\0\0\0"), ORIGIN_PROBE_FAILED},
	{BYTES("\0\0\10\0\10\0\0\0\1\1\0\0\0\0\2\10\1"), ORIGIN_PROBE_FAILED},
	{BYTES("HTTP/1.1 400 Bad Request\r\n\r\n"), ORIGIN_PROBE_FAILED},
};

TEST_EACH(grpc_message_decides, SL_ARRAY_LEN(frames))
{
	for (size_t piece = 1; piece <= frames[_i].len; piece++)
		ck_assert_int_eq(read_in(&grpc, frames[_i].bytes, frames[_i].len, piece),
				 frames[_i].result);
}

TEST(requests_that_do_not_fit_are_refused)
{
	static char text[ORIGIN_PROBE_REQUEST];
	struct origin_probe_target long_path = http, long_service = grpc;

	memset(text, '/', sizeof(text) - 1);
	long_path.path = text;
	long_service.service = text;
	ck_assert_uint_eq(origin_probe_begin(&probe, &long_path, request), 0);
	ck_assert_uint_eq(origin_probe_begin(&probe, &long_service, request), 0);
}
