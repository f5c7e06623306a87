/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz: max_len=4096 */
/* fuzz: dict=http1.dict */
/*
 * A server of HTTP/1.1 that answers with anything, in any segmentation, to an owner that has no room
 * for parts at times. The outcome is that of the same bytes in one piece and with room; a call ends
 * once; nothing is taken without room; nothing is left of the connection.
 *
 * Input: flags (enum flag), the number of cuts, the lengths of the pieces, the server's bytes. The
 * server then closes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "origin/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum flag {
	HEAD = 1,
	STREAM = 2,  /* the request has an open body */
	UPGRADE = 4, /* a stream that asks for it */
	FULL = 8,    /* no room for the first part of each piece */
	BROKEN = 16, /* the connection ends with an error */
	CHUNK = 32,  /* a part of the request's body before the reply */
};

enum { HEARD = 64 << 10 };

static struct outcome {
	unsigned ends, losses;
	int error, status;
	bool kept; /* the connection, before the server closed */
	size_t len, fields_len;
	uint8_t heard[HEARD];
	uint8_t fields[HEARD];
} now, whole;

static struct origin own;
static struct origin_server server;
static struct origin_call call;
static bool full, blocked, takes_input;

static void must(bool so, const char *what)
{
	if (so)
		return;
	fprintf(stderr, "origin: %s\n", what);
	abort();
}

/* --- transport --- */

static ssize_t io_send(struct origin_conn *c, const struct iovec *iov, unsigned cnt)
{
	must(c->state == ORIGIN_UP && cnt && iov->iov_len, "nothing is sent");
	return (ssize_t)iov->iov_len;
}

static bool io_shut(struct origin_conn *c)
{
	must(c->state == ORIGIN_UP, "a closed connection is shut");
	return true;
}

static void io_wait(struct origin_conn *c, bool input, bool writable)
{
	(void)c, (void)writable;
	takes_input = input;
}

static void io_none(struct origin_conn *c)
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

static const struct origin_io io = {
	.send = io_send,
	.shut = io_shut,
	.read = io_none,
	.wait = io_wait,
	.write_soon = io_none,
	.idle = io_none,
	.busy = io_none,
	.room = io_none,
	.close = io_close,
};

/* --- owner --- */

static void note(uint8_t *to, size_t *len, const void *bytes, size_t n)
{
	must(n <= HEARD - *len, "more than the server has said");
	if (n)
		memcpy(to + *len, bytes, n);
	*len += n;
}

static void on_answered(struct origin_call *k)
{
	must(!now.ends && k->answered, "an answer without bytes");
	if (k->body.on)
		origin_body_once(k);
}

static bool send_continue(struct origin_call *k)
{
	must(!now.ends && !k->begun, "100 (Continue) behind a reply");
	return true;
}

static void pass_interim(struct origin_call *k, uint16_t status,
			 const struct origin_reply_fields *fields)
{
	(void)fields;
	must(!now.ends && !k->begun && status > 101 && status < 200, "no interim reply");
}

static bool pass_reply(struct origin_call *k, const struct sl_reply_args *a)
{
	must(!now.ends && k == &call, "a reply to a call that has ended");
	if (a->more && full) {
		blocked = true;
		return false;
	}
	must(k->begun == !a->status, "a status in a later part, or none in the first");
	now.status = a->status ? a->status : now.status;
	for (unsigned i = 0; i < a->header_cnt; i++) {
		const struct sl_header_arg *h = &a->headers[i];

		note(now.fields, &now.fields_len, h->name, strlen(h->name) + 1);
		note(now.fields, &now.fields_len, h->value, h->value_len);
		note(now.fields, &now.fields_len, h->trailer ? "T" : "H", 1);
	}
	note(now.heard, &now.len, a->body, a->body_len);
	k->begun = true;
	now.ends += !a->more;
	return true;
}

static void fail_call(struct origin_call *k, enum sl_rpc_status status)
{
	must(!now.ends && k->over, "an error of a call that has ended");
	now.ends++;
	now.error = (int)status;
}

static void lose_call(struct origin_call *k, const char *why)
{
	(void)why;
	must(!now.ends && !k->begun, "a call is lost behind its reply");
	now.ends++;
	now.losses++;
}

static void set_flow(struct origin_call *k, bool flows)
{
	(void)flows;
	must(k->body.on, "a request flows that has no parts");
}

static const struct origin_ops ops = {
	.answered = on_answered,
	.send_continue = send_continue,
	.interim = pass_interim,
	.reply = pass_reply,
	.fail = fail_call,
	.lost = lose_call,
	.flow = set_flow,
};

/* --- one run --- */

