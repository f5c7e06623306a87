/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/cli.h"
#include "tools/load/load.h"

enum { BODY_MAX = 64 << 20 };

static const struct option long_options[] = {
	{"connections", required_argument, NULL, 'n'},
	{"depth", required_argument, NULL, 'd'},
	{"rate", required_argument, NULL, 'r'},
	{"poisson", no_argument, NULL, 'P'},
	{"time", required_argument, NULL, 't'},
	{"requests", required_argument, NULL, 'N'},
	{"warmup", required_argument, NULL, 'w'},
	{"body", required_argument, NULL, 'b'},
	{"size", required_argument, NULL, 's'},
	{"echo", no_argument, NULL, 'e'},
	{"expect", required_argument, NULL, 'x'},
	{"per-connection", required_argument, NULL, 'p'},
	{"datagram", required_argument, NULL, 'u'},
	{"timeout", required_argument, NULL, 'T'},
	{"xdp", required_argument, NULL, 'i'},
	{"queue", required_argument, NULL, 'q'},
	{"cpu", required_argument, NULL, 'c'},
	{"json", no_argument, NULL, 'j'},
	{"quiet", no_argument, NULL, 'Q'},
	{NULL, 0, NULL, 0},
};

static int check_option(bool ok, const char *option, const char *allowed)
{
	return ok ? CLI_OK
		  : cli_usage("load", "--%s: found %s; allowed: %s", option, optarg, allowed);
}

static bool parse_number(const char *s, double low, double high, double *out)
{
	char *end;

	errno = 0;
	*out = strtod(s, &end);
	return !errno && end != s && !*end && *out >= low && *out <= high;
}

static bool parse_count(const char *s, uint32_t high, uint32_t *out)
{
	double v;

	if (!parse_number(s, 0, high, &v) || v != (double)(uint32_t)v)
		return false;
	*out = (uint32_t)v;
	return true;
}

static bool set_body(struct sl_span *out, const char *name)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	uint8_t *buf = NULL;
	size_t len = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || st.st_size > BODY_MAX) {
		cli_error("load", "%s: %s", name, fd < 0 ? strerror(errno) : "larger than 64 MiB");
	} else {
		buf = malloc((size_t)st.st_size + 1);
		len = (size_t)st.st_size;
		if (!buf || read(fd, buf, len) != st.st_size) {
			cli_error("load", "%s: cannot be read", name);
			free(buf);
			buf = NULL;
		}
	}
	if (fd >= 0)
		close(fd);
	*out = sl_span_of(buf, len);
	return buf != NULL;
}

static bool make_body(struct sl_span *out, uint32_t len)
{
	uint8_t *buf = malloc((size_t)len + 1);

	for (uint32_t i = 0; buf && i < len; i++)
		buf[i] = (uint8_t)(i * 31 + i / 253);
	*out = sl_span_of(buf, len);
	return buf != NULL;
}

static const char *take_scheme(const char *url, bool *tls)
{
	*tls = strncmp(url, "https://", 8) == 0;
	if (*tls)
		return url + 8;
	return strncmp(url, "http://", 7) == 0 ? url + 7 : NULL;
}

/* Parses http[s]://ADDRESS:PORT/PATH. */
static bool parse_url(const char *url, struct sl_load_options *o)
{
	const char *p = take_scheme(url, &o->tls), *end;
	unsigned port = o->tls ? 443 : 80;
	bool v6;
	size_t len;

	if (!p)
		return false;
	v6 = *p == '[';
	end = v6 ? strchr(p, ']') : p + strcspn(p, ":/");
	len = end ? (size_t)(end - p) - v6 : 0;
	if (!end || !len || len >= sizeof(o->host))
		return false;
	memcpy(o->host, p + v6, len);
	o->host[len] = 0;
	p = end + v6;
	if (*p == ':' && (sscanf(p, ":%5u", &port) != 1 || !port || port > 65535))
		return false;
	p += strcspn(p, "/");
	snprintf(o->path, sizeof(o->path), "%s", *p ? p : "/");
	if (!sl_addr_parse(&o->to, o->host) || o->to.family != (v6 ? 6 : 4))
		return false;
	o->to.port_be = htons((uint16_t)port);
	return true;
}

static bool parse_duration(const char *s, uint64_t *out)
{
	return sl_parse_duration(sl_span_cstr(s), out) == 0;
}

