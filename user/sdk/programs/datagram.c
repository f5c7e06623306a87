/* SPDX-License-Identifier: Apache-2.0 */
/* Example client: sends a file or stdin in one datagram. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sluice/datagram_client.h"

struct options {
	const char *host, *port, *method, *file;
	unsigned long service, count, parallel;
	unsigned long deadline_us, wait_us, retry_us, reply_len;
	bool same, quiet, statistics;
};

struct job {
	const struct options *o;
	struct sl_datagram_call call;
	unsigned long begun, ended, failed;
};

static void on_done(void *arg, const struct sl_datagram_answer *a)
{
	struct job *j = arg;
	const char *why = NULL;

	if (a->status != SL_DATAGRAM_OK)
		why = sl_datagram_status_name(a->status);
	else if (a->code >= 400)
		why = "error of the backend";
	else if (j->o->same &&
		 (a->payload_len != j->call.payload_len ||
		  (a->payload_len && memcmp(a->payload, j->call.payload, a->payload_len) != 0)))
		why = "the reply differs from the request";
	j->ended++;
	if (why) {
		j->failed++;
		fprintf(stderr, "datagram: %s", why);
		if (a->status == SL_DATAGRAM_OK)
			fprintf(stderr, " (code %u)", a->code);
		fputc('\n', stderr);
	}
	if (a->status == SL_DATAGRAM_OK && !j->o->quiet)
		fwrite(a->payload, 1, a->payload_len, stdout);
}

static const char help[] =
	"Usage: datagram [options] ADDRESS PORT SERVICE [METHOD]\n"
	"Sends a file or stdin to a service of a gateway in one UDP datagram, and\n"
	"prints the reply. SERVICE is the datagram_service of a route. Exit status 0: a backend\n"
	"has answered, with a code below 400.\n"
	"\n"
	"  -f, --file FILE      file to send (default: stdin)\n"
	"  -d, --deadline-us N  deadline at the gateway (default: that of the route)\n"
	"  -w, --wait-us N      time-out (default: 100 ms beyond the deadline, or 1 s)\n"
	"  -t, --retry-us N     time to the first retry (default: measured)\n"
	"  -R, --reply-len N    bytes expected in the reply: pads the request, since a reply is\n"
	"                       never larger\n"
	"  -n, --count N        number of requests (default 1)\n"
	"  -p, --parallel N     requests in flight (default 16)\n"
	"  -S, --same           the reply must equal the request\n"
	"  -q, --quiet          do not print replies\n"
	"  -s, --statistics     print counters at the end, on stderr\n"
	"  -h, --help\n";

static const struct option long_options[] = {
	{"file", required_argument, NULL, 'f'},
	{"deadline-us", required_argument, NULL, 'd'},
	{"wait-us", required_argument, NULL, 'w'},
	{"retry-us", required_argument, NULL, 't'},
	{"reply-len", required_argument, NULL, 'R'},
	{"count", required_argument, NULL, 'n'},
	{"parallel", required_argument, NULL, 'p'},
	{"same", no_argument, NULL, 'S'},
	{"quiet", no_argument, NULL, 'q'},
	{"statistics", no_argument, NULL, 's'},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static bool parse_number(const char *text, unsigned long least, unsigned long most,
			 unsigned long *out)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || v < least || v > most) {
		fprintf(stderr, "datagram: \"%s\": expected a number from %lu to %lu\n", text,
			least, most);
		return false;
	}
	*out = v;
	return true;
}

static int parse_args(int argc, char **argv, struct options *o)
{
	bool ok = true;
	int c;

	while (ok &&
	       (c = getopt_long(argc, argv, "f:d:w:t:R:n:p:Sqsh", long_options, NULL)) != -1) {
		switch (c) {
		case 'f': o->file = optarg; break;
		case 'd': ok = parse_number(optarg, 1, UINT32_MAX, &o->deadline_us); break;
		case 'w': ok = parse_number(optarg, 1, UINT32_MAX, &o->wait_us); break;
		case 't': ok = parse_number(optarg, 1, UINT32_MAX, &o->retry_us); break;
		case 'R': ok = parse_number(optarg, 0, SL_DATAGRAM_MAX, &o->reply_len); break;
		case 'n': ok = parse_number(optarg, 1, UINT32_MAX, &o->count); break;
		case 'p': ok = parse_number(optarg, 1, 65536, &o->parallel); break;
		case 'S': o->same = true; break;
		case 'q': o->quiet = true; break;
		case 's': o->statistics = true; break;
		case 'h': fputs(help, stdout); return 1;
		default: ok = false;
		}
	}
	argv += optind;
	argc -= optind;
	if (ok && argc >= 3 && argc <= 4 && parse_number(argv[2], 1, UINT16_MAX, &o->service)) {
		o->host = argv[0];
		o->port = argv[1];
		o->method = argc == 4 ? argv[3] : "";
		return 0;
	}
	fputs("datagram: expected ADDRESS PORT SERVICE; see --help\n", stderr);
	return 2;
}

static int send_requests(const struct options *o, struct sl_datagram_client *client,
			 const uint8_t *payload, size_t len)
{
	struct job j = {.o = o};
	int rc = 0;

	j.call = (struct sl_datagram_call){
		.service = (uint16_t)o->service,
		.method = o->method,
		.method_len = strlen(o->method),
		.payload = payload,
		.payload_len = len,
		.reply_len = o->reply_len,
		.deadline_us = (uint32_t)o->deadline_us,
		.wait_us = (uint32_t)o->wait_us,
		.done = on_done,
		.arg = &j,
	};
	while (!rc && j.ended < o->count) {
		while (!rc && j.begun < o->count && j.begun - j.ended < o->parallel) {
			rc = sl_datagram_client_send(client, &j.call, NULL);
			j.begun += !rc;
		}
		if (!rc && sl_datagram_client_poll(client, -1) == -EINTR)
			rc = -EINTR;
	}
	if (rc == -EMSGSIZE)
		fprintf(stderr, "datagram: %zu bytes; expected at most %zu on this path\n", len,
			sl_datagram_client_max_payload(client, j.call.method_len));
	else if (rc)
		fprintf(stderr, "datagram: %s\n", strerror(-rc));
	if (o->statistics) {
		struct sl_datagram_client_stats s;

		sl_datagram_client_stats(client, &s);
		fprintf(stderr, "sent %lu retried %lu answered %lu timed out %lu ignored %lu\n",
			s.sent, s.retried, s.answered, s.timed_out, s.ignored);
	}
	return rc || j.failed || fflush(stdout);
}

int main(int argc, char **argv)
{
	static uint8_t payload[SL_DATAGRAM_MAX + 1];
	struct options o = {.count = 1, .parallel = 16};
	struct sl_datagram_client_options opt;
	struct sl_datagram_client *client;
	char err[256];
	size_t len;
	FILE *f;
	int rc = parse_args(argc, argv, &o);

	if (rc)
		return rc == 1 ? 0 : rc;
	f = o.file ? fopen(o.file, "re") : stdin;
	len = f ? fread(payload, 1, sizeof(payload), f) : 0;
	if (!f || ferror(f)) {
		fprintf(stderr, "datagram: %s: %s\n", o.file ? o.file : "stdin", strerror(errno));
		return 1;
	}
	if (o.file)
		fclose(f);
	opt = (struct sl_datagram_client_options){
		.host = o.host,
		.port = o.port,
		.max_in_flight = (unsigned)o.parallel,
		.retry_us = (uint32_t)o.retry_us,
	};
	client = sl_datagram_client_open(&opt, err, sizeof(err));
	if (!client) {
		fprintf(stderr, "datagram: %s\n", err);
		return 1;
	}
	rc = send_requests(&o, client, payload, len);
	sl_datagram_client_close(client);
	return rc;
}
