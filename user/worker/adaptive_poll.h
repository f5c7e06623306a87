/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides if an idle worker polls before it sleeps: while saved wake-ups and system calls,
 * weighted, exceed the time spent; else in trials. Worker.
 */
#ifndef SL_WORKER_ADAPTIVE_POLL_H
#define SL_WORKER_ADAPTIVE_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/wakeup_cost.h"

enum sl_adaptive_poll_for {
	SL_POLL_CLIENTS,       /* next request */
	SL_POLL_REPLIES,       /* reply of a backend on another processor */
	SL_POLL_LOCAL_THREADS, /* threads that may need this processor */
	SL_POLL_KINDS,
};

enum {
	SL_POLL_ONE_SLEEP = 1 << 12, /* unit of cost */
	SL_POLL_MEMORY = 16,         /* idle times averaged */
	SL_POLL_TRIAL = 32,          /* polls at least one idle time in so many */
	/* Latency over processor time. */
	SL_POLL_WEIGHT = 8,
	SL_POLL_WEIGHT_LOCAL_THREADS = 2,
	/* Replies: as long as polling pays if they always come. */
	SL_POLL_REPLY_SLEEPS = SL_POLL_WEIGHT,
	SL_POLL_STEP = 16, /* the median moves by this part, plus as many ns */
};

struct sl_adaptive_poll_kind {
	int32_t found, polled; /* averages: found something, time */
	uint32_t idles;
};

struct sl_adaptive_poll {
	uint64_t wake_ns;   /* wake-up latency, or configured polling time */
	uint64_t beside_ns; /* median of system calls around a sleep */
	bool always;        /* configured */
	bool on;
	enum sl_adaptive_poll_for what;
	struct sl_adaptive_poll_kind kinds[SL_POLL_KINDS];
};

/* Starts as if polling had always found something. `always`: polls for wake_ns. */
static inline void sl_adaptive_poll_init(struct sl_adaptive_poll *s, uint64_t wake_ns, bool always)
{
	*s = (struct sl_adaptive_poll){.wake_ns = wake_ns, .always = always};
	for (unsigned i = 0; i < SL_POLL_KINDS; i++)
		s->kinds[i].found = SL_POLL_ONE_SLEEP;
}

/* Returns the cost of one sleep. */
static inline uint64_t sl_adaptive_poll_sleep_ns(const struct sl_adaptive_poll *s)
{
	return s->wake_ns + s->beside_ns;
}

/* Returns the longest time to poll. */
static inline uint64_t sl_adaptive_poll_max_ns(const struct sl_adaptive_poll *s)
{
	if (s->always)
		return s->wake_ns;
	return sl_adaptive_poll_sleep_ns(s) *
	       (s->what == SL_POLL_REPLIES ? SL_POLL_REPLY_SLEEPS : 1);
}

/* Returns true to go on polling after idle_ns. */
static inline bool sl_adaptive_poll_on(const struct sl_adaptive_poll *s, uint64_t idle_ns)
{
	return s->on && idle_ns <= sl_adaptive_poll_max_ns(s);
}

/* Begins an idle time, idle_ns ago. Returns true if the worker polls. */
static inline bool sl_adaptive_poll_begin(struct sl_adaptive_poll *s,
					  enum sl_adaptive_poll_for what, uint64_t idle_ns)
{
	struct sl_adaptive_poll_kind *k = &s->kinds[what];
	int32_t weight =
		what == SL_POLL_LOCAL_THREADS ? SL_POLL_WEIGHT_LOCAL_THREADS : SL_POLL_WEIGHT;
	bool worth = s->always || k->found * weight >= k->polled || ++k->idles % SL_POLL_TRIAL == 0;

	s->what = what;
	s->on = worth;
	return s->on = sl_adaptive_poll_on(s, idle_ns);
}

/* Ends the idle time, and learns. `found`: something came. */
static inline void sl_adaptive_poll_end(struct sl_adaptive_poll *s, bool found, uint64_t idle_ns)
{
	struct sl_adaptive_poll_kind *k = &s->kinds[s->what];
	uint64_t most_ns = sl_adaptive_poll_max_ns(s);
	uint64_t polled_ns = idle_ns < most_ns ? idle_ns : most_ns;

	if (s->on && s->wake_ns && !s->always) {
		k->found += ((found ? SL_POLL_ONE_SLEEP : 0) - k->found) / SL_POLL_MEMORY;
		k->polled +=
			((int32_t)(polled_ns * SL_POLL_ONE_SLEEP / sl_adaptive_poll_sleep_ns(s)) -
			 k->polled) /
			SL_POLL_MEMORY;
	}
	s->on = false;
}

/* Records a sleep. beside_ns: from the decision until the worker runs, less the time asleep. */
static inline void sl_adaptive_poll_slept(struct sl_adaptive_poll *s, uint64_t beside_ns)
{
	uint64_t step_ns = s->beside_ns / SL_POLL_STEP + SL_POLL_STEP;

	/* More than a wake-up can cost means a busy machine. */
	if (beside_ns > s->beside_ns && s->beside_ns < SL_WAKEUP_MAX_NS)
		s->beside_ns += step_ns;
	else
		s->beside_ns -= s->beside_ns < step_ns ? s->beside_ns : step_ns;
}

#endif
