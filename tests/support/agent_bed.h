/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole agent in a test. The SDK is a stand-in; a server is a Unix socket on which the test
 * writes; the agent's loop turns when the test says so.
 *
 *   bed_ask, bed_data, bed_cancel --> (SDK) agent --> bed_server_heard()
 *   struct bed_request: heard <------ (SDK) agent <-- bed_server_say()
 *
 * The loop runs in a thread of its own, but only one of both runs at a time. A request's view is
 * freed as the SDK does it: with its last reply.
 */
#ifndef SL_TESTS_AGENT_BED_H
#define SL_TESTS_AGENT_BED_H

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "agent/agent.h"
#include "front/front.h"
#include "sluice/backend.h"
#include "suite.h"

enum { BED_TURNS = 200, BED_HEARD = 4 << 20 };

struct bed_request {
	struct sl_request_view *view; /* NULL: it was replied to */
	bool full;                    /* parts are not taken */
	bool blocked;                 /* one was not */
	bool gone;                    /* the next reply is told so */
	bool paused;                  /* a stream's */
	int go_on;                    /* result of sl_stream_go_on(), and number of calls */
	unsigned told;
	unsigned interims; /* replies; what the last one was */
	int interim_status;
	char interim_field[64]; /* "name: value" of its only one, or "" */
	unsigned ends;          /* last replies and errors */
	int error;              /* enum sl_rpc_status; SL_RPC_OK: none */
	int status, grpc_status;
	char type[64], message[128];    /* content-type; grpc-message */
	unsigned head_cnt, trailer_cnt; /* fields of its head; of its end */
	unsigned parts, messages;
	unsigned compressed; /* messages that were compressed */
	size_t largest, len; /* the largest part; all parts */
	uint64_t message_left;
	uint8_t *heard;
};

static struct {
	struct sl_backend_options opt;
	struct agent *agent;
	pthread_t thread;
	sem_t go, idle;
	bool over;
	int fd, listen_fd, server_fd;
	char path[64];
	uint8_t heard[1 << 20];
	size_t heard_len;
	unsigned opened;  /* backends */
	bool unready;     /* argument of the last call */
	uint32_t waiting; /* requests that it has, for its statistics */
} bed;

/* --- the SDK --- */

static inline struct bed_request *bed_of(struct sl_request_view *rq)
{
	struct bed_request *r;

	memcpy(&r, rq + 1, sizeof(r));
	return r;
}

struct sl_backend *sl_backend_open(const struct sl_backend_options *opt, char *err, size_t err_len)
{
	(void)err, (void)err_len;
	bed.opt = *opt;
	bed.opened++;
	return (struct sl_backend *)&bed;
}

void sl_backend_close(struct sl_backend *b)
{
	(void)b;
}

/* Here a turn ends. */
int sl_backend_poll(struct sl_backend *b, unsigned wait_us)
{
	(void)b, (void)wait_us;
	if (bed.over)
		return 0;
	sem_post(&bed.idle);
	sem_wait(&bed.go);
	return 0;
}

int sl_backend_fd(const struct sl_backend *b)
{
	(void)b;
	return bed.fd;
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
	(void)b;
	bed.unready = !ready;
}

void sl_backend_leave(struct sl_backend *b, bool leave)
{
	(void)b;
	bed.unready = leave;
}

void sl_backend_stats(struct sl_backend *b, struct sl_backend_stats *out)
{
	(void)b;
	*out = (struct sl_backend_stats){.open_requests = bed.waiting};
}

void sl_stream_pause(struct sl_request_view *rq)
{
	bed_of(rq)->paused = true;
}

void sl_stream_resume(struct sl_request_view *rq)
{
	bed_of(rq)->paused = false;
}

int sl_stream_send_continue(struct sl_request_view *rq)
{
	bed_of(rq)->told++;
	return bed_of(rq)->go_on;
}

int sl_reply_interim(struct sl_request_view *rq, const struct sl_reply_args *args)
{
	struct bed_request *r = bed_of(rq);

	r->interims++;
	r->interim_status = args->status;
	r->interim_field[0] = 0;
	if (args->header_cnt == 1)
		snprintf(r->interim_field, sizeof(r->interim_field), "%s: %.*s",
			 args->headers->name, (int)args->headers->value_len,
			 (const char *)args->headers->value);
	return 0;
}

