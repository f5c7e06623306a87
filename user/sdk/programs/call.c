/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/client.h"

enum { INPUT_MAX = 1 << 20 };

struct options {
	struct sl_rpc_client_options client;
	struct sl_rpc_call_args call;
	unsigned long count;
};

static const char help[] =
	"Usage: call [options] ENDPOINT[,ENDPOINT...] [PATH]\n"
	"Calls a server of libsluice-backend or an agent with stdin as the body (at most 1 MiB),\n"
	"and prints the reply. Endpoints: shm:///path, rdma://address:port,\n"
	"rdma+ud://address:port, tcp://host:port. Exit status 0: a reply with a status below 400.\n"
	"\n"
	"  -k, --key-file FILE    shared key of rdma and tcp endpoints\n"
	"  -d, --deadline-us N    deadline (default: none)\n"
	"  -p, --priority CLASS   latency, normal (default) or bulk\n"
	"  -i, --idempotent       may be executed twice\n"
	"  -n, --count N          number of calls, in batches (default 1)\n"
	"  -h, --help\n";

static const struct option long_options[] = {
	{"key-file", required_argument, NULL, 'k'},
	{"deadline-us", required_argument, NULL, 'd'},
	{"priority", required_argument, NULL, 'p'},
	{"idempotent", no_argument, NULL, 'i'},
	{"count", required_argument, NULL, 'n'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static bool parse_number(const char *text, uint64_t *out)
{
	char *end;

	*out = strtoul(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && *out)
		return true;
	fprintf(stderr, "call: found \"%s\"; allowed: a whole number from 1 on\n", text);
	return false;
}

static bool parse_class(const char *text, uint8_t *out)
{
	static const char *const names[] = {"", "latency", "normal", "bulk"};

	for (unsigned i = SL_CLASS_LATENCY; i < SL_CLASS_CNT; i++) {
		if (strcmp(text, names[i]) == 0) {
			*out = (uint8_t)i;
			return true;
		}
	}
	fprintf(stderr, "call: found \"%s\"; allowed: latency, normal, bulk\n", text);
	return false;
}

static int parse_args(int argc, char **argv, struct options *o)
{
	bool ok = true;
	int c;

	while (ok && (c = getopt_long(argc, argv, "k:d:p:in:h", long_options, NULL)) != -1) {
		switch (c) {
		case 'k': o->client.key_file = optarg; break;
		case 'd': ok = parse_number(optarg, &o->call.deadline_us); break;
		case 'p': ok = parse_class(optarg, &o->call.priority); break;
		case 'i': o->call.idempotent = true; break;
		case 'n': ok = parse_number(optarg, &o->count); break;
		case 'h': fputs(help, stdout); return 1;
		default: ok = false;
		}
	}
	if (!ok || argc - optind < 1 || argc - optind > 2) {
		fputs("call: expected ENDPOINT [PATH]; see --help\n", stderr);
		return 2;
	}
	o->client.endpoints = argv[optind];
	o->call.path = argc - optind == 2 ? argv[optind + 1] : "/";
	return 0;
}

static bool print_reply(const struct sl_rpc_call_reply *reply)
{
	if (reply->error) {
		fprintf(stderr, "call: %s\n", strerror(-reply->error));
		return false;
	}
	fwrite(reply->body, 1, reply->body_len, stdout);
	if (reply->status >= 400)
		fprintf(stderr, "call: status %u\n", reply->status);
	return reply->status < 400;
}

static int make_calls(struct sl_rpc_client *client, const struct options *o)
{
	static struct sl_rpc_call_args args[SL_RPC_MAX_BATCH];
	static struct sl_rpc_call_reply *replies[SL_RPC_MAX_BATCH];
	bool ok = true;

	for (unsigned long left = o->count; left;) {
		unsigned cnt = left < SL_RPC_MAX_BATCH ? (unsigned)left : SL_RPC_MAX_BATCH;
		int rc;

		for (unsigned i = 0; i < cnt; i++)
			args[i] = o->call;
		rc = sl_rpc_client_call_batch(client, args, cnt, replies);
		if (rc) {
			fprintf(stderr, "call: %s\n", strerror(-rc));
			return 1;
		}
		for (unsigned i = 0; i < cnt; i++) {
			ok &= print_reply(replies[i]);
			sl_rpc_call_reply_free(replies[i]);
		}
		left -= cnt;
	}
	return ok && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	static uint8_t body[INPUT_MAX + 1];
	struct options o = {.client = {.size = sizeof(o.client), .own_loop = true},
			    .call = {.size = sizeof(o.call)},
			    .count = 1};
	struct sl_rpc_client *client;
	char err[256];
	int rc = parse_args(argc, argv, &o);

	if (rc)
		return rc == 1 ? 0 : rc;
	o.call.body = body;
	o.call.body_len = fread(body, 1, sizeof(body), stdin);
	if (o.call.body_len > INPUT_MAX) {
		fprintf(stderr, "call: found more than %d bytes on stdin\n", INPUT_MAX);
		return 1;
	}
	client = sl_rpc_client_open(&o.client, err, sizeof(err));
	if (!client || sl_rpc_client_wait_connected(client, 5000, err, sizeof(err))) {
		fprintf(stderr, "call: %s\n", err);
		sl_rpc_client_close(client);
		return 1;
	}
	rc = make_calls(client, &o);
	sl_rpc_client_close(client);
	return rc;
}
