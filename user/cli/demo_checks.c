/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rand.h"
#include "cli/cli.h"
#include "cli/demo.h"

enum { CLIENT_MS = 20000, WRK_S = 5 };

static const char echo_url[] = "http://" DEMO_V4 ":8080/echo";
static const struct proc_where client = {.netns = DEMO_CLIENT};

/* One check: counted, and one line with its time. False when the demo is to stop. */
static bool report(struct demo *d, bool request, bool ok, uint64_t began_ns, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
static bool report(struct demo *d, bool request, bool ok, uint64_t began_ns, const char *fmt, ...)
{
	char what[300];
	va_list ap;

	if (cli_stopped)
		return false;
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	d->requests += request;
	d->ok += request && ok;
	d->failed += !ok;
	printf("%-4s%-58s %6.1f ms\n", ok ? "ok" : "BAD", what,
	       (double)(sl_now_ns() - began_ns) / 1e6);
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
	uint64_t began = sl_now_ns();
	char out[400];
	int rc = CURL(out, url);
	bool ok = rc == 0 && strcmp(out, "hello from sluice\n") == 0;

	out[strcspn(out, "\n")] = 0;
	return report(d, true, ok, began, "GET / %s: %s", name, out);
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
	uint64_t began;
	char out[300];
	int rc;

	unlink(DEMO_DIR "/reply");
	if (!make_body(len))
		return report(d, true, false, sl_now_ns(),
			      "POST /echo %s: cannot write " DEMO_DIR "/body", name);
	began = sl_now_ns();
	rc = CURL(out, "-f", "-o", DEMO_DIR "/reply", "--data-binary", "@" DEMO_DIR "/body", "-H",
		  "Content-Type: application/octet-stream", "http://" DEMO_V4 ":8080/echo");
	out[strcspn(out, "\n")] = 0;
	return report(d, true, rc == 0 && same_files(DEMO_DIR "/body", DEMO_DIR "/reply"), began,
		      "POST /echo %s: %s", name, rc ? out : "same bytes came back");
}

/* The example of libsluice-datagram; what comes back must be what was sent. */
static bool check_datagrams(struct demo *d, const char *address, unsigned count)
{
	char program[4200], number[16], out[400];
	const char *argv[] = {program,   "-n", number,           "-p",    "64",   "-Sqs", "-w",
			      "5000000", "-f", DEMO_DIR "/body", address, "8080", "1",    NULL};
	uint64_t began;
	int rc;

	snprintf(program, sizeof(program), "%s/datagram", d->bin);
	snprintf(number, sizeof(number), "%u", count);
	if (!make_body(1000))
		return report(d, true, false, sl_now_ns(),
			      "datagrams: cannot write " DEMO_DIR "/body");
	began = sl_now_ns();
	rc = proc_run(&client, argv, out, sizeof(out), CLIENT_MS);
	out[strcspn(out, "\n")] = 0;
	d->requests += count - 1;
	d->ok += rc ? 0 : count - 1;
	return report(d, true, rc == 0, began, "UDP %s: %u times 1000 B%s%s", address, count,
		      rc ? ": " : ", same came back", rc ? out : "");
}

/* The best row by a plain loop, to compare with. */
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
	uint64_t began;
	char out[2000];
	json_error_t jerr;
	json_t *reply;
	long row = -1, id = -1;
	FILE *f = fopen(DEMO_DIR "/body", "we");
	int rc;

	sl_prng_seed(&rng, 7);
	for (int k = 0; k < DEMO_DIM; k++)
		query[k] = (float)(sl_prng_u64(&rng) % 2001) / 1000 - 1;
	if (!f || fwrite(query, sizeof(query), 1, f) != 1 || fclose(f) != 0 ||
	    !best_row(query, &row))
		return report(d, true, false, sl_now_ns(), "POST /score: no query or matrix");
	began = sl_now_ns();
	rc = CURL(out, "-f", "--data-binary", "@" DEMO_DIR "/body", "-H",
		  "Content-Type: application/octet-stream", "http://" DEMO_V4 ":8080/score");
	reply = rc ? NULL : json_loads(out, 0, &jerr);
	if (reply && json_array_size(json_object_get(reply, "ids")) == DEMO_TOP)
		id = (long)json_integer_value(json_array_get(json_object_get(reply, "ids"), 0));
	json_decref(reply);
	return report(d, true, id == row, began,
		      "POST /score: nearest of %d rows is %ld, as a plain loop says", DEMO_ROWS,
		      id);
}

static bool check_ping(struct demo *d, const char *address)
{
	const char *argv[] = {"ping", "-c", "1", "-W", "2", address, NULL};
	uint64_t began = sl_now_ns();
	char out[1000];
	int rc = proc_run(&client, argv, out, sizeof(out), CLIENT_MS);

	return report(d, false, rc == 0, began, "ping %s: the kernel answers", address);
}

