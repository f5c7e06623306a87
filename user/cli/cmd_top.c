/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/units.h"
#include "cli/cli.h"

struct top_view {
	const char *command;
	struct cli_options o;
	struct cli_target t;
	uint64_t interval_ns, count;
	bool tty;
};

typedef void watch_fn(const struct top_view *w, const json_t *last, const json_t *now);

static int watch_status(int argc, char **argv, watch_fn *show)
{
	struct top_view w = {.command = argv[0], .interval_ns = SL_NS_PER_SEC, .tty = isatty(1)};
	json_t *last, *now;
	struct sl_err err = SL_ERR(600);

	if (!cli_take_only_options(argc, argv, "cajin", &w.o))
		return CLI_USAGE;
	if (w.o.interval && (sl_parse_duration(sl_span_cstr(w.o.interval), &w.interval_ns) ||
			     w.interval_ns < 10 * SL_NS_PER_MS))
		return cli_usage(w.command, "found --interval %.64s; allowed: a duration from 10ms",
				 w.o.interval);
	if (w.o.count && (sl_parse_u64(sl_span_cstr(w.o.count), &w.count) || !w.count))
		return cli_usage(w.command, "found --count %.64s; allowed: a number from 1",
				 w.o.count);
	if (cli_find_admin(&w.o, &w.t, &err) != 0)
		return cli_error(w.command, "%s", err.text);
	term_catch_signals();
	last = cli_admin_stats(&w.t, &err);
	if (!last)
		return cli_error(w.command, "%s", err.text);
	for (uint64_t n = 0; (!w.count || n < w.count) && term_sleep(w.interval_ns); n++) {
		now = cli_admin_stats(&w.t, &err);
		if (!now)
			break;
		show(&w, last, now);
		fflush(stdout);
		json_decref(last);
		last = now;
		err.text[0] = 0;
	}
	json_decref(last);
	return err.text[0] && !term_stopped ? cli_error(w.command, "%s", err.text) : CLI_OK;
}

static double per_second(const json_t *last, const json_t *now, double before, double after)
{
	double dt = (cli_number(now, "time_ns") - cli_number(last, "time_ns")) / 1e9;

	return dt > 0 && after > before ? (after - before) / dt : 0;
}

static double worker_rate(const json_t *last, const json_t *now, const char *path)
{
	return per_second(last, now, cli_sum_workers(last, path), cli_sum_workers(now, path));
}

static double live_sum(const json_t *service, const char *key)
{
	json_t *live = json_object_get(service, "live"), *l;
	double sum = 0;
	size_t i;

	json_array_foreach(live, i, l) sum += cli_number(l, key);
	return sum;
}

/* Returns the value of the worker with the most requests; estimates of others may be stale. */
static double live_busiest(const json_t *service, const char *key)
{
	json_t *live = json_object_get(service, "live"), *l, *best = NULL;
	size_t i;

	json_array_foreach(live, i, l)
	{
		if (!best || cli_number(l, "requests") > cli_number(best, "requests"))
			best = l;
	}
	return cli_number(best, key);
}

struct top_row {
	const char *pool;
	double arrivals, batch, alpha, beta, cap, low, hold, queue, flight, shed, bound;
	double p50, p99;
	const json_t *stages, *override;
};

static struct top_row service_row(const json_t *last, const json_t *now, size_t i)
{
	const json_t *a = json_array_get(json_object_get(last, "pools"), i);
	const json_t *b = json_array_get(json_object_get(now, "pools"), i);
	double batches = live_sum(b, "batches") - live_sum(a, "batches");
	double batched = live_sum(b, "requests") - live_sum(a, "requests");
	const json_t *stages = json_object_get(b, "stages");
	const json_t *total = json_object_get(json_object_get(stages, "total"), "recent");

	return (struct top_row){
		.pool = cli_text(b, "pool"),
		.arrivals = live_sum(b, "arrival_mhz") / 1000,
		.batch = batches > 0 ? batched / batches : 0,
		.alpha = live_busiest(b, "alpha_ns"),
		.beta = live_busiest(b, "beta_ns"),
		.cap = live_busiest(b, "batch_cap"),
		.low = live_busiest(b, "batch_low"),
		.hold = live_busiest(b, "hold_ns"),
		.bound = live_busiest(b, "bound_ns"),
		.queue = live_sum(b, "queued"),
		.flight = live_sum(b, "in_flight"),
		.shed = per_second(last, now, live_sum(a, "shed"), live_sum(b, "shed")),
		.p50 = cli_number(total, "p50_ns"),
		.p99 = cli_number(total, "p99_ns"),
		.stages = stages,
		.override = json_object_get(b, "override"),
	};
}

static void top_json(const json_t *last, const json_t *now)
{
	json_t *list = json_array(), *o;
	size_t cnt = json_array_size(json_object_get(now, "pools"));

	for (size_t i = 0; i < cnt; i++) {
		struct top_row r = service_row(last, now, i);

		json_array_append_new(
			list,
			json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:O}",
				  "pool", r.pool, "arrivals_per_s", r.arrivals, "mean_batch",
				  r.batch, "alpha_ns", r.alpha, "beta_ns", r.beta, "batch_cap",
				  r.cap, "batch_low", r.low, "hold_ns", r.hold, "bound_ns", r.bound,
				  "queued", r.queue, "in_flight", r.flight, "shed_per_s", r.shed,
				  "p50_ns", r.p50, "p99_ns", r.p99, "stages", r.stages));
	}
	o = json_pack("{s:f,s:f,s:f,s:o}", "requests_per_s",
		      worker_rate(last, now, "core.requests"), "connections",
		      cli_sum_workers(now, "tcp.conns") + cli_sum_workers(now, "sock.conns"),
		      "in_progress", cli_sum_workers(now, "exchanges_used"), "pools", list);
	json_object_set(o, "services", list);
	json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

