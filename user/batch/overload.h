/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects sustained overload: arrivals above the rate that can be served within the latency bound.
 * It is the only reason for bound_mode = soft to refuse a request for the bound.
 *
 *   late        a request that comes now will miss the bound
 *   a window    max(3 bounds, 50 ms). Consecutive windows with something late are a row, at most 20
 *               long. The first window does not count: it has the burst or stall that filled the queue
 *   could       the rate of batches that keep the bound, times time, summed over the ticks
 *
 *   calm -> overloaded   demand: in a row more than 1.02 could arrived, plus 2 sqrt(arrivals); or
 *                        no drain: in a row of 20 all was late, something was served, and the queue
 *                        is no shorter at its end (the rate was wrong; the served rate is used)
 *   overloaded -> calm   in 20 windows no more arrived than could be served; or
 *                        a trial shows that refusals cause the arrivals: none is refused for the bound,
 *                        and arrivals fall below 0.9, by more than chance
 *
 * Stalls fulfil the second condition only if they are so frequent that their queues never drain.
 *
 * Trials are 1, 2, 4 and then 8 times 20 windows apart. This continues if a trial has ended the
 * overload and nothing was in time until it began again; a row of 4 is enough then. Without trials,
 * refused clients that retry at once could keep up an overload.
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
	bool drained;                /* something was not late in this row */
	uint8_t rows, rows_to_trial; /* overload since the last trial, and until the next */
	uint32_t windows;
	uint64_t window_ns;          /* start; 0: nothing is late */
	struct sl_overload_mark row; /* start */
	uint64_t tick_ns;
	double could;       /* capacity of this row */
	double before;      /* arrivals per ns */
	double served_rate; /* found by `no drain`; 0: the rate is right */
};

/* Adds the current counts, and begins or ends an overload or a trial. */
void sl_overload_tick(struct sl_overload *o, const struct sl_overload_input *in, uint64_t now_ns);

#endif
