/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether more comes, for longer, than can be served within the latency bound: the only reason that
 * bound_mode = soft has to refuse a request for the bound.
 *
 *   late        what waits is so much that a request which comes now will miss the bound
 *   a window    max(3 bounds, 50 ms); those in which something was late, one behind the other, are
 *               a row, at most 20 long. The first window is not counted: in it came the burst, or
 *               fell the stall, that made what waits
 *
 *   could       the rate, of batches that keep the bound, times time, as it was at each tick
 *
 *   calm -> overloaded   demand: in a row more than 1.02 could came, and 2 sqrt(arrivals), which may
 *                        be chance, on top; or
 *                        no drain: in a row of 20 all was late, something was served, and at its
 *                        end no less waits (then the rate was not true: that of what was served is)
 *   overloaded -> calm   in 20 windows, late or not, no more came than could be served; or
 *                        they come because they are refused: for a bound nobody is, as a trial, and
 *                        less than 0.9 as many come, by more than chance
 *
 * A stall makes nothing arrive, so it cannot fulfil the first condition; the second one it fulfils
 * only if it comes so often that what it has left behind never goes away. Trials are 1, 2, 4, and then
 * each 8 times 20 windows apart, also if one has ended the overload and nothing was in time until it
 * began again, for which then a row of 4 is enough: more wait for their replies than can have them in
 * time. Without them overload could last for ever after its cause: of clients
 * that wait for their reply no more come than are served, but those that are refused and ask again at
 * once come as often as they like.
 */
#ifndef SL_BATCH_OVERLOAD_H
#define SL_BATCH_OVERLOAD_H

#include <stdbool.h>
#include <stdint.h>

/* Counters since the start, and the state now. */
struct sl_overload_input {
	double bound_ns;
	double rate; /* requests per ns; 0: not known yet */
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
	bool trial;                  /* not on for a moment */
	bool relapse;                /* since it nothing was in time */
	bool late;                   /* seen in this window */
	bool drained;                /* in this row something was not late */
	uint8_t rows, rows_to_trial; /* of overload: since the last trial, and until the next */
	uint32_t windows;            /* ended in a row */
	uint64_t window_ns;          /* where the window began; 0: nothing is late */
	struct sl_overload_mark row; /* where it is counted from */
	uint64_t tick_ns;            /* the last one */
	double could;                /* be served in this row */
	double before;               /* the trial: arrivals per ns */
	double served_rate;          /* found by `no drain`; 0: the rate is true */
};

/* As often as the controller ticks. */
void sl_overload_tick(struct sl_overload *o, const struct sl_overload_input *in, uint64_t now_ns);

#endif