static void top_stages(const struct top_row *r)
{
	const char *name;
	json_t *stage;

	printf("  %-14s", r->pool);
	json_object_foreach((json_t *)(uintptr_t)r->stages, name, stage)
	{
		const json_t *recent = json_object_get(stage, "recent");

		printf(" %s %s/%s", name, term_time(cli_number(recent, "p50_ns")),
		       term_time(cli_number(recent, "p99_ns")));
	}
	putchar('\n');
}

static void show_top(const struct top_view *w, const json_t *last, const json_t *now)
{
	size_t cnt = json_array_size(json_object_get(now, "pools"));

	if (w->o.json) {
		top_json(last, now);
		return;
	}
	if (w->tty)
		fputs("\033[H\033[2J", stdout);
	printf("sluice  %s requests/s  %s connections  %s in progress  %s rx packets/s  %s "
	       "retransmits/s\n",
	       term_count(worker_rate(last, now, "core.requests")),
	       term_count(cli_sum_workers(now, "tcp.conns") + cli_sum_workers(now, "sock.conns")),
	       term_count(cli_sum_workers(now, "exchanges_used")),
	       term_count(worker_rate(last, now, "tcp.segs_in")),
	       term_count(worker_rate(last, now, "tcp.retransmits")));
	printf("\n%-16s %9s %7s %9s %9s %6s %6s %8s %8s %6s %7s %8s %8s %8s\n", "POOL", "ARRIVE/s",
	       "BATCH", "ALPHA", "BETA", "CAP", "LOW", "HOLD", "BOUND", "QUEUE", "FLIGHT", "SHED/s",
	       "P50", "P99");
	for (size_t i = 0; i < cnt; i++) {
		struct top_row r = service_row(last, now, i);

		printf("%-16s %9s %7s %9s %9s %6s %6s %8s %8s %6s %7s %8s %8s %8s\n", r.pool,
		       term_count(r.arrivals), term_count(r.batch), term_time(r.alpha),
		       term_time(r.beta), term_count(r.cap), term_count(r.low), term_time(r.hold),
		       term_time(r.bound), term_count(r.queue), term_count(r.flight),
		       term_count(r.shed), term_time(r.p50), term_time(r.p99));
	}
	puts("\nstages, p50/p99 of the last seconds:");
	for (size_t i = 0; i < cnt; i++) {
		struct top_row r = service_row(last, now, i);

		top_stages(&r);
		if (json_object_size(r.override)) {
			char *text = json_dumps(r.override, 0);

			printf("  %-14s overrides %s\n", "", text ? text : "");
			free(text);
		}
	}
	if (!w->tty)
		putchar('\n');
}

int cli_top(int argc, char **argv)
{
	return watch_status(argc, argv, show_top);
}

static void add_growth(json_t *out, const char *group, const json_t *last, const json_t *now)
{
	const char *key;
	json_t *value;
	char name[96];

	json_object_foreach((json_t *)(uintptr_t)now, key, value)
	{
		double d = json_number_value(value) - cli_number(last, key);

		if (d <= 0)
			continue;
		snprintf(name, sizeof(name), "%s %s", group, key);
		d += cli_number(out, name);
		json_object_set_new(out, name, json_integer((json_int_t)d));
	}
}

static void show_trace(const struct top_view *w, const json_t *last, const json_t *now)
{
	static const char *const groups[][2] = {
		{"outcome", "outcomes"}, {"malformed", "front_errors"}, {"protocol", "protocols"}};
	const json_t *was = json_object_get(last, "interfaces"), *a, *b;
	json_t *out = json_object(), *value;
	const char *name;
	size_t i;

	json_array_foreach(json_object_get(now, "interfaces"), i, value)
	{
		a = json_array_get(was, i);
		add_growth(out, "verdict", json_object_get(a, "verdicts"),
			   json_object_get(value, "verdicts"));
	}
	was = json_object_get(last, "workers");
	json_array_foreach(json_object_get(now, "workers"), i, value)
	{
		a = json_array_get(was, i);
		add_growth(out, "drop", json_object_get(a, "drops"),
			   json_object_get(value, "drops"));
		add_growth(out, "tcp", json_object_get(a, "tcp"), json_object_get(value, "tcp"));
		a = json_object_get(a, "core");
		b = json_object_get(value, "core");
		for (size_t g = 0; g < SL_ARRAY_LEN(groups); g++)
			add_growth(out, groups[g][0], json_object_get(a, groups[g][1]),
				   json_object_get(b, groups[g][1]));
	}
	if (w->o.json) {
		json_object_set_new(out, "time_ns",
				    json_integer((json_int_t)cli_number(now, "time_ns")));
		json_dumpf(out, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		json_object_foreach(out, name, value)
			printf("%10.3f  %-28s +%lld\n", cli_number(now, "uptime_ns") / 1e9, name,
			       (long long)json_integer_value(value));
	}
	json_decref(out);
}

int cli_trace(int argc, char **argv)
{
	return watch_status(argc, argv, show_trace);
}
