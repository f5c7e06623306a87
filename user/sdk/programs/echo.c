/* SPDX-License-Identifier: Apache-2.0 */
/* Backend `echo`: returns the body, or a line about GET and HEAD. */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <time.h>
#include "sdk/programs/program.h"

enum { GRPC_UNIMPLEMENTED = 12, TYPE_MAX = 256 };

struct options {
	const char *listen, *key_file;
	unsigned long max_batch, delay_us, streams;
	unsigned long fail; /* HTTP status; 0 none */
	unsigned long grpc_status;
	bool busy_poll;
};

static bool is_method(const struct sl_request_view *rq, const char *method)
{
	return rq->method_len == strlen(method) && memcmp(rq->method, method, rq->method_len) == 0;
}

static bool is_unknown_call(const struct sl_request_view *rq)
{
	static const char method[] = "/Echo", grpc[] = "application/grpc";
	size_t len = sizeof(method) - 1, type_len = sizeof(grpc) - 1;

	if (rq->method_len || rq->content_type_len < type_len ||
	    memcmp(rq->content_type, grpc, type_len) != 0)
		return false;
	return rq->path_len < len || memcmp(rq->path + rq->path_len - len, method, len) != 0;
}

struct about {
	char text[1024];
	size_t len;
};

static void put_bytes(struct about *a, const char *bytes, size_t len)
{
	size_t room = sizeof(a->text) - a->len;

	if (len > room)
		len = room;
	if (len)
		memcpy(a->text + a->len, bytes, len);
	a->len += len;
}

static void put_text(struct about *a, const char *text)
{
	put_bytes(a, text, strlen(text));
}

static void reply_about(struct sl_request_view *rq, struct sl_reply_args reply)
{
	static const char *const names[] = {
		"x-forwarded-for", "x-forwarded-proto",     "x-forwarded-host",
		"forwarded",       "sluice-client-subject", "sluice-client-san",
	};
	static struct about about; /* one handler thread */
	const char *value;
	size_t len;

	about.len = 0;
	put_bytes(&about, rq->method, rq->method_len);
	put_text(&about, " ");
	put_bytes(&about, rq->path, rq->path_len);
	put_bytes(&about, "?", rq->query_len != 0);
	put_bytes(&about, rq->query, rq->query_len);
	put_text(&about, "\n");
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!sl_request_header(rq, names[i], &value, &len))
			continue;
		put_text(&about, names[i]);
		put_text(&about, ": ");
		put_bytes(&about, value, len);
		put_text(&about, "\n");
	}
	reply.body = about.text;
	reply.body_len = about.len;
	reply.content_type = "text/plain";
	sl_reply(rq, &reply);
}

static struct sl_reply_args reply_of(const struct options *opt, const struct sl_request_view *rq,
				     char type[TYPE_MAX])
{
	struct sl_reply_args reply = {.body = rq->body,
				      .body_len = rq->body_len,
				      .grpc_status = (uint16_t)opt->grpc_status};

	if (rq->content_type_len && rq->content_type_len < TYPE_MAX) {
		memcpy(type, rq->content_type, rq->content_type_len);
		type[rq->content_type_len] = '\0';
		reply.content_type = type;
	}
	return reply;
}

struct echoing {
	unsigned long left;
	uint8_t *bytes; /* stream: current message */
	size_t len, cap;
	bool whole;
	bool ended;
};

static void parts_go_on(const struct options *opt, struct sl_request_view *rq)
{
	struct echoing *e = rq->own;
	char type[TYPE_MAX];
	struct sl_reply_args part = reply_of(opt, rq, type);
	int rc = 0;

	part.more = true;
	while (e->left > 1 && !rc) {
		rc = sl_reply(rq, &part);
		if (rc == -EAGAIN)
			return;
		e->left--;
	}
	free(e);
	part.more = false;
	if (!rc)
		sl_reply(rq, &part);
}

