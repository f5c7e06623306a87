/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load of the key-value benches: keys, the choice of operations, and the figures of a run. Each
 * connection has one operation in progress; one thread drives all.
 */
#ifndef SL_BENCH_KV_LOAD_H
#define SL_BENCH_KV_LOAD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/rand.h"

enum {
	LOAD_VALUE_LEN = 100,
	LOAD_PUT_EVERY = 20, /* 5 % PUT */
	LOAD_SAMPLES = 1 << 22,
};

static struct {
	struct sl_prng prng;
	unsigned keys;
	uint64_t begin_ns, end_ns; /* of what is counted */
	uint32_t *samples_ns;
	size_t done, errors;
} load;

/* Sets the number of keys: LOAD_KEYS of the environment, or 10,000. */
static inline void load_init(void)
{
	const char *text = getenv("LOAD_KEYS");

	load.keys = text ? (unsigned)atoi(text) : 10000;
	if (!load.keys)
		abort();
}

/* seconds 0: runs until the program ends. */
static inline void load_begin(unsigned seconds)
{
	sl_prng_seed(&load.prng, 1);
	load.samples_ns = malloc(LOAD_SAMPLES * sizeof(uint32_t));
	if (!load.samples_ns)
		abort();
	/* a quarter of the time to warm up */
	load.begin_ns = sl_now_ns() + seconds * SL_NS_PER_SEC / 4;
	load.end_ns = seconds ? load.begin_ns + seconds * SL_NS_PER_SEC : UINT64_MAX;
}

static inline bool load_is_put(void)
{
	return sl_prng_below(&load.prng, LOAD_PUT_EVERY) == 0;
}

static inline int load_key(char *to, size_t len, uint64_t number)
{
	return snprintf(to, len, "key-%012llu", (unsigned long long)number);
}

/* Returns false at the end of the run. */
static inline bool load_count(uint64_t sent_ns, bool ok)
{
	uint64_t now_ns = sl_now_ns(), ns = now_ns - sent_ns;

	load.errors += !ok;
	if (now_ns >= load.begin_ns && now_ns < load.end_ns && load.done < LOAD_SAMPLES)
		load.samples_ns[load.done++] = ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
	return now_ns < load.end_ns;
}

static inline int load_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Prints operations per second, median and 99th percentile in microseconds. */
static inline int load_print(unsigned seconds)
{
	if (!load.done || load.errors) {
		fprintf(stderr, "%zu operations, %zu errors\n", load.done, load.errors);
		return 1;
	}
	qsort(load.samples_ns, load.done, sizeof(uint32_t), load_compare);
	printf("%.0f %.1f %.1f\n", (double)load.done / seconds,
	       load.samples_ns[load.done / 2] / 1000.0,
	       load.samples_ns[load.done / 100 * 99] / 1000.0);
	return 0;
}

/* Prints median and maximum of the first replies' times, in microseconds. */
static inline int load_print_first(uint32_t *ns, unsigned cnt)
{
	if (load.errors) {
		fprintf(stderr, "%zu errors\n", load.errors);
		return 1;
	}
	qsort(ns, cnt, sizeof(*ns), load_compare);
	printf("%.1f %.1f\n", ns[cnt / 2] / 1000.0, ns[cnt - 1] / 1000.0);
	return 0;
}

#endif
