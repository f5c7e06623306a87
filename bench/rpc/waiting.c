/* SPDX-License-Identifier: Apache-2.0 */
/* Cost of waiting: CPU time and latency. */
#include <stdio.h>
#include <unistd.h>
#include "ends.h"

enum {
	IDLE_S = 2,
	ROUNDS = 6,
	EVERY_NS = 250000, /* between two requests */
	SMALL_SLOTS = 32,  /* 256 connections fit the memory of a small machine */
	SMALL_BULK = 64 << 10,
};

static double share(uint64_t cpu_ns, uint64_t wall_ns)
{
	return 100 * (double)cpu_ns / (double)wall_ns;
}

void bench_idle(void)
{
	struct bench_gateway g = {.one_class = false};
	pid_t pid = bench_backend_start(false);
	struct sl_adaptive_poll spin = bench_hybrid();
	uint64_t start, until, cpu[2];

	bench_open(&g, 1);
	start = sl_now_ns();
	until = start + IDLE_S * SL_NS_PER_SEC;
	cpu[0] = bench_cpu_ns(0);
	cpu[1] = bench_cpu_ns(pid);
	while (sl_now_ns() < until)
		bench_turn_or_sleep(&g, &spin, until);
	until = sl_now_ns();
	bench_row("idle_cpu_gateway", share(bench_cpu_ns(0) - cpu[0], until - start), "%");
	bench_row("idle_cpu_backend", share(bench_cpu_ns(pid) - cpu[1], until - start), "%");
	bench_close(&g);
	bench_backend_stop(pid);
}

/* AWAITED: spins while a reply is due and sleeps else: about the best for one that sleeps. */
enum wait { SPIN, EVENTS, HYBRID, AWAITED, WAITS };

struct waited {
	struct sl_adaptive_poll spin, *between; /* between: while no reply is due */
	struct sl_hist_fine latency;
	uint64_t cpu_ns, wall_ns;
};

/* One request at a time, now and then, to each channel in turns. */
static void wait_for_requests(struct bench_gateway *g, struct waited *w)
{
	uint64_t start = sl_now_ns(), cpu = bench_cpu_ns(0), next = start;
	uint64_t end = start + 150 * SL_NS_PER_MS * (bench_slow ? 3 : 1), now;
	unsigned turn = 0;
	bool due;

	g->urgent = &w->latency;
	while ((now = sl_now_ns()) < end) {
		if (now >= next && !bench_out(g, BENCH_URGENT)) {
			next = now + EVERY_NS * (bench_slow ? 8U : 1U);
			if (!bench_send(g, turn++ % g->channel_cnt, BENCH_URGENT, 64, 1))
				bench_die("send failed");
		}
		due = bench_out(g, BENCH_URGENT);
		bench_turn_or_sleep(g, due ? &w->spin : w->between, due ? UINT64_MAX : next);
	}
	w->cpu_ns += bench_cpu_ns(0) - cpu;
	w->wall_ns += now - start;
	bench_await(g);
}

static void report(struct waited *w, unsigned channel_cnt)
{
	static const char *const name[WAITS] = {"spin", "events", "hybrid", "awaited"};
	double p50[WAITS], cpu[WAITS];
	char row[64];

	for (unsigned how = 0; how < WAITS; how++) {
		p50[how] = (double)sl_hist_fine_quantile(&w[how].latency, 0.5) / 1e3;
		cpu[how] = share(w[how].cpu_ns, w[how].wall_ns);
		snprintf(row, sizeof(row), "polling_%u_%s_p50", channel_cnt, name[how]);
		bench_row(row, p50[how], "us");
		snprintf(row, sizeof(row), "polling_%u_%s_cpu", channel_cnt, name[how]);
		bench_row(row, cpu[how], "%");
	}
	snprintf(row, sizeof(row), "polling_%u_added_latency", channel_cnt);
	bench_row(row, p50[HYBRID] - p50[SPIN], "us over spinning");
	snprintf(row, sizeof(row), "polling_%u_cpu_over_events", channel_cnt);
	bench_row(row, cpu[HYBRID] / cpu[EVENTS], "times that of events");
}

static void compare_waits(struct bench_gateway *g)
{
	struct waited w[WAITS] = {{.cpu_ns = 0}};

	sl_adaptive_poll_init(&w[SPIN].spin, UINT64_MAX, true);
	sl_adaptive_poll_init(&w[EVENTS].spin, 0, true);
	w[HYBRID].spin = bench_hybrid();
	w[AWAITED].spin = w[SPIN].spin;
	for (unsigned how = 0; how < WAITS; how++) {
		w[how].between = how == AWAITED ? &w[EVENTS].spin : &w[how].spin;
		sl_hist_fine_init(&w[how].latency, SL_HIST_FINE_SUB_BITS);
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned how = 0; how < WAITS; how++)
			wait_for_requests(g, &w[how]);
	}
	report(w, g->channel_cnt);
	for (unsigned how = 0; how < WAITS; how++)
		sl_hist_fine_fini(&w[how].latency);
}

/*
 * The gateway's end waits in four ways in turns; the backend spins, so that nothing else differs.
 */
void bench_polling(void)
{
	static const unsigned channels[] = {1, 16, BENCH_CHANNELS_MAX};
	struct bench_gateway g = {.slots = SMALL_SLOTS, .bulk_len = SMALL_BULK};
	pid_t pid = bench_backend_start(true);

	bench_open(&g, 1);
	for (unsigned i = 0; i < sizeof(channels) / sizeof(channels[0]); i++) {
		bench_dial(&g, channels[i]);
		compare_waits(&g);
	}
	bench_close(&g);
	bench_backend_stop(pid);
}
