/* SPDX-License-Identifier: Apache-2.0 */
#include "batch/overload.h"

#include <math.h>

#define WINDOW_BOUNDS 3.0
#define WINDOW_MIN_NS 50e6
#define EXCESS        1.02
#define CHANCE        2.0 /* standard deviations */
#define FEWER         0.9 /* relative to earlier arrivals */

enum {
	ROW = 20, /* windows */
	ROW_RELAPSE = 4,
	ROWS_MOST = 8,
};

static double elapsed_ns(const struct sl_overload_mark *m, uint64_t now_ns)
{
	return (double)(now_ns - m->at_ns);
}

static double arrivals_in_row(const struct sl_overload *o, const struct sl_overload_input *in)
{
	return (double)(in->arrivals - o->row.arrivals);
}

static bool demand_exceeds(const struct sl_overload *o, const struct sl_overload_input *in)
{
	double n = arrivals_in_row(o, in);

	return o->could > 0 && n > EXCESS * o->could + CHANCE * sqrt(n);
}

static void begin_row(struct sl_overload *o, const struct sl_overload_input *in, uint64_t now_ns)
{
	o->row = (struct sl_overload_mark){.at_ns = now_ns,
					   .arrivals = in->arrivals,
					   .served = in->served,
					   .queued = in->queued};
	o->could = 0;
	o->drained = !in->late;
}

static void begin_window(struct sl_overload *o, const struct sl_overload_input *in, uint64_t now_ns)
{
	o->window_ns = now_ns;
	o->late = in->late;
}

static void begin_overload(struct sl_overload *o, double served_rate,
			   const struct sl_overload_input *in, uint64_t now_ns)
{
	o->on = true;
	o->rows = 0;
	if (!o->relapse)
		o->rows_to_trial = 1;
	o->served_rate = served_rate;
	begin_row(o, in, now_ns);
}

static void watch_lateness(struct sl_overload *o, const struct sl_overload_input *in,
			   double window_ns, uint64_t now_ns)
{
	o->late |= in->late;
	o->drained |= !in->late;
	o->relapse &= in->late;
	if (!o->window_ns) {
		if (in->late)
			begin_window(o, in, now_ns);
		o->windows = 0;
		return;
	}
	if ((double)(now_ns - o->window_ns) < window_ns)
		return;
	if (!o->late) {
		o->window_ns = 0;
		return;
	}
	begin_window(o, in, now_ns);
	if (o->windows++ == 0) {
		begin_row(o, in, now_ns);
	} else if (demand_exceeds(o, in)) {
		begin_overload(o, 0, in, now_ns);
	} else if (o->windows > (o->relapse ? ROW_RELAPSE : ROW)) {
		double served = (double)(in->served - o->row.served);

		if (!o->drained && in->queued >= o->row.queued && in->served > o->row.served)
			begin_overload(o, served / elapsed_ns(&o->row, now_ns), in, now_ns);
		begin_row(o, in, now_ns);
		o->windows = 1;
	}
}

static void watch_end(struct sl_overload *o, const struct sl_overload_input *in, double window_ns,
		      uint64_t now_ns)
{
	if (elapsed_ns(&o->row, now_ns) < ROW * window_ns)
		return;
	if (arrivals_in_row(o, in) <= o->could) {
		o->on = false;
		o->window_ns = 0;
	} else if (++o->rows >= o->rows_to_trial) {
		o->on = false;
		o->trial = true;
		o->before = arrivals_in_row(o, in) / elapsed_ns(&o->row, now_ns);
	}
	begin_row(o, in, now_ns);
}

static void watch_trial(struct sl_overload *o, const struct sl_overload_input *in, uint64_t now_ns)
{
	double expected = o->before * elapsed_ns(&o->row, now_ns);

	if (elapsed_ns(&o->row, now_ns) < in->bound_ns)
		return;
	o->trial = false;
	o->relapse = true;
	o->on = arrivals_in_row(o, in) > FEWER * expected - CHANCE * sqrt(expected);
	o->window_ns = 0;
	o->rows = 0;
	if (o->rows_to_trial < ROWS_MOST)
		o->rows_to_trial *= 2;
	begin_row(o, in, now_ns);
}

void sl_overload_tick(struct sl_overload *o, const struct sl_overload_input *in, uint64_t now_ns)
{
	double window_ns = fmax(WINDOW_MIN_NS, WINDOW_BOUNDS * in->bound_ns);
	double rate = in->rate;

	if (o->on && o->served_rate > 0)
		rate = fmin(rate, o->served_rate);
	if (o->tick_ns)
		o->could += rate * (double)(now_ns - o->tick_ns);
	o->tick_ns = now_ns;
	if (o->trial)
		watch_trial(o, in, now_ns);
	else if (o->on)
		watch_end(o, in, window_ns, now_ns);
	else
		watch_lateness(o, in, window_ns, now_ns);
}
