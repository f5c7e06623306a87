/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two gateways to one backend, one with classes and one with a FIFO, in turns of a fraction of a
 * second: the machine's mood changes more, and faster, than the difference is. Who begins changes
 * too, and the channels are made anew now and then, since where memory lies matters.
 */
#include <stdio.h>
#include "ends.h"

enum {
	BULK_DEPTH = 4, /* four times what the ring takes at once: it never runs dry */
	EVERY_NS = 200000,
	SETS = 4,
	TURNS = 12, /* of each, per set */
	TURNS_SLOW = 2,
	TURN_MS = 60,
	TURN_SLOW_MS = 1500,
	PAIRS = SETS * TURNS,
};

enum { FIFO, CLASSES, BOTH };

struct priorities {
	struct sl_hist_fine urgent[BOTH];
	double rate[BOTH][PAIRS], rate_ratio[PAIRS], cpu[BOTH][PAIRS], cpu_ratio[PAIRS];
	unsigned pairs;
};

/* One turn; bytes per second. *cpu: processor seconds of both ends, per byte. */
static double saturate(struct bench_gateway *g, pid_t backend, double *cpu)
{
	uint64_t start = sl_now_ns(), next = start, now, bytes = g->done[BENCH_BULK];
	uint64_t end = start + SL_NS_PER_MS * (bench_slow ? TURN_SLOW_MS : TURN_MS);
	uint64_t cpu_ns = bench_cpu_ns(0) + bench_cpu_ns(backend);

	while ((now = sl_now_ns()) < end || bench_out(g, BENCH_BULK)) {
		while (now < end && bench_out(g, BENCH_BULK) < BULK_DEPTH &&
		       bench_send(g, 0, BENCH_BULK, BENCH_BULK_LEN, 1))
			;
		if (now < end && now >= next && !bench_out(g, BENCH_URGENT)) {
			next = now + EVERY_NS;
			(void)bench_send(g, 0, BENCH_URGENT, 64, 1);
		}
		bench_turn(g);
	}
	bytes = (g->done[BENCH_BULK] - bytes) * BENCH_BULK_LEN;
	*cpu = (double)(bench_cpu_ns(0) + bench_cpu_ns(backend) - cpu_ns) / (double)bytes;
	bench_await(g);
	return (double)bytes * 1e9 / (double)(now - start);
}

static void run_pair(struct priorities *p, struct bench_gateway *g, pid_t backend)
{
	unsigned n = p->pairs++, first = n % 2;

	for (unsigned i = 0; i < BOTH; i++) {
		unsigned who = (first + i) % BOTH;

		p->rate[who][n] = saturate(&g[who], backend, &p->cpu[who][n]);
	}
	p->rate_ratio[n] = p->rate[CLASSES][n] / p->rate[FIFO][n];
	p->cpu_ratio[n] = p->cpu[CLASSES][n] / p->cpu[FIFO][n];
}

static void run_set(struct priorities *p, unsigned set)
{
	struct bench_gateway g[BOTH] = {[FIFO] = {.one_class = true}};
	pid_t pid = bench_backend_start(true);

	for (unsigned i = 0; i < BOTH; i++) {
		unsigned who = (set + i) % BOTH;
		double warm;

		bench_open(&g[who], 1);
		(void)saturate(&g[who], pid, &warm); /* touches the rings for the first time */
		g[who].urgent = &p->urgent[who];
	}
	for (unsigned i = 0; i < (bench_slow ? TURNS_SLOW : TURNS); i++)
		run_pair(p, g, pid);
	for (unsigned i = 0; i < BOTH; i++)
		bench_close(&g[i]);
	bench_backend_stop(pid);
}

static void report(struct priorities *p)
{
	static const char *const name[BOTH] = {"fifo", "classes"};
	double p99[BOTH];
	char row[64];

	for (unsigned who = 0; who < BOTH; who++) {
		p99[who] = (double)sl_hist_fine_quantile(&p->urgent[who], 0.99);
		snprintf(row, sizeof(row), "urgent_p50_%s", name[who]);
		bench_quantile(row, &p->urgent[who], 0.5);
		snprintf(row, sizeof(row), "urgent_p99_%s", name[who]);
		bench_row(row, p99[who] / 1e3, "us");
		snprintf(row, sizeof(row), "bulk_1MiB_%s", name[who]);
		bench_row(row, bench_median(p->rate[who], p->pairs) / 1e6, "MB/s");
		snprintf(row, sizeof(row), "bulk_1MiB_%s_cpu", name[who]);
		bench_row(row, bench_median(p->cpu[who], p->pairs), "s/GB, both ends");
	}
	bench_row("urgent_p99_fifo_over_classes", p99[FIFO] / p99[CLASSES], "times");
	bench_row("bulk_classes_over_fifo", bench_median(p->rate_ratio, p->pairs), "times");
	bench_row("cpu_classes_over_fifo", bench_median(p->cpu_ratio, p->pairs), "times");
}

void bench_priority(void)
{
	static struct priorities p;

	for (unsigned who = 0; who < BOTH; who++)
		sl_hist_fine_init(&p.urgent[who], SL_HIST_FINE_SUB_BITS);
	for (unsigned set = 0; set < SETS; set++)
		run_set(&p, set);
	report(&p);
	for (unsigned who = 0; who < BOTH; who++)
		sl_hist_fine_fini(&p.urgent[who]);
}
