/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/strbuf.h"
#include "cli/cli.h"

static void print_nonzero(const char *title, const json_t *const *objects, size_t cnt)
{
	const char *key;
	json_t *value;
	bool any = false;

	json_object_foreach((json_t *)(uintptr_t)objects[0], key, value)
	{
		double sum = 0;

		for (size_t i = 0; i < cnt; i++)
			sum += cli_number(objects[i], key);
		if (sum == 0)
			continue;
		printf("%s%s %s", any ? ", " : title, key, term_count(sum));
		any = true;
	}
	if (any)
		putchar('\n');
}

static void print_nonzero_of_workers(const char *title, const json_t *stats, const char *group,
				     const char *name)
{
	const json_t *workers = json_object_get(stats, "workers"), *objects[64];
	size_t cnt = json_array_size(workers);

	if (!cnt || cnt > 64)
		return;
	for (size_t w = 0; w < cnt; w++) {
		objects[w] = json_array_get(workers, w);
		if (group)
			objects[w] = json_object_get(objects[w], group);
		objects[w] = json_object_get(objects[w], name);
	}
	print_nonzero(title, objects, cnt);
}

static void print_interfaces(const json_t *stats)
{
	const json_t *workers = json_object_get(stats, "workers"), *verdicts;
	json_t *i, *w, *p;
	size_t n, k, m;

	json_array_foreach(json_object_get(stats, "interfaces"), n, i)
	{
		printf("interface %s: %s\n", cli_text(i, "name"), cli_text(i, "attach"));
		if (*cli_text(i, "server_replies"))
			printf("  replies of servers: %s\n", cli_text(i, "server_replies"));
		verdicts = json_object_get(i, "verdicts");
		print_nonzero("  packets: ", &verdicts, 1);
		if (cli_number(i, "offenders") > 0)
			printf("  offenders: %.0f addresses are dropped for a time\n",
			       cli_number(i, "offenders"));
		json_array_foreach(workers, k, w)
		{
			json_array_foreach(json_object_get(w, "ports"), m, p)
			{
				if (strcmp(cli_text(p, "interface"), cli_text(i, "name")) != 0)
					continue;
				printf("  queue %.0f: %s, worker %zu, received %s, sent %s\n",
				       cli_number(p, "queue"), cli_text(p, "mode"), k,
				       term_count(cli_number(p, "rx_packets")),
				       term_count(cli_number(p, "tx_packets")));
			}
		}
	}
}

static const char *health_of(const json_t *b)
{
	if (cli_number(b, "drained") > 0)
		return " (drained)";
	if (cli_number(b, "ejected") > 0)
		return " (ejected for its failures)";
	if (cli_number(b, "silent") > 0)
		return " (silent)";
	if (cli_number(b, "trial") > 0)
		return " (tried again after failures)";
	if (json_is_true(json_object_get(b, "other_zone")))
		return " (in another zone)";
	return json_is_true(json_object_get(b, "backup")) ? " (backup)" : "";
}

static void print_codes(const json_t *o)
{
	json_t *codes = json_object_get(o, "codes"), *calls = json_object_get(o, "grpc_codes"), *v;
	const char *key;

	json_object_foreach(codes, key, v) printf(" %s:%s", key, term_count(json_number_value(v)));
	json_object_foreach(calls, key, v)
		printf(" grpc-%s:%s", key, term_count(json_number_value(v)));
	putchar('\n');
}

static void print_backends(const json_t *stats)
{
	json_t *b;
	size_t n;

	printf("%-24s %-10s %8s %8s %9s %9s %6s  %s\n", "BACKEND", "STATE", "REQ/s", "5XX/s", "P50",
	       "P99", "OPEN", "STATUSES SINCE START");
	json_array_foreach(json_object_get(stats, "backends"), n, b)
	{
		const json_t *recent = json_object_get(b, "recent");
		char name[120];

		snprintf(name, sizeof(name), "%s/%s", cli_text(b, "pool"), cli_text(b, "name"));
		printf("%-24s %-10s %8s %8s %9s %9s %6s ", name,
		       json_is_true(json_object_get(b, "on_fallback")) ? "fallback"
								       : cli_text(b, "state"),
		       term_count(cli_number(recent, "rate")),
		       term_count(cli_number(recent, "errors")),
		       term_time(cli_number(recent, "p50_ns")),
		       term_time(cli_number(recent, "p99_ns")),
		       term_count(cli_number(b, "outstanding")));
		print_codes(b);
	}
}

static void print_transports(const json_t *stats)
{
	json_t *w, *b;
	size_t k, n;

	json_array_foreach(json_object_get(stats, "workers"), k, w)
	{
		json_array_foreach(json_object_get(w, "backends"), n, b) printf(
			"backend %s/%s, worker %zu: %s%s, weight %.0f, %s%s\n", cli_text(b, "pool"),
			cli_text(b, "name"), k, cli_text(b, "state"), health_of(b),
			cli_number(b, "weight"), cli_text(b, "info"),
			json_is_true(json_object_get(b, "on_fallback")) ? " (fallback)" : "");
	}
}

