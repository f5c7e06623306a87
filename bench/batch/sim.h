/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A discrete-event simulation around the gateway's own batcher and controller: requests arrive,
 * synthetic backends compute batches one after the other, replies come back. Time is simulated, so
 * a run is as exact as it is repeatable.
 *
 *   arrivals -> sl_batcher (user/batch) -> rtt/2 -> backend: alpha + beta*b, or steps -> rtt/2 ->
 */
#ifndef SL_BENCH_BATCH_SIM_H
#define SL_BENCH_BATCH_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include "config/config.h"

enum { SIM_BACKENDS = 2, SIM_CLIENTS = 64 };

/* Cost of a batch. Times of patterns and backends are in latency bounds. */
struct sim_backend {
	double alpha, beta;
	uint32_t step; /* > 0: sizes are rounded up to a multiple */
};

struct sim_pattern {
	const char *name;
	double load;  /* relative to the capacity */
	double burst; /* > 0: load during bursts */
	double burst_for, burst_every;
	double stall_ms, stall_every_ms; /* > 0: all backends stand still for so long, so often */
	bool patient;                    /* clients without a deadline of their own */
	uint32_t clients;    /* > 0: each has one request at a time, instead of `load` */
	double think, retry; /* pause behind a reply, behind a refusal; exponential, in bounds */
	/* A busy host: a part of all batches takes longer, and the gateway stands still. */
	double slow_share, slow_ms, pause_ms, pause_every_ms;
	double slow_at, slow_by; /* > 0: the backends are slower from that share of the run on */
	double slow_till;        /* > 0: and to that one */
	struct sim_backend backends[SIM_BACKENDS];
	uint32_t backend_cnt;
};

struct sim_setting {
	const char *name;
	double bound_ns, rtt_ns, noise; /* noise: standard deviation, of the service time */
	uint32_t max_size;
	double warm, run; /* in latency bounds */
	uint64_t seed;
};

struct sim_result {
	double goodput; /* replies within the bound per second */
	double p50_ms, p99_ms;
	double mean_batch;
	double shed;           /* share of the requests without a reply */
	double late;           /* share of the requests with a late one */
	uint64_t refused_last; /* in the last quarter of the run */
	uint64_t refused;      /* requests, from the beginning of the run on */
};

/* Requests per second of the largest batches that keep the bound, one behind the other. */
double sim_capacity(const struct sim_setting *s, const struct sim_pattern *p);
/* The mean arrival rate. */
double sim_offered(const struct sim_setting *s, const struct sim_pattern *p);
/* false: out of memory. */
bool sim_run(const struct sim_setting *s, const struct sim_pattern *p,
	     const struct sl_cfg_batch *batch, struct sim_result *out);

/* plot.c: both curves over the offered load, one line per policy. */
struct sim_curve {
	const char *policy, *meaning, *colour;
	int width;
	struct sim_result at[64];
};
void sim_plot(const char *file, const char *title, const double *loads, unsigned load_cnt,
	      const struct sim_curve *curves, unsigned curve_cnt, double capacity, double bound_ms);

#endif
