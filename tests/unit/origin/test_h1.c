/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1.1 over a transport and an owner that are this test: no agent, no socket. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include "origin/h1.h"
#include "base/tlv.h"
#include "suite.h"
#include "wire/rpc_wire.h"

/* The parser, with a count of the bytes that it reads. */
static ssize_t real_head(struct sl_span in, bool to_head, struct origin_h1_reply *out);
static ssize_t real_fields(struct sl_span in, struct origin_fields *out, const char **wrong);
#define origin_h1_head   real_head
#define origin_h1_fields real_fields
#include "origin/h1_reply.c"
#undef origin_h1_head
#undef origin_h1_fields

static size_t parsed;

ssize_t origin_h1_head(struct sl_span in, bool to_head, struct origin_h1_reply *out)
{
	parsed += in.len;
	return real_head(in, to_head, out);
}

ssize_t origin_h1_fields(struct sl_span in, struct origin_fields *out, const char **wrong)
{
	parsed += in.len;
	return real_fields(in, out, wrong);
}

enum { SENT_MAX = 4096, HEARD_MAX = 2 << 20 };

static struct origin own;
static struct origin_server server;
static struct origin_call call;
static struct origin_conn *conn;
static struct sl_request_view view;

static struct {
	char sent[SENT_MAX];
	size_t sent_len, takes; /* bytes that send() takes until it is full */
	bool shut, input, writable, idle;
	bool full; /* the owner has no room for parts */
	unsigned parts, ends, losses;
	int error, status;
	bool has_total; /* of its head */
	unsigned fields;
	size_t len, largest;
	uint8_t heard[HEARD_MAX];
} bed;

/* --- transport --- */

static ssize_t io_send(struct origin_conn *c, const struct iovec *iov, unsigned cnt)
{
	size_t before = bed.sent_len;

	(void)c;
	for (unsigned i = 0; i < cnt && bed.takes; i++) {
		size_t n = iov[i].iov_len < bed.takes ? iov[i].iov_len : bed.takes;

		ck_assert_uint_le(n, SENT_MAX - bed.sent_len);
		memcpy(bed.sent + bed.sent_len, iov[i].iov_base, n);
		bed.sent_len += n;
		bed.takes -= n;
	}
	return bed.sent_len > before ? (ssize_t)(bed.sent_len - before) : -EAGAIN;
}

static bool io_shut(struct origin_conn *c)
{
	(void)c;
	bed.shut = true;
	return true;
}

static void io_read(struct origin_conn *c)
{
	(void)c;
}

static void io_wait(struct origin_conn *c, bool input, bool writable)
{
	(void)c;
	bed.input = input;
	bed.writable = writable;
}

static void io_write_soon(struct origin_conn *c)
{
	(void)c;
	bed.writable = true;
}

static void io_idle(struct origin_conn *c)
{
	(void)c;
	bed.idle = true;
}

static void io_busy(struct origin_conn *c)
{
	(void)c;
	bed.idle = false;
}

static void io_room(struct origin_conn *c)
{
	(void)c;
}

static void io_close(struct origin_conn *c, const char *why)
{
	if (c->state == ORIGIN_DEAD)
		return;
	c->state = ORIGIN_DEAD;
	origin_h1.closing(c, why);
}

static const struct origin_io io = {io_send, io_shut, io_read, io_wait, io_write_soon,
				    io_idle, io_busy, io_room, io_close};

/* --- owner --- */

static void on_answered(struct origin_call *k)
{
	(void)k;
}

static bool send_continue(struct origin_call *k)
{
	(void)k;
	return true;
}

static void pass_interim(struct origin_call *k, uint16_t status,
			 const struct origin_reply_fields *f)
{
	(void)k, (void)status, (void)f;
}

static bool pass_reply(struct origin_call *k, const struct sl_reply_args *a)
{
	ck_assert_uint_eq(bed.ends, 0);
	if (a->more && bed.full)
		return false;
	k->begun = true;
	bed.parts++;
	bed.status = a->status ? a->status : bed.status;
	bed.has_total |= a->has_total;
	bed.fields += a->header_cnt;
	ck_assert_uint_le(a->body_len, HEARD_MAX - bed.len);
	if (a->body_len)
		memcpy(bed.heard + bed.len, a->body, a->body_len);
	bed.len += a->body_len;
	bed.largest = a->body_len > bed.largest ? a->body_len : bed.largest;
	bed.ends += !a->more;
	return true;
}

static void fail_call(struct origin_call *k, enum sl_rpc_status status)
{
	(void)k;
	bed.ends++;
	bed.error = (int)status;
}

static void lose_call(struct origin_call *k, const char *why)
{
	(void)k, (void)why;
	bed.losses++;
}

static void set_flow(struct origin_call *k, bool flows)
{
	(void)k, (void)flows;
}

