/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a worker that has nothing to do polls on for a while before it sleeps: while that is worth
 * it, of late. What polling has found was found earlier by as much as a sleep costs: the wake-up, and
 * the calls that ask for it and look what it was. That weighs some times what polling has cost, with
 * what it did not find. Where nothing is found it is tried now and then only. (As KVM's halt polling
 * grows and shrinks by what it finds.) That is learnt apart for three kinds of idle times, by what is
 * waited for.
 */
#ifndef SL_WORKER_ADAPTIVE_POLL_H
#define SL_WORKER_ADAPTIVE_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/wakeup_cost.h"

enum sl_adaptive_poll_for {
	SL_POLL_CLIENTS,       /* nothing is asked: the next request */
	SL_POLL_REPLIES,       /* what a backend computes, on a processor of its own */
	SL_POLL_LOCAL_THREADS, /* what threads compute that may need this processor */
	SL_POLL_KINDS,
};

enum {
	SL_POLL_ONE_SLEEP = 1 << 12, /* what a sleep costs */
	SL_POLL_MEMORY = 16,         /* idle times */
	SL_POLL_TRIAL = 32,          /* one in so many, where it is not worth it */
	/* Latency weighs more than processor time, our own or that of somebody else. */
	SL_POLL_WEIGHT = 8,
	SL_POLL_WEIGHT_LOCAL_THREADS = 2,
	/* A reply takes about as long as the last ones: for as long as is worth it if it always comes. */
	SL_POLL_REPLY_SLEEPS = SL_POLL_WEIGHT,
	SL_POLL_STEP = 16, /* the median of sleeps follows by a part of itself, and by as many ns */
};

struct sl_adaptive_poll_kind {
	int32_t found, polled; /* averages of what was polled, in sleeps of SL_POLL_ONE_SLEEP */
	uint32_t idles;
};

struct sl_adaptive_poll {
	uint64_t wake_ns;   /* what a wake-up takes; or for how long it polls */
	uint64_t beside_ns; /* what the calls around a sleep take: their median, of late */
	bool always;        /* as an operator has written */
	bool on;            /* this time */
	enum sl_adaptive_poll_for what;
	struct sl_adaptive_poll_kind kinds[SL_POLL_KINDS];
};

static inline void sl_adaptive_poll_init(struct sl_adaptive_poll *s, uint64_t wake_ns, bool always)
{
	*s = (struct sl_adaptive_poll){.wake_ns = wake_ns, .always = always};
	for (unsigned i = 0; i < SL_POLL_KINDS; i++)
		s->kinds[i].found = SL_POLL_ONE_SLEEP;
}

static inline uint64_t sl_adaptive_poll_sleep_ns(const struct sl_adaptive_poll *s)
{
	return s->wake_ns + s->beside_ns;
}

/* For how long it polls at most. */
static inline uint64_t sl_adaptive_poll_max_ns(const struct sl_adaptive_poll *s)
{
	if (s->always)
		return s->wake_ns;
	return sl_adaptive_poll_sleep_ns(s) *
	       (s->what == SL_POLL_REPLIES ? SL_POLL_REPLY_SLEEPS : 1);
}

/* Of an idle time that has begun: whether it still polls after idle_ns of it. */
static inline bool sl_adaptive_poll_on(const struct sl_adaptive_poll *s, uint64_t idle_ns)
{
	return s->on && idle_ns <= sl_adaptive_poll_max_ns(s);
}

/* There is nothing to do, after idle_ns of that. True: it polls. */
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

/* That is over, after idle_ns. */
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

/* It has slept. beside_ns: from its decision until it can work again, less the time asleep. */
static inline void sl_adaptive_poll_slept(struct sl_adaptive_poll *s, uint64_t beside_ns)
{
	uint64_t step_ns = s->beside_ns / SL_POLL_STEP + SL_POLL_STEP;

	/* As of a wake-up: more is a busy machine. */
	if (beside_ns > s->beside_ns && s->beside_ns < SL_WAKEUP_MAX_NS)
		s->beside_ns += step_ns;
	else
		s->beside_ns -= s->beside_ns < step_ns ? s->beside_ns : step_ns;
}

#endif
