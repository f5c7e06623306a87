/* SPDX-License-Identifier: Apache-2.0 */
/* The head parser by a table: each rule of RFC 9112 that it enforces, with the status it gives. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include "front/http1/http1.h"
#include "http/chars.h"
#include "suite.h"

static struct sl_front_limits limits;
static uint8_t *guarded; /* one page whose end is followed by one that cannot be read */
static long page;

static void setup(void)
{
	page = sysconf(_SC_PAGESIZE) * 8;
	sl_front_limits_default(&limits);
	limits.max_body = 64u << 20; /* needed by the largest accepted length below */
	guarded = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);
	ck_assert_ptr_ne(guarded, MAP_FAILED);
	ck_assert_int_eq(mprotect(guarded + page, (size_t)page, PROT_NONE), 0);
}

static void teardown(void)
{
	munmap(guarded, (size_t)page * 2);
}

/* Parses a copy whose last byte is the last that may be read. */
static ssize_t parse_at_edge(const void *bytes, size_t len, struct sl_http1_head *head)
{
	uint8_t *at = guarded + page - len;

	ck_assert_uint_le(len, (size_t)page);
	memcpy(at, bytes, len);
	return sl_http1_parse(sl_span_of(at, len), &limits, head);
}

#define H   "Host: a\r\n"
#define END "\r\n"

struct refusal {
	const char *what, *bytes;
	size_t len;
	unsigned status;
	int error; /* enum sl_front_error */
};
#define BAD(what, status, error, bytes)                                                            \
	{                                                                                          \
		what, bytes, sizeof(bytes) - 1, status, SL_FRONT_ERR_##error                       \
	}

