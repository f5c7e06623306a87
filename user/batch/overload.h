/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects sustained overload: arrivals above the rate that can be served within the latency bound.
 * With a soft bound_mode, only an overload refuses requests for the bound.
 *
 * A request is late if it would miss the bound. Consecutive windows with something late are a row.
 * Its first window, with the burst or stall that filled the queue, does not count. An overload
 * begins if more arrives in a row than could be served, or the queue does not drain. Trials, which
 * refuse nothing, show if refusals cause the arrivals.
 */
#ifndef SL_BATCH_OVERLOAD_H
#define SL_BATCH_OVERLOAD_H

#include <stdbool.h>
#include <stdint.h>

struct sl_overload_input {
	double bound_ns;
	double rate; /* requests per ns; 0: unknown */
	uint64_t arrivals, served;
	uint32_t queued;
	bool late;
};

struct sl_overload_mark {
	uint64_t at_ns, arrivals, served;
	uint32_t queued;
};

struct sl_overload {
	bool on;
	bool trial;   /* suspended for a test */
	bool relapse; /* nothing was in time since the trial */
	bool late;
	bool drained;                /* something was in time in this row */
	uint8_t rows, rows_to_trial; /* overload since the last trial, and until the next */
	uint32_t windows;
	uint64_t window_ns;          /* start; 0: nothing is late */
	struct sl_overload_mark row; /* start */
	uint64_t tick_ns;
	double could;       /* capacity of this row */
	double before;      /* arrivals per ns */
	double served_rate; /* found by `no drain`; 0: the rate is right */
};

/* Updates `on`. Called once per tick of the controller, with rising counts. */
void sl_overload_tick(struct sl_overload *o, const struct sl_overload_input *in, uint64_t now_ns);

#endif