static const struct origin_ops ops = {on_answered, send_continue, pass_interim, pass_reply,
				      fail_call,   lose_call,     set_flow};

static void open_conn(void)
{
	conn = calloc(1, origin_h1.conn_size);
	conn->server = &server;
	conn->state = ORIGIN_UP;
	ck_assert(origin_h1.up(conn));
}

/* Starts a GET on a connection that send() takes `takes` bytes of. */
static void ask(size_t takes)
{
	memset(&bed, 0, offsetof(__typeof__(bed), heard));
	bed.takes = takes;
	view = (struct sl_request_view){.protocol = SL_PROTO_HTTP1,
					.method = "GET",
					.method_len = 3,
					.path = "/a",
					.path_len = 2,
					.idempotent = true};
	call = (struct origin_call){.rq = &view, .server = &server, .deadline_ns = UINT64_MAX};
	ck_assert_uint_eq(origin_h1.room(conn), 1);
	call.conn = conn;
	origin_h1.start(conn, &call);
}

static void set_up(void)
{
	static struct sl_prng prng;

	sl_prng_seed(&prng, 1);
	ck_assert(origin_init(&own, 1 << 20, 16, 0));
	own.io = &io;
	own.ops = &ops;
	own.area = "test";
	own.prng = &prng;
	server = (struct origin_server){
		.origin = &own, .name = "a", .authority = {.text = "own.example"}};
	open_conn();
}

static void close_conn(void)
{
	io_close(conn, NULL);
	free(conn);
}

static void tear_down(void)
{
	close_conn();
	origin_fini(&own);
}

FIXTURE(set_up, tear_down)

/* Passes on what the protocol takes. Returns the number of bytes. */
static size_t say(const char *bytes, size_t len)
{
	size_t at = 0;

	while (at < len && conn->state == ORIGIN_UP) {
		struct origin_space space = origin_h1.space(conn);
		size_t n = space.len < len - at ? space.len : len - at;

		if (!n)
			break;
		memcpy(space.at, bytes + at, n);
		at += n;
		(void)origin_h1.input(conn, n);
	}
	if (conn->state == ORIGIN_UP)
		origin_h1.pause(conn);
	return at;
}

TEST(a_request_goes_out_in_any_pieces)
{
	static const char head[] = "GET /a HTTP/1.1\r\nhost: own.example\r\n";
	size_t len;

	ask(SENT_MAX);
	len = bed.sent_len;
	ck_assert_mem_eq(bed.sent, head, sizeof(head) - 1);
	ck_assert_mem_eq(bed.sent + len - 4, "\r\n\r\n", 4);
	ck_assert(!bed.writable);
	for (size_t piece = 1; piece < len; piece += 7) {
		close_conn();
		open_conn();
		ask(piece);
		for (unsigned i = 0; bed.sent_len < len && i < len; i++) {
			ck_assert(bed.writable);
			bed.takes = piece;
			origin_h1.writable(conn);
		}
		ck_assert_uint_eq(bed.sent_len, len);
		origin_h1.writable(conn);
		ck_assert(!bed.writable);
	}
}

static const char *const replies[] = {
	"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-a: b\r\n\r\nhello",
	"HTTP/1.1 103 \r\nlink: a\r\n\r\nHTTP/1.1 200 \r\ncontent-length: 5\r\n\r\nhello",
	"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x\r\nllo\r\n0\r\na: b\r\n\r\n",
};

/* Whichever way the bytes come, the reply is the same, and the connection is kept. */
TEST_EACH(a_reply_comes_in_any_pieces, SL_ARRAY_LEN(replies))
{
	const char *reply = replies[_i];
	size_t len = strlen(reply);

	for (size_t cut = 1; cut < len; cut++) {
		ask(SENT_MAX);
		ck_assert_uint_eq(say(reply, cut), cut);
		ck_assert_uint_eq(bed.ends, 0);
		ck_assert_uint_eq(say(reply + cut, len - cut), len - cut);
		ck_assert_uint_eq(bed.ends, 1);
		ck_assert_int_eq(bed.error, 0);
		ck_assert_int_eq(bed.status, 200);
		ck_assert_uint_eq(bed.len, 5);
		ck_assert_mem_eq(bed.heard, "hello", 5);
		ck_assert(bed.idle && conn->state == ORIGIN_UP);
	}
}

