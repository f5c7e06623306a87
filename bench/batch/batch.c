/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every policy on every pattern of load, with the batcher and the controller of the gateway. Rows:
 * pattern policy goodput p50 p99 mean_batch shed. The last lines are the ratios, and the refusals
 * while backends stood still. best_fixed is perfect hand-tuning: the best of a sweep over sizes and
 * delays for that pattern.
 *
 * Printed figures are means over other seeds than the sweep's, the same for all policies. The best
 * of a hundred on one seed is also the luckiest.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "sim.h"

#define MS 1e6

/*
 * Backends of two scales: batches of 0.6 to 2.5 ms, where a round trip is worth hiding, and six
 * times slower ones.
 */
static const struct sim_setting settings[] = {
	{.name = "",
	 .bound_ns = 5 * MS,
	 .rtt_ns = 0.05 * MS,
	 .noise = 0.03,
	 .max_size = 256,
	 .warm = 20,
	 .run = 420,
	 .seed = 20240601},
	{.name = "_30ms",
	 .bound_ns = 30 * MS,
	 .rtt_ns = 0.05 * MS,
	 .noise = 0.03,
	 .max_size = 256,
	 .warm = 20,
	 .run = 280,
	 .seed = 20240601},
};

/* In latency bounds. The unbatched rate is a fifteenth of what batches of 120 reach. */
#define ALPHA 0.12
#define BETA  0.003
#define ONE   .backends = {{ALPHA, BETA, 0}}, .backend_cnt = 1
/* As a GPU with a bound of 5 ms: 0.30 ms and 1 us per request. */
#define GPU .backends = {{0.06, 0.0002, 0}}, .backend_cnt = 1

/* clang-format off */
static const struct sim_pattern patterns[] = {
	{"constant_1", .load = 0.01, ONE},
	{"constant_20", .load = 0.20, ONE},
	{"constant_60", .load = 0.60, ONE},
	{"constant_90", .load = 0.90, ONE},
	{"constant_110", .load = 1.10, ONE},
	{"bursts", .load = 0.40, .burst = 1.60, .burst_for = 8, .burst_every = 40, ONE},
	{"drift", .load = 0.70, .slow_at = 0.5, .slow_by = 1.6, ONE},
	{"unequal", .load = 0.90,
	 .backends = {{ALPHA, BETA, 0}, {2.5 * ALPHA, 2.5 * BETA, 0}}, .backend_cnt = 2},
	{"patient_90", .load = 0.90, .patient = true, ONE},
	{"patient_110", .load = 1.10, .patient = true, ONE},
	{"patient_150", .load = 1.50, .patient = true, ONE},
	{"gpu_90", .load = 0.90, GPU},
	{"gpu_bursts", .load = 0.40, .burst = 1.60, .burst_for = 8, .burst_every = 40, GPU},
	{"steps", .load = 0.90, .backends = {{ALPHA, BETA, 32}}, .backend_cnt = 1},
};
/* clang-format on */
enum { SEEDS = 6 };
enum { CONSTANT_1, CONSTANT_20, PATTERN_CNT = sizeof(patterns) / sizeof(patterns[0]) };

static const struct sl_cfg_batch adaptive = {.policy = SL_POLICY_ADAPTIVE};
static const struct sl_cfg_batch aimd = {.policy = SL_POLICY_AIMD};
static const struct sl_cfg_batch unbatched = {.policy = SL_POLICY_FIXED, .size = 1};
static const struct sl_cfg_batch undelayed = {.policy = SL_POLICY_FIXED, .size = 256};

static const uint32_t sizes[] = {1,  2,  4,   8,   16,  24,  32,  40,  48,  56,  64,  72, 80,
				 88, 96, 104, 108, 112, 116, 120, 128, 144, 160, 192, 256};
static const double delays[] = {0, 0.04, 0.1, 0.3}; /* in latency bounds */

static void row(const char *pattern, const char *scale, const char *policy,
		const struct sim_result *r)
{
	printf("%s%s\t%s\t%.1f\t%.3f\t%.3f\t%.2f\t%.4f\n", pattern, scale, policy, r->goodput,
	       r->p50_ms, r->p99_ms, r->mean_batch, r->shed);
	fflush(stdout);
}