static void handle_one(const struct options *opt, struct sl_request_view *rq)
{
	struct sl_reply_args reply = {.grpc_status = (uint16_t)opt->grpc_status};
	char type[TYPE_MAX];

	if (is_unknown_call(rq)) {
		reply = (struct sl_reply_args){.grpc_status = GRPC_UNIMPLEMENTED,
					       .grpc_message = "no such method"};
		sl_reply(rq, &reply);
	} else if (opt->fail) {
		reply = (struct sl_reply_args){.status = (uint16_t)opt->fail};
		sl_reply(rq, &reply);
	} else if (rq->body_len == 0 && (is_method(rq, "GET") || is_method(rq, "HEAD"))) {
		reply_about(rq, reply);
	} else if (opt->streams > 1) {
		struct echoing *e = calloc(1, sizeof(*e));

		if (!e) {
			sl_reply_error(rq, SL_RPC_REFUSED);
			return;
		}
		e->left = opt->streams;
		rq->own = e;
		parts_go_on(opt, rq);
	} else {
		reply = reply_of(opt, rq, type);
		sl_reply(rq, &reply);
	}
}

static void handle_batch(void *arg, struct sl_batch *batch)
{
	const struct options *opt = arg;

	if (opt->delay_us) {
		struct timespec pause = {.tv_sec = (time_t)(opt->delay_us / 1000000),
					 .tv_nsec = (long)(opt->delay_us % 1000000 * 1000)};
		nanosleep(&pause, NULL);
	}
	for (unsigned i = 0; i < batch->count; i++)
		handle_one(opt, batch->requests[i]);
}

static void stream_close(struct sl_request_view *rq)
{
	struct echoing *s = rq->own;

	rq->own = NULL;
	free(s->bytes);
	free(s);
}

static void stream_open(void *arg, struct sl_request_view *rq)
{
	static const struct sl_reply_args yes = {.status = 101, .more = true, .no_message = true};
	const struct options *opt = arg;
	const char *protocol;
	size_t len;

	if (opt->fail) {
		sl_reply(rq, &(struct sl_reply_args){.status = (uint16_t)opt->fail});
		return;
	}
	if (rq->expect_continue)
		(void)sl_stream_send_continue(rq);
	rq->own = calloc(1, sizeof(struct echoing));
	if (!rq->own)
		sl_reply_error(rq, SL_RPC_REFUSED);
	else if (sl_request_header(rq, "upgrade", &protocol, &len))
		sl_reply(rq, &yes);
}

static void stream_go_on(void *arg, struct sl_request_view *rq)
{
	const struct options *opt = arg;
	struct echoing *s = rq->own;
	struct sl_reply_args end = {.no_message = true, .grpc_status = (uint16_t)opt->grpc_status};
	int rc = 0;

	if (!s)
		return;
	if (s->whole)
		rc = sl_reply(rq, &(struct sl_reply_args){
					  .body = s->bytes, .body_len = s->len, .more = true});
	if (rc == -EAGAIN) {
		sl_stream_pause(rq);
		return;
	}
	if (s->whole) {
		s->whole = false;
		s->len = 0;
		sl_stream_resume(rq);
	}
	if (s->ended || rc) {
		stream_close(rq);
		if (!rc)
			sl_reply(rq, &end);
	}
}

static void stream_data(void *arg, struct sl_request_view *rq, const void *bytes, size_t len,
			size_t left)
{
	struct echoing *s = rq->own;
	size_t cap = s->cap ? s->cap : 4096;
	uint8_t *to;

	while (cap < s->len + len)
		cap *= 2;
	to = cap > s->cap ? realloc(s->bytes, cap) : s->bytes;
	if (!to) {
		stream_close(rq);
		sl_reply_error(rq, SL_RPC_INTERNAL);
		return;
	}
	s->bytes = to;
	s->cap = cap;
	if (len)
		memcpy(s->bytes + s->len, bytes, len);
	s->len += len;
	s->whole = !left;
	if (!left)
		stream_go_on(arg, rq);
}