static const struct refusal refusals[] = {
	/* request line */
	BAD("no method", 400, BAD_REQUEST, " / HTTP/1.1\r\n" H END),
	BAD("method with a control byte", 400, BAD_REQUEST, "G\001T / HTTP/1.1\r\n" H END),
	BAD("method with NUL", 400, BAD_REQUEST, "G\0T / HTTP/1.1\r\n" H END),
	BAD("method with '/'", 400, BAD_REQUEST, "G/T / HTTP/1.1\r\n" H END),
	BAD("TLS hello", 400, BAD_REQUEST, "\026\003\001\002\000\001\000\001\374\003\003"),
	BAD("method of 33 bytes", 501, METHOD,
	    "AAAAAAAAAAAAAAAABBBBBBBBBBBBBBBBC / HTTP/1.1\r\n" H END),
	BAD("two blanks", 400, BAD_REQUEST, "GET  / HTTP/1.1\r\n" H END),
	BAD("two blanks behind", 400, BAD_REQUEST, "GET /  HTTP/1.1\r\n" H END),
	BAD("TAB as blank", 400, BAD_REQUEST, "GET\t/ HTTP/1.1\r\n" H END),
	BAD("HTTP/0.9", 400, BAD_REQUEST, "GET /\r\n"),
	BAD("no target", 400, BAD_REQUEST, "GET HTTP/1.1\r\n" H END),
	BAD("trailing blank", 400, BAD_REQUEST, "GET / HTTP/1.1 \r\n" H END),
	BAD("target with NUL", 400, BAD_REQUEST, "GET /\0 HTTP/1.1\r\n" H END),
	BAD("target with DEL", 400, BAD_REQUEST, "GET /\177 HTTP/1.1\r\n" H END),
	BAD("target with fragment", 400, BAD_REQUEST, "GET /a#b HTTP/1.1\r\n" H END),
	BAD("late bad byte in a long target", 400, BAD_REQUEST,
	    "GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\001 HTTP/1.1\r\n" H END),
	BAD("relative target", 400, BAD_REQUEST, "GET a HTTP/1.1\r\n" H END),
	BAD("* for GET", 400, BAD_REQUEST, "GET * HTTP/1.1\r\n" H END),
	BAD("other scheme", 400, BAD_REQUEST, "GET ftp://a/ HTTP/1.1\r\n" H END),
	BAD("absolute without authority", 400, BAD_REQUEST, "GET http:///a HTTP/1.1\r\n" H END),
	BAD("absolute with userinfo", 400, BAD_REQUEST, "GET http://u@a/ HTTP/1.1\r\n" H END),
	BAD("absolute with a bad port", 400, BAD_REQUEST, "GET http://a:x/ HTTP/1.1\r\n" H END),
	BAD("CONNECT", 405, METHOD, "CONNECT a:443 HTTP/1.1\r\n" H END),
	BAD("TRACE", 405, METHOD, "TRACE / HTTP/1.1\r\n" H END),
	BAD("lower-case name of the protocol", 400, BAD_REQUEST, "GET / http/1.1\r\n" H END),
	BAD("version 2.0", 505, VERSION, "GET / HTTP/2.0\r\n" H END),
	BAD("version 1.2", 505, VERSION, "GET / HTTP/1.2\r\n" H END),
	BAD("version 0.9", 505, VERSION, "GET / HTTP/0.9\r\n" H END),
	BAD("version 3.1", 505, VERSION, "GET / HTTP/3.1\r\n" H END),
	BAD("version of two digits", 400, BAD_REQUEST, "GET / HTTP/1.10\r\n" H END),
	BAD("version without digits", 400, BAD_REQUEST, "GET / HTTP/x.1\r\n" H END),
	BAD("version with a comma", 400, BAD_REQUEST, "GET / HTTP/1,1\r\n" H END),
	BAD("bare LF behind the request line", 400, SMUGGLING, "GET / HTTP/1.1\n" H END),
	BAD("bare CR behind the request line", 400, SMUGGLING, "GET / HTTP/1.1\r" H END),
	BAD("two empty lines in front", 400, BAD_REQUEST, "\r\n\r\nGET / HTTP/1.1\r\n" H END),
	BAD("bare LF in front", 400, BAD_REQUEST, "\nGET / HTTP/1.1\r\n" H END),
	BAD("bare CR in front", 400, SMUGGLING, "\rGET / HTTP/1.1\r\n" H END),
	/* field lines */
	BAD("blank before the colon", 400, SMUGGLING, "GET / HTTP/1.1\r\nHost : a\r\n" END),
	BAD("TAB before the colon", 400, SMUGGLING, "GET / HTTP/1.1\r\nHost\t: a\r\n" END),
	BAD("obs-fold", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n" END),
	BAD("obs-fold with TAB", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n" END),
	BAD("blank before the first field", 400, SMUGGLING, "GET / HTTP/1.1\r\n " H END),
	BAD("no name", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H ": a\r\n" END),
	BAD("no colon", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "abc\r\n" END),
	BAD("name with NUL", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "a\0b: c\r\n" END),
	BAD("name with '('", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "a(b: c\r\n" END),
	BAD("name with ']'", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "a]: c\r\n" END),
	BAD("name with 8 bits", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "a\344: c\r\n" END),
	BAD("name with '@'", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "@: c\r\n" END),
	BAD("value with NUL", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "a: b\0c\r\n" END),
	BAD("value with a control byte", 400, BAD_REQUEST,
	    "GET / HTTP/1.1\r\n" H "a: b\033c\r\n" END),
	BAD("value with VT", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "a: \013b\r\n" END),
	BAD("value with DEL", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H "a: b\177\r\n" END),
	BAD("control byte far into a value", 400, BAD_REQUEST,
	    "GET / HTTP/1.1\r\n" H "a: 0123456789abcdef0123456789abcdef\001\r\n" END),
	BAD("bare CR in a value", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "a: b\rc: d\r\n" END),
	BAD("bare LF behind a value", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "a: b\nc: d\r\n" END),
	BAD("CR CR LF", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "a: b\r\r\n" END),
	BAD("bare LF at the end", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "\n"),
	BAD("bare CR at the end", 400, SMUGGLING, "GET / HTTP/1.1\r\n" H "\rx"),
	/* Host */
	BAD("no Host", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nX: y\r\n" END),
	BAD("no Host beside an absolute target", 400, BAD_REQUEST,
	    "GET http://a/ HTTP/1.1\r\n" END),
	BAD("two Hosts", 400, BAD_REQUEST, "GET / HTTP/1.1\r\n" H H END),
	BAD("two Hosts in 1.0", 400, BAD_REQUEST, "GET / HTTP/1.0\r\n" H H END),
	BAD("Host with a path", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a/b\r\n" END),
	BAD("Host with a blank", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a b\r\n" END),
	BAD("Host with a list", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a,b\r\n" END),
	BAD("Host with userinfo", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: u@a\r\n" END),
	BAD("Host without a name", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: :80\r\n" END),
	BAD("Host with port 65536", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a:65536\r\n" END),
	BAD("Host with two ports", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: a:1:2\r\n" END),
	BAD("Host with an open bracket", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: [::1\r\n" END),
	BAD("Host with empty brackets", 400, BAD_REQUEST, "GET / HTTP/1.1\r\nHost: []\r\n" END),
	BAD("Host with bytes behind the bracket", 400, BAD_REQUEST,
	    "GET / HTTP/1.1\r\nHost: [::1]x\r\n" END),
	/* framing */
	BAD("Content-Length twice, equal", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n" END),
	BAD("Content-Length twice", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nCONTENT-LENGTH: 6\r\n" END),
	BAD("Content-Length list", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 5,5\r\n" END),
	BAD("Content-Length list with blank", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n" END),
	BAD("Content-Length empty", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length:\r\n" END),
	BAD("Content-Length signed", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n" END),
	BAD("Content-Length negative", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n" END),
	BAD("Content-Length hexadecimal", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n" END),
	BAD("Content-Length with a blank", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 1 0\r\n" END),
	BAD("Content-Length with a fraction", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 5.0\r\n" END),
	BAD("Content-Length of 2^64", 413, BODY_TOO_LARGE,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551616\r\n" END),
	BAD("Content-Length of 2^64 - 1", 413, BODY_TOO_LARGE,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 18446744073709551615\r\n" END),
	BAD("both lengths", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n" END),
	BAD("both lengths, the other way", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n" END),
	BAD("coding twice", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H
	    "Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n" END),
	BAD("chunked twice", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, chunked\r\n" END),
	BAD("chunked not last", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, gzip\r\n" END),
	BAD("empty coding", 400, SMUGGLING, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n" END),
	BAD("empty element", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: , chunked\r\n" END),
	BAD("empty element at the end", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, \r\n" END),
	BAD("empty element between", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip,,chunked\r\n" END),
	BAD("chunked with a parameter", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked;q=1\r\n" END),
	BAD("quoted chunked", 400, SMUGGLING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n" END),
	BAD("coding in 1.0", 400, SMUGGLING,
	    "POST / HTTP/1.0\r\n" H "Transfer-Encoding: chunked\r\n" END),
	BAD("gzip", 501, UNKNOWN_CODING, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip\r\n" END),
	BAD("gzip, chunked", 501, UNKNOWN_CODING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n" END),
	BAD("xchunked", 501, UNKNOWN_CODING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n" END),
	BAD("identity", 501, UNKNOWN_CODING,
	    "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n" END),
	BAD("other expectation", 417, BAD_REQUEST,
	    "POST / HTTP/1.1\r\n" H "Expect: 200-ok\r\n" END),
};

FIXTURE_ONCE(setup, teardown)

TEST_EACH(each_malformed_head_is_refused_with_its_status, sizeof(refusals) / sizeof(refusals[0]))
{
	const struct refusal *r = &refusals[_i];
	struct sl_http1_head head;
	ssize_t n = parse_at_edge(r->bytes, r->len, &head);

	ck_assert_msg(n == -1, "%s: accepted (%zd)", r->what, n);
	ck_assert_msg(head.status == r->status, "%s: %u", r->what, head.status);
	ck_assert_msg(head.error == r->error, "%s: error %u", r->what, head.error);
	/* A prefix is either incomplete or refused in the same way; never accepted. */
	for (size_t len = 0; len < r->len; len++) {
		n = parse_at_edge(r->bytes, len, &head);
		ck_assert_msg(
			n == 0 || (n == -1 && head.status == r->status && head.error == r->error),
			"%s: prefix of %zu gives %zd, %u", r->what, len, n, head.status);
	}
}

struct accepted {
	const char *bytes, *method, *path, *query, *authority;
	uint64_t length;
	int urgency;
	bool end, chunked, keep, expect;
};
#define NONE SL_LEN_UNKNOWN
static const struct accepted accepted[] = {
	{"GET / HTTP/1.1\r\n" H END, "GET", "/", "", "a", NONE, -1, 1, 0, 1, 0},
	{"\r\nGET / HTTP/1.1\r\n" H END, "GET", "/", "", "a", NONE, -1, 1, 0, 1, 0},
	{"GET /a/b?c=d?e HTTP/1.1\r\n" H END, "GET", "/a/b", "c=d?e", "a", NONE, -1, 1, 0, 1, 0},
	{"GET /? HTTP/1.1\r\n" H END, "GET", "/", "", "a", NONE, -1, 1, 0, 1, 0},
	{"GET /%zz/../{x}|^`\\ HTTP/1.1\r\n" H END, "GET", "/%zz/../{x}|^`\\", "", "a", NONE, -1, 1,
	 0, 1, 0},
	{"BREW /pot HTTP/1.1\r\n" H END, "BREW", "/pot", "", "a", NONE, -1, 1, 0, 1, 0},
	{"get / HTTP/1.1\r\n" H END, "get", "/", "", "a", NONE, -1, 1, 0, 1, 0},
	{"OPTIONS * HTTP/1.1\r\n" H END, "OPTIONS", "*", "", "a", NONE, -1, 1, 0, 1, 0},
	{"OPTIONS http://b:8 HTTP/1.1\r\n" H END, "OPTIONS", "*", "", "b:8", NONE, -1, 1, 0, 1, 0},
	{"GET http://b:8 HTTP/1.1\r\n" H END, "GET", "/", "", "b:8", NONE, -1, 1, 0, 1, 0},
	{"GET HTTP://b?x HTTP/1.1\r\n" H END, "GET", "/", "x", "b", NONE, -1, 1, 0, 1, 0},
	{"GET https://[::1]:8/p?x HTTP/1.1\r\n" H END, "GET", "/p", "x", "[::1]:8", NONE, -1, 1, 0,
	 1, 0},
	{"GET / HTTP/1.1\r\nHost:\r\n" END, "GET", "/", "", "", NONE, -1, 1, 0, 1, 0},
	{"GET / HTTP/1.1\r\nhOST:\t a.b-c:80 \t\r\n" END, "GET", "/", "", "a.b-c:80", NONE, -1, 1,
	 0, 1, 0},
	{"GET / HTTP/1.1\r\nHost: [fe80::1]\r\n" END, "GET", "/", "", "[fe80::1]", NONE, -1, 1, 0,
	 1, 0},
	{"GET / HTTP/1.1\r\nHost: a:\r\n" END, "GET", "/", "", "a:", NONE, -1, 1, 0, 1, 0},
	{"GET / HTTP/1.0\r\n" END, "GET", "/", "", "", NONE, -1, 1, 0, 0, 0},
	{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n" END, "GET", "/", "", "", NONE, -1, 1, 0, 1,
	 0},
	{"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n" END, "GET", "/", "", "", NONE, -1, 1,
	 0, 0, 0},
	{"GET / HTTP/1.1\r\n" H "Connection: foo ,, CLOSE\r\n" END, "GET", "/", "", "a", NONE, -1,
	 1, 0, 0, 0},
	{"GET / HTTP/1.1\r\n" H "Connection: closed\r\n" END, "GET", "/", "", "a", NONE, -1, 1, 0,
	 1, 0},
	{"GET / HTTP/1.1\r\n" H "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n" END,
	 "GET", "/", "", "a", NONE, -1, 1, 0, 1, 0},
	{"POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n" END, "POST", "/", "", "a", 0, -1, 1, 0, 1,
	 0},
	{"POST / HTTP/1.1\r\n" H "Content-Length: 007 \r\n" END, "POST", "/", "", "a", 7, -1, 0, 0,
	 1, 0},
	{"POST / HTTP/1.1\r\n" H "Content-Length: 67108864\r\n" END, "POST", "/", "", "a", 67108864,
	 -1, 0, 0, 1, 0},
	{"POST / HTTP/1.1\r\n" H "Transfer-Encoding: Chunked\r\n" END, "POST", "/", "", "a", NONE,
	 -1, 0, 1, 1, 0},
	{"POST / HTTP/1.1\r\n" H "Content-Length: 1\r\nExpect: 100-Continue\r\n" END, "POST", "/",
	 "", "a", 1, -1, 0, 0, 1, 1},
	{"POST / HTTP/1.1\r\n" H "Content-Length: 0\r\nExpect: 100-continue\r\n" END, "POST", "/",
	 "", "a", 0, -1, 1, 0, 1, 0},
	{"POST / HTTP/1.0\r\nContent-Length: 1\r\nExpect: what\r\n" END, "POST", "/", "", "", 1, -1,
	 0, 0, 0, 0},
	{"GET / HTTP/1.1\r\n" H "Priority: u=0\r\n" END, "GET", "/", "", "a", NONE, 0, 1, 0, 1, 0},
	{"GET / HTTP/1.1\r\n" H "Priority: i, u=7\r\n" END, "GET", "/", "", "a", NONE, 7, 1, 0, 1,
	 0},
	{"GET / HTTP/1.1\r\n" H "Priority: u=1, u=2;x\r\n" END, "GET", "/", "", "a", NONE, 2, 1, 0,
	 1, 0},
	{"GET / HTTP/1.1\r\n" H "Priority: u=8, u=12, u, uu=1\r\n" END, "GET", "/", "", "a", NONE,
	 -1, 1, 0, 1, 0},
	{"GET / HTTP/1.1\r\n" H "!#$%&'*+-.^_`|~09azAZ: \200\377\t\"(),/:;<=>?@[\\]{}\r\n" END,
	 "GET", "/", "", "a", NONE, -1, 1, 0, 1, 0},
	{"GET / HTTP/1.1\r\n" H "a:\r\nb: \t \r\n" END, "GET", "/", "", "a", NONE, -1, 1, 0, 1, 0},
	{"GET / HTTP/1.1\r\n" H
	 "content_length: x\r\nContent-Lengtg: 5\r\nTransfer-Encodinf: y\r\n" END,
	 "GET", "/", "", "a", NONE, -1, 1, 0, 1, 0},
};

static void ck_span(struct sl_span s, const char *want, const char *what)
{
	ck_assert_msg(s.len == strlen(want) && (!s.len || !memcmp(s.ptr, want, s.len)),
		      "%s: \"%.*s\", not \"%s\"", what, (int)s.len, s.ptr, want);
}

TEST_EACH(each_good_head_is_understood_once_it_is_whole, sizeof(accepted) / sizeof(accepted[0]))
{
	const struct accepted *a = &accepted[_i];
	size_t len = strlen(a->bytes);
	struct sl_http1_head head;

	for (size_t cut = 0; cut < len; cut++)
		ck_assert_int_eq(parse_at_edge(a->bytes, cut, &head), 0);
	ck_assert_int_eq(parse_at_edge(a->bytes, len, &head), (ssize_t)len);
	ck_span(head.rq.method_name, a->method, "method");
	ck_assert_int_eq(head.rq.method, sl_method_parse(sl_span_cstr(a->method)));
	ck_span(head.rq.path, a->path, "path");
	ck_span(head.rq.query, a->query, "query");
	ck_span(head.rq.authority, a->authority, "authority");
	ck_assert_uint_eq(head.rq.content_length, a->length);
	ck_assert_int_eq(head.rq.urgency, a->urgency);
	ck_assert_int_eq(head.rq.end, a->end);
	ck_assert_int_eq(head.chunked, a->chunked);
	ck_assert_int_eq(head.keep_alive, a->keep);
	ck_assert_int_eq(head.rq.expect, a->expect);
	ck_assert_int_eq(head.rq.proto, SL_PROTO_HTTP1);
}

TEST(fields_are_trimmed_and_numbered)
{
	static const char bytes[] =
		"POST /x HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain; a=b\r\n"
		"X-Long-Name-Of-More-Than-16-Bytes:  v w \t\r\n_: \r\n\r\nrest";
	struct sl_http1_head head;

	ck_assert_int_eq(parse_at_edge(bytes, sizeof(bytes) - 1, &head), sizeof(bytes) - 5);
	ck_assert_uint_eq(head.rq.header_cnt, 4);
	ck_span(head.rq.headers[0].name, "Host", "name");
	ck_span(head.rq.headers[0].value, "a", "value");
	ck_span(head.rq.headers[1].name, "Content-Type", "name");
	ck_span(head.rq.content_type, "text/plain; a=b", "content type");
	ck_span(head.rq.headers[2].name, "X-Long-Name-Of-More-Than-16-Bytes", "name");
	ck_span(head.rq.headers[2].value, "v w", "value");
	ck_span(head.rq.headers[3].name, "_", "name");
	ck_span(head.rq.headers[3].value, "", "value");
}

/* A bad byte is found at each position of names, values and targets of each length. */
TEST(a_bad_byte_is_found_at_each_position)
{
	char bytes[256];
	struct sl_http1_head head;

	for (int len = 1; len < 50; len++) {
		int n = snprintf(bytes, sizeof(bytes),
				 "GET /%.*s HTTP/1.1\r\nHost: a\r\n%.*s:%.*s\r\n\r\n", len,
				 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", len,
				 "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb", len,
				 "ccccccccccccccccccccccccccccccccccccccccccccccccccccccc");

		ck_assert_int_eq(parse_at_edge(bytes, (size_t)n, &head), n);
		for (int i = 0; i < n; i++) {
			char was = bytes[i];

			bytes[i] = 1;
			ck_assert_int_eq(parse_at_edge(bytes, (size_t)n, &head), -1);
			bytes[i] = was;
		}
	}
}

/* The table and the vector code against the grammar, for each byte. */
TEST(classes_of_bytes_follow_the_grammar)
{
	static const char tchar[] = "!#$%&'*+-.^_`|~";
	char bytes[128];
	struct sl_http1_head head;

	for (int c = 0; c < 256; c++) {
		bool alnum =
			(c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		bool token = alnum || (c && strchr(tchar, c));
		bool value = c == '\t' || (c >= ' ' && c != 127);
		bool target = c > ' ' && c != 127 && c != '#';
		int n;

		ck_assert_int_eq(sl_http_is((uint8_t)c, SL_CT_TOKEN), token);
		ck_assert_int_eq(sl_http_is((uint8_t)c, SL_CT_VALUE), value);
		ck_assert_int_eq(sl_http_is((uint8_t)c, SL_CT_TARGET), target);
		n = snprintf(bytes, sizeof(bytes),
			     "GET /abcdefghijklmno%cpqrst HTTP/1.1\r\nHost: a\r\n\r\n", c);
		ck_assert_int_eq(parse_at_edge(bytes, (size_t)n, &head), target ? n : -1);
		n = snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: a\r\nx%cy: z\r\n\r\n",
			     c);
		ck_assert_int_eq(parse_at_edge(bytes, (size_t)n, &head),
				 token || c == ':' ? n : -1);
		n = snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: a\r\nx: y%cz\r\n\r\n",
			     c);
		ck_assert_int_eq(parse_at_edge(bytes, (size_t)n, &head), value ? n : -1);
	}
}

static ssize_t parse_line_of(size_t target, size_t fields, size_t value, struct sl_http1_head *head)
{
	size_t cap = target + fields * (value + 8) + 64, n = 0;
	uint8_t *b = malloc(cap);
	ssize_t r;

	n += (size_t)sprintf((char *)b, "GET /");
	memset(b + n, 'a', target - 1);
	n += target - 1;
	n += (size_t)sprintf((char *)b + n, " HTTP/1.1\r\nHost: a\r\n");
	for (size_t i = 0; i < fields; i++) {
		n += (size_t)sprintf((char *)b + n, "x:");
		memset(b + n, 'v', value);
		n += value;
		n += (size_t)sprintf((char *)b + n, "\r\n");
	}
	n += (size_t)sprintf((char *)b + n, "\r\n");
	r = parse_at_edge(b, n, head);
	ck_assert(r <= 0 || r == (ssize_t)n);
	free(b);
	return r;
}

TEST(lines_and_fields_have_limits)
{
	struct sl_http1_head head;
	size_t line = limits.max_target - strlen("GET  HTTP/1.1");

	ck_assert_int_gt(parse_line_of(line, 0, 0, &head), 0);
	ck_assert_int_eq(parse_line_of(line + 1, 0, 0, &head), -1);
	ck_assert_uint_eq(head.status, 414);
	ck_assert_int_gt(parse_line_of(1, 99, 1, &head), 0);
	ck_assert_int_eq(parse_line_of(1, 100, 1, &head), -1);
	ck_assert_uint_eq(head.status, 431);
	/* 14 + 2 + 9 bytes around, 4 + value per field, 2 at the end */
	ck_assert_int_eq(parse_line_of(1, 1, limits.max_head - 16 - 9 - 4 - 2, &head),
			 limits.max_head);
	ck_assert_int_eq(parse_line_of(1, 1, limits.max_head - 16 - 9 - 4 - 1, &head), -1);
	ck_assert_uint_eq(head.status, 431);
	limits.max_headers = 100000;
	ck_assert_int_gt(parse_line_of(1, SL_HTTP1_HEADERS_MAX - 1, 1, &head), 0);
	ck_assert_int_eq(parse_line_of(1, SL_HTTP1_HEADERS_MAX, 1, &head), -1);
	ck_assert_uint_eq(head.status, 431);
}