static void run(const struct sim_setting *s, const struct sim_pattern *p,
		const struct sl_cfg_batch *batch, struct sim_result *out)
{
	if (!sim_run(s, p, batch, out)) {
		fprintf(stderr, "bench: out of memory\n");
		exit(1);
	}
}

/* Means over the seeds that the sweep did not see. */
static void run_all(const struct sim_setting *s, const struct sim_pattern *p,
		    const struct sl_cfg_batch *batch, struct sim_result *out)
{
	*out = (struct sim_result){0};
	for (uint64_t i = 1; i <= SEEDS; i++) {
		struct sim_setting other = *s;
		struct sim_result r;

		other.seed += 100 * i;
		run(&other, p, batch, &r);
		out->goodput += r.goodput / SEEDS;
		out->p50_ms += r.p50_ms / SEEDS;
		out->p99_ms += r.p99_ms / SEEDS;
		out->mean_batch += r.mean_batch / SEEDS;
		out->shed += r.shed / SEEDS;
		out->late += r.late / SEEDS;
	}
}

static struct sl_cfg_batch sweep(const struct sim_setting *s, const struct sim_pattern *p)
{
	struct sl_cfg_batch winner = unbatched;
	double most = -1;

	for (size_t i = 0; i < SL_ARRAY_LEN(sizes); i++) {
		for (size_t k = 0; k < SL_ARRAY_LEN(delays); k++) {
			struct sl_cfg_batch b = {.policy = SL_POLICY_FIXED,
						 .size = sizes[i],
						 .delay_ns = (uint64_t)(delays[k] * s->bound_ns)};
			struct sim_result r;

			run(s, p, &b, &r);
			if (r.goodput > most) {
				most = r.goodput;
				winner = b;
			}
		}
	}
	return winner;
}

struct outcome {
	struct sim_result adaptive, aimd, fixed, unbatched, undelayed;
};

static void one_pattern(const struct sim_setting *s, const struct sim_pattern *p, struct outcome *o)
{
	struct sim_pattern hurried = *p;
	struct sl_cfg_batch best;
	char name[48];

	/* A fixed size has no bound: only their deadlines keep such requests from waiting. */
	hurried.patient = false;
	best = sweep(s, &hurried);
	run_all(s, &hurried, &best, &o->fixed);
	run_all(s, p, &adaptive, &o->adaptive);
	run_all(s, p, &aimd, &o->aimd);
	run_all(s, &hurried, &unbatched, &o->unbatched);
	run_all(s, &hurried, &undelayed, &o->undelayed);
	row(p->name, s->name, "adaptive", &o->adaptive);
	row(p->name, s->name, "aimd", &o->aimd);
	snprintf(name, sizeof(name), "best_fixed(%u,%.1fms)", best.size,
		 (double)best.delay_ns / MS);
	row(p->name, s->name, name, &o->fixed);
	row(p->name, s->name, "unbatched", &o->unbatched);
	row(p->name, s->name, "undelayed", &o->undelayed);
}

static void curves(const char *svg)
{
	/* Typical manual settings: a size with and without a delay. */
	static const struct sl_cfg_batch small = {.policy = SL_POLICY_FIXED, .size = 32},
					 large = {.policy = SL_POLICY_FIXED,
						  .size = 128,
						  .delay_ns = 2500000};
	static const struct sl_cfg_batch *const policies[] = {&adaptive, &aimd, &unbatched, &small,
							      &large};
	static struct sim_curve c[] = {{.policy = "adaptive",
					.meaning = "default of sluice",
					.colour = "#0a7d4b",
					.width = 3},
				       {.policy = "aimd",
					.meaning = "size as in Clipper",
					.colour = "#c2571a",
					.width = 2},
				       {.policy = "no batching",
					.meaning = "one request at a time",
					.colour = "#888888",
					.width = 2},
				       {.policy = "fixed 32",
					.meaning = "up to 32, no delay",
					.colour = "#3563c9",
					.width = 2},
				       {.policy = "fixed 128",
					.meaning = "waits up to 2.5 ms",
					.colour = "#8a4fb0",
					.width = 2}};
	struct sim_setting s = settings[0];
	double loads[32];
	unsigned n = 0;

	s.run = 220;
	for (double load = 0.05; load < 1.405; load += 0.075)
		loads[n++] = load;
	for (unsigned i = 0; i < n; i++) {
		struct sim_pattern p = {.load = loads[i], ONE};

		for (size_t k = 0; k < SL_ARRAY_LEN(c); k++) {
			char name[32];

			run(&s, &p, policies[k], &c[k].at[i]);
			snprintf(name, sizeof(name), "load_%.3f", loads[i]);
			row(name, "", c[k].policy, &c[k].at[i]);
		}
	}
	sim_plot(svg,
		 "Simulation of the gateway's batcher: one backend, a batch of b takes 0.6 ms + "
		 "15 us * b; latency bound 5 ms",
		 loads, n, c, SL_ARRAY_LEN(c), sim_capacity(&s, &(struct sim_pattern){ONE}),
		 s.bound_ns / MS);
}