static int take_option(int opt, struct sl_load_options *o)
{
	uint32_t n = 0;
	double v = 0;
	bool ok;

	switch (opt) {
	case 'n':
		ok = parse_count(optarg, 1000000, &o->connections) && o->connections;
		return check_option(ok, "connections", "1 to 1000000");
	case 'd':
		ok = parse_count(optarg, 1024, &o->depth) && o->depth;
		return check_option(ok, "depth", "1 to 1024");
	case 'r':
		ok = parse_number(optarg, 1e-3, 1e8, &o->rate);
		if (ok && o->arrivals == SL_LOAD_CLOSED)
			o->arrivals = SL_LOAD_CONSTANT;
		return check_option(ok, "rate", "requests per second, 0.001 to 1e8");
	case 'P': o->arrivals = SL_LOAD_POISSON; return 0;
	case 't':
		ok = parse_duration(optarg, &o->duration_ns);
		return check_option(ok, "time", "a duration such as 10s");
	case 'w':
		ok = parse_duration(optarg, &o->warmup_ns);
		return check_option(ok, "warmup", "a duration such as 500ms");
	case 'T':
		ok = parse_duration(optarg, &o->timeout_ns);
		return check_option(ok, "timeout", "a duration such as 1s");
	case 'b': return set_body(&o->body, optarg) ? 0 : CLI_FAILED;
	case 'x': return set_body(&o->expect, optarg) ? 0 : CLI_FAILED;
	case 's':
		ok = parse_count(optarg, BODY_MAX, &n) && make_body(&o->body, n);
		return check_option(ok, "size", "bytes, 0 to 67108864");
	case 'e': o->echo = true; return 0;
	case 'N':
	case 'p':
		ok = parse_number(optarg, 1, 1e15, &v);
		*(opt == 'N' ? &o->requests : &o->per_connection) = ok ? (uint64_t)v : 0;
		return check_option(ok, opt == 'N' ? "requests" : "per-connection",
				    "requests, at least 1");
	case 'u':
		o->datagram = true;
		ok = parse_count(optarg, 65535, &n) && n;
		o->service = (uint16_t)n;
		return check_option(ok, "datagram", "the datagram_service of a route, 1 to 65535");
	case 'i': o->interface = optarg; return 0;
	case 'q':
		ok = parse_count(optarg, 63, &n);
		o->queue = (uint16_t)n;
		return check_option(ok, "queue", "0 to 63");
	case 'c':
		ok = parse_count(optarg, 1023, &n);
		o->cpu = (int)n;
		return check_option(ok, "cpu", "0 to 1023");
	case 'j': o->json = true; return 0;
	case 'Q': o->quiet = true; return 0;
	default: return CLI_USAGE;
	}
}

int cli_load(int argc, char **argv)
{
	struct sl_load_options o = {.connections = 1,
				    .depth = 1,
				    .duration_ns = 10 * SL_NS_PER_SEC,
				    .warmup_ns = 500 * SL_NS_PER_MS,
				    .timeout_ns = SL_NS_PER_SEC,
				    .cpu = -1,
				    .quiet = !isatty(STDERR_FILENO)};
	struct sl_load_result r;
	struct sl_err err = SL_ERR(256);
	int opt, rc = 0;

	optind = 1;
	while (!rc && (opt = getopt_long(argc, argv, "n:d:r:Pt:N:w:b:s:ex:p:u:T:i:q:c:jQ",
					 long_options, NULL)) != -1)
		rc = take_option(opt, &o);
	if (rc)
		return rc;
	if (optind != argc - 1 || !parse_url(argv[optind], &o))
		return cli_usage(
			"load",
			"found %s; allowed: one http[s]://ADDRESS:PORT/PATH with a numeric address",
			optind < argc ? argv[optind] : "no target");
	if (o.arrivals == SL_LOAD_POISSON && o.rate <= 0)
		return cli_usage("load", "found --poisson without --rate; allowed: both");
	if (o.datagram &&
	    (o.tls || o.interface || o.depth > 1 || o.per_connection || o.body.len > 1400))
		return cli_usage("load",
				 "--datagram goes with http://, kernel sockets, depth 1, no "
				 "--per-connection, and bodies of at most 1400 bytes");
	o.method = o.body.ptr ? "POST" : "GET";
	if (o.echo && !o.body.ptr)
		return cli_usage("load",
				 "found --echo without a body; allowed: with --body or --size");
	if (sl_load_run(&o, &r, &err))
		return cli_error("load", "%s", err.text);
	sl_load_report(&o, &r, stdout);
	sl_hist_fine_fini(&r.latency);
	free((void *)o.body.ptr);
	free((void *)o.expect.ptr);
	return r.requests ? CLI_OK : CLI_FAILED;
}