/* A server that sends byte by byte must not cost the square of its bytes. */
TEST_EACH(a_byte_of_a_head_or_of_trailers_is_parsed_few_times, 2)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n",
			  coded[] = "transfer-encoding: chunked\r\n\r\n0\r\n";
	static char text[40000];
	size_t len = 0;

	len += (size_t)snprintf(text, sizeof(text), "%s%s", head,
				_i ? coded : "content-length: 0\r\n");
	for (unsigned i = 0; i < 50; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "x-%03u: %0300u\r\n", i, i);
	len += (size_t)snprintf(text + len, sizeof(text) - len, "\r\n");
	ask(SENT_MAX);
	parsed = 0;
	for (size_t i = 0; i < len; i++) {
		ck_assert_uint_eq(bed.ends, 0);
		ck_assert_uint_eq(say(text + i, 1), 1);
	}
	ck_assert(bed.ends == 1 && !bed.error && bed.status == 200);
	ck_assert_uint_le(parsed, 4 * len);
}

/* What the eager parses did not see is refused once the head is long enough, or complete. */
TEST_EACH(a_late_mistake_is_refused, 2)
{
	static const char *const mistakes[] = {"a: b\n\n", "a b\r\n\r\n"};
	static const char head[] = "HTTP/1.1 200 OK\r\nx-a: b\r\n";

	ask(SENT_MAX);
	for (size_t i = 0; head[i]; i++)
		ck_assert_uint_eq(say(head + i, 1), 1);
	for (size_t i = 0; mistakes[_i][i] && !bed.ends; i++)
		(void)say(mistakes[_i] + i, 1);
	ck_assert_int_eq(bed.error, SL_RPC_INTERNAL);
}

/* Without room at the owner a stream takes a bounded number of bytes, and no input. */
TEST(a_stalled_reply_stops_its_server)
{
	enum { LEN = 300000 };
	static const char head[] = "HTTP/1.1 200 OK\r\ncontent-length: 300000\r\n\r\n";
	static char body[LEN];
	size_t at;

	for (size_t i = 0; i < LEN; i++)
		body[i] = (char)(i * 7 + i / 251);
	ask(SENT_MAX);
	ck_assert_uint_eq(say(head, sizeof(head) - 1), sizeof(head) - 1);
	bed.full = true;
	at = say(body, LEN);
	ck_assert_uint_le(at, ORIGIN_H1_RX_MAX);
	ck_assert(!bed.input);
	ck_assert_uint_eq(say(body + at, LEN - at), 0);
	bed.full = false;
	ck_assert(origin_h1.resume(conn, &call));
	ck_assert(bed.input);
	ck_assert_uint_eq(say(body + at, LEN - at), LEN - at);
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_uint_eq(bed.len, LEN);
	ck_assert_mem_eq(bed.heard, body, LEN);
}

/* Before the first byte the owner decides about another try; later it must not. */
TEST(an_early_end_is_told_from_a_late_one)
{
	ask(SENT_MAX);
	origin_h1.eof(conn, NULL);
	ck_assert_uint_eq(bed.losses, 1);
	ck_assert_uint_eq(bed.ends, 0);
	ck_assert(call.written && !call.answered);
	free(conn);
	open_conn();
	ask(SENT_MAX);
	(void)say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhal", 41);
	origin_h1.eof(conn, NULL);
	ck_assert_uint_eq(bed.losses, 0);
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.error, SL_RPC_LOST);
}

TEST(bytes_behind_a_reply_close_the_connection)
{
	ask(SENT_MAX);
	(void)say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", 57);
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.error, 0);
	ck_assert_int_eq(conn->state, ORIGIN_DEAD);
}

/* A reply that goes on gets wide parts; only some connections may have them. */
TEST_EACH(a_long_reply_has_wide_parts, 2)
{
	enum { LEN = 2000000 };
	static const char head[] = "HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n";
	static char body[LEN];

	own.wide_cnt = _i ? ORIGIN_WIDE_MAX : 0;
	ask(SENT_MAX);
	ck_assert_uint_eq(say(head, sizeof(head) - 1), sizeof(head) - 1);
	ck_assert_uint_eq(say(body, LEN - 1), LEN - 1);
	ck_assert_uint_eq(bed.largest, _i ? ORIGIN_PART_MAX : ORIGIN_PART_WIDE);
	ck_assert_uint_eq(own.wide_cnt, _i ? ORIGIN_WIDE_MAX : 1);
	ck_assert_uint_eq(say(body, 1), 1);
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_uint_eq(own.wide_cnt, _i ? ORIGIN_WIDE_MAX : 0);
	ck_assert_uint_eq(origin_h1.space(conn).len, ORIGIN_PART_MAX);
}

/* Starts a GET that asks for another protocol, or a POST whose body follows. */
static void ask_open(bool upgrade)
{
	static uint8_t meta[64];
	struct sl_tlv_writer w = {.at = meta, .end = meta + sizeof(meta)};

	memset(&bed, 0, offsetof(__typeof__(bed), heard));
	bed.takes = SENT_MAX;
	view.protocol = SL_PROTO_HTTP1;
	view.path = "/a";
	view.path_len = 2;
	view.method = upgrade ? "GET" : "POST";
	view.method_len = upgrade ? 3 : 4;
	view.length = upgrade ? 0 : 5;
	if (upgrade)
		sl_tlv_put(&w, SL_META_HEADER, sl_span_str("\7upgradex"));
	view.meta = meta;
	view.meta_len = (uint16_t)(w.at - meta);
	call = (struct origin_call){.rq = &view, .server = &server, .deadline_ns = UINT64_MAX};
	origin_body_init(&call);
	call.conn = conn;
	origin_h1.start(conn, &call);
}

