/* SPDX-License-Identifier: Apache-2.0 */
/* Replies of HTTP/1 servers by a table: what is refused, and how what is taken is framed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "origin/h1_reply.h"
#include "suite.h"

static uint8_t *page; /* followed by one that cannot be read */
static size_t page_len;
static struct origin_h1_reply reply;

static void set_up(void)
{
	page_len = (size_t)sysconf(_SC_PAGESIZE) * 32;
	page = mmap(NULL, page_len * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_assert_int_eq(mprotect(page + page_len, page_len, PROT_NONE), 0);
}

static void tear_down(void)
{
	munmap(page, page_len * 2);
}

FIXTURE(set_up, tear_down)

/* A copy whose last byte is the last that may be read. */
static ssize_t parse(const void *bytes, size_t len, bool to_head)
{
	uint8_t *at = page + page_len - len;

	ck_assert_uint_le(len, page_len);
	memcpy(at, bytes, len);
	return origin_h1_head(sl_span_of(at, len), to_head, &reply);
}

#define OK "HTTP/1.1 200 OK\r\n"

static const struct {
	const char *what, *bytes;
	size_t len;
} refused[] = {
#define BAD(what, bytes)                                                                           \
	{                                                                                          \
		what, bytes, sizeof(bytes) - 1                                                     \
	}
	BAD("another protocol", "ICY 200 OK\r\n\r\n"),
	BAD("HTTP/2", "HTTP/2.0 200 OK\r\n\r\n"),
	BAD("HTTP/1.2", "HTTP/1.2 200 OK\r\n\r\n"),
	BAD("HTTP/1.10", "HTTP/1.10 200 OK\r\n\r\n"),
	BAD("version in lower case", "http/1.1 200 OK\r\n\r\n"),
	BAD("status of two digits", "HTTP/1.1 20 OK\r\n\r\n"),
	BAD("status of four digits", "HTTP/1.1 2000 OK\r\n\r\n"),
	BAD("status 099", "HTTP/1.1 099 OK\r\n\r\n"),
	BAD("status 600", "HTTP/1.1 600 OK\r\n\r\n"),
	BAD("status with a sign", "HTTP/1.1 +20 OK\r\n\r\n"),
	BAD("two blanks", "HTTP/1.1  200 OK\r\n\r\n"),
	BAD("an empty line in front", "\r\nHTTP/1.1 200 OK\r\n\r\n"),
	BAD("NUL in the reason", "HTTP/1.1 200 O\0K\r\n\r\n"),
	BAD("bare CR in the reason", "HTTP/1.1 200 O\rK\r\n\r\n"),
	BAD("bare LF behind the status line", "HTTP/1.1 200 OK\nA: b\r\n\r\n"),
	BAD("bare LF behind a field", OK "A: b\n\r\n"),
	BAD("bare LF at the end", OK "A: b\r\n\n"),
	BAD("bare CR in a value", OK "A: b\rc\r\n\r\n"),
	BAD("NUL in a value", OK "A: b\0c\r\n\r\n"),
	BAD("DEL in a value", OK "A: b\177c\r\n\r\n"),
	BAD("blank before the colon", OK "A : b\r\n\r\n"),
	BAD("no name", OK ": b\r\n\r\n"),
	BAD("no colon", OK "Ab\r\n\r\n"),
	BAD("obs-fold", OK "A: b\r\n c\r\n\r\n"),
	BAD("a name with a quote", OK "A\": b\r\n\r\n"),
	BAD("two lengths", OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
	BAD("a list of lengths", OK "Content-Length: 1, 2\r\n\r\n"),
	BAD("a list with another thing", OK "Content-Length: 1, x\r\n\r\n"),
	BAD("a list that ends in a comma", OK "Content-Length: 1,\r\n\r\n"),
	BAD("a list that begins with one", OK "Content-Length: ,1\r\n\r\n"),
	BAD("an empty length", OK "Content-Length:\r\n\r\n"),
	BAD("a signed length", OK "Content-Length: +1\r\n\r\n"),
	BAD("a hexadecimal length", OK "Content-Length: 0x1\r\n\r\n"),
	BAD("a length with a blank in it", OK "Content-Length: 1 2\r\n\r\n"),
	BAD("a length of 2^64", OK "Content-Length: 18446744073709551616\r\n\r\n"),
	BAD("a length of 2^64 - 1", OK "Content-Length: 18446744073709551615\r\n\r\n"),
	BAD("length and coding", OK "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("coding and length", OK "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"),
	BAD("two codings", OK "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("a coding before chunked", OK "Transfer-Encoding: gzip, chunked\r\n\r\n"),
	BAD("another coding", OK "Transfer-Encoding: identity\r\n\r\n"),
	BAD("an empty coding", OK "Transfer-Encoding:\r\n\r\n"),
	BAD("a disguised coding", OK "Transfer-Encoding: \013chunked\r\n\r\n"),
	BAD("a coding in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("204 with an odd coding", "HTTP/1.1 204 N\r\nTransfer-Encoding: gzip\r\n\r\n"),
	BAD("100 with chunks", "HTTP/1.1 100 C\r\nTransfer-Encoding: chunked\r\n\r\n"),
	BAD("100 with a length", "HTTP/1.1 100 C\r\nContent-Length: 5\r\n\r\n"),
#undef BAD
};

TEST(an_ambiguous_reply_is_refused)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		ck_assert_msg(parse(refused[i].bytes, refused[i].len, false) == -1,
			      "%s: not refused", refused[i].what);
		ck_assert_msg(reply.wrong, "%s: without a reason", refused[i].what);
	}
}

/* A prefix of what is refused is refused or incomplete, never taken. */
TEST(no_prefix_of_a_refused_reply_is_taken)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		for (size_t len = 0; len < refused[i].len; len++)
			ck_assert_msg(parse(refused[i].bytes, len, false) <= 0, "%s at %zu",
				      refused[i].what, len);
	}
}

static const struct {
	const char *bytes;
	unsigned status, body;
	bool to_head, keep_alive;
	uint64_t length;
	uint32_t fields;
} taken[] = {
	{OK "Content-Length: 5\r\n\r\n", 200, ORIGIN_LENGTH, false, true, 5, 1},
	{OK "content-length:5\r\n\r\n", 200, ORIGIN_LENGTH, false, true, 5, 1},
	{OK "Content-Length: 0\r\n\r\n", 200, ORIGIN_LENGTH, false, true, 0, 1},
	{OK "Content-Length: 5\r\n\r\n", 200, ORIGIN_NO_BODY, true, true, 5, 1},
	{OK "Transfer-Encoding: chunked\r\n\r\n", 200, ORIGIN_NO_BODY, true, true, SL_LEN_UNKNOWN,
	 1},
	{OK "TRANSFER-ENCODING: Chunked \r\n\r\n", 200, ORIGIN_CHUNKS, false, true, SL_LEN_UNKNOWN,
	 1},
	{OK "\r\n", 200, ORIGIN_UNTIL_CLOSE, false, false, SL_LEN_UNKNOWN, 0},
	{OK "Connection: close\r\nContent-Length: 2\r\n\r\n", 200, ORIGIN_LENGTH, false, false, 2,
	 2},
	{OK "Connection: a , CLOSE\r\nContent-Length: 2\r\n\r\n", 200, ORIGIN_LENGTH, false, false,
	 2, 2},
	{"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", 200, ORIGIN_LENGTH, false, false, 2, 1},
	{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n", 200,
	 ORIGIN_LENGTH, false, true, 2, 2},
	{"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 204, ORIGIN_NO_BODY, false, true,
	 0, 1},
	{"HTTP/1.1 204 N\r\nContent-Length: 5\r\n\r\n", 204, ORIGIN_NO_BODY, false, false, 5, 1},
	{"HTTP/1.1 204 N\r\nTransfer-Encoding: chunked\r\n\r\n", 204, ORIGIN_NO_BODY, false, false,
	 SL_LEN_UNKNOWN, 1},
	{"HTTP/1.1 204 N\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 204,
	 ORIGIN_NO_BODY, false, false, 5, 2},
	{"HTTP/1.1 304 N\r\nTransfer-Encoding: chunked\r\n\r\n", 304, ORIGIN_NO_BODY, false, false,
	 SL_LEN_UNKNOWN, 1},
	{OK "Content-Length: 5\r\ncontent-length: 5\r\n\r\n", 200, ORIGIN_LENGTH, false, true, 5,
	 2},
	{OK "Content-Length: 5, 5\r\n\r\n", 200, ORIGIN_LENGTH, false, true, 5, 1},
	{"HTTP/1.1 304 N\r\nContent-Length: 9\r\n\r\n", 304, ORIGIN_NO_BODY, false, true, 9, 1},
	{"HTTP/1.1 100 Continue\r\n\r\n", 100, ORIGIN_NO_BODY, false, true, SL_LEN_UNKNOWN, 0},
	{"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\n", 200, ORIGIN_LENGTH, false, true, 1, 1},
	{"HTTP/1.1 200 \r\nContent-Length: 1\r\n\r\n", 200, ORIGIN_LENGTH, false, true, 1, 1},
	{OK "A:\r\nB: \t c d \t\r\nA: \303\244\r\nContent-Length: 1\r\n\r\n", 200, ORIGIN_LENGTH,
	 false, true, 1, 4},
};

TEST(an_accepted_reply_is_framed_as_rfc_9112_says)
{
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++) {
		size_t len = strlen(taken[i].bytes);

		ck_assert_msg(parse(taken[i].bytes, len, taken[i].to_head) == (ssize_t)len,
			      "%zu: %s", i, reply.wrong);
		ck_assert_uint_eq(reply.status, taken[i].status);
		ck_assert_msg(reply.body == taken[i].body, "%zu: body %u", i, reply.body);
		ck_assert_msg(reply.keep_alive == taken[i].keep_alive, "%zu: keep-alive", i);
		ck_assert_uint_eq(reply.length, taken[i].length);
		ck_assert_uint_eq(reply.fields.cnt, taken[i].fields);
		for (size_t cut = 0; cut < len; cut++)
			ck_assert_msg(parse(taken[i].bytes, cut, false) == 0, "%zu cut at %zu", i,
				      cut);
	}
}