static void make_room(struct origin_conn *c)
{
	full = false;
	if (!blocked || c->state != ORIGIN_UP)
		return;
	blocked = false;
	must(!takes_input, "input is wanted and refused");
	must(origin_h1.resume(c, &call) || now.ends, "no input is taken with room");
}

static void say(struct origin_conn *c, const uint8_t *bytes, size_t len)
{
	while (len && c->state == ORIGIN_UP) {
		struct origin_space space = origin_h1.space(c);
		size_t n = space.len < len ? space.len : len;

		must(!n || takes_input, "input is taken without room");
		if (!n) {
			must(blocked || c->state == ORIGIN_DEAD, "no input is taken with room");
			make_room(c);
			continue;
		}
		memcpy(space.at, bytes, n);
		bytes += n;
		len -= n;
		(void)origin_h1.input(c, n);
	}
	if (c->state == ORIGIN_UP)
		origin_h1.pause(c);
}

/* An Upgrade field as metadata of the request. */
static const uint8_t upgrade[] = "\x05\x00\x11\x00"
				 "\x07upgradewebsocket";

static void ask(struct origin_conn *c, struct sl_request_view *view, uint8_t flags)
{
	bool stream = flags & (STREAM | UPGRADE);

	*view = (struct sl_request_view){.protocol = SL_PROTO_HTTP1,
					 .method = flags & HEAD ? "HEAD" : "GET",
					 .method_len = flags & HEAD ? 4 : 3,
					 .path = "/",
					 .path_len = 1,
					 .length = SL_LEN_UNKNOWN};
	if (flags & UPGRADE) {
		view->meta = upgrade;
		view->meta_len = sizeof(upgrade) - 1;
	}
	call = (struct origin_call){.rq = view, .server = &server, .deadline_ns = UINT64_MAX};
	if (stream)
		origin_body_init(&call);
	call.conn = c;
	origin_h1.start(c, &call);
	if (stream && flags & CHUNK && !now.ends && origin_body_add(&call, "abc", 3, 0))
		origin_h1.writable(c);
}

static void run(uint8_t flags, const uint8_t *cuts, size_t cut_cnt, const uint8_t *bytes,
		size_t len)
{
	struct origin_conn *c = calloc(1, origin_h1.conn_size);
	struct sl_request_view view;

	must(c != NULL, "no memory");
	memset(&now, 0, offsetof(struct outcome, heard));
	full = blocked = false;
	c->server = &server;
	c->state = ORIGIN_UP;
	must(origin_h1.up(c), "no memory");
	ask(c, &view, flags);
	for (size_t i = 0; i < cut_cnt && len && c->state == ORIGIN_UP; i++) {
		size_t n = cuts[i] < len ? cuts[i] : len;

		full = flags & FULL;
		say(c, bytes, n);
		bytes += n;
		len -= n;
	}
	make_room(c);
	say(c, bytes, len);
	now.kept = c->state == ORIGIN_UP && now.ends;
	if (c->state == ORIGIN_UP)
		origin_h1.eof(c, flags & BROKEN ? "broken" : NULL);
	if (c->state == ORIGIN_UP)
		io_close(c, NULL);
	must(now.ends == 1, "a call has no end");
	origin_body_drop(&call);
	must(!own.bodies.used && !own.wide_cnt, "something is left of a connection");
	free(c);
}

static void compare(void)
{
	must(now.status == whole.status || now.error, "another status");
	must(now.error == whole.error && now.losses == whole.losses, "another end");
	if (now.error || now.losses)
		return;
	must(now.kept == whole.kept, "a connection that is not kept as before");
	must(now.len == whole.len && memcmp(now.heard, whole.heard, now.len) == 0, "another body");
	must(now.fields_len == whole.fields_len &&
		     memcmp(now.fields, whole.fields, now.fields_len) == 0,
	     "other fields");
}

static void open_once(void)
{
	static struct sl_prng prng;

	if (own.io)
		return;
	sl_log_fd_set(open("/dev/null", O_WRONLY));
	must(origin_init(&own, 1 << 20, 16, 0), "no memory");
	own.io = &io;
	own.ops = &ops;
	own.area = "fuzz";
	own.prng = &prng;
	server = (struct origin_server){
		.origin = &own, .name = "a", .authority = {.text = "own.example"}};
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
	size_t cut_cnt;

	if (len < 2 || len - 2 < bytes[1])
		return 0;
	open_once();
	cut_cnt = bytes[1];
	run(bytes[0], NULL, 0, bytes + 2 + cut_cnt, len - 2 - cut_cnt);
	whole = now;
	run(bytes[0], bytes + 2, cut_cnt, bytes + 2 + cut_cnt, len - 2 - cut_cnt);
	compare();
	return 0;
}