#define SAY(text) say(text, sizeof(text) - 1)

TEST(an_upgrade_with_a_length_is_open)
{
	ask_open(true);
	(void)SAY("HTTP/1.1 101 S\r\nupgrade: x\r\ncontent-length: 0\r\n\r\nab");
	ck_assert_int_eq(bed.status, 101);
	ck_assert(!bed.has_total);
	ck_assert_uint_eq(bed.ends, 0);
	(void)SAY("cd");
	ck_assert_uint_eq(bed.len, 4);
	origin_h1.eof(conn, NULL);
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.error, 0);
}

TEST(a_connection_whose_output_has_ended_is_not_kept)
{
	ask_open(true);
	ck_assert(origin_body_end(&call));
	origin_h1.body(conn, &call);
	origin_h1.writable(conn);
	ck_assert(bed.shut);
	(void)SAY("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.status, 200);
	ck_assert_int_eq(conn->state, ORIGIN_DEAD);
}

/* The rest of the request would be the server's next one. */
TEST_EACH(a_reply_before_the_end_of_its_request_closes_the_connection, 3)
{
	if (_i)
		ask_open(false);
	else
		ask(9);
	if (_i == 2)
		ck_assert(origin_body_add(&call, "abc", 3, 0));
	(void)SAY("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.error, 0);
	ck_assert_int_eq(conn->state, ORIGIN_DEAD);
	origin_body_drop(&call);
}

TEST_EACH(a_reply_that_was_not_asked_for_is_refused, 4)
{
	static const char *const ones[] = {
		"HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
		"HTTP/1.1 101 S\r\nupgrade: y\r\n\r\n", "HTTP/1.1 101 S\r\n\r\n",
		"HTTP/1.1 103 E\r\n\r\n"};
	unsigned n = _i == 3 ? ORIGIN_INTERIM_MAX : 0;

	if (_i)
		ask_open(true);
	else
		ask(SENT_MAX);
	for (unsigned i = 0; i < n; i++)
		(void)say(ones[_i], strlen(ones[_i]));
	ck_assert_uint_eq(bed.ends, 0);
	(void)say(ones[_i], strlen(ones[_i]));
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.error, SL_RPC_INTERNAL);
	ck_assert_int_eq(conn->state, ORIGIN_DEAD);
}

static const char *const broken_chunks[] = {
	"00000000000000001\r\nx\r\n", /* 17 digits */
	"ffffffffffffffff\r\n",       /* more than any body has */
	"7fffffffffffffff\r\n",       /* and in sum */
	"-1\r\nx\r\n",
	"+1\r\nx\r\n",
	" 1\r\nx\r\n",
	"0x1\r\nx\r\n",
	"1\nx\r\n",
	"1\r\nx\n",
	"1\r\nxy\r\n",
	"\r\n",
	"1 x\r\nx\r\n",
	"1;\rx\r\nx\r\n",
	"1;a\nb\r\nx\r\n",
	"1;a=\"\n\"\r\nx\r\n",
	"1\r\nx\r\n0\r\na b\r\n\r\n",
	"1\r\nx\r\n0\r\na: b\n\r\n",
	"1\r\nx\r\n0\r\na: b\r\n c\r\n\r\n",
	"1\r\nx\r\n0\n\n",
};

TEST_EACH(broken_chunks_are_refused, 2 * SL_ARRAY_LEN(broken_chunks))
{
	const char *bad = broken_chunks[_i / 2];
	size_t step = _i & 1 ? 1 : strlen(bad);

	ask(SENT_MAX);
	(void)SAY("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n");
	for (size_t at = 0; bad[at] && !bed.ends; at += step)
		(void)say(bad + at, step);
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.error, SL_RPC_INTERNAL);
	ck_assert_uint_le(bed.len, 2 + 1);
	ck_assert_int_eq(conn->state, ORIGIN_DEAD);
}

TEST(framing_in_trailers_ends_here)
{
	ask(SENT_MAX);
	(void)SAY("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
		  "content-length: 5\r\ntransfer-encoding: chunked\r\nconnection: x-b\r\n"
		  "x-b: 1\r\nx-a: 1\r\n\r\n");
	ck_assert_uint_eq(bed.ends, 1);
	ck_assert_int_eq(bed.error, 0);
	ck_assert_uint_eq(bed.fields, 1);
}