/*
 * Backends that stand still once a second, at loads that they can serve nevertheless: how many are
 * refused for it, which with a soft bound has to be none.
 */
static void stalls(void)
{
	static const double loads[] = {0.25, 0.5, 0.75, 0.9}, stalls_ms[] = {5, 20, 50};
	static const struct sl_cfg_batch hard = {.policy = SL_POLICY_ADAPTIVE,
						 .bound_mode = SL_BOUND_HARD};

	for (size_t i = 0; i < SL_ARRAY_LEN(settings); i++) {
		struct sim_setting s = settings[i];

		s.run = 10e9 / s.bound_ns;
		for (size_t k = 0; k < SL_ARRAY_LEN(loads) * SL_ARRAY_LEN(stalls_ms); k++) {
			struct sim_pattern p = {.load = loads[k % SL_ARRAY_LEN(loads)],
						.stall_ms = stalls_ms[k / SL_ARRAY_LEN(loads)],
						.stall_every_ms = 1000,
						.patient = true,
						ONE};
			struct sim_result soft, refusing;
			char name[48];

			snprintf(name, sizeof(name), "stall_%.0fms_%.0f", p.stall_ms, 100 * p.load);
			run(&s, &p, &adaptive, &soft);
			run(&s, &p, &hard, &refusing);
			row(name, s.name, "adaptive", &soft);
			row(name, s.name, "adaptive_hard", &refusing);
			printf("count refused %s%s %llu\ncount refused_hard %s%s %llu\n", name,
			       s.name, (unsigned long long)soft.refused, name, s.name,
			       (unsigned long long)refusing.refused);
		}
	}
}

#define LOOP(n, pause)                                                                             \
	.clients = (n), .think = (pause), .retry = 0.02, .patient = true,                          \
	.backends = {{0.1, 0.02, 0}}, .backend_cnt = 1
#define BUSY .slow_share = 0.2, .slow_ms = 10, .pause_ms = 10, .pause_every_ms = 50

/*
 * Closed-loop clients with one request at a time, which retry at once when they are refused:
 * refusals increase the load. A rate that looks too low for a moment, on a host with random pauses,
 * must not refuse them. After a time of overload, with backends four times slower, they must be
 * served as before. Counts refusals in the last quarter.
 */
static void loops(void)
{
	static const struct sim_pattern loops[] = {
		{"loop_12", .clients = 12, .think = 0.25, .retry = 0.25, .patient = true,
		 .backends = {{0.1, 0, 0}}, .backend_cnt = 1, .stall_ms = 150,
		 .stall_every_ms = 400, .slow_share = 0.5, .slow_ms = 15, .pause_ms = 10,
		 .pause_every_ms = 30},
		{"loop_64", LOOP(64, 3), BUSY},
		{"loop_64_too_many", LOOP(64, 0)},
		{"loop_64_slowed", LOOP(64, 2), .slow_at = 0.2, .slow_till = 0.5, .slow_by = 4},
		{"loop_64_slowed_busy", LOOP(64, 3), BUSY, .slow_at = 0.2, .slow_till = 0.5,
		 .slow_by = 4},
	};

	for (size_t i = 0; i < SL_ARRAY_LEN(loops); i++) {
		struct sim_setting s = {.name = "",
					.bound_ns = 20 * MS,
					.rtt_ns = 0.1 * MS,
					.noise = 0.05,
					.max_size = 16,
					.warm = 20,
					.run = 1000};
		uint64_t refused = 0, last = 0;

		for (s.seed = 1; s.seed <= SEEDS; s.seed++) {
			struct sim_result r;

			run(&s, &loops[i], &adaptive, &r);
			row(loops[i].name, s.name, "adaptive", &r);
			refused += r.refused;
			last += r.refused_last;
		}
		printf("count refused %s %llu\ncount refused_last %s %llu\n", loops[i].name,
		       (unsigned long long)refused, loops[i].name, (unsigned long long)last);
	}
}