static void stream_end(void *arg, struct sl_request_view *rq)
{
	struct echoing *s = rq->own;

	s->ended = true;
	stream_go_on(arg, rq);
}

static void stream_cancel(void *arg, struct sl_request_view *rq)
{
	(void)arg;
	stream_close(rq);
	sl_reply_error(rq, SL_RPC_CANCELLED);
}

static void on_writable(void *arg, struct sl_request_view *rq)
{
	const struct echoing *e = rq->own;

	if (e && e->left)
		parts_go_on(arg, rq);
	else
		stream_go_on(arg, rq);
}

static const struct sl_stream_ops on_stream = {
	.on_open = stream_open,
	.on_data = stream_data,
	.on_end = stream_end,
	.on_cancel = stream_cancel,
};

static const char help[] =
	"Usage: echo --listen ENDPOINT[,ENDPOINT] [options]\n"
	"Returns each request's body with its content type; GET and HEAD get a line of text.\n"
	"gRPC: the method Echo of any service that is routed to it.\n"
	"\n"
	"  -l, --listen ENDPOINT   shm:///path, rdma://address:port or\n"
	"                          tcp://host:port\n"
	"  -K, --key-file FILE     shared key that rdma:// and tcp:// peers must prove\n"
	"  -b, --max-batch N       largest batch (default 256)\n"
	"  -d, --delay-us N        sleep N us per batch\n"
	"  -f, --fail STATUS       reply to everything with this HTTP status\n"
	"  -s, --streams N         reply in N parts (gRPC server streaming)\n"
	"  -g, --grpc-status N     status of gRPC calls, after all parts\n"
	"  -p, --busy-poll         never sleep\n"
	"  -h, --help\n";

static const struct option long_options[] = {
	{"listen", required_argument, NULL, 'l'},   {"max-batch", required_argument, NULL, 'b'},
	{"delay-us", required_argument, NULL, 'd'}, {"fail", required_argument, NULL, 'f'},
	{"streams", required_argument, NULL, 's'},  {"grpc-status", required_argument, NULL, 'g'},
	{"busy-poll", no_argument, NULL, 'p'},      {"key-file", required_argument, NULL, 'K'},
	{"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
};

static int parse_args(int argc, char **argv, struct options *o)
{
	int c;
	bool ok = true;

	while (ok && (c = getopt_long(argc, argv, "l:K:b:d:f:s:g:ph", long_options, NULL)) != -1) {
		switch (c) {
		case 'l': o->listen = optarg; break;
		case 'K': o->key_file = optarg; break;
		case 'b':
			ok = program_number("echo", optarg, SL_RPC_MAX_BATCH, &o->max_batch);
			break;
		case 'd': ok = program_number("echo", optarg, 3600000000UL, &o->delay_us); break;
		case 'f': ok = program_number("echo", optarg, 599, &o->fail); break;
		case 's': ok = program_number("echo", optarg, 1000000, &o->streams); break;
		case 'g': ok = program_number("echo", optarg, 16, &o->grpc_status); break;
		case 'p': o->busy_poll = true; break;
		case 'h': fputs(help, stdout); return 1;
		default: ok = false;
		}
	}
	if (ok && o->listen && optind == argc)
		return 0;
	fputs("echo: expected --listen ENDPOINT; see --help\n", stderr);
	return 2;
}

int main(int argc, char **argv)
{
	struct options o = {0};
	struct sl_backend_options opt = {
		.on_batch = handle_batch,
		.arg = &o,
		.on_stream = &on_stream,
		.upgrades = true,
		.on_writable = on_writable,
	};
	int rc = parse_args(argc, argv, &o);

	if (rc)
		return rc == 1 ? 0 : rc;
	opt.listen = o.listen;
	opt.key_file = o.key_file;
	opt.max_batch = (unsigned)o.max_batch;
	opt.busy_poll = o.busy_poll;
	opt.inline_handler = !o.delay_us;
	return program_run("echo", &opt);
}
