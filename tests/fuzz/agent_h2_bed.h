/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent's HTTP/2 connection to a server for fuzzing: the SDK is played here, the server is the other
 * end of a socket pair, and nothing waits. The loop of agent.c is replaced by bed_turn().
 */
#ifndef SL_FUZZ_AGENT_H2_BED_H
#define SL_FUZZ_AGENT_H2_BED_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/internal.h"
#include "origin/h2.h"
#include "base/clock.h"
#include "base/log.h"
#include "front/front.h"
#include "sandbox/sandbox.h"

enum { BED_CALLS = 8, BED_HEARD = 64 << 10 };

/* Results that a client got. */
struct bed_call {
	struct sl_request_view view;
	bool used, open, stream, full, blocked, ended_body;
	unsigned ends, parts;
	int error, status, grpc_status;
	uint64_t message_left;
	size_t len, fields_len;
	char type[ORIGIN_TYPE_MAX], why[1024];
	uint8_t heard[BED_HEARD];  /* each message with its length in front */
	uint8_t fields[BED_HEARD]; /* "name: value" and a mark, in order */
};

static struct {
	struct agent *a;
	struct agent_server *server;
	struct agent_conn *c;
	int fd; /* the server's end */
	struct bed_call calls[BED_CALLS];
} bed;

static void must(bool so, const char *what)
{
	if (so)
		return;
	fprintf(stderr, "agent: %s\n", what);
	abort();
}

/* A stand-in for the resolver thread. */
void sl_sandbox_thread(enum sl_thread_kind kind)
{
	(void)kind;
}

/* --- the SDK --- */

static struct bed_call *bed_of(struct sl_request_view *rq)
{
	return sl_container_of(rq, struct bed_call, view);
}

struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *err, size_t len)
{
	(void)opt, (void)err, (void)len;
	return (struct sl_backend *)&bed;
}

void sl_backend_close(struct sl_backend *b)
{
	(void)b;
}

int sl_backend_poll(struct sl_backend *b, unsigned wait_us)
{
	(void)b, (void)wait_us;
	return 0;
}

int sl_backend_fd(const struct sl_backend *b)
{
	(void)b;
	return -1;
}

int sl_backend_arm(struct sl_backend *b)
{
	(void)b;
	return 0;
}

void sl_backend_disarm(struct sl_backend *b)
{
	(void)b;
}

void sl_backend_ready(struct sl_backend *b, bool ready)
{
	(void)b, (void)ready;
}

void sl_backend_leave(struct sl_backend *b, bool leave)
{
	(void)b, (void)leave;
}

void sl_backend_stats(struct sl_backend *b, struct sl_backend_stats *out)
{
	(void)b;
	*out = (struct sl_backend_stats){0};
}

void sl_stream_pause(struct sl_request_view *rq)
{
	must(bed_of(rq)->open, "pauses a stream that has ended");
}

void sl_stream_resume(struct sl_request_view *rq)
{
	must(bed_of(rq)->open, "resumes a stream that has ended");
}

int sl_stream_send_continue(struct sl_request_view *rq)
{
	must(bed_of(rq)->open, "goes on with a stream that has ended");
	return 0;
}

static void note(uint8_t *to, size_t *len, const void *bytes, size_t n)
{
	must(n <= BED_HEARD - *len, "more than the server has said");
	if (n)
		memcpy(to + *len, bytes, n);
	*len += n;
}

static void note_fields(struct bed_call *k, const struct sl_reply_args *a)
{
	for (unsigned i = 0; i < a->header_cnt; i++) {
		const struct sl_header_arg *h = &a->headers[i];

		note(k->fields, &k->fields_len, h->name, strlen(h->name));
		note(k->fields, &k->fields_len, ": ", 2);
		note(k->fields, &k->fields_len, h->value, h->value_len);
		note(k->fields, &k->fields_len, h->trailer ? "T" : "H", 1);
	}
}

int sl_reply_interim(struct sl_request_view *rq, const struct sl_reply_args *args)
{
	must(bed_of(rq)->open && !bed_of(rq)->parts, "an interim reply behind the reply");
	must(args->status > 100 && args->status < 200, "an interim reply that is none");
	return 0;
}

static void bed_end(struct bed_call *k, int error)
{
	must(k->open, "a call ends twice");
	k->open = false;
	k->ends++;
	k->error = error;
}

int sl_reply_error(struct sl_request_view *rq, enum sl_rpc_status status)
{
	bed_end(bed_of(rq), (int)status);
	return 0;
}

/* A message begins where none is under way; its length stands in front of what is heard. */
static void note_body(struct bed_call *k, const struct sl_reply_args *a)
{
	uint64_t total = a->in_pieces ? a->total_len : a->body_len;

	if (k->view.protocol == SL_PROTO_GRPC && !k->message_left) {
		note(k->heard, &k->len, &total, sizeof(total));
		note(k->heard, &k->len, a->compressed ? "c" : "p", 1);
		k->message_left = total;
	}
	note(k->heard, &k->len, a->body, a->body_len);
	if (k->view.protocol != SL_PROTO_GRPC)
		return;
	must(a->body_len <= k->message_left, "more of a message than there is");
	k->message_left -= a->body_len;
	must(!k->message_left || a->more, "a message that is cut off looks whole");
}