TEST(the_reason_follows_the_status)
{
	static const char bytes[] = "HTTP/1.1 404 Nothing \344 here \r\n\r\n";

	ck_assert_int_eq(parse(bytes, sizeof(bytes) - 1, false), (ssize_t)sizeof(bytes) - 1);
	ck_assert(sl_span_eq(reply.reason, sl_span_str("Nothing \344 here ")));
	ck_assert_int_gt(parse("HTTP/1.1 404\r\n\r\n", 16, false), 0);
	ck_assert_uint_eq(reply.reason.len, 0);
}

TEST(fields_keep_their_order_and_duplicates)
{
	static const char bytes[] = OK "Set-Cookie: a=1\r\nX: y\r\nSet-Cookie:  b=2 \r\n\r\nbody";

	ck_assert_int_eq(parse(bytes, sizeof(bytes) - 1, false), (ssize_t)sizeof(bytes) - 5);
	ck_assert_uint_eq(reply.fields.cnt, 3);
	ck_assert(sl_span_eq(reply.fields.at[0].value, sl_span_str("a=1")));
	ck_assert(sl_span_eq(reply.fields.at[1].name, sl_span_str("X")));
	ck_assert(sl_span_eq(reply.fields.at[2].value, sl_span_str("b=2")));
}

TEST(heads_have_limits)
{
	char *many = malloc(page_len);
	size_t len = 0;

	len += (size_t)sprintf(many, OK);
	for (unsigned i = 0; i <= ORIGIN_FIELDS_MAX; i++)
		len += (size_t)sprintf(many + len, "A: b\r\n");
	ck_assert_int_eq(parse(many, len, false), -1);
	ck_assert_str_eq(reply.wrong, "more fields than max_reply_fields can allow");
	len = (size_t)sprintf(many, OK "A: ");
	memset(many + len, 'x', ORIGIN_HEAD_MAX);
	ck_assert_int_eq(parse(many, ORIGIN_HEAD_MAX - 1, false), 0);
	ck_assert_int_eq(parse(many, ORIGIN_HEAD_MAX, false), -1);
	free(many);
}

TEST(trailers_are_fields_up_to_an_empty_line)
{
	struct origin_fields f;
	const char *wrong;

	ck_assert_int_eq(origin_h1_fields(sl_span_str("A: b\r\n\r\nrest"), &f, &wrong), 8);
	ck_assert_uint_eq(f.cnt, 1);
	ck_assert_int_eq(origin_h1_fields(sl_span_str("\r\n"), &f, &wrong), 2);
	ck_assert_uint_eq(f.cnt, 0);
	ck_assert_int_eq(origin_h1_fields(sl_span_str("A: b\r\n"), &f, &wrong), 0);
	ck_assert_int_eq(origin_h1_fields(sl_span_str("A: b\n\r\n"), &f, &wrong), -1);
}