static void print_routes(const json_t *stats)
{
	json_t *r;
	size_t n;

	printf("%-24s %-16s %s\n", "ROUTE", "POOL", "STATUSES SINCE START");
	json_array_foreach(json_object_get(stats, "routes"), n, r)
	{
		const char *route = cli_text(r, "route"), *pool = cli_text(r, "pool");

		if (!*route && !json_object_size(json_object_get(r, "codes")))
			continue;
		printf("%-24s %-16s", *route ? route : "none", *pool ? pool : "-");
		print_codes(r);
	}
}

static void print_servers(const json_t *servers, const char *kind, double number)
{
	json_t *s;
	size_t k;

	json_array_foreach(servers, k, s) printf(
		"server %s, %s %.0f: %s%s%s; in flight %s of %s at a time, waiting %s, "
		"connections %s\n",
		cli_text(s, "name"), kind, number,
		cli_number(s, "up") > 0 ? "up" : "cannot be reached",
		*cli_text(s, "why") ? ": " : "", cli_text(s, "why"),
		term_count(cli_number(s, "in_flight")), term_count(cli_number(s, "concurrency")),
		term_count(cli_number(s, "waiting")), term_count(cli_number(s, "connections")));
}

static void print_ways(const json_t *stats)
{
	json_t *b;
	size_t n;

	json_array_foreach(json_object_get(stats, "backends"), n, b)
	{
		if (*cli_text(b, "way_why"))
			printf("server %s/%s: %s: %s\n", cli_text(b, "pool"), cli_text(b, "name"),
			       cli_text(b, "way"), cli_text(b, "way_why"));
	}
}

static void print_agents(const json_t *stats)
{
	json_t *a;
	size_t n;

	json_array_foreach(json_object_get(stats, "agents"), n, a)
	{
		double number = cli_number(a, "number");

		printf("agent %.0f: ", number);
		if (cli_number(a, "up") > 0)
			printf("process %.0f", cli_number(a, "pid"));
		else
			printf("starts again after %.0f ms", cli_number(a, "backoff_ms"));
		printf(", %.0f restarts\n", cli_number(a, "restarts"));
		print_servers(json_object_get(a, "servers"), "agent", number);
	}
	json_array_foreach(json_object_get(stats, "stack"), n, a) print_servers(
		json_object_get(a, "servers"), "own TCP of worker", cli_number(a, "worker"));
	print_ways(stats);
}

static void print_subsets(const json_t *service)
{
	json_t *w;
	size_t k;

	json_array_foreach(json_object_get(service, "subsets"), k, w)
	{
		printf("%s worker %zu %.0f", k ? "," : "  backends connected:", k,
		       cli_number(w, "connected"));
		if (cli_number(w, "borrowed") > 0)
			printf(" (of its own %.0f, and %.0f others)", cli_number(w, "subset"),
			       cli_number(w, "borrowed"));
		else
			printf(" of %.0f", cli_number(w, "subset"));
	}
	putchar('\n');
}

static void print_pools(const json_t *stats)
{
	json_t *p;
	size_t n;

	printf("%-24s %8s %8s %8s %9s %9s %6s  %s\n", "POOL", "REQ/s", "4XX/s", "5XX/s", "P50",
	       "P99", "QUEUE", "STATUSES SINCE START");
	json_array_foreach(json_object_get(stats, "pools"), n, p)
	{
		const json_t *recent = json_object_get(p, "recent");

		printf("%-24s %8s %8s %8s %9s %9s %6s ", cli_text(p, "pool"),
		       term_count(cli_number(recent, "rate")),
		       term_count(cli_number(recent, "4xx")), term_count(cli_number(recent, "5xx")),
		       term_time(cli_number(recent, "p50_ns")),
		       term_time(cli_number(recent, "p99_ns")),
		       term_count(cli_number(recent, "queued")));
		print_codes(p);
		print_subsets(p);
	}
}

static void print_certificates(const json_t *stats)
{
	json_t *c;
	size_t n;

	json_array_foreach(json_object_get(stats, "certificates"), n, c)
	{
		time_t ends = (time_t)cli_number(c, "ends");
		char day[32];
		struct tm tm;

		gmtime_r(&ends, &tm);
		strftime(day, sizeof(day), "%Y-%m-%d", &tm);
		printf("listener %s: certificate %s %s on %s\n", cli_text(c, "listener"),
		       cli_text(c, "file"), ends < time(NULL) ? "ended" : "ends", day);
	}
}

