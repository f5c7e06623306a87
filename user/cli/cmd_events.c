/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/strbuf.h"
#include "base/units.h"
#include "cli/cli.h"

struct event_view {
	bool json;
	uint64_t count, shown;
};

static void print_time(const json_t *o, const char *key, const char *name)
{
	double ns = cli_number(o, key);

	if (ns > 0)
		printf(" %s %s", name, term_time(ns));
}

/* The client chose the path: no control character reaches the terminal. */
static void print_safe(const char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < 0x20 || *text == 0x7f)
			printf("\\x%02X", (unsigned char)*text);
		else
			putchar(*text);
	}
}

/* "12:00:00.123456 503 GET /path -> pool/backend 1.2ms (queue 3us backend 1.1ms) backend_lost" */
static void print_event(const json_t *o)
{
	const char *time = cli_text(o, "time"), *pool = cli_text(o, "pool");
	const char *backend = cli_text(o, "backend"), *outcome = cli_text(o, "outcome");
	bool times = json_object_get(o, "total_ns") != NULL;

	printf("%.15s %3.0f", strlen(time) > 26 ? time + 11 : time, cli_number(o, "status"));
	if (json_object_get(o, "grpc_status"))
		printf(" grpc=%.0f", cli_number(o, "grpc_status"));
	printf(" %s ", cli_text(o, "method"));
	print_safe(cli_text(o, "path"));
	if (*pool)
		printf(" -> %s%s%s", pool, *backend ? "/" : "", backend);
	if (times) {
		printf(" %s (", term_time(cli_number(o, "total_ns")));
		printf("queue %s", term_time(cli_number(o, "queue_ns")));
		print_time(o, "backend_ns", "backend");
		print_time(o, "reply_ns", "reply");
		putchar(')');
	}
	if (cli_number(o, "retries") > 0)
		printf(" retries=%.0f", cli_number(o, "retries"));
	printf(" %s\n", outcome);
}

static bool show_line(void *arg, const char *line)
{
	struct event_view *v = arg;
	json_t *o = *line ? json_loads(line, 0, NULL) : NULL;

	if (!o)
		return true;
	if (json_object_get(o, "missed")) {
		fprintf(stderr, "sluice events: missed %.0f requests: this reader is too slow\n",
			cli_number(o, "missed"));
	} else {
		if (v->json)
			puts(line);
		else
			print_event(o);
		v->shown++;
	}
	json_decref(o);
	return (fflush(stdout) == 0 && !v->count) || v->shown < v->count;
}

static bool add_filter(struct sl_strbuf *b, const char *key, const char *value)
{
	if (value) {
		sl_strbuf_printf(b, "%c%s=", strchr(b->ptr, '?') ? '&' : '?', key);
		cli_add_query(b, value, strlen(value));
	}
	return !b->err;
}

int cli_events(int argc, char **argv)
{
	struct event_view v = {0};
	struct sl_err err = SL_ERR(600);
	struct cli_options o;
	struct cli_target t;
	struct sl_strbuf b;
	char path[1000];

	if (!cli_take_only_options(argc, argv, "cajneptsl", &o))
		return CLI_USAGE;
	if (o.count && (sl_parse_u64(sl_span_cstr(o.count), &v.count) || !v.count))
		return cli_usage("events", "found --count %.64s; allowed: a number from 1",
				 o.count);
	v.json = o.json;
	sl_strbuf_fixed(&b, path, sizeof(path));
	sl_strbuf_str(&b, "/requests");
	if (!add_filter(&b, "pool", o.pool) || !add_filter(&b, "route", o.route) ||
	    !add_filter(&b, "backend", o.backend) || !add_filter(&b, "status", o.status) ||
	    !add_filter(&b, "slow", o.slow))
		return cli_usage("events", "found too much at once");
	if (cli_find_admin(&o, &t, &err) != 0)
		return cli_error("events", "%s", err.text);
	term_catch_signals();
	if (cli_admin_stream(&t, path, show_line, &v, &err) != 0 && !term_stopped)
		return cli_error("events", "%s", err.text);
	return CLI_OK;
}
