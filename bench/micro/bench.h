/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of micro benchmarks: "name<TAB>value<TAB>unit" on stdout, one per measurement. A time is the
 * best of many short rounds: what other processes take is in the others.
 */
#ifndef SL_BENCH_MICRO_H
#define SL_BENCH_MICRO_H

#include <stdint.h>
#include <stdio.h>
#include "base/clock.h"

enum { BENCH_ROUNDS = 25 };

typedef void bench_fn(void *ctx);

static inline void bench_row(const char *name, double value, const char *unit)
{
	printf("%s\t%.4g\t%s\n", name, value, unit);
	fflush(stdout);
}

/* Runs fn(ctx), which does `ops` operations, and prints nanoseconds per operation. */
static inline void bench_time(const char *name, bench_fn *fn, void *ctx, uint64_t ops)
{
	uint64_t best_ns = UINT64_MAX;

	fn(ctx); /* warm */
	for (int i = 0; i < BENCH_ROUNDS; i++) {
		uint64_t start_ns = sl_now_ns(), took_ns;

		fn(ctx);
		took_ns = sl_now_ns() - start_ns;
		best_ns = took_ns < best_ns ? took_ns : best_ns;
	}
	bench_row(name, (double)best_ns / (double)ops, "ns/op");
}

#endif
