/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/rand.h"
#include "control/fields.h"
#include "sluice/abi.h"
#include "tools/demo/demo.h"
#include "tools/terminal.h"

enum { CLIENT_MS = 20000, WRK_S = 5 };

static const char echo_url[] = "http://" DEMO_V4 ":8080/echo";
static const struct proc_where client = {.netns = DEMO_CLIENT};

static void begin_check(struct demo *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void begin_check(struct demo *d, const char *fmt, ...)
{
	char asked[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(asked, sizeof(asked), fmt, ap);
	va_end(ap);
	printf("%-34s ", asked);
	fflush(stdout);
	d->asked_ns = sl_now_ns();
}

static bool end_check(struct demo *d, bool request, bool ok, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static bool end_check(struct demo *d, bool request, bool ok, const char *fmt, ...)
{
	double ms = (double)(sl_now_ns() - d->asked_ns) / 1e6;
	char what[300];
	va_list ap;

	if (term_stopped) {
		putchar('\n');
		return false;
	}
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	d->requests += request;
	d->ok += request && ok;
	d->failed += !ok;
	printf("%-3s %-48s %7.1f ms\n", ok ? "ok" : "BAD", what, ms);
	fflush(stdout);
	return true;
}

static int curl(const char *const *args, char *out, size_t out_len)
{
	const char *argv[PROC_MAX_ARGS - 8] = {"curl", "-sS", "-g", "--max-time", "15"};
	size_t n = 5;

	for (; *args && n + 1 < sizeof(argv) / sizeof(argv[0]); args++)
		argv[n++] = *args;
	argv[n] = NULL;
	return proc_run(&client, argv, out, out_len, CLIENT_MS);
}

#define CURL(out, ...) curl((const char *const[]){__VA_ARGS__, NULL}, out, sizeof(out))

static bool check_get(struct demo *d, const char *name, const char *url)
{
	char out[400];
	bool ok;

	begin_check(d, "GET / over %s", name);
	ok = CURL(out, url) == 0 && strcmp(out, "hello from sluice\n") == 0;
	out[strcspn(out, "\n")] = 0;
	return end_check(d, true, ok, "%s", out);
}

static bool check_server(struct demo *d, const char *name, const char *path, const char *text)
{
	char out[400], url[120];
	bool ok;

	begin_check(d, "GET %s of %s", path, name);
	snprintf(url, sizeof(url), "http://" DEMO_V4 ":8080%s", path);
	ok = CURL(out, "--retry", "20", "--retry-delay", "1", url) == 0 && strcmp(out, text) == 0;
	out[strcspn(out, "\n")] = 0;
	return end_check(d, true, ok, "%s", out);
}

static const char greet[] = "import grpc\n"
			    "channel = grpc.insecure_channel('" DEMO_V4 ":8080')\n"
			    "call = channel.unary_unary('/demo.Greeter/Hello')\n"
			    "print(call(b'from grpcio', timeout=15, wait_for_ready=True).decode())";
static const char talk[] =
	"import grpc, queue\n"
	"channel = grpc.insecure_channel('" DEMO_V4 ":8080')\n"
	"say, heard = queue.Queue(), []\n"
	"call = channel.stream_stream('/demo.Chat/Talk')(iter(say.get, None), timeout=15)\n"
	"for word in b'one', b'by', b'one':\n"
	"    say.put(word)\n"
	"    heard.append(next(call).decode())\n"
	"say.put(None)\n"
	"print(*heard, *call)";

static bool check_python(struct demo *d, const char *asked, const char *program, const char *text)
{
	const char *argv[] = {"/usr/bin/python3", "-c", program, NULL};
	char out[400];
	bool ok;

	begin_check(d, "%s", asked);
	ok = proc_run(&client, argv, out, sizeof(out), CLIENT_MS) == 0 && strcmp(out, text) == 0;
	out[strcspn(out, "\n")] = 0;
	return end_check(d, true, ok, "%s", out);
}

static bool check_events(struct demo *d, const char *language, const char *url)
{
	static const char events[] = "data: words\n\ndata: as\n\ndata: they\n\ndata: come\n\n";
	double first = 0, last = 0;
	char out[400];
	bool ok;

	begin_check(d, "curl -N to a stream in %s", language);
	ok = CURL(out, "-N", "--retry", "20", "--retry-delay", "1", "-d", "words as they come",
		  "-w", "%{time_starttransfer} %{time_total}", url) == 0 &&
	     strncmp(out, events, sizeof(events) - 1) == 0 &&
	     sscanf(out + sizeof(events) - 1, "%lf %lf", &first, &last) == 2;
	if (ok)
		return end_check(d, true, ok, "4 events, after %.0f ms to %.0f ms", first * 1e3,
				 last * 1e3);
	out[strcspn(out, "\n")] = 0;
	return end_check(d, true, ok, "%s", out);
}

static bool check_tls(struct demo *d)
{
	char out[400];
	bool ok;

	begin_check(d, "GET / over TLS 1.3, HTTP/2 by ALPN");
	ok = CURL(out, "--cacert", DEMO_CERT, "--resolve", DEMO_HOST ":8443:" DEMO_V4, "--tlsv1.3",
		  "--http2", "-w", "HTTP/%{http_version}", "https://" DEMO_HOST ":8443/") == 0 &&
	     strcmp(out, "hello from sluice\nHTTP/2") == 0;
	for (char *c = out; (c = strchr(c, '\n'));)
		*c = ' ';
	return end_check(d, true, ok, "%s", out);
}

static bool make_body(size_t len)
{
	FILE *f = fopen(DEMO_DIR "/body", "we");
	struct sl_prng rng;
	size_t left = len;

	sl_prng_seed(&rng, len);
	while (f && left) {
		uint64_t v = sl_prng_u64(&rng);
		size_t n = left < sizeof(v) ? left : sizeof(v);

		if (fwrite(&v, 1, n, f) != n)
			break;
		left -= n;
	}
	return f && fclose(f) == 0 && !left;
}

static bool same_files(const char *a, const char *b)
{
	FILE *x = fopen(a, "re"), *y = fopen(b, "re");
	bool same = x && y;
	char p[16384], q[16384];
	size_t n;

	do {
		n = same ? fread(p, 1, sizeof(p), x) : 0;
		same = same && fread(q, 1, sizeof(q), y) == n && memcmp(p, q, n) == 0;
	} while (n);
	if (x)
		fclose(x);
	if (y)
		fclose(y);
	return same;
}

static bool check_echo(struct demo *d, const char *name, size_t len)
{
	char out[300];
	bool made = make_body(len);
	int rc;

	unlink(DEMO_DIR "/reply");
	begin_check(d, "POST %s to /echo", name);
	if (!made)
		return end_check(d, true, false, "cannot write " DEMO_DIR "/body");
	rc = CURL(out, "-f", "-o", DEMO_DIR "/reply", "--data-binary", "@" DEMO_DIR "/body", "-H",
		  "Content-Type: application/octet-stream", "http://" DEMO_V4 ":8080/echo");
	out[strcspn(out, "\n")] = 0;
	return end_check(d, true, rc == 0 && same_files(DEMO_DIR "/body", DEMO_DIR "/reply"), "%s",
			 rc ? out : "the same bytes");
}

static bool check_datagrams(struct demo *d, const char *address, unsigned count)
{
	char program[4200], number[16], out[400];
	const char *argv[] = {program,   "-n", number,           "-p",    "64",   "-Sqs", "-w",
			      "5000000", "-f", DEMO_DIR "/body", address, "8080", "1",    NULL};
	bool made = make_body(1000);
	int rc;

	snprintf(program, sizeof(program), "%s/datagram", d->bin);
	snprintf(number, sizeof(number), "%u", count);
	begin_check(d, "%u datagrams of 1000 B, %s", count, strchr(address, ':') ? "IPv6" : "IPv4");
	if (!made)
		return end_check(d, true, false, "cannot write " DEMO_DIR "/body");
	rc = proc_run(&client, argv, out, sizeof(out), CLIENT_MS);
	out[strcspn(out, "\n")] = 0;
	d->requests += count - 1;
	d->ok += rc ? 0 : count - 1;
	return end_check(d, true, rc == 0, "%s", rc ? out : "the same bytes each time");
}

static bool best_row(const float *query, long *row)
{
	FILE *f = fopen(DEMO_DIR "/matrix", "re");
	float v[DEMO_DIM];
	double best = 0;

	*row = -1;
	for (long i = 0; f && fread(v, sizeof(float), DEMO_DIM, f) == DEMO_DIM; i++) {
		double sum = 0;

		for (int k = 0; k < DEMO_DIM; k++)
			sum += (double)v[k] * (double)query[k];
		if (*row < 0 || sum > best) {
			best = sum;
			*row = i;
		}
	}
	if (f)
		fclose(f);
	return *row >= 0;
}

static bool check_score(struct demo *d)
{
	float query[DEMO_DIM];
	struct sl_prng rng;
	bool made;
	char out[2000];
	json_error_t jerr;
	json_t *reply;
	long row = -1, id = -1;
	FILE *f = fopen(DEMO_DIR "/body", "we");
	int rc;

	sl_prng_seed(&rng, 7);
	for (int k = 0; k < DEMO_DIM; k++)
		query[k] = (float)(sl_prng_u64(&rng) % 2001) / 1000 - 1;
	made = f && fwrite(query, sizeof(query), 1, f) == 1;
	made = f && fclose(f) == 0 && made && best_row(query, &row);
	begin_check(d, "POST a vector to /score");
	if (!made)
		return end_check(d, true, false, "no query or matrix");
	rc = CURL(out, "-f", "--data-binary", "@" DEMO_DIR "/body", "-H",
		  "Content-Type: application/octet-stream", "http://" DEMO_V4 ":8080/score");
	reply = rc ? NULL : json_loads(out, 0, &jerr);
	if (reply && json_array_size(json_object_get(reply, "ids")) == DEMO_TOP)
		id = (long)json_integer_value(json_array_get(json_object_get(reply, "ids"), 0));
	json_decref(reply);
	return end_check(d, true, id == row, "row %ld of %d; a plain loop says %ld", id, DEMO_ROWS,
			 row);
}

static bool check_ping(struct demo *d, const char *address)
{
	const char *argv[] = {"ping", "-c", "1", "-W", "2", address, NULL};
	char out[1000];
	int rc;

	begin_check(d, "ping %s", address);
	rc = proc_run(&client, argv, out, sizeof(out), CLIENT_MS);
	return end_check(d, false, rc == 0, "%s", rc ? "no answer" : "an answer from the kernel");
}

static bool check_kernel_service(struct demo *d)
{
	const char *argv[] = {"nc", "-d", "-w", "2", DEMO_V4, "2222", NULL};
	char out[200];

	begin_check(d, "TCP to port 2222, not sluice's");
	proc_run(&client, argv, out, sizeof(out), CLIENT_MS);
	out[strcspn(out, "\r\n")] = 0;
	return end_check(d, false, strcmp(out, "SSH-2.0-kernel") == 0, "%s, from the kernel", out);
}

static double number_behind(const char *out, const char *text)
{
	const char *at = strstr(out, text);

	return at ? strtod(at + strlen(text), NULL) : 0;
}

static void print_lines_with(const char *out, const char *const *words)
{
	for (const char *line = out; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		size_t len = strcspn(line, "\n");

		for (const char *const *w = words; *w; w++) {
			if (memmem(line, len, *w, strlen(*w)))
				printf("    %.*s\n", (int)len, line);
		}
	}
}

static bool check_wrk(struct demo *d)
{
	const char *argv[] = {"wrk", "-t",        "1",         "-c", "64",     "-d",
			      "5s",  "--latency", "--timeout", "5s", echo_url, NULL};
	const struct proc_where gateway = {.netns = DEMO_GW};
	unsigned total, bad;
	const char *errors, *p99, *at;
	char out[4000], tail[16] = "?", sluice[4200], said[8000];
	bool go_on;
	int rc;

	begin_check(d, "wrk: 64 connections, %d s, /echo", WRK_S);
	rc = proc_run(&client, argv, out, sizeof(out), CLIENT_MS);
	at = strstr(out, " requests in ");
	while (at && at > out && at[-1] >= '0' && at[-1] <= '9')
		at--;
	total = at ? (unsigned)strtoul(at, NULL, 10) : 0;
	bad = (unsigned)number_behind(out, "Non-2xx or 3xx responses:");
	errors = strstr(out, "Socket errors: ");
	if (errors)
		bad += (unsigned)(number_behind(errors, "connect ") +
				  number_behind(errors, "read ") + number_behind(errors, "write ") +
				  number_behind(errors, "timeout "));
	p99 = strstr(out, " 99% ");
	if (p99)
		sscanf(p99 + 5, "%15s", tail);
	d->requests += total;
	d->ok += total - (bad < total ? bad : total);
	d->failed += bad;
	go_on = end_check(d, false, rc == 0 && total && !bad,
			  "%u replies, %.0f/s, p99 %s, %u failed", total,
			  number_behind(out, "Requests/sec:"), tail, bad);
	if (!bad)
		return go_on;
	print_lines_with(out, (const char *[]){"Non-2xx", "Socket errors", NULL});
	snprintf(sluice, sizeof(sluice), "%s/sluice", d->bin);
	proc_run(&gateway, (const char *[]){sluice, "status", NULL}, said, sizeof(said), CLIENT_MS);
	print_lines_with(said,
			 (const char *[]){"answered:", "malformed:", "dropped:", "backend", NULL});
	return go_on;
}

static void print_abridged(const char *out, unsigned max)
{
	unsigned left = 0;

	while (*out) {
		size_t len = strcspn(out, "\n");
		bool empty =
			!memmem(out, len, "\"key\"", 5) &&
			(len == 0 || strstr(out, ": 0\n") == out + len - 3 ||
			 strstr(out, ": 0,") == out + len - 4 || memmem(out, len, "\"pad\"", 5));

		if (!empty && max) {
			printf("    %.*s\n", (int)len, out);
			max--;
		} else {
			left++;
		}
		out += len + (out[len] == '\n');
	}
	if (left)
		printf("    (%u lines that are zero or follow are left out)\n", left);
}

bool demo_show_maps(struct demo *d)
{
	static const char *const maps[] = {"sl_listeners", "sl_rx_drops", "sl_svc_live",
					   "sl_stages"};
	static char out[1 << 20];

	for (size_t i = 0; i < SL_ARRAY_LEN(maps); i++) {
		char path[96];
		const char *argv[] = {"bpftool", "map", "dump", "pinned", path, NULL};
		int rc;

		snprintf(path, sizeof(path), "/sys/fs/bpf/sluice/sl0/%s", maps[i]);
		printf("\nbpftool map dump pinned %s\n", path);
		rc = proc_run(&(struct proc_where){0}, argv, out, sizeof(out), CLIENT_MS);
		d->failed += rc != 0 && !term_stopped;
		if (term_stopped)
			return false;
		print_abridged(out, 40);
	}
	return true;
}

static const char *time_of(const json_t *stage, const char *key)
{
	double ns = json_number_value(json_object_get(stage, key));

	return ns > 0 ? term_time(ns) : "0";
}

bool demo_show_stages(struct demo *d)
{
	const struct proc_where gateway = {.netns = DEMO_GW};
	static char out[1 << 20];
	char sluice[4200], title[80];
	json_error_t jerr;
	json_t *stats, *first, *stages;

	snprintf(sluice, sizeof(sluice), "%s/sluice", d->bin);
	proc_run(&gateway, (const char *[]){sluice, "status", "--json", NULL}, out, sizeof(out),
		 CLIENT_MS);
	stats = json_loads(out, 0, &jerr);
	first = json_array_get(json_object_get(stats, "pools"), 0);
	stages = json_object_get(first, "stages");
	if (first) {
		snprintf(title, sizeof(title), "Where the time of %s requests to pool %s went",
			 term_count(json_number_value(
				 json_object_get(json_object_get(stages, "total"), "count"))),
			 json_string_value(json_object_get(first, "pool")));
		printf("\n%-63s %9s %9s\n", title, "median", "99 %");
	} else if (!term_stopped) {
		printf("BAD `sluice status --json` did not say how long requests took\n");
		d->failed++;
	}
	for (unsigned i = 0; first && i < SL_STAGE_CNT; i++) {
		const json_t *stage = json_object_get(stages, stage_names[i].name);

		printf("  %-8s %-52s %9s %9s\n", stage_names[i].name, stage_names[i].help,
		       time_of(stage, "p50_ns"), time_of(stage, "p99_ns"));
	}
	json_decref(stats);
	return !term_stopped;
}

int demo_checks(struct demo *d)
{
	bool go_on;

	printf("\n%-34s %-32s %30s\n", "What was asked", "What came",
	       "time, with the client's start");
	go_on = check_get(d, "IPv4", "http://" DEMO_V4 ":8080/") &&
		check_get(d, "IPv6", "http://[" DEMO_V6 "]:8080/") && check_tls(d) &&
		check_echo(d, "1 B", 1) && check_echo(d, "100 KB", 100 << 10) &&
		check_echo(d, "8 MB", 8 << 20) && check_score(d) &&
		check_server(d, "http.server", "/hello.txt", "hello from a file\n") &&
		check_server(d, "nginx", "/nginx", "hello from nginx\n") &&
		check_python(d, "gRPC call of a grpcio server", greet, "hello from grpcio\n") &&
		check_events(d, "Python", "http://" DEMO_V4 ":8080/chat") &&
		check_events(d, "C", "http://" DEMO_V4 ":8080/chat-in-c") &&
		check_python(d, "the same in one gRPC call", talk, "one by one\n") &&
		check_datagrams(d, DEMO_V4, 1000) && check_datagrams(d, DEMO_V6, 1000) &&
		check_ping(d, DEMO_V4) && check_ping(d, DEMO_V6) && check_kernel_service(d) &&
		check_wrk(d);

	return go_on ? 0 : -1;
}
