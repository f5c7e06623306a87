/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of which there are many at once, of virtual.c, and of connect.c for an older commit: one thread carries requests, as a worker
 * does, and another one dials.
 */
#ifndef BENCH_CONNECT_CROWD_H
#define BENCH_CONNECT_CROWD_H

#include "ends.h"

enum { ENDPOINT_LEN = 64 };

/* The next one that nobody has listened on. */
void name_endpoint(char at[ENDPOINT_LEN], const char *scheme);

/*
 * Forks the process that starts backends later on: before this one has threads and frame memory. What
 * it starts has been loaded, so that the start of a program is not measured.
 */
void open_nursery(void);

/* Milliseconds until CNT backends, from their start, listen, while nobody connects to them. */
double start_up(struct sl_rpc_channel *hot, const char *scheme, unsigned cnt);

/* Milliseconds until CNT backends, from their start, have served a request each, beside `hot`'s. */
double bootstrap(struct sl_rpc_channel *hot, const char *scheme, unsigned cnt);

/*
 * Of two, as a worker has a core of its own, and other backends are on other hosts: what is to be
 * measured is not that there are too few processors.
 */
enum { HOT_CPU, OTHERS_CPU };
void keep_process_to(unsigned cpu, pid_t pid);

/*
 * What goes on beside: connections to endpoints, one behind the other; or requests by carriers, which
 * are connected, one of them each every_us.
 */
struct beside {
	const char (*endpoints)[ENDPOINT_LEN];
	struct sl_rpc_channel **carriers; /* instead of endpoints */
	unsigned cnt;                     /* of either */
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