int sl_reply(struct sl_request_view *rq, const struct sl_reply_args *a)
{
	struct bed_call *k = bed_of(rq);

	must(k->open, "a reply to a call that has ended");
	if (a->more && k->full) {
		k->blocked = true;
		return -EAGAIN;
	}
	k->parts++;
	k->status = a->status ? a->status : k->status;
	if (a->content_type)
		snprintf(k->type, sizeof(k->type), "%s", a->content_type);
	note_fields(k, a);
	must(!(a->no_message && k->message_left), "something else within a message");
	if (!a->no_message)
		note_body(k, a);
	if (a->more)
		return 0;
	k->grpc_status = a->grpc_status;
	if (a->grpc_message)
		snprintf(k->why, sizeof(k->why), "%s", a->grpc_message);
	bed_end(k, SL_RPC_OK);
	return 0;
}

/* --- turns --- */

static void bed_turn(void)
{
	static uint8_t sink[64 << 10];

	for (unsigned i = 0; i < 4; i++) {
		bed.a->origin.pump = false;
		origin_server_pump(&bed.server->origin);
		origin_conns_write(&bed.a->origin);
		if (!bed.a->origin.pump)
			break;
	}
	while (bed.fd >= 0 && recv(bed.fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
		;
}

static bool bed_is_up(void)
{
	return bed.c && bed.c->origin.state == ORIGIN_UP;
}

static void bed_feed(const uint8_t *bytes, size_t len)
{
	while (len && bed_is_up()) {
		ssize_t n = send(bed.fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n <= 0)
			return;
		bytes += n;
		len -= (size_t)n;
		agent_conn_read(bed.c);
		bed_turn();
	}
}

static struct bed_call *bed_ask(bool grpc, bool stream)
{
	struct bed_call *k = NULL;

	for (unsigned i = 0; i < BED_CALLS && !k; i++)
		k = bed.calls[i].used ? NULL : &bed.calls[i];
	if (!k)
		return NULL;
	memset(k, 0, offsetof(struct bed_call, heard));
	k->used = k->open = true;
	k->stream = stream;
	k->view = (struct sl_request_view){.protocol = grpc ? SL_PROTO_GRPC : SL_PROTO_HTTP2,
					   .method = "POST",
					   .method_len = grpc ? 0 : 4,
					   .path = "S/M",
					   .path_len = 3,
					   .priority = SL_CLASS_NORMAL,
					   .body = (const uint8_t *)"hello",
					   .body_len = stream ? 0 : 5,
					   .length = SL_LEN_UNKNOWN};
	must(origin_call_new(&bed.server->origin, &k->view, stream) != NULL, "no memory");
	bed_turn();
	return k;
}

static void bed_room(struct bed_call *k)
{
	struct origin_call *call = k->view.own;

	k->full = false;
	if (!k->blocked || !k->open)
		return;
	k->blocked = false;
	if (call->conn)
		origin_conn_resume(call);
	bed_turn();
}

/* --- beginning and end --- */

static void bed_open(void)
{
	static char text[256];
	struct sl_err err = {text, sizeof(text)};
	int fds[2];

	if (!bed.a) {
		sl_log_fd_set(open("/dev/null", 1));
		bed.a = sl_agent_open(&err);
		must(bed.a != NULL, text);
		bed.server = agent_server_new(
			bed.a,
			&(struct sl_agent_options){.listen = "x", .to = "h2c+unix:///nowhere"},
			&err);
		must(bed.server != NULL, text);
		sl_list_add_tail(&bed.a->servers, &bed.server->link);
	}
	/* No connection is made here but one. */
	origin_timer_set(&bed.a->origin, &bed.server->origin.retry,
			 bed.a->origin.now_ns + 3600 * SL_NS_PER_SEC);
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), "no sockets");
	bed.fd = fds[1];
	bed.c = calloc(1,
		       offsetof(struct agent_conn, origin) + bed.server->origin.proto->conn_size);
	must(bed.c != NULL, "no memory");
	agent_conn_init(bed.c, bed.server, fds[0]);
	bed.c->origin.state = ORIGIN_UP;
	must(bed.server->origin.proto->up(&bed.c->origin), "no memory");
	origin_conn_room(&bed.c->origin);
}

/* The server closes: each call ends, or waits for another connection. Then the agent gives up. */
static void bed_close(void)
{
	struct origin_call *call;

	for (unsigned i = 0; i < BED_CALLS; i++)
		bed.calls[i].full = false;
	close(bed.fd);
	bed.fd = -1;
	for (unsigned i = 0; i < 64 && bed_is_up(); i++) {
		agent_conn_read(bed.c);
		bed_turn();
		bed_room(&bed.calls[i % BED_CALLS]);
	}
	must(!bed_is_up(), "a connection stays that its server has closed");
	while ((call = origin_queue_any(&bed.server->origin.waiting)) ||
	       (call = sl_list_first(&bed.server->origin.resting, struct origin_call, link)))
		origin_call_fail(call, SL_RPC_LOST);
	for (unsigned i = 0; i < BED_CALLS; i++)
		must(!bed.calls[i].used || bed.calls[i].ends == 1, "a call has no end");
	must(!bed.server->origin.busy_cnt && !sl_mempool_used(&bed.a->origin.calls) &&
		     !sl_mempool_used(&bed.a->origin.clients) && !bed.a->origin.bodies.used,
	     "something is left of calls that have ended");
	origin_conns_free(&bed.a->origin);
	bed.c = NULL;
	origin_timer_cancel(&bed.a->origin, &bed.server->origin.rest);
	for (unsigned i = 0; i < BED_CALLS; i++)
		bed.calls[i].used = false;
}

#endif
