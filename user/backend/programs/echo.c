/* SPDX-License-Identifier: Apache-2.0 */
/* Backend `echo`: returns what it gets; GET and HEAD get a line about the request. */
#include <getopt.h>
#include <string.h>
#include <time.h>
#include "backend/programs/program.h"

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

static void reply_about(struct sl_request_view *rq, struct sl_reply_args reply)
{
	char text[1024];
	int n = snprintf(text, sizeof(text), "%.*s %.*s%s%.*s\n", rq->method_len, rq->method,
			 rq->path_len, rq->path_len ? rq->path : "", rq->query_len ? "?" : "",
			 rq->query_len, rq->query_len ? rq->query : "");

	reply.body = text;
	reply.body_len = (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1;
	reply.content_type = "text/plain";
	sl_reply(rq, &reply);
}

/* The parts of a streamed reply, each the whole body. */
static void reply_parts(const struct options *opt, struct sl_request_view *rq,
			struct sl_reply_args *reply)
{
	reply->more = true;
	for (unsigned long i = 1; i < opt->streams; i++) {
		if (sl_reply(rq, reply) < 0)
			return;
	}
	reply->more = false;
	sl_reply(rq, reply);
}

static void handle_one(const struct options *opt, struct sl_request_view *rq)
{
	char type[256];
	struct sl_reply_args reply = {.body = rq->body,
				      .body_len = rq->body_len,
				      .grpc_status = (uint16_t)opt->grpc_status};

	if (opt->fail) {
		reply = (struct sl_reply_args){.status = (uint16_t)opt->fail};
		sl_reply(rq, &reply);
		return;
	}
	if (rq->body_len == 0 && (is_method(rq, "GET") || is_method(rq, "HEAD"))) {
		reply_about(rq, reply);
		return;
	}
	if (rq->content_type_len && rq->content_type_len < sizeof(type)) {
		memcpy(type, rq->content_type, rq->content_type_len);
		type[rq->content_type_len] = '\0';
		reply.content_type = type;
	}
	reply_parts(opt, rq, &reply);
}

static void handle(void *arg, struct sl_batch *batch)
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

static const char help[] =
	"Usage: echo --listen ENDPOINT[,ENDPOINT] [options]\n"
	"Returns each request's body with its content type; GET and HEAD get a line of text.\n"
	"\n"
	"  -l, --listen ENDPOINT   shm:///path or rdma://address:port\n"
	"  -K, --key-file FILE     shared key that rdma:// peers must prove\n"
	"  -b, --max-batch N       largest batch (default 256)\n"
	"  -d, --delay-us N        work of N us per batch\n"
	"  -f, --fail STATUS       answer everything with this HTTP status\n"
	"  -s, --streams N         reply in N parts (gRPC server streaming)\n"
	"  -g, --grpc-status N     status of gRPC calls, behind the parts if there are several\n"
	"  -p, --busy-poll         never sleep\n"
	"  -h, --help\n";

static const struct option long_options[] = {
	{"listen", required_argument, NULL, 'l'},   {"max-batch", required_argument, NULL, 'b'},
	{"delay-us", required_argument, NULL, 'd'}, {"fail", required_argument, NULL, 'f'},
	{"streams", required_argument, NULL, 's'},  {"grpc-status", required_argument, NULL, 'g'},
	{"busy-poll", no_argument, NULL, 'p'},      {"key-file", required_argument, NULL, 'K'},
	{"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0},
};

/* 0 go on, 1 done, 2 wrong. */
static int parse(int argc, char **argv, struct options *o)
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
	struct sl_backend_options opt = {.handle = handle, .arg = &o};
	int rc = parse(argc, argv, &o);

	if (rc)
		return rc == 1 ? 0 : rc;
	opt.listen = o.listen;
	opt.key_file = o.key_file;
	opt.max_batch = (unsigned)o.max_batch;
	opt.busy_poll = o.busy_poll;
	return program_run("echo", &opt);
}