static inline int bed_end(struct bed_request *r, enum sl_rpc_status status)
{
	int rc = r->gone ? -ECANCELED : 0;

	r->ends++;
	r->error = status;
	free(r->view);
	r->view = NULL;
	return rc;
}

int sl_reply_error(struct sl_request_view *rq, enum sl_rpc_status status)
{
	return bed_end(bed_of(rq), status);
}

/* The SDK's rules for in_pieces: a breach is an error of the agent. */
static inline void bed_note_piece(struct bed_request *r, const struct sl_reply_args *a)
{
	r->compressed += !r->message_left && a->compressed;
	if (!r->message_left && !a->in_pieces) {
		r->messages += !a->no_message;
		return;
	}
	if (!r->message_left)
		r->message_left = a->total_len;
	if (!a->more || a->no_message || !a->body_len || a->body_len > r->message_left)
		abort();
	r->message_left -= a->body_len;
	r->messages += !r->message_left;
}

int sl_reply(struct sl_request_view *rq, const struct sl_reply_args *a)
{
	struct bed_request *r = bed_of(rq);

	if (r->gone)
		return bed_end(r, SL_RPC_CANCELLED);
	if (a->more && r->full) {
		r->blocked = true;
		return -EAGAIN;
	}
	bed_note_piece(r, a);
	r->parts++;
	r->status = a->status ? a->status : r->status;
	r->grpc_status = a->grpc_status;
	if (a->content_type)
		snprintf(r->type, sizeof(r->type), "%s", a->content_type);
	if (a->grpc_message)
		snprintf(r->message, sizeof(r->message), "%s", a->grpc_message);
	for (unsigned i = 0; i < a->header_cnt; i++) {
		r->head_cnt += !a->headers[i].trailer;
		r->trailer_cnt += a->headers[i].trailer;
	}
	if (!a->no_message && a->body_len) {
		if (a->body_len > BED_HEARD - r->len)
			abort();
		memcpy(r->heard + r->len, a->body, a->body_len);
		r->len += a->body_len;
		r->largest = a->body_len > r->largest ? a->body_len : r->largest;
	}
	return a->more ? 0 : bed_end(r, SL_RPC_OK);
}

/* --- the gateway --- */

static inline void bed_turns(unsigned n)
{
	while (n--) {
		sem_post(&bed.go);
		sem_wait(&bed.idle);
	}
}