static void print_status(const json_t *stats)
{
	bool ready = json_is_true(json_object_get(stats, "ready"));

	printf("%s%s, up %s, %s, workers %zu\n",
	       ready ? "ready" : "not ready: ", ready ? "" : cli_text(stats, "why_not_ready"),
	       term_time(cli_number(stats, "uptime_ns")), cli_text(stats, "config"),
	       json_array_size(json_object_get(stats, "workers")));
	print_pools(stats);
	print_backends(stats);
	print_routes(stats);
	print_transports(stats);
	print_agents(stats);
	print_interfaces(stats);
	print_certificates(stats);
	printf("requests %s, in progress %s, connections %s (half open %s; idle ones take %.0f "
	       "bytes each)\n",
	       term_count(cli_sum_workers(stats, "core.requests")),
	       term_count(cli_sum_workers(stats, "exchanges_used")),
	       term_count(cli_sum_workers(stats, "tcp.conns") +
			  cli_sum_workers(stats, "sock.conns")),
	       term_count(cli_sum_workers(stats, "tcp.half_open")),
	       cli_number(json_array_get(json_object_get(stats, "workers"), 0), "conn_bytes"));
	printf("frames free %s of %s\n", term_count(cli_sum_workers(stats, "frames_free")),
	       term_count(cli_sum_workers(stats, "frames")));
	print_nonzero_of_workers("answered: ", stats, "core", "outcomes");
	print_nonzero_of_workers("malformed: ", stats, "core", "front_errors");
	print_nonzero_of_workers("TLS refused or broken: ", stats, "tls", "ends");
	print_nonzero_of_workers("dropped: ", stats, NULL, "drops");
}

int cli_status(int argc, char **argv)
{
	struct cli_options o;
	struct cli_target t;
	json_t *stats;
	struct sl_err err = SL_ERR(600);
	int rc;

	if (!cli_take_only_options(argc, argv, "caj", &o))
		return CLI_USAGE;
	stats = cli_find_admin(&o, &t, &err) == 0 ? cli_admin_stats(&t, &err) : NULL;
	if (!stats)
		return cli_error("status", "%s", err.text);
	if (o.json) {
		json_dumpf(stats, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		print_status(stats);
	}
	rc = json_is_true(json_object_get(stats, "ready")) ? CLI_OK : CLI_FAILED;
	json_decref(stats);
	return rc;
}

void cli_add_query(struct sl_strbuf *b, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (isalnum(c) || strchr("-._~", c))
			sl_strbuf_char(b, (char)c);
		else
			sl_strbuf_printf(b, "%%%02X", c);
	}
}

static int post_command(const struct cli_options *o, const char *command, const char *path,
			bool print)
{
	struct cli_target t;
	struct sl_err err = SL_ERR(600);
	char *body = NULL;
	int status = -1;

	if (cli_find_admin(o, &t, &err) == 0)
		status = cli_admin_ask(&t, "POST", path, &body, &err);
	if (status < 0)
		return cli_error(command, "%s", err.text);
	body[strcspn(body, "\n")] = 0;
	if (status == 200 && print)
		puts(body);
	if (status != 200)
		cli_error(command, "%s", body);
	free(body);
	return status == 200 ? CLI_OK : CLI_FAILED;
}

int cli_set(int argc, char **argv)
{
	struct cli_options o;
	struct sl_strbuf b;
	const char *of;
	char path[700];

	argc = cli_take_options(argc, argv, "cajf", &o);
	if (argc < 0)
		return CLI_USAGE;
	if (!o.interface && argc < 2)
		return cli_usage("set",
				 "found no pool; allowed: POOL NAME=VALUE..., or --interface "
				 "NAME deny=PREFIX...");
	of = o.interface ? o.interface : argv[1];
	sl_strbuf_fixed(&b, path, sizeof(path));
	sl_strbuf_str(&b, o.interface ? "/edge?interface=" : "/set?pool=");
	cli_add_query(&b, of, strlen(of));
	for (int i = o.interface ? 1 : 2; i < argc; i++) {
		const char *eq = strchr(argv[i], '=');

		if (!eq)
			return cli_usage("set", "found \"%.64s\"; allowed: NAME=VALUE", argv[i]);
		sl_strbuf_char(&b, '&');
		cli_add_query(&b, argv[i], (size_t)(eq - argv[i]));
		sl_strbuf_char(&b, '=');
		cli_add_query(&b, eq + 1, strlen(eq + 1));
	}
	if (b.err)
		return cli_usage("set", "found too much at once");
	return post_command(&o, "set", path, true);
}

int cli_drain(int argc, char **argv)
{
	struct cli_options o;
	struct cli_target t;
	struct sl_err err = SL_ERR(600);
	char *body;
	int rc;

	if (!cli_take_only_options(argc, argv, "cajw", &o))
		return CLI_USAGE;
	rc = post_command(&o, "drain", "/drain", !o.wait && !o.json);
	if (rc == CLI_OK && !o.wait && o.json)
		puts("{\"draining\": true}");
	if (rc != CLI_OK || !o.wait || cli_find_admin(&o, &t, &err) != 0)
		return rc;
	term_catch_signals();
	while (cli_admin_ask(&t, "GET", "/livez", &body, &err) >= 0) {
		free(body);
		if (!term_sleep(50000000))
			return CLI_FAILED;
	}
	puts(o.json ? "{\"drained\": true}" : "drained");
	return CLI_OK;
}
