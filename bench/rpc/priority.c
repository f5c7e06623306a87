/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two gateways to one backend, one with classes and one with a FIFO, in turns of a fraction of a
 * second: the machine's speed varies more, and faster, than the difference is. The order of turns
 * varies, too. Channels are recreated now and then, since memory placement matters.
 *
 * A spinning end that loses its CPU stops the other one as soon as the ring is full, or the cap
 * reached; its length is measured then. Over shared memory only pairs of turns without interruption
 * count, if there are enough of them. (Turns over soft-RoCE are too long for that.)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "ends.h"

enum {
	BULK_DEPTH = 4, /* as much as the ring takes: it never runs dry */
	EVERY_NS = 200000,
	SETS = 4,
	TURNS = 150, /* per configuration and set */
	TURNS_SLOW = 4,
	TURN_MS = 4,
	TURN_SLOW_MS = 1000,
	PAIRS = SETS * TURNS,
	PAIRS_ENOUGH = 40,
	SET_NS = 2000000000, /* a busy machine gets fewer turns */
};

enum { FIFO, CLASSES, BOTH };

struct pair {
	double rate[BOTH], cpu[BOTH];
	unsigned interrupts;
};

struct priorities {
	bool alone; /* nothing urgent is about */
	/* [1]: of undisturbed pairs only */
	struct sl_hist_fine urgent[2][BOTH];
	struct pair pairs[PAIRS];
	unsigned pair_cnt, quiet_cnt;
};

/* How often a process had its processor taken away. */
static unsigned interrupts_of(pid_t pid)
{
	static const char key[] = "nonvoluntary_ctxt_switches:";
	char path[64], line[128];
	unsigned cnt = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, sizeof(key) - 1) == 0)
			cnt = (unsigned)strtoul(line + sizeof(key) - 1, NULL, 10);
	}
	fclose(f);
	return cnt;
}

static unsigned interrupts(pid_t backend)
{
	return interrupts_of(getpid()) + interrupts_of(backend);
}

