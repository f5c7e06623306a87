/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measurements of perftest for bare verbs, made for the RPC. A 64-byte request has 64 bytes of
 * payload; the RPC's header (24 bytes, compact form) is not counted.
 */
#include "ends.h"

enum { BULK_64K = 64 << 10, BULK_DEPTH = 16, RATE_DEPTH = 128 };

static void round_trips(struct bench_gateway *g, unsigned rounds, bool polls)
{
	struct sl_adaptive_poll spin = bench_hybrid();

	for (unsigned i = 0; i < rounds; i++) {
		if (!bench_send(g, 0, BENCH_URGENT, 64, 1))
			bench_die("send failed");
		sl_rpc_flush(g->r, g->urgent_sent_ns);
		while (bench_out(g, BENCH_URGENT)) {
			if (polls)
				sl_rpc_poll(g->r, g->urgent_sent_ns);
			else
				bench_turn_or_sleep(g, &spin, UINT64_MAX);
		}
	}
}

static void measure_rtt(const char *const names[3], bool polls)
{
	unsigned rounds = bench_slow ? 3000 : polls ? 200000 : 20000;
	struct bench_gateway g = {.one_class = false};
	struct sl_hist_fine h;
	pid_t pid = bench_backend_start(polls);

	bench_open(&g, 1);
	sl_hist_fine_init(&h, SL_HIST_FINE_SUB_BITS);
	round_trips(&g, rounds / 20, polls);
	g.urgent = &h;
	round_trips(&g, rounds, polls);
	bench_quantile(names[0], &h, 0);
	bench_quantile(names[1], &h, 0.5);
	bench_quantile(names[2], &h, 0.99);
	sl_hist_fine_fini(&h);
	bench_close(&g);
	bench_backend_stop(pid);
}

void bench_rtt(void)
{
	measure_rtt((const char *const[]){"rtt_64B_min", "rtt_64B_p50", "rtt_64B_p99"}, true);
}

void bench_rtt_hybrid(void)
{
	measure_rtt((const char *const[]){"hybrid_64B_min", "hybrid_64B_p50", "hybrid_64B_p99"},
		    false);
}

/*
 * Keeps depth requests under way and returns requests per second: of wall-clock time where perftest
 * is measured so too, else of processor time, since on a busy machine this process waits for its
 * turn.
 */
static double keep_under_way(struct bench_gateway *g, size_t len, unsigned batch, unsigned depth)
{
	struct sl_adaptive_poll spin = bench_hybrid();
	uint64_t start = sl_now_ns(), end = start + SL_NS_PER_SEC, now = start;
	uint64_t cpu = bench_cpu_ns(0), done = g->done[BENCH_PLAIN];

	while (now < end) {
		while (bench_out(g, BENCH_PLAIN) + batch <= depth) {
			if (!bench_send(g, 0, BENCH_PLAIN, len, batch))
				break;
		}
		bench_turn_or_sleep(g, &spin, end);
		now = sl_now_ns();
	}
	done = g->done[BENCH_PLAIN] - done;
	cpu = bench_slow ? now - start : bench_cpu_ns(0) - cpu;
	bench_await(g);
	return (double)done * 1e9 / (double)cpu;
}

void bench_rate(void)
{
	struct bench_gateway g = {.one_class = false};
	pid_t pid = bench_backend_start(false);

	bench_open(&g, 1);
	bench_row("requests_64B", keep_under_way(&g, 64, 1, RATE_DEPTH), "requests/s per core");
	bench_row("requests_64B_batch32", keep_under_way(&g, 64, BENCH_BATCH, 8 * BENCH_BATCH),
		  "requests/s per core");
	bench_close(&g);
	bench_backend_stop(pid);
}

void bench_bulk(void)
{
	struct bench_gateway g = {.one_class = false};
	pid_t pid = bench_backend_start(false);

	bench_open(&g, 1);
	bench_row("bulk_64KiB", keep_under_way(&g, BULK_64K, 1, BULK_DEPTH) * BULK_64K / 1e6,
		  "MB/s");
	bench_close(&g);
	bench_backend_stop(pid);
}