static bool check_kernel_service(struct demo *d)
{
	const char *argv[] = {"nc", "-d", "-w", "2", DEMO_V4, "2222", NULL};
	uint64_t began = sl_now_ns();
	char out[200];

	proc_run(&client, argv, out, sizeof(out), CLIENT_MS);
	out[strcspn(out, "\r\n")] = 0;
	return report(d, false, strcmp(out, "SSH-2.0-kernel") == 0, began,
		      "TCP port 2222, served by the kernel: %s", out);
}

/* The number in front of or behind a text in wrk's output; 0: not there. */
static double number_behind(const char *out, const char *text)
{
	const char *at = strstr(out, text);

	return at ? strtod(at + strlen(text), NULL) : 0;
}

static unsigned requests_of(const char *out)
{
	const char *at = strstr(out, " requests in ");

	while (at && at > out && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at ? (unsigned)strtoul(at, NULL, 10) : 0;
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

/* What wrk and the gateway say about requests that failed. */
static void print_failures(const struct demo *d, const char *wrk)
{
	const struct proc_where gateway = {.netns = DEMO_GW};
	char sluice[4200], out[8000];

	snprintf(sluice, sizeof(sluice), "%s/sluice", d->bin);
	print_lines_with(wrk, (const char *[]){"Non-2xx", "Socket errors", NULL});
	proc_run(&gateway, (const char *[]){sluice, "status", NULL}, out, sizeof(out), CLIENT_MS);
	print_lines_with(out,
			 (const char *[]){"answered:", "malformed:", "dropped:", "backend", NULL});
}

static bool check_wrk(struct demo *d)
{
	const char *argv[] = {"wrk", "-t",        "1",         "-c", "64",     "-d",
			      "5s",  "--latency", "--timeout", "5s", echo_url, NULL};
	uint64_t began = sl_now_ns();
	unsigned total, bad;
	const char *errors, *p99;
	char out[4000], tail[16] = "?";
	int rc;

	printf("    wrk, 64 connections, %d s ...\n", WRK_S);
	fflush(stdout);
	rc = proc_run(&client, argv, out, sizeof(out), CLIENT_MS);
	total = requests_of(out);
	bad = (unsigned)number_behind(out, "Non-2xx or 3xx responses:");
	errors = strstr(out, "Socket errors: ");
	if (errors)
		bad += (unsigned)(number_behind(errors, "connect ") +
				  number_behind(errors, "read ") + number_behind(errors, "write ") +
				  number_behind(errors, "timeout "));
	p99 = strstr(out, " 99% ");
	if (bad)
		print_failures(d, out);
	if (p99)
		sscanf(p99 + 5, "%15s", tail);
	d->requests += total;
	d->ok += total - (bad < total ? bad : total);
	d->failed += bad;
	return report(d, false, rc == 0 && total && !bad, began,
		      "wrk: %u requests, %.0f a second, p99 %s, %u failed", total,
		      number_behind(out, "Requests/sec:"), tail, bad);
}

/* Lines of a map that are neither zero nor padding, at most `max`. */
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

static bool show_maps(struct demo *d)
{
	static const char *const maps[] = {"sl_listeners", "sl_rx_drops", "sl_svc_live"};
	static char out[1 << 20];

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		uint64_t began = sl_now_ns();
		char path[96];
		const char *argv[] = {"bpftool", "map", "dump", "pinned", path, NULL};
		int rc;

		snprintf(path, sizeof(path), "/sys/fs/bpf/sluice/sl0/%s", maps[i]);
		rc = proc_run(&(struct proc_where){0}, argv, out, sizeof(out), CLIENT_MS);
		if (!report(d, false, rc == 0, began, "bpftool map dump pinned %s", path))
			return false;
		print_abridged(out, 40);
	}
	return true;
}

int demo_checks(struct demo *d)
{
	bool go_on = check_get(d, "over IPv4", "http://" DEMO_V4 ":8080/") &&
		     check_get(d, "over IPv6", "http://[" DEMO_V6 "]:8080/") &&
		     check_echo(d, "1 B", 1) && check_echo(d, "100 KB", 100 << 10) &&
		     check_echo(d, "8 MB", 8 << 20) && check_score(d) &&
		     check_datagrams(d, DEMO_V4, 1000) && check_datagrams(d, DEMO_V6, 1000) &&
		     check_ping(d, DEMO_V4) && check_ping(d, DEMO_V6) && check_kernel_service(d) &&
		     check_wrk(d) && show_maps(d);

	return go_on ? 0 : -1;
}