/* One turn; bytes per second. *cpu: processor seconds of both ends, per GB. */
static double saturate(struct bench_gateway *g, pid_t backend, bool alone, double *cpu)
{
	uint64_t start = sl_now_ns(), next = start, now, bytes = g->done[BENCH_BULK];
	uint64_t end = start + SL_NS_PER_MS * (bench_slow ? TURN_SLOW_MS : TURN_MS);
	uint64_t cpu_ns = bench_cpu_ns(0) + bench_cpu_ns(backend);

	while ((now = sl_now_ns()) < end || bench_out(g, BENCH_BULK)) {
		while (now < end && bench_out(g, BENCH_BULK) < BULK_DEPTH &&
		       bench_send(g, 0, BENCH_BULK, BENCH_BULK_LEN, 1))
			;
		if (!alone && now < end && now >= next && !bench_out(g, BENCH_URGENT)) {
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
	unsigned n = p->pair_cnt++, first = n % 2;
	struct pair *pair = &p->pairs[n];
	struct sl_hist_fine urgent[BOTH];

	pair->interrupts = interrupts(backend);
	for (unsigned i = 0; i < BOTH; i++) {
		unsigned who = (first + i) % BOTH;

		sl_hist_fine_init(&urgent[who], SL_HIST_FINE_SUB_BITS);
		g[who].urgent = &urgent[who];
		pair->rate[who] = saturate(&g[who], backend, p->alone, &pair->cpu[who]);
	}
	pair->interrupts = interrupts(backend) - pair->interrupts;
	p->quiet_cnt += !pair->interrupts;
	for (unsigned who = 0; who < BOTH; who++) {
		sl_hist_fine_merge(&p->urgent[0][who], &urgent[who]);
		if (!pair->interrupts)
			sl_hist_fine_merge(&p->urgent[1][who], &urgent[who]);
		sl_hist_fine_fini(&urgent[who]);
	}
}

static void run_set(struct priorities *p, unsigned set)
{
	struct bench_gateway g[BOTH] = {[FIFO] = {.one_class = true}};
	pid_t pid = bench_backend_start(true);
	uint64_t until;

	for (unsigned i = 0; i < BOTH; i++) {
		unsigned who = (set + i) % BOTH;
		double warm;

		bench_open(&g[who], 1);
		/* Touches the rings for the first time. */
		(void)saturate(&g[who], pid, p->alone, &warm);
	}
	until = sl_now_ns() + SET_NS;
	for (unsigned i = 0; i < (bench_slow ? TURNS_SLOW : TURNS); i++) {
		run_pair(p, g, pid);
		if (!bench_slow && sl_now_ns() > until)
			break;
	}
	for (unsigned i = 0; i < BOTH; i++)
		bench_close(&g[i]);
	bench_backend_stop(pid);
}

/* Medians over the pairs that count. */
static void report_medians(const struct priorities *p, bool quiet)
{
	static const char *const name[BOTH] = {"fifo", "classes"};
	const char *what = p->alone ? "alone" : "bulk";
	static double v[6][PAIRS];
	unsigned cnt = 0;
	char row[64];

	for (unsigned i = 0; i < p->pair_cnt; i++) {
		const struct pair *pair = &p->pairs[i];

		if (quiet && pair->interrupts)
			continue;
		for (unsigned who = 0; who < BOTH; who++) {
			v[who][cnt] = pair->rate[who] / 1e6;
			v[2 + who][cnt] = pair->cpu[who];
		}
		v[4][cnt] = pair->rate[CLASSES] / pair->rate[FIFO];
		v[5][cnt++] = pair->cpu[CLASSES] / pair->cpu[FIFO];
	}
	for (unsigned who = 0; who < BOTH; who++) {
		snprintf(row, sizeof(row), "%s_1MiB_%s", what, name[who]);
		bench_row(row, bench_median(v[who], cnt), "MB/s");
		snprintf(row, sizeof(row), "%s_1MiB_%s_cpu", what, name[who]);
		bench_row(row, bench_median(v[2 + who], cnt), "s/GB, both ends");
	}
	snprintf(row, sizeof(row), "%s_classes_over_fifo", what);
	bench_row(row, bench_median(v[4], cnt), "times");
	snprintf(row, sizeof(row), "%s_cpu_classes_over_fifo", what);
	bench_row(row, bench_median(v[5], cnt), "times");
}

static void report_urgent(struct priorities *p, bool quiet)
{
	struct sl_hist_fine *fifo = &p->urgent[quiet][FIFO], *classes = &p->urgent[quiet][CLASSES];

	bench_quantile("urgent_p50_fifo", fifo, 0.5);
	bench_quantile("urgent_p99_fifo", fifo, 0.99);
	bench_quantile("urgent_p50_classes", classes, 0.5);
	bench_quantile("urgent_p99_classes", classes, 0.99);
	bench_row("urgent_p99_fifo_over_classes",
		  (double)sl_hist_fine_quantile(fifo, 0.99) /
			  (double)sl_hist_fine_quantile(classes, 0.99),
		  "times");
}

static void report(struct priorities *p)
{
	bool quiet = p->quiet_cnt >= PAIRS_ENOUGH;

	bench_row(p->alone ? "alone_pairs" : "priority_pairs", quiet ? p->quiet_cnt : p->pair_cnt,
		  quiet ? "undisturbed ones" : "some disturbed");
	if (!p->alone)
		report_urgent(p, quiet);
	report_medians(p, quiet);
}

static void compare(bool alone)
{
	static struct priorities p;

	p.alone = alone;
	for (unsigned i = 0; i < 2 * BOTH; i++)
		sl_hist_fine_init(&p.urgent[i / BOTH][i % BOTH], SL_HIST_FINE_SUB_BITS);
	for (unsigned set = 0; set < SETS; set++)
		run_set(&p, set);
	report(&p);
	for (unsigned i = 0; i < 2 * BOTH; i++)
		sl_hist_fine_fini(&p.urgent[i / BOTH][i % BOTH]);
}

void bench_priority(void)
{
	compare(false);
}

/* Cost of classes without urgent messages. */
void bench_alone(void)
{
	compare(true);
}
