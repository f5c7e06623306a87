/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of which there are many at once, of virtual.c, and of connect.c for an older commit: one thread carries requests, as a worker
 * does, and another one dials.
 */
#ifndef BENCH_CONNECT_CROWD_H
#define BENCH_CONNECT_CROWD_H

#include "ends.h"

enum { ENDPOINT_LEN = 64 };

/* Names the next endpoint without a listener. */
void name_endpoint(char at[ENDPOINT_LEN], const char *scheme);

/*
 * Forks the process that starts backends later, before this one has threads and frame memory.
 * Programs are loaded in advance, so their start is not measured.
 */
void open_nursery(void);

/* Returns milliseconds from the start of CNT backends until they listen, without connections. */
double start_up(struct sl_rpc_channel *hot, const char *scheme, unsigned cnt);

/* Milliseconds until CNT backends, from their start, have served a request each, beside `hot`'s. */
double bootstrap(struct sl_rpc_channel *hot, const char *scheme, unsigned cnt);

/*
 * Two CPUs: a worker has a core of its own, and other backends are on other hosts. A lack of CPUs
 * must not be measured.
 */
enum { HOT_CPU, OTHERS_CPU };
void keep_process_to(unsigned cpu, pid_t pid);

/*
 * Load beside the measurement: connections to endpoints, one after the other; or requests by
 * connected carriers, one of them each every_us.
 */
struct beside {
	const char (*endpoints)[ENDPOINT_LEN];
	struct sl_rpc_channel **carriers; /* instead of endpoints */
	unsigned cnt;                     /* number of either */
	double every_us;
};

/*
 * Round trips of `hot` while a thread on OTHERS_CPU sees to that; without any it only keeps that
 * processor busy, for an emulated one is slower when the other one has work. The time per connection,
 * or per request.
 */
double measure_hot(struct sl_rpc_channel *hot, const struct beside *b, double *us, unsigned us_cnt);

/* The share of dials that come through while the handler of the only backend there computes. */
double share_at_busy(const char *scheme);

#endif
