/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by tests of HTTP/1: requests, replies, one connection. */
#ifndef HTTP1_TALK_H
#define HTTP1_TALK_H

#include <check.h>
#include "mock_host.h"

static struct mock *m;

static inline void setup(void)
{
	m = mock_new(&sl_front_http1);
}

static inline void teardown(void)
{
	mock_free(m);
}

#define H             "Host: a\r\n"
#define GET(path)     "GET " path " HTTP/1.1\r\n" H "\r\n"
#define POST(path, n) "POST " path " HTTP/1.1\r\n" H "Content-Length: " #n "\r\n\r\n"
#define CHUNKED(path) "POST " path " HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n"
#define OK_HEAD       "HTTP/1.1 200 OK\r\nServer: sluice\r\nDate: " MOCK_DATE "\r\n"
#define OK_LEN(n)     OK_HEAD "Content-Length: " #n "\r\n"
#define OK2           OK_LEN(2) "\r\nok"
#define OK2_CLOSE     OK_LEN(2) "Connection: close\r\n\r\nok"
#define OK2_KEEP      OK_LEN(2) "Connection: keep-alive\r\n\r\nok"
#define ERROR_HEAD(status, len)                                                                    \
	"HTTP/1.1 " status "\r\nServer: sluice\r\nDate: " MOCK_DATE                                \
	"\r\nContent-Type: text/plain\r\nContent-Length: " #len "\r\nConnection: close\r\n"
#define E400 ERROR_HEAD("400 Bad Request", 16) "\r\n400 Bad Request\n"
#define E413 ERROR_HEAD("413 Content Too Large", 22) "\r\n413 Content Too Large\n"
#define E414 ERROR_HEAD("414 URI Too Long", 17) "\r\n414 URI Too Long\n"
#define E417 ERROR_HEAD("417 Expectation Failed", 23) "\r\n417 Expectation Failed\n"
#define E431                                                                                       \
	ERROR_HEAD("431 Request Header Fields Too Large", 36)                                      \
	"\r\n431 Request Header Fields Too Large\n"
#define E501 ERROR_HEAD("501 Not Implemented", 20) "\r\n501 Not Implemented\n"
#define E503                                                                                       \
	ERROR_HEAD("503 Service Unavailable", 24)                                                  \
	"Retry-After: 1\r\n\r\n503 Service "                                                       \
	"Unavailable\n"
#define E505 ERROR_HEAD("505 HTTP Version Not Supported", 31) "\r\n505 HTTP Version Not Supported\n"
#define E405                                                                                       \
	ERROR_HEAD("405 Method Not Allowed", 23)                                                   \
	"allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\n\r\n405 Method Not Allowed\n"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"

static inline void ck_text(const char *got, size_t len, const char *want, const char *what,
			   const char *in)
{
	ck_assert_msg(len == strlen(want) && !memcmp(got, want, len),
		      "%s of <<%s>>:\n<<%.*s>>\nwanted <<%s>>", what, in, (int)len, got, want);
}

static inline void ck_sound(void)
{
	const char *broken = mock_shut(m);

	ck_assert_msg(!broken, "contract: %s", broken);
}

static inline size_t feed(const char *bytes)
{
	return mock_input(m, bytes, strlen(bytes));
}

static inline void ck_out(const char *want)
{
	ck_text(m->out, m->out_len, want, "reply", "");
}

static inline void reply_is(unsigned status, const char *body, uint64_t len)
{
	m->reply = (struct sl_reply){
		.status = (uint16_t)status,
		.body_len = len,
	};
	m->reply_body = sl_span_cstr(body);
}

#endif