static void ratios(const char *of,
		   double (*value)(const struct sim_setting *, const struct sim_pattern *,
				   const struct outcome *),
		   struct outcome out[][PATTERN_CNT])
{
	for (size_t i = 0; i < SL_ARRAY_LEN(settings); i++) {
		for (size_t k = 0; k < PATTERN_CNT; k++)
			printf("ratio %s %s%s %.4f\n", of, patterns[k].name, settings[i].name,
			       value(&settings[i], &patterns[k], &out[i][k]));
	}
}

static double over_capacity(const struct sim_setting *s, const struct sim_pattern *p,
			    const struct outcome *o)
{
	return o->adaptive.goodput / sim_capacity(s, p);
}

static double over_fixed(const struct sim_setting *s, const struct sim_pattern *p,
			 const struct outcome *o)
{
	(void)s, (void)p;
	return o->adaptive.goodput / o->fixed.goodput;
}

static double over_undelayed(const struct sim_setting *s, const struct sim_pattern *p,
			     const struct outcome *o)
{
	(void)s, (void)p;
	return o->adaptive.goodput / o->undelayed.goodput;
}

static double p99_over_fixed(const struct sim_setting *s, const struct sim_pattern *p,
			     const struct outcome *o)
{
	(void)s, (void)p;
	return o->adaptive.p99_ms / o->fixed.p99_ms;
}

static double p99_over_undelayed(const struct sim_setting *s, const struct sim_pattern *p,
				 const struct outcome *o)
{
	(void)s, (void)p;
	return o->adaptive.p99_ms / o->undelayed.p99_ms;
}

static double over_aimd(const struct sim_setting *s, const struct sim_pattern *p,
			const struct outcome *o)
{
	(void)s, (void)p;
	return o->adaptive.goodput / o->aimd.goodput;
}

static double p99_over_bound(const struct sim_setting *s, const struct sim_pattern *p,
			     const struct outcome *o)
{
	(void)p;
	return o->adaptive.p99_ms * MS / s->bound_ns;
}

int main(int argc, char **argv)
{
	static struct outcome out[SL_ARRAY_LEN(settings)][PATTERN_CNT];
	const char *only = argc > 2 ? argv[2] : NULL;

	printf("pattern\tpolicy\tgoodput\tp50\tp99\tmean_batch\tshed\n");
	for (size_t i = 0; i < SL_ARRAY_LEN(settings); i++) {
		for (size_t k = 0; k < PATTERN_CNT; k++) {
			if (!only || strcmp(only, patterns[k].name) == 0)
				one_pattern(&settings[i], &patterns[k], &out[i][k]);
		}
	}
	if (!only || strcmp(only, "stalls") == 0)
		stalls();
	if (!only || strcmp(only, "loops") == 0)
		loops();
	if (only)
		return 0;
	if (argc > 1)
		curves(argv[1]);
	printf("ratio p50_over_unbatched constant_1 %.4f\n",
	       out[0][CONSTANT_1].adaptive.p50_ms / out[0][CONSTANT_1].unbatched.p50_ms);
	printf("ratio p50_over_undelayed constant_20 %.4f\n",
	       out[0][CONSTANT_20].adaptive.p50_ms / out[0][CONSTANT_20].undelayed.p50_ms);
	ratios("p99_over_bound", p99_over_bound, out);
	ratios("goodput_over_capacity", over_capacity, out);
	ratios("adaptive_over_best_fixed", over_fixed, out);
	ratios("adaptive_over_undelayed", over_undelayed, out);
	ratios("p99_over_best_fixed", p99_over_fixed, out);
	ratios("p99_over_undelayed", p99_over_undelayed, out);
	ratios("adaptive_over_aimd", over_aimd, out);
	return 0;
}