/* A turn of all of them takes less than what happens in a few. */
#define bed_until(what)                                                                            \
	do {                                                                                       \
		for (unsigned bed_i = 0; !(what) && bed_i < BED_TURNS; bed_i++)                    \
			bed_turns(1);                                                              \
		ck_assert_msg(what, "never: %s", #what);                                           \
	} while (0)

static inline struct bed_request *bed_ask_as(enum sl_proto proto, bool stream,
					     enum sl_rpc_class class, const char *path)
{
	struct bed_request *r = calloc(1, sizeof(*r));

	r->heard = malloc(BED_HEARD);
	r->view = calloc(1, sizeof(*r->view) + sizeof(r));
	memcpy(r->view + 1, &r, sizeof(r));
	*r->view = (struct sl_request_view){
		.protocol = (uint8_t)proto,
		.method = "POST",
		.method_len = proto == SL_PROTO_GRPC ? 0 : 4,
		.path = path,
		.path_len = (uint16_t)strlen(path),
		.priority = (uint8_t) class,
		.body = (const uint8_t *)"hello",
		.body_len = stream ? 0 : 5,
		.length = UINT64_MAX,
	};
	if (stream)
		bed.opt.on_stream->on_open(bed.opt.arg, r->view);
	else
		bed.opt.on_batch(bed.opt.arg,
				 &(struct sl_batch){.count = 1, .requests = {r->view}});
	return r;
}

static inline struct bed_request *bed_ask(enum sl_proto proto, bool stream)
{
	return bed_ask_as(proto, stream, SL_CLASS_NORMAL, "S/M");
}

static inline void bed_room(struct bed_request *r)
{
	r->full = false;
	if (r->blocked && r->view)
		bed.opt.on_writable(bed.opt.arg, r->view);
	r->blocked = false;
}

static inline void bed_cancel(struct bed_request *r, bool stream)
{
	r->gone = true;
	if (r->view && stream)
		bed.opt.on_stream->on_cancel(bed.opt.arg, r->view);
	else if (r->view)
		bed.opt.on_cancel(bed.opt.arg, r->view);
}

static inline void bed_request_free(struct bed_request *r)
{
	ck_assert_uint_eq(r->ends, 1);
	free(r->heard);
	free(r);
}

/* --- the server --- */

static inline void bed_server_accept(void)
{

	do {
		bed_turns(1);
		bed.server_fd = accept4(bed.listen_fd, NULL, NULL, SOCK_NONBLOCK);
	} while (bed.server_fd < 0 && errno == EAGAIN);
	ck_assert_int_ge(bed.server_fd, 0);
	bed.heard_len = 0;
}

static inline void bed_server_say(const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	while (len) {
		ssize_t n = send(bed.server_fd, at, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN) {
			bed_turns(1);
			continue;
		}
		if (n < 0)
			return; /* the agent has closed it */
		at += n;
		len -= (size_t)n;
	}
}

/* What has come of the agent goes behind what did before. False: it has closed. */
static inline bool bed_server_hear(void)
{
	ssize_t n;

	while ((n = recv(bed.server_fd, bed.heard + bed.heard_len,
			 sizeof(bed.heard) - bed.heard_len, 0)) > 0)
		bed.heard_len += (size_t)n;
	return n < 0 && errno == EAGAIN;
}

static inline void bed_server_close(void)
{
	close(bed.server_fd);
	bed.server_fd = -1;
}

/* --- its beginning and end --- */

static inline void *bed_run(void *unused)
{
	(void)unused;
	sl_agent_run(bed.agent);
	return NULL;
}

/* Before it serves, an agent sees that its server can be reached. */
static inline void bed_first_connection(void)
{
	int fd;

	bed_until(!bed.unready);
	fd = accept4(bed.listen_fd, NULL, NULL, SOCK_NONBLOCK);
	ck_assert_int_ge(fd, 0);
	close(fd);
}

/* The server's socket, at bed.path. */
static inline void bed_listen(void)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};

	snprintf(bed.path, sizeof(bed.path), "/tmp/sl-unit-agent-%d.sock", (int)getpid());
	snprintf(un.sun_path, sizeof(un.sun_path), "%s", bed.path);
	bed.listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	unlink(bed.path);
	ck_assert_int_eq(bind(bed.listen_fd, (struct sockaddr *)&un, sizeof(un)), 0);
	ck_assert_int_eq(listen(bed.listen_fd, 16), 0);
}

/* Makes an agent for a server at `to`; its loop turns after bed_go(). */
static inline void bed_open(const char *to, struct sl_agent_options opt)
{
	char text[256] = "";
	struct sl_err err = {text, sizeof(text)};

	bed.fd = eventfd(0, EFD_CLOEXEC);
	bed.server_fd = -1;
	sem_init(&bed.go, 0, 0);
	sem_init(&bed.idle, 0, 0);
	bed.agent = sl_agent_open(&err);
	ck_assert_msg(bed.agent != NULL, "%s", text);
	opt.listen = "x";
	opt.to = to;
	ck_assert_msg(sl_agent_add(bed.agent, &opt, &err) == 0, "%s", text);
}

static inline void bed_go(void)
{
	ck_assert_int_eq(pthread_create(&bed.thread, NULL, bed_run, NULL), 0);
	sem_wait(&bed.idle);
}

/* Starts an agent for a server of scheme "http" or "h2c"; `opt`: other options. */
static inline void bed_start_as(const char *scheme, struct sl_agent_options opt)
{
	char to[128];

	bed_listen();
	snprintf(to, sizeof(to), "%s+unix://%s", scheme, bed.path);
	bed_open(to, opt);
	bed_go();
	bed_first_connection();
}

static inline void bed_start(const char *scheme)
{
	bed_start_as(scheme, (struct sl_agent_options){0});
}

static inline void bed_stop(void)
{
	sl_agent_stop(bed.agent);
	bed.over = true;
	sem_post(&bed.go);
	pthread_join(bed.thread, NULL);
	sl_agent_close(bed.agent);
	if (bed.server_fd >= 0)
		close(bed.server_fd);
	close(bed.listen_fd);
	close(bed.fd);
	unlink(bed.path);
}

#endif
